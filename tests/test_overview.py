"""The first page of a study: answers, verdicts, what is weak, and thirty questions answered from its data."""

import html
import itertools
import json
import math
import re
from functools import partial
from posixpath import normpath

import first_pages
import numpy as np
import polars as pl
import pytest
import yaml
from conftest import CHECKOUT
from load_fixture import write_load
from tidy_fixture import HOSTILE, Tables, write_file_size, write_fio

from benchstudy.commands import cli
from benchstudy.families.load_test.page.load import LoadTest
from benchstudy.families.load_test.page.mix import LoadMix
from benchstudy.model import registry
from benchstudy.model.questions import TITLES
from benchstudy.model.studyfile import parse_study
from benchstudy.report import prose
from benchstudy.report.checklist import checklist
from benchstudy.report.comparisons.answers import answer as answers_of
from benchstudy.report.exhibits import cells
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import drift, evidence, outliers, scrutiny
from benchstudy.report.study.citation import citation
from benchstudy.report.study.methods import methods
from benchstudy.report.study.studyfacts import StudyFacts
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.statistics import steady

# As in the list of a credible report.
ASKED = (
    "raw samples", "n in each cell", "interval", "median and supported tails", "outliers", "order", "warm-up", "cache",
    "fsync", "steady-state", "duration", "environment", "versions", "argv", "saturated", "loop", "failures", "offered",
    "mix shift", "effect", "multiplicity", "thresholds", "smallest detectable", "plausibility", "same session", "prose",
    "capacity", "archived", "summaries", "calibration",
)  # fmt: skip
LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
LOAD = {"server": "nginx", "generator": "ab", "concurrency": "10"}


def declared(families=("file_size", "fio"), **changes):
    whole = yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text(encoding="utf-8"))
    kept = {name: block for name, block in whole["families"].items() if name in families}
    # What the embedded study says about itself; a test about that passes its own text.
    bare = {"families": kept, "ceilings": [], "acknowledge": [], "license": ""}
    return parse_study(whole | bare | changes)


def show_file_size(page):
    """What the family's notebook calls, as far as it concerns the overview."""
    page.answer({"Write": ("duration", {"op": "write", "size": "100MB"})}, series="backend")
    page.trend(
        "duration", "duration", x="size_bytes", x_title="Size", y_title="Time", series="backend", caption="Times.",
        views=page.views("Write", "sync", shared=["server"], op="write") | page.views("Read", "cache", op="read"),
    )  # fmt: skip
    page.compare(
        "backends",
        {"duration": "Time"},
        factor="backend",
        caption="Backends",
        counterparts={"sync": {"server": "fsync"}},
    )
    page.calibration({"duration": "Time"})
    page.weaknesses()
    page.trials(["duration"])


def show_others(page):
    page.weaknesses()


def facts_of(bare_project, shows, study=None):
    """The facts of a study whose pages were shown: {family: what its notebook calls}."""
    study = study or declared(shows)
    tidy = {family: bare_project / "data" / "tidy" / "embedded" / family for family in shows}
    for family, show in shows.items():
        show(Page(family, study="embedded", tidy=tidy[family], output=f"reports/embedded/{family}"))
    reports = bare_project / "reports"
    indexes = [
        json.loads(path.read_text()) | {"file": path} for path in (bare_project / "data" / "raw").rglob("session.json")
    ]
    return StudyFacts(study, tidy=tidy, indexes=indexes, reports=reports)


def answers(facts):
    found = checklist.answered(facts)
    return {word: answer for word, (_, answer) in zip(ASKED, found, strict=True)}


def one_family(bare_project, family="file_size", add=None, study=None, show=show_others):
    """The answers about a family whose tables `add` fills."""
    tables = Tables(bare_project, "embedded", family)
    add(tables)
    tables.write()
    return answers(facts_of(bare_project, {family: show}, study))


def six(tables, levels=LEVELS, metric="duration", unit="s", **fields):
    for block in range(1, 7):
        tables.add(levels, block, {metric: (1.0 + block / 100, unit)}, numbers={"size_bytes": 1}, **fields)


# -- the checklist ----------------------------------------------------------------------


def test_there_are_thirty_questions_in_the_order_of_the_list():
    titles = [title.lower() for title in TITLES]
    assert len(titles) == 30
    assert [asked for asked, title in zip(ASKED, titles, strict=True) if asked not in title] == []


