"""No session outlives the command that started it, even if that command was killed, or its whole machine."""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchstudy.model.machine import place

CONTROLLER_PID = "BENCHSTUDY_CONTROLLER_PID"
_PLACE = "BENCHSTUDY_CONTROLLER_PLACE"
# For jobs on another machine, which see the command's folder but not its process.
_BEAT = "BENCHSTUDY_CONTROLLER_BEAT"
_RUN = "BENCHSTUDY_CONTROLLER_RUN"
_LEASE = "BENCHSTUDY_CONTROLLER_LEASE"
_BEATS_PER_LEASE = 6


def announce_controller(beat: Path, lease_s: float) -> None:
    """Called once by the process whose end must end everything that it started.

    It renews the file `beat`, which holds its run's id. Jobs on other machines end when the file is not renewed for
    `lease_s`, or when another run has replaced it.
    """
    if CONTROLLER_PID in os.environ:
        return
    run = os.urandom(16).hex()
    os.environ |= {CONTROLLER_PID: str(os.getpid()), _PLACE: place()}
    os.environ |= {_BEAT: str(beat.absolute()), _RUN: run, _LEASE: str(lease_s)}
    beat.parent.mkdir(parents=True, exist_ok=True)
    beat.write_text(run)

    def renew() -> None:
        while True:
            time.sleep(lease_s / _BEATS_PER_LEASE)
            with suppress(OSError):  # such as a file system that is away: then jobs elsewhere cannot work either
                os.utime(beat)

    threading.Thread(target=renew, daemon=True).start()


def controller_is_here() -> bool:
    """Whether there is an announced controller and its process id is valid on this machine."""
    return CONTROLLER_PID in os.environ and os.environ.get(_PLACE, place()) == place()


def controlled_by_this_process() -> dict[str, str]:
    """The environment of what must end with this process, even if another process announced itself before."""
    return {CONTROLLER_PID: str(os.getpid()), _PLACE: place()}


def end_jobs_elsewhere() -> None:
    """Called by the announced controller on a Ctrl-C, which no terminal sends to its jobs on other machines."""
    if beat := os.environ.get(_BEAT):
        with suppress(OSError):
            Path(beat).write_text("ended")


def heard_elsewhere() -> bool:
    """Whether this is another machine than the announced controller's, and the controller is heard; takes a beat.

    Raises BenchstudyError when it is no longer heard.
    """
    controller = _controller()
    if not isinstance(controller, _Beat):
        return False
    if not controller.is_heard():
        from benchstudy.model.errors import BenchstudyError  # every job imports this file before it is handed over

        raise BenchstudyError(
            f"{os.environ[_BEAT]}: the command on the other machine renews it no longer: that command has ended, or "
            f"{socket.gethostname()} sees another copy of the project's folder, which all nodes must share"
        )
    return True


def watched_controller() -> Callable[[], bool]:
    """A function that says whether the announced controller has gone, to be called repeatedly; it needs no thread.

    Raises KeyboardInterrupt when it is gone already.
    """
    controller = _controller()
    return controller.has_gone if controller else lambda: False


@contextmanager
def ends_with_controller() -> Iterator[None]:
    """Interrupt this process when the announced controller goes away: kill -9 runs no handler of its own."""
    controller = _controller()
    if controller is None:
        yield
        return
    stop_read, stop_write = os.pipe()

    def watch() -> None:
        if controller.goes_before(stop_read):
            os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.write(stop_write, b"x")
        watcher.join()
        controller.close()
        os.close(stop_read)
        os.close(stop_write)


def _controller() -> "_Process | _Beat | None":
    """The announced one; None if there is none or it is this process. Raises KeyboardInterrupt when it is gone."""
    pid = int(os.environ.get(CONTROLLER_PID, "0"))
    here = controller_is_here()
    if not pid or (here and pid == os.getpid()):
        return None
    if not here:
        return _Beat(Path(os.environ[_BEAT]), os.environ[_RUN], float(os.environ[_LEASE]))
    try:
        return _Process(os.pidfd_open(pid))
    except ProcessLookupError:
        raise KeyboardInterrupt from None


class _Process:
    """A controller on this machine."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor  # becomes readable when it has ended

    def has_gone(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def goes_before(self, stop: int) -> bool:
        """Wait until it has gone or `stop` becomes readable; returns whether it has gone."""
        return self._descriptor in select.select([self._descriptor, stop], [], [])[0]

    def close(self) -> None:
        os.close(self._descriptor)


class _Beat:
    """A controller on another machine, timed by this machine's monotonic clock, because the other clock may differ."""

    def __init__(self, file: Path, run: str, lease_s: float):
        self._file, self._run, self._lease_s = file, run, lease_s
        self._told, self._heard = 0, time.monotonic()

    def has_gone(self) -> bool:
        with suppress(OSError), self._file.open() as file:  # opening makes a network file system ask its server
            now, run = os.fstat(file.fileno()).st_mtime_ns, file.read()
            if run and run != self._run:  # for example, this job waited in a queue while its command was killed
                return True
            if now != self._told:
                self._told, self._heard = now, time.monotonic()
        return time.monotonic() - self._heard > self._lease_s

    def is_heard(self) -> bool:
        """Wait until a beat comes or it has gone."""
        gone, first = self.has_gone(), self._told
        while not gone and self._told == first:
            time.sleep(self._lease_s / _BEATS_PER_LEASE / 2)
            gone = self.has_gone()
        return not gone

    def goes_before(self, stop: int) -> bool:
        """As for a process."""
        while not select.select([stop], [], [], self._lease_s / _BEATS_PER_LEASE)[0]:
            if self.has_gone():
                return True
        return False

    def close(self) -> None:
        pass
