"""A try finds at once what cannot work, and a session spends only two trials per case on it instead of all."""

import json

import pytest
from conftest import Project, copy_project

from benchstudy.model.studyfile import parse_study

pytestmark = pytest.mark.usefixtures("own_host_lock")
CLI = ("python", "-m", "benchstudy.commands.cli")


def study(work: str, **more):
    commands = [
        {"name": "works", "argv": ["true"]},
        {"name": "fails", "argv": ["sh", "-c", "echo no such user >&2; exit 3"]},
        {"name": "lasts", "argv": ["sleep", "60"]},
    ]
    return {
        "study": "hopeless",
        "blocks": 4,
        "give_up_after": 2,
        "hosts": {"local": {"loopback": True, "work_dir": work}},
        "targets": {"one": {"roles": {"sut": "local"}}},
        "families": {"command": {"commands": commands[:2] if more.get("quick") else commands}},
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    folder = tmp_path_factory.mktemp("hopeless")
    project = copy_project(folder / "project")
    project.write_study(study(str(folder / "work")), "tried.yaml")
    project.write_study(study(str(folder / "work"), quick=True))
    return project


def test_a_try_finds_what_cannot_work_in_seconds_and_counts_nowhere(project):
    project.snakemake("provision", "--configfile", "config/tried.yaml")
    done = project.run(*CLI, "check", "--try", "config/tried.yaml", check=False)
    assert done.returncode == 1
    said = [line.strip() for line in done.stdout.splitlines() if "command=" in line]
    assert sorted(line.partition(": ")[0] for line in said) == [
        "PROBLEM command on one", "ok      command on one", "ok      command on one"
    ]  # fmt: skip
    assert any("command=fails" in line and "exited with status 3: no such user" in line for line in said)
    assert any(line.endswith("command=lasts: nothing failed in 10 s") for line in said), said
    assert "1 could not be measured" in done.stdout
    assert not (project.root / "data/raw/hopeless").exists()
    assert len(list((project.root / ".benchstudy/tried/hopeless").rglob("trial.json"))) == 3


def index(project: Project) -> dict:
    return json.loads((project.root / "data/raw/hopeless/one/command/session.json").read_text())


def of(project: Project, case: str) -> list[int]:
    return [trial["block"] for trial in index(project)["trials"] if trial["case"] == f"command={case}"]


def test_a_case_that_fails_twice_in_the_same_way_is_given_up_and_the_page_says_so(project):
    asked = ("measure", "reports/hopeless/command.html", "--configfile", "config/study.yaml")
    done = project.snakemake(*asked)
    assert (of(project, "works"), of(project, "fails")) == ([1, 2, 3, 4], [1, 2])
    why = "sh exited with status 3: no such user"
    words = f"command=fails: given up after its first 2 trials failed in the same way ({why})"
    (session,) = index(project)["sessions"]
    assert [event for event in session["events"] if f"{words}; 2 were left out" in event]
    assert words in done.stdout + done.stderr
    (given,) = index(project)["given_up"]
    assert (given["case"], given["cause"], given["left_out"]) == ("command=fails", "exited", 2)
    page = (project.root / "reports/hopeless/command.html").read_text()
    assert "given up after its first 2 trials failed in the same way" in page.split("Given up", 1)[1]
    planned = project.snakemake("-n", *asked)
    assert "Nothing to be done" in planned.stdout + planned.stderr


def test_who_discards_a_failure_has_the_case_tried_again(project):
    (first, *_) = [trial["uuid"] for trial in index(project)["trials"] if trial["case"] == "command=fails"]
    project.run(*CLI, "discard", first[:8], "--why", "the user was missing", "--study", "config/study.yaml")
    project.snakemake("measure", "--configfile", "config/study.yaml")
    assert of(project, "fails") == [1, 1, 2] and len(index(project)["given_up"]) == 1


def test_without_the_key_a_study_has_the_hash_that_it_had():
    declared = study("/nowhere/work")
    given = parse_study(declared)
    declared.pop("give_up_after")
    left_out = parse_study(declared)
    assert given.sha256 != left_out.sha256
    assert given.session("one", "command").digest != left_out.session("one", "command").digest
    assert left_out.sha256 == parse_study({**declared, "give_up_after": None}).sha256
