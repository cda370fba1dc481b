"""Mistakes in a family of another package are refused in words that name the place and the fix."""

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import CHECKOUT
from sshd_hosts import SshdHost

from benchstudy import lints
from benchstudy.commands.cli import main
from benchstudy.hosts import shipping
from benchstudy.jobs import inputs
from benchstudy.jobs.notebooks import execute
from benchstudy.jobs.parts import SCHEMAS
from benchstudy.lints.model import Material, rule
from benchstudy.measuring.session import hold_session
from benchstudy.model import registry, rules, sources
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.family import Case, Family, Observation, Parsed, ParseError
from benchstudy.model.metrics import Metric
from benchstudy.model.names import TABLES
from benchstudy.model.studyfile import parse_study
from benchstudy.report.published.published_page import PublishedPage

FAMILY = """
from benchstudy.model.family import Case, Family
from benchstudy.model.metrics import Metric, declare

class Broken(Family):
    name = title = "broken"
    runs_on = "sut"
    metrics = declare(Metric("time", "s", "Time", "lower"))
    series_schemas = {"runs": {"time_s": "Float64"}}

    def cases(self, config):
        return [Case({"size": "1"})]

FAMILY = Broken()
"""
RUN = "from os import getcwd as run_trial"
RULE = """
from benchstudy.lints.model import rule
@rule("own", "note", why="W.", action="A.")
def own(material): ...
"""
STUDY = {
    "study": "s",
    "hosts": {"h": {"loopback": True}},
    "targets": {"t": {"roles": {"sut": "h"}}},
    "families": {"broken": {}},
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a family of another package, with a part of it replaced."""

    def installed(old: str = "", new: str = "", point: str = "broken = broken_bench", **parts: str) -> None:
        files = {
            "broken_bench/__init__.py": "",
            "broken_bench/family.py": FAMILY.replace(old, new),
            "broken_bench/parse.py": "def parse_trial(levels, files): ...",
            **{f"broken_bench/{name}.py": text for name, text in parts.items()},
            "broken-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 1\n",
            "broken-1.dist-info/entry_points.txt": f"[benchstudy.families]\n{point}\n",
        }
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(tmp_path / "site")
        forget(monkeypatch)

    yield installed
    monkeypatch.undo()
    forget(monkeypatch)


def forget(monkeypatch) -> None:
    registry.packages.cache_clear()
    registry.left_out.cache_clear()
    registry.get.cache_clear()
    os.environ.pop(registry.WARNED, None)
    inputs._files.cache_clear()
    sources._graph.cache_clear()
    sources._folder.cache_clear()
    sources._outermost.cache_clear()
    for module in [name for name in sys.modules if name.partition(".")[0] == "broken_bench"]:
        monkeypatch.delitem(sys.modules, module, raising=False)


def test_an_entry_point_that_clashes_or_leads_nowhere_stops_only_studies_of_that_name(install, capsys, caplog):
    for name, package, told in [
        (
            "fio",
            "broken_bench",
            "two packages provide a family 'fio': benchstudy.families.fio and broken_bench; "
            "uninstall broken, or rename its entry point and its family",
        ),
        (
            "broken",
            "broken_benches",
            "broken provides a family 'broken', but broken_benches is not a package with an "
            "__init__.py; correct its entry point and install it again, or uninstall broken",
        ),
    ]:
        install(point=f"{name} = {package}")
        assert main(["systems"]) == 0
        assert "nginx" in capsys.readouterr().out and caplog.messages == [f"left out: {told}"]
        parse_study(STUDY | {"families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}}})
        assert refused(lambda name=name: parse_study(STUDY | {"families": {name: {}}})) == told
        caplog.clear()


def test_a_broken_family_keeps_no_other_from_shipping_its_libraries(install):
    install("class Broken", "1 / 0\nclass Broken")
    shipping._library.cache_clear()
    assert shipping.versions("load-users") == {}, "scripts of load_test, which is whole"


def test_commands_of_a_family_that_fail_leave_the_other_commands(install, capsys):
    missing = "benchstudy: the commands of broken_bench are missing: families.broken: its commands.py fails: "
    for commands, told in {
        "1 / 0": "ZeroDivisionError: division by zero, line 1 of commands.py; ",
        "1 +": "SyntaxError: invalid syntax (commands.py, line 1); ",
        "": "AttributeError: module 'broken_bench.commands' has no attribute 'add_commands'; ",
        "def add_commands(them): them.add_parser('plan')": "ArgumentError: argument COMMAND: conflicting",
    }.items():
        install(commands=commands)
        assert main(["systems"]) == 0
        said = capsys.readouterr()
        assert said.err.startswith(missing + told) and said.err.count("\n") == 1
        assert "sshfs" in said.out


@pytest.mark.parametrize("broken", ["1 / 0", "1 +"])
def test_broken_parts_of_a_family_take_down_only_its_own_studies(install, tmp_path, capsys, caplog, broken):
    told = {"1 / 0": "ZeroDivisionError: division by zero, line 1 of lints.py", "1 +": "SyntaxError: invalid syntax ("}
    empty = {"__init__": "", "page/__init__": ""}
    install(**empty, **{"lints": f"import benchstudy.lints\n{RULE}" * 2, "page/published": broken})
    assert "fails: AssertionError: two lints are called own" in refused(lambda: rules.require_of("broken"))
    assert "own" not in rules.names(), "none of a family's lints, or all of them"
    install(**empty, **{"lints": broken, "page/published": broken})
    assert told[broken] in refused(lambda: rules.require_of("broken"))
    assert lints.lint(Material("fio", "measured", ())) == []
    assert "the lints of broken are left out: families.broken: its lints.py fails: " in caplog.text
    assert told[broken] in refused(lambda: lints.lint(Material("broken", "measured", ())))
    page = PublishedPage(study="s", tidy=tmp_path, output=tmp_path)
    assert "fio" in page.sections and "its page/published.py fails: " in caplog.text
    (tmp_path / "broken").mkdir()
    refused(lambda: PublishedPage(study="s", tidy=tmp_path, output=tmp_path).sections)
    assert inputs.code_of_page("published", CHECKOUT / "notebooks" / "published.ipynb", ["fio"])
    if broken == "1 +":
        assert f"broken_bench: SyntaxError: line 1 of {tmp_path}" in refused(lambda: inputs.code_of_tables("broken"))


@pytest.mark.parametrize("broken", ["1 / 0", "import no_such_module"])
def test_modules_that_cannot_be_imported_make_no_results_and_take_no_outputs(install, tmp_path, capsys, broken):
    """A parser that cannot be imported is not an output that cannot be read."""
    install(run=broken, parse=f"{broken}\nparse_trial = print", imported=broken)
    family = registry.get("broken")
    for module, act in {
        "run": lambda: family.run(Case({}), None),
        "parse": lambda: family.parse({}, tmp_path),
        "imported": lambda: family.parse_import(tmp_path),
    }.items():
        assert re.fullmatch(rf"broken_bench.{module}: \w+: .*, line 1 of {module}.py; correct it, or .*", refused(act))
    (tmp_path / "printed.txt").write_text("1 s\n")
    command = ["import", "--dry-run", "--study", str(tmp_path / "study.yaml"), str(tmp_path / "printed.txt")]
    for name, told in {"fio": "no family of the study (fio) recognises", "broken": "broken_bench.imported: "}.items():
        (tmp_path / "study.yaml").write_text(json.dumps({**STUDY, "families": {name: {}}}))
        assert main(command) == 1 and told in capsys.readouterr().err


def test_a_broken_family_is_not_in_the_schema_and_the_others_are(install, capsys, caplog):
    install("FAMILY = Broken()", "FAMILY = 1 / 0")
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)["$defs"]["Families"]["properties"]
    assert "fio" in schema and "broken" not in schema
    assert caplog.text.count("the family broken is left out: broken_bench.family: ZeroDivisionError") == 1
    caplog.clear()
    callable_field = "class Config(FamilyConfig):\n    made: Callable\n"
    text = CONFIG.replace("class Config(FamilyConfig):\n", f"from typing import Callable\n{callable_field}")
    install(family=text + FAMILY.replace("    runs_on", "    Config = Config\n    runs_on"))
    assert (
        main(["schema"]) == 0 and "broken" not in json.loads(capsys.readouterr().out)["$defs"]["Families"]["properties"]
    )
    assert "left out: families.broken: the JSON Schema of its Config fails: PydanticInvalidForJsonSchema" in caplog.text


def refused(act) -> str:
    with pytest.raises(StudyError) as error:
        act()
    return str(error.value)


def test_a_package_around_a_family_that_cannot_be_imported_is_named(install, caplog):
    install(point="broken = broken_bench.inner", __init__="1 / 0")
    told = (
        "broken provides a family 'broken', but broken_bench.inner cannot be imported: ZeroDivisionError: "
        "division by zero; correct it and install it again, or uninstall broken"
    )
    assert main(["systems"]) == 0
    assert caplog.messages == [f"left out: {told}"]
    assert refused(lambda: parse_study(STUDY)) == told


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("FAMILY = Broken()", "FAMILY = Broken", "FAMILY must be an instance of a subclass of Family"),
        ("FAMILY = Broken()", "FAMILY = None", "FAMILY must be an instance of a subclass of Family"),
        ("name = title", "title", "name is missing: give a text"),
        ("name = title", "name", "title is missing: give a text"),
        ("    runs_on", "    Config = dict\n    runs_on", "Config is <class 'dict'>: derive a class from FamilyConfig"),
        ('declare(Metric("time", "s", "Time", "lower"))', "['time']", "metrics is a list: give a mapping by name"),
        ('declare(Metric("time", "s", "Time", "lower"))', "{'time': 's'}", "metrics.time is 's': give a Metric"),
        ('{"runs": {"time_s": "Float64"}}', "['runs']", "series_schemas is a list: give a mapping by name"),
        ('"lower"', '"down"', "metrics.time: better is 'down': use 'higher', 'lower' or None"),
        ('"s", "Time"', '"ms", "Time"', "metrics.time: 'ms' is not a base unit: convert it to one of 1, percent, s"),
        ('"lower"', '"lower", tells="cach"', "metrics.time: tells is 'cach': did you mean \"cache\"?"),
        ('"time", "s"', '"trial", "s"', "metrics.trial: its name is 'trial': use `declare`, and another name"),
        ('"time", "s"', '"my time", "s"', "metrics.my time: 'my time' cannot be a name: use lowercase letters, digits"),
        ('"Time"', '" "', "metrics.time: its title is empty: give a text"),
        ('"lower"', "primary=True", "metrics.time: it is primary: say whether 'higher' or 'lower' is better"),
        ('title = "broken"', 'title = ""', "name is missing: give a text"),
        ('"runs"', '"hosts"', "series_schemas: every family has a table 'hosts': use another name"),
        ('"time_s"', '"trial"', "series_schemas.runs: every table gets the column 'trial': leave it out"),
        ('"Float64"', '"Float"', "series_schemas.runs.time_s: 'Float' is not a type: did you mean \"Float64\"?"),
    ],
)  # fmt: skip
def test_declarations_that_nothing_can_use_are_refused(install, old, new, told):
    install(old, new)
    with pytest.raises(StudyError) as refused:
        parse_study(STUDY)
    assert str(refused.value).startswith(f"broken_bench.family: {told}")


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ('{"target": "1"}', "'target' cannot be a factor, because every table has a column of this name"),
        ('{"size": "../1"}', "size: '../1' cannot be a level: give printable text without a slash"),
        ('{"size": 1}', "size: 1 cannot be a level: give printable text without a slash"),
        ('{"size": "1\\n"}', "size: '1\\n' cannot be a level: give printable text without a slash"),
    ],
)
def test_cases_that_no_table_or_folder_can_hold_are_refused(install, levels, told):
    install('{"size": "1"}', levels)
    with pytest.raises(StudyError) as refused:
        parse_study(STUDY)
    assert str(refused.value).startswith(f"families.broken: {told}")


def test_a_family_without_what_its_trials_need_is_refused_before_it_measures(install, tmp_path, capsys):
    study, package = tmp_path / "study.yaml", tmp_path / "site" / "broken_bench"
    study.write_text(json.dumps(STUDY))
    there_is_no = "there is no module broken_bench.{0}: write it, with `{0}_trial`, or install the whole package"
    for command in (["plan", str(study)], ["check", "--no-hosts", str(study)]):
        install()
        assert main(command) == 1
        assert f"families.broken: {there_is_no.format('run')}" in "".join(capsys.readouterr())
    assert parse_study(STUDY), "without measuring, tables can still be made"
    for part, told in {
        "run": "broken_bench.run has no `run_trial`: write it, or install the whole package",
        "parse": "broken_bench.parse has no `parse_trial`: write it, or install the whole package",
    }.items():
        install(**{"run": RUN, part: "def other():\n    run_trial, parse_trial = 1, 2\n"})
        assert main(["plan", str(study)]) == 1
        assert told in capsys.readouterr().err
        install(**{"run": RUN, part: "1 +"})
        assert main(["plan", str(study)]) == 1
        assert (
            f"broken_bench.{part}: SyntaxError: invalid syntax ({part}.py, line 1); correct it"
            in capsys.readouterr().err
        )
    for file, told in {
        "parse.py": there_is_no.format("parse"),
        "family.py": "ModuleNotFoundError: No module named 'broken_bench.family'; correct it, or install the whole "
        "package again",
    }.items():
        install(run=RUN)
        (package / file).unlink()
        assert main(["check", "--no-hosts", str(study)]) == 1
        assert capsys.readouterr().err == f"benchstudy: {study}: broken_bench.family: {told}\n"
    install("FAMILY = Broken()", "FAMILY = 1 / 0")
    assert main(["check", "--no-hosts", str(study)]) == 1
    assert "broken_bench.family: ZeroDivisionError: division by zero, line 14 of family.py; " in capsys.readouterr().err


def test_a_plan_names_notebooks_that_cannot_be_executed(install, tmp_path, capsys):
    study, notebook = tmp_path / "study.yaml", tmp_path / "site" / "broken_bench" / "notebook.ipynb"
    study.write_text(json.dumps(STUDY))
    install(run=RUN)
    for content, told in {
        None: "broken.ipynb: no such notebook; write it",
        "<<<<<<< HEAD": "notebook.ipynb: not a notebook",
        json.dumps({"cells": [], "nbformat": 5}): "notebook.ipynb: `nbformat` is 5",
        json.dumps({"cells": [], "nbformat": 4, "metadata": {}}): "",
    }.items():
        if content is not None:
            notebook.write_text(content)
        assert main(["plan", "--no-hosts", str(study)]) == (1 if told else 0)
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("  no page can be made of ") and told in line] == (
            lines[-1:] if told else []
        )


def test_a_cell_that_fails_in_the_code_of_a_family_names_file_and_line(install, tmp_path):
    install(**{"page/__init__": "", "page/tables": "def shown():\n    return 1 / 0\n"})
    cell = nbformat.v4.new_code_cell("from broken_bench.page.tables import shown\nshown()")
    (tmp_path / "n.ipynb").write_text(json.dumps(nbformat.v4.new_notebook(cells=[cell])))
    with pytest.raises(BenchstudyError) as failed:
        execute(tmp_path / "n.ipynb", tmp_path / "log.ipynb", tmp_path / "out.ipynb", {})
    assert f"division by zero, line 2 of {tmp_path}/site/broken_bench/page/tables.py\n" in str(failed.value)


CONFIG = """
from benchstudy.model.family import FamilyConfig
from pydantic import model_validator

class Config(FamilyConfig):
    def unfit(self):
        return ()
"""
FAILS = "raise TypeError('one\\ntwo')"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('return [Case({"size": "1"})]', FAILS, "`cases` fails: TypeError: one two, line 20 of family.py"),
        ('Case({"size": "1"})', "None", "`cases` fails: AttributeError: 'NoneType' object has no attribute 'id'"),
        ("    def cases", "    numeric_levels = {'size': ('size_bytes', lambda level: 1 / 0)}\n    def cases",
         "a function of `numeric_levels` fails: ZeroDivisionError: division by zero, line 19 of family.py"),
        ("    def cases", f"    def of(self, config): {FAILS}\n    def cases", "`of` fails: TypeError: one two"),
        ("    def cases", f"    def order(self, *_): {FAILS}\n    def cases", "`order` fails: TypeError: one two"),
        ("    def cases", f"    def declared_s(self, _): {FAILS}\n    def cases", "`declared_s` fails: TypeError: one"),
        ("return ()", FAILS, "`unfit` fails: TypeError: one two, line 7 of family.py"),
        ("def unfit", f"@model_validator(mode='after')\n    def valid(self): {FAILS}\n    def unfit",
         "a validator of its Config fails: TypeError: one two, line 7 of family.py"),
    ],
)  # fmt: skip
def test_code_of_a_family_that_fails_is_named(install, tmp_path, capsys, old, new, told):
    whole = CONFIG + FAMILY.replace("    runs_on", "    Config = Config\n    runs_on")
    install(run=RUN, family=whole.replace(old, new))
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY))
    assert main(["plan", "--no-hosts", str(tmp_path / "study.yaml")]) == 1
    said = "".join(capsys.readouterr())
    assert f"families.broken: {told}" in said and f"; correct the code of the family, {tmp_path}" in said


def test_a_parser_that_fails_names_its_line(install):
    install(parse="def parse_trial(levels, files):\n    1 / 0\n")
    told = "broken cannot read the files of this trial: ZeroDivisionError: division by zero, line 2 of parse.py"
    with pytest.raises(ParseError) as failed:
        registry.get("broken").parse({}, Path())
    assert str(failed.value) == told


def test_a_run_that_raises_is_told_with_its_line(install, tmp_path, caplog):
    install(run="def run_trial(case, trial):\n    trial.note(n=1)\n    return 1 / 0\n")
    with SshdHost(tmp_path / "sshd") as sshd:
        (plan,) = parse_study(STUDY | {"hosts": {"h": sshd.described(tmp_path / "work")}, "blocks": 1}).sessions()
        problem = json.loads(hold_session(tmp_path, plan).read_text())["problem"]
    assert problem.endswith("internal error: ZeroDivisionError: division by zero, line 3 of run.py")
    assert "Traceback" in caplog.text and "return 1 / 0" in caplog.text


def test_a_check_that_fails_is_a_finding_beside_those_of_other_families(install, tmp_path, capsys):
    install(run=RUN, check="def check_host(config, host):\n    raise ValueError('one\\ntwo')\n")
    with SshdHost(tmp_path / "sshd") as sshd:
        programs = {"nothing": "no-such-program", "nowhere": "/opt/no/such"}
        command = {"commands": [{"name": name, "argv": [program]} for name, program in programs.items()]}
        hosts, families = {"h": sshd.described(tmp_path / "work")}, {"broken": {}, "command": command}
        (tmp_path / "study.yaml").write_text(json.dumps(STUDY | {"hosts": hosts, "families": families}))
        assert main(["check", str(tmp_path / "study.yaml")]) == 1
    said = capsys.readouterr()
    assert "PROBLEM broken: its check of hosts fails: ValueError: one two, line 2 of check.py\n" in said.out
    assert not said.err
    assert "no-such-program is missing\n      -> install it on h so that it is found on the PATH" in said.out
    assert "/opt/no/such is missing\n      -> install it on h at this path: no system has" in said.out
    assert "3 problems" in said.out


def test_the_tables_of_every_family_are_known_by_name():
    assert {*SCHEMAS, "cases", "metrics"} == set(TABLES)


class Given(Family):
    name = title = "given"
    metrics = {"time": Metric("time", "s", "Time", "lower")}  # noqa: RUF012

    def __init__(self, parsed: Parsed):
        self.parsed = parsed

    def cases(self, config) -> list[Case]:
        return []

    def read(self, case_levels, files) -> Parsed:
        return self.parsed


def test_a_parser_gives_each_metric_once_and_only_declared_series():
    one = Observation("time", 1.0, "s")
    assert Given(Parsed([one])).parse({}, Path()).observations == [one]
    with pytest.raises(ParseError, match="given gives time twice for one trial"):
        Given(Parsed([one, one])).parse({}, Path())
    with pytest.raises(ParseError, match="given declares no series 'runs'"):
        Given(Parsed([one], {"runs": []})).parse({}, Path())
    with pytest.raises(ParseError, match="given finds no figure in the files of this trial"):
        Given(Parsed([])).parse({}, Path())


def test_a_lint_that_fails_is_named_with_its_module(monkeypatch):
    monkeypatch.setattr("benchstudy.model.rules._defined", {})

    @rule("torn", "note", why="W.", action="A.")
    def torn(material: Material):
        yield "here", str(material.groups[7])

    monkeypatch.setattr(lints, "rules", lambda: {"torn": torn})
    with pytest.raises(BenchstudyError, match=r"the lint torn \(.*test_broken_family\) fails on made: IndexError: "):
        lints.lint(Material("made", "measured", ()))
    with pytest.raises(AssertionError, match=r"two lints are called torn: rename that of .*test_broken_family"):
        rule("torn", "note", why="W.", action="A.")(torn.find)
    with pytest.raises(AssertionError, match="the lint worn is 'warn': use error, warning, note"):
        rule("worn", "warn", why="W.", action="A.")(torn.find)
