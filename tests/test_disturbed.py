"""A disturbed trial on pages: every figure of it is marked, and there is no verdict on it."""

import csv
import json
from dataclasses import replace

import pytest
from test_overview import facts_of, show_others
from tidy_fixture import Tables

from benchstudy import lints
from benchstudy.report.checklist import checklist
from benchstudy.report.comparisons import verdicts
from benchstudy.report.comparisons.comparison import Comparisons
from benchstudy.report.exhibits import figuredata
from benchstudy.report.figures import layers
from benchstudy.report.figures.panels import Axis, strip_panel
from benchstudy.report.overview import citing, primarytable
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.page import Page
from benchstudy.report.results import material
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed, outliers, scrutiny
from benchstudy.report.study.citation import citation
from benchstudy.report.study.methods import methods
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.statistics.comparisons import Verdict

SEEN = {"host": "here", "what": "others_cpu", "share": 0.55, "others_cpu": 1.1, "cpus": 2, "busiest": ["backup"]}
TOLD = "other programs used 1.1 of 2 processors of here (backup)"


@pytest.fixture
def results(bare_project) -> Results:
    """Two backends in six blocks. One is three times slower in two of the blocks, in which others disturbed it."""
    tables = Tables(bare_project, "embedded", "file_size")
    for backend, slow in (("local", 1.0), ("s3", 3.0)):
        levels = {"backend": backend, "op": "write", "size": "100MB", "sync": "fsync"}
        for block in range(1, 7):
            disturbed = backend == "s3" and block > 4
            seconds = tables.noisy(1.0, 0.02) * (slow if disturbed else 1.0)
            fields = {"disturbed": disturbed, "disturbance": json.dumps(SEEN if disturbed else SEEN | {"share": 0.0})}
            tables.add(levels, block, {"duration": (seconds, "s")}, numbers={"size_bytes": 10**8}, **fields)
    return tables.results()


def show(page: Page) -> None:
    page.answer({"Write": ("duration", {"op": "write"})}, series="backend")
    page.strip("times", ["duration"], series="backend", where={}, value_title="Time", caption="Times.")
    page.compare("backends", ["duration"], factor="backend", caption="Backends")
    page.weaknesses()
    page.trials(["duration"])


@pytest.fixture
def facts(bare_project, results):
    return facts_of(bare_project, {"file_size": show})


@pytest.mark.parametrize("what", ["steal", "others_cpu"])
def test_the_reader_is_not_only_told_to_end_what_a_hypervisor_does(bare_project, what):
    tables = Tables(bare_project, "embedded", "file_size")
    fields = {"disturbed": True, "disturbance": json.dumps(SEEN | {"what": what})}
    tables.add({"backend": "local", "op": "write"}, 1, {"duration": (1.0, "s")}, **fields)
    said = disturbed.sentence(tables.results())
    assert ("a host that shares no processor" in said) == ("the hypervisor took 55 %" in said) == (what == "steal")


@pytest.mark.parametrize(
    ("kinds", "taker"),
    [
        (["steal", "steal"], "the hypervisor"),
        (["others_cpu", "others_disk"], "other programs"),
        (["steal", "others_cpu"], "other programs or the hypervisor"),
    ],
)
def test_the_methods_for_a_paper_blame_who_took_it(bare_project, kinds, taker):
    """No other program ran in any of 27 trials, and the paragraph said that other programs had disturbed them."""
    tables = Tables(bare_project, "embedded", "file_size")
    for block, what in enumerate(kinds, 1):
        fields = {"disturbed": True, "disturbance": json.dumps(SEEN | {"what": what})}
        tables.add({"backend": "local", "op": "write"}, block, {"duration": (1.0, "s")}, **fields)
    tables.write()
    told = facts_of(bare_project, {"file_size": show_others})
    text = methods(told, citation(told.study, [family.results for family in told.families])).paragraphs[1]
    assert f"During 2 trials, {taker} took more of a host than the study allows;" in text


def test_two_cases_of_which_one_was_disturbed_get_no_verdict(results):
    (row,) = Comparisons(results, [], ["duration"], factor="backend", base="local").rows
    assert (row.outcome.verdict, row.outcome.ratio) == (Verdict.NONE, None)
    first, second = results.disturbed
    told = f"disturbed in 0 of 6 trials of local and 2 of 6 trials of s3 ({first}, {second}): "
    assert row.outcome.why.startswith(told)


