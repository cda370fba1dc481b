"""The tiers of tests: a test that reaches a server is marked automatically, and an unmarked test cannot start one."""

import subprocess

import pytest
from sshd_hosts import SshdHost
from tiers import DOORS


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
    assert request.node.get_closest_marker("slow")


def test_what_is_not_marked_cannot_start_a_server(request, tmp_path):
    assert not [mark for mark in DOORS if request.node.get_closest_marker(mark)]
    server = tmp_path / "sshd"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    with pytest.raises(RuntimeError, match="sshd is started by a test of the fast tier"):
        subprocess.run([server], check=True)
