"""No session outlives the command which asked for it, even one that was killed outright."""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CONTROLLER_PID = "BENCHSTUDY_CONTROLLER_PID"


def announce_controller() -> None:
    """Called once by the process whose end is the end of everything it started."""
    os.environ.setdefault(CONTROLLER_PID, str(os.getpid()))


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
