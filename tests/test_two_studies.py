"""Two studies side by side: ratios with intervals, what differs between them, and no verdict across sessions."""

import csv
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import CHECKOUT, as_project
from http_fixture import HttpTables
from http_fixture import levels_of as http_levels
from log_fixture import LogTables, levels_of
from tidy_fixture import HOSTILE, Tables

from benchstudy.commands import cli
from benchstudy.jobs.tidy import tidy_family
from benchstudy.model.differences import differences, environment_diff
from benchstudy.model.studyfile import load_study
from benchstudy.report.comparisons import study_differences, two_studies
from benchstudy.report.comparisons.comparison import Row
from benchstudy.report.comparisons.study_pair import FamilyPair
from benchstudy.report.comparisons.two_studies import TwoStudies
from benchstudy.statistics.comparisons import Arm, compare

LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
BEFORE, AFTER = "10000000-0000-4000-8000-000000000000", "20000000-0000-4000-8000-000000000000"
SPREAD = (0.98, 1.03, 1.0, 0.97, 1.02, 1.01, 0.99, 1.04)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (as_project(tmp_path) / "notebooks").mkdir()
    shutil.copy(CHECKOUT / "notebooks" / "two_studies.ipynb", tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(
    root: Path,
    name: str,
    session: str | None,
    seconds: Mapping[str, float],
    *,
    definition: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    family: str = "file_size",
    **fields: Any,
) -> None:
    """Tables and records of a study in which a backend takes about this many seconds; 0 means that it always failed."""
    tables = Tables(root, name, family)
    for backend, value in seconds.items():
        for block, factor in enumerate(SPREAD, start=1):
            failed = {} if value else {"status": "failed", "cause": "no space left"}
            metrics = {"duration": (value * factor, "s"), "throughput": (1e6 / (value * factor or 1), "B/s")}
            levels, size = {**LEVELS, "backend": backend}, {"size_bytes": 1_000_000}
            tables.add(levels, block, metrics, numbers=size, session=session, **failed, **fields)
    tables.write()
    path = root / f"data/raw/{name}/this-machine/{family}/session.json"
    index = json.loads(path.read_text())
    index["sessions"][0] |= {"uuid": session or BEFORE}
    index["sessions"][0]["hosts"]["here"]["before"] |= facts or {}
    index["sessions"][0]["declared"]["families"] = {family: dict(definition or {})}
    path.write_text(json.dumps(index))
    for entry in index["trials"]:
        record = path.parent / entry["path"] / "trial.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"definition": dict(definition or {})}))


def compared(metrics: list[str] | None = None) -> FamilyPair:
    page = TwoStudies(base="before", other="after", tidy="data/tidy", output="reports/x", metrics=metrics or [])
    (pair,) = page.pairs
    return pair


def rows(metrics: list[str] | None = None) -> list[Row]:
    return compared(metrics).rows


def on_targets(root: Path, name: str, seconds: Mapping[str, float]) -> None:
    """Tables and records of a study that measured one case on each of these targets."""
    tables = Tables(root, name, "file_size")
    for target, value in seconds.items():
        for block, factor in enumerate(SPREAD, start=1):
            size = {"size_bytes": 1_000_000}
            tables.add(LEVELS, block, {"duration": (value * factor, "s")}, numbers=size, target=target, session=name)
    tables.write()
    own = root / f"data/raw/{name}/this-machine/file_size/session.json"
    index = json.loads(own.read_text())
    own.unlink()
    for target in seconds:
        path = root / f"data/raw/{name}/{target}/file_size/session.json"
        path.parent.mkdir(parents=True)
        kernel = {"kernel": {"release": f"{name} on {target}"}}
        of_it = json.loads(json.dumps(index["sessions"][0])) | {"hosts": {"a host": {"before": kernel}}}
        path.write_text(json.dumps(index | {"target": target, "sessions": [of_it], "trials": []}))


def test_a_ratio_has_its_interval_and_base_and_no_verdict_when_the_sessions_are_two(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.3})
    (row,) = rows()
    made = row.outcome
    assert (row.metric, made.method) == ("duration", "Hodges-Lehmann, Mann-Whitney interval"), "blocks are no pairs"
    assert made.ratio == pytest.approx(1.5, rel=0.03)
    assert 1.4 < made.evidence.low < made.ratio < made.evidence.high < 1.6
    assert made.base.median == pytest.approx(0.2, rel=0.02)
    assert (made.verdict, made.adjusted) == ("none", None)
    assert made.why == "not the same session"


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (1e6, 1e6, "not the same session"),
        (0.0, 0.0, "not the same session"),
        (None, None, "not the same session"),
        (1e6, 2e5, "200 KB came from storage, and 1 MB for the base"),
        (1e6, 0.0, "0 B came from storage, and 1 MB for the base"),
        (1e6, None, "an unknown amount came from storage, and 1 MB for the base"),
        (None, 0.0, "0 B came from storage, and an unknown amount for the base"),
        (0.0, None, "an unknown amount came from storage, and 0 B for the base"),
    ],
)
def test_reads_of_unlike_proof_get_no_ratio_between_two_studies(project, capsys, before, after, why):
    levels = {"backend": "local", "op": "read", "size": "1MB", "cache": "cold"}
    for name, session, given in (("before", BEFORE, before), ("after", AFTER, after)):
        tables = Tables(project, name, "file_size")
        for block, factor in enumerate(SPREAD, start=1):
            proof = {} if given is None else {"device_read": (given, "B")}
            values = {"duration": (0.2 * factor, "s"), **proof}
            tables.add(levels, block, values, numbers={"size_bytes": 1_000_000}, session=session)
        tables.write()
    (row,) = rows(["duration"])
    why = why if before == after else f"different cache states: per operation, {why}"
    assert (row.outcome.verdict, row.outcome.ratio is None) == ("none", before != after)
    assert (row.outcome.why, row.outcome.better) == (why, "lower")
    assert (row.outcome.base.name, row.outcome.other.name) == ("before", "after")
    assert cli.main(["compare", "before", "after", "--metric", "duration"]) == 0
    assert f"no verdict: {why}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ((500.0, 550.0), "neither more nor less than 5 % is shown"),
        ((500.0, None), "after: nothing failed above it (1 of 6)"),
        (None, "after: no capacity found (1 of 6)"),
    ],
)
def test_a_capacity_that_is_only_a_lower_bound_or_one_of_some_trials_has_no_ratio(project, after, why):
    levels = levels_of("posix", "no", "open", "search")
    for name, last in (("before", (400.0, 450.0)), ("after", after)):
        tables = LogTables(project, name)
        for block in range(1, 7):
            ends = (500.0 + block / 8, 550.0) if block < 6 else last
            tables.opened(levels, block, 500.0, 900.0, search=ends)
        tables.write()
    (row,) = [row for row in rows() if row.metric == "capacity_pass"]
    assert (row.outcome.why, row.outcome.ratio is None) == (why, why.startswith("after"))


