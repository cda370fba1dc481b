"""What tables, cells and lists of a report say, from tidy tables with known values."""

import csv
import io
import itertools
import json
import os
import re
import shutil

import docutils.core
import polars as pl
import pytest
from conftest import as_project
from notebook_outputs import code_of
from tidy_fixture import HOSTILE, Tables, write_file_size

from benchstudy.families.command.page import layout
from benchstudy.families.shared.clientpage import show_clients
from benchstudy.model import paths
from benchstudy.model.causes import Cause
from benchstudy.model.errors import BenchstudyError
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.page import Page
from benchstudy.report.published import published
from benchstudy.report.results import estimatefiles
from benchstudy.report.results.results import Reason, Results
from benchstudy.report.scrutiny import disturbed, evidence, programs
from benchstudy.report.tables.tables import Cell, Table, anchor, link
from benchstudy.report.trials import triallist
from benchstudy.statistics.stats import summarise

PROJECT = paths.project_root()
LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path, "study", "file_size")


def add(tables, *durations, levels=LEVELS, **fields):
    for block, duration in enumerate(durations, start=1):
        tables.add(levels, block, {"duration": (duration, "s")}, numbers={"size_bytes": 1_000_000}, **fields)


def only_cell(results, form="page"):
    (estimate,) = results.estimates("duration")
    return cells.estimate_cell(results, estimate, form)


# -- figures as people read them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00057, "s", "0.570 ms"),
        (0.03447, "s", "34.5 ms"),
        (10.65, "s", "10.7 s"),
        (0.0000413, "s", "41.3 µs"),
        (33415.2, "1/s", "33,400/s"),
        (5.49e8, "B/s", "549 MB/s"),
        (100_000, "B", "100 KB"),
        (0, "B", "0 B"),
        (0.034, "%", "3.4 %"),
        (None, "s", "–"),
        (3.0, "parsecs", "3.00 parsecs"),
    ],
)
def test_quantities(value, unit, text):
    assert human.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("level", "text"),
    [
        ("1000-per-s", "1,000/s"),
        ("0.5-per-min", "0.5/min"),
        ("backend=posix,rate=500-per-s", "backend=posix,rate=500/s"),
        ("rate=4000-per-s,n=1", "rate=4000/s,n=1"),
        ("x500-per-s", "x500-per-s"),
        ("500-per-sheep", "500-per-sheep"),
    ],
)
def test_a_rate_is_shown_as_people_write_it(level, text):
    assert human.level(level) == text


def test_the_name_of_a_row_breaks_between_its_levels_only():
    name = "sftpgo · 1-core-256MiB · list · k6"
    html = Table("t", "c", ("Case", "Value"), ((Cell.text(name), Cell(("1",))),)).html()
    assert '<th scope="row" class="long">' in html
    assert "1-\N{WORD JOINER}core-\N{WORD JOINER}256MiB · list" in html


def test_the_page_format_keeps_one_unit_a_cell():
    summary = summarise([0.0003, 0.0004, 0.0006, 0.0009, 0.0012, 0.002])
    assert human.page_cell(summary, "s") == "0.900 ms (±0.632 ms, p50: 0.75 ms)"
    assert human.evidence(summary, "s") == "n = 6, 95 %: 0.30–2.0 ms"


# -- cells ----------------------------------------------------------------------


def test_a_cell_leads_to_the_trials_of_its_case(tables):
    add(tables, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006)
    cell = only_cell(tables.results())
    assert cell.lines == ("3.5 ms", "n = 6, 95 %: 1.0–6.0 ms", "mean 3.50 ms (±1.87 ms)")
    assert cell.href == "#case-backend=local,op=write,size=1MB,sync=fsync"


def test_a_case_that_always_failed_says_why_and_how_often(tables):
    add(tables, 0, 0, 0, status="failed", cause="no space left")
    cell = only_cell(tables.results())
    assert cell.lines == ("failed: no space left (3 of 3)",)
    assert cell.kind == "failed"


@pytest.mark.parametrize("where", ["", "service sshfs: setup-failed: ", "backend data: "])
def test_a_short_cause_is_what_failed_and_not_where(where):
    words = f"{where}/srv/dta is not a folder on the host: mount or create it, or name another one"
    assert cells.short_cause(Reason(words, Cause.TOLD)) == "failed: /srv/dta is not a folder on the host"