def test_every_question_has_an_answer_in_words_and_most_lead_somewhere(bare_project):
    write_file_size(bare_project)
    write_fio(bare_project)
    found = answers(facts_of(bare_project, {"file_size": show_file_size, "fio": show_others}))
    assert {answer.status for answer in found.values()} == {"satisfied", "not satisfied", "does not apply"}
    assert all(re.fullmatch(r".{15,}[.”]", answer.text, re.DOTALL) for answer in found.values())
    applying = [answer for answer in found.values() if answer.status != "does not apply"]
    assert sum(bool(answer.href) for answer in applying) >= len(applying) - 3
    assert found["interval"].status == "not satisfied" and "fewer than 6 successful trials" in found["interval"].text
    assert found["failures"].text.startswith("file_size 8 of 244 (95 %: ")
    assert (
        found["cache"].status == "not satisfied" and "sshfs · read · 1MB · cold (6 of 6 trials)" in found["cache"].text
    )
    assert found["fsync"].status == "satisfied"
    assert found["loop"].status == "satisfied" and "fio: closed" in found["loop"].text
    assert found["offered"].status == "does not apply"
    assert found["plausibility"].status == "not satisfied" and "no ceiling" in found["plausibility"].text
    assert found["calibration"].status == "not satisfied"


def test_raw_files_that_are_missing_are_counted(bare_project):
    def add(tables):
        six(tables)
        tables.add(LEVELS, 7, {"duration": (1.0, "s")}, raw_files=None)

    found = one_family(bare_project, add=add)
    assert found["raw samples"].status == "not satisfied" and "1 of 7 trials" in found["raw samples"].text


@pytest.mark.parametrize(
    ("fields", "asked", "words"),
    [
        ({"tool_sha256": None}, "versions", "0 of 6 trials"),
        ({"argv": None}, "argv", "0 of 6 trials"),
        ({"verified": "{}"}, "raw samples", ""),
    ],
)
def test_what_records_lack_is_not_satisfied(bare_project, fields, asked, words):
    found = one_family(bare_project, add=lambda tables: six(tables, **fields))
    assert (found[asked].status == "not satisfied") is bool(words)
    assert words in found[asked].text


def test_the_same_order_in_every_block_is_not_random(bare_project):
    def add(tables, turned):
        for block in range(1, 7):
            backends = ["a", "b", "c"]
            for place, backend in enumerate(backends[block % 3 * turned :] + backends[: block % 3 * turned]):
                when = f"2026-11-20T10:{block:02d}:{place:02d}.000+00:00"
                values = {"duration": (1.0, "s")}
                tables.add({**LEVELS, "backend": backend}, block, values, numbers={"size_bytes": 1}, started=when)

    fixed, mixed = (one_family(bare_project, add=partial(add, turned=turned))["order"] for turned in (0, 1))
    assert fixed.status == "not satisfied" and "file_size on this-machine has the same order" in fixed.text
    assert mixed.status == "satisfied" and "seed 7" in mixed.text


def test_a_load_is_asked_for_its_loop_its_warm_up_its_window_and_its_generator(bare_project):
    known = json.dumps({"loop": "open"})
    files = json.dumps([{"name": "warm-up/stdout", "size": 1, "sha256": "0"}])

    def add(tables, whole):
        for block in range(1, 7):
            values = {"throughput": (100.0 + block, "1/s"), "duration": (30.0 if whole else 2.0, "s")}
            values |= {"generator_cpu": (0.2, "1"), "offered": (100.0, "1/s")} if whole else {}
            fields = {"verified": known if whole else '{"loop": "open"}', "raw_files": files if whole else "[]"}
            tables.add(LOAD, block, values, **fields)

    asked = ("warm-up", "duration", "saturated", "loop", "offered")
    whole, lacking = (one_family(bare_project, "http_concurrency", partial(add, whole=w)) for w in (True, False))
    assert [whole[name].status for name in asked] == ["satisfied"] * 5
    assert [lacking[name].status for name in asked if name != "loop"] == ["not satisfied"] * 4
    assert "http_concurrency 2.00 s" in lacking["duration"].text
    assert "missing in: http_concurrency: nginx · ab · 10 (6 of 6 trials)" in lacking["offered"].text


def test_a_study_in_which_nothing_worked_says_so_and_why(bare_project):
    tables = Tables(bare_project, "embedded", "http_concurrency")
    for block in range(1, 7):
        tables.add(LOAD, block, {}, status="failed", cause="there is no ab" if block > 1 else "connection lost")
    tables.write()
    state = StudyIndex(facts_of(bare_project, {"http_concurrency": lambda page: page.weaknesses()})).state
    assert state.startswith("No trial succeeded: 6 of 6 failed, 5 of them with this cause: there is no ab; ")


def test_that_the_mix_was_told_apart_is_what_the_page_noted_and_no_name_of_a_file(bare_project):
    write_load(bare_project, databases=("mariadb",))

    def lacking(page):
        page.show_table(Table("remix", "Of something else", ("One",), ((Cell.text("1"),),)))

    def whole(page):
        page.note("mix_shift", page.family, LoadMix(LoadTest(page.results, page.declared, page.indexes)).noted)

    found = [answers(facts_of(bare_project, {"load_test": show}))["mix shift"] for show in (lacking, whole)]
    assert [answer.status for answer in found] == ["not satisfied", "satisfied"]
    (noted,) = json.loads((bare_project / "reports/embedded/load_test/overview.json").read_text())["mix_shift"].values()
    assert noted and {"what", "verdict", "alarm", "cases"} == set(noted[0])


