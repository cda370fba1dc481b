"""Comparisons on a page: which case is compared with which, when there is no verdict, and what the table says."""

import csv
import json
import re

import pytest
from tidy_fixture import HOSTILE, Tables, write_file_size

from benchstudy.families.file_size.page import published
from benchstudy.model.errors import BenchstudyError
from benchstudy.report import human
from benchstudy.report.comparisons import answers
from benchstudy.report.comparisons.comparison import Comparisons, Margins, calibrations, verdict_cell, within_noise
from benchstudy.report.exhibits.cells import estimate_cell
from benchstudy.report.figures.styles import Style
from benchstudy.report.page import Page
from benchstudy.report.published.published_page import PublishedPage
from benchstudy.report.results.over_targets import OverTargets
from benchstudy.report.results.results import Results

LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
DURATION = {"duration": "Time of one file"}


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path, "study", "file_size")


def add(tables, factor=1.0, blocks=6, first=1, **fields):
    """Trials that drift by a tenth from block to block, alike for all backends, and differ by a few thousandths."""
    levels = {**LEVELS, **{k: fields.pop(k) for k in list(fields) if k in LEVELS}}
    for block in range(first, first + blocks):
        value = 0.01 * factor * (1 + 0.1 * (block % 3)) * tables.noisy(1, 0.003)
        tables.add(levels, block, {"duration": (value, "s")}, numbers={"size_bytes": 1_000_000}, **fields)


def compared(tables, *, indexes=(), factor="backend", **choice):
    return Comparisons(tables.results(), indexes, choice.pop("metrics", DURATION), factor=factor, **choice)


def only(found):
    (row,) = found.rows
    return row.outcome


def index_of(bare_project):
    return json.loads((bare_project / "data/raw/study/this-machine/file_size/session.json").read_text())


# -- which case with which ----------------------------------------------------------------------


def test_each_level_stands_against_the_base_with_the_same_other_levels(tables):
    for backend, factor in (("local", 1), ("slow", 2), ("fast", 0.5)):
        for size in ("1MB", "2MB"):
            add(tables, factor, backend=backend, size=size)
    add(tables, 3, backend="slow", size="9MB")
    found = compared(tables)
    assert [(row.level, row.about, row.outcome.verdict) for row in found.rows] == [
        ("slow", "1MB", "worse"),
        ("slow", "2MB", "worse"),
        ("fast", "1MB", "better"),
        ("fast", "2MB", "better"),
    ]
    assert {row.outcome.tests for row in found.rows} == {4}
    assert found.rows[0].outcome.pairs == 6
    assert compared(tables, base="slow", where={"size": "1MB"}).rows[0].level == "local"


def test_a_case_that_the_base_lacks_stands_against_the_first_that_has_it_and_the_table_says_so(tables):
    add(tables)
    add(tables, 2, backend="slow")
    add(tables, 1, backend="slow", size="9MB")
    add(tables, 3, backend="fast", size="9MB")
    found = compared(tables)
    assert [(row.level, row.against, row.about) for row in found.rows] == [
        ("slow", "local", "1MB"), ("fast", "slow", "9MB"),
    ]  # fmt: skip
    table = found.table("backends", "Backends")
    assert (found.base_name, table.columns[1]) == ("the first", "Ratio to the first")
    assert [row[4].lines[2:] for row in table.rows] == [("local",), ("slow",)]
    alone = compared(tables, where={"size": "9MB"})
    assert alone.base_name == "slow" and alone.table("x", "X").rows[0][4].lines[2:] == ()


@pytest.mark.parametrize(
    ("measured", "choice", "why"),
    [
        ([{}, {"backend": "b"}], {"factor": "cache"}, "X: no case has the factor cache."),
        ([{}, {"backend": "b"}], {"base": "tape"}, "X: no case with backend tape was measured to compare with."),
        ([{}, {"size": "2MB"}], {}, "X: all cases have the same backend, local, so there is nothing to compare."),
        ([{}, {"backend": "b", "size": "2MB"}], {}, "X: no two cases differ only in their backend."),
    ],
)
def test_a_table_without_a_comparison_says_why(tables, measured, choice, why):
    for fields in measured:
        add(tables, **fields)
    tables.cases[next(iter(tables.cases))]["cache"] = None
    found = compared(tables, **choice)
    assert (found.rows, found.nothing("X")) == ([], why)
    assert found.base_name == choice.get("base", "local" if found.levels else "")


