"""Faults during a whole study: nothing completed is lost, the report tells, the same command completes."""

import html
import json
import os
import signal
import time
from collections.abc import Callable

import calm_study
import pytest
from calm_study import sealed
from conftest import Project
from nothing_lost import nothing_lost, seen
from sshd_hosts import SshdHost
from warm_snakemake import Started

FILE_SIZE = {"sizes": ["100KB"], "sync": ["fsync"], "cache": ["cold"], "operations": 10}


@pytest.fixture
def hosts(tmp_path):
    """Two sshd hosts with locks of their own, as on two machines."""
    with (
        SshdHost(tmp_path / "near", environment={"BENCHSTUDY_HOST_LOCK": f"{tmp_path}/near.lock"}) as near,
        SshdHost(tmp_path / "far", environment={"BENCHSTUDY_HOST_LOCK": f"{tmp_path}/far.lock"}) as far,
    ):
        yield {"near": near, "far": far}


@pytest.fixture
def study(hosts, tmp_path) -> dict:
    """Of a target on each host."""
    (tmp_path / "data").mkdir()
    return {
        "study": "faults",
        "blocks": 3,
        "thresholds": {"lease": "4s", "reconnect": "3s"},
        "hosts": {
            name: sshd.host.model_dump(exclude_none=True, exclude_defaults=True)
            | {"work_dir": str(tmp_path / f"work-{name}")}
            for name, sshd in hosts.items()
        },
        "targets": {name: {"roles": {"sut": name}} for name in hosts},
        "families": calm_study.calm(tmp_path / "data"),
    }


@pytest.fixture
def small(study, tmp_path) -> dict:
    """Of one target, with two trials of file_size."""
    backends = [{"name": "disk", "kind": "path", "path": str(tmp_path / "data")}]
    families = {"file_size": FILE_SIZE | {"backends": backends}}
    return study | {"blocks": 1, "targets": {"near": study["targets"]["near"]}, "families": families}


def index(project: Project, target: str) -> dict:
    (file,) = project.root.glob(f"data/raw/faults/{target}/*/session.json")
    return json.loads(file.read_text())


def results(project: Project, target: str) -> list[tuple[str, int]]:
    return sorted((t["case"], t["block"]) for t in index(project, target)["trials"] if t["status"] == "ok")


def begin(project: Project, what: str = "report") -> Started:
    return project.start(what, "--configfile", "config/study.yaml")