@pytest.mark.long
def test_ceilings_margins_and_a_licence_are_taken_from_the_study(bare_project):
    write_file_size(bare_project, hostile=False)
    ceiling = {"family": "file_size", "op": "read", "rate": "100GB/s", "where": "*", "source": "a label"}
    study = declared(("file_size",), ceilings=[ceiling], license="CC-BY-4.0")
    found = answers(facts_of(bare_project, {"file_size": show_file_size}, study))
    assert found["plausibility"].status == "satisfied" and "1 ceiling declared" in found["plausibility"].text
    assert found["archived"].status == "satisfied" and "CC-BY-4.0" in found["archived"].text
    assert found["thresholds"].status == "satisfied"
    idle = declared(("file_size",), thresholds={"margins": {"fio/read_iops": "5%", "file_size": "4%"}})
    found = answers(facts_of(bare_project, {"file_size": show_file_size}, idle))["thresholds"]
    assert found.status == "not satisfied" and found.text.endswith("so it has no effect: fio/read_iops.")
    index = next((bare_project / "data" / "raw").rglob("session.json"))
    text = json.loads(index.read_text())
    del text["sessions"][0]["declared"]["thresholds"]
    index.write_text(json.dumps(text))
    found = answers(facts_of(bare_project, {"file_size": show_file_size}, study))
    assert found["thresholds"].status == "not satisfied" and "post hoc" in found["thresholds"].text


def test_what_the_study_acknowledges_is_not_satisfied_and_no_longer_open(bare_project):
    reason = "Six trials of this would take a day."
    entries = [{"question": title, "reason": reason} for title in ("An interval for each number", "Raw samples")]

    def add(tables):
        tables.add(LEVELS, 1, {"duration": (1.0, "s")}, numbers={"size_bytes": 1})

    found = one_family(bare_project, add=add, study=declared(("file_size",), acknowledge=entries))
    assert found["interval"].status == "acknowledged" and found["interval"].reason == reason
    assert "fewer than 6 successful trials" in found["interval"].text, "what is lacking is still said"
    assert found["raw samples"].status == "satisfied" and not found["raw samples"].reason
    assert found["steady-state"].status == "not satisfied", "nobody said why"


@pytest.mark.long
def test_a_ceiling_that_its_cases_did_not_measure_is_not_satisfied(bare_project):
    measured = {"family": "fio", "metric": "read_bandwidth", "where": "*job=none*"}
    ceiling = {"family": "file_size", "op": "read", "measured": measured, "source": "fio"}
    write_file_size(bare_project, hostile=False)
    write_fio(bare_project)
    shows = {"file_size": show_file_size, "fio": show_others}
    found = answers(facts_of(bare_project, shows, declared(ceilings=[ceiling])))["plausibility"]
    assert found.status == "not satisfied" and "1 ceiling declared; 1 unknown" in found.text
    ceiling["measured"] = measured | {"where": "*"}
    found = answers(facts_of(bare_project, shows, declared(ceilings=[ceiling])))["plausibility"]
    assert found.status == "satisfied" and re.search(r"reads at most \S+ .B/s \(fio\)", found.text)


# -- the page ----------------------------------------------------------------------


@pytest.fixture
def index(bare_project):
    """The first page as a reader gets it, without styles."""
    tidy = {"file_size": write_file_size(bare_project), "fio": write_fio(bare_project)}
    study = declared(question=f"Which one is faster? {HOSTILE}")
    facts_of(bare_project, {"file_size": show_file_size, "fio": show_others}, study)
    sessions = list((bare_project / "data" / "raw").rglob("session.json"))
    first_pages.build(study, tidy=tidy, sessions=sessions, reports=bare_project / "reports")
    return re.sub(r"<style>.*?</style>", "", (bare_project / "reports" / "index.html").read_text(), flags=re.DOTALL)


def linked(page, folder):
    """Where the links of a page in a folder of reports lead."""
    return [normpath(f"{folder}/{href}") for href in re.findall(r'href="([^":#][^":]*)"', page)]


def test_both_first_pages_link_from_their_own_place_and_tables_are_read_once(bare_project, monkeypatch):
    read = []
    monkeypatch.setattr(Results, "_read", lambda self, name, of=Results._read: read.append(name) or of(self, name))
    tidy, reports = {"file_size": write_file_size(bare_project)}, bare_project / "reports"
    sessions = list((bare_project / "data" / "raw").rglob("session.json"))
    first_pages.build(declared(("file_size",)), tidy=tidy, sessions=sessions, reports=reports)
    assert sorted(read) == ["cases", "observations", "trials"]
    own, above = (path.read_text() for path in (reports / "embedded" / "index.html", reports / "index.html"))
    assert 'href="./file_size.html' in own and 'href="./embedded/' not in own
    assert 'href="./embedded/file_size.html' in above and 'href="../data/raw/' in above
    archive = '<a href="./embedded.zip" download>'
    assert archive in above and "embedded.zip" not in own, "the packed page would have a dead link"
    assert linked(own, "embedded") == [href for href in linked(above, ".") if href != "embedded.zip"]


