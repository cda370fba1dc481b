"""The programs that tests start are built first; tests that start none run meanwhile, because builds may wait.

During a compilation, a real server at its memory limit, or a real load that must reach its rate, may fail because of
the compiler. So all other tests wait for the last build.
"""

import fcntl
import os
import select
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from waiting import until

# The process that builds, as announced to pytest's workers; none if nothing has to be built.
BUILDER = "BENCHSTUDY_TEST_BUILDER"
SCRIPT = Path(__file__).with_name("build_tools.py")


class Builds:
    """Start the builds, in the process that deals the tests. A build that fails fails the run."""

    def __init__(self, store: Path) -> None:
        self.process = subprocess.Popen([sys.executable, SCRIPT])
        until(lambda: self.process.poll() is not None or _is_building(store), timeout_s=1800)
        if self.process.poll() is None:
            os.environ[BUILDER] = str(self.process.pid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldstop or session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self.process.terminate()
        if self.process.wait() != 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_building(store: Path) -> bool:
    """Whether a build is under way, judged by the lock that every build in the store takes."""
    try:
        with (store / ".lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def pending() -> bool:
    return BUILDER in os.environ


@cache
def wait() -> None:
    """Wait until everything is built."""
    if pending():
        try:
            builder = os.pidfd_open(int(os.environ[BUILDER]))
        except ProcessLookupError:
            return
        select.select([builder], [], [])
        os.close(builder)