def test_a_counterpart_stands_for_a_level_that_the_other_does_not_have(tables):
    add(tables)
    add(tables, sync="none")
    add(tables, 3, backend="s3", sync="server")
    assert compared(tables).rows == []
    (row,) = compared(tables, counterparts={"sync": {"server": "fsync"}}).rows
    assert (row.about, row.short) == ("server (base: fsync)", "server")
    assert row.base["sync"] == "fsync"


def test_the_family_declares_title_and_direction_and_a_page_may_use_another_title(tables):
    for backend, value in (("local", 1.0), ("other", 2.0)):
        for block in range(1, 7):
            noisy = tables.noisy(value, 0.01)
            values = {"throughput": (noisy, "B/s"), "errors": (noisy, "1"), "operations": (noisy, "1")}
            tables.add({**LEVELS, "backend": backend}, block, values, numbers={"size_bytes": 1})
    rows = compared(tables, metrics=["throughput", "errors"]).rows
    assert [(row.title, row.outcome.verdict) for row in rows] == [
        ("Throughput", "better"),
        ("Failed attempts", "worse"),
    ]
    (row,) = compared(tables, metrics={"throughput": "Bytes a second"}).rows
    assert row.title == "Bytes a second"
    for metric in ("operations", "invented"):
        with pytest.raises(BenchstudyError, match="file_size does not declare whether higher or lower is better"):
            tables.add({**LEVELS, "backend": "third"}, 1, {metric: (1.0, "1")}, numbers={"size_bytes": 1})
            tables.add({**LEVELS, "backend": "local"}, 7, {metric: (1.0, "1")}, numbers={"size_bytes": 1})
            compared(tables, metrics=[metric])


def test_failed_trials_are_counted_and_a_case_that_always_fails_has_no_verdict(tables):
    add(tables, 1)
    add(tables, 2, backend="broken", status="failed", cause="no space left")
    outcome = only(compared(tables))
    assert (outcome.verdict, outcome.why) == ("none", "broken: all 6 trials failed")
    assert outcome.base.n == 6 and outcome.other.failed == 6
    assert (outcome.base.name, outcome.other.name) == ("local", "broken")


def test_each_side_has_its_own_name_figures_and_failures(tables):
    add(tables)
    add(tables, first=7, blocks=1, status="failed", cause="no space left")
    add(tables, 2, backend="other")
    add(tables, first=7, blocks=2, backend="other", status="failed", cause="no space left")
    outcome = only(compared(tables))
    told = [(arm.name, arm.n, arm.failed, round(arm.median, 3)) for arm in (outcome.base, outcome.other)]
    assert told == [("local", 6, 1, 0.011), ("other", 6, 2, 0.022)]
    assert [warning[:31] for warning in outcome.warnings] == [
        "1 of 7 trials of local failed (", "2 of 8 trials of other failed (",
    ]  # fmt: skip


def test_the_figures_of_both_sides_have_the_digits_of_their_intervals_as_in_every_table(tables):
    for backend in ("local", "other"):
        for block, seconds in enumerate((0.5, 0.7, 1.131, 1.337, 1.9, 2.8), start=1):
            tables.add(LEVELS | {"backend": backend}, block, {"duration": (seconds, "s")})
    found = compared(tables)
    (row,) = found.table("t", "T").rows
    estimate, *_ = found.results.estimates("duration", {})
    assert [cell.lines[0] for cell in row[3:5]] == [human.median(estimate.summary, "s")] * 2 == ["1.2 s"] * 2


def test_a_level_that_says_yes_or_no_is_named_by_its_factor(tables):
    for antispam in ("yes", "no"):
        tables.add({"backend": "posix", "antispam": antispam}, 1, {"duration": (1.0, "s")})
    results = tables.results()
    assert [results.case_name(*key) for key in results.anchors] == ["posix · antispam", "posix · no antispam"]