def test_the_first_page_answers_before_it_lists(index):
    headings = [html.unescape(text) for text in re.findall(r"<h2[^>]*>(.*?)</h2>", index)]
    assert headings[:5] == [
        "What was found", "All primary metrics", "Figures and verdicts", "What is weak", "What failed, and why",
    ]  # fmt: skip
    order = (
        "Which one is faster?",
        '<h2 id="found">',
        "of 30 satisfied",
        '<h2 id="metrics">',
        '<figure class="chart">',
    )
    assert [index.index(text) for text in order] == sorted(index.index(text) for text in order)
    assert len(re.findall(r'<td class="answer ', index)) == 30


def test_the_table_of_all_metrics_says_once_what_all_cases_share(bare_project):
    tables = Tables(bare_project, "embedded", "file_size")
    for backend in ("local", "other"):
        six(tables, {**LEVELS, "backend": backend})
    six(tables, {**LEVELS, "backend": "other", "size": "10MB"})
    write_fio(bare_project)
    tables.write()
    facts = facts_of(bare_project, {"file_size": show_others, "fio": show_others})
    context = StudyIndex(facts).context()
    assert {row.case for row in context["primary"]} >= {"local · 1MB", "other · 1MB", "other · 10MB"}
    assert context["shared_levels"]["Files by size"] == "op write, sync fsync"


def test_the_first_page_counts_the_tests_of_the_whole_study_beside_those_of_each_table(bare_project):
    write_file_size(bare_project)
    write_fio(bare_project)

    def show_fio(page):
        where = {"test": "fio", "job": ["gitlab", "gitlab-latency"]}
        page.compare("jobs", ["read_iops", "write_iops"], factor="job", where=where, caption="Jobs")
        page.judged({"By hand": [row.outcome for row in page._compared(["read_iops"], factor="job", where=where).rows]})

    facts = facts_of(bare_project, {"file_size": show_file_size, "fio": show_fio})
    context = StudyIndex(facts).context()
    own = [made["tests"] for family in facts.families for made in family.comparisons]
    assert min(own) > 1 and f"{sum(own) + 1} tests in 3 groups" in context["multiplicity"]
    counted = answers(facts)["multiplicity"].text
    assert counted.startswith(f"{sum(own) + 1} tests in 3 "), "the checklist counts what the sentence counts"
    tables = [made for family in context["families"] for made in family["comparisons"]]
    for made, tests in zip(tables, own, strict=True):
        assert f"Benjamini-Hochberg over {tests} tests" in made["summary"]
        assert (
            f"If all {sum(own) + 1} tests of the study are adjusted together, " in made["summary"]
            or "0 equivalent" not in made["summary"]
        )
    assert any("tests of the study are adjusted together" in made["summary"] for made in tables)
    index = StudyIndex(facts)
    for stand, said in ((0, "0 of 1 verdict of better, worse or equivalent remains."), (2, " equivalent remain.")):
        index._standing = dict.fromkeys(index._standing, (0, 0)) | {next(iter(index._standing)): (stand or 1, stand)}
        assert index.context()["multiplicity"].endswith(said)


def test_blocks_that_lie_close_together_are_called_one_episode_of_the_host(bare_project):
    def apart(minutes, targets=("this-machine",)):
        tables = Tables(bare_project, "embedded", "file_size")
        for target, (backend, value) in itertools.product(targets, (("local", 1.0), ("other", 2.0))):
            for block in range(1, 7):
                started = f"2026-11-20T{10 + block * minutes // 60}:{block * minutes % 60:02}:00.000+00:00"
                values = {"duration": (tables.noisy(value), "s")}
                levels, numbers = {**LEVELS, "backend": backend}, {"size_bytes": 1}
                tables.add(levels, block, values, numbers=numbers, started=started, target=target)
        tables.write()
        show = {"file_size": lambda page: (page.compare("b", ["duration"], factor="backend", caption="B"),
                                           page.weaknesses())}  # fmt: skip
        (family,) = facts_of(bare_project, show).families
        return "; ".join(family.noted("weak")), family.comparisons[0]["summary"]

    for text in apart(1):
        assert "All 6 blocks began within 5 min, so they saw one state of the host" in text
    for text in apart(3):
        assert "episode" not in text
    _, of_two = apart(1, ("a", "b"))
    assert of_two.endswith("On 2 of 2 targets, all blocks began within 5 min, so they saw one state of the host.")


def test_the_first_page_has_verdicts_that_lead_to_their_table(index, bare_project):
    results = index[index.index('id="results"') :]
    (row,) = re.findall(r"<tr>\s*<th scope=\"row\">s3 against local</th>.*?</tr>", results, re.DOTALL)
    assert re.search(r'<td class="text verdict (?:worse|mixed)">worse', row)
    (href,) = re.findall(r'<a href="(?:\./)?embedded/file_size\.html#(table-backends)">', row)
    assert (bare_project / "reports/embedded/file_size/tables/backends.csv").is_file() and href