def test_failures_stand_beside_the_figure_of_the_others(tables):
    add(tables, 0.001, 0.002)
    add(tables, 0, status="timeout", cause="ended after 600 s")
    assert only_cell(tables.results()).lines == (
        "1.50 ms",
        "n = 2: too small for an interval",
        "mean 1.50 ms (±0.71 ms)",
        "failed: ended after 600 s (1 of 3)",
    )


def test_each_cause_is_told_with_the_trials_that_it_ended(tables):
    add(tables, 0.001)
    add(
        tables, 0, 0, status="failed", cause="disk full: wrote 3 of 9 bytes, and nothing else that a cell has place for"
    )
    add(tables, 0, status="timeout", cause="ended after 600 s")
    results = tables.results()
    assert (
        only_cell(results).lines[-1]
        == "failed: disk full: wrote 3 of 9 bytes (2 of 4); failed: ended after 600 s (1 of 4)"
    )
    (estimate,) = results.estimates("duration")
    assert estimate.failure.endswith("has place for (2 of 4, and 1 for other causes)")


def test_discarded_and_aborted_trials_do_not_count(tables):
    add(tables, 0.001, 0.001, 0.001)
    add(tables, 9.0, discarded_why="backup was running")
    add(tables, 9.0, status="aborted", cause="the host was restarted")
    results = tables.results()
    (estimate,) = results.estimates("duration")
    assert (estimate.summary.n, estimate.failed, estimate.summary.mean) == (3, 0, 0.001)
    assert results.counts() == {
        "trials": 5, "ok": 3, "failed": 0, "timeout": 0, "aborted": 1, "discarded": 1, "repeated": 0,
        "disturbed": 0, "imported": 0,
    }  # fmt: skip


def test_cases_of_two_targets_have_anchors_of_their_own(tables):
    for target in ("one", "two"):
        tables.add(LEVELS, 1, {"duration": (0.001, "s")}, target=target, numbers={"size_bytes": 1})
    anchors = tables.results().anchors
    assert len(set(anchors.values())) == 2


def test_names_that_look_alike_as_anchors_stay_apart(tables):
    for backend in ("a b", "a?b"):
        tables.add({**LEVELS, "backend": backend}, 1, {"duration": (1.0, "s")}, numbers={"size_bytes": 1})
    assert len(set(tables.results().anchors.values())) == 2


def test_sizes_are_in_the_order_of_their_bytes(tmp_path):
    results = Results(write_file_size(tmp_path, blocks=1, hostile=False), study="embedded", family="file_size")
    assert results.levels("size") == ["100KB", "1MB", "10MB", "100MB"]


def test_an_unknown_factor_is_named(tables):
    add(tables, 0.001)
    with pytest.raises(BenchstudyError, match=r"no factor 'colour'.*backend"):
        tables.results().levels("size", {"colour": "red"})


def test_a_misspelt_metric_is_named_instead_of_left_out(tables):
    add(tables, 0.001)
    for call in (tables.results().points, tables.results().estimates):
        with pytest.raises(BenchstudyError, match="no metric 'durations': did you mean \"duration\""):
            call("durations")


def test_missing_tables_are_named(tmp_path):
    with pytest.raises(BenchstudyError, match=r"observations\.parquet: no such table"):
        Results(tmp_path, study="study", family="file_size")


# -- tables in their formats ----------------------------------------------------------------------


TABLE = Table(
    "t",
    "Caption <b>",
    ("Size", "local *bold* | x_"),
    (
        (Cell.text("100KB"), Cell(("0.57 ms (±0.26 ms, p50: 0.63 ms)", "n = 6, 95 %: 0.31–0.90 ms"), "#case-1")),
        (Cell.text(HOSTILE), Cell.text("=cmd|' /C calc'!A0")),
        (Cell.text("1MB"), Cell.text("-3.5")),
    ),
)


@pytest.mark.fault(24)
def test_html_has_caption_scopes_links_and_no_markup_of_its_data():
    text = TABLE.html()
    assert "<caption>Caption &lt;b&gt;</caption>" in text
    assert '<th scope="col">Size</th>' in text and '<th scope="row">100KB</th>' in text
    assert '<a href="#case-1">0.57' in text
    assert "<script" not in text


