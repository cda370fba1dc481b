"""Jobs on other machines: each runs in its own namespaces, in which it sees only the project's folder."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import kubernetes_node
import pytest
import slurm_cluster
import yaml
from conftest import CHECKOUT, Project
from nothing_lost import left_on_host, nothing_lost, processes, seen
from sshd_hosts import SshdHost, host_of_its_own
from test_faults_host import Lab
from waiting import until

from benchstudy.measuring.progress import under_way
from benchstudy.model import machine, paths
from benchstudy.model.files import keeps_locks, write_atomically

NODE = Path(__file__).with_name("on_a_node.sh")
long = pytest.mark.skipif("BENCHSTUDY_TEST_LONG" not in os.environ, reason="it takes minutes: `make test-long` runs it")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make namespaces")


def on_nodes(project: Project) -> list[str]:
    submit = f"{NODE} {project.root}"
    often = ["--jobs", "4", "--seconds-between-status-checks", "1"]
    return ["--executor", "cluster-generic", *often, "--cluster-generic-submit-cmd", submit]


@needs_root
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=long)])
@pytest.mark.fault(1, 40)
def test_a_session_elsewhere_ends_with_its_command_and_the_next_one_adopts(project: Project, tmp_path: Path, number):
    with host_of_its_own(project.root / "sshd") as sshd:
        lab = Lab(tmp_path / "host", sshd)
        lab.root.mkdir()
        file = project.write_study(lab.study)
        project.snakemake("provision", "--configfile", file)
        command = project.start("measure", "--configfile", file, *on_nodes(project))
        try:
            until(lambda: lab.begun() == 2 or command.poll() is not None, 90)
            assert command.poll() is None, command.stdout.read()
            own = [path for path in paths.local_state(project.root).glob("preloaded-*.sock") if not path.is_symlink()]
            assert not own, "nobody there would see its process"  # a link to the suite's warm libraries
            progress = paths.progress(project.root, "faults")
            (state,) = progress.glob("*.json")
            assert machine.pid_here(state.stem) is None and under_way(progress)[0].startswith("command on one, 0:0")
        finally:
            os.kill(command.pid, number)
            command.communicate(timeout=90)
        until(lambda: not processes("--inside", str(project.root)), 60)
        assert left_on_host(lab.work) == []
        before = seen(project.root / "data/raw/faults", lab.work)
        lab.go()
        project.snakemake("measure", "--configfile", file)
        nothing_lost(before, good=2, lock=sshd.lock)
        (index,) = project.root.glob("data/raw/faults/*/*/session.json")
        sessions = json.loads(index.read_text())["sessions"]
        assert {session["controller"] for session in sessions} == {"node-b", socket.gethostname()}


def test_which_machine_is_left_to_chance_is_refused(project: Project):
    study = {
        "study": "anywhere",
        "blocks": 1,
        "hosts": {"local": {"loopback": True}},
        "targets": {"one": {"roles": {"sut": "local"}}},
        "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
    }
    file = project.write_study(study)
    done = project.snakemake("measure", "--configfile", file, *on_nodes(project), check=False)
    assert done.returncode == 1
    assert "host 'local' of study 'anywhere' is loopback" in done.stderr and "such as `address: " in done.stderr
    assert not (project.root / "said-on-node").exists()


def test_a_job_that_never_runs_fails_by_the_status_command_and_without_one_is_warned_of(project: Project):
    study = {
        "study": "lost",
        "blocks": 1,
        "hosts": {"far": {"address": "127.0.0.1"}},
        "targets": {"one": {"roles": {"sut": "far"}}},
        "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
    }
    lost = ["--executor", "cluster-generic", "--jobs", "4", "--seconds-between-status-checks", "1"]
    lost += ["--configfile", project.write_study(study), "--cluster-generic-submit-cmd"]
    warning = "No --cluster-generic-status-cmd: if a job's node dies or lacks this folder, this command waits for it"
    status = ["--cluster-generic-status-cmd", "echo failed #"]
    done = project.snakemake("provision", *lost, "echo 17 #", *status, check=False)
    assert done.returncode == 1 and "Error in rule provision_target" in done.stdout + done.stderr
    assert warning not in done.stdout + done.stderr
    refused = project.snakemake("provision", *lost, "exit 1 #", check=False)
    assert warning in refused.stdout + refused.stderr


def test_what_another_machine_is_writing_stays(tmp_path: Path):
    with subprocess.Popen(["true"]) as ended:
        pass
    file, elsewhere = tmp_path / "x.json", tmp_path / ".x.json.00000000-1"
    elsewhere.touch()
    (tmp_path / f".x.json.{machine.process(str(ended.pid))}").touch()
    write_atomically(file, "{}")
    assert {*tmp_path.iterdir()} == {file, elsewhere}
    os.utime(elsewhere, (0, 0))
    write_atomically(file, "{}")
    assert {*tmp_path.iterdir()} == {file}, "nobody writes a file for years"


def test_a_profile_without_its_executor_says_what_to_install(project: Project):
    """The executor for Slurm is no part of the tests' environment."""
    done = project.snakemake("-n", "report", "--profile", "workflow/profiles/slurm", check=False)
    assert done.returncode == 1 and "slurm is not installed: install the extra 'slurm'" in done.stderr
    assert "usage:" not in done.stderr


