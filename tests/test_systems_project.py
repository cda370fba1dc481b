"""Systems through the whole workflow: an example of the documents, and your own system outside the project."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from conftest import CHECKOUT, Project

from benchstudy.model.studyfile import parse_study

OWN = """
title: Greeter
about: Says something.
homepage: https://example.org
license: MIT
tested: ["1"]
packages:
  coreutils: {programs: [tail]}
parameters:
  word: {type: text, default: hello, description: what it says}
services:
  greeter:
    files_from: [word.txt]
    argv: [tail, -f, "{{dir}}/word.txt"]
    ready: {file: "{{dir}}/word.txt"}
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups and install here")
def test_two_servers_are_compared_as_the_examples_say(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(project.root / "host.lock"))
    examples = (CHECKOUT / "docs" / "examples.md").read_text()
    [(name, example)] = re.findall(r"```yaml\n# (config/studies/nginx-lighttpd\.yaml)\n(.*?)```", examples, re.DOTALL)
    assert len(example.splitlines()) <= 20
    # Two blocks of it for a second each; other tests cover how certain a verdict is.
    shorter = example.replace("duration: 2s, warm_up: 1s", "duration: 1s, warm_up: 0s")
    assert shorter != example
    (project.root / name).write_text(shorter)
    page = "reports/nginx-lighttpd/http_concurrency.html"
    project.snakemake(page, "--configfile", name, "--config", "blocks=2")
    index = project.root / "data/raw/nginx-lighttpd/this-machine/http_concurrency/session.json"
    trials = json.loads(index.read_text())["trials"]
    assert [trial["status"] for trial in trials] == ["ok"] * 2 * 2
    # The verdict itself depends on other load on this machine.
    table = (project.root / "reports/nginx-lighttpd/http_concurrency/tables/servers.csv").read_text()
    assert "Ratio to nginx" in table and "Verdict" in table and "lighttpd" in table


def test_a_system_beside_a_study_outside_of_the_project_is_installed_and_run(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "mine"
    (folder / "systems" / "greeter").mkdir(parents=True)
    (folder / "systems" / "greeter" / "system.yaml").write_text(OWN)
    (folder / "systems" / "greeter" / "word.txt").write_text("{{with.word}}\n")
    own = {
        "name": "read",
        "system": "greeter",
        "with": {"word": ["hello", "bye"]},
        "argv": ["cat", "{{system.dir}}/word.txt"],
    }
    study = {
        "study": "mine",
        "blocks": 1,
        "hosts": {"here": {"loopback": True, "work_dir": str(tmp_path / "work")}},
        "targets": {"machine": {"roles": {"sut": "here"}}},
        "families": {"command": {"commands": [own]}},
    }  # fmt: skip
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path / "host.lock"))
    project.snakemake("measure", "--configfile", folder / "study.yaml")
    [facts] = (project.root / "data/provision/mine").rglob("*.json")
    assert "coreutils" in json.loads(facts.read_text())["hosts"]["here"]["packages"]
    for word in ("hello", "bye"):
        [out] = (project.root / "data/raw/mine/machine/command" / f"command=read,word={word}").glob(
            "*/files/run-1/stdout"
        )
        assert out.read_text() == f"{word}\n"
    # Jobs got the expanded definition, and an edit of an installed file is noticed where the file is.
    declared = json.loads((project.root / ".benchstudy/studies/mine/declared.json").read_text())
    assert "read-greeter-word-bye" in declared["families"]["command"]["services"]
    assert "Nothing to be done" in project.snakemake("-n", "measure", "--configfile", folder / "study.yaml").stdout
    system = folder / "systems" / "greeter" / "system.yaml"
    system.write_text(system.read_text().replace("coreutils:", "util-linux:"))
    planned = project.snakemake("-n", "measure", "--configfile", folder / "study.yaml").stdout
    assert "provision_target" in planned


def test_the_examples_of_the_manual_are_what_they_say(tmp_path: Path):
    inside, own, use = re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs" / "systems.md").read_text(), re.DOTALL)
    assert len(own.splitlines()) <= 15
    folder = tmp_path / "systems" / "valkey"
    folder.mkdir(parents=True)
    (folder / "system.yaml").write_text(own)
    around = {"study": "x", "hosts": {"here": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "here"}}}}
    cases = [
        [case.id for plan in parse_study(around | yaml.safe_load(text), tmp_path).sessions() for case in plan.cases]
        for text in (inside, use)
    ]
    assert {case.split(",")[0] for case in cases[0]} == {
        f"server={name}" for name in ("nginx", "nginx-2-workers", "sftpgo", "copyparty")
    }
    assert cases[1] == ["command=gets,io_threads=1", "command=gets,io_threads=4"]
