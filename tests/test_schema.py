"""The JSON Schema of a study: what ships is valid, and what is invalid by it, the reader refuses, too."""

import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import CHECKOUT
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from benchstudy.commands.cli import main
from benchstudy.commands.reference import _models_inside
from benchstudy.model import registry
from benchstudy.model.errors import StudyError
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study

CONFIG = CHECKOUT / "config"
FILE = CONFIG / "study.schema.json"
SHIPPED = [CONFIG / "config.yaml", *sorted((CONFIG / "studies").glob("*.yaml"))]
MISSING = "(missing)"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def written(name: str) -> dict[str, Any]:
    """A study as in its file, including systems. A time that YAML reads as such is a text to an editor."""
    return json.loads(json.dumps(yaml.safe_load((CONFIG / name).read_text()), default=str))


def command(*arguments: str | Path) -> str:
    """What `benchstudy schema` prints. In a process of its own, because other tests here read families of their own."""
    argv = [sys.executable, "-m", "benchstudy.commands.cli", "schema", *map(str, arguments)]
    return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def test_the_file_is_what_the_command_writes_today(tmp_path, schema):
    made = tmp_path / "schema.json"
    command("-o", made)
    assert json.loads(made.read_text()) == schema, f"remake it: benchstudy schema -o {FILE.relative_to(CHECKOUT)}"


def test_it_is_printed_too(schema):
    assert json.loads(command()) == schema


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_is_right_and_names_the_schema_for_editors(path: Path, validator):
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(written(str(path)))]
    assert not problems
    first = path.read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema={os.path.relpath(FILE, path.parent)}"


FULL, POSTGRES = "config.yaml", "studies/postgres-settings.yaml"
WINDOWS, CORPUS = "studies/prometheus-export.yaml", "studies/compressors.yaml"
PGBENCH, GZIP = "families.command.commands.0", "families.command.services.corpus"
SIZES, FIO, HTTP = "families.file_size", "families.fio", "families.http_concurrency"
LOG, LOAD, RULE = "families.log_write", "families.load_test", "families.load_test.loads.1.rule"
JOB = {"name": "own", "rw": "randread"}
# One error each: the study, the path, the value there.
WRONG: list[tuple[str, str, Any]] = [
    # a misspelled key, in the study and in each family
    (FULL, "blokcs", 6),
    (FULL, "hosts.local.usr", "me"),
    (FULL, f"{SIZES}.sises", ["1MB"]),
    (FULL, f"{SIZES}.backends.0.pth", "/tmp"),
    (FULL, f"{SIZES}.backends.3.part_sise", "100MB"),
    (FULL, f"{FIO}.runtme", "1s"),
    (FULL, f"{FIO}.jobs.0.iodpeth", 2),
    (FULL, f"{HTTP}.generators.0.request", 5),
    (FULL, f"{LOG}.rate", ["1/s"]),
    (FULL, f"{LOAD}.behaviour.think_tme", {}),
    (POSTGRES, f"{PGBENCH}.matirx", {}),
    # unknown family, parameter of a system, choice, action, level of a fixed list
    (FULL, "families.file_sise", {}),
    (FULL, f"{HTTP}.services.file-tree.with.filess", 25),
    (FULL, f"{HTTP}.servers.1.with.strorage", "sshfs"),
    (FULL, f"{LOAD}.services.mattermost-9.9.with.release", "9.8"),
    (FULL, f"{LOAD}.behaviour.actions", {"dance": 1.0}),
    (FULL, f"{FIO}.jobs.0.rw", "raed"),
    (FULL, f"{SIZES}.ops", ["rite"]),
    (FULL, f"{SIZES}.backends.0.kind", "nfs"),
    (FULL, "acknowledge.0.question", "Why?"),
    # a wrong type
    (FULL, "seed", "abc"),
    (FULL, "hosts", []),
    (FULL, f"{FIO}.directories", {"name": "local", "path": "/var/tmp"}),
    (FULL, f"{HTTP}.servers.1.with.clients", "many"),
    (POSTGRES, f"{PGBENCH}.argv", "pgbench -n"),
    # a wrong unit, or none
    (FULL, f"{SIZES}.sizes", [100]),
    (FULL, f"{SIZES}.sizes", ["100mb"]),
    (FULL, f"{FIO}.runtime", "1 sec"),
    (FULL, f"{FIO}.timeout", 30),
    (FULL, f"{HTTP}.sweeps.3.rates", ["100"]),
    (FULL, f"{LOAD}.behaviour.replies", "18"),
    (FULL, f"{RULE}.window", 12),
    (POSTGRES, f"{PGBENCH}.metrics.latency.unit", "millis"),
    (FULL, "until", "5"),
    (WINDOWS, f"{LOAD}.windows.0.start", "yesterday"),
    # out of bounds
    (FULL, "blocks", 0),
    (FULL, f"{FIO}.jobs.0.iodepth", 0),
    (FULL, "thresholds", {"margin": "0%"}),
    (FULL, "hosts.local.port", 70_000),
    (FULL, "hosts", {"local": {"address": "db1:2222"}}),
    (FULL, f"{HTTP}.concurrency", [70_000]),
    # a missing field
    (FULL, "targets", MISSING),
    (FULL, f"{FIO}.directories", MISSING),
    (FULL, f"{SIZES}.backends.0.kind", MISSING),
    (POSTGRES, f"{PGBENCH}.argv", []),
    (FULL, f"{RULE}.max_users", MISSING),
    (CORPUS, f"{GZIP}.ready", MISSING),
    # two of a kind, or none of two
    (CORPUS, f"{GZIP}.ready.mount", "/mnt"),
    (POSTGRES, f"{PGBENCH}.metrics.tps.csv", "tps"),
    (FULL, "acknowledge.0.lint", "brief"),
    (FULL, "ceilings.0.rate", "1GB/s"),
    (FULL, f"{FIO}.targets", []),
    (FULL, f"{FIO}.targets", ["this-machine", "this-machine"]),
    (FULL, f"{FIO}.directories", [{"name": "a", "path": "/tmp"}, {"name": "a", "path": "/tmp"}]),
    # invalid names, paths and hosts
    (FULL, "study", "a..b"),
    (FULL, "hosts.local.work_dir", "/"),
    (FULL, "hosts", {"local": {"address": "-oProxyCommand=x"}}),
    (FULL, "targets.a/b", {"roles": {"sut": "local"}}),
    (POSTGRES, f"{PGBENCH}.metrics.TPS", {"regex": "(.)"}),
]