def test_of_cases_that_all_failed_there_is_nothing_to_compare(tables):
    add(tables, status="failed", cause="no space left")
    add(tables, backend="other", status="failed", cause="no space left")
    found = compared(tables)
    assert (found.rows, found.nothing("X")) == ([], "X: every trial failed, so there is nothing to compare.")


def test_a_case_whose_other_trials_lack_the_metric_did_not_fail_to_give_it(tables):
    """Neither did a case of which the page knows that it never gives the metric."""
    add(tables)
    tables.add(LEVELS | {"backend": "counted"}, 1, {"files": (5.0, "1")})
    for backend, blocks in (("counted", 2), ("unlike", 6)):
        add(tables, backend=backend, first=2, blocks=blocks, status="failed", cause="no space left")
    assert [row.level for row in compared(tables).rows] == ["unlike"]
    found = compared(tables, gives=lambda metric, levels: (metric, levels["backend"]) != ("duration", "unlike"))
    assert (found.rows, found.nothing("X")) == ([], "X: no two cases differ only in their backend.")
    found = compared(tables, gives=lambda *_: False)
    assert (found.rows, found.nothing("X")) == ([], "X: no case with the factor backend gave Time of one file.")


def test_a_summary_names_verdicts_margins_tests_and_methods(tables):
    for backend, seconds in (("local", 1.0), ("slow", 2.0), ("like", 1.0), ("broken", 0.0)):
        for block in range(1, 7):
            took = seconds * tables.noisy(1, 0.003)
            values = {"duration": (took, "s"), "throughput": (1 / (took or 1), "B/s")}
            failed = {} if seconds else {"status": "failed", "cause": "no space left"}
            tables.add({**LEVELS, "backend": backend}, block, values, numbers={"size_bytes": 1}, **failed)
    indexes = [{"sessions": [session("2026-01", margin=0.1, margins={"file_size/throughput": 0.2})]}]
    told = compared(tables, indexes=indexes, metrics=["duration"]).summary()
    assert told.startswith(
        "3 comparisons: 1 worse, 1 equivalent, 1 without a verdict. The margin is 10 %, declared in the study before "
        "the measurement. Adjusted by Benjamini-Hochberg over 2 tests; paired t on logarithms."
    )
    assert compared(tables).drawn == ["slow", "like"], "what has an interval"
    both = compared(tables, indexes=indexes, metrics=["duration", "throughput"]).summary()
    assert "The margin is 10 % (Time of one file), 20 % (Throughput), declared" in both and "over 4 tests" in both
    none = compared(tables, indexes=indexes, metrics=["duration"], where={"backend": ["local", "broken"]}).summary()
    assert none.endswith("before the measurement. Nothing could be tested; each row gives the reason.")


# -- when there is no verdict ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"session": "1" * 32}, "not measured in the same session (2026-11-20 10:00:00 UTC and 11111111)"),
        ({"session": None}, "the session of a trial is unknown"),
        ({"instrument": "b" * 64}, "different versions of the measuring code"),
        ({"tool": "bash"}, "measured by different tools (python3, bash)"),
        ({"tool_version": "Python 3.12"}, "different versions of python3 (Python 3.11.2, Python 3.12)"),
        ({"tool_sha256": "c" * 64}, "different builds of python3 Python 3.11.2"),
        ({"imported": True}, "imported: the time and the host of the measurement are unknown"),
    ],
)
def test_trials_of_different_conditions_get_no_verdict_but_the_reason(bare_project, tables, fields, why):
    add(tables)
    add(tables, 2, backend="other", **fields)
    tables.write()
    outcome = only(compared(tables, indexes=[index_of(bare_project)]))
    assert (outcome.verdict, outcome.ratio, outcome.adjusted) == ("none", None, None)
    assert why in outcome.why
    sides = [(arm.name, arm.n, round(arm.median, 3)) for arm in (outcome.base, outcome.other)]
    assert sides == [("local", 6, 0.011), ("other", 6, 0.022)], "both figures are shown all the same"


