"""Waiting for something to happen, and whether a process still runs."""

import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Fail the test if `condition` does not become true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """A zombie, which only its parent can remove, does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
