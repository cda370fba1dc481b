"""The programs that tests start are built first; tests that start no server run meanwhile, because builds may wait.

During a compilation, a real server at its memory limit, or a real load that must reach its rate, may fail because of
the compiler. So all other tests wait for the last build.
"""

import fcntl
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from waiting import until

# The lock that is held until everything is built, as announced to pytest's workers; none if nothing has to be built.
LOCK = "BENCHSTUDY_TEST_BUILDS"
SCRIPT = Path(__file__).with_name("build_tools.py")


class Builds:
    """Start the builds, in the process that deals the tests. A build that fails fails the run."""

    def __init__(self, store: Path) -> None:
        store.mkdir(parents=True, exist_ok=True)
        lock = store.parent / "tests-builds.lock"
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # It holds the lock from now on, also if this process ends.
            self.process = subprocess.Popen([sys.executable, SCRIPT, str(file.fileno())], pass_fds=[file.fileno()])
        until(lambda: not _is_held(lock) or _is_held(store / ".lock"), timeout_s=1800)
        if _is_held(lock):
            os.environ[LOCK] = str(lock)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldstop or session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self.process.terminate()
        if self.process.wait() != 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_held(lock: Path) -> bool:
    """Whether somebody holds a lock: the store's is taken by every build in it."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def pending() -> bool:
    return LOCK in os.environ


@cache
def wait() -> None:
    """Wait until everything is built."""
    if pending():
        with open(os.environ[LOCK]) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