def test_a_case_that_its_family_calls_unfit_gets_no_verdict_but_both_figures(tables):
    add(tables)
    add(tables, 2, backend="other")
    outcome = only(compared(tables, unfit=lambda _, target, case: "its client was busy" if "other" in case else ""))
    assert (outcome.verdict, outcome.why) == ("none", "other: its client was busy")
    sides = [(arm.name, arm.n, round(arm.median, 3)) for arm in (outcome.base, outcome.other)]
    assert (sides, outcome.ratio) == ([("local", 6, 0.011), ("other", 6, 0.022)], None)


def test_different_targets_are_different_hosts_and_their_differences_are_told(bare_project, tables):
    for target in ("here", "there"):
        add(tables, target=target)
    tables.write()
    index = index_of(bare_project)
    other = json.loads(json.dumps(index).replace("6.1.0", "5.10.0"))
    indexes = [index | {"target": "here"}, other | {"target": "there"}]
    outcome = only(compared(tables, indexes=indexes, factor="target"))
    assert outcome.why == "measured on different targets: Kernel 6.1.0 against 5.10.0"
    assert outcome.verdict == "none"


def test_tools_may_differ_where_the_tool_is_the_factor(tables):
    add(tables)
    add(tables, 2, backend="other", tool="bash")
    assert only(compared(tables, across_tools=True)).verdict == "worse"


def test_of_two_sessions_only_blocks_that_both_sides_have_in_the_same_one_count(tables):
    """The second session was on a slower day. Two of its trials on one side alone would shift the ratio."""
    add(tables, 1, blocks=6)
    add(tables, 1, blocks=4, backend="other")
    add(tables, 1.5, first=7, blocks=2, session="1" * 32)
    add(tables, 1.5, first=5, blocks=4, backend="other", session="1" * 32)
    outcome = only(compared(tables))
    assert (outcome.pairs, outcome.verdict) == (6, "equivalent")
    left_out = "4 trials left out: session, tool or verified cache state differ from the counterpart's"
    assert outcome.warnings[-1] == left_out


# -- margins ----------------------------------------------------------------------


def session(started, **thresholds):
    return {"started": started, "declared": {"thresholds": thresholds}}


def test_a_margin_is_the_one_declared_before_the_first_measurement():
    late, early = session("2026-02", margin=0.5), session("2026-01", margin=0.1, margins={"fio/read_iops": 0.2})
    found = Margins.declared([{"sessions": [late, early]}])
    assert found.thresholds.margin_of("fio", "read_iops") == 0.2
    assert found.thresholds.margin_of("fio", "write_iops") == 0.1
    assert (
        found.note == "declared in the study before the measurement; changed between sessions, and the first one counts"
    )


@pytest.mark.parametrize("sessions", [[], [session("2026-01", lease=30.0)], [{"started": "2026-01", "declared": {}}]])
def test_a_margin_that_nobody_declared_is_told(sessions):
    found = Margins.declared([{"sessions": sessions}])
    assert found.thresholds.margin == 0.05
    assert "not declared" in found.note and "post hoc" in found.note


# -- A/A ----------------------------------------------------------------------


def test_a_case_described_twice_tells_the_false_alarm_rate(tables):
    for backend in ("disk", "disk-again", "other"):
        for size in ("1MB", "2MB", "3MB"):
            add(tables, backend=backend, size=size)
    results = tables.results()
    backends = [{"name": "disk", "path": "/x"}, {"name": "disk-again", "path": "/x"}, {"name": "other", "path": "/y"}]
    (sentence,), withheld = calibrations(results, [], DURATION, {"backends": backends, "sizes": ["1MB"]})
    assert withheld == []
    assert sentence.startswith("A/A: disk and disk-again are the same case under two names")
    low, high, widest = (float(text) for text in re.findall(r"([\d.]+)×", sentence))
    assert widest == pytest.approx(max(high, 1 / low), abs=0.006), "swapping the names turns 0.9 into 1.11"
    assert "0 of 3 comparisons got a verdict of better or worse (95 %: 0–56 %)" in sentence
    assert calibrations(results, [], DURATION, {"backends": backends[1:]}) == ([], [])


