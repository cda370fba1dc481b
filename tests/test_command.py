"""The family command through its public interfaces: a study's cases, real commands over SSH, tables, imports, check."""

import hashlib
import json
import re
import secrets
import statistics
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import CHECKOUT, as_project
from one_host import findings_of, study_on
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.commands import checks
from benchstudy.commands.importing import import_outputs
from benchstudy.families.command.extract import figure, points
from benchstudy.families.command.imported import recognise
from benchstudy.families.command.parse import parse_trial
from benchstudy.families.command.sources import OwnMetric, OwnSeries
from benchstudy.jobs.tidy import tidy_family
from benchstudy.lints import Figure, Group, Material, lint
from benchstudy.measuring import looks
from benchstudy.measuring.giving_up import given_up
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.sessionindex import is_held
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.causes import Cause
from benchstudy.model.errors import StudyError
from benchstudy.model.family import ParseError
from benchstudy.model.study import SessionPlan, Study
from benchstudy.model.units import base_of
from benchstudy.report import human

FAMILY = "command"
DATA = Path(__file__).parent / "data" / "command"


def study_of(host: Mapping[str, Any], *commands: Mapping[str, Any], study: str = "small", **block: Any) -> Study:
    families = {FAMILY: {**({"commands": list(commands)} if commands else {}), **block}}
    return study_on(host, families, study=study, target="machine", blocks=1)


def plan_of(*commands: Mapping[str, Any], **block: Any) -> SessionPlan:
    return study_of({"loopback": True}, *commands, **block).session("machine", FAMILY)


# --- what a study says ------------------------------------------------------------------------------------------------

TRUE = {"name": "true", "argv": ["true"]}
TPS = {"regex": "tps = ([0-9.]+)", "unit": "1/s", "better": "higher"}


def test_every_combination_of_levels_is_a_case_with_its_own_argv():
    plan = plan_of(
        {
            "name": "pgbench",
            "argv": ["pgbench", "-c", "{{clients}}", "{{mode}}"],
            "matrix": {"clients": [1, 16], "mode": {"simple": "-S", "mixed": "-n"}},
        },
        TRUE,
    )
    assert {case.id: case.definition["argv"] for case in plan.cases} == {
        "command=pgbench,clients=1,mode=simple": ["pgbench", "-c", "1", "-S"],
        "command=pgbench,clients=1,mode=mixed": ["pgbench", "-c", "1", "-n"],
        "command=pgbench,clients=16,mode=simple": ["pgbench", "-c", "16", "-S"],
        "command=pgbench,clients=16,mode=mixed": ["pgbench", "-c", "16", "-n"],
        "command=true": ["true"],
    }
    assert plan.family.numbers(plan.cases[2].levels) == {"clients_number": 16.0}


def test_another_way_to_read_output_measures_nothing_and_makes_tables_anew():
    without, within = plan_of(TRUE), plan_of({**TRUE, "metrics": {"tps": TPS}})
    assert without.digest == within.digest and without.family.reading != within.family.reading
    assert plan_of({**TRUE, "repeat": 2}).digest != without.digest