def test_csv_keeps_lines_and_disarms_formulas():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[1] == ["100KB", "0.57 ms (±0.26 ms, p50: 0.63 ms)\nn = 6, 95 %: 0.31–0.90 ms"]
    assert rows[2][1].startswith("'=cmd")
    assert rows[3][1] == "-3.5"


@pytest.mark.parametrize(
    ("text", "is_formula"),
    [
        ("=1+cmd|' /C calc'!A0", True), (" \t=1", True), ("@SUM(A1)", True), ("-a", True), ("+", True),
        ("-1+cmd|' /C calc'!A0", True), ('+1+HYPERLINK("http://example.org")', True), ("-2\n+cmd|' /C calc'!A0", True),
        ("-3.5 ms (±0.2 ms, p50: -3.4 ms)", False), ("+1.9 %\nn = 6", False), ("−1 s", False), ("x=1", False),
    ],
)  # fmt: skip
def test_no_export_computes_a_text_of_a_host(tmp_path, text, is_formula):
    shown = f"'{text}" if is_formula else text
    table = Table("t", "c", (text, "x"), ((Cell.text(text), Cell.text("x")),))
    assert [row[0] for row in csv.reader(io.StringIO(table.csv()))] == [shown, shown]
    tables = Tables(tmp_path, "embedded", "file_size")
    tables.add({"backend": "local"}, 1, {}, status="failed", cause=text)
    estimatefiles.write_trials(tables.results(), tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="") as file:
        assert [row["cause"] for row in csv.DictReader(file)] == [shown]


def test_rst_is_a_grid_table_that_docutils_reads_without_a_word():
    """A system message of docutils would be an error here, not a part of the page."""
    settings = {"halt_level": 2, "report_level": 2}
    parsed = docutils.core.publish_doctree(TABLE.rst(), settings_overrides=settings)
    entries = [node.astext() for node in parsed.findall() if node.tagname == "entry"]
    assert entries[:4] == ["Size", "local *bold* | x_", "100KB", entries[3]]
    assert entries[3].replace("\n", " ") == "0.57 ms (±0.26 ms, p50: 0.63 ms) n = 6, 95 %: 0.31–0.90 ms"
    assert HOSTILE in entries[4].replace("\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "1. Results", "a) x", "iv. x", "#. x", "- x", "+ x", ".. raw:: html", ".. note:: x", ":field: x", "--opt=x  y",
        "/V x", ">>> x", "=====", "+---+", "a::", "undefined reference to foo__ and foo__'", "a\N{LINE SEPARATOR}b",
        "-5", "Foo. Bar",
    ],
)  # fmt: skip
def test_a_text_that_looks_like_markup_of_restructuredtext_is_only_a_text(text):
    table = Table("t", "c", ("A", "B"), ((Cell.text(text), Cell.text("x")), (Cell.text("y"), Cell((text,)))))
    parsed = docutils.core.publish_doctree(table.rst(), settings_overrides={"halt_level": 2, "report_level": 2})
    entries = [node for node in parsed.findall() if node.tagname == "entry"]
    assert {child.tagname for entry in entries for child in entry.children} == {"paragraph"}
    assert [" ".join(entries[at].astext().split()) for at in (2, 5)] == [" ".join(text.split())] * 2


@pytest.mark.parametrize("text", ["漢字 かな", "e\u0301clair", "\U0001f44d\U0001f3fd ok", "−1,5 µs – 2"])
def test_signs_of_any_width_stay_within_their_cell_of_a_grid_table(text):
    table = Table("t", "c", ("A", "B"), ((Cell.text(text), Cell.text("x")), (Cell.text("y"), Cell.text("z"))))
    parsed = docutils.core.publish_doctree(table.rst(), settings_overrides={"halt_level": 2, "report_level": 2})
    assert [node.astext() for node in parsed.findall() if node.tagname == "entry"] == ["A", "B", text, "x", "y", "z"]


def test_markdown_escapes_markup():
    assert "<script" not in TABLE.markdown()
    assert TABLE.markdown().count("\n") == 5


def test_a_row_too_short_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells for 2 columns"):
        Table("t", "c", ("a", "b"), ((Cell.text("x"),),))