def until(condition: Callable[[], object], process: Started, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.fault(8)
def test_a_host_that_goes_away_for_ever_takes_no_other_with_it(project, hosts, study, tmp_path):
    config = project.write_study(study)
    process = begin(project)
    until(lambda: sealed(project, study, "far"), process)
    hosts["far"].stop()
    output, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "fio on far: " in output, "the command says which session it was"
    assert len(results(project, "near")) == 6, "the other host's session is complete"
    before = seen(project.root / "data/raw/faults", tmp_path / "work-near", tmp_path / "work-far")
    assert index(project, "far")["problem"]
    assert "aborted" in [trial["status"] for trial in index(project, "far")["trials"]]
    assert "could not be held" in (project.root / "reports/index.html").read_text()

    hosts["far"].start()
    project.snakemake("report", "--configfile", config)
    nothing_lost(before, good=12, page=project.root / "reports/index.html", says="aborted: ")


@pytest.mark.fault(7)
def test_a_dropped_connection_is_an_event_and_the_same_trial_goes_on(project, hosts, study):
    project.write_study(study)
    process = begin(project, "measure")
    until(lambda: sealed(project, study, "far"), process)
    dropped = hosts["far"].drop_connections()
    output, _ = process.communicate(timeout=300)
    assert dropped
    assert process.returncode == 0, output
    assert {trial["status"] for trial in index(project, "far")["trials"]} == {"ok"}
    assert len(results(project, "far")) == 6
    (session,) = index(project, "far")["sessions"]
    assert any("connected again" in event for event in session["events"])


@pytest.mark.fault(3)
def test_kill_9_while_a_notebook_runs_leaves_raw_alone_and_only_the_notebook_is_done_again(project, small, tmp_path):
    config = project.write_study(small)
    process = begin(project)
    trace = project.root / "logs/make_page/faults/file_size.ipynb"
    until(trace.exists, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = seen(project.root / "data/raw/faults", tmp_path / "work-near")
    done = project.snakemake("report", "--configfile", config)
    assert "rule make_page" in done.stdout + done.stderr
    assert "rule measure_session" not in done.stdout + done.stderr
    nothing_lost(before, good=2, lock=tmp_path / "near.lock")
    assert (project.root / "reports/faults/file_size.html").is_file()


def test_a_missing_mount_fails_its_cases_and_no_other(project, small, tmp_path):
    backends = small["families"]["file_size"]["backends"]
    backends.append({"name": "gone", "kind": "path", "path": str(tmp_path / "not-mounted")})
    backends.append({"name": "wrong", "kind": "path", "path": str(tmp_path / "data"), "expect_fs": "nfs4"})
    config = project.write_study(small)
    project.snakemake("report", "--configfile", config)  # exit status 0: failed cases are results
    by_backend: dict[str, set] = {}
    for trial in index(project, "near")["trials"]:
        by_backend.setdefault(trial["case"].split(",")[0], set()).add((trial["status"], trial["cause"]))
    assert by_backend["backend=disk"] == {("ok", None)}
    ((status, cause),) = by_backend["backend=gone"]
    assert status == "failed" and "not-mounted is not a folder on the host: mount it or make it" in cause
    ((status, cause),) = by_backend["backend=wrong"]
    assert status == "failed" and "expects nfs4" in cause
    page = (project.root / "reports/faults/file_size.html").read_text()
    assert "mount it or make it" in page


@pytest.mark.fault(11)
def test_what_stops_a_session_before_it_begins_is_said_and_nothing_is_half_written(project, hosts, small):
    config = project.write_study(small)
    hosts["near"].change_host_key()
    hosts["near"].restart()
    done = project.snakemake("report", "--configfile", config, check=False)
    assert done.returncode != 0
    assert "is not the pinned one" in done.stdout + done.stderr
    assert sealed(project, small, "near") == set()
    hosts["near"].pin()
    project.snakemake("measure", "--configfile", config)
    assert len(results(project, "near")) == 2


@pytest.mark.fault(33)
def test_hosts_that_cannot_be_set_up_are_named_and_all_others_are_reported(project, hosts, small, tmp_path):
    old = tmp_path / "python3.8"
    old.write_text(
        "#!/usr/bin/env python3\nimport sys\nsys.version_info = (3, 8, 18, 'final', 0)\n"
        "place = sys.argv.index('-c')\nscript, sys.argv[:] = sys.argv[place + 1], ['-c', *sys.argv[place + 2 :]]\n"
        "exec(script)\n"
    )
    old.chmod(0o755)
    good = small["hosts"]["near"]
    with SshdHost(tmp_path / "false", options=["ForceCommand /bin/false"]) as shut:
        described = {
            "near": good,
            "no-shell": shut.host.model_dump(exclude_none=True, exclude_defaults=True),
            "no-python": good | {"python": "/nowhere/python3", "work_dir": str(tmp_path / "work-none")},
            "old-python": good | {"python": str(old), "work_dir": str(tmp_path / "work-old")},
        }
        targets = {name: {"roles": {"sut": name}} for name in described}
        config = project.write_study(small | {"hosts": described, "targets": targets})
        done = project.snakemake("report", "--configfile", config, check=False)
    assert done.returncode != 0
    assert len(results(project, "near")) == 2
    page = html.unescape((project.root / "reports/index.html").read_text())
    for name, words in (
        ("no-shell", "no command runs there"),
        ("no-python", "there is no '/nowhere/python3'"),
        ("old-python", "its Python is 3.8"),
    ):
        assert f"{name}: {words}" in index(project, name)["problem"] and words in page
        assert words in done.stdout + done.stderr