def test_what_cases_are_measured_for_is_the_studys_choice():
    def primary(*commands: Mapping[str, Any], **block: Any) -> list[str]:
        return [name for name, metric in plan_of(*commands, **block).family.metrics.items() if metric.primary]

    assert primary(TRUE) == ["wall_time"]
    own = {**TRUE, "metrics": {"tps": TPS, "rows": {"regex": "([0-9]+) rows"}}}
    assert primary(own) == ["tps"]
    assert primary(own, primary=["wall_time", "tps"]) == ["wall_time", "tps"]
    assert plan_of(own).family.metrics["tps"].unit == "1/s"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ({"argv": ["x", "{{cliens}}"], "matrix": {"clients": [1]}}, "{{cliens}} is not a factor of the matrix: did"),
        ({"argv": ["x", "{{db.port.sql}}"]}, "no service 'db' below services"),
        ({"argv": ["x", "{{system.dir}}"]}, "give the `system` of the command"),
        ({"matrix": {"mode": [True]}}, "is not a level"),
        ({"matrix": {"mode": ["-S"]}}, "name the level: {name: '-S'}"),
        ({"matrix": {"mode": {"a b": "-S"}}}, "name the level: {name: '-S'}"),
        ({"matrix": {"trial": [1]}}, "'trial' cannot be a factor"),
        ({"matrix": {f: [*range(40)] for f in "abcd"}}, "its levels combine to 2,560,000 cases: give at most 10,000"),
        ({"metrics": {"wall_time": TPS}}, "is a metric of every command"),
        ({"metrics": {"t": {"regex": "[0-9]+"}}}, "put the figure into a group"),
        ({"metrics": {"t": {"regex": "("}}}, "is not a regular expression"),
        ({"metrics": {"t": {"regex": "([[:digit:]]+)"}}}, "possible nested set at position 2: in a set, put a back"),
        ({"metrics": {"t": {"json": "$.a..b"}}}, "is not a JSON path"),
        ({"metrics": {"t": {**TPS, "csv": "rps"}}}, "give exactly one of regex, json, csv, size_of"),
        ({"metrics": {"t": {**TPS, "unit": "msec"}}}, "'msec' is an unknown unit: did you mean \"ms\"?"),
        ({"metrics": {"t": {"in": "stderr", "file": "x", "regex": "(x)"}}}, "in: leave it out: `file` is read instead"),
        ({"metrics": {"t": {"in": "stderr", "size_of": "x", "unit": "B"}}}, "in: leave it out: `size_of` is read"),
        ({"metrics": {"t": {"size_of": "/etc/passwd", "unit": "B"}}}, "must be a path below the working folder"),
        ({"shell": True, "argv": ["a", "b"]}, "with shell: true, give exactly one text"),
        ({"discard_stdout": True, "metrics": {"t": TPS}}, "a metric, series or `expect` reads stdout"),
        ({"system": "db"}, "no system 'db', and no service of this name"),
        ({"warm_up": -1}, "commands.0.warm_up: -1: give 0 or more"),
        ({"warm_up": 5.0}, "commands.0.warm_up: 5.0 is not a duration"),
        ({"warm_up": "-5s"}, "commands.0.warm_up: '-5s' is not a duration"),
        ({"matrix": {"a": {"b": "{{a}}"}}}, "a: '{{a}}': a level cannot contain the factor {{a}}: write its text"),
        ({"metrics": {"t": {"jsn": "a"}}}, 'unknown key: did you mean "json"?'),
    ],
)  # fmt: skip
def test_what_a_study_must_not_say_is_named_with_the_fix(command, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        plan_of({**TRUE, **command})


def test_a_placeholder_that_its_service_cannot_fill_is_named_before_anything_is_measured():
    command = {
        "name": "get",
        "system": "server",
        "argv": ["get", "{{system.port.wbe}}"],
        "env": {"A": "{{server.dir}}"},
    }
    study = study_of({"loopback": True}, command, services={"server": SERVER})
    assert study.unfit() == [
        'families.command: commands.get.argv: service server has no {{port.wbe}}: did you mean "port.web"?'
    ]


def test_one_name_is_one_metric():
    other = {**TRUE, "name": "other", "metrics": {"tps": {**TPS, "unit": "ms"}}}
    with pytest.raises(StudyError, match="another command declares it with a different unit"):
        plan_of({**TRUE, "metrics": {"tps": TPS}}, other)


# --- real commands over SSH -------------------------------------------------------------------------------------------

SERVER = {
    "ports": ["web"],
    # `two` is one of many programs in one file, like those of busybox.
    "files": {"page": "tps = 1250.5\n", "many": '#!/bin/sh\necho "${0##*/} 1.5"\n'},
    "setup": [["chmod", "+x", "{{dir}}/many"], ["ln", "-s", "many", "{{dir}}/two"]],
    "argv": ["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "{{dir}}", "{{port.web}}"],
    "ready": {"tcp": "web"},
}
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
COMMANDS: list[dict[str, Any]] = [
    {
        # Five runs, each prepared, in a folder of its own, after two that warm up.
        "name": "counted",
        "argv": ["cat >> out.txt; echo \"run $(wc -l < out.txt) of 1,000.5 us, $LEVEL\"; sleep 0.02"],
        "shell": True,
        "stdin": "line\n",
        "env": {"LEVEL": "level {{level}}"},
        "matrix": {"level": [1, "2"]},
        "prepare": [["rm", "-f", "out.txt"]],
        "cleanup": [["test", "-f", "out.txt"]],
        "warm_up": 2,
        "repeat": 5,
        "metrics": {
            "took": {"regex": r"of ([0-9.,]+) (us|ms)", "unit": "s", "better": "lower"},
            "level": {"regex": r"level (\d)"},
            "left": {"size_of": "out.txt", "unit": "B"},
        },
        "expect": {"stdout": "run 1 of"},
    },
    {
        "name": "fetched",
        "system": "server",
        "argv": ["python3", "-c", FETCH, "http://127.0.0.1:{{system.port.web}}/page"],
        "metrics": {"tps": TPS},
    },
    {
        "name": "filed",
        "argv": ["sh", "-c", "printf 'x;ms\n1;20\n2;30\n' > t.csv; echo '{\"a\": [{\"n\": \"r\", \"v\": 3}]}' >&2"],
        "metrics": {
            "worst": {"file": "t.csv", "csv": "ms", "take": "max", "unit": "ms"},
            "second": {"file": "t.csv", "csv": "ms", "where": {"x": "2"}, "unit": "ms"},
            "value": {"in": "stderr", "json": "$.a[?n=='r'].v", "unit": "MiB"},
        },
        "series": {"course": {"file": "t.csv", "csv": ["x", "ms"], "unit": "ms"}},
    },
    {"name": "cut", "argv": ["echo", "tps = 1,250.5"], "metrics": {"tps": TPS}},
    {"name": "several", "argv": ["printf", "tps = 1\\ntps = 2\\n"], "metrics": {"tps": TPS}},
    {"name": "empty", "argv": ["echo", "nothing of note"], "metrics": {"tps": TPS}},
    {"name": "failing", "argv": ["sh", "-c", "echo broken >&2; exit 3"]},
    {"name": "one-of-many", "argv": ["{{system.dir}}/two"], "system": "server", "system_for": "trial"},
    {"name": "named", "argv": ["tail -n 1 '/etc/passwd' >/dev/shm/benchstudy-named; cat </proc/version"], "shell": True,
     "cleanup": [["rm", "/dev/shm/benchstudy-named"]]},
    {"name": "made", "argv": ["./made"], "prepare": [["cp", "/bin/true", "made"]]},
    {"name": "relative", "argv": ["bin/true"]},
    {"name": "forgiven", "argv": ["sh", "-c", "exit 3"], "expect": {"exit": 3}},
    {"name": "odd", "argv": ["echo", "no rows"], "expect": {"stdout": "[0-9]+ rows"}},
    {"name": "absent", "argv": ["no-such-program"]},
    {"name": "unprepared", "argv": ["true"], "prepare": [["sh", "-c", "echo no corpus; exit 1"]]},
    {
        "name": "linked",
        "argv": ["mkdir out; echo hi > out/a; ln -s /no/such out/b; head -c 9999 /dev/zero > c; ln -s ../c out"],
        "shell": True,
        "prepare": [["rm", "-rf", "out"]],
        "repeat": 2,
        "metrics": {"left": {"size_of": "out", "unit": "B"}},
    },
    # The second run finds the folder of its outputs made by the first.
    {"name": "in-the-way", "argv": ["mkdir", "../run-2"], "repeat": 2},
    {"name": "large", "argv": ["python3", "-c", "b'x' * 100_000_000"]},
    # Of 100 lines the first 12 are kept, and a part of the next one.
    {
        "name": "long", "argv": ["sh", "-c", "seq -f 'x 1%02g' 100 | tee file"], "max_output": "75B", "metrics": {
            "x": {"regex": "x ([0-9]+)", "take": "first"},
        },
    },
    {
        "name": "too-long", "argv": ["sh", "-c", "seq -f 'x 1%02g' 100 | tee file"], "max_output": "75B", "metrics": {
            "longest": {"regex": "x ([0-9]+)", "take": "max", "file": "file"},
        },
    },
]  # fmt: skip


class Measured:
    """A session's trials and tables, with a command that hangs, and what `benchstudy check` found before."""

    def __init__(self, root: Path, plan: SessionPlan, checked: list[tuple[bool, str]]):
        self.root, self.plan, self.checked = root, plan, checked
        stores = [TrialStore(root / "data" / "raw" / name / "machine" / FAMILY) for name in ("small", "ended")]
        self.trials: dict[str, StoredTrial] = {t.record.case: t for store in stores for t in store.trials()}
        tidy_family(root, [plan], root / "tidy")

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.root / "tidy" / f"{name}.parquet")

    def values(self, case: str) -> dict[str, float]:
        rows = self.table("observations").filter(pl.col("case") == f"command={case}")
        return dict(rows.select("metric", "value").iter_rows())

    def failed(self, name: str) -> tuple[str, Any]:
        record = self.trials[f"command={name}"].record
        assert record.status == "failed", record
        return record.cause, record.failure


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("command")
    with SshdHost(folder / "sshd") as sshd:
        host = sshd.described(folder / "host" / "work")
        study = study_of(host, *COMMANDS, services={"server": SERVER}, timeout="60s")
        plan = study.session("machine", FAMILY)
        index = json.loads(hold_session(folder, plan).read_text())
        assert index["problem"] is None
        findings = findings_of(plan.family, plan.config, study.hosts["here"], "sut")
        hanging = {"name": "hanging", "argv": ["sh", "-c", "touch here; sleep 60"]}
        again = study_of(host, hanging, timeout="1s", study="ended").session("machine", FAMILY)
        hold_session(folder, again)
        yield Measured(folder, plan, [(fine, what) for fine, what, _ in findings])


def test_a_discard_while_the_session_ends_is_measured_again(tmp_path: Path):
    ending, go = tmp_path / "ending", tmp_path / "go"
    stop = ["sh", "-c", f"touch {ending}; until [ -e {go} ]; do sleep 0.05; done"]
    command = {"name": "true", "argv": ["true"], "system": "server"}
    with SshdHost(tmp_path / "sshd") as sshd:
        host = sshd.described(tmp_path / "host" / "work")
        plan = study_of(host, command, services={"server": {**SERVER, "stop": stop}}).session("machine", FAMILY)
        store = TrialStore(plan.raw(tmp_path))
        session = threading.Thread(target=hold_session, args=(tmp_path, plan))
        session.start()
        until(ending.exists)
        (first,) = store.trials()
        store.discard(first, "seen to be wrong")
        go.touch()
        session.join()
    assert len(store.trials()) == 2 and is_held(tmp_path, plan)


def test_check_tells_a_script_that_is_not_what_cases_were_measured_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    project, script = tmp_path / "project", tmp_path / "script.py"
    snakefile = project / "workflow" / "Snakefile"
    snakefile.parent.mkdir(parents=True)
    snakefile.touch()
    monkeypatch.chdir(project)
    script.write_text("print(1)")
    command = {"name": "script", "argv": ["python3", str(script), "{{n}}"], "matrix": {"n": [1, 2]}}

    def changed() -> list[str]:
        return [text for result, text, _ in checks.check_host(study, "here", [plan]) if result == "changed"]

    with SshdHost(tmp_path / "sshd") as sshd:
        host = sshd.described(tmp_path / "host" / "work")
        study = study_of(host, command)
        plan = study.session("machine", FAMILY)
        assert changed() == [], "nothing is measured yet"
        hold_session(project, plan)
        assert changed() == []
        script.write_text("print(2)")
        assert changed() == [f"command: {script} is not what 2 cases were measured with"]


WHO_SEES = """
import glob, sys
word, seen = sys.stdin.read().split()[0].encode(), []
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen += [path] * (word in open(path, "rb").read())
    except OSError:
        pass
print("seen by", len(seen))
"""


def test_check_finds_a_server_that_allows_fewer_sessions_than_a_trial_needs(tmp_path):
    with SshdHost(tmp_path / "sshd", options=["Match User *", "MaxSessions 3"]) as sshd:
        study = study_of(sshd.described(tmp_path / "work"), {"name": "nothing", "argv": ["true"]})
        [(fine, problem, _)] = checks.check_host(study, "here", study.sessions())
    assert not fine and problem.startswith("its SSH server refuses a further session on one connection")


def _dashes(number: int) -> str:
    return f"head -c {number} /dev/zero | tr '\\0' -"


@pytest.mark.fault(25)
def test_a_secret_is_in_no_argument_on_the_host_and_in_no_raw_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    word = secrets.token_hex(16)
    monkeypatch.setenv("WORD", word)
    reads = {
        "name": "reads",
        "argv": ["python3", "-c", WHO_SEES],
        "stdin": "{{system.secret.word}}\n" + 200_000 * "x",  # longer than one argument may be
        "system": "server",
        "expect": {"stdout": "^seen by 0$"},
    }
    tells = {"name": "tells", "argv": ["echo", "{{system.secret.word}}"], "system": "server"}
    # Of each output 16 MiB are kept: this one ends within the secret.
    floods = {
        "name": "floods",
        "argv": ["sh", "-c", f"head -c {(16 << 20) - 120} /dev/zero >&2; echo >&2; {_dashes(99)} >&2; cat >&2; false"],
        "stdin": "{{system.secret.word}}",
        "system": "server",
    }
    # What is quoted of these begins within the secret: of the first here, of the second already on the host.
    cut = [
        {
            "name": f"cut-{quoted}",
            "argv": ["sh", "-c", f"cat >&2; {_dashes(quoted - 20)} >&2; false"],
            "stdin": "{{system.secret.word}}",
            "system": "server",
        }
        for quoted in (300, 2000)
    ]
    with SshdHost(tmp_path / "sshd") as sshd:
        host = sshd.described(tmp_path / "host" / "work")
        services = {"server": {**SERVER, "secret_env": {"word": "WORD"}}}
        study = study_of(host, reads, tells, floods, *cut, services=services)
        hold_session(tmp_path, study.session("machine", FAMILY))
    raw = tmp_path / "data" / "raw"
    records = {r["case"]: r for r in (json.loads(path.read_text()) for path in raw.rglob("*-*/trial.json"))}
    assert {case: record["status"] for case, record in records.items()} == {
        "command=reads": "ok",
        "command=tells": "ok",
        "command=floods": "failed",
        "command=cut-300": "failed",
        "command=cut-2000": "failed",
    }
    flooded = max(raw.rglob("command=floods/*/**/stderr"), key=lambda path: path.stat().st_size)
    assert flooded.read_bytes()[-20:] == "-------------------«redacted»".encode()[-20:]
    assert records["command=floods"]["cause"].endswith("-«redacted»")
    assert records["command=tells"]["verified"]["command"] == "echo «redacted»"
    left = (word[:8].encode(), word[-8:].encode())
    assert [p for p in raw.rglob("*") if p.is_file() and any(part in p.read_bytes() for part in left)] == []


def test_every_run_is_timed_prepared_and_read(measured: Measured):
    for level in (1, 2):
        found = measured.values(f"counted,level={level}")
        assert found["took"] == pytest.approx(1000.5e-6) and found["level"] == level and found["left"] == len("line\n")
        assert found["runs"] == 5 and 0.02 <= found["wall_time"] < 1 and found["first_run"] >= 0.02
        assert 0 < found["start_up"] < found["wall_time"] and found["user_time"] + found["system_time"] < 1
        assert found["bytes_written"] > 0 and found["minor_faults"] > 0 and found["voluntary_switches"] > 0
    assert measured.table("runs").filter(pl.col("case") == "command=counted,level=1")["run"].to_list() == [
        1,
        2,
        3,
        4,
        5,
    ]
    trial = measured.trials["command=counted,level=1"]
    kept = sorted(path.name for path in (trial.folder / "files").iterdir())
    assert kept == [f"run-{number}" for number in range(1, 6)], "what it worked in and warm-ups are gone"
    assert len(json.loads((trial.folder / "stdout").read_text())["warm_up"]) == 2
    assert trial.record.commands[0].tool.name == "sh" and trial.record.verified["command"].startswith("'cat >>")


def test_figures_come_from_outputs_files_and_servers_in_base_units(measured: Measured):
    assert measured.values("fetched")["tps"] == 1250.5
    filed = measured.values("filed")
    assert (filed["worst"], filed["second"], filed["value"]) == (0.03, 0.03, 3 << 20)
    samples = measured.table("samples").select("series", "run", "x_s", "value").rows()
    assert samples == [("course", 1, 1.0, 0.02), ("course", 1, 2.0, 0.03)]
    assert measured.values("forgiven")["wall_time"] > 0
    linked = measured.values("linked")
    assert (linked["left"], linked["runs"]) == (len("hi\n"), 2), "links and what they lead to are no part of a folder"
    declared = {row["metric"] for row in measured.table("observations").iter_rows(named=True)} - {"trial"}
    assert declared <= set(measured.table("metrics")["name"])


def test_a_program_is_asked_for_its_version_by_the_name_it_has_and_its_system_is_up_for_the_trial(measured: Measured):
    record = measured.trials["command=one-of-many"].record
    assert [(c.label, c.tool.name) for c in record.commands] == [("command", "two"), ("server", "python3")]
    assert record.commands[0].tool.version == "two 1.5"


@pytest.mark.fault(17)
def test_a_command_that_hangs_is_ended_by_its_name_and_leaves_nothing(measured: Measured):
    trial = measured.trials["command=hanging"]
    assert trial.record.status == "timeout" and "sh was ended at its timeout" in trial.record.cause
    assert (trial.record.failure.cause, trial.record.failure.name) == (Cause.TIMEOUT, "sh")
    assert [path.name for path in (trial.folder / "files").iterdir()] == ["run-1"]


def test_check_looks_for_every_program_without_running_it(measured: Measured):
    assert (False, "absent runs no-such-program: no-such-program is missing") in measured.checked
    assert [what for fine, what in measured.checked if what.startswith("fetched runs python3: /")]
    assert len(measured.checked) == len({what for _, what in measured.checked})
    assert (False, "relative runs bin/true: it starts in an empty folder") in measured.checked
    assert measured.failed("relative")[1].cause == Cause.START_FAILED
    assert measured.values("made")["runs"] == 1, "what `prepare` makes is measured"
    assert not any(what.startswith("made runs ./made") for _, what in measured.checked), (
        "so the check must not refuse it"
    )


def test_a_file_that_the_study_names_is_told_with_its_sha256(measured: Measured):
    """So a page can say that a script was edited between two trials."""
    digest = hashlib.sha256(Path("/etc/passwd").read_bytes()).hexdigest()
    assert measured.trials["command=named"].record.verified["named_files"] == {"/etc/passwd": digest}
    assert "named_files" not in measured.trials["command=linked"].record.verified


def test_memory_is_the_commands_own_or_nothing(measured: Measured):
    assert 100_000_000 < measured.values("large")["peak_memory"] < 200_000_000
    assert "peak_memory" not in measured.values("forgiven"), "a shell has less than what spawns it"


@pytest.mark.fault(20)
def test_a_metric_that_is_not_found_fails_the_trial_with_the_searched_text(measured: Measured):
    cause, failure = measured.failed("empty")
    assert "the metric tps is not found: regex 'tps = ([0-9.]+)' in stdout" in cause and "nothing of note" in cause
    assert (failure.cause, failure.name, failure.said) == (Cause.NOT_FOUND, "tps", "nothing of note")
    assert "the group ends within a number: '1,250'" in measured.failed("cut")[0]
    assert "2 figures are found; choose one with `take`" in measured.failed("several")[0]


def test_a_corrected_rule_finds_the_figures_of_trials_that_failed_to_be_read(measured: Measured, tmp_path: Path):
    rules = {"cut": {"regex": "tps = ([0-9.,]+)"}, "several": {"take": "max"}, "empty": {"regex": "of ([0-9]+)"}}
    commands = [
        {**command, "metrics": {"tps": TPS | rules[command["name"]]} if command["name"] in rules else {}}
        for command in COMMANDS
    ]
    more = {"services": {"server": SERVER}, "timeout": "60s", "blocks": 3, "give_up_after": 2}
    corrected = study_of({"loopback": True}, *commands, **more).session("machine", FAMILY)
    tidy_family(measured.root, [corrected], tmp_path)
    trials = pl.read_parquet(tmp_path / "trials.parquet")
    told = {case: rest for case, *rest in trials.select("case", "status", "cause", "cause_kind").iter_rows()}
    assert told["command=cut"] == told["command=several"] == ["ok", None, None]
    assert told["command=empty"][0] == "failed" and "regex 'of ([0-9]+)' in stdout" in told["command=empty"][1]
    assert told["command=failing"] == ["failed", "sh exited with status 3: broken", "exited"]
    observed = pl.read_parquet(tmp_path / "observations.parquet").filter(pl.col("metric") == "tps")
    assert dict(observed.select("case", "value").iter_rows()) == {"command=cut": 1250.5, "command=several": 2}
    # What decides on further trials sees the same.
    case = next(case for case in corrected.cases if case.id == "command=cut")
    assert looks.known_of(corrected.family, case, [measured.trials[case.id]])[0].median == 1250.5
    twice = {(name, block): [trial] for name, trial in measured.trials.items() for block in (1, 2)}
    before = study_of({"loopback": True}, *COMMANDS, **more).session("machine", FAMILY)
    given = [set(given_up(plan, twice)) for plan in (corrected, before)]
    assert "command=cut" in given[1] - given[0] and "command=empty" in given[0]


def test_no_figure_is_taken_from_the_beginning_of_what_was_cut_off(measured: Measured):
    assert measured.values("long")["x"] == 101
    cause, failure = measured.failed("too-long")
    assert cause == "the metric longest is not found: only the beginning of file was kept: raise `max_output`"
    assert failure.cause is Cause.NOT_FOUND


def test_an_end_that_may_be_a_part_of_a_line_is_not_searched(answered):
    files, answer = answered
    command = {"name": "bench", "argv": ["x"], "metrics": {"rows": {"regex": "([0-9]+) (?:kB|k)", "take": "first"}}}
    for number, run in enumerate(answer["runs"], start=1):
        (files / "files" / f"run-{number}" / "stdout").write_text("none\n12 k")
        run["truncated"] = [f"/work/run-{number}/stdout"]
    (files / "stdout").write_text(json.dumps(answer))
    with pytest.raises(ParseError, match="nothing is found"):
        figures(files, command)
    series = {"regex": "([0-9]+) (k)", "unit": "kB"}
    for source in ({"metrics": {"rows": command["metrics"]["rows"] | {"take": "last"}}}, {"series": {"rows": series}}):
        with pytest.raises(ParseError, match="the metric rows is not found: only the beginning of stdout was kept"):
            figures(files, {"name": "bench", "argv": ["x"], **source})


def test_why_a_command_failed_is_a_value_and_a_sentence(measured: Measured):
    cause, failure = measured.failed("failing")
    assert cause == "sh exited with status 3: broken"
    assert (failure.cause, failure.exit_status, failure.said) == (Cause.EXITED, 3, "broken")
    cause, failure = measured.failed("odd")
    assert "did not print the expected text ('[0-9]+ rows'), but no rows" in cause
    assert failure.cause == Cause.UNEXPECTED
    cause, failure = measured.failed("in-the-way")
    assert cause.startswith("mkdir cannot be measured: [Errno 17] File exists: '") and cause.endswith("/run-2'")
    assert failure.cause == Cause.TOLD
    cause, failure = measured.failed("absent")
    assert cause == "no-such-program cannot be started: No such file or directory"
    assert failure.cause == Cause.START_FAILED
    cause, failure = measured.failed("unprepared")
    assert cause == "prepare: sh exited with status 1: no corpus" and failure.cause == Cause.SETUP_FAILED


def shown(root: Path, tidy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The exports of the page that the notebook makes from these tables."""
    monkeypatch.chdir(as_project(root / "project"))
    notebook = json.loads((CHECKOUT / "notebooks" / f"{FAMILY}.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        exec("".join(cell["source"]), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            names |= {"study": "small", "tidy": str(tidy), "output": str(root / "page")}
    return root / "page"


def test_the_page_shows_a_studys_own_factors_and_metrics(measured: Measured, tmp_path: Path, monkeypatch):
    page = shown(tmp_path, measured.root / "tidy", monkeypatch)
    assert {"results", "times", "bytes", "start-up", "by-level"} <= {p.stem for p in (page / "tables").glob("*.csv")}
    assert {"took", "series-course"} <= {path.stem for path in (page / "figures").glob("*.svg")}
    answers = json.loads((page / "answer.json").read_text())
    lines = {answer["what"]: [line["name"] for line in answer["lines"]] for answer in answers}
    assert lines["Took · level 1"] == ["counted"], "a command that does not give it has no place there"


def test_lints_find_what_is_too_short_or_begins_cold():
    def group(**values: float) -> Group:
        return Group("", {"command": "x"}, {name: Figure(value, "s") for name, value in values.items()})

    def found(**values: float) -> set[str]:
        return {finding.lint for finding in lint(Material(FAMILY, "measured", (group(**values),)))}

    assert "start-up-dominates" in found(start_up=0.001, wall_time=0.005)
    assert "start-up-dominates" not in found(start_up=0.001, wall_time=0.5)
    assert "slow-first-run" in found(first_run=0.2, wall_time=0.1, runs=5)
    assert not {"slow-first-run", "start-up-dominates"} & found(first_run=0.11, wall_time=0.1, runs=5)


# --- what tools print -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "text", "value"),
    [
        ({"csv": "rps", "where": {"test": "GET"}, "unit": "1/s"}, "redis-benchmark.csv", 52631.58),
        ({"csv": "p99_latency_ms", "take": "max", "unit": "ms"}, "redis-benchmark.csv", 0.655e-3),
        ({"regex": r"number of failed transactions: (\d+)"}, "pgbench.txt", 0),
        ({"json": "$.results[0].mean", "unit": "s"}, "hyperfine/pair.json", None),
        ({"json": "results[].times[]", "take": "min", "unit": "s"}, "hyperfine/pair.json", None),
    ],
)
def test_figures_of_real_tools(metric, text, value):
    document = DATA / text
    found = figure("m", OwnMetric.model_validate(metric), document.read_text(), text)
    if document.suffix == ".json":
        results = json.loads(document.read_text())["results"]
        value = results[0]["mean"] if "mean" in metric["json"] else min(t for r in results for t in r["times"])
    assert found == pytest.approx(value)


UNITS = {"us": (1e-6, "s"), "Mbit/s": (125e3, "B/s"), "1/min": (1 / 60, "1/s"), "KiB": (1024, "B"), "%": (1, "percent")}


@pytest.mark.parametrize("unit", UNITS)
def test_printed_units_become_base_units(unit):
    factor, base = base_of(unit)
    assert (pytest.approx(factor), base) == UNITS[unit]


def test_a_percentage_is_stored_and_shown_as_it_was_printed():
    metric = OwnMetric.model_validate({"regex": "hits: ([0-9.]+)", "unit": "%"})
    value = figure("hits", metric, "hits: 99.4%", "stdout")
    assert (value, human.quantity(value, metric.base[1])) == (99.4, "99.4 %")


# --- what a trial left ------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A trial's folder and the answer of command_runs, with outputs of each run."""
    answer = json.loads((DATA / "command_runs.json").read_text())
    for number, run in enumerate(answer["runs"], start=1):
        folder = tmp_path / "files" / f"run-{number}"
        folder.mkdir(parents=True)
        (folder / "stdout").write_text(f"tps = {100 * number * number}\n0.5 s, {number} kB\n1.5 s, 7 kB\n")
        (folder / "stderr").write_text(f"took {number} ms")
        (folder / "file-kept").write_text('{"p95": 4}')
        run["sizes"] = {"left": 1000 * number}
    (tmp_path / "stdout").write_text(json.dumps(answer))
    return tmp_path, answer


def figures(files: Path, *commands: Mapping[str, Any]) -> tuple[dict[str, tuple[float, str]], Mapping[str, Any]]:
    config = plan_of(*commands).config if commands else None
    parsed = parse_trial({"command": "bench"}, files, config)
    return {o.metric: (o.value, o.unit) for o in parsed.observations}, parsed.series


def test_what_every_command_gives_is_the_median_of_its_runs(answered):
    files, answer = answered
    found, series = figures(files)
    runs, empty = answer["runs"], answer["empty"]
    asked = {
        "wall_time": ("wall_ns", 1e9, "s"),
        "user_time": ("user_s", 1, "s"),
        "storage_read": ("storage_read_bytes", 1, "B"),
    }
    asked |= {
        "minor_faults": ("minor_faults", 1, "1"),
        "major_faults": ("major_faults", 1, "1"),
        "system_time": ("system_s", 1, "s"),
        "bytes_read": ("read_bytes", 1, "B"),
        "bytes_written": ("written_bytes", 1, "B"),
        "storage_written": ("storage_written_bytes", 1, "B"),
        "voluntary_switches": ("voluntary_switches", 1, "1"),
        "involuntary_switches": ("involuntary_switches", 1, "1"),
    }
    for number, (key, *_) in enumerate(asked.values(), start=1):  # some are 0 in the captured answer
        for run, more in zip(runs, (0, 50, 7, 1000, 3), strict=False):
            run[key] = number * 1000 + more
    (files / "stdout").write_text(json.dumps(answer))
    found, series = figures(files)
    for metric, (key, per_unit, unit) in asked.items():
        assert found[metric] == (pytest.approx(statistics.median(run[key] for run in runs) / per_unit), unit)
    assert found["start_up"][0] == pytest.approx(statistics.median(run["wall_ns"] for run in empty) / 1e9)
    assert found["first_run"][0] == pytest.approx(runs[0]["wall_ns"] / 1e9) and found["runs"] == (len(runs), "1")
    second = {
        "run": 2,
        "wall_s": pytest.approx(runs[1]["wall_ns"] / 1e9),
        "user_s": runs[1]["user_s"],
        "system_s": runs[1]["system_s"],
    }
    assert series["runs"][1] == second and [row["run"] for row in series["runs"]] == list(range(1, len(runs) + 1))


def test_memory_is_told_from_256_kib_above_what_spawns_a_command(answered):
    files, answer = answered
    least = max(run["peak_bytes"] for run in answer["empty"]) + 256 * 1024
    for peak, told in ((least, None), (least + 1, (least + 1, "B"))):
        for run in answer["runs"]:
            run["peak_bytes"] = peak
        (files / "stdout").write_text(json.dumps(answer))
        assert figures(files)[0].get("peak_memory") == told
    (files / "stdout").write_text(json.dumps(answer | {"runs": answer["runs"][:1]}))
    assert "first_run" not in figures(files)[0], "the only run is no first one"


def test_a_studys_own_metrics_are_the_median_of_what_each_run_left(answered):
    files, answer = answered
    metrics = {
        "tps": {"regex": "tps = ([0-9.]+)", "unit": "1/s"},
        "took": {"regex": "took ([0-9]+)", "in": "stderr", "unit": "ms"},
        "kept": {"json": "p95", "file": "out.json", "unit": "us"},
        "left": {"size_of": "out", "unit": "B"},
    }
    series = {"growing": {"regex": "([0-9.]+) s, ([0-9]+) kB", "unit": "kB"}}
    bench = {"name": "bench", "argv": ["true"], "metrics": metrics, "series": series}
    found, tables = figures(files, bench)
    middle = statistics.median(range(1, len(answer["runs"]) + 1))
    assert found["tps"] == (statistics.median(100 * n * n for n in range(1, len(answer["runs"]) + 1)), "1/s")
    assert found["took"] == (pytest.approx(middle / 1000), "s") and found["kept"] == (pytest.approx(4e-6), "s")
    assert found["left"] == (1000 * middle, "B")
    samples = [(row["run"], row["x_s"], row["value"], row["unit"]) for row in tables["samples"]]
    assert samples[:4] == [(1, 0.5, 1000, "B"), (1, 1.5, 7000, "B"), (2, 0.5, 2000, "B"), (2, 1.5, 7000, "B")]
    (files / "files" / "run-2" / "file-kept").unlink()
    with pytest.raises(ParseError, match=r"metric kept is not found: the command did not write the file out\.json"):
        figures(files, bench)
    answer["runs"][0]["sizes"] = {}
    (files / "stdout").write_text(json.dumps(answer))
    with pytest.raises(ParseError, match="metric left is not found: the command did not write out"):
        figures(files, bench)


@pytest.mark.parametrize(
    "changed", [{"stopped": "by signal 9"}, {"runs": [], "stopped": "at its timeout"}, {"runs": []}]
)
def test_a_command_without_a_whole_run_is_no_result(answered, changed):
    files, answer = answered
    (files / "stdout").write_text(json.dumps(answer | changed))
    with pytest.raises(ParseError, match=f"no run was completed: {changed.get('stopped')}"):
        figures(files)


@pytest.mark.parametrize(
    ("series", "text"),
    [
        ({"regex": r"(\d+) ms (\d+)"}, "500 ms 3\nx\n1500 ms 1250"),
        ({"csv": ["t", "n"]}, "a note\nn;x;t\n3;0;500\n1250;0;1500\n"),
        ({"json": ["rows[].t", "rows[].n"]}, '{"rows": [{"t": 500, "n": 3}, {"t": 1500, "n": "1,250"}]}'),
    ],
)
def test_points_of_a_series_come_in_seconds_and_base_units(series, text):
    wanted = OwnSeries.model_validate({**series, "x_unit": "ms", "unit": "KiB"})
    assert points("s", wanted, text, "it") == [(0.5, 3 * 1024.0), (1.5, 1250 * 1024.0)]
    with pytest.raises(ParseError, match="metric s is not found"):
        points("s", wanted, "", "it")


@pytest.mark.parametrize(
    ("series", "text", "is_there"),
    [
        ({"csv": ["t", "n"]}, "a note\nt,n\n", True),
        ({"csv": ["t", "n"]}, "t,m\n", False),
        ({"regex": r"(\d+) s, (\d+) tps"}, "done in 0.4 s", False),
        *(
            ({"json": [path + "t", path + "n"]}, text, is_there)
            for path in ("rows[*].", "rows[].", "rows[?t > `0`].", "rows[0:9].", "rows[*] | [0:9].")
            for text, is_there in (
                ('{"rows": []}', True),
                ('{"rows": [{"time": 1, "number": 2}]}', False),
                ('{"rows": null}', False),
                ('{"runs": []}', False),
                ("[]", False),
            )
        ),
        ({"json": ["[].t", "[].n"]}, "[]", True),
        ({"json": ["a.rows[*].t", "a.rows[*].n"]}, '{"a": {"rows": []}}', True),
        ({"json": ["a[0].x.rows[*].t.u", "a[0].x.rows[*].n"]}, '{"a": [{"x": {"rows": []}}]}', True),
        ({"json": ["a.rows[*].t", "a.rows[*].n"]}, '{"a": {"runs": []}}', False),
        ({"json": ["a.t", "a.n"]}, '{"a": {"t": [], "n": []}}', True),
        ({"json": ["a.t", "a.n"]}, '{"a": {"t": []}}', False),
        ({"json": ["rows[*].t", "other[*].n"]}, '{"rows": []}', False),
        ({"json": ["a.t", "a.n"]}, '{"a": {"t": [], "n": [1]}}', False),
    ],
)
def test_a_series_that_is_there_may_be_empty(series, text, is_there):
    """A run was too short for the first sample. That is no wrong name in the study."""
    wanted = OwnSeries.model_validate(series)
    if is_there:
        assert points("s", wanted, text, "it") == []
        return
    with pytest.raises(ParseError, match="the metric s is not found"):
        points("s", wanted, text, "it")


def test_a_point_that_is_a_part_of_a_number_is_told():
    for regex, text, told in (
        ("(.+) s, ([0-9.]+)", "1.0 s, 1,250 tps", "ends within a number: '1,250'"),
        ("([0-9]+) s, (.+)", "1.5 s, 12", "begins within a number: '1.5'"),
        ("([0-9.]+) s ([0-9.]+)", "1,5 s 12", "the group is a part of '1,5'"),
        ("([0-9.]+) s ([0-9.]+)", "1 s 12,5", "the group is a part of '12,5'"),
    ):
        with pytest.raises(ParseError, match=told):
            points("s", OwnSeries.model_validate({"regex": regex}), text, "it")


@pytest.mark.parametrize(
    ("regex", "text", "value"),
    [
        ("^([0-9.]+)", "20,5,7", 20),
        ("([0-9.]+)$", "20,5,7", 7),
        ("([0-9.]+) ms", "read,5,7 ms", 7),
        ("^([0-9.]+),", "12,5", 12),
        ("x ([0-9.]+)", "x 12, 5 left", 12),
        ("^([0-9.]+)$", "1,\n12\n", 12),
    ],
)
def test_a_number_of_a_list_is_no_part_of_a_number_with_a_decimal_comma(regex, text, value):
    assert figure("m", OwnMetric.model_validate({"regex": regex}), text, "it") == value


def test_a_point_that_is_no_number_is_told():
    wanted = OwnSeries.model_validate({"regex": "(.+) s (.+)"})
    with pytest.raises(ParseError, match="'x' is not a number"):
        points("s", wanted, "1 s 2\n3 s x", "it")


@pytest.mark.parametrize(
    ("metric", "text", "told"),
    [
        ({"regex": "x (.+)"}, "x many", "'many' is not a number"),
        ({"regex": "x ([0-9]+)"}, "x 1,250", "ends within a number: '1,250'"),
        ({"regex": "tps = ([0-9.]+)"}, "tps = 12,5", "the group is a part of '12,5': if that is a number, "),
        ({"regex": "([0-9.]+) GB/s"}, "0,001 s, 1,1 GB/s", "the group is a part of '1,1': if that is a number, "),
        ({"regex": "x ([0-9.]+)"}, "x 1.250,5.", "the group is a part of '1.250,5': "),
        ({"regex": "x ([0-9]+)"}, "x 1\nx 2", "2 figures are found; choose one with `take`"),
        (
            {"regex": "x ([0-9]+) ([a-z]+)", "unit": "B"},
            "x 1 ms",
            "the unit after the figure is 'ms', but the metric is in 'B'",
        ),
        ({"json": "a"}, '{"a": 1}\n{"a": 2}\n', "it must be one JSON document; use `regex` for JSON lines"),
        ({"json": "a"}, '{"a": true}', "True is not a number"),
        ({"json": "a.b"}, '{"a": {}}', "nothing is found"),
        ({"json": "a"}, '{"a": {}}', "'{}' is not a number"),
        ({"csv": "a", "where": {"b": "1"}}, "a,b\n3,2\n", "nothing is found"),
        ({"csv": "a", "where": {"c": "1"}}, "a,b\n3,2\n", "no line has the headings a, c"),
        ({"csv": "a"}, "", "it is empty"),
    ],
)
def test_a_figure_that_is_not_there_is_told_with_the_searched_text(metric, text, told):
    with pytest.raises(ParseError, match=re.escape(told)) as error:
        figure("m", OwnMetric.model_validate(metric), text, "it")
    assert (error.value.failure.cause, error.value.failure.said) == (Cause.NOT_FOUND, text.strip() or None)


@pytest.mark.parametrize(
    ("regex", "text", "value"),
    [
        (r"took (\d+) of ", "took 12 of 15", 12),  # digits after the whole match are not of its figure
        (r"took (\d+)", "took 12,5", 12),
        (r"took (\d+)", "took 12.", 12),
        (r"took (\d+)", "took 12,3456", 12),
        (r"took (\d+)", "took 12e", 12),
        (r"took ([\d,]+)", "took 1,250,000", 1_250_000),
        (r"took ([\d,.+-]+)", "took -1,250.5", -1250.5),
    ],
)
def test_a_figure_ends_where_its_number_does(regex, text, value):
    assert figure("m", OwnMetric.model_validate({"regex": regex, "signed": True}), text, "it") == value


def test_a_negative_figure_needs_a_study_that_expects_it():
    assert plan_of({**TRUE, "metrics": {"m": {"json": "m", "signed": True}}}).family.metrics["m"].signed
    with pytest.raises(ParseError, match="the metric m is -3: if it can be negative, add `signed: true` to it"):
        figure("m", OwnMetric.model_validate({"json": "m"}), '{"m": -3}', "it")


@pytest.mark.parametrize("key", ["wall_ns", "user_s", "peak_bytes", "minor_faults"])
def test_a_truth_value_is_no_figure_of_a_run(answered, key: str):
    """`true` became a run of one nanosecond."""
    files, answer = answered
    answer["runs"][0][key] = True
    (files / "stdout").write_text(json.dumps(answer))
    with pytest.raises(ParseError, match=f"{key} is True, where a number belongs"):
        figures(files)


@pytest.mark.parametrize("changed", [{"times": [True, 1.0]}, {"user": True}, {"memory_usage_byte": [True]}])
def test_a_truth_value_is_no_figure_of_hyperfine(tmp_path: Path, changed: dict[str, Any]):
    export = json.loads((DATA / "hyperfine/pair.json").read_text())
    export["results"][0] |= changed
    (tmp_path / "part.json").write_text(json.dumps({"result": 0}))
    (tmp_path / "hyperfine.json").write_text(json.dumps(export))
    with pytest.raises(ParseError, match="is True, where a number belongs"):
        figures(tmp_path)


@pytest.mark.parametrize("number", [0, 1])
def test_every_figure_of_an_export_of_hyperfine(tmp_path: Path, number: int):
    export = json.loads((DATA / "hyperfine/pair.json").read_text())
    result = export["results"][number]
    (tmp_path / "part.json").write_text(json.dumps({"result": number}))
    (tmp_path / "hyperfine.json").write_text(json.dumps(export))
    found, series = figures(tmp_path)
    times = result["times"]
    assert found["wall_time"] == (pytest.approx(result["median"]), "s") and found["runs"] == (len(times), "1")
    assert found["first_run"] == (times[0], "s") and len({times[0], times[1], times[-1]}) == 3
    assert (found["user_time"], found["system_time"]) == ((result["user"], "s"), (result["system"], "s"))
    assert [(row["run"], row["wall_s"]) for row in series["runs"]] == list(enumerate(times, start=1))
    result |= {"times": times[:1], "memory_usage_byte": [1000, 3000, 4000], "user": None}
    (tmp_path / "hyperfine.json").write_text(json.dumps(export))
    found, _ = figures(tmp_path)
    assert found["peak_memory"] == (3000, "B") and not {"first_run", "user_time"} & found.keys()


@pytest.mark.parametrize("results", [[3], [{"command": "x"}], {}, None])
def test_what_is_no_export_of_hyperfine_is_not_taken_for_one(tmp_path: Path, results: Any):
    (tmp_path / "part.json").write_text(json.dumps({"result": 0}))
    (tmp_path / "hyperfine.json").write_text(json.dumps({"results": results}))
    with pytest.raises(ParseError, match=r"hyperfine\.json is not an export of hyperfine"):
        figures(tmp_path)


def test_what_is_no_number_is_quoted_only_so_far_as_a_line_is_long():
    with pytest.raises(ParseError, match=f": '{'x' * 60}' is not a number; its end: m {'x' * 100}$"):
        figure("m", OwnMetric.model_validate({"regex": "m (x+)"}), "m " + "x" * 100, "it")


def test_a_table_may_have_blanks_after_its_commas():
    wanted = OwnMetric.model_validate({"csv": "rate", "where": {"test": "GET"}, "unit": "1/s"})
    assert figure("m", wanted, "a note\ntest, rate\nSET, 3\nGET, 7\n", "it") == 7
    assert figure("m", wanted, 'test, rate\nSET, 3\n"GET", "7"\n', "it") == 7


def test_the_end_of_a_long_text_is_told_and_more_of_it_is_kept():
    lines = [f"line {number:04}" for number in range(1000)]
    with pytest.raises(ParseError, match="nothing is found") as error:
        figure("m", OwnMetric.model_validate({"regex": "tps = (.+)"}), "\n".join(lines), "stdout")
    # Forty lines of ten characters with their ends.
    shown = str(error.value).partition("its end: ")[2].split(" / ")
    assert shown[-1] == "line 0999" and set(shown[1:]) <= set(lines) and 39 <= len(shown) <= 41
    assert len(error.value.failure.said) == 2000 and "\n".join(lines).endswith(error.value.failure.said)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1,234,567 ops", "4,567"), ("1,250.5 ops", "1,250.5"), ("12.5 ops", "2.5"), ("1.5e-05 ops", "5e-05"),
        ("2E3 ops", "2E3"),
    ],
)  # fmt: skip
def test_a_figure_that_begins_within_a_number_is_told(text, whole):
    digits = r"(\d+) ops" if "," not in text else r"([0-9.]+) ops"
    with pytest.raises(ParseError, match=f"the group begins within a number: '{re.escape(whole)}'"):
        figure("m", OwnMetric.model_validate({"regex": digits}), f"did {text}", "it")