KUBECTL = """#!/bin/sh
cat
"""


def test_the_profile_for_kubernetes_is_understood_and_hands_on_what_a_job_needs(project: Project, tmp_path: Path):
    """There is no cluster here: the test reads the job as a document, where kubectl would send it."""
    study = {
        "study": "pods",
        "blocks": 1,
        "hosts": {"far": {"address": "127.0.0.1"}},
        "targets": {"one": {"roles": {"sut": "far"}}},
        "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
    }
    profile = "workflow/profiles/kubernetes"
    plan = project.snakemake("-n", "report", "--profile", profile, "--configfile", project.write_study(study))
    assert "measure_session" in plan.stdout
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    told = {"BENCHSTUDY_CONTROLLER_RUN": "abc", "BENCHSTUDY_CONTROLLER_PLACE": "boot pid:[1]", "BENCHSTUDY_OTHER": "x"}
    told |= {"BENCHSTUDY_IMAGE": "study:1", "BENCHSTUDY_VOLUME": "shared", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [project.root / profile / "submit.sh", "job.sh"]
    done = subprocess.run(argv, cwd=project.root, env=told, capture_output=True, text=True, check=True)
    (pod,) = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["containers"]
    assert {entry["name"]: entry["value"] for entry in pod["env"]} == {name: told[name] for name in list(told)[:2]}
    assert pod["image"] == "study:1" and pod["command"] == ["sh", "job.sh"] and pod["workingDir"] == str(project.root)


HEAD_NODE = """
import fcntl, json, os, sys, time
from pathlib import Path
from benchstudy.hosts.controller import announce_controller
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
announce_controller(Path(sys.argv[1] + ".beat"), 6.0)
print(json.dumps(dict(os.environ)), flush=True)
time.sleep(600)
"""
JOB = """
import sys
from pathlib import Path
from benchstudy.jobs.job import require_locks
require_locks(Path(sys.argv[1]))
"""
SSHFS = (
    'mount -t tmpfs none /run; sshfs -p "$2" -o IdentityFile="$3",UserKnownHostsFile="$4" 127.0.0.1:"$1" "$1"; '
    'shift 4; exec "$@"'
)


COPIED = 'cp -r "$1" "$1.copy" && mount --bind "$1.copy" "$1" && shift && exec "$@"'


@needs_root
def test_locks_that_hold_on_one_machine_only_are_refused_by_a_job_on_another(tmp_path: Path):
    held = tmp_path / "project" / "held"
    held.parent.mkdir()
    with host_of_its_own(tmp_path / "host") as sshd:
        head = subprocess.Popen([sys.executable, "-c", HEAD_NODE, held], stdout=subprocess.PIPE)
        try:
            environment = json.loads(head.stdout.readline())
            node = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
            reached = [str(sshd.port), str(sshd.identity_file), str(sshd.known_hosts)]
            sshfs = ["sh", "-c", SSHFS, "sh", str(held.parent), *reached]
            job = [sys.executable, "-c", JOB, str(held)]
            copied = ["sh", "-c", COPIED, "sh", str(held.parent)]
            kept, not_kept, not_shared = (
                subprocess.run([*node, *how, *job], env=environment, capture_output=True, text=True)
                for how in ([], sshfs, copied)
            )
        finally:
            head.kill()
            head.communicate()
    assert kept.returncode == 0, kept.stderr
    assert (
        not_kept.returncode == 1 and "two sessions could write the same trials. Put the project on" in not_kept.stderr
    )
    assert not_shared.returncode == 1 and "sees another copy of the project's folder" in not_shared.stderr


@pytest.mark.parametrize("lock", [OSError(errno.ENOLCK, "No locks available"), None])
def test_a_file_system_that_grants_no_lock_or_every_lock_is_told(tmp_path: Path, monkeypatch, lock):
    """NFS without its lock daemon behaves like one of these; there is no such file system here."""
    assert keeps_locks(tmp_path)

    def flock(descriptor: int, how: int) -> None:
        if lock:
            raise lock

    monkeypatch.setattr(fcntl, "flock", flock)
    assert not keeps_locks(tmp_path)
    assert not list(tmp_path.iterdir())


# -- make test-long ------------------------------------------------------------

PLUGINS = CHECKOUT / ".benchstudy" / "executors"


def report_of_two_targets(
    project: Project, hosts: Mapping[str, SshdHost], run: Callable[[Sequence[str]], tuple[bool, str]]
) -> None:
    """A whole report, from provisioning two real hosts to the pages; afterwards, there is nothing left to do.

    `run`: whether the command succeeded, and what it said.
    """
    study = {
        "study": "fleet",
        "blocks": 2,
        "thresholds": {"lease": "10s"},
        "hosts": {name: sshd.described(sshd.folder / "work") for name, sshd in hosts.items()},
        "targets": {f"on-{name}": {"roles": {"sut": name}} for name in hosts},
        "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
    }
    command = ["snakemake", "report", "--configfile", str(project.write_study(study))]
    for expected in ("steps (100%) done", "Nothing to be done"):
        succeeded, said = run(command)
        assert succeeded and expected in said, said
    held = [json.loads(index.read_text()) for index in project.root.glob("data/raw/fleet/*/*/session.json")]
    assert [len(index["trials"]) for index in held] == [2, 2]
    page = (project.root / "reports" / "fleet" / "command.html").read_text()
    assert all(f"on-{name}" in page for name in hosts)


def report_from_here(project: Project, folder: Path, environment: Mapping[str, str], *how: str) -> None:
    def run(command: Sequence[str]) -> tuple[bool, str]:
        surroundings = {**project.environment, **environment}
        done = subprocess.run([*command, *how], cwd=project.root, env=surroundings, capture_output=True, text=True)
        return done.returncode == 0, done.stdout + done.stderr

    with host_of_its_own(folder / "one") as one, host_of_its_own(folder / "two") as two:
        report_of_two_targets(project, {"h1": one, "h2": two}, run)


@long
@needs_root
def test_every_job_of_a_report_may_run_on_a_machine_of_its_own(project: Project):
    report_from_here(project, project.root / "hosts", {}, *on_nodes(project))


@long
@needs_root
@pytest.mark.skipif(slurm_cluster.missing() != [], reason=f"not installed: {', '.join(slurm_cluster.missing())}")
@pytest.mark.skipif(not PLUGINS.is_dir(), reason=f"no {PLUGINS.relative_to(CHECKOUT)}: `make test-long` makes it")
def test_slurm_runs_a_report_with_the_profile_that_ships(project: Project, tmp_path: Path):
    with slurm_cluster.slurm_cluster(tmp_path / "slurm") as found_by:
        environment = {**found_by, "PYTHONPATH": f"{project.root / 'src'}:{PLUGINS}"}
        report_from_here(project, tmp_path / "hosts", environment, "--profile", "workflow/profiles/slurm")
        jobs = slurm_cluster.asked(["squeue", "--states=all", "--noheader", "--format=%T"], found_by).split()
        assert len(jobs) == 7 and set(jobs) == {"COMPLETED"}, "two tiny ones are done here"


@long
@needs_root
@pytest.mark.skipif(kubernetes_node.missing() != [], reason=f"not installed: {', '.join(kubernetes_node.missing())}")
def test_kubernetes_runs_a_report_with_the_profile_that_ships(project: Project, tmp_path: Path):
    """On a real cluster, the command in a pod of its own, in the image that ships."""
    with ExitStack() as stack:
        node = stack.enter_context(kubernetes_node.kubernetes_node(tmp_path / "node", CHECKOUT / ".benchstudy"))
        hosts = {}
        for number, address in enumerate(kubernetes_node.ADDRESSES):
            sshd = host_of_its_own(project.root / f"host-{number}", address=address, prefix=node.inside[:-1])
            hosts[f"h{number}"] = stack.enter_context(sshd)
        node.share(project.root)

        def run(command: Sequence[str]) -> tuple[bool, str]:
            told = {"BENCHSTUDY_IMAGE": kubernetes_node.IMAGE, "BENCHSTUDY_VOLUME": "shared"}
            phase, said = node.pod([*command, "--profile", "workflow/profiles/kubernetes"], project.root, told)
            return phase == "Succeeded", said

        report_of_two_targets(project, hosts, run)
        jobs = json.loads(node.kubectl("get", "jobs", "-o", "json"))["items"]
        assert len(jobs) == 7 and all(job["status"].get("succeeded") == 1 for job in jobs), (
            "two tiny ones are done there"
        )
