"""Each question of the checklist, asked of a study that lacks just one thing in one case of many."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from conftest import CHECKOUT, as_project
from load_fixture import AGAIN, BASE, NEW, LoadTables, levels_of
from tidy_fixture import _STARTED, Tables

from benchstudy.families.load_test.page.load import LoadTest
from benchstudy.families.load_test.page.mix import LoadMix
from benchstudy.model.questions import TITLES
from benchstudy.model.studyfile import parse_study
from benchstudy.report.checklist import checklist
from benchstudy.report.checklist.model import QUESTIONS
from benchstudy.report.page import Page
from benchstudy.report.study.studyfacts import StudyFacts

BLOCKS = 6
SIZES = {"100KB": 100_000, "1MB": 1_000_000}
FILES = {
    "backends": [{"name": "local"}, {"name": "other", "path": "/srv"}, {"name": "local-again", "same_as": "local"}],
}
SERVERS = {"servers": [{"name": "one"}, {"name": "two", "service": "two"}, {"name": "one-again", "same_as": "one"}]}
WARMED_UP = json.dumps([{"name": name, "size": 1, "sha256": "0" * 64} for name in ("stdout", "warm-up/stdout")])
CEILINGS = [{"family": "file_size", "op": op, "rate": "100GB/s", "source": "a label"} for op in ("read", "write")]

# The case that lacks something, with its names in files and for readers.
READ, READ_NAME = "backend=other,op=read,size=1MB,cache=cold", "other · read · 1MB · cold"
CLOSED, CLOSED_NAME = "server=two,generator=ab,concurrency=20", "two · ab · 20"
OPEN, OPEN_NAME = "server=two,generator=k6,rate=100/s", "two · k6 · 100/s"
SEARCH = f"database=postgres,version={NEW},load=unbounded"


# -- a study that lacks nothing ----------------------------------------------------------------------


def moment(block: int, place: int) -> str:
    return (_STARTED + timedelta(minutes=block, seconds=place)).isoformat(timespec="milliseconds")


def in_turns(tables: Tables, cases: list[tuple[dict[str, str], dict[str, Any]]], add: Callable[..., None]) -> None:
    """Every case in every block, in the order of a generator with a fixed seed."""
    for block in range(1, BLOCKS + 1):
        for place, index in enumerate(np.random.default_rng(block).permutation(len(cases))):
            levels, more = cases[index]
            add(levels, block, started=moment(block, place), **more)


def write_files(root: Path) -> None:
    tables = OfFamily(root, "file_size", FILES)
    cases = []
    for backend in ("local", "other", "local-again"):
        for size in SIZES:
            for op, factor, levels in (("write", "sync", ("fsync", "none")), ("read", "cache", ("cold", "warm"))):
                cases += [({"backend": backend, "op": op, "size": size, factor: level}, {}) for level in levels]

    def add(levels: Mapping[str, str], block: int, **fields: Any) -> None:
        size = SIZES[levels["size"]]
        seconds = tables.noisy(size / 1e8 * (1.5 if levels["backend"] == "other" else 1.0), 0.01)
        values = {"duration": (seconds, "s"), "throughput": (size / seconds, "B/s")}
        if levels["op"] == "read":
            cold = levels["cache"] == "cold"
            values |= {"cached_before": (0.0 if cold else 1.0, "1"), "device_read": (size if cold else 0.0, "B")}
        tables.add(levels, block, values, numbers={"size_bytes": size}, **fields)

    in_turns(tables, cases, add)
    tables.write()


def write_servers(root: Path) -> None:
    tables = OfFamily(root, "http_concurrency", SERVERS)
    cases = []
    for server in ("one", "two", "one-again"):
        closed = [{"server": server, "generator": "ab", "concurrency": n} for n in ("10", "20")]
        cases += [(levels, {"loop": "closed"}) for levels in closed]
        cases.append(({"server": server, "generator": "k6", "rate": "100/s"}, {"loop": "open"}))

    def add(levels: Mapping[str, str], block: int, *, loop: str, **fields: Any) -> None:
        values = {"throughput": (tables.noisy(100.0, 0.003), "1/s"), "duration": (30.0, "s"), "requests": (3000.0, "1")}
        values |= {
            "latency_p50": (tables.noisy(0.05, 0.01), "s"),
            "latency_p99": (0.1, "s"),
            "generator_cpu": (0.2, "1"),
        }
        values |= {"latency_mean": (0.055, "s"), "latency_sd": (0.02, "s")}
        values |= {"offered": (100.0, "1/s")} if loop == "open" else {}
        tables.add(levels, block, values, verified=json.dumps({"loop": loop}), raw_files=WARMED_UP, **fields)

    in_turns(tables, cases, add)
    tables.write()


def write_releases(root: Path) -> None:
    tables = LoadTables(root)
    cases = [(levels_of(v, load=load), {}) for v in (BASE, NEW, AGAIN) for load in ("bounded", "unbounded")]

    def add(levels: Mapping[str, str], block: int, **fields: Any) -> None:
        users = tables.noisy(1000.0, 0.01) if levels["load"] == "unbounded" else None
        bracket = {"users_low": (950.0, "1"), "users_high": (1050.0, "1")} if users else {}
        told = json.dumps({"loop": "closed", "load_test": tables._facts(levels)})
        tables.run(levels, block, users=users, extra=bracket, verified=told, **fields)

    in_turns(tables, cases, add)
    tables.write()


class OfFamily(Tables):
    """Tables whose session has this record about the family."""

    def __init__(self, root: Path, family: str, declared: Mapping[str, Any]):
        super().__init__(root, "embedded", family)
        self.declared = declared

    def _index(self) -> dict[str, Any]:
        index = super()._index()
        index["sessions"][0]["declared"] |= {"families": {self.family: self.declared}}
        return index


def show_files(page: Page) -> None:
    page.compare("backends", {"duration": "Time"}, factor="backend", caption="Backends")
    page.calibration(["duration"])
    page.weaknesses()


def show_servers(page: Page) -> None:
    page.compare("servers", ["throughput"], factor="server", caption="Servers")
    page.calibration(["throughput"])
    page.weaknesses()


def show_releases(page: Page) -> None:
    page.compare("releases", ["store_mean"], factor="version", caption="Releases")
    page.calibration(["store_mean"])
    page.note("mix_shift", page.family, LoadMix(LoadTest(page.results, page.declared, page.indexes)).noted)
    page.weaknesses()


SHOWS = {"file_size": show_files, "http_concurrency": show_servers, "load_test": show_releases}


@dataclass
class Study:
    """The project at `root`, which is the working folder."""

    root: Path
    ceilings: list[dict[str, Any]]
    license: str = "CC-BY-4.0"

    def tidy(self, family: str) -> Path:
        return self.root / "data" / "tidy" / "embedded" / family

    def edit(self, family: str, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        path = self.tidy(family) / f"{table}.parquet"
        change(pl.read_parquet(path)).write_parquet(path)

    def drop(self, family: str, where: pl.Expr, *tables: str) -> None:
        for table in tables:
            self.edit(family, table, lambda rows: rows.filter(~where))

    def put(self, family: str, table: str, column: str, value: Any, where: pl.Expr) -> None:
        new = value if isinstance(value, pl.Expr) else pl.lit(value)
        changed = pl.when(where).then(new).otherwise(pl.col(column)).alias(column)
        self.edit(family, table, lambda rows: rows.with_columns(changed.cast(rows.schema[column])))

    def show(self, family: str) -> None:
        page = Page(family, study="embedded", tidy=self.tidy(family), output=f"reports/embedded/{family}")
        SHOWS[family](page)

    def note(self, family: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the notes of the page."""
        path = self.root / "reports" / "embedded" / family / "overview.json"
        notes = json.loads(path.read_text())
        change(notes)
        path.write_text(json.dumps(notes))

    def answers(self) -> dict[str, checklist.Answer]:
        whole = yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text(encoding="utf-8"))
        own = {"families": {name: whole["families"][name] for name in SHOWS}, "acknowledge": []}
        study = parse_study(whole | own | {"ceilings": self.ceilings, "license": self.license})
        indexes = [json.loads(path.read_text()) for path in (self.root / "data" / "raw").rglob("session.json")]
        reports = self.root / "reports"
        tidy = {family: self.tidy(family) for family in SHOWS}
        facts = StudyFacts(study, tidy=tidy, indexes=indexes, reports=reports)
        return dict(checklist.answered(facts))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    root = tmp_path_factory.mktemp("checklist") / "project"
    as_project(root)
    study = Study(root, CEILINGS)
    for write in (write_files, write_servers, write_releases):
        write(root)
    notebooks = root / "reports" / "embedded" / "notebooks"
    notebooks.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for family in SHOWS:
            study.show(family)
            (notebooks / f"{family}.ipynb").write_text(json.dumps({"cells": []}))
    return study