def test_links_cannot_change_their_scheme():
    assert link("javascript:alert(1)") == "./javascript%3Aalert%281%29"
    assert link("../../data/raw/a,b=c/1?x#y") == "../../data/raw/a,b=c/1%3Fx%23y"
    assert anchor("case", 'a"b <c>') == "case-a_b__c_"


# -- a page ----------------------------------------------------------------------


def test_a_notebook_that_names_nothing_shows_the_projects_own_study(bare_project):
    study = bare_project / "config" / "config.yaml"
    study.parent.mkdir(exist_ok=True)
    targets = {"hosts": {"h": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "h"}}}}
    study.write_text(json.dumps({"study": "mine", **targets, "families": {"fio": {}}}))
    tidy = write_file_size(bare_project, study="mine", blocks=3, hostile=False)
    page = Page("file_size", study="", tidy="", output="")
    assert (page.study, page.output) == ("mine", bare_project / "scratch" / "mine" / "file_size")
    assert page.measured.tidy == tidy and page.measured.targets


@pytest.mark.long
@pytest.mark.parametrize(("op", "missing"), [("write", "reads"), ("read", "writes")])
def test_the_page_of_files_needs_neither_reads_nor_writes(bare_project, displayed, op, missing):
    shutil.copytree(PROJECT / "data" / "published", bare_project / "data" / "published")
    parameters, *cells_of_page = code_of(PROJECT / "notebooks" / "file_size.ipynb")
    assert "parameters" in parameters.metadata["tags"]
    names = {"study": "study", "tidy": write_file_size(bare_project, study="study", blocks=3, hostile=False, ops=[op])}
    names["output"] = "reports/study/file_size"
    for cell in cells_of_page:
        exec(cell.source, names)
    page = "".join(displayed)
    assert f"The study measures no {missing}." in page
    assert f"Time of one file: {op.capitalize()}, " in page
    state = {"write": "without fsync", "read": "with a cold cache"}[op]
    answers = {f"{op.capitalize()} {size} {state}" for size in ("100 KB", "100 MB")}
    assert answers <= set(re.findall(r">([^<]+)<", page)), "in the words of the family, at the ends of the sizes"
    trials = page[page.index('<table class="trials">') :]
    columns = re.findall(r"<th[^>]*>(Time of one file|Throughput|Operations)</th>", trials)
    assert set(columns) == {"Time of one file", "Throughput", "Operations"}, "a trial is the mean of so many operations"


def test_a_figure_names_the_cases_that_it_cannot_draw_because_every_trial_failed(bare_project, tables, displayed):
    full = {"status": "failed", "cause": "no space left on the host"}
    add(tables, 0.001, 0.002, 0.003)
    add(tables, 0.001, levels=LEVELS | {"backend": "sometimes"})
    tables.add(LEVELS | {"backend": "sometimes"}, 2, {}, numbers={"size_bytes": 1_000_000}, **full)
    for block in (1, 2):
        tables.add(LEVELS | {"backend": "never"}, block, {}, numbers={"size_bytes": 1_000_000}, **full)
    page = tables.page()
    drawn = {"series": "backend", "caption": "Times."}
    page.strip("s", ["duration"], where={}, value_title="Time", **drawn)
    page.trend("t", "duration", x="size_bytes", x_title="Size", views={"All": {}}, **drawn)
    why = "every trial failed: never · write · 1MB · fsync: failed: no space left on the host (2 of 2)."
    figures = [text for text in displayed if "<figcaption>" in text]
    assert len(figures) == 2 and all(f"Not drawn, because {why}</figcaption>" in text for text in figures)
    assert ["both axes logarithmic." in text for text in figures] == [False, True]
    page.strip("s", ["duration"], where={}, value_title="Time", log=True, **drawn)
    assert "; logarithmic axis. Not drawn" in displayed[-1]
    displayed.clear()
    page.strip("n", ["duration"], where={"backend": "never"}, value_title="Time", **drawn)
    page.metrics_table("m", ["duration"], rows=["backend"], caption="All", where={"backend": "never"})
    page.metrics_table("m", ["throughput"], rows=["backend"], caption="None", where={"backend": "sometimes"})
    before = "".join(displayed[:-1])
    assert f"Times. Not drawn, because {why}" in before and "gave a figure" not in before
    assert "failed: no space left on the host" in displayed[-2] and "None: no trial gave a figure." in displayed[-1]


