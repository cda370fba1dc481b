"""The tiers of tests: a test that reaches a server is marked automatically, and an unmarked test cannot start one."""

import os
import signal
import subprocess
import sys

import browser
import pytest
import waiting
from conftest import TEST_RUN, TOOL_STORE
from sshd_hosts import SshdHost
from tiers import DOORS, TESTS, needs_builds


@pytest.fixture
def far_away():
    """A server behind a fixture and a function."""
    return lambda: SshdHost


def test_what_reaches_a_server_through_its_fixtures_is_marked(request, far_away):
    assert request.node.get_closest_marker("server") and far_away() is SshdHost


class TestReplaced:
    @pytest.fixture
    def far_away(self):
        return "near"

    def test_what_a_replaced_fixture_reaches_does_not_count(self, request, far_away):
        assert far_away == "near" and not request.node.get_closest_marker("server")


class TestExtended:
    @pytest.fixture
    def far_away(self, far_away):
        return far_away

    def test_what_an_extended_fixture_reaches_counts(self, request, far_away):
        assert request.node.get_closest_marker("server")


def test_what_runs_the_workflow_is_marked(request, project):
    assert request.node.get_closest_marker("server")


def test_what_opens_a_browser_is_slow_and_need_not_wait_for_builds(request):
    assert request.node.get_closest_marker("slow") and not needs_builds(request.node) and browser.opened


def test_what_is_not_marked_cannot_start_a_server(request, tmp_path):
    assert not [mark for mark in DOORS if request.node.get_closest_marker(mark)]
    server = tmp_path / "sshd"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    with pytest.raises(RuntimeError, match="sshd is started by a test of the fast tier"):
        subprocess.run([server], check=True)


def test_an_interrupted_run_leaves_no_server_behind(tmp_path):
    started = tmp_path / "pid"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", TEST_RUN))}
    argv = [sys.executable, "-m", "pytest", "-n", "1", "--basetemp", tmp_path / "base", TESTS / "held_server.py"]
    # With its own store it has its own locks. It must not wait for tests that wait for this one.
    environment |= {"HELD_SERVER": str(started), TOOL_STORE: str(tmp_path / "own" / "tools")}
    with subprocess.Popen(argv, cwd=TESTS.parent, env=environment, stdout=subprocess.PIPE, text=True) as run:
        try:
            waiting.until(lambda: started.is_file() and started.read_text())
        finally:
            run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in output and not waiting.runs(int(started.read_text()))