@pytest.mark.fault(31)
def test_every_figure_of_it_is_marked_in_tables_and_files(bare_project, results, facts):
    tables = bare_project / "reports" / "embedded" / "file_size" / "tables"
    shown = (tables / "backends.csv").read_text()
    assert "disturbed 2 of 6" in shown and "no verdict" in shown
    with (tables / "estimates.csv").open() as file:
        assert {row["case"].split(",")[0]: row["disturbed"] for row in csv.DictReader(file)} == {
            "backend=local": "0", "backend=s3": "2",
        }  # fmt: skip
    overview = (tables.parent / "overview.json").read_text()
    assert "Other work disturbed 2 of 12 trials on this page (struck through)." in overview
    with (tables / "trials.csv").open() as file:
        assert [row["disturbed"] for row in csv.DictReader(file)].count("true") == 2


def test_the_table_of_the_first_page_marks_it_beside_its_modes(facts):
    (local, s3), _ = primarytable.rows(facts.families)
    assert (local.modes, local.marks) == ("", ())
    assert s3.modes.startswith("two modes: 4 near ") and s3.marks == ("disturbed 2 of 6",)


def test_a_cell_does_not_repeat_the_numbers_of_its_mark(results):
    (anchor,) = (anchor for (_, case), anchor in results.anchors.items() if "s3" in case)
    cell = Cell(("1.1 s", "n = 6, 2 disturbed, 95 %: 1.0–3.0 s"), f"#{anchor}")
    fewer = Cell(("1.1 s", "n = 5, 2 disturbed: too small for an interval"), f"#{anchor}")
    (row,) = disturbed.marked(results, Table("t", "T", ("One", "Two"), ((cell, fewer),))).rows
    assert [one.marks for one in row] == [("disturbed 2 of 6",)] * 2
    assert [one.lines[1] for one in row] == ["n = 6, 95 %: 1.0–3.0 s", fewer.lines[1]], "here the numbers differ"


def test_a_column_of_one_case_has_its_mark_once_in_the_heading(results):
    anchor, other = (next(a for (_, case), a in results.anchors.items() if name in case) for name in ("s3", "local"))
    figures = [
        Cell((text,), f"#{anchor}", marks=("disturbed 2 of 6",)) for text in ("1 s", "2 s", "n = 6, 2 disturbed")
    ]
    trial = Cell(("3 s",), f"#trial-{next(iter(results.disturbed))}")
    rows = tuple((Cell.text("x"), cell, Cell(("4 s",), f"#{other}")) for cell in (*figures, trial))
    table = disturbed.marked(results, Table("t", "T", ("Of", "1/s", "2/s"), rows))
    assert table.columns == ("Of", "1/s (disturbed 2 of 6)", "2/s")
    assert [row[1].marks for row in table.rows] == [(), (), (), ("disturbed",)], "a single trial is marked itself"
    mixed = Table("t", "T", ("Of", "One", "Two"), (*rows, (Cell.text("x"), rows[0][2], rows[0][2])))
    assert disturbed.marked(results, mixed).columns == mixed.columns, "a column with two cases"


def test_its_points_are_struck_through_in_figures(results):
    points = figuredata.points(results, "duration", "backend", {})
    assert points[layers.NOTICED].to_list().count(TOLD) == 2
    estimates = figuredata.estimates(results, "duration", "backend", {})
    panel = strip_panel("Times", points, estimates, Axis("Time", "s"), figuredata.style(results, "backend"))
    drawn = panel.spec(300)
    (struck,) = [layer for layer in drawn["layer"] if layer["mark"].get("shape") == "stroke"]
    assert len(drawn["datasets"][struck["data"]["name"]]) == 2


def test_a_figure_of_chosen_trials_tells_which_of_these_were_disturbed(bare_project, results):
    undisturbed = next(trial for trial in results.trials["trial"] if trial not in results.disturbed)
    points = figuredata.points(results, "duration", "backend", {})
    estimates = figuredata.estimates(results, "duration", "backend", {})
    style = figuredata.style(results, "backend")
    panel = replace(strip_panel("Times", points, estimates, Axis("Time", "s"), style), trials=0)
    for chosen, told in (
        ({next(iter(results.disturbed)), undisturbed}, "Chosen. Other work disturbed 1 of 2 drawn trials."),
        ({undisturbed}, "Chosen."),
        (set(), "Chosen. Other work disturbed 2 of 12 trials on this page."),
    ):
        page = Page("file_size", study="embedded", tidy=results.tidy, output=bare_project / "scratch")
        page.show_figure("times", "Chosen.", [replace(panel, drawn=frozenset(chosen))], style)
        assert json.loads((page.output / "overview.json").read_text())["figures"]["times"]["caption"] == told