@pytest.fixture
def own(whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study from which a test removes something."""
    shutil.copytree(whole.root, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Study(tmp_path / "project", CEILINGS)


# -- what a test removes ----------------------------------------------------------------------


def is_case(name: str) -> pl.Expr:
    return pl.col("case") == name


def gave(name: str, *metrics: str) -> pl.Expr:
    return is_case(name) & pl.col("metric").is_in(metrics)


def first_blocks(study: Study, blocks: int) -> None:
    """The one case has only this many."""
    study.drop("file_size", is_case(READ) & (pl.col("block") > blocks), "trials", "observations")
    study.show("file_size")


def no_trial(study: Study) -> None:
    study.drop("file_size", is_case(READ), "trials", "observations")


def no_count(study: Study) -> None:
    study.drop("http_concurrency", gave(CLOSED, "requests"), "observations")
    study.show("http_concurrency")


def in_a_row(study: Study) -> None:
    later = pl.lit("2026-11-20T12:0") + pl.col("block").cast(pl.String) + ":00.000+00:00"
    study.put("file_size", "trials", "started", later, is_case(READ))


def not_fsynced(study: Study) -> None:
    study.drop("file_size", is_case("backend=other,op=write,size=1MB,sync=fsync"), "cases", "trials", "observations")


def drifting(study: Study) -> None:
    study.put("file_size", "observations", "value", pl.col("value") * pl.col("block"), gave(READ, "duration"))
    study.show("file_size")


def failed_without_cause(study: Study) -> None:
    study.put("file_size", "trials", "status", "failed", is_case(READ) & (pl.col("block") == 2))


def no_labels(study: Study) -> None:
    study.drop("load_test", is_case(f"database=postgres,version={BASE},load=bounded"), "labels")
    study.show("load_test")


def lacking_comparison(study: Study, what: str) -> None:
    def change(notes: dict[str, Any]) -> None:
        notes["comparisons"]["backends"]["lacking"][what] = [f"other against local · {READ_NAME}, Time"]

    study.note("file_size", change)


def of_another_session(study: Study, *, shown: bool) -> None:
    study.put("file_size", "trials", "session", "12345678-0000-4000-8000-000000000000", is_case(READ))
    if shown:
        study.show("file_size")


def not_all_bounded(study: Study) -> None:
    patterns = ("*op=write*", "*size=100KB*", "*cache=warm", "backend=local*")
    study.ceilings = [{**CEILINGS[0], "where": pattern} for pattern in patterns]


def typed(study: Study) -> None:
    cell = {"cell_type": "markdown", "id": "the-cell", "metadata": {}, "source": ["The disk writes at 230 MB/s."]}
    path = study.root / "reports" / "embedded" / "notebooks" / "http_concurrency.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))


def impossible(study: Study) -> None:
    study.put("http_concurrency", "observations", "value", 1.0, gave(CLOSED, "latency_mean"))
    study.show("http_concurrency")


def twins_of_one_size(study: Study) -> None:
    of_1_mb = pl.col("case").str.starts_with("backend=local-again") & pl.col("case").str.contains("size=1MB")
    study.drop("file_size", of_1_mb, "cases", "trials", "observations")
    study.show("file_size")


def put(family: str, column: str, value: Any, name: str) -> Callable[[Study], None]:
    return lambda study: study.put(family, "trials", column, value, is_case(name))


def without(family: str, name: str, metric: str) -> Callable[[Study], None]:
    return lambda study: study.drop(family, gave(name, metric), "observations")


def said(family: str, name: str, metric: str, value: float) -> Callable[[Study], None]:
    return lambda study: study.put(family, "observations", "value", value, gave(name, metric))


_NO_SUM = json.dumps([{"name": "stdout", "size": 1}])
LACKING: dict[str, tuple[Callable[[Study], None], str]] = {
    "Raw samples": (put("file_size", "raw_files", None, READ), READ_NAME),
    "n in each cell": (no_trial, READ_NAME),
    "An interval for each number": (partial(first_blocks, blocks=5), f"{READ_NAME} (n = 5)"),
    "Median and supported tails": (no_count, CLOSED_NAME),
    "Outliers flagged, kept, linked to host events": (partial(first_blocks, blocks=5), READ_NAME),
    "Random interleaved order, seed shown": (in_a_row, f"{READ_NAME} (not interleaved"),
    "Warm-up tagged": (put("http_concurrency", "raw_files", _NO_SUM, CLOSED), CLOSED_NAME),
    "Cache state declared and verified with disk counters": (said("file_size", READ, "device_read", 0.0), READ_NAME),
    "fsync as a factor": (not_fsynced, "other · write · 1MB · none"),
    "Steady-state test": (drifting, f"{READ_NAME} (not steady)"),
    "Enough duration": (said("http_concurrency", CLOSED, "duration", 2.0), CLOSED_NAME),
    "Environment before and after, compared": (partial(of_another_session, shown=False), READ_NAME),
    "Tool and system versions, SHA-256 of binaries": (put("file_size", "tool_sha256", None, READ), READ_NAME),
    "Exact argv": (put("file_size", "argv", None, READ), READ_NAME),
    "Load generator not saturated": (without("http_concurrency", OPEN, "generator_cpu"), OPEN_NAME),
    "Open or closed loop named": (put("load_test", "verified", "{}", SEARCH), f"{NEW} · unbounded"),
    "Failures counted, with Wilson's interval": (failed_without_cause, f"{READ_NAME} (1 of 1 trial)"),
    "Offered and achieved rate": (without("http_concurrency", OPEN, "offered"), OPEN_NAME),
    "Mix shift": (no_labels, f"{NEW} · bounded"),
    "Effect with interval": (partial(first_blocks, blocks=1), "other against local · read · 1MB · cold, Time"),
    "Multiplicity": (partial(lacking_comparison, what="adjusted"), READ_NAME),
    "Thresholds declared before, and hashed": (put("file_size", "study_sha256", "0" * 64, READ), READ_NAME),
    "Smallest detectable effect": (partial(lacking_comparison, what="detectable"), READ_NAME),
    "Plausibility against declared ceilings": (not_all_bounded, READ_NAME),
    "Baseline of the same session": (partial(of_another_session, shown=True), "read · 1MB · cold, Time"),
    "Numbers in prose generated from results": (typed, "cell the-cell of http_concurrency: “… The disk writes at 230"),
    "Capacity rule defined": (without("load_test", SEARCH, "users_high"), f"{NEW} · unbounded"),
    "Archived, licensed, checksummed": (put("http_concurrency", "raw_files", _NO_SUM, CLOSED), CLOSED_NAME),
    "Summaries consistent": (impossible, "two, ab, 20"),
    "A/A calibration": (twins_of_one_size, "only at size 100KB in file_size, which measures 100KB, 1MB"),
}


def test_a_study_that_lacks_nothing_satisfies_all(whole, monkeypatch):
    monkeypatch.chdir(whole.root)
    assert {title: a.text for title, a in whole.answers().items() if a.status != "satisfied"} == {}


@pytest.mark.parametrize("title", TITLES)
def test_what_one_case_lacks_is_not_satisfied_and_the_case_is_named(own, title):
    take, named = LACKING[title]
    take(own)
    answer = own.answers()[title]
    assert answer.status == "not satisfied"
    assert named in answer.text


@pytest.mark.parametrize(
    ("title", "take", "named"),
    [
        ("Cache state declared and verified with disk counters", ("cached_before", 0.5), READ_NAME),
        ("Cache state declared and verified with disk counters", ("cached_before", 0.5), "other · read · 1MB · warm"),
        ("Capacity rule defined", ("users_low", None), f"{NEW} · unbounded (6 of 6 trials)"),
        ("Load generator not saturated", ("generator_cpu", None), f"{CLOSED_NAME} (6 of 6 trials)"),
    ],
)
def test_so_is_what_a_value_does_not_prove(own, title, take, named):
    """A null value, and one that contradicts the claim."""
    metric, value = take
    cases = (READ, READ.replace("cold", "warm"), SEARCH, CLOSED)
    for family in SHOWS:
        where = pl.col("case").is_in(cases) & (pl.col("metric") == metric)
        own.put(family, "observations", "value", value, where)
    answer = own.answers()[title]
    assert answer.status == "not satisfied" and named in answer.text


def test_a_ceiling_that_matches_no_case_is_named(own: Study):
    """Imported outputs may give http_concurrency other cases, so only the tables can tell."""
    own.ceilings = [*CEILINGS, {**CEILINGS[0], "family": "http_concurrency", "where": "server=nignx*"}]
    told = own.answers()["Plausibility against declared ceilings"]
    assert told.status == "not satisfied"
    where = f"ceilings.{len(CEILINGS)}.where 'server=nignx*' of http_concurrency"
    assert told.text == f"A ceiling is declared for cases that there are not, so it has no effect: {where}."


def test_a_case_of_a_session_without_a_seed_and_one_at_the_same_place_always_are_not_random(own):
    def first(rows: pl.DataFrame) -> pl.DataFrame:
        begun = pl.lit("2026-11-20T10:0") + pl.col("block").cast(pl.String) + ":00.000+00:00"
        return rows.with_columns(pl.when(is_case(CLOSED)).then(begun).otherwise(pl.col("started")).alias("started"))

    own.put("file_size", "trials", "session", "12345678-0000-4000-8000-000000000000", is_case(READ))
    own.put("http_concurrency", "trials", "position", 0, is_case(CLOSED))
    own.edit("http_concurrency", "trials", first)
    text = own.answers()["Random interleaved order, seed shown"].text
    assert f"{READ_NAME} (6 of 6 trials, without a recorded seed)" in text
    assert f"{CLOSED_NAME} (at the same place in every block)" in text


@pytest.mark.parametrize(("seconds", "status"), [(3.0, "not satisfied"), (12.0, "satisfied")])
def test_a_rate_without_a_window_of_its_own_is_as_long_as_its_longest_phase_that_counts(bare_project, seconds, status):
    tables = Tables(bare_project, "embedded", "log_write")
    levels = {"backend": "posix", "generator": "open", "rate": "2000/s"}
    ends = {"warm-up": (0.0, 20.0), "window": (20.0, 20.0 + seconds)}
    rows = []
    for block in range(1, BLOCKS + 1):
        tables.add(levels, block, {"qps": (2000.0, "1/s")}, verified='{"loop": "open"}', duration_s=40.0)
        rows += [
            tables.head() | {"phase": phase, "start_s": start, "end_s": end} for phase, (start, end) in ends.items()
        ]
    tables.series["phases"] = rows
    found = StudyFacts(
        parse_study(yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text(encoding="utf-8"))),
        tidy={"log_write": tables.write()},
        indexes=[],
        reports=bare_project,
    )
    asked = {title: QUESTIONS[title](found) for title in TITLES[:12]}
    assert asked["Enough duration"].status == status and "log_write" in asked["Enough duration"].text
    assert asked["Warm-up tagged"].status == "satisfied"


def test_a_figure_near_the_null_servers_rate_is_client_limited_as_on_its_page(own: Study):
    """The generator's processors were idle half of the time, so no lint knows of it."""
    reason = "one · none · list · ab · 20: 70 % of the same generator's throughput with the null server"
    own.note("http_concurrency", lambda notes: notes.update(client_limited={"http_concurrency": [reason]}))
    found = own.answers()["Load generator not saturated"]
    assert found.status == "not satisfied"
    assert found.text == f"1 figure of http_concurrency is client-limited, first {reason}."


def test_one_smallest_effect_is_no_range(own: Study):
    for family in SHOWS:
        own.note(family, lambda notes: [m.update(detectable=[0.2, 0.2]) for m in notes["comparisons"].values()])
    said = own.answers()["Smallest detectable effect"].text
    assert said == "Each tested comparison has its smallest detectable effect: 20 % beyond the margin."


def test_pairs_whose_figures_the_study_set_are_counted_apart(own: Study):
    """They lack no interval, so "the others" would be more than those that are listed."""
    name = "http_concurrency"
    own.note(name, lambda notes: [m["verdicts"].update(none=2) for m in notes["comparisons"].values()])
    found = own.answers()["Effect with interval"]
    assert found.status == "satisfied" and found.text.endswith("; for 2, the study itself set both figures.")


def test_no_trend_shown_is_not_called_steady(own: Study):
    """Kendall's correlation of six blocks, adjusted over many cases, rarely shows any trend."""
    found = own.answers()["Steady-state test"]
    assert found.status == "satisfied"
    limits, trend = "All N cases are within SNIA's limits.", "No trend over the blocks is shown in any of N cases"
    assert re.sub(r"\d+", "N", found.text) == f"{limits} {trend} of other families."


def test_a_study_with_one_case_per_family_has_nothing_to_compare(own: Study):
    """Nobody can compare it, so the checklist does not ask for comparisons; and its words are those for one case."""
    for family in SHOWS:
        (case,) = pl.read_parquet(own.tidy(family) / "cases.parquet")["case"].head(1)
        own.drop(family, pl.col("case") != case, "cases", "trials", "observations")
        own.note(family, lambda notes: [notes.pop(name, None) for name in ("comparisons", "calibration")])
    answers = own.answers()
    titles = ("Effect with interval", "Thresholds declared before, and hashed", "A/A calibration")
    assert {(answers[title].status, answers[title].text) for title in titles} == {
        ("does not apply", "No family has two cases on a target, so there is nothing to compare.")
    }
    number = len(SHOWS)
    assert answers["n in each cell"].text.startswith(f"{number} cases with 6 successful trials each;")
