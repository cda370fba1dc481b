"""`--json`: every command that prints results has it, its fields are documented, and the output is JSON."""

import json
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import CHECKOUT, as_project

from benchstudy.commands.cli import command_parser, main
from benchstudy.commands.completion import parsers

DATA = CHECKOUT / "tests" / "data"
DOCUMENT = CHECKOUT / "docs" / "commands.md"
# Other test files have what these commands need: two studies with tables, a crate, a Prometheus.
ELSEWHERE = {
    "archive": "test_archive.py",
    "compare": "test_two_studies.py",
    "crate": "test_reproduce.py",
    "pull": "test_archive.py",
    "push": "test_archive.py",
    "reproduce": "test_reproduce.py",
    "export": "test_load_test_scrape.py",
}
# They print or write something else, or become another program.
REPORTS_NOTHING = {"completion", "lab", "pdf", "run", "schema", "setup"}
HERE: dict[str, list[str]] = {
    "init": ["made", "--from", "fio"],
    "systems": ["nginx"],
    "docs": ["systems"],
    "plan": ["--no-hosts", "study.yaml"],
    "check": ["--no-hosts", "study.yaml"],
    "import": ["outputs", "--study", "study.yaml"],
    "cases": ["study.yaml"],
    "verify": ["study.yaml"],
    "prose": ["typed.ipynb"],
    "discard": ["--status", "failed", "--why", "to see what it prints", "--study", "study.yaml"],
}


def with_json() -> dict[str, ArgumentParser]:
    """Commands with this option, by name."""
    return {
        name: parser for name, parser in parsers(command_parser()).items() if "--json" in parser._option_string_actions
    }


def test_every_command_that_tells_something_has_it():
    for name in parsers(command_parser()):
        assert name in with_json() or name in REPORTS_NOTHING, f"{name}: add_json"


def test_each_is_parsed_by_a_test():
    assert with_json().keys() == HERE.keys() | ELSEWHERE.keys()
    for name, file in ELSEWHERE.items():
        text = (CHECKOUT / "tests" / file).read_text()
        assert f'"{name}"' in text and '"--json"' in text, f"{file}: {name} --json"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a study of commands, and outputs to import, one of which failed."""
    monkeypatch.chdir(as_project(tmp_path))
    study = {
        "study": "small",
        "hosts": {"here": {"loopback": True}},
        "targets": {"one": {"roles": {"sut": "here"}}},
        "families": {"fio": {}, "command": {"commands": [{"name": "true", "argv": ["true"]}]}},
    }
    Path("study.yaml").write_text(yaml.safe_dump(study))
    outputs = Path("outputs")
    outputs.mkdir()
    (outputs / "pair.json").write_text((DATA / "command" / "hyperfine" / "pair.json").read_text())
    (outputs / "stranger.txt").write_text("nothing that any family knows")
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["It took 42 s."]}
    Path("typed.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return tmp_path


def keys(facts: Any) -> Iterator[str]:
    if isinstance(facts, dict):
        for key, value in facts.items():
            yield key
            yield from keys(value)
    elif isinstance(facts, list):
        for part in facts:
            yield from keys(part)


def told(capsys: pytest.CaptureFixture[str], name: str, *words: str, status: int = 0) -> Any:
    """A command's JSON output; standard output may contain nothing else."""
    assert main([name, *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def documented(name: str) -> set[str]:
    """Fields that the document lists for a command."""
    part = re.search(rf"(?ms)^### `{name}`$(.*?)(?=^##|\Z)", DOCUMENT.read_text())
    assert part, f"docs/commands.md has no part on {name}"
    return set(re.findall(r"`([a-z][a-z0-9_]*)`", part[1]))


def test_each_prints_json_whose_fields_are_documented(project, capsys):
    found = {name: told(capsys, name, *words, status=name in ("import", "prose")) for name, words in RUNS}
    for name, facts in found.items():
        free = {"true", "ok", "failed", "timeout", "here", "command", "fio"}  # names of the study
        named = set(facts) if name == "systems" else set(keys(facts))  # below its keys, a system has names of its own
        assert named - free <= documented(name), name
    taken = found["import"]["imported"]
    assert taken and [refused["path"] for refused in found["import"]["refused"]] == ["outputs/stranger.txt"]
    assert found["verify"]["files"] > 0 and found["verify"]["differences"] == []
    assert [typed["number"] for typed in found["prose"]] == ["42 s"]
    assert {session["family"] for session in found["cases"]["sessions"]} == {"fio", "command"}
    assert found["check"]["problems"] == 0 and found["check"]["trials"]["min"] == 6
    assert {session["family"]: session["trials"] for session in found["plan"]["sessions"]} == {"fio": 0, "command": 6}


RUNS = [(name, words) for name, words in HERE.items() if name != "discard"]


def test_errors_stay_on_standard_error(project, capsys):
    for name, words in (("cases", ["none.yaml"]), ("discard", HERE["discard"]), ("systems", ["ngnix"])):
        assert main([name, *words, "--json"]) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.startswith("benchstudy: ")


def test_what_was_discarded_is_listed(project, capsys):
    taken = told(capsys, "import", *HERE["import"], status=1)["imported"]
    words = [taken[0]["trial"][:8], "--why", "to see what it prints"]
    (discarded,) = told(capsys, "discard", *words)
    assert discarded == {
        "uuid": taken[0]["trial"], "case": taken[0]["case"], "block": discarded["block"], "status": taken[0]["status"]
    }  # fmt: skip
    assert discarded.keys() <= documented("discard")
