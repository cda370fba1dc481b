"""Which tests run side by side: as many as there are processors, more while processors are idle, or one alone.

Many tests wait for servers or for timed loads; others compute all the time. A fixed number of workers would leave
processors idle among the first, and let the second disturb each other.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_PLACES = os.cpu_count() or 1
# A worker without a place begins tests while this share of one processor was idle in the window before.
_IDLE, _WINDOW_S = 0.4, 0.5
# For so long, it does not look again: short tests would wait for longer than they run.
_GRANTED_S = 2.0


@contextmanager
def shared_or_alone(folder: Path, alone: bool) -> Iterator[None]:
    """Wait until the machine has room for one more test (`alone`: until no other test runs), and keep it so during the
    block.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        open(folder / "tests-gate.lock", "a") as gate,
        open(folder / "tests.lock", "a") as machine,
        open(folder / "tests-places.lock", "a") as places,
    ):
        if not alone:
            _room.wait(places)
        # A test that waits to be alone holds the gate, so that no new test starts before it.
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(machine, fcntl.LOCK_UN)  # closing is not enough: a child that a test forked has it open


@contextmanager
def first_alone(marker: Path) -> Iterator[None]:
    """Let one process through the block, then all others of this run side by side. `marker`: a file of this run."""
    with open(marker, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        first = os.fstat(file.fileno()).st_size == 0
        if not first:
            fcntl.flock(file, fcntl.LOCK_UN)
        yield
        if first:
            file.write("passed\n")


class _Room:
    """Room for one more test of this worker."""

    def __init__(self) -> None:
        self._granted_until = 0.0

    def wait(self, places: IO[str]) -> None:
        """Take a place, which ends when `places` is closed, or wait until processors are idle."""
        if time.monotonic() < self._granted_until:
            return
        fcntl.lockf(places, fcntl.LOCK_EX, 1, _PLACES)  # workers wait in turn, so that none waits for long
        began, idle_then = time.monotonic(), _idle_s()
        while not _takes_place(places):
            now = time.monotonic()
            if now - began >= _WINDOW_S:
                idle = _idle_s()
                if idle - idle_then >= _IDLE * (now - began):
                    self._granted_until = now + _GRANTED_S
                    break
                began, idle_then = now, idle
            time.sleep(0.005)
        fcntl.lockf(places, fcntl.LOCK_UN, 1, _PLACES)


_room = _Room()


def _takes_place(places: IO[str]) -> bool:
    for place in range(_PLACES):
        try:
            fcntl.lockf(places, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except BlockingIOError:
            continue
        return True
    return False


def _idle_s() -> float:
    """How long processors were idle since the machine started, in their sum."""
    with open("/proc/stat") as file:
        idle, waiting = file.readline().split()[4:6]
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")