def test_the_first_page_has_one_figure_a_family_whose_points_lead_to_trials_of_its_page(index):
    assert index.count('<figure class="chart">') == 1, "fio's notebook showed none here"
    assert index.count('<div class="panel">') == 2 and "3 more panels" in index
    assert '<div class="view" role="group" aria-label="Write, sync fsync. Medians: local:' in index
    links = re.findall(r'href="([^"]*)#trial-', index)
    assert len(links) > 50 and set(links) <= {"./embedded/file_size.html", "embedded/file_size.html"}
    assert "<button" not in index


@pytest.mark.fault(24)
def test_names_from_data_stay_text(index):
    assert index.count("<script") == 1, "that of the table"
    assert html.escape(HOSTILE, quote=False) in html.unescape(index).replace("<", "&lt;").replace(">", "&gt;")


def test_what_failed_is_a_row_a_case_with_each_cause_and_how_often(bare_project):
    tables = Tables(bare_project, "embedded", "file_size")
    for block, cause in enumerate(["no space", "no space", "no space", "no space", "`sync` was refused"], start=1):
        tables.add(LEVELS, block, {}, status="failed", cause=cause)
    six(tables)
    tidy = {"file_size": tables.write()}
    facts_of(bare_project, {"file_size": show_others})
    sessions = list((bare_project / "data" / "raw").rglob("session.json"))
    first_pages.build(declared(("file_size",)), tidy=tidy, sessions=sessions, reports=bare_project / "reports")
    page = (bare_project / "reports" / "index.html").read_text(encoding="utf-8")
    (row,) = re.findall(r'<tr>\s*<th scope="row"><a href="[^"]*#trial-\w+">local · .*?</tr>', page, re.DOTALL)
    interval = "95\N{NO-BREAK SPACE}%: 21–\N{WORD JOINER}72\N{NO-BREAK SPACE}%"
    assert "5 of 11 trials" in row and interval in row
    assert re.search(r">4 of them</a>: no space<br><a [^>]*>1 of them</a>", row)
    assert "2026-11-20 10:00:00 to 10:09:00 UTC" in page


def test_a_long_log_of_a_server_that_died_keeps_its_last_words(bare_project):
    """The last lines of a log are requests, and the reason is the very last one."""
    requests = 20 * '127.0.0.1 - - [01/Dec/2026 06:12:42] "GET /page.txt HTTP/1.1" 200 - / '
    cause = f"the server own died during the trial: it ended with exit status 3: {requests}no space left on device"
    tables = Tables(bare_project, "embedded", "http_concurrency")
    tables.add(LOAD, 1, {}, status="failed", cause=cause)
    tables.write()
    shown = StudyIndex(facts_of(bare_project, {"http_concurrency": lambda page: page.weaknesses()})).state
    assert "the server own died during the trial: it ended with exit status 3" in shown
    assert " … " in shown and "no space left on device;" in shown and requests not in shown


def test_what_stands_between_backticks_is_code(index):
    assert "<code>SHA256SUMS</code>" in index and "`SHA256SUMS`" not in index


# -- what pages find out about themselves ----------------------------------------------------------------------


def results_with(bare_project, values, **fields):
    tables = Tables(bare_project, "embedded", "file_size")
    trials = [
        tables.add(LEVELS, block, {"duration": (value, "s")}, numbers={"size_bytes": 1}, **fields)
        for block, value in enumerate(values, start=1)
    ]
    return tables.results(), trials


def test_an_outlier_is_flagged_and_kept_with_what_happened_on_its_host(bare_project):
    results, trials = results_with(bare_project, [1.0, 1.02, 5.0, 0.99, 1.01, 1.0, 1.03])
    event = "2026-11-20T10:03:00.500+00:00 connection to here lost"
    index = {"target": "this-machine", "sessions": [{"events": [event, event.replace("10:03", "11:03")]}]}
    (found,) = outliers.find(results, [trials[2]], [index])
    assert (found.trial, found.metric) == (trials[2], "Time of one file") and found.times == pytest.approx(5 / 1.01)
    assert found.events == ("its host was busy before it", "connection to here lost")
    page = Page("file_size", study="embedded", tidy="data/tidy/embedded/file_size", output="reports/embedded/file_size")
    assert results.estimate("duration", "this-machine", found.case).summary.n == 7, "kept"
    assert list(page._scrutiny.flagged) == [trials[2]]


def test_loops_that_write_files_are_not_denied(bare_project):
    """The loops of fio's family write files, but no level says what a write waits for."""
    write_fio(bare_project)
    found = answers(facts_of(bare_project, {"fio": show_others}))["fsync"]
    assert found.text == "No family has a factor for what a write waits for."


