"""Provisioning if nothing has to be installed; test_two_hosts.py has a bare host."""

import json
import logging
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.commands.checks import check_host
from benchstudy.hosts import ssh_config
from benchstudy.measuring.session import hold_session
from benchstudy.model import registry
from benchstudy.model.studyfile import parse_study
from benchstudy.provisioning.deploy import INSTALL_IDLE
from benchstudy.provisioning.target import (
    ProvisionFailed,
    deploy_files,
    facts_problems,
    provision_target,
    what_is_ahead,
)

HOSTILE = "/tmp/benchstudy-$(touch pwned); `touch pwned` '\" \\"


def study(tmp_path, **host):
    return parse_study(
        {
            "study": "provisioned",
            "hosts": {"here": host or {"loopback": True, "work_dir": str(tmp_path / "work")}},
            "targets": {"bench": {"roles": {"sut": "here", "load": "here"}}},
            "families": {
                "file_size": {
                    "backends": [{"name": "disk", "kind": "path", "path": HOSTILE}],
                    "sizes": ["1MB"],
                }
            },
        }
    )


@pytest.fixture
def here(project, monkeypatch):
    """A project whose only deploy is one that a test writes, and the path of its facts."""
    monkeypatch.chdir(project.root)
    for deploy in (project.root / "envs").glob("*.py"):
        deploy.unlink()
    return project.root


@pytest.mark.fault(29)
def test_a_host_that_has_everything_is_not_changed(here, tmp_path):
    (here / "envs" / "file_size.py").write_text(
        "from benchstudy.provisioning.deploy import install\n"
        "install('a shell', 'bash', 'coreutils')\n"
        "install('for a role that this host has not', 'no-such-package', roles=['db'])\n"
    )
    facts_path = here / "data" / "facts.json"
    result = provision_target(study(tmp_path), "bench", facts_path)
    assert (result.changed, result.problems) == (0, [])
    host = json.loads(facts_path.read_text())["hosts"]["here"]
    assert set(host["packages"]) == {"bash", "coreutils"}
    assert all(host["packages"].values())
    assert "Linux" in host["machine"]
    assert facts_problems(facts_path) == []


def test_a_deploy_gets_roles_and_the_study_as_data(here, tmp_path):
    (here / "envs" / "file_size.py").write_text(
        "import json, pathlib\n"
        "from pyinfra import host\n"
        "seen = {'roles': host.data.roles, 'path': host.data.family['backends'][0]['path']}\n"
        "pathlib.Path('seen.json').write_text(json.dumps(seen))\n"
    )
    provision_target(study(tmp_path), "bench", here / "facts.json")
    assert json.loads((here / "seen.json").read_text()) == {"roles": ["sut", "load"], "path": HOSTILE}
    assert not (here / "pwned").exists()


def test_any_pyinfra_operation_may_be_used_and_runs_once(here, tmp_path):
    wanted = tmp_path / "what a deploy wrote"
    (here / "envs" / "file_size.py").write_text(
        "import io\n"
        "from pyinfra.operations import files\n"
        f"files.put(name='a file', src=io.StringIO('content'), dest={str(wanted)!r}, mode='600')\n"
    )
    assert provision_target(study(tmp_path), "bench", here / "facts.json").changed == 1
    assert wanted.read_text() == "content"
    assert provision_target(study(tmp_path), "bench", here / "facts.json").changed == 0


@pytest.mark.fault(33)
def test_a_host_out_of_reach_is_a_problem_that_its_facts_tell(here, tmp_path):
    facts_path = here / "facts.json"
    known = tmp_path / "known_hosts"
    known.touch()
    result = provision_target(study(tmp_path, address="127.0.0.1", port=1, known_hosts=str(known)), "bench", facts_path)
    [problem] = result.problems
    assert problem.startswith("here: ") and "127.0.0.1 port 1" in problem
    assert json.loads(facts_path.read_text())["hosts"]["here"]["unreachable"]
    assert facts_problems(facts_path) == [problem.removeprefix("here: ")] and facts_path.exists()


@pytest.mark.fault(33)
def test_a_host_that_runs_no_command_is_its_own_problem(here, tmp_path):
    """The host acts as if its login shell were /bin/false. Its session says so, too; other targets are unaffected."""
    with SshdHost(tmp_path / "sshd", options=["ForceCommand /bin/false"]) as sshd:
        one = study(tmp_path, **sshd.described())
        result = provision_target(one, "bench", here / "facts.json")
        (plan,) = one.sessions()
        held = json.loads(hold_session(here, plan).read_text())
    [problem] = result.problems
    words = "no command can be run there; does the user's login shell run commands?"
    assert words in problem and words in held["problem"] and held["trials"] == []