def test_a_generator_at_its_limit_gives_no_ratio_between_two_studies(project):
    for name, busy in (("before", 0.3), ("after", 0.97)):
        tables = HttpTables(project, name)
        for block in range(1, 7):
            levels = http_levels("nginx", "none", "static", "ab", concurrency="20")
            tables.closed(levels, block, 5_000.0 * (1 + block / 100), generator_cpu=busy)
        tables.write()
    found = {row.metric: row.outcome for row in rows()}
    assert found["throughput"].ratio is None
    assert found["throughput"].why == "after: client-limited, the generator used 97 % of its CPUs"


def test_an_offered_rate_that_both_studies_achieved_is_no_ratio_of_theirs(project):
    for name in ("before", "after"):
        served, written = HttpTables(project, name), LogTables(project, name)
        for block in range(1, 7):
            served.opened(http_levels("nginx", "none", "static", "k6", rate="200/s"), block, 199.9, 0.01 + block / 1e4)
            written.opened(levels_of("posix", "no", "open", "400/s"), block, 400.0, 900.0)
        served.write()
        written.write()
    metrics = ["throughput", "latency_p99", "qps"]
    page = TwoStudies(base="before", other="after", tidy="data/tidy", output="reports/x", metrics=metrics)
    found = {(pair.family, row.metric): row.outcome for pair in page.pairs for row in pair.rows}
    for key in (("http_concurrency", "throughput"), ("log_write", "qps")):
        assert (found[key].why, found[key].ratio) == ("both achieved the offered rate", None), key
    assert found["http_concurrency", "latency_p99"].ratio is not None


def test_disturbed_trials_are_named_with_what_to_do(project, capsys):
    seen = {"host": "here", "what": "others_cpu", "share": 0.55, "others_cpu": 1.1, "cpus": 2, "busiest": ["backup"]}
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.3}, disturbed=True, disturbance=json.dumps(seen))
    (row,) = rows()
    assert re.match(
        r"disturbed in 0 of 8 trials of before and 8 of 8 trials of after \(\w{8}, .* and 5 more\)", row.outcome.why
    )
    assert cli.main(["compare", "before", "after"]) == 0
    assert "set `disturbance: {then: repeat}` in the study" in capsys.readouterr().out
    page = (project / "reports/comparisons/before--after.html").read_text(encoding="utf-8")
    assert "then: repeat" in page
    assert "not known to share a session, so no difference between them gets a verdict" in page, "nor on a quiet host"


