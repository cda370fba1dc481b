"""A measurement that is interrupted in every way: complete trials stay, and the same command does the rest."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import calm_study
import pytest
from conftest import Project, copy_project
from nothing_lost import nothing_lost, processes, seen
from waiting import until
from warm_snakemake import Started


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A lock for the host, which is this machine. Another suite on it must not look like a second controller."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(folder / "host.lock"))
        yield folder


@pytest.fixture(scope="module")
def study(folder) -> dict:
    """Four trials that take a second each."""
    return {
        "study": "tiny",
        "blocks": 2,
        "hosts": {"local": {"loopback": True, "work_dir": str(folder / "work")}},
        "targets": {"one": {"roles": {"sut": "local"}}},
        "thresholds": {"lease": "4s"},
        "families": calm_study.calm(folder / "data"),
    }


@pytest.fixture(scope="module")
def provisioned(folder, study) -> Project:
    project = copy_project(folder / "project")
    project.write_study(study)
    project.snakemake("provision", "--configfile", "config/study.yaml")
    return project


@pytest.fixture
def project(provisioned, tmp_path) -> Project:
    """A copy in which nothing is measured, and everything needed is installed."""
    return Project(shutil.copytree(provisioned.root, tmp_path / "project"))


def trials(project: Project) -> set[Path]:
    return calm_study.sealed(project, {"study": "tiny"}, "one")


def index(project: Project) -> dict:
    (file,) = project.root.glob("data/raw/tiny/one/*/session.json")
    return json.loads(file.read_text())


def measure(project: Project) -> subprocess.CompletedProcess[str]:
    return project.snakemake("measure", "--configfile", "config/study.yaml")


def start(project: Project) -> Started:
    """The command in a process group of its own, as a shell starts it, once it measures its second trial."""
    process = project.start("measure", "--configfile", "config/study.yaml")
    deadline = time.monotonic() + 120
    while not trials(project):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.fault(1)
def test_kill_9_in_mid_trial_then_the_same_command_completes_what_is_missing(project, folder):
    process = start(project)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = seen(project.root / "data/raw/tiny", folder / "work")
    measure(project)
    nothing_lost(before, good=4, lock=folder / "host.lock", scratch=folder / "data")
    of_trials = {json.loads((trial / "trial.json").read_text())["session"] for trial in trials(project)}
    known = {session["uuid"]: session for session in index(project)["sessions"]}
    assert of_trials == known.keys() and all(session["hosts"]["local"]["before"] for session in known.values())


@pytest.mark.fault(1)
def test_kill_9_of_everything_here_then_the_same_command_waits_for_the_lease_and_goes_on(project, folder):
    process = start(project)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = seen(project.root / "data/raw/tiny", folder / "work")
    measure(project)
    nothing_lost(before, good=4, lock=folder / "host.lock", scratch=folder / "data")


@pytest.mark.fault(4)
def test_ctrl_c_leaves_nothing_running_and_records_the_trial_as_aborted(project, folder):
    process = start(project)
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)  # an impatient user
    process.communicate(timeout=90)
    assert process.returncode != 0
    assert not processes(str(folder / "work" / "agent")), "nothing of the session runs on the host"
    before = seen(project.root / "data/raw/tiny", folder / "work")
    measure(project)
    assert "aborted" in [trial["status"] for trial in index(project)["trials"]]
    nothing_lost(before, good=4, lock=folder / "host.lock", scratch=folder / "data")


@pytest.mark.parametrize("reader_goes", ["with it", "before it"])
@pytest.mark.fault(4)
def test_ctrl_c_ends_it_also_behind_a_reader_that_is_gone(project, study, folder, reader_goes):
    """As in `snakemake … 2>&1 | tee seen`, where Ctrl-C ends both."""
    project.write_study(study | {"blocks": 100})
    command = "snakemake --cores 8 measure --configfile config/study.yaml 2>&1 | tee seen"
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=project.root, env=project.environment, start_new_session=True
    )
    until(lambda: process.poll() is not None or trials(project), timeout_s=120)
    assert process.poll() is None, (project.root / "seen").read_text()
    if reader_goes == "before it":
        subprocess.run(["pkill", "-KILL", "-g", str(process.pid), "-x", "tee"], check=True)
        there = len(trials(project))
        until(lambda: len(trials(project)) > there + 1, timeout_s=60)  # nobody reads, and it goes on
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=60)
    until(lambda: not alive_in_group(process.pid), timeout_s=60)
    assert not processes(str(folder / "work" / "agent"))
    statuses = {trial: json.loads((trial / "trial.json").read_text())["status"] for trial in trials(project)}
    assert set(statuses.values()) <= {"ok", "aborted"} and len(statuses) < 100


# Snakemake's own handler, first with a screen during whose output the Ctrl-C comes, then with one whose reader is gone:
# alone, in a fork, and then with the adapter's additions.
PRINTING = """
import os, signal, threading, types
import snakemake.api
from snakemake.logging import ColorizingTextHandler, logger
from benchstudy.jobs import snakemake_adapter

