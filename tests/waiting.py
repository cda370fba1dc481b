"""Waiting for something to happen, and whether a process still runs."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Fail the test if `condition` does not become true in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        begun = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, "it did not come about in time"
        # A look at all processes (5 ms), again and again, would take the processor from what is waited for.
        time.sleep(min(max(0.02, 19 * (now - begun)), 0.2))


def runs(pid: int) -> bool:
    """A zombie, which only its parent can remove, does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def interrupts_heard_in_waits() -> Iterator[None]:
    """Ctrl-C as a session hears it: only where it waits."""
    from benchstudy.hosts import interrupts  # not at the top: forks import this file before they know their project

    as_it_was = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        interrupts.install()
        yield
    finally:
        for number, handler in as_it_was.items():
            signal.signal(number, handler)
        for name in ("installed", "waiting", "raised"):
            setattr(interrupts._State, name, False)
        interrupts._State.asked.clear()