def test_there_are_enough_wrong_ones():
    assert len({(base, path, str(value)) for base, path, value in WRONG}) >= 40


@pytest.mark.parametrize("base", sorted({base for base, _, _ in WRONG}))
def test_nothing_is_wrong_before(base: str, validator):
    parse_study(written(base))
    assert validator.is_valid(written(base))


@pytest.mark.parametrize(("base", "path", "value"), WRONG, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_refused_by_the_schema_and_by_the_reader(base: str, path: str, value: Any, validator):
    study = changed(written(base), path, value)
    assert not validator.is_valid(study)
    with pytest.raises(StudyError):
        parse_study(study)


def changed(study: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The study with the value at `path` (dots; numbers are places in lists) replaced."""
    study = copy.deepcopy(study)
    inner: Any = study
    parts = path.replace("mattermost-9.9", "mattermost-9·9").split(".")
    *way, last = (int(part) if part.isdigit() else part.replace("·", ".") for part in parts)
    for part in way:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner[part]
    if value is MISSING:
        del inner[last]
    else:
        inner[last] = value
    return study


@pytest.mark.parametrize(
    ("base", "path", "value"),
    [
        (FULL, f"{FIO}", {}),  # for imported outputs only
        (FULL, f"{FIO}", None),
        (FULL, f"{HTTP}.servers.0", {"system": "sftpgo", "name": "mine", "with": {"storage": "sshfs"}}),
        (FULL, f"{HTTP}.servers.0", {"system": "nginx", "with": {"workers": [1, 2]}}),
        (FULL, f"{HTTP}.servers.1.with", {"storage": {"system": "sshfs", "with": {"options": "rw"}}}),
        (FULL, "blocks", {"min": 6, "max": 30}),
        (FULL, "until", 0.05),
        (FULL, "disturbance", {"limit": "100 %"}),
        (FULL, f"{SIZES}.backends.0.expect_fs", "ext4"),
        (POSTGRES, f"{PGBENCH}.warm_up", "5s"),
        (POSTGRES, f"{PGBENCH}.warm_up", 3),
        (POSTGRES, f"{PGBENCH}.expect.exit", [0, 1]),
        (POSTGRES, f"{PGBENCH}.with", {"max_connections": [20, 100]}),
    ],
    ids=str,
)
def test_what_may_be_written_in_several_ways_is_right_in_each(base: str, path: str, value: Any, validator):
    study = changed(written(base), path, value)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(study)] == []


def test_a_list_makes_no_levels_of_a_service(validator):
    study = changed(written(FULL), f"{HTTP}.services.file-tree.with.files", [1, 2])
    assert not validator.is_valid(study)


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        schema = [*schema.values()]
    if isinstance(schema, list):
        for part in schema:
            yield from parts(part)


def test_every_field_is_explained_as_the_models_explain_it(schema):
    told = {part["description"] for part in parts(schema) if isinstance(part.get("description"), str)}
    models: set[type[BaseModel]] = {Study, *_models_inside(Study)}
    for name in registry.names():
        config = registry.get(name).Config
        assert registry.get(name).title in told
        models |= {config, *_models_inside(config)}
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description is None or field.description in told, f"{model.__name__}.{name}"


def test_each_default_is_a_value_that_one_may_write(schema):
    found = 0
    for part in parts(schema):
        # `default` may also be a key of a study; then it is a schema.
        if "default" in part and not isinstance(part["default"], dict) and {"type", "anyOf", "enum"} & part.keys():
            found += 1
            whole = Draft202012Validator({"$defs": schema["$defs"], **part})
            assert whole.is_valid(part["default"]), part
    assert found > 200
    assert schema["$defs"]["Thresholds"]["properties"]["lease"]["default"] == "30s"


def test_systems_of_a_study_of_its_own_and_a_family_of_another_package_are_in_it(tmp_path):
    mine = tmp_path / "systems" / "mine"
    mine.mkdir(parents=True)
    about = {"title": "Mine", "about": "My own.", "homepage": "https://example.org", "license": "MIT", "tested": []}
    about["parameters"] = {"speed": {"type": "integer", "description": "how fast", "default": 1}}
    about["services"] = {"mine": {"ports": ["http"], "argv": ["serve", "{{with.speed}}"], "ready": {"tcp": "http"}}}
    (mine / "system.yaml").write_text(yaml.safe_dump(about))
    (tmp_path / "study.yaml").write_text("study: mine\n")
    package = CHECKOUT / "tests" / "data" / "sixth_family"
    made = subprocess.run(
        [sys.executable, "-m", "benchstudy.commands.cli", "schema", "--study", "study.yaml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}{os.pathsep}{package}"},
        capture_output=True,
        text=True,
        check=True,
    )
    validator = Draft202012Validator(json.loads(made.stdout))
    study = {
        "study": "mine",
        "hosts": {"here": {"loopback": True}},
        "targets": {"one": {"roles": {"sut": "here"}}},
        "families": {
            "sixth_family": {"lengths": ["1ms"]},
            "http_concurrency": {
                "servers": [{"system": "mine", "with": {"speed": [1, 2]}}],
                "generators": [{"name": "wrk", "tool": "wrk", "duration": "1s"}],
            },
        },
    }
    assert [*validator.iter_errors(study)] == []
    assert not validator.is_valid(changed(study, "families.sixth_family.lenghts", ["1ms"]))
    assert not validator.is_valid(changed(study, f"{HTTP}.servers.0.with", {"speed": "fast"}))


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link.json"
    os.mkfifo(pipe)
    link.symlink_to("real.json")
    (tmp_path / "real.json").touch()
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert main(["schema", "-o", str(pipe)]) == main(["schema", "-o", str(link)]) == 0
    assert pipe.is_fifo() and link.is_symlink()
    reader.join(60)
    assert read == [(tmp_path / "real.json").read_text()] != [""]
