"""Which pytest worker has the machine: all of them side by side, or one test alone."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shared_or_alone(folder: Path, alone: bool) -> Iterator[None]:
    """Wait until no other test is alone (`alone`: until no other test runs), and keep it so during the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "tests-gate.lock", "a") as gate, open(folder / "tests.lock", "a") as machine:
        # A test that waits to be alone holds the gate, so that no new test starts before it.
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(machine, fcntl.LOCK_UN)  # closing is not enough: a child that a test forked has it open