@pytest.mark.parametrize(("again", "is_noise"), [(1.4, True), (1.1, False)])
def test_a_verdict_whose_ratio_the_same_case_twice_reaches_says_so(bare_project, again, is_noise):
    tables = Tables(bare_project, "study", "file_size")
    for block in range(1, 9):
        for backend, seconds in {"disk": 1.0, "disk-again": again, "other": 1.35}.items():
            tables.add(LEVELS | {"backend": backend}, block, {"duration": (tables.noisy(seconds, 0.005), "s")})
    results = tables.results()
    backends = [{"name": "disk", "path": "/x"}, {"name": "disk-again", "path": "/x"}, {"name": "other", "path": "/y"}]
    where = {"backend": ["disk", "other"]}
    rows = Comparisons(results, [], DURATION, factor="backend", where=where).rows
    (row,) = within_noise(rows, results, [], {"backends": backends})
    assert row.outcome.verdict == "worse"
    told = "no more than noise: the same case under two names (A/A) differs by up to 1.4"
    assert (told in row.outcome.why) is is_noise and (told in " ".join(verdict_cell(row.outcome).lines)) is is_noise
    assert within_noise(rows, results, [], {"backends": backends[1:]}) == rows, "nothing is described twice"


def test_noise_of_less_than_a_hundredth_is_not_told_as_a_ratio_of_up_to_one(tables):
    for block in range(1, 7):
        for backend, factor in {"disk": 1.0, "disk-again": 0.995 + block / 5000}.items():
            tables.add(LEVELS | {"backend": backend}, block, {"duration": (factor, "s")})
    results = tables.results()
    declared = {"backends": [{"name": "disk", "path": "/x"}, {"name": "disk-again", "path": "/x"}]}
    (said,), _ = calibrations(results, [], DURATION, declared)
    assert "The ratios are between 0.996× and 0.996×." in said
    assert said.endswith("so a ratio of up to 1.004× in either direction may be noise.")


def test_an_a_a_pair_without_a_comparison_that_counts_is_not_called_no_pair(tables):
    for backend in ("disk", "disk-again"):
        add(tables, backend=backend, blocks=2)
    results = tables.results()
    declared = {"backends": [{"name": "disk", "path": "/x"}, {"name": "disk-again", "path": "/x"}]}
    found, (said,) = calibrations(results, [], DURATION, declared)
    assert found == [] and said == (
        "A/A: disk and disk-again are the same case under two names, but no comparison between them counts "
        "(1 in all). The first reason: n too small: 2 against 2; 3 trials are needed."
    )


def test_the_second_name_of_an_a_a_pair_is_in_no_other_comparison(bare_project, capsys, monkeypatch):
    tables = Tables(bare_project, "study", "file_size")
    for backend in ("disk", "disk-again", "other"):
        for sync in ("none", "fsync"):
            for block in range(1, 7):
                levels = {"backend": backend, "op": "write", "size": "1MB", "sync": sync}
                tables.add(levels, block, {"duration": (tables.noisy(1.0), "s")}, numbers={"size_bytes": 1})
    tidy = tables.write()
    backends = [
        {"name": "disk", "path": "/x"},
        {"name": "disk-again", "same_as": "disk"},
        {"name": "other", "path": "/y"},
    ]
    monkeypatch.setattr(Page, "declared", {"backends": backends})
    page = Page("file_size", study="study", tidy=tidy, output="reports/study/file_size")
    page.compare("backends", DURATION, factor="backend", caption="Backends")
    page.compare("fsync", DURATION, factor="sync", base="none", caption="fsync", where={"op": "write"})
    page.calibration(DURATION)
    exports = bare_project / "reports/study/file_size"
    compared = [row[0] for name in ("backends", "fsync") for row in csv.reader((exports / f"tables/{name}.csv").open())]
    assert "other\nnone" in compared and "a synced write\ndisk" in compared
    heads = next(csv.reader((exports / "tables/fsync.csv").open()))
    assert "Ratio to an unsynced write" in heads and "an unsynced write, the base" in heads
    assert not any("again" in name for name in compared)
    assert "disk and disk-again are the same case" in (exports / "overview.json").read_text()
    page.answer({"Write": ("duration", {"sync": "none"}), "Disk": ("duration", {"backend": "disk"})}, series="backend")
    ended = {"started": "1", "declared": {"families": {"file_size": {"backends": backends}}}}
    page_of_published = PublishedPage(study="study", tidy=tidy.parent, output="reports/study")
    monkeypatch.setattr(PublishedPage, "indexes", lambda *_: [{"sessions": [ended]}])
    heads, _ = published._by_size(page_of_published, page.results, "write", "median")
    assert heads == ["disk, none", "disk, fsync", "other, none", "other, fsync"]
    writes, disk = json.loads((exports / "answer.json").read_text())
    assert {line["name"].split(" ")[0] for line in writes["lines"]} == {"disk", "other"} and len(disk["lines"]) == 2


