"""Who of several pytest workers has the machine: all of them side by side, or one test for itself."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shared_or_alone(folder: Path, alone: bool) -> Iterator[None]:
    """Wait until nobody is alone (`alone`: until nobody else is here), and keep it so for the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "tests-gate.lock", "a") as gate, open(folder / "tests.lock", "a") as machine:
        # Whoever waits to be alone holds the gate, so that no new test slips in before it.
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(machine, fcntl.LOCK_UN)  # closing would not do: a child that a test forked has it open, too
