"""Several machines: this one, and a bare Debian in its own network that at first has neither Python nor fio."""

import json
import logging
import re
import subprocess
from datetime import datetime
from itertools import combinations
from pathlib import Path

import pytest

from benchstudy.hosts.remote import Remote
from benchstudy.model.studyfile import parse_study
from benchstudy.provisioning.target import provision_target


@pytest.fixture(scope="module")
def study(bare_host, tmp_path_factory):
    """Two hosts, each a target of its own, and both families at their smallest."""
    work = tmp_path_factory.mktemp("here")
    bare = {
        "address": bare_host.address,
        "user": "root",
        "identity_file": str(bare_host.identity_file),
        "known_hosts": str(bare_host.known_hosts),
        "work_dir": "/var/lib/benchstudy",
    }
    return {
        "study": "two-hosts",
        "blocks": 1,
        "hosts": {"here": {"loopback": True, "work_dir": str(work / "work")}, "bare": bare},
        "targets": {"near": {"roles": {"sut": "here"}}, "far": {"roles": {"sut": "bare"}}},
        "families": {
            "file_size": {
                "backends": [{"name": "disk", "kind": "path", "path": "/var/tmp"}],
                "sizes": ["100KB"],
                "sync": ["fsync"],
                "cache": ["cold"],
                "operations": 2,
            },
            "fio": {
                "directories": [{"name": "disk", "path": "/var/tmp"}],
                "size": "4MiB",
                "runtime": "1s",
                "page_jobs": ["gitlab-latency"],
                "small_files": [],
            },
        },
    }


@pytest.fixture
def in_project(project, monkeypatch):
    monkeypatch.chdir(project.root)
    return project


def has(remote: Remote, tool: str) -> bool:
    return remote.run(["sh", "-c", 'command -v "$1"', "sh", tool], check=False).exit_status == 0


def test_who_may_not_install_is_told_what_is_missing_and_what_to_do(bare_host, study, in_project):
    """This is first, while Python and fio are really missing."""
    subprocess.run(["chroot", bare_host.root, "useradd", "-m", "-p", "*", "plain"], check=True)
    keys = bare_host.root / "home/plain/.ssh"
    keys.mkdir()
    (keys / "authorized_keys").write_bytes((bare_host.root / "root/.ssh/authorized_keys").read_bytes())
    plain = {**study["hosts"]["bare"], "user": "plain", "work_dir": "~/benchstudy"}
    typed = parse_study({**study, "hosts": {**study["hosts"], "bare": plain}})
    with Remote("bare", typed.hosts["bare"]) as remote:
        assert not has(remote, "python3")
        assert not has(remote, "fio")
    result = provision_target(typed, "far", in_project.root / "facts.json")
    assert result.changed == 0
    assert result.hosts["bare"]["packages"]["fio"] is None
    assert any(re.search(r"bare: .*fio.*hosts\.bare\.sudo: true", problem) for problem in result.problems)


@pytest.mark.fault(29)
def test_a_package_that_is_nowhere_keeps_no_other_from_being_installed(study, in_project):
    for deploy in (in_project.root / "envs").glob("*.py"):
        deploy.unlink()
    (in_project.root / "envs" / "fio.py").write_text(
        "from benchstudy.provisioning.deploy import install\n"
        "install('a tool that nobody packages', 'no-such-package')\n"
        "install('a small tool', 'netcat-openbsd')\n"
    )
    result = provision_target(parse_study(study), "far", in_project.root / "facts.json")
    [problem] = result.problems
    assert "a tool that nobody packages" in problem and "no-such-package" in problem
    packages = result.hosts["bare"]["packages"]
    assert packages["netcat-openbsd"] and packages["no-such-package"] is None


@pytest.mark.fault(29)
def test_a_bare_host_is_made_ready_and_the_second_run_changes_nothing(study, in_project, caplog):
    caplog.set_level(logging.INFO, logger="benchstudy")
    typed = parse_study(study)
    first = provision_target(typed, "far", in_project.root / "facts.json")
    assert first.problems == []
    assert first.changed > 0
    packages = first.hosts["bare"]["packages"]
    assert packages["fio"] and packages["python3"]
    assert "apt-get -qq update" in caplog.text
    with Remote("bare", typed.hosts["bare"]) as remote:
        assert remote.run(["fio", "--version"]).text.startswith("fio-")
        assert remote.run(["python3", "--version"]).text.startswith("Python 3.")

    caplog.clear()
    second = provision_target(typed, "far", in_project.root / "facts.json")
    assert (second.changed, second.problems) == (0, [])
    assert second.hosts["bare"]["packages"] == packages
    assert "apt-get" not in caplog.text  # a host that has everything needs no network


def test_one_command_measures_both_hosts_side_by_side_and_each_by_one_session_at_a_time(bare_host, study, project):
    config = project.write_study(study)
    # First, so that no session waits for packages while another host's session is over.
    project.snakemake("provision", "--configfile", config)
    project.snakemake("measure", "--configfile", config)
    raw = project.root / "data" / "raw" / "two-hosts"
    indexes = [json.loads(path.read_text()) for path in raw.glob("*/*/session.json")]
    assert {(index["target"], index["family"]) for index in indexes} == {
        (target, family) for target in ("near", "far") for family in ("file_size", "fio")
    }
    for index in indexes:
        assert index["problem"] is None
        assert {trial["status"] for trial in index["trials"]} == {"ok"}, index["trials"]

    held = [(index["target"], *interval(session)) for index in indexes for session in index["sessions"]]
    assert len(held) == 4
    overlaps = {(a[0], b[0]) for a, b in combinations(held, 2) if a[1] < b[2] and b[1] < a[2]}
    assert not overlaps & {("near", "near"), ("far", "far")}
    assert overlaps, "sessions on different hosts waited for each other"

    # The bare machine itself was measured, not this one by its name.
    assert (bare_host.root / "var/lib/benchstudy").is_dir()

    before = trial_folders(raw)
    again = project.snakemake("measure", "--configfile", config)
    assert "Nothing to be done" in again.stdout + again.stderr
    assert trial_folders(raw) == before


def interval(session: dict) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(session["started"]), datetime.fromisoformat(session["finished"])


def trial_folders(raw: Path) -> set[Path]:
    return set(raw.glob("*/*/*/*/trial.json"))