def test_the_methods_tell_which_trials_no_figure_includes(bare_project):
    tables = Tables(bare_project, "embedded", "file_size")
    levels = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
    for block, fields in enumerate([{}, {}, {"set_aside": "other"}, {"set_aside": "other"}, {"discarded_why": "x"}], 1):
        tables.add(levels, block, {"duration": (1.0 + block / 100, "s")}, numbers={"size_bytes": 10**6}, **fields)
    tables.write()
    facts = facts_of(bare_project, {"file_size": show_others})
    told = methods(facts, citation(facts.study, [family.results for family in facts.families])).paragraphs[1]
    assert "2 trials were set aside and measured again, whatever the values, because other work took more" in told
    assert "1 trial was discarded by hand, for a reason that the list of trials states." in told


@pytest.mark.parametrize("counts", [True, False])
def test_a_kernel_that_changed_between_two_sessions_is_told(bare_project, counts):
    """Medians mixed three trials of each kernel, and the page said that no change of the host was noticed."""
    tables = Tables(bare_project, "embedded", "file_size")
    six(tables)
    for row in tables.trials[3:]:
        row["session"] = "later" if counts else row["session"]
    tables.write()
    (file,) = (bare_project / "data" / "raw").rglob("session.json")
    index = json.loads(file.read_text())
    later = json.loads(json.dumps(index["sessions"][0])) | {"uuid": "later"}
    later["hosts"]["here"]["before"] |= {"kernel": {"release": "6.2.0"}, "cpus_allowed": 4}
    file.write_text(json.dumps(index | {"sessions": [*index["sessions"], later]}))
    facts = facts_of(bare_project, {"file_size": show_others})
    (results,) = (family.results for family in facts.families)
    told = [text for text in evidence.weak_points(results, facts.indexes) if "changed between sessions" in text]
    found = ["Kernel of here changed between sessions: 6.1.0 -> 6.2.0.", "Processors allowed of here changed"]
    assert len(told) == 2 * counts and all(text.startswith(start) for text, start in zip(told, found, strict=False))
    text = methods(facts, citation(facts.study, [results])).paragraphs[0]
    assert "Host here: A processor, 2 and 4 processors, 8 GB of memory, Debian 12, Linux 6.1.0 and 6.2.0." in text
    (host,) = StudyIndex(facts).context()["hosts"]
    assert ("Kernel", "6.1.0 and 6.2.0") in host["lines"]
    said = answers(facts)["environment"].text
    between = " Changes between sessions: 2, Kernel of here, Processors allowed of here."
    assert (between in said) == counts


def test_what_is_told_of_trials_without_a_part_in_any_figure_is_known(bare_project):
    """Nobody measured the discarded trial again, and the methods account for the aborted one."""
    tables = Tables(bare_project, "embedded", "file_size")
    levels = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
    for block, fields in enumerate([{}, {"discarded_why": "a backup ran"}, {"status": "aborted", "cause": "gone"}], 1):
        tables.add(levels, block, {"duration": (1.0, "s")}, numbers={"size_bytes": 10**6}, **fields)
    tables.write()
    facts = facts_of(bare_project, {"file_size": show_others})
    (results,) = (family.results for family in facts.families)
    assert "1 trial discarded by hand: a backup ran." in evidence.weak_points(results, [])
    told = methods(facts, citation(facts.study, [results])).paragraphs[1]
    assert "1 trial was aborted without a result, because the connection, the controller or a host was lost." in told


def test_nothing_was_noticed_on_the_unknown_host_of_an_imported_outlier(bare_project):
    results, (trial, *_) = results_with(bare_project, [5.0, 1.02, 1.0, 0.99, 1.01, 1.0, 1.03], imported=True)
    found = scrutiny.scrutinise(results, [])
    assert found.flagged[trial].endswith("(imported: nothing is known about its host)")
    said = "1 outlier among 7 trials; all are kept, and marked in the list of trials."
    assert found.explained == 0
    chance = "With normal noise alone, 0.24 of 7 figures would be that far."
    assert scrutiny.points(found)[0] == f"{said} No event on the host was recorded for it. {chance}"


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0, 1.0, 1.03, 1.0], [1.0, 1.0, 9.0, 1.0, 1.0], [0.0, 1.0] * 4])
def test_no_outlier_within_a_few_hundredths_nor_among_few_trials_nor_beside_zeros(bare_project, values):
    results, _ = results_with(bare_project, values)
    assert outliers.find(results, [], []) == []


@pytest.mark.parametrize(
    ("values", "is_steady"),
    [
        ([9.0, 1.0, 1.0, 1.0, 1.0, 1.0], True),
        ([1.0, 1.0, 1.0, 1.0, 1.25], False),
        ([1.0, 1.03, 1.06, 1.09, 1.12], False),
        ([1.0, 1.027, 1.054, 1.081, 1.108], False),
        ([1.0, 1.025, 1.05, 1.075, 1.1], True),
        ([1.1, 1.075, 1.05, 1.025, 1.0], True),
        ([1.0, 1.0, 1.0, 1.0, float("inf")], None),
        ([], None),
        ([1.0, 1.09, 1.0, 1.09, 1.0], True),
        ([1.0, 1.0, 1.0, 1.0], None),
        ([0.0] * 5, None),
    ],
)
def test_steady_is_what_snia_calls_so(values, is_steady):
    """The third rises by 12 % of its mean within limits of 20 %: this is a slope, not noise."""
    assert steady.is_steady(values) is is_steady