ours = os.fork()
if ours:
    os.waitpid(ours, 0)
reading, writing = os.pipe()
screen = os.fdopen(writing, "w", buffering=1)

class Screen:
    def write(self, text):
        if "Select" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return screen.write(text)

    flush, fileno = screen.flush, screen.fileno

handler = ColorizingTextHandler(stream=Screen())
handler.name = "DefaultStreamHandler"
logger.addHandler(handler)
logger.setLevel("INFO")
no_more_jobs = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: no_more_jobs.set())
if ours:
    snakemake_adapter.end_with_ctrl_c(types.SimpleNamespace(is_main_process=True))
logger.info("Select jobs to execute...")
print("asked to end" if no_more_jobs.wait(2) else "lost")
os.close(reading)
logger.info("Execute 1 jobs...")
print("goes on")
"""


def test_a_ctrl_c_is_not_lost_while_snakemake_prints_and_a_reader_may_go(project):
    """Alone, Snakemake loses the one and fails on the other. If it no longer does, the adapter can shrink."""
    done = project.run("python", "-c", PRINTING)
    assert done.stdout.splitlines() == ["lost", "asked to end", "goes on"] and "BrokenPipeError" in done.stderr


PLANNING = """
import os, runpy, signal, sys, threading
from benchstudy.model import sources

def graph(*_):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(60)

sources._graph = graph
sys.argv[1:] = ["--cores", "1", "report"]
runpy.run_module("snakemake", run_name="__main__")
"""


def test_a_ctrl_c_while_jobs_are_planned_ends_the_command_in_a_word(project, tmp_path, monkeypatch):
    """As an exception it would go through Snakemake and, in Rust, be a panic. Nothing runs yet that has to end."""
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    done = project.run("python", "-c", PLANNING, check=False)
    assert done.returncode == 130 and done.stderr.endswith("interrupted\n"), done.stderr
    assert "Traceback" not in done.stderr and not trials(project)
    assert not list(temporary.iterdir())


def alive_in_group(group: int) -> str:
    return subprocess.run(["pgrep", "-g", str(group), "-a"], capture_output=True, text=True).stdout


@pytest.mark.fault(6)
def test_a_second_controller_from_elsewhere_is_refused_by_the_host(project, study, tmp_path):
    project.write_study(study | {"blocks": 100})
    other = copy_project(tmp_path / "other")
    elsewhere = {"local": {"loopback": True, "work_dir": str(tmp_path / "other-work")}}
    other.write_study(study | {"hosts": elsewhere, "blocks": 1, "families": calm_study.asleep()})
    process = start(project)
    try:
        done = other.snakemake("report", "--configfile", "config/study.yaml", check=False)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=90)
    assert done.returncode != 0
    assert "is in use by study tiny" in done.stdout + done.stderr
    assert trials(other) == set(), "nothing was measured beside the other"
    assert "is in use by" in (other.root / "reports/index.html").read_text(), "the report says so too"
    measure(other)
    assert len(trials(other)) == 2