def test_a_sudo_that_is_refused_hides_nothing_that_is_there(here, tmp_path):
    """As for a user who must give a password, or may run only some commands."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("id", "echo 1000"), ("sudo", "echo sudo: a password is required >&2; exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    deploy = "from benchstudy.provisioning.deploy import install\ninstall('a shell', 'bash')\n"
    with SshdHost(tmp_path / "sshd", environment={"PATH": f"{programs}:/usr/bin:/bin"}) as sshd:
        one = study(tmp_path, **sshd.described(sudo=True))
        (here / "envs" / "file_size.py").write_text(deploy)
        found = provision_target(one, "bench", here / "facts.json")
        assert found.problems == [] and found.hosts["here"]["packages"]["bash"]
        (here / "envs" / "file_size.py").write_text(f"{deploy}install('more', 'no-such-package')\n")
        [problem] = provision_target(one, "bench", here / "facts.json").problems
        checked = [(text, fix) for fine, text, fix in check_host(one, "here", one.sessions()) if not fine]
    assert "more: missing on here" in problem
    assert "hosts.here.sudo: true does not help: sudo: a password is required" in problem
    [(told, fix)] = [found for found in checked if "sudo" in found[0]]
    assert told == "hosts.here.sudo: true, but the host refuses it: sudo: a password is required"
    assert fix.startswith("allow every command with password-less sudo there")


@pytest.mark.fault(33)
def test_a_provisioning_process_that_is_killed_is_a_problem_of_its_host(here, tmp_path):
    (here / "envs" / "file_size.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    with SshdHost(tmp_path / "sshd") as sshd:
        one = study(tmp_path, **sshd.described())
        [problem] = provision_target(one, "bench", here / "facts.json").problems
    assert "here: the provisioning process ended with status -9" in problem


@pytest.mark.parametrize("where", ["operation", "builder"])
def test_a_lost_connection_is_restored_and_provisioning_goes_on(here, tmp_path, caplog, where):
    """It is lost in an operation of pyinfra, or while the builder of programs is asked."""
    waits = f"touch {tmp_path}/begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *toolbuilder*) {waits} ;; esac\nexec python3 "$@"\n')
    python.chmod(0o755)
    deploys = {
        "operation": f"from pyinfra.operations import server\nserver.shell(commands=[{waits!r}])\n",
        "builder": "from benchstudy.provisioning.deploy import go_tool\n"
        "go_tool('a program', 'nothing', 'example.org/nothing', 'v0.0.1')\n",
    }
    (here / "envs" / "file_size.py").write_text(deploys[where])

    def drop() -> None:
        until((tmp_path / "begun").exists)
        assert sshd.drop_connections()
        (tmp_path / "go").touch()

    caplog.set_level(logging.INFO)
    with SshdHost(tmp_path / "sshd") as sshd, ThreadPoolExecutor(1) as pool:
        one = study(tmp_path, **sshd.described(tmp_path / "work", python=str(python)))
        dropped = pool.submit(drop)
        if where == "operation":
            result = provision_target(one, "bench", here / "facts.json")
            assert (result.problems, result.changed) == ([], 1)
        else:
            ahead = what_is_ahead(one, [("bench", "file_size")])["here"]
            assert (list(ahead.builds), ahead.unknown) == (["nothing"], "")
        dropped.result()
    assert "the connection was lost" in caplog.text and "here: connected again" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_file_of_this_machine_that_cannot_be_written_is_named(here, tmp_path):
    state = here / ".benchstudy" / "loopback"
    state.parent.mkdir(exist_ok=True)
    state.symlink_to("/proc/nothing-can-be-made-here")
    [problem] = provision_target(study(tmp_path), "bench", here / "facts.json").problems
    assert "/proc/nothing-can-be-made-here" in problem


def test_an_error_in_a_deploy_names_the_file_and_leaves_no_facts(here, tmp_path):
    (here / "envs" / "file_size.py").write_text("import no_such_module\n")
    with pytest.raises(ProvisionFailed, match=r"here: envs/file_size\.py: .*no_such_module"):
        provision_target(study(tmp_path), "bench", here / "facts.json")
    assert not (here / "facts.json").exists()


PACKAGE = {
    "other_benches/__init__.py": "",
    "other_benches/brought/__init__.py": "",
    "other_benches/brought/family.py": (
        "from benchstudy.model.family import Case, Family\n"
        "class Brought(Family):\n"
        "    name = 'brought'\n"
        "    title = 'Brought by another package'\n"
        "    runs_on = 'sut'\n"
        "    def cases(self, config):\n"
        "        return [Case({'what': 'only'})]\n"
        "FAMILY = Brought()\n"
    ),
    "other_benches/brought/parse.py": "def parse_trial(levels, files): ...\n",
    "other_benches/brought/deploy.py": (
        "import pathlib\n"
        "from pyinfra import host\n"
        "from benchstudy.provisioning.deploy import install\n"
        "install('a shell', 'bash')\n"
        "pathlib.Path('seen').write_text(f'package {host.data.family[\"timeout\"]:g}')\n"
    ),
    "other_benches-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other-benches\nVersion: 1.0\n",
    "other_benches-1.0.dist-info/entry_points.txt": "[benchstudy.families]\nbrought = other_benches.brought\n",
}


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """A family of another package that is installed here; its folder."""
    for file, text in PACKAGE.items():
        path = tmp_path / "site" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "site")
    registry.packages.cache_clear()
    registry.left_out.cache_clear()
    registry.get.cache_clear()
    yield tmp_path / "site" / "other_benches" / "brought"
    monkeypatch.undo()
    registry.packages.cache_clear()
    registry.left_out.cache_clear()
    registry.get.cache_clear()


def test_ssh_is_asked_once_for_what_is_the_same_for_every_host(here, tmp_path, monkeypatch):
    """Each of many forks would start one ssh more."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\nexec {shutil.which("ssh")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    ssh_config._usual_settings.cache_clear()
    names = ("a", "b", "c")
    declared = {
        "study": "unreachable",
        "hosts": {name: {"address": "127.0.0.1", "port": 9} for name in names},
        "targets": {name: {"roles": {"sut": name}} for name in names},
        "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
    }
    found = what_is_ahead(parse_study(declared), [(name, "command") for name in names])
    assert all("127.0.0.1" in ahead.unknown for ahead in found.values()) and found.keys() == {*names}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 4 and sum("-F none" in line for line in asked) == 1