def test_clients_of_a_storage_are_drawn_beside_ideal_scaling_from_the_fewest(bare_project, tables, displayed):
    for clients, bytes_per_s in ((2, 3000.0), (4, 5000.0)):
        for block in (1, 2, 3):
            numbers = {"clients_n": clients, "size_bytes": 1_000_000}
            tables.add(LEVELS | {"clients": str(clients)}, block, {"throughput": (bytes_per_s, "B/s")}, numbers=numbers)
    show_clients(tables.page(), ["throughput"], series="backend", each=["throughput"])
    specification = re.search(r"<script[^>]*>(.*?)</script>", "".join(displayed))
    drawn = [rows for rows in json.loads(specification[1])["datasets"].values() if rows and "low" in rows[0]]
    assert [(row["drawn_x"], row["y"]) for row in drawn[0]] == [(2, 3000), (4, 6000)], "twice as many, twice as much"
    assert "with ideal scaling (dashed)" in "".join(displayed)


def test_a_level_of_zero_has_a_place_on_the_axis_of_levels(bare_project, tables, displayed):
    for size in (0, 1_000):
        for block in (1, 2, 3):
            levels = LEVELS | {"size": str(size)}
            tables.add(levels, block, {"duration": (0.001, "s")}, numbers={"size_bytes": size})
    names = {"series": "backend", "x": "size_bytes", "x_title": "Size", "caption": "Times."}
    tables.page().trend("t", "duration", views={"All": {}}, **names)
    assert (bare_project / "reports/study/file_size/figures/t.svg").read_text().count(
        '<path transform="translate('
    ) >= 6
    assert "; vertical axis logarithmic." in displayed[-1]


def test_any_frame_is_a_table_also_without_cases_and_with_nulls(bare_project, tables):
    add(tables, 0.001)
    page, columns = tables.page(), {"name": ("Name", ""), "time": ("Time", "s")}
    page.frame_table("t", pl.DataFrame({"name": ["a", None], "time": [0.001, None]}), columns, "c")
    rows = list(csv.reader((bare_project / "reports/study/file_size/tables/t.csv").open()))
    assert rows == [["Name", "Time"], ["a", "1.00 ms"], ["–", "–"]]


def test_a_study_of_two_targets_has_a_column_for_each(bare_project, tables):
    for target in ("one", "two"):
        for block in range(1, 7):
            tables.add(LEVELS, block, {"duration": (0.001 * block, "s")}, target=target, numbers={"size_bytes": 1})
    tables.page().table("t", "duration", rows="size", columns=["backend"], where={"op": "write"}, caption="c")
    rows = list(csv.reader((bare_project / "reports/study/file_size/tables/t.csv").open()))
    assert rows[0] == ["Size", "one · local", "two · local"]


def test_an_order_is_named_only_when_intervals_part_and_never_between_targets(bare_project, tables):
    for target in ("one", "two"):
        for backend, factor in (("fast", 1), ("as-fast", 1.01), ("slow", 100)):
            levels = {**LEVELS, "backend": backend}
            for block in range(1, 7):
                seconds = 0.001 * factor * (1 + block / 100)
                tables.add(levels, block, {"duration": (seconds, "s")}, target=target, numbers={"size_bytes": 1})
    tables.page().answer({"Write": ("duration", {"op": "write"})}, series="backend")
    (answer,) = json.loads((bare_project / "reports/study/file_size/answer.json").read_text())
    assert [line["name"] for line in answer["lines"]][-2:] == ["slow on one", "slow on two"]
    assert answer["note"] == (
        "No order is established of fast on one and as-fast on one, or of fast on two and as-fast on two: their "
        "intervals overlap, or one is missing."
    )


# -- evidence ----------------------------------------------------------------------


def test_weaknesses_are_found_in_the_data(tmp_path):
    folder = write_file_size(tmp_path)
    results = Results(folder, study="embedded", family="file_size")
    index = json.loads((tmp_path / "data/raw/embedded/this-machine/file_size/session.json").read_text())
    text = evidence.weakness_list(evidence.weak_points(results, [index]))
    assert "3 of 41 cases have fewer than 6 successful trials" in text
    assert "<li>sshfs · write · 100MB · fsync: 6 of 6 trials failed: sshfs: write failed" in text
    assert "discarded by hand" in text and "1 trial aborted" in text
    assert "busy before 1 of" in text
    assert "<script" not in text


