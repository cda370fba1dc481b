"""No session outlives the command which asked for it, even one that was killed outright, or its whole machine."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONTROLLER_PID = "BENCHSTUDY_CONTROLLER_PID"
_PLACE = "BENCHSTUDY_CONTROLLER_PLACE"
_BEAT = "BENCHSTUDY_CONTROLLER_BEAT"
# For jobs on another machine, which see the command's folder and not its process.
BEAT_S = 5.0
LOST_AFTER_S = 30.0


def announce_controller(beat: Path) -> None:
    """Called once by the process whose end is the end of everything it started. It renews the file `beat` meanwhile."""
    if CONTROLLER_PID in os.environ:
        return
    os.environ |= {CONTROLLER_PID: str(os.getpid()), _PLACE: _place(), _BEAT: str(beat.absolute())}
    beat.parent.mkdir(parents=True, exist_ok=True)
    beat.touch()

    def renew() -> None:
        while True:
            time.sleep(BEAT_S)
            with suppress(OSError):  # such as a file system that is away: then jobs elsewhere cannot work either
                beat.touch()

    threading.Thread(target=renew, daemon=True).start()


def controller_is_here() -> bool:
    """Whether there is an announced controller whose process id means that process here, too."""
    return CONTROLLER_PID in os.environ and os.environ.get(_PLACE, _place()) == _place()


def controlled_by_this_process() -> dict[str, str]:
    """Environment of what is to end with this process, whoever announced itself before."""
    return {CONTROLLER_PID: str(os.getpid()), _PLACE: _place()}


def watched_controller() -> Callable[[], bool]:
    """What says whether the announced controller has gone; to be asked again and again, without a thread.

    Raises KeyboardInterrupt when it is gone already.
    """
    controller = _controller()
    return controller.has_gone if controller else lambda: False


def _place() -> str:
    """This boot of this machine and the namespace of process ids: within one, a number is one process."""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"


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
    """The announced one; None where there is none, or it is this process. Raises KeyboardInterrupt when it is gone."""
    pid = int(os.environ.get(CONTROLLER_PID, "0"))
    here = controller_is_here()
    if not pid or (here and pid == os.getpid()):
        return None
    if not here:
        return _Beat(Path(os.environ[_BEAT]))
    try:
        return _Process(os.pidfd_open(pid))
    except ProcessLookupError:
        raise KeyboardInterrupt from None


class _Process:
    """A controller of this machine."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor  # can be read when it has ended

    def has_gone(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def goes_before(self, stop: int) -> bool:
        """Wait until it has gone, or there is something to read from `stop`."""
        return self._descriptor in select.select([self._descriptor, stop], [], [])[0]

    def close(self) -> None:
        os.close(self._descriptor)


class _Beat:
    """Of a controller elsewhere, by this machine's steady clock: that of the other one may differ."""

    def __init__(self, file: Path):
        self._file, self._told, self._heard = file, 0, time.monotonic()

    def has_gone(self) -> bool:
        with suppress(OSError), self._file.open() as file:  # opened: a network file system asks its server then
            now = os.fstat(file.fileno()).st_mtime_ns
            if now != self._told:
                self._told, self._heard = now, time.monotonic()
        return time.monotonic() - self._heard > LOST_AFTER_S

    def goes_before(self, stop: int) -> bool:
        """As of a process."""
        while not select.select([stop], [], [], min(BEAT_S, LOST_AFTER_S / 4))[0]:
            if self.has_gone():
                return True
        return False

    def close(self) -> None:
        pass
