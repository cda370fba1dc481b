"""Faults during a whole study: nothing completed is lost, the report says so, the same command completes the rest."""

import html
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import calm_study
import pytest
from conftest import Project, copy_project
from nothing_lost import Seen, nothing_lost, seen
from sshd_hosts import SshdHost
from warm_snakemake import Started

CONFIG = ("--configfile", "config/study.yaml")


@dataclass(frozen=True)
class Hosts:
    """sshd hosts by name. `folder` has their work folders."""

    folder: Path
    sshd: Mapping[str, SshdHost]

    def __getitem__(self, name: str) -> SshdHost:
        return self.sshd[name]

    def work(self, name: str) -> Path:
        return self.folder / f"work-{name}"

    def described(self, name: str, at: str = "", **more: str) -> dict[str, Any]:
        """The host as a study declares it; `at`: the name of the machine that it is."""
        return self[at or name].described(self.work(name), **more)


def study(families: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A target on each host."""
    return {
        "study": "faults",
        "blocks": 2,
        "thresholds": {"lease": "4s", "reconnect": "3s"},
        "hosts": dict(hosts),
        "targets": {name: {"roles": {"sut": name}} for name in hosts},
        "families": dict(families),
    }


@pytest.fixture(scope="module")
def hosts(tmp_path_factory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    options = {"near": [], "far": [], "moved": [], "no-shell": ["ForceCommand /bin/false"]}
    with ExitStack() as stack:
        started = {}
        for name, given in options.items():
            started[name] = stack.enter_context(SshdHost(folder / name, options=given))
        yield Hosts(folder, started)


@dataclass(frozen=True)
class Reported:
    """How a command ended, and what existed then: session.json of each target, and a page."""

    project: Project
    returncode: int
    output: str
    raw: Seen
    indexes: Mapping[str, Any]
    page: Path

    def results(self, target: str) -> list[tuple[str, int]]:
        return sorted((t["case"], t["block"]) for t in self.indexes[target]["trials"] if t["status"] == "ok")


def ended(project: Project, process: Started, hosts: Hosts, page: str) -> Reported:
    output, _ = process.communicate(timeout=300)
    raw = seen(project.root / "data/raw/faults", hosts.work("near"), hosts.work("far"))
    indexes = {file.parents[1].name: json.loads(file.read_text()) for file in raw.raw.glob("*/*/session.json")}
    return Reported(project, process.returncode, output, raw, indexes, project.root / page)


def until(condition: Callable[[], object], process: Started, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def old_python(tmp_path_factory) -> Path:
    old = tmp_path_factory.mktemp("old") / "python3.8"
    old.write_text(
        "#!/usr/bin/env python3\nimport sys\nsys.version_info = (3, 8, 18, 'final', 0)\n"
        "place = sys.argv.index('-c')\nscript, sys.argv[:] = sys.argv[place + 1], ['-c', *sys.argv[place + 2 :]]\n"
        "exec(script)\n"
    )
    old.chmod(0o755)
    return old


@pytest.fixture(scope="module")
def struck(tmp_path_factory, hosts, old_python) -> Reported:
    """Six hosts, of which one fails during the measurement and four cannot be set up."""
    project = copy_project(tmp_path_factory.mktemp("struck") / "project")
    described = {name: hosts.described(name) for name in hosts.sshd} | {
        "no-shell": hosts["no-shell"].described(),
        "no-python": hosts.described("no-python", at="near", python="/nowhere/python3"),
        "old-python": hosts.described("old-python", at="near", python=str(old_python)),
    }
    declared = study(calm_study.asleep(), described)
    project.write_study(declared)
    hosts["moved"].change_host_key()
    hosts["moved"].restart()
    process = project.start("report", *CONFIG)
    until(lambda: calm_study.sealed(project, declared, "far"), process)
    hosts["far"].stop()
    return ended(project, process, hosts, "reports/index.html")


@pytest.fixture(scope="module")
def mended(struck, hosts) -> Reported:
    """The same study again: one host is back, another is pinned, and the hopeless ones are left out.

    Then the connection to the host that is back breaks.
    """
    hosts["far"].start()
    hosts["moved"].pin()
    # Sessions that could not be held are half-written until they are.
    for hopeless in ("no-shell", "no-python", "old-python"):
        shutil.rmtree(struck.project.root / "data/raw/faults" / hopeless)
    declared = study(calm_study.asleep(), {name: hosts.described(name) for name in ("near", "far", "moved")})
    struck.project.write_study(declared)
    there = calm_study.sealed(struck.project, declared, "far")
    page = "reports/faults/command.html"  # `struck` has made the others
    process = struck.project.start("measure", page, *CONFIG)
    until(lambda: calm_study.sealed(struck.project, declared, "far") > there, process)
    assert hosts["far"].drop_connections()
    return ended(struck.project, process, hosts, page)


@pytest.mark.fault(8)
def test_a_host_that_goes_away_for_ever_takes_no_other_with_it(struck, mended):
    assert struck.returncode != 0
    assert "command on far: " in struck.output, "the command says which session it was"
    assert len(struck.results("near")) == 4, "the other host's session is complete"
    far = struck.indexes["far"]
    assert far["problem"]
    assert "This session did not complete: " in struck.page.read_text()
    assert "aborted" in [trial["status"] for trial in far["trials"]]
    assert mended.returncode == 0, mended.output
    nothing_lost(struck.raw, good=12, page=mended.page, says="aborted: ")


@pytest.mark.fault(7)
def test_a_dropped_connection_is_an_event_and_the_same_trial_goes_on(struck, mended):
    assert mended.returncode == 0, mended.output
    far = mended.indexes["far"]
    assert {trial["status"] for trial in far["trials"] if trial not in struck.indexes["far"]["trials"]} == {"ok"}
    assert len(mended.results("far")) == 4
    earlier = {session["uuid"] for session in struck.indexes["far"]["sessions"]}
    (session,) = [session for session in far["sessions"] if session["uuid"] not in earlier]
    assert any("connected again" in event for event in session["events"])


@pytest.mark.fault(11)
def test_what_stops_a_session_before_it_begins_is_said_and_nothing_is_half_written(struck, mended):
    assert struck.returncode != 0
    assert "is not the pinned one" in struck.output
    assert not [trial for trial in struck.raw.trials if "moved" in trial.parts]
    assert len(mended.results("moved")) == 4


@pytest.mark.fault(33)
def test_hosts_that_cannot_be_set_up_are_named_and_all_others_are_reported(struck):
    assert struck.returncode != 0
    assert len(struck.results("near")) == 4
    page = html.unescape(struck.page.read_text())
    for name, words in (
        ("no-shell", "no command can be run there"),
        ("no-python", "there is no '/nowhere/python3'"),
        ("old-python", "its Python is 3.8"),
    ):
        assert f"{name}: {words}" in struck.indexes[name]["problem"] and words in page
        assert words in struck.output


@pytest.fixture(scope="module")
def measured(tmp_path_factory, hosts) -> Project:
    """Two good trials of file_size. For four, the folder does not exist, or is on another file system than declared."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "data").mkdir()
    backends = [
        {"name": "disk", "kind": "path", "path": str(folder / "data")},
        {"name": "gone", "kind": "path", "path": str(folder / "not-mounted")},
        {"name": "wrong", "kind": "path", "path": str(folder / "data"), "expect_fs": "nfs4"},
    ]
    sizes = {"sizes": ["100KB"], "sync": ["fsync"], "cache": ["cold"], "operations": 10, "backends": backends}
    project = copy_project(folder / "project")
    project.write_study(study({"file_size": sizes}, {"near": hosts.described("near")}) | {"blocks": 1})
    project.snakemake("measure", *CONFIG)  # exit status 0, because failed cases are results
    return project


PAGE = "reports/faults/file_size.html"


@pytest.mark.fault(3)
def test_kill_9_while_a_notebook_runs_leaves_raw_alone_and_only_the_notebook_is_done_again(measured, hosts):
    process = measured.start(PAGE, *CONFIG)
    until((measured.root / "logs/make_page/faults/file_size.ipynb").exists, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = seen(measured.root / "data/raw/faults", hosts.work("near"))
    done = measured.snakemake(PAGE, *CONFIG)
    assert "rule make_page" in done.stdout + done.stderr
    assert "rule measure_session" not in done.stdout + done.stderr
    nothing_lost(before, good=2, lock=hosts["near"].lock)
    assert (measured.root / PAGE).is_file()


def test_a_missing_mount_fails_its_cases_and_no_other(measured):
    (index,) = measured.root.glob("data/raw/faults/near/*/session.json")
    by_backend: dict[str, set] = {}
    for trial in json.loads(index.read_text())["trials"]:
        by_backend.setdefault(trial["case"].split(",")[0], set()).add((trial["status"], trial["cause"]))
    assert by_backend["backend=disk"] == {("ok", None)}
    ((status, cause),) = by_backend["backend=gone"]
    assert status == "failed" and "not-mounted is not a folder on the host: mount or create it" in cause
    ((status, cause),) = by_backend["backend=wrong"]
    assert status == "failed" and "expects nfs4" in cause
    measured.snakemake(PAGE, *CONFIG)
    assert "mount or create it" in (measured.root / PAGE).read_text()