def test_causes_that_each_trial_has_one_of_its_own_are_counted_and_not_all_listed(tables):
    for port in range(60):
        add(tables, 0, status="failed", cause=f"127.0.0.1:{20_000 + port}: connection refused")
    found = evidence.weak_points(tables.results(), [])
    assert sum("connection refused" in text for text in found) == 40
    assert "20 more trials failed for other causes, which the list of trials gives." in found


def test_a_cause_that_ends_with_a_full_stop_ends_its_sentence_with_one(tables):
    add(tables, 0, status="failed", cause="not found: its end: Time total: 0.1 seconds.")
    (found,) = [text for text in evidence.weak_points(tables.results(), []) if "not found" in text]
    assert found.endswith("1 trial failed: not found: its end: Time total: 0.1 seconds.")


def test_commands_that_all_failed_are_the_answer_of_their_page(bare_project):
    tables = Tables(bare_project, "embedded", "command")
    for command in ("typed", "mistyped"):
        tables.add({"command": command}, 1, {}, status="failed", cause=f"{command}: not found")
    page = tables.page()
    layout.answers(page, layout.Layout(page))
    (answer,) = json.loads((bare_project / "reports/embedded/command/answer.json").read_text())
    assert (answer["what"], [line["name"] for line in answer["lines"]]) == ("Wall time", ["typed", "mistyped"])
    assert answer["lines"][0]["evidence"] == "failed: typed: not found (1 of 1)"


@pytest.mark.parametrize("levels", [("1", "8"), ("few", "unknown")])
def test_a_commands_own_factor_clients_is_a_factor_like_any_other(bare_project, displayed, levels):
    tables = Tables(bare_project, "embedded", "command")
    for command, clients in itertools.product(("a", "b"), levels):
        numbers = {"clients_number": float(clients)} if clients.isdigit() else {}
        tables.add({"command": command, "clients": clients}, 1, {"wall_time": (0.5, "s")}, numbers=numbers)
    page = tables.page()
    layout.answers(page, layout.Layout(page))
    answers = json.loads((bare_project / "reports/embedded/command/answer.json").read_text())
    assert {line["name"] for answer in answers for line in answer["lines"]} == {"a", "b"}
    page.metrics_table("t", ["wall_time"], rows=["command", "clients"], caption="A caption")
    assert "".join(displayed).count("Clients</th>") == 1


def test_a_legend_names_only_what_the_figure_draws(bare_project, displayed):
    """Of many commands, most lack a metric that one of them prints."""
    tables = Tables(bare_project, "embedded", "command")
    for command, metric in (("a", "wall_time"), ("b", "wall_time"), ("c", "tps")):
        tables.add({"command": command}, 1, {metric: (5.0, "s")})
    page = tables.page()
    layout.figures(page, layout.Layout(page))
    (legend,) = re.findall(r'<ul class="legend".*?</ul>', "".join(displayed), re.DOTALL)
    assert re.findall(r'data-series="([^"]*)"', legend) == ["a", "b"]
    assert "Points: trials; upright strokes: medians; bands: their 95 % intervals; n = 1." in "".join(displayed)


@pytest.mark.parametrize(("wall_s", "is_near"), [(0.0099, True), (0.0101, False)])
def test_a_command_that_is_hardly_longer_than_nothing_has_the_limit_beside_its_time(bare_project, wall_s, is_near):
    tables = Tables(bare_project, "embedded", "command")
    for block in range(1, 7):
        tables.add({"command": "short"}, block, {"wall_time": (wall_s, "s"), "start_up": (0.001, "s")})
    page = tables.page()
    layout.answers(page, layout.Layout(page))
    (answer,) = json.loads((bare_project / "reports/embedded/command/answer.json").read_text())
    assert answer["lines"][0]["evidence"].endswith("; start-up limit: 1.00 ms") is is_near
    found = page.results.estimate("wall_time", "this-machine", page.results.cases["case"][0])
    assert cells.estimate_cell(page.results, found, "median").marks == (("start-up limit: 1.00 ms",) if is_near else ())