def test_of_one_and_the_same_session_there_is_a_verdict_by_pairs(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", BEFORE, {"local": 0.3})
    tweak = iter(SPREAD * 2)
    for path in project.glob("data/tidy/after/file_size/observations.parquet"):
        import polars as pl

        seen = pl.read_parquet(path)
        pl.DataFrame(seen).with_columns(
            value=pl.Series([v * (1 + (next(tweak) - 1) / 10) for v in seen["value"]])
        ).write_parquet(path)
    (row,) = rows()
    assert (row.outcome.verdict, row.outcome.pairs) == ("worse", len(SPREAD))
    told = compared().summary()
    assert told.endswith(
        "The margin of verdicts is 5 %, declared in the study before the measurement (before). "
        "Adjusted by Benjamini-Hochberg over 1 test."
    )


def test_a_copy_of_a_study_is_no_evidence_of_anything(project):
    study(project, "before", BEFORE, {"local": 0.2})
    for folder in ("data/tidy", "data/raw"):
        shutil.copytree(project / folder / "before", project / folder / "after")
    (row,) = rows()
    assert (row.outcome.ratio, row.outcome.verdict) == (None, "none")
    assert row.outcome.why == "8 trials of after are also of before"


def test_a_rule_on_other_work_that_differs_is_told_as_the_tables_applied_it(project):
    seen = {"host": "here", "what": "others_cpu", "share": 0.1, "others_cpu": 0.2, "cpus": 2, "busiest": []}
    for name, declared, applied in (("before", 0.2, 0.5), ("after", 0.05, 0.05)):
        fields = {"disturbed": False, "disturbance": json.dumps(seen | {"limit": applied})}
        study(project, name, None, {"local": 0.2}, **fields)
        path = project / f"data/raw/{name}/this-machine/file_size/session.json"
        index = json.loads(path.read_text())
        index["sessions"][0]["declared"]["disturbance"] = {"limit": declared}
        path.write_text(json.dumps(index))
    (found,) = study_differences.declarations(compared())
    assert (found.name, found.before, found.after) == ("disturbance.limit", "0.5", "0.05")


def test_imported_trials_get_no_verdict_and_what_is_seen_is_said_without_one(project, capsys):
    study(project, "before", None, {"local": 2.0}, imported=True)
    study(project, "after", None, {"local": 0.2}, imported=True)
    (row,) = rows()
    assert (row.outcome.verdict, row.outcome.adjusted) == ("none", None) and row.outcome.ratio < 0.2
    assert cli.main(["compare", "before", "after"]) == 0
    said = capsys.readouterr().out
    page = (project / "reports/comparisons/before--after.html").read_text(encoding="utf-8")
    assert "no verdict: imported: the time and the host of the measurement are unknown" in said
    assert "imported: the time and the host" in page and "no difference between them gets a verdict" in page
    for text in (said, page):
        shown = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"verdict (better|worse)|(better|worse):|by at least", shown)


@pytest.mark.long
def test_imported_trials_are_no_pairs_whatever_the_order_of_their_import(project, capsys):
    arms = []
    for name, factor in (("before", 1.0), ("after", 1.1)):
        file = project / "config" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        declared = {
            "study": name,
            "hosts": {"gone": {"address": "x"}},
            "targets": {"machine": {"roles": {"sut": "gone"}}},
            "families": {"command": {}},
        }
        file.write_text(json.dumps(declared))
        values = [factor * (1 + number / 10) for number in range(8)]
        outputs = [project / f"{name}-{number}.json" for number in range(8)]
        for output, value in zip(outputs, values, strict=True):
            output.write_text(json.dumps({"results": [{"command": "sort", "times": [value], "exit_codes": [0]}]}))
        assert cli.main(["import", *map(str, outputs), "--study", str(file)]) == 0
        tidy_family(project, [load_study(file).session("machine", "command")], project / f"data/tidy/{name}/command")
        arms.append(Arm(name, "s", tuple(values)))
    capsys.readouterr()
    assert cli.main(["compare", "before", "after", "--json", "--metric", "wall_time"]) == 0
    ((ratio,),) = (family["ratios"] for family in json.loads(capsys.readouterr().out)["families"])
    independent = compare(*arms, margin=0.05, better="lower")
    assert (ratio["low"], ratio["high"]) == pytest.approx(independent.interval)
    cases = pl.read_parquet(project / "data/tidy/before/command/cases.parquet").select("target", "case").rows()
    assert [(ratio["target"], ratio["case"])] == cases, "so that both can be joined"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"instrument": "other code"}, "not the same session, measuring code"),
        ({"tool_version": "Python 3.13.0"}, "not the same session, tool"),
        ({"definition": {"operations": 20}}, "not the same session, definition of the case (operations)"),
    ],
)
def test_what_else_is_not_the_same_is_named(project, changed, says):
    study(project, "before", BEFORE, {"local": 0.2}, definition={"operations": 10})
    study(project, "after", AFTER, {"local": 0.3}, **{"definition": {"operations": 10}, **changed})
    assert rows()[0].outcome.why == says