@pytest.mark.parametrize(
    ("regex", "text", "whole"),
    [(r"(-?\d+) ops", "12e-5 ops", "2e-5"), (r"([+-]\d+)", "3.1E+4 ops", "1E+4"), (r"(\.\d) ops", "1.5 ops", "1.5")],
)
def test_the_sign_of_an_exponent_and_a_decimal_point_begin_no_figure(regex, text, whole):
    with pytest.raises(ParseError, match=f"the group begins within a number: '{re.escape(whole)}'"):
        figure("m", OwnMetric.model_validate({"regex": regex}), f"did {text}", "it")


@pytest.mark.parametrize("text", ["7, 250 ops", "1:250 ops", "a-250 ops", "v3. 250 ops", "12,4250 ops", "250 ops"])
def test_a_figure_after_another_one_is_whole(text):
    assert figure("m", OwnMetric.model_validate({"regex": r"(\d+) ops"}), text, "it") in (250, 4250)


@pytest.mark.parametrize("rest", ["5", ".5", ",500", "e3", "E-3"])
def test_a_figure_that_ends_within_a_number_is_told(rest):
    with pytest.raises(ParseError, match=f"the group ends within a number: '12{re.escape(rest)}'"):
        figure("m", OwnMetric.model_validate({"regex": r"took (\d\d)"}), f"took 12{rest}", "it")