@pytest.mark.parametrize(
    ("trials", "said"),
    [(2, "agree to the last digit, 2 of 2 trials of the case"), (6, "need no test unless the clock")],
)
def test_a_few_trials_that_agree_are_not_called_exact(bare_project, displayed, trials, said):
    tables = Tables(bare_project, "embedded", "command")
    for command, seconds in {"a": 0.5, "b": 0.75}.items():
        for block in range(1, trials + 1):
            tables.add({"command": command}, block, {"wall_time": (seconds, "s")})
    page = tables.page()
    layout.comparisons(page, layout.Layout(page))
    text = "".join(displayed)
    assert said in text and ("need no test" in text) == (trials == 6)
    assert ("n too small: 2 against 2" in text) == (trials == 2), "the comparison says why it gives no interval"


def test_two_builds_of_a_program_that_a_study_compares_get_a_verdict(bare_project, displayed):
    tables = Tables(bare_project, "embedded", "command")
    for build, seconds in {"v1": 0.5, "v2": 0.75}.items():
        for block in range(1, 7):
            wall = (seconds + block / 1000, "s")
            levels = {"command": "prog", "build": build}
            tables.add(levels, block, {"wall_time": wall}, tool="prog", tool_sha256=build * 32)
    page = tables.page()
    layout.comparisons(page, layout.Layout(page))
    text = "".join(displayed)
    assert "1 worse" in text and "different builds" not in text


def test_cases_that_failed_for_one_cause_are_one_sentence(tables):
    for number in range(5):
        levels = LEVELS | {"backend": f"b{number}"}
        for block in (1, 2):
            tables.add(levels, block, {}, status="failed", cause="connection refused")
    found = [text for text in evidence.weak_points(tables.results(), []) if "refused" in text]
    assert found == ["10 of 10 trials of 5 cases failed: connection refused. The list of trials has them."]


@pytest.mark.fault(32)
def test_mixed_instruments_and_edited_studies_are_told(tables):
    add(tables, 0.001, 0.002)
    add(tables, 0.003, instrument="b" * 64, study_sha256="c" * 64)
    text = evidence.weakness_list(evidence.weak_points(tables.results(), []))
    assert "2 versions of the measuring code" in text and "post hoc" in text


def test_imported_trials_of_two_versions_in_one_case_are_told(tables):
    fields = {"imported": True, "programs": "[]", "tool": "fio", "session": None, "disturbed": None}
    add(tables, 0.001, 0.002, tool_version="3.28", **fields)
    assert not list(programs.weaknesses(tables.results()))
    add(tables, 0.003, tool_version="3.33", **fields)
    results = tables.results()
    (said,) = programs.weaknesses(results)
    assert said.startswith("1 case has trials of different versions of fio, 3.28 and 3.33. Their figures mix")
    index = {"disturbance": {"limit": 0.05, "then": "mark", "at_most": 1}, "sessions": []}
    assert disturbed.rule(results, [index]) == "What else ran during 3 imported trials is unknown."
    add(tables, 0.004, levels=LEVELS | {"backend": "other"}, disturbed=False)
    told = disturbed.rule(tables.results(), [index])
    assert "disturbed 0 of 1 measured trial; 0 trials could not be checked. What else ran during 3 imported" in told


def test_a_program_or_script_that_changed_between_trials_of_a_case_is_told(tables):
    def ran(*found: tuple[str, str, str]) -> str:
        return json.dumps(found)

    program, data, elsewhere = ("sut", "/x/prog", "aa"), ("sut", "/x/data", "bb"), ("load", "/x/prog", "cc")
    add(tables, 0.001, 0.002, programs=ran(program, data, elsewhere))
    add(tables, 0.002, programs=None)
    assert not list(programs.weaknesses(tables.results())), "two hosts may have two versions"
    add(tables, 0.003, programs=ran(("sut", "/x/prog", "dd"), data, elsewhere))
    results = tables.results()
    text = evidence.weakness_list(evidence.weak_points(results, []))
    assert "/x/prog changed between the trials of 1 case, by its SHA-256" in text
    assert "/x/data changed" not in text
    assert "/x/prog, SHA-256 dd" in evidence.method(results, [])