def test_the_page_says_what_differs_and_what_only_one_has(project, capsys):
    study(project, "before", BEFORE, {"local": 0.2, "gone": 0.1, HOSTILE: 0.2})
    study(
        project, "after", AFTER, {"local": 0.3, "new": 0.1, HOSTILE: 0.0},
        facts={"kernel": {"release": "6.12.0"}, "memory_total_bytes": 16e9}, definition={"operations": 20},
    )  # fmt: skip
    assert cli.main(["compare", "before", "after"]) == 0
    said = capsys.readouterr().out
    assert "local · write · 1MB · fsync, duration: 1.50× (95 %: " in said
    assert " of 201 ms; no verdict: not the same session" in said
    assert "all 8 trials failed" in said
    page = (project / "reports/comparisons/before--after.html").read_text()
    assert "<title>after against before" in page
    assert '<a href="../before/index.html">Study before</a> · <a href="../after/index.html">' in page
    assert HOSTILE not in page
    assert "Only before has: gone" in page and "Only after has: new" in page
    assert "The table has" not in page, "the figure has all of it"
    assert "no difference between them gets a verdict" in page and "The table has" not in page
    for verdict in ("better", "worse", "equivalent", "inconclusive"):
        assert f'class="text verdict {verdict}"' not in page and f">{verdict}<" not in page
    tables = project / "reports/comparisons/before--after/tables"
    conditions = {row[0]: row[2:] for row in csv.reader((tables / "conditions.csv").open())}
    assert conditions["Kernel of host"] == ["6.1.0", "6.12.0"]
    assert conditions["Memory of host"] == ["8 GB", "16 GB"]
    assert conditions["Session"][0].endswith(BEFORE[:8])
    declared = {row[0]: row[2:] for row in csv.reader((tables / "declared.csv").open())}
    assert declared["file_size.operations"] == ["–", "20"]
    figures = project / "reports/comparisons/before--after/figures"
    assert (figures / "file_size-ratios.svg").is_file()
    assert (figures / "file_size-trials.svg").is_file(), "the trials of both, laid over one another"
    assert (tables / "file_size-ratios.tex").is_file()
    assert 'href="../after/file_size.html#case-' in page


def test_a_host_that_differs_is_told_once_and_each_family_is_declared_for_itself(project):
    for name, release, seed in (("before", "6.1.0", 1), ("after", "6.12.0", 2)):
        for family in ("file_size", "fio"):
            study(project, name, None, {"local": 0.2}, facts={"kernel": {"release": release}}, family=family)
            path = project / f"data/raw/{name}/this-machine/{family}/session.json"
            index = json.loads(path.read_text())
            index["sessions"][0]["declared"]["seed"] = seed
            path.write_text(json.dumps(index))
    assert cli.main(["compare", "before", "after"]) == 0
    tables = project / "reports/comparisons/before--after/tables"
    told = {name: [row[0] for row in csv.reader((tables / f"{name}.csv").open())] for name in ("facts", "declared")}
    assert told["facts"].count("host: kernel.release") == 1 and told["declared"].count("seed") == 2


def test_a_sentence_counts_no_intervals_where_there_are_none(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.0})
    assert compared().summary() == "No ratio of 1 case that both measured; each row gives the reason."