@pytest.mark.parametrize(
    ("take", "value"), [("first", 4), ("last", 9), ("sum", 15), ("mean", 5), ("min", 2), ("max", 9)]
)
def test_one_of_several_figures_is_taken_as_the_study_says(take, value):
    wanted = OwnMetric.model_validate({"regex": "x ([0-9.]+)", "take": take, "unit": "KiB"})
    assert figure("m", wanted, "x 4\nx 2\nx 9", "it") == value * 1024
    assert (
        figure("m", OwnMetric.model_validate({"regex": "x ([0-9]+) ?([a-z]*)", "unit": "s"}), "x 4 ms\nx 4 ms", "")
        == 0.004
    )


# --- imports ----------------------------------------------------------------------------------------------------------


def imported(root: Path, plan: SessionPlan, *files: Path, **said: str) -> tuple[dict[str, StoredTrial], list[str]]:
    outcome = import_outputs(root, plan.study, None, files, said=said)
    return {t.record.case: t for _, t in outcome.imported}, [why for _, why in outcome.refused]


@pytest.mark.long
def test_a_folder_of_hyperfines_exports_becomes_a_trial_a_command(tmp_path: Path, monkeypatch):
    plan = plan_of()
    trials, refused = imported(tmp_path, plan, DATA / "hyperfine")
    assert refused == []
    assert len(trials) == 9
    failed = trials["command=false,n=1"].record
    assert (failed.status, failed.cause) == ("failed", "3 of its runs exited with status 1")
    _, again = imported(tmp_path, plan, DATA / "hyperfine")
    assert len(again) == 9 and all("already holds the same content" in why for why in again)
    tidy_family(tmp_path, [plan], tmp_path / "tidy")
    values = pl.read_parquet(tmp_path / "tidy" / "observations.parquet")
    cases = pl.read_parquet(tmp_path / "tidy" / "cases.parquet")
    document = json.loads((DATA / "hyperfine" / "parameters.json").read_text())
    result = document["results"][1]
    row = cases.filter(pl.col("seconds") == result["parameters"]["seconds"])
    mine = values.filter(pl.col("case") == row["case"].item())
    found = dict(mine.select("metric", "value").iter_rows())
    assert found["wall_time"] == pytest.approx(result["median"]) and found["user_time"] == result["user"]
    assert found["runs"] == len(result["times"])
    in_one = cases.filter(pl.col("seconds").is_not_null())
    assert in_one["command"].n_unique() == 1 and in_one.height == 3, "they differ in a parameter alone"
    page = shown(tmp_path, tmp_path / "tidy", monkeypatch)
    assert (page / "figures" / "wall_time.svg").is_file()


