"""Provisioning where nothing has to be installed; a bare host is in test_two_hosts.py."""

import json

import pytest

from benchstudy.model.study import parse_study
from benchstudy.provisioning.target import ProvisionFailed, facts_problems, provision_target

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
    """A project whose only deploy is one that a test writes, and the place of its facts."""
    monkeypatch.chdir(project.root)
    for deploy in (project.root / "envs").glob("*.py"):
        deploy.unlink()
    return project.root


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


def test_a_host_out_of_reach_is_a_problem_that_its_facts_tell(here, tmp_path):
    facts_path = here / "facts.json"
    known = tmp_path / "known_hosts"
    known.touch()
    result = provision_target(study(tmp_path, address="127.0.0.1", port=1, known_hosts=str(known)), "bench", facts_path)
    [problem] = result.problems
    assert problem.startswith("here: ") and "127.0.0.1 port 1" in problem
    assert json.loads(facts_path.read_text())["hosts"]["here"]["unreachable"]
    assert facts_problems(facts_path) == [problem.removeprefix("here: ")] and facts_path.exists()


def test_an_error_in_a_deploy_names_the_file_and_leaves_no_facts(here, tmp_path):
    (here / "envs" / "file_size.py").write_text("import no_such_module\n")
    with pytest.raises(ProvisionFailed, match=r"here: envs/file_size\.py: .*no_such_module"):
        provision_target(study(tmp_path), "bench", here / "facts.json")
    assert not (here / "facts.json").exists()