def test_a_ratio_of_values_without_spread_has_no_interval(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    for name, value in (("before", 0.2), ("after", 0.1)):
        path = project / f"data/tidy/{name}/file_size/observations.parquet"
        pl.read_parquet(path).with_columns(value=pl.lit(value)).write_parquet(path)
    assert compared().summary() == "1 ratio of 1 case that both measured; none has an interval."


def test_a_sentence_counts_ratios_cases_and_what_excludes_a_ratio_of_1(project):
    study(project, "before", BEFORE, {"local": 0.2, "same": 0.1, "broken": 0.2})
    study(project, "after", AFTER, {"local": 0.3, "same": 0.1, "broken": 0.0})
    assert compared().summary() == (
        "2 ratios of 3 cases that both measured, and 1 figure without one; a ratio of 1 lies outside 1 of 2 intervals."
    )
    told = compared(["duration", "throughput"]).summary()
    assert told.startswith(
        "4 ratios of 3 cases that both measured, and 2 figures without one; a ratio of 1 lies outside 2 of 4 intervals"
    )


def test_studies_without_a_case_in_common_name_their_own_but_no_endless_list(project, displayed):
    study(project, "before", BEFORE, {f"b{number}": 0.2 for number in range(42)})
    study(project, "after", AFTER, {f"a{number}": 0.2 for number in range(40)})
    page = TwoStudies(base="before", other="after", tidy="data/tidy", output="reports/x")
    page.ratios()
    text = "".join(displayed)
    assert "No case was measured in both studies." in text
    assert re.search(r"Only before has: b0 · [^.]*; b39 · write · 1MB · fsync; and 2 more\.", text)
    assert re.search(r"Only after has: a0 · [^.]*; a39 · write · 1MB · fsync\.", text)


def test_a_table_has_both_figures_their_trials_and_a_link_to_each(project):
    study(project, "before", BEFORE, {"local": 0.2, "broken": 0.2})
    study(project, "after", AFTER, {"local": 0.3, "broken": 0.0})
    whole, broken = compared().table().rows
    name = "write · 1MB · fsync"
    assert [cell.lines[0] for cell in whole] == [f"local · {name}", "1.50×", "302 ms", "201 ms", "no verdict"]
    assert (whole[2].lines[1], whole[2].kind, whole[3].kind) == ("n = 8", "number", "number")
    assert whole[2].href.startswith("../after/file_size.html#") and whole[3].href.startswith(
        "../before/file_size.html#"
    )
    assert [cell.lines[0] for cell in broken] == [f"broken · {name}", "–", "–", "201 ms", "no verdict"]
    assert broken[2].lines[1] == "n = 0, 8 failed" and (broken[1].kind, broken[2].kind) == ("missing", "failed")
    both = compared(["duration", "throughput"]).table().rows
    assert [row[0].lines for row in both[:2]] == [
        (f"local · {name}", "Time of one file"), (f"local · {name}", "Throughput"),
    ]  # fmt: skip
    assert whole[0].lines == (f"local · {name}",), "one metric needs no name"


def test_of_several_targets_those_of_the_same_name_are_compared(project):
    on_targets(project, "before", {"a": 0.1, "b": 0.2, "c": 0.4})
    on_targets(project, "after", {"c": 0.4, "b": 0.3, "d": 0.1})
    pair = compared()
    assert [(row.base["target"], row.other["target"], round(row.outcome.ratio, 2)) for row in pair.rows] == [
        ("b", "b", 1.5), ("c", "c", 1.0),
    ]  # fmt: skip
    assert [pair.only(side) for side in (pair.base, pair.other)] == [
        ["a · local · write · 1MB · fsync"], ["d · local · write · 1MB · fsync"],
    ]  # fmt: skip
    told = {what: both for what, *both in study_differences.conditions(pair)}
    assert list(told) == ["Session on b", "Kernel of host on b", "Session on c", "Kernel of host on c"]
    assert told["Kernel of host on c"] == ["before on c", "after on c"]
    assert [(d.name, d.before, d.after) for d in study_differences.facts(pair)] == [
        ("host: kernel.release", f'"before on {target}"', f'"after on {target}"') for target in "bc"
    ]  # fmt: skip


def test_two_targets_are_compared_whatever_they_are_called_if_each_study_has_one(project):
    on_targets(project, "before", {"old-host": 0.2})
    on_targets(project, "after", {"new-host": 0.3})
    (row,) = rows()
    assert (row.base["target"], row.other["target"]) == ("old-host", "new-host")
    assert [what for what, *_ in study_differences.conditions(compared())] == ["Session", "Kernel of host"]


def test_the_latest_session_is_told_and_its_hosts_by_their_roles(project):
    for name, value in (("before", 0.2), ("after", 0.3)):
        study(project, name, None, {"local": value})
        path = project / f"data/raw/{name}/this-machine/file_size/session.json"
        index = json.loads(path.read_text())
        (held,) = index["sessions"]
        roles = {"this-machine": {"roles": {"sut": f"{name}-1", "load": f"{name}-2"}}}
        hosts = {f"{name}-{n}": {"before": {"kernel": {"release": f"{name[0]}{n}"}}} for n in (2, 1)}
        latest = held | {"started": "2026-11-21T10:00:00.000+00:00", "uuid": name * 2, "hosts": hosts}
        latest["declared"] = held["declared"] | {"targets": roles, "seed": len(name), "blocks": 8}
        path.write_text(json.dumps(index | {"sessions": [latest, held]}))
    told = {what: both for what, *both in study_differences.conditions(compared())}
    assert told == {
        "Session": ["2026-11-21 10:00:00 UTC, beforebe", "2026-11-21 10:00:00 UTC, afteraft"],
        "Kernel of sut": ["b1", "a1"],
        "Kernel of load": ["b2", "a2"],
    }
    assert [(d.name, d.before, d.after) for d in study_differences.declarations(compared())] == [("seed", "6", "5")]


def test_every_session_whose_trials_count_is_told_with_its_hosts(project):
    study(project, "before", BEFORE, {"local": 0.2}, facts={"kernel": {"release": "6.1"}})
    study(project, "after", AFTER, {"local": 0.3}, facts={"kernel": {"release": "6.1"}})
    tables = project / "data/tidy/after/file_size/trials.parquet"
    earlier = pl.when(pl.col("block") < 4).then(pl.lit("earlier-session")).otherwise(pl.col("session"))
    pl.read_parquet(tables).with_columns(session=earlier).write_parquet(tables)
    path = project / "data/raw/after/this-machine/file_size/session.json"
    index = json.loads(path.read_text())
    (held,) = index["sessions"]
    older = json.loads(json.dumps(held)) | {"uuid": "earlier-session", "started": "2026-01-01T00:00:00.000+00:00"}
    older["hosts"]["here"]["before"] |= {"kernel": {"release": "5.10"}}
    unused = older | {"uuid": "without-trials", "started": "2026-01-02T00:00:00.000+00:00"}
    path.write_text(json.dumps(index | {"sessions": [held, older, unused]}))
    told = {what: both for what, *both in study_differences.conditions(compared())}
    assert told["Session"][1].split("\n")[0] == "2026-01-01 00:00:00 UTC, earlier-"
    assert len(told["Session"][1].split("\n")) == 2
    assert told["Kernel of host"] == ["6.1", "5.10\n6.1"]


def test_code_and_tools_that_differ_are_told_once_with_the_begin_of_their_digests(project):
    same = {"tool_sha256": "a" * 64}
    study(project, "before", None, {"local": 0.2, "other": 0.1}, instrument="e" * 64, tool_version="3.11", **same)
    study(project, "after", None, {"local": 0.3, "other": 0.1}, instrument="f" * 64, tool_version="3.13", **same)
    told = {what: both for what, *both in study_differences.conditions(compared())}
    assert told["Tools"] == ["python3 3.11 aaaaaaaaaaaa", "python3 3.13 aaaaaaaaaaaa"]
    assert told["Measuring code"] == ["e" * 12, "f" * 12]


@pytest.mark.parametrize("metrics", [[], ["duration"]])
def test_a_case_that_always_failed_in_one_study_is_told_whichever_it_was(project, metrics):
    study(project, "before", BEFORE, {"local": 0.2, "mended": 0.0, "broken": 0.2})
    study(project, "after", AFTER, {"local": 0.3, "mended": 0.2, "broken": 0.0})
    head, whole, mended, broken = two_studies.lines([compared(metrics)])
    assert head.endswith(
        "1 ratio of 3 cases that both measured, and 2 figures without one; a ratio of 1 lies outside 1 of 1 interval."
    )
    name = "write · 1MB · fsync, duration"
    assert whole.startswith(f"  local · {name}: 1.50× (95 %: 1.4")
    assert whole.endswith(" of 201 ms; no verdict: not the same session")
    assert mended == f"  mended · {name}: no ratio of –; no verdict: before: all 8 trials failed"
    assert broken == f"  broken · {name}: no ratio of 201 ms; no verdict: after: all 8 trials failed"


def test_hosts_are_compared_by_the_roles_that_both_studies_have(project):
    for name, roles in (("before", {"sut": "here"}), ("after", {"sut": "here", "load": "here"})):
        study(project, name, name, {"local": 0.2}, facts={"kernel": {"release": name}})
        path = project / f"data/raw/{name}/this-machine/file_size/session.json"
        index = json.loads(path.read_text())
        index["sessions"][0]["declared"]["targets"] = {"this-machine": {"roles": roles}}
        path.write_text(json.dumps(index))
    for base, other in (("before", "after"), ("after", "before")):
        assert cli.main(["compare", base, other]) == 0
        page = (project / f"reports/comparisons/{base}--{other}.html").read_text(encoding="utf-8")
        assert "Kernel of sut" in page and "of load" not in page


def test_a_case_is_compared_by_what_it_gave_itself_whatever_other_cases_gave(project):
    for name in ("before", "after"):
        study(project, name, name, {"local": 0.2, "scan": 0.2})
        path = project / f"data/tidy/{name}/file_size/observations.parquet"
        scanned = pl.col("case").str.contains("scan") & (pl.col("metric") == "duration")
        pl.read_parquet(path).filter(~scanned).write_parquet(path)
    assert [(row.other["backend"], row.metric) for row in rows()] == [("local", "duration"), ("scan", "throughput")]


def test_a_figure_in_another_unit_is_shown_in_its_own_and_on_no_common_axis(project, capsys):
    for name, unit, session in (("before", "s", BEFORE), ("after", "B", AFTER)):
        tables = Tables(project, name, "file_size")
        for block, factor in enumerate(SPREAD, start=1):
            size = {"size_bytes": 1_000_000}
            tables.add(LEVELS, block, {"duration": (0.2 * factor, unit)}, numbers=size, session=session)
        tables.write()
    pair = compared()
    ((_, ratio, other, base, verdict),) = pair.table().rows
    assert (ratio.lines, other.lines[0], base.lines[0]) == (("–",), "0.201 B", "201 ms")
    assert verdict.lines == ("no verdict", "before is in s, after in B: no ratio of different units")
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["families"][0]["ratios"]
    assert (told["unit"], told["base"], told["other"]) == ("s", pytest.approx(0.201), None)
    (row,) = pair.rows
    assert [side.study for side, _ in pair.estimates("duration", row)] == ["before"], "the figure's axis is in seconds"


def test_a_figure_that_a_case_gave_in_one_study_only_has_no_ratio(project):
    for name in ("before", "after"):
        study(project, name, name, {"local": 0.2})
    for name in ("before", "after"):
        path = project / f"data/tidy/{name}/file_size/observations.parquet"
        whole = pl.read_parquet(path)
        whole.filter(pl.col("metric") != "throughput").write_parquet(path)
        assert [row.metric for row in rows(["duration", "throughput"])] == ["duration"]
        whole.write_parquet(path)


def test_another_metric_may_be_asked_for(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    (row,) = rows(["throughput"])
    assert (row.metric, row.unit) == ("throughput", "B/s")
    assert row.outcome.ratio == pytest.approx(2, rel=0.03)


def test_what_cannot_be_compared_says_why(project, capsys):
    study(project, "before", BEFORE, {"local": 0.2})
    for arguments, says in (
        (["before", "before"], "cannot compare a study with itself"),
        (["before", "missing"], "missing: no tables in"),
        (["before", "../etc"], "neither the file nor the name of a study"),
    ):
        assert cli.main(["compare", *arguments]) == 1
        assert says in capsys.readouterr().err
    assert "studies with tables: before" in _error(["before", "missing"], capsys)
    study(project, "after", AFTER, {"local": 0.1})
    assert "no case that both studies measured gives read_iops" in _error(
        ["before", "after", "--metric", "read_iops"], capsys
    )


def test_tables_that_are_older_than_a_discard_are_not_compared(project, capsys):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    (project / "data/raw/after/this-machine/file_size/session.json").unlink()  # what a discard begins with
    said = _error(["before", "after"], capsys)
    assert "after: trials in data/raw/after/this-machine/file_size were discarded, added or measured since" in said
    assert "make its report first" in said and not (project / "reports/comparisons").exists()


def test_files_of_a_metric_that_is_no_longer_compared_are_gone(project):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    stale = project / "reports/comparisons/before--after/tables/of-another-metric.csv"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert cli.main(["compare", "before", "after"]) == 0
    assert not stale.exists() and list(stale.parent.glob("*.csv"))


@pytest.mark.parametrize("metrics", [["thruput"], ["duration", "thruput"]])
def test_a_metric_that_no_family_has_is_refused_also_beside_one_that_is_there(project, capsys, metrics):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    said = _error(["before", "after", *(f"--metric={metric}" for metric in metrics)], capsys)
    assert "no family has a metric 'thruput': did you mean \"throughput\"?" in said


def test_a_notebook_that_fails_leaves_the_last_good_comparison(project, capsys):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    assert cli.main(["compare", "before", "after"]) == 0
    files = {path: path.read_bytes() for path in (project / "reports").rglob("*") if path.is_file()}
    notebook = project / "notebooks/two_studies.ipynb"
    notebook.write_text(notebook.read_text().replace("page.overview()", "1 / 0"))
    assert "ZeroDivisionError" in _error(["before", "after"], capsys)
    assert {path: path.read_bytes() for path in (project / "reports").rglob("*") if path.is_file()} == files


def test_in_one_session_a_figure_without_a_better_direction_says_why_it_has_no_verdict(project):
    for name in ("before", "after"):
        tables = Tables(project, name, "file_size")
        for block, factor in enumerate(SPREAD, start=1):
            operations = {"operations": (100 * factor**2 if name == "after" else 100 / factor, "1")}
            tables.add(LEVELS, block, operations, numbers={"size_bytes": 1_000_000}, session=BEFORE)
        tables.write()
    (row,) = rows(["operations"])
    assert (row.outcome.verdict, row.outcome.ratio is None) == ("none", False)
    assert row.outcome.why == "neither higher nor lower is declared to be better"


def test_failures_stand_beside_a_ratio_wherever_it_is_told(project, capsys):
    for name, session, failing in (("before", BEFORE, 0), ("after", AFTER, 5)):
        tables = Tables(project, name, "file_size")
        for block, factor in enumerate(SPREAD, start=1):
            failed = {"status": "failed", "cause": "no space left"} if block <= failing else {}
            values = {"duration": (0.2 * factor, "s")}
            tables.add(LEVELS, block, values, numbers={"size_bytes": 1_000_000}, session=session, **failed)
        tables.write()
    says = "5 of 8 trials of after failed (95 %: 31–86 %): the ratio covers only the others"
    assert cli.main(["compare", "before", "after"]) == 0
    assert f"\n    {says}\n" in capsys.readouterr().out
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["families"][0]["ratios"]
    assert told["warnings"] == [says]


def test_figures_have_the_marks_that_they_have_on_their_own_pages(project, capsys):
    for name, session, rise in (("before", BEFORE, 0.0), ("after", AFTER, 0.1)):
        tables = Tables(project, name, "file_size")
        for block, factor in enumerate(SPREAD, start=1):
            levels, size = {**LEVELS, "op": "read", "cache": "cold"}, {"size_bytes": 1_000_000}
            values = {"duration": (0.2 * factor * (1 + rise * block), "s"), "device_read": (0.0, "B")}
            tables.add(levels, block, values, numbers=size, session=session)
        tables.write()
    ((_, _, other, base, _),) = compared(["duration"]).table().rows
    assert (base.marks, other.marks) == (("not from storage",), ("not from storage", "not steady"))
    assert cli.main(["compare", "before", "after", "--metric", "duration"]) == 0
    assert "before: not from storage; after: not from storage, not steady" in capsys.readouterr().out
    page = (project / "reports/comparisons/before--after.html").read_text(encoding="utf-8")
    assert page.count(">not from storage<") == 2 and page.count(">not steady<") == 1
    assert cli.main(["compare", "before", "after", "--metric", "duration", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["families"][0]["ratios"]
    assert told["marks"] == {"before": ["not from storage"], "after": ["not from storage", "not steady"]}


@pytest.mark.parametrize("table", ["observations", "cases", "trials"])
def test_a_damaged_table_is_named_with_what_to_do(project, capsys, table):
    study(project, "before", BEFORE, {"local": 0.2})
    study(project, "after", AFTER, {"local": 0.1})
    path = project / f"data/tidy/after/file_size/{table}.parquet"
    for content in (path.read_bytes()[:-100], b"", b"PAR1", bytes(1000)):
        path.write_bytes(content)
        said = _error(["before", "after"], capsys)
        assert f"{path}: this table is damaged" in said and "run its report again" in said


def test_the_ratios_are_told_as_json(project, capsys):
    study(project, "before", BEFORE, {"local": 0.2, "gone": 0.1})
    study(project, "after", AFTER, {"local": 0.1})
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (family,) = told["families"]
    (ratio,) = family["ratios"]
    assert (told["base"], told["other"], family["family"]) == ("before", "after", "file_size")
    assert ratio["low"] < ratio["ratio"] == pytest.approx(0.5, rel=0.03) and ratio["verdict"] == "none"
    assert (ratio["metric"], ratio["unit"], ratio["margin"]) == ("duration", "s", 0.05)
    assert len(family["only"]["before"]) == 1 and family["only"]["after"] == []
    assert (project / told["page"]).is_file()


def _error(arguments: list[str], capsys) -> str:
    assert cli.main(["compare", *arguments]) == 1
    return capsys.readouterr().err


def test_differences_are_told_leaf_by_leaf():
    before = {"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": [1]}
    after = {"a": {"b": 1, "c": [1, 3]}, "e": [1, 2], "f": True}
    found = [(d.name, d.before, d.after) for d in differences(before, after)]
    assert found == [("a.c[1]", "2", "3"), ("d", '"x"', ""), ("e", "[1]", "[1, 2]"), ("f", "", "true")]
    facts = {"kernel": {"release": "6.1"}, "uptime_s": 1, "memory": {"free": 2}, "load": [1]}
    changed = {"kernel": {"release": "6.2"}, "uptime_s": 9, "memory": {"free": 3}, "load": [2]}
    assert environment_diff(facts, changed) == ['kernel.release: "6.1" -> "6.2"']


def test_of_long_lists_only_the_items_that_one_side_lacks_are_told():
    mounts = [{"source": "disk", "point": f"/mnt/{number}"} for number in range(9)]
    more = [*mounts[:5], {"source": "sshfs", "point": "/far"}, *mounts[5:]]
    told = '{"source": "sshfs", "point": "/far"}'
    assert environment_diff({"mounts": mounts}, {"mounts": more}) == [f"mounts[5]: null -> {told}"]
    assert environment_diff({"mounts": more}, {"mounts": mounts}) == [f"mounts[5]: {told} -> null"]
    (twice,) = differences(mounts, [*mounts, mounts[0]], "mounts")
    assert twice.name == "mounts", "a list with the same items twice differs, too"