def test_a_row_of_a_figure_that_differs_in_nothing_else_has_the_name_of_its_level(bare_project, capsys):
    tables = Tables(bare_project, "study", "file_size")
    for backend in ("disk", "other"):
        for block in range(1, 7):
            levels = {"backend": backend, "op": "write", "size": "1MB", "sync": "none"}
            tables.add(levels, block, {"duration": (tables.noisy(1.0), "s")}, numbers={"size_bytes": 1})
    tables.page().compare("backends", DURATION, factor="backend", caption="Backends")
    drawn = (bare_project / "reports/study/file_size/figures/backends.svg").read_text()
    assert drawn.count(">Time of one file<") == 1 and ">other<" in drawn


@pytest.mark.parametrize("more", [{"target": "laptop"}, {"clients": "2"}])
def test_a_figure_of_several_targets_or_numbers_of_clients_shows_every_ratio(bare_project, capsys, more):
    tables = Tables(bare_project, "study", "file_size")
    for other in ({}, more):
        for backend in ("disk", "other"):
            levels = {"backend": backend, "op": "write", "size": "1MB", "sync": "none", "clients": other.get("clients")}
            where = {"target": other["target"]} if "target" in other else {}
            for block in range(1, 7):
                tables.add(levels, block, {"duration": (tables.noisy(1.0), "s")}, numbers={"size_bytes": 1}, **where)
    tables.page().compare("backends", DURATION, factor="backend", caption="Backends")
    drawn = (bare_project / "reports/study/file_size/figures/backends.svg").read_text()
    bars = re.findall(rf'<path[^>]* stroke="{Style(("disk", "other")).colours[1]}"', drawn)
    assert len(bars) >= 2, "one per target or number of clients"


# -- as a reader sees it ----------------------------------------------------------------------


@pytest.fixture
def shown(bare_project, capsys):
    tidy = write_file_size(bare_project, study="study")
    page = Page("file_size", study="study", tidy=tidy, output="reports/study/file_size")
    page.compare("backends", DURATION, factor="backend", caption="Backends", where={"op": "write"})
    page.calibration(DURATION)
    return bare_project / "reports/study/file_size"


def test_a_page_explains_its_verdicts_once_with_the_first_of_them(bare_project, displayed):
    page = Page("file_size", study="s", tidy=write_file_size(bare_project, study="s"), output="reports/s/file_size")
    page.compare("none", DURATION, factor="cache", caption="Nothing to compare", where={"op": "write"})
    assert "two one-sided tests" not in "".join(displayed)
    for name in ("first", "second"):
        page.compare(name, DURATION, factor="backend", caption="Backends", where={"op": "write"})
    assert "".join(displayed).count("that 80 % of such studies would find") == 1


