"""The programs that tests start are built first. Tests that start none run meanwhile: builds wait for the network now
and then.

A real server that meets its memory limit, or a real load its rate, fails beside compilers for reasons that are not its
own. So all other tests wait for the last build.
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

# The process that builds, told to pytest's workers; where nothing has to be built there is none.
BUILDER = "BENCHSTUDY_TEST_BUILDER"
SCRIPT = Path(__file__).with_name("build_tools.py")


class Builds:
    """Of the process that deals the tests. A build that fails fails the run."""

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
    """By the lock that whoever builds in the store holds."""
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
    """Until everything is built."""
    if pending():
        try:
            builder = os.pidfd_open(int(os.environ[BUILDER]))
        except ProcessLookupError:
            return
        select.select([builder], [], [])
        os.close(builder)
