"""One controller a project, and no session that outlives the command which asked for it, even one killed outright."""

import fcntl
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError

CONTROLLER_PID = "BENCHSTUDY_CONTROLLER_PID"


def announce_controller() -> None:
    """Called once by the process whose end is the end of everything it started."""
    os.environ.setdefault(CONTROLLER_PID, str(os.getpid()))


def hold_project() -> None:
    """Lock the project for as long as this process lives. Raises BenchstudyError that names who holds it.

    Snakemake's own lock outlives a killed Snakemake and then needs a person; this one goes with its process.
    """
    path = paths.local_state(Path.cwd()) / "controller.lock"
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # open until the process ends, and not inherited
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 100).decode().strip()
        raise BenchstudyError(f"process {owner} is already working in this project; wait for it, or end it") from None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


@contextmanager
def ends_with_controller() -> Iterator[None]:
    """Interrupt this process when the announced controller goes away: kill -9 runs no handler of its own."""
    pid = int(os.environ.get(CONTROLLER_PID, "0"))
    if not pid or pid == os.getpid():
        yield
        return
    try:
        controller = os.pidfd_open(pid)
    except ProcessLookupError:  # gone already
        raise KeyboardInterrupt from None
    stop_read, stop_write = os.pipe()

    def watch() -> None:
        ready, _, _ = select.select([controller, stop_read], [], [])
        if controller in ready:
            os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.write(stop_write, b"x")
        watcher.join()
        for descriptor in (controller, stop_read, stop_write):
            os.close(descriptor)