@pytest.mark.fault(31)
def test_the_first_page_leads_with_it_with_the_trials_and_with_what_to_do(facts, results):
    context = StudyIndex(facts).context()
    (said,) = context["disturbed"]
    assert "during 2 of 12 trials" in said and TOLD in said
    assert all(trial in said for trial in results.disturbed)
    assert "set `disturbance: {then: repeat}` in the study and run it again" in said
    (compared,) = context["families"][0]["comparisons"]
    assert [line["why"].startswith("disturbed in ") for line in compared["lines"]] == [True]
    (host,) = context["hosts"]
    assert "file_size: other work disturbed 2 trials" in host["changes"]
    (family,) = context["families"]
    assert '<li class="bad">2 disturbed</li>' in family["badges"]
    (card,) = context["details"]["file_size"]["answers"]
    assert "disturbed" not in card["note"], "the family's badge and each line say it"
    evidence = {line["name"]: line["evidence"] for line in card["lines"]}
    assert "n = 6, 2 disturbed" in evidence["s3"] and "disturbed" not in evidence["local"]


def test_what_is_weak_does_not_repeat_the_beginning_of_the_page(results):
    assert disturbed.weaknesses(results) == ["Cases with disturbed trials: s3 · write · 100MB · fsync (2 of 6)."]


def test_methods_name_no_test_if_nothing_could_be_tested(facts):
    said = citing.of_study(facts).markdown()
    assert "No comparison of two cases met the conditions of a test; the pages give the reason of each." in said
    assert "paired" not in said and "margin" not in said


def test_the_checklist_names_the_case(facts):
    found = {title: answer for title, answer in checklist.answered(facts)}
    answer = found["Environment before and after, compared"]
    assert (
        answer.status == "not satisfied"
        and "Other work disturbed trials of: file_size: s3 · write · 100MB · fsync (2 of 6 trials)" in answer.text
    )


def test_it_is_what_was_noticed_on_the_host(results):
    found = outliers.find(results, [], [])
    assert {outlier.events for outlier in found} == {(TOLD,)}
    assert scrutiny.scrutinise(results, []).explained == len({outlier.trial for outlier in found})


def test_the_lint_names_the_case(results):
    (found,) = [f for f in lints.lint(material.read(results)) if f.lint == "neighbour"]
    assert "s3" in found.where
    assert found.what.endswith("during 2 of 6 trials")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ([], "set `disturbance: {then: repeat}`"),
        (
            [{"disturbance": {"then": "mark", "at_most": 3}}],
            "only the disturbed trials are measured again.",
        ),
        ([{"disturbance": {"then": "repeat", "at_most": 2}}], "raise `disturbance: at_most` above 2 and run the study"),
    ],
)
def test_what_to_do_follows_from_what_the_study_says(declared, says):
    assert says in disturbed.remedy(declared)


def test_a_line_of_several_comparisons_says_how_many_were_withheld(bare_project):
    tables = Tables(bare_project, "embedded", "file_size")
    for backend, factor in (("local", 1.0), ("session-store", 2.0)):
        for size in ("1MB", "100MB"):
            levels = {"backend": backend, "op": "write", "size": size, "sync": "fsync"}
            for block in range(1, 7):
                met = backend == "session-store" and size == "1MB" and block == 1
                fields = {"disturbed": met, "disturbance": json.dumps(SEEN if met else SEEN | {"share": 0.0})}
                seconds = factor * (1 + block / 100) * tables.noisy(1.0, 0.001)
                tables.add(levels, block, {"duration": (seconds, "s")}, numbers={"size_bytes": 10**6}, **fields)
    found = Comparisons(tables.results(), [], ["duration"], factor="backend", base="local")
    (line,) = verdicts.lines(found)
    assert line["verdict"] == "worse in 1, without a verdict in 1 of 2"
    assert line["why"] == "1 of 2 withheld because of disturbed trials, which the page's table names"
    lacking = verdicts.summarised(found, "Backends")["lacking"]
    assert not lacking["session"], "a name in the reason does not make it another one"