def test_a_comparison_is_a_table_in_all_formats_and_a_figure(shown):
    rows = list(csv.reader((shown / "tables/backends.csv").open()))
    assert rows[0] == [
        "Backend", "Ratio to local", "Verdict", "Measured", "local, the base", "Adjusted p", "Smallest detectable",
    ]  # fmt: skip
    by_case = {row[0]: row for row in rows}
    ratio = by_case["sshfs\n100KB · fsync"]
    assert ratio[1].split("\n")[1].startswith("95 %: ") and ratio[2].startswith("worse\nat least ")
    assert (
        ratio[3].endswith("ms\nn = 6")
        and ratio[5].endswith("“they differ by at most 5 %”\nof 7 tests")
        and ratio[6].endswith(" %")
    )
    failed = by_case["sshfs\n100MB · fsync"]
    assert failed[1:4] == ["–", "no verdict\nsshfs: all 6 trials failed", "–\nn = 0, 6 failed"]
    assert "failed (95 %: 9.7–70 %)" in by_case["sshfs\n100MB · none"][2]
    assert {path.name for path in (shown / "tables").glob("backends.*")} == {
        f"backends.{s}" for s in ("csv", "md", "rst", "tex")
    }
    svg = (shown / "figures/backends.svg").read_text()
    assert ">Ratio to local<" in svg and ">(lower is better)<" in svg and "100KB · fsync" in svg


def test_the_page_says_margin_adjustment_and_method_and_that_there_is_no_a_a(bare_project, capsys, displayed):
    tidy = write_file_size(bare_project, study="study")
    page = Page("file_size", study="study", tidy=tidy, output="reports/study/file_size")
    page.compare("backends", DURATION, factor="backend", caption="Backends", where={"op": "read"})
    page.compare("none", DURATION, factor="backend", base="tape", caption="Backends")
    page.calibration(DURATION)
    text = "".join(displayed).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "9 comparisons: 4 worse, 5 without a verdict. The margin is 5 %, declared in the study before the measurement."
        in text
    )
    assert "Adjusted by Benjamini-Hochberg over 4 tests; paired t on logarithms." in text
    assert "band: the margin; logarithmic axis.</figcaption>" in text
    assert '<td class="text verdict worse">worse<span class="evidence">' in text
    assert "no case with backend tape was measured to compare with" in text
    assert "No case of this family is measured under two names (A/A)" in text
    assert HOSTILE not in text and "&lt;script&gt;document" in text


def test_the_same_data_give_the_same_bytes(shown, bare_project):
    found = sorted(shown.rglob("backends.*"))
    assert len(found) == 7
    first = {path: path.read_bytes() for path in found}
    page = Page("file_size", study="study", tidy="data/tidy/study/file_size", output="reports/study/file_size")
    page.compare("backends", DURATION, factor="backend", caption="Backends", where={"op": "write"})
    assert {path: path.read_bytes() for path in first} == first


def test_a_disturbed_target_is_left_out_and_all_others_are_compared(tables):
    seen = {"host": "here", "what": "others_cpu", "share": 0.55, "others_cpu": 1.1, "cpus": 2, "busiest": []}
    for number in range(8):
        for backend, factor in (("local", 1), ("slow", 2)):
            met = number == 5 and backend == "slow"
            add(tables, factor, target=f"m{number}", backend=backend, disturbed=met, disturbance=json.dumps(seen))
    measured = tables.results()
    (row,) = Comparisons(OverTargets(measured), [], DURATION, factor="backend").rows
    assert (row.outcome.verdict, row.outcome.pairs) == ("worse", 7)
    (told,) = (warning for warning in row.outcome.warnings if "left out" in warning)
    assert told.startswith("2 targets left out: ") and told.endswith(", or it was disturbed")


# -- what was verified ------------------------------------------------------------------------


def add_reads(tables, backend, given, cache="cold", blocks=6, **fields):
    for block in range(1, blocks + 1):
        values = {"duration": (tables.noisy(1.0 if backend == "local" else 3.0, 0.01), "s")}
        fetched = given[block - 1] if isinstance(given, list) else given
        values |= {"device_read": (fetched, "B")} if fetched is not None else {}
        levels = {"backend": backend, "op": "read", "size": "100MB", "cache": cache}
        tables.add(levels, block, values, numbers={"size_bytes": 100_000_000}, **fields)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (0.0, "different cache states: per operation, 0 B came from storage, and 100 MB for the base"),
        (4e7, "different cache states: per operation, 40 MB came from storage, and 100 MB for the base"),
        (None, "different cache states: per operation, an unknown amount came from storage, and 100 MB for the base"),
    ],
)
def test_cases_of_unlike_proof_get_no_verdict(tables, given, why):
    add_reads(tables, "local", 1e8)
    add_reads(tables, "sshfs", given)
    outcome = only(compared(tables))
    assert (outcome.verdict, outcome.why, outcome.ratio) == ("none", why, None)