def test_a_family_of_another_package_brings_its_own_deploy(here, tmp_path, brought):
    declared = {
        "study": "provisioned",
        "hosts": {"here": {"loopback": True, "work_dir": str(tmp_path / "work")}},
        "targets": {"bench": {"roles": {"sut": "here"}}},
        "families": {"brought": {"timeout": "7s"}},
    }
    provision_target(parse_study(declared), "bench", here / "facts.json")
    facts = json.loads((here / "facts.json").read_text())
    assert (here / "seen").read_text() == "package 7"
    assert facts["hosts"]["here"]["packages"]["bash"] and facts["families"] == ["brought"]
    assert deploy_files(here, ["brought"]) == [brought / "deploy.py"]

    (brought / "deploy.py").write_text("import no_such_module\n")
    with pytest.raises(ProvisionFailed, match=r"here: /.*/brought/deploy\.py: .*no_such_module"):
        provision_target(parse_study(declared), "bench", here / "facts.json")

    (brought / "deploy.py").write_text("import sys\nsys.exit('no')\n")
    with pytest.raises(ProvisionFailed, match=r"/deploy\.py: SystemExit: no, line 2 of deploy\.py; correct it"):
        provision_target(parse_study(declared), "bench", here / "facts.json")

    # The project's own answer comes first.
    for name in ("brought", "common"):
        (here / "envs" / f"{name}.py").write_text(f"import pathlib\npathlib.Path('seen').write_text('{name}')\n")
    assert provision_target(parse_study(declared), "bench", here / "facts.json").problems == []
    assert (here / "seen").read_text() == "brought"
    assert deploy_files(here, ["brought"]) == [here / "envs" / "common.py", here / "envs" / "brought.py"]


@pytest.mark.fault(35)
def test_a_killed_installation_leaves_no_rule_against_services_of_others(tmp_path):
    programs, policy, answered, go = (tmp_path / name for name in ("bin", "policy-rc.d", "answered", "go"))
    programs.mkdir()
    for name, text in {
        "apt-get": f'sh "{policy}"; echo $? > "{answered}"; until [ -e "{go}" ]; do sleep 0.02; done',
        "systemctl": "",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    script = INSTALL_IDLE.format(packages="nginx", units="nginx").replace("/usr/sbin/policy-rc.d", str(policy))
    argv, environment = ["sh", "-c", script], {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def installing() -> subprocess.Popen:
        answered.unlink(missing_ok=True)
        process = subprocess.Popen(argv, env=environment)
        until(lambda: answered.exists() and answered.read_text() == "101\n")
        return process

    for asks in (["sh", policy], argv):  # the installer of another package; or ours, again
        go.unlink(missing_ok=True)
        with installing() as shell:
            shell.kill()
        go.touch()
        assert policy.exists()
        assert subprocess.run(asks, env=environment).returncode == 0 and not policy.exists()
    policy.write_text("#!/bin/sh\nexit 101\n")
    subprocess.run(argv, env=environment, check=True)
    assert policy.read_text() == "#!/bin/sh\nexit 101\n", "that of an administrator"