def test_noise_without_drift_exceeds_snias_limits_as_often_as_the_limits_say():
    """docs/statistics.md has these figures, and pages say that `not steady` may be scatter."""
    random = np.random.default_rng(5)
    for spread, passing in ((0.05, 0.87), (0.1, 0.30), (0.2, 0.03)):
        found = [steady.is_steady(random.normal(1, spread, 5).tolist()) for _ in range(2000)]
        assert np.mean(found) == pytest.approx(passing, abs=0.03)
    limits = (CHECKOUT / "docs/statistics.md").read_text()
    assert "pass them in 87 of 100" in limits and "in 30 at 10 %, and in 3 at 20 %" in limits
    for family in ("file_size", "fio"):
        assert "exceed them without any drift" in (CHECKOUT / f"notebooks/{family}.ipynb").read_text()


def test_a_trend_over_the_blocks_is_drift_and_noise_is_none(bare_project):
    tables = Tables(bare_project, "embedded", "http_concurrency")
    for block in range(1, 13):
        for server, rate in (("rising", 100.0 + 3 * block), ("noisy", 100.0 + 30 * (block % 2))):
            when = f"2026-11-20T10:{block:02d}:00.000+00:00"
            tables.add({**LOAD, "server": server}, block, {"throughput": (rate, "1/s")}, started=when)
    found = drift.find(tables.results())
    assert found.looked_at == 2 and found.rule == drift.TREND_RULE
    assert [case for _, case in found.cases] == ["server=rising,generator=ab,concurrency=10"]


def test_a_case_that_is_not_steady_is_told_with_its_metric_and_by_how_much_it_changed(bare_project):
    tables = Tables(bare_project, "embedded", "http_concurrency")
    for block in range(1, 13):
        when = f"2026-11-20T10:{block:02d}:00.000+00:00"
        values = {"throughput": (100.0 - block, "1/s"), "latency_p50": (0.01 + 1e-5 * (block % 2), "s")}
        tables.add({**LOAD, "server": "falling"}, block, values, started=when)
    results = tables.results()
    (said,) = scrutiny.points(scrutiny.scrutinise(results, {}))
    assert said.startswith("1 of 1 case is not in a steady state (a trend over the blocks")
    assert said.endswith("successful responses per second fell by 11.8 % over 12 trials.")
    (case,) = results.cases["case"]
    marks = [drift.mark(results, m, ("this-machine", case)) for m in ("throughput", "latency_p50")]
    assert marks == [(drift.NOT_STEADY,), ()], "only the metric that moved is marked"


def test_a_time_per_file_and_a_bandwidth_have_the_mark_of_what_they_are_a_form_of(bare_project):
    tables = Tables(bare_project, "embedded", "fio")
    for block in range(1, 7):
        one = 0.1 * block
        given = {"write_time": (one, "s"), "write_time_per_file": (one / 1001, "s"), "write_user": (0.1, "s")}
        levels = {"directory": "local", "test": "small-files", "job": "no-fork"}
        tables.add(levels, block, given, started=f"2026-11-20T10:{block:02d}:00.000+00:00")
    results = tables.results()
    (case,) = results.cases["case"]
    marks = {m: drift.mark(results, m, ("this-machine", case)) for m in ("write_time", "write_time_per_file")}
    assert marks == dict.fromkeys(marks, (drift.NOT_STEADY,))
    assert drift.mark(results, "write_user", ("this-machine", case)) == ()
    families = {family: registry.get(family).metrics for family in ("file_size", "fio")}
    forms = {m.name: m.form_of for metrics in families.values() for m in metrics.values() if m.form_of}
    assert forms["throughput"] == "duration" and forms["read_bandwidth"] == "read_iops"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([9.0, 1.0, 1.03, 1.06, 1.09, 1.12], "time of one file rose by 11.3 % over 5 trials"),
        ([1.0, 1.0, 1.4, 1.0, 1.0], "time of one file varied by 37 % over 5 trials"),
    ],
)
def test_storage_that_is_not_steady_is_told_by_its_line_or_by_its_range(bare_project, values, said):
    tables = Tables(bare_project, "embedded", "file_size")
    for block, seconds in enumerate(values, start=1):
        given = {"duration": (seconds, "s"), "device_read": (1.0 * block, "B")}
        tables.add(LEVELS, block, given, numbers={"size_bytes": 1}, started=f"2026-11-20T10:{block:02d}:00.000+00:00")
    results = tables.results()
    (weak,) = [text for text in scrutiny.points(scrutiny.scrutinise(results, {})) if "steady" in text]
    assert weak.endswith(f": {said}.")