def test_a_cold_read_that_storage_gave_nothing_for_is_marked(tables):
    """The cache of a server answered, so neither the answer nor a table calls its time simply that of a cold read."""
    add_reads(tables, "local", 1e8)
    add_reads(tables, "sshfs", 0.0)
    add_reads(tables, "s3", None)
    add_reads(tables, "local", 0.0, cache="warm")
    results = Results(tables.write(), study="embedded", family="file_size")
    found = {(e.levels["backend"], e.levels["cache"]): e for e in results.estimates("duration", {})}
    marks = {key: "not from storage" in estimate_cell(results, e, "median").marks for key, e in found.items()}
    assert [key for key, is_marked in marks.items() if is_marked] == [("sshfs", "cold")]
    cold = answers.answer(results, "Read", "duration", {"cache": "cold"}, "backend")
    assert [line["name"] for line in cold["lines"] if "; not from storage" in line["evidence"]] == ["sshfs"]


def test_a_line_names_the_levels_other_than_the_first_of_each_list(tables):
    """Not its own, after which it is named, and not what all lines have."""
    for backend in ("local", "sshfs"):
        for cache in ("cold", "warm"):
            add_reads(tables, backend, 1e8 if cache == "cold" else 0.0, cache=cache)
    results = Results(tables.write(), study="embedded", family="file_size")
    where = {"backend": ["local", "sshfs"], "op": "read", "size": "100MB", "cache": ["cold", "warm"]}
    lines = answers.answer(results, "Read", "duration", where, "backend")["lines"]
    assert sorted(line["name"] for line in lines) == ["local", "local", "sshfs", "sshfs"]
    assert sum("; cache: warm" in line["evidence"] for line in lines) == 2
    assert not any(word in line["evidence"] for line in lines for word in ("backend:", "op:", "size:", "cache: cold"))


def test_a_case_that_drifts_is_marked_beside_the_verdict(tables):
    for backend, rise in (("local", 0), ("slow", 0.1)):
        for block in range(1, 13):
            value = (1 + rise * block) * tables.noisy(1, 0.003)
            tables.add(LEVELS | {"backend": backend}, block, {"duration": (value, "s")}, numbers={"size_bytes": 10**6})
    (row,) = compared(tables).table("t", "T").rows
    assert (row[2].lines[0], row[3].marks, row[4].marks) == ("worse", ("not steady",), ())


def test_like_proofs_are_judged_and_trials_of_another_are_left_out(tables):
    add_reads(tables, "local", 1e8)
    add_reads(tables, "sshfs", [9e7, 1.1e8, 1e8, 0.0, 1e8, 1e8])
    add_reads(tables, "local", 0.0, cache="warm")
    add_reads(tables, "sshfs", 300.0, cache="warm")
    cold, warm = (row.outcome for row in compared(tables).rows)
    assert (cold.verdict, warm.verdict) == ("worse", "worse") and (cold.pairs, warm.pairs) == (5, 6)
    assert "1 trial left out" in cold.warnings[-1] and not warm.warnings


@pytest.mark.parametrize(("second", "pairs"), [(1e8, 12), (4e7, 6)])
def test_what_one_session_proves_says_nothing_of_another(tables, second, pairs):
    """Medians over both sessions are equal, but in the second one, storage gave less than half to one of the two."""
    for session, given in (("one", 1e8), ("two", second)):
        add_reads(tables, "local", 1e8, session=session)
        add_reads(tables, "sshfs", given, session=session)
    outcome = only(compared(tables))
    assert (outcome.verdict, outcome.pairs) == ("worse", pairs)
    assert any("verified cache state" in warning for warning in outcome.warnings) == (pairs == 6)


def test_where_the_cache_is_what_is_compared_its_proofs_differ(tables):
    add_reads(tables, "local", 1e8)
    add_reads(tables, "local", 0.0, cache="warm")
    (row,) = compared(tables, factor="cache", base="cold").rows
    assert row.outcome.ratio is not None