def test_a_parameter_whose_value_occurs_elsewhere_in_one_command_makes_no_other_command():
    runs = recognise(DATA / "hyperfine-two-parameters.json")
    assert [run.levels["mode"] + run.levels["size"] for run in runs] == ["a1k", "a10k", "b1k", "b10k"]
    assert len({run.levels["command"] for run in runs}) == 1


def test_an_export_that_is_cut_off_says_so(tmp_path: Path):
    export = tmp_path / "pair.json"
    export.write_text((DATA / "hyperfine" / "pair.json").read_text()[:700])
    with pytest.raises(ParseError, match=r"hyperfine's export is truncated or damaged: .*export it again"):
        recognise(export)


@pytest.mark.parametrize("name", ["mean", "median", "min", "max"])
def test_an_export_whose_summary_contradicts_its_times_is_refused(tmp_path: Path, name: str):
    export = json.loads((DATA / "hyperfine" / "pair.json").read_text())
    export["results"][1][name] *= 1.01
    (tmp_path / "pair.json").write_text(json.dumps(export))
    with pytest.raises(ParseError, match=rf"inconsistent: the {name} of .* is .* s, and that of its times is .* s"):
        recognise(tmp_path / "pair.json")


def test_an_export_in_utf16_is_read_and_an_absurd_file_is_refused_in_words(tmp_path: Path):
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "pair.json").write_text((DATA / "hyperfine" / "pair.json").read_text(), encoding="utf-16")
    (outputs / "deep.json").write_text("[" * 100_000)
    plan = plan_of()
    trials, (refused,) = imported(tmp_path, plan, outputs)
    assert len(trials) == 2
    assert "command cannot read this output: RecursionError" in refused
    tidy_family(tmp_path, [plan], tmp_path / "tidy")
    assert set(pl.read_parquet(tmp_path / "tidy" / "observations.parquet")["status"]) == {"ok"}