def test_every_trial_is_listed_with_its_command_and_files(tables, tmp_path):
    add(tables, 0.001, 0.002)
    add(tables, 0, status="failed", cause=f"broke {HOSTILE}")
    page_folder = tmp_path / "reports" / "study"
    text = triallist.TrialList(tables.results(), ["duration"], tmp_path, page_folder).html()
    assert text.count("<tr id=") == 3
    assert text.count("<pre>") == 1, "one command for all: they differ in their run folder only"
    assert "<script" not in text and '<th scope="col">Time of one file</th>' in text
    raw = tables.trials[0]["raw"]
    assert f'href="{os.path.relpath(tmp_path, page_folder)}/{raw}/trial.json"' in text
    assert json.loads(tables.trials[0]["raw_files"])[0]["sha256"] in text


def test_estimates_are_written_in_base_units(tables, tmp_path):
    add(tables, 0.001, 0.002, 0.003)
    estimatefiles.write_estimates(tables.results().estimates("duration"), tmp_path / "estimates.csv", lambda _: ())
    row = pl.read_csv(tmp_path / "estimates.csv").row(0, named=True)
    assert (row["n"], row["median"], row["unit"], row["failed"]) == (3, 0.002, "s", 0)


def test_the_published_format_stands_first_where_the_study_says_so(tables, tmp_path, monkeypatch):
    add(tables, 0.2, 0.21, 0.19, 0.195, 0.205, 0.2)
    tables.results()
    monkeypatch.chdir(as_project(tmp_path))
    declared = {"study": "study", "hosts": {"h": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "h"}}}}
    declared["families"] = {"fio": {}}
    shown = {}
    for choice in ("median", "mean"):
        path = paths.declared_study(tmp_path, "study")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(declared | {"stands_out": choice}))
        page = Page("file_size", study="study", tidy="data/tidy/study/file_size", output=f"reports/{choice}")
        page.table("times", "duration", rows="size", columns=["backend"], where={}, caption="Times")
        shown[choice] = (tmp_path / f"reports/{choice}/tables/times.csv").read_text()
    assert '"200 ms\nn = 6, 95 %: 190–210 ms\nmean 200 ms (±7 ms)"' in shown["median"]
    assert '"200 ms (±7 ms, p50: 200 ms)\nmedian 200 ms, n = 6, 95 %: 190–210 ms"' in shown["mean"]


def test_two_modes_stand_beside_the_median_and_in_its_file(tables, tmp_path):
    add(tables, 0.2, 0.21, 0.003, 0.195, 0.0031, 0.205)
    results = tables.results()
    cell = cells.estimate_cell(results, *results.estimates("duration"), "median")
    assert cell.lines[1].endswith("; two modes: 2 near 3.05 ms, 4 near 202 ms")
    estimatefiles.write_estimates(results.estimates("duration"), tmp_path / "estimates.csv", lambda _: ())
    row = pl.read_csv(tmp_path / "estimates.csv").row(0, named=True)
    assert (row["mode_low_n"], row["mode_high_n"]) == (2, 4)
    assert (row["mode_low"], row["mode_high"]) == pytest.approx((0.00305, 0.2025), rel=1e-3)


# -- published figures ----------------------------------------------------------------------


def test_the_impossible_pair_of_the_storage_page_is_flagged_and_no_other():
    problems = published.impossible(paths.published(PROJECT) / "mattermost-storage.csv", rows="size", columns="backend")
    assert len(problems) == 1
    assert problems[0].startswith("Local (EBS), write, 10GB: impossible mean/median pair")


def test_published_tables_keep_the_figures_as_printed():
    source = paths.published(PROJECT) / "mattermost-storage.csv"
    table = published.table(source, "t", rows="size", columns="backend", where={"op": "write"}, caption="c")
    assert table.columns == ("Size", "Local (EBS)", "EFS", "S3")
    assert table.rows[0][1].lines == ("0.57 ms (±0.26 ms, p50: 0.63 ms)",)
    assert len(table.rows) == 6


def test_reference_lines_of_the_file_system_page():
    lines = published.references(
        paths.published(PROJECT) / "gitlab-filesystem.csv", "read", section="Benchmarking with fio: text"
    )
    assert [line.value for line in lines] == [33_415, 2_000]
    assert lines[0].label == "published SSD: 33,400/s"