def test_trials_that_resemble_the_one_before_are_told_and_noise_is_not(bare_project):
    tables = Tables(bare_project, "embedded", "http_concurrency")
    random = np.random.default_rng(5)
    waves = [100 + 20 * math.sin(block / 3) for block in range(36)]
    for block, (wave, noise) in enumerate(zip(waves, random.normal(100, 10, 36), strict=True), start=1):
        for server, rate in (("waves", wave), ("noisy", noise)):
            when = f"2026-11-20T10:{block:02d}:00.000+00:00"
            tables.add({**LOAD, "server": server}, block, {"throughput": (rate, "1/s")}, started=when)
    found = scrutiny.scrutinise(tables.results(), {})
    assert [case for _, case in found.dependent] == ["server=waves,generator=ab,concurrency=10"]
    assert found.drift.cases == ()
    (said,) = scrutiny.points(found)
    assert (
        said.startswith("Trials of 1 case resemble the previous one") and "are too narrow: " in said and "waves" in said
    )


@pytest.mark.parametrize(("last", "marks"), [(1.0, ()), (1.6, (drift.NOT_STEADY,))])
def test_a_figure_that_is_not_steady_says_so_where_it_stands(bare_project, last, marks):
    tables = Tables(bare_project, "embedded", "file_size")
    for block, seconds in enumerate([1.0] * 5 + [last], start=1):
        values = {"duration": (seconds, "s"), "device_read": (1.0 * block, "B")}
        tables.add(LEVELS, block, values, numbers={"size_bytes": 1}, started=f"2026-11-20T10:{block:02d}:00.000+00:00")
    results = tables.results()
    (case,) = results.cases["case"]
    figure, other = (results.estimate(metric, "this-machine", case) for metric in ("duration", "device_read"))
    assert cells.estimate_cell(results, figure, "page").marks == marks
    assert cells.estimate_cell(results, other, "page").marks == (), "it is not what the family is read for"
    (line,) = answers_of(results, "Write", "duration", {}, "backend")["lines"]
    assert line["evidence"].endswith(drift.NOT_STEADY) is bool(marks)
    page = Page("file_size", study="embedded", tidy="data/tidy/embedded/file_size", output="reports/embedded/file_size")
    page.trials(["duration"])
    rows = pl.read_csv(page.output / "tables" / "estimates.csv", infer_schema=False).rows(named=True)
    told = {row["metric"]: row["marks"] or "" for row in rows}
    assert told == {"duration": "; ".join(marks), "device_read": ""}, "the file of all estimates has the marks, too"


# -- prose ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It writes 230 MB/s, or 1,000 files in 2.5 s.", ["230 MB/s", "1,000", "2.5 s"]),
        ("-3 % against the base, and 1.02× the other.", ["-3 %", "1.02×"]),
        ("## 6 trials", ["6"]),
        ("The p99 of S3 on v10.0, an x86-64 host and HTTP/2.", []),
        ("`fio --bs=4k` over `{0..1000}` with its 95 % interval.", []),
        ("[the page](https://example.org/2024/11) says", []),
        ("```\nab -c 3000\n```", []),
        ("Half of them, two in three.", []),
    ],
)
def test_a_typed_number_is_found_in_prose_and_only_there(text, numbers):
    notebook = {"cells": [{"cell_type": "markdown", "source": text}, {"cell_type": "code", "source": "x = 5"}]}
    assert [found.number for found in prose.typed_numbers(notebook)] == numbers


@pytest.mark.parametrize("path", sorted((CHECKOUT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_notebook_has_a_number_typed_into_its_prose(path):
    assert prose.read(path) == []


def test_the_command_names_what_it_finds_and_fails(tmp_path, capsys):
    notebook = tmp_path / "n.ipynb"
    cell = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": "Reads take 3.2 ms."}
    notebook.write_text(json.dumps({"cells": [cell]}))
    assert cli.main(["prose", str(notebook)]) == 1
    assert "cell c: 3.2 ms: … Reads take 3.2 ms. …" in capsys.readouterr().out
    notebook.write_text(json.dumps({"cells": [cell | {"source": "Reads are quick."}]}))
    assert cli.main(["prose", str(notebook)]) == 0


def test_tables_stay_as_they_were_for_readers_of_files(bare_project):
    """The notes of a page are next to its tables, not in them."""
    write_file_size(bare_project)
    facts_of(bare_project, {"file_size": show_file_size})
    notes = json.loads((bare_project / "reports/embedded/file_size/overview.json").read_text())
    assert set(notes) == {
        "figures",
        "comparisons",
        "findings",
        "calibration",
        "weak",
        "lints",
        "outliers",
        "steady",
        "failures",
        "tails",
    }
    assert pl.read_csv(bare_project / "reports/embedded/file_size/tables/estimates.csv").height > 20