def test_any_file_is_imported_by_the_studys_own_definitions(tmp_path: Path):
    latency = {"regex": "latency average = ([0-9.]+) ms", "unit": "ms", "better": "lower"}
    pgbench = {
        "name": "pgbench",
        "argv": ["pgbench", "-c", "{{clients}}"],
        "matrix": {"clients": [1, 4]},
        "metrics": {"tps": TPS, "latency": latency},
    }
    plan = plan_of(pgbench, {"name": "other", "argv": ["x"], "metrics": {"ops": {"regex": "ops: ([0-9]+)"}}})
    trials, refused = imported(tmp_path, plan, DATA / "pgbench.txt", clients="4")
    assert refused == [] and list(trials) == ["command=pgbench,clients=4"]
    (trial,) = trials.values()
    parsed = plan.family.parse(trial.record.levels, trial.folder)
    found = {o.metric: (o.value, o.unit) for o in parsed.observations}
    text = (DATA / "pgbench.txt").read_text()
    assert found["tps"] == (float(re.search(r"tps = ([\d.]+)", text)[1]), "1/s")
    assert found["latency"][0] == pytest.approx(float(re.search(r"average = ([\d.]+)", text)[1]) / 1000)
    _, refused = imported(tmp_path / "other", plan, DATA / "README.md")
    assert "no family of the study (command) recognises this output" in refused[0]


def test_two_commands_that_both_find_their_figures_are_told_apart_by_a_person(tmp_path: Path):
    alike = [{"name": name, "argv": [name], "metrics": {"tps": TPS}} for name in ("pgbench", "sysbench")]
    plan = plan_of(*alike)
    _, refused = imported(tmp_path, plan, DATA / "pgbench.txt")
    assert "give its name with --level command=NAME" in refused[0]
    trials, _ = imported(tmp_path, plan, DATA / "pgbench.txt", command="sysbench")
    assert list(trials) == ["command=sysbench"]
