"""Jobs on other machines: each in namespaces of its own, from which it sees the project's folder and nothing else."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import Project
from nothing_lost import left_on_host, nothing_lost, processes, seen
from sshd_hosts import host_of_its_own
from test_faults_host import Lab
from waiting import until

from benchstudy.measuring.progress import under_way
from benchstudy.model import machine, paths
from benchstudy.model.files import write_atomically

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
        lab = Lab(tmp_path / "host", sshd.host)
        lab.root.mkdir()
        file = project.write_study(lab.study)
        project.snakemake("provision", "--configfile", file)
        command = project.start("measure", "--configfile", file, *on_nodes(project))
        try:
            until(lambda: lab.begun() == 2 or command.poll() is not None, 90)
            assert command.poll() is None, command.stdout.read()
            assert not list(paths.local_state(project.root).glob("preloaded*")), "nobody there would see its process"
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
        nothing_lost(before, good=2, lock=project.root / "sshd" / "host.lock")
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
