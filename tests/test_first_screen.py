"""The first screen: one sentence per family with figure, interval, n and verdict; a table of metrics; all studies."""

import copy
import html
import json
import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import browser
import first_pages
import polars as pl
import pytest
from conftest import as_project
from log_fixture import LogTables, levels_of
from test_overview import declared, facts_of, show_file_size, show_others
from tidy_fixture import Tables, write_file_size, write_fio

from benchstudy.families.file_size.page import wording as words_of_files
from benchstudy.families.http_concurrency.page import wording as words_of_servers
from benchstudy.families.log_write.page import wording as words_of_logs
from benchstudy.model.criteria import DENSITY_FEWEST
from benchstudy.model.study import Thresholds
from benchstudy.report import pagetemplates
from benchstudy.report.comparisons import findings, wording
from benchstudy.report.exhibits.exhibits import Exhibits, show
from benchstudy.report.figures.axes import Axis, ratio_ticks
from benchstudy.report.figures.panels import strip_panel
from benchstudy.report.figures.styles import Style
from benchstudy.report.overview import citing, primarytable
from benchstudy.report.overview.headlines import headline, meanings
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.study.studyfacts import FamilyFacts
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.statistics.comparisons import Arm, Comparison, Evidence, Refusal, Verdict
from benchstudy.statistics.densities import outline


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with the pages of two families, and the facts about its study."""
    root = as_project(tmp_path_factory.mktemp("project"))
    with chdir(root):
        write_file_size(root, hostile=False)
        write_fio(root)
        yield root, facts_of(root, {"file_size": show_file_size, "fio": show_others})


@pytest.fixture(scope="module")
def facts(made):
    return made[1]


ASIDE = "Separately, ways of measuring were compared: 1 worse."


def found(**changes):
    """One comparison in a page's notes."""
    whole = {
        "metric": "duration", "title": "Time of one file", "unit": "s", "better": "lower", "level": "sshfs",
        "against": "local", "base_level": "local", "where": "to write 100 MB", "target": "here", "case": "a",
        "base_target": "here", "base_case": "b", "verdict": "worse", "why": "", "refusal": None, "ratio": 5.0,
        "low": 4.1, "high": 6.2, "median": 0.5, "base_median": 0.1, "n": 6, "base_n": 6, "paired": True,
        "margin": 0.05, "strength": 3.0, "basis": "", "warnings": [],
    }  # fmt: skip
    return whole | changes


def measured(facts, *listed):
    """These comparisons, as if they were about cases of the first family."""
    shown = facts.families[0].shown
    cases = dict(reversed(shown.anchors))  # the first one of each target
    on = {"here": shown.targets[0]}
    each = [one | {side: on.get(one[side], one[side]) for side in ("target", "base_target")} for one in listed]
    return [one | {"case": cases[one["target"]], "base_case": cases[one["base_target"]]} for one in each]


def said(facts, **calls):
    """The sentence about the first family of a study whose page noted these comparisons, by its function."""
    notes = {name: {"aside": name == "aside", "found": measured(facts, *listed)} for name, listed in calls.items()}
    made = headline(replace(facts.families[0], notes={"findings": notes, "comparisons": {name: {} for name in calls}}))
    return f"{made.before}{made.number}{made.after}{f': {made.verdict}' if made.verdict else ''}.", made


# -- the sentences -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_sentence_says_which_number_which_interval_how_many_trials_and_the_verdict(facts):
    sentence, made = said(facts, backends=[found()])
    assert sentence == (
        "sshfs takes 5.0× as long as local to write 100 MB (time of one file; 95 %: 4.1–6.2×, n = 6 pairs): worse."
    )
    assert made.detail == "Margin: 5 %. 1 comparison by primary metrics: 1 worse."
    assert [median for median, _ in made.medians] == ["500 ms", "100 ms"]
    assert all("file_size.html#case-" in href for _, href in made.medians), "how do you know? its trials say"
    assert made.href.endswith("file_size.html#table-backends")


@pytest.mark.long
def test_a_sentence_about_trials_that_did_not_fail_says_how_many_failed(facts):
    _, made = said(facts, backends=[found(warnings=["all values of x are equal", "6 of 12 trials of sshfs failed"])])
    assert "Margin: 5 %. All values of x are equal. 6 of 12 trials of sshfs failed. 1 comparison" in made.detail


def test_a_sentence_of_a_study_of_several_targets_says_on_which_one(tmp_path):
    tables = Tables(tmp_path, "embedded", "file_size")
    for target in ("laptop", "server"):
        tables.add({"backend": "local"}, 1, {"duration": (0.1, "s")}, target=target)
    results = tables.results()
    ((_, case), *_) = results.anchors
    compared = found(target="server", case=case, base_target="laptop", base_case=case)
    notes = {"findings": {"x": {"aside": False, "found": [compared]}}}
    made = headline(FamilyFacts("file_size", results, notes, tmp_path))
    anchors = [results.anchors[target, case] for target in ("server", "laptop")]
    assert [href.partition("#")[2] for _, href in made.medians] == anchors
    assert made.after.startswith(" as long as local to write 100 MB on server (time of one file; ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"unit": "1/s", "title": "Reads per second"},
            "sshfs reaches 5.0× the rate of local to write 100 MB (reads per",
        ),
        ({"unit": "B", "title": "Peak memory"}, "sshfs has 5.0× the peak memory of local to write 100 MB (peak memory"),
        ({"base_n": 5, "paired": False}, "4.1–6.2×, n = 6 against 5)"),
        (
            {"unit": "1/s", "title": "QPS", "ratio": 0.01528, "low": 0.0144, "high": 0.0162},
            "sshfs reaches 1.53 % of the rate of local to write 100 MB (QPS; 95 %: 1.44–1.62 %, n = 6 pairs): worse.",
        ),
        (
            {"ratio": 0.04, "low": 0.0312, "high": 0.0526},
            "sshfs takes 4 % of the time of local to write 100 MB (time of one file; 95 %: 3.1–5.3 %, n = 6 pairs)",
        ),
        ({"unit": "B", "title": "Memory", "ratio": 0.04, "low": 0.03, "high": 0.05}, " % of the memory of local to"),
        (
            {"verdict": "equivalent", "ratio": 1.0, "low": 0.98, "high": 1.02, "title": "QPS"},
            "sshfs and local are equal within 5 % to write 100 MB: "
            "1.00× (QPS; 95 %: 0.980–1.02×, n = 6 pairs): equivalent.",
        ),
    ],
)
def test_a_sentence_suits_its_metric_and_its_verdict(facts, changes, words):
    assert words in said(facts, backends=[found(**changes)])[0]


def test_a_level_that_is_no_name_begins_a_sentence_with_a_capital(facts):
    assert said(facts, backends=[found(level="a synced write")])[0].startswith("A synced write takes 5.0× as long as")
    numbered = found(level=wording.of("file_size").name("size", "9"))
    assert said(facts, backends=[numbered])[0].startswith("Size 9 takes 5.0× as long as")


def test_the_strongest_difference_is_told_before_any_equivalence_and_no_aside(facts):
    weaker, equal = found(level="s3", strength=2.0), found(level="nfs", verdict="equivalent", strength=9.0)
    aside = found(level="with-latencies", strength=50.0)
    sentence, made = said(facts, fsync=[weaker, equal], backends=[found()], aside=[aside])
    assert sentence.startswith("sshfs takes")
    counted = f"3 comparisons by primary metrics: 2 worse and 1 equivalent. {ASIDE}"
    assert made.detail.endswith(f" Chosen as the most certain difference of {counted}")
    assert "Chosen as the only difference of 2 comp" in said(facts, backends=[found(), equal])[1].detail
    assert said(facts, fsync=[equal], aside=[aside])[0].startswith("nfs and local are equal")


def test_the_range_of_all_ratios_follows_the_sentence_by_what_is_compared_with_what(facts):
    unknown = found(verdict="none", ratio=9.0, refusal="conditions", strength=0.0)
    judged = [found(), found(ratio=0.5, low=0.41, high=0.62, verdict="better", strength=1.0), unknown]
    other = found(level="s3", ratio=1.02, low=0.914, high=1.17, verdict="inconclusive", strength=0.0)
    refused = found(level="nfs", verdict="none", ratio=None, why="another tool", strength=0.0)
    made = said(facts, backends=[*judged, other, refused], aside=[found(level="with-latencies")])[1]
    assert [(pair.compared, pair.lowest[0], pair.highest[0], pair.verdicts) for pair in made.ratios] == [
        ("sshfs against local", "0.50×", "5.0×", "1 better, 1 worse and 1 without a verdict"),
        ("s3 against local", "1.02×", "", "1 inconclusive"),
        ("nfs against local", "–", "", "1 without a verdict"),
    ]
    assert made.ratios[2].lowest[1] == "another tool"
    assert made.ratios[0].highest[1] == "to write 100 MB; 95 %: 4.1–6.2×, n = 6 pairs", "where, how sure, how many"
    assert made.ratios[1].lowest[1] == "to write 100 MB; 95 %: 0.914–1.17×, n = 6 pairs"
    page, _, trials = made.ratios[0].lowest[2].partition("#")
    assert page.endswith("/file_size.html") and trials in facts.families[0].shown.anchors.values()
    assert not said(facts, backends=[found()])[1].ratios, "the sentence has told it"
    rate = found(metric="qps", title="QPS", unit="1/s", ratio=0.2, strength=1.0)
    assert said(facts, backends=[*judged, rate])[1].ratios[1].compared == "sshfs against local, QPS"
    many = [found(level=f"s{number}", strength=1.0) for number in range(7)]
    several = said(facts, backends=[found(), *many])[1]
    assert (len(several.ratios), several.more_ratios) == (4, 4)


def test_the_most_certain_equivalence_is_the_one_that_its_explanation_describes(facts):
    """One interval is narrower than the other, and nearer to the edge of the margin."""
    arm, alike = Arm("local", "s", (1.0, 2.0)), []
    for level, low, high in (("narrow", 1.02, 1.03), ("central", 0.98, 1.02)):
        evidence = Evidence(low, high, 1.0, 0.01, 0.1)
        made = Comparison(arm, arm, 0.05, "lower", ratio=1.0, evidence=evidence, verdict=Verdict.EQUIVALENT)
        told = {"verdict": "equivalent", "ratio": 1.0, "low": low, "high": high, "strength": findings.strength(made)}
        alike.append(found(level=level, **told))
    assert said(facts, backends=alike)[0].startswith("central and local are equal")
    notes = {"findings": {"backends": {"aside": False, "found": alike}}}
    legend = " ".join(meanings([replace(facts.families[0], notes=notes)]))
    assert "equivalence is the one whose interval stays nearest to a ratio of 1" in legend


def test_pairs_without_a_verdict_for_several_reasons_give_the_most_frequent_one_and_how_often_it_holds(facts):
    set_by_study, few = (
        found(level="nfs", verdict="none", ratio=None, low=None, high=None, why=why, strength=0.0)
        for why in ("both achieved the offered rate", "n too small: 1 against 1; 3 trials are needed")
    )
    several, one = (said(facts, backends=listed)[1].ratios[0] for listed in ([set_by_study, few, few], [few, few]))
    assert several.lowest[:2] == ("–", f"{few['why']} (2 of 3)")
    assert one.lowest[:2] == ("–", few["why"]), "it holds for all of them"
    refused = {"verdict": "none", "ratio": None, "low": None, "high": None, "strength": 0.0}
    disturbed = [found(why=f"disturbed in trial {n}", refusal=Refusal.DISTURBED, **refused) for n in range(2)]
    (mixed,) = said(facts, backends=[*disturbed, found(why="another tool", refusal=None, **refused)])[1].ratios
    assert mixed.lowest[1] == "withheld because of disturbed trials, which the page's table names (2 of 3)"
    (alone,) = said(facts, backends=[disturbed[0], disturbed[0]])[1].ratios
    assert alone.lowest[1] == "disturbed in trial 0", "the same trials are named"


def test_reasons_are_folded_if_no_pair_has_a_ratio(made):
    path = made[0] / "reports" / "embedded" / "file_size" / "overview.json"
    whole = path.read_text(encoding="utf-8")
    notes = json.loads(whole)
    shown = ("All comparisons, by what is compared", "The reasons, by what is compared")
    index = made[0] / "reports" / "embedded" / "index.html"
    build(*made)
    assert [said in index.read_text(encoding="utf-8") for said in shown] == [True, False]
    for noted in notes["findings"].values():
        noted["found"] = [one | {"verdict": "none", "ratio": None, "low": None, "high": None} for one in noted["found"]]
    path.write_text(json.dumps(notes), encoding="utf-8")
    try:
        build(*made)
        page = index.read_text(encoding="utf-8")
    finally:
        path.write_text(whole, encoding="utf-8")
    assert re.search(rf'<details class="fold"><summary>{shown[1]}</summary>\s*<table class="pairs">', page)


def test_comparisons_beyond_those_that_a_page_notes_are_counted(facts):
    listed = measured(facts, found(), found(level="s3"))
    notes = {"findings": {"backends": {"aside": False, "found": listed, "others": ["worse", "none"]}}}
    made = headline(replace(facts.families[0], notes=notes | {"comparisons": {}}))
    assert "4 comparisons by primary metrics: 3 worse and 1 without a verdict." in made.detail
    assert not made.ratios, "the lowest and the highest may be among the others"


def test_without_a_difference_or_an_equivalence_the_most_precise_comparison_is_told(facts):
    wide = found(verdict="inconclusive", level="nfs", ratio=1.1, low=0.8, high=1.5, strength=0.0)
    narrow = found(verdict="inconclusive", ratio=1.04, low=0.914, high=1.17, strength=0.0)
    sentence, made = said(facts, backends=[wide, narrow], aside=[found()])
    assert sentence == (
        "sshfs takes 1.04× as long as local to write 100 MB "
        "(time of one file; 95 %: 0.914–1.17×, n = 6 pairs): inconclusive."
    )
    assert made.kind == "inconclusive" and "excludes" not in made.detail
    counted = f"2 comparisons by primary metrics: 2 inconclusive. {ASIDE}"
    assert made.detail.endswith(f" Chosen as the most precise of {counted}")
    assert said(facts, backends=[wide, narrow, found()])[0].startswith("sshfs takes 5.0×")


@pytest.mark.parametrize(
    ("better", "low", "high", "excluded"),
    [
        ("lower", 0.84, 1.04, "worse"), ("higher", 0.84, 1.04, "better"), ("lower", 0.96, 1.3, "better"),
        ("higher", 0.96, 1.3, "worse"), ("lower", 0.84, 1.06, ""), ("lower", 0.96, 1.04, ""),
    ],
)  # fmt: skip
def test_an_inconclusive_sentence_says_what_it_rules_out(facts, better, low, high, excluded):
    """A margin of 5 % is a ratio of 1.05, or of 1 / 1.05 the other way round."""
    detail = said(facts, x=[found(verdict="inconclusive", better=better, ratio=1.0, low=low, high=high)])[1].detail
    told = f"The interval excludes that sshfs is {excluded} by more than the margin."
    assert (told in detail) is bool(excluded) and ("excludes" in detail) is bool(excluded)


def test_without_an_interval_of_a_comparison_a_family_says_what_it_answers_with_interval_and_n(facts):
    undecided = found(verdict="inconclusive", low=None, high=None, strength=0.0)
    endless = {"low": 2.0, "high": None, "strength": 0.0}  # a side has a median of nearly nothing
    kinds = {said(facts, x=[found(**endless, verdict=verdict)])[1].kind for verdict in ("worse", "inconclusive")}
    assert kinds == {"none"}
    sentence, made = said(facts, backends=[undecided], aside=[found()])
    assert re.fullmatch(r"Write, local: [\d.]+ ms \(n = \d+, 95 %: [\d.–]+ ms.*\)\.", sentence.replace("\u2060", ""))
    assert made.verdict == "" and made.detail == f"1 comparison by primary metrics: 1 inconclusive. {ASIDE}"
    assert said(facts, aside=[found()])[1].detail == f"No cases were compared with one another. {ASIDE}"
    _, made = said(facts, b=[found(verdict="none", ratio=None)])
    assert "None of 1 comparison by primary metrics has a verdict." in made.detail


def test_every_family_of_a_real_study_has_its_sentence(facts):
    sentences = {made.family: made for made in StudyIndex(facts).headlines}
    files = sentences["file_size"]
    assert files.verdict in ("better", "worse") and files.number.endswith("×")
    assert re.search(r" as long as .+\(time; 95 %: .+, n = \d+ pairs\)$", files.after)
    assert sentences["fio"].before == "Its page gives no answer"


def test_families_say_under_which_circumstances_in_words():
    assert words_of_files.setting({"op": "write", "size": "100MB", "sync": "fsync"}) == "to write 100 MB with fsync"
    assert words_of_files.setting({"op": "read", "size": "1MB", "backend": "s3"}) == "to read 1 MB on s3"
    load = {"endpoint": "list", "concurrency": "20", "generator": "ab", "limits": "1-core"}
    assert words_of_servers.setting(load) == "for list with 20 connections of ab, limited to 1-core"
    assert words_of_servers.setting({"concurrency": "1"}) == "for all requests with 1 connection"
    assert words_of_servers.setting({"endpoint": "list", "rate": "100-per-s"}) == "for list at 100/s"
    assert words_of_servers.setting({"endpoint": "list", "limits": "none"}) == "for list, without limits"
    assert words_of_servers.setting({"endpoint": "list", "limits": "unknown"}) == "for list, limits unknown"
    log = {"rate": "2000-per-s", "antispam": "no"}
    assert words_of_logs.setting(log) == "at 2,000/s offered, without deduplication"
    assert wording.of("command").name("block_size", "9") == "block size 9"  # "9" alone says nothing


# -- the table ---------------------------------------------------------------------------------------------------------


def test_every_primary_metric_of_every_case_is_a_row_that_leads_to_its_trials(facts):
    rows, total = primarytable.rows(facts.families)
    each = [family.results.estimates(m) for family in facts.families for m in family.results.primary_metrics]
    assert total == len(rows) == sum(bool(estimate.unit) for of_metric in each for estimate in of_metric)
    assert all(re.search(r"\.html#case-", row.href) for row in rows)
    compared = [row for row in rows if row.compared]
    assert compared and all(one["verdict"] for row in compared for one in row.compared)


def test_a_capacity_that_is_only_a_lower_bound_says_so_beside_its_number_of_trials(tmp_path):
    tables = LogTables(tmp_path)
    for block in range(1, 7):
        ends = {1: None, 2: (500.0, None)}.get(block, (500.0, 550.0))
        tables.opened(levels_of("posix", "no", "open", "search"), block, 500.0, 900.0, search=ends)
    rows, _ = primarytable.rows([FamilyFacts("log_write", tables.results(), {}, tmp_path)])
    told = {row.metric: (row.n, row.failed) for row in rows}
    assert told["Capacity"] == (5, "no capacity found (1 of 6); nothing failed above it (1 of 6)")
    assert told["QPS"] == (6, "")


@pytest.mark.parametrize(("refusal", "told"), [(Refusal.SET, "both took the rate"), (Refusal.UNFIT, "no verdict")])
def test_a_pair_whose_ratio_the_study_sets_says_so_in_place_of_a_verdict_and_is_no_sentence(facts, refusal, told):
    family = facts.families[0]
    here = {"target": family.results.targets[0], "case": family.results.estimates("duration")[0].case}
    one = found(**here, verdict="none", ratio=None, low=None, high=None, refusal=refusal, why="both took the rate")
    noted = replace(family, notes={"findings": {"x": {"aside": False, "found": [one]}}})
    assert [c["verdict"] for row in primarytable.rows([noted])[0] for c in row.compared] == [told]
    assert headline(noted).kind == "none"
    assert "None of 1 comparison by primary metrics has a verdict." in headline(noted).detail


@pytest.mark.parametrize(("evidence", "shown"), [("n = 1", 2), ("no verdict: " + "much to say; " * 10, 1)])
def test_a_second_answer_stands_beside_the_first_only_if_its_evidence_is_short(facts, tmp_path, evidence, shown):
    answers = [
        {"what": "Supported users", "lines": [{"name": "base", "value": "102", "evidence": "one trial"}]},
        {"what": "Store times", "lines": [{"name": "base", "value": "5 ms", "evidence": evidence}]},
    ]
    (tmp_path / "answer.json").write_text(json.dumps(answers), encoding="utf-8")
    told = headline(replace(facts.families[0], exports=tmp_path, notes={}))
    assert (told.number, told.after.startswith(" (one trial)")) == ("102", True)
    assert ("store times, base: 5 ms" in told.after.lower()) is (shown == 2)


def test_a_table_of_too_many_rows_shows_some_of_each_family_and_says_so(facts, monkeypatch):
    monkeypatch.setattr(primarytable, "MOST_ROWS", 20)
    rows, total = primarytable.rows(facts.families)
    assert len(rows) == 20 < total and len({row.family for row in rows}) == 2
    assert StudyIndex(facts).context()["more_primary"] == total - 20


def first_page(facts, wanted):
    """The first page with the wanted rows of primary metrics only."""
    context = StudyIndex(facts).context() | {"citing": ""}
    context["primary"] = [row for row in context["primary"] if wanted(row)]
    shown = pagetemplates.render("index.html.j2", study=context, style="", script="")
    assert shown.count("<tr data-verdicts=") == len(context["primary"]) != 1
    return shown


@pytest.mark.parametrize("several", [True, False])
def test_the_table_names_families_only_if_there_are_several(facts, several):
    shown = first_page(facts, lambda row: several or row.family == "Files by size")
    assert ('<th scope="col">Family</th>' in shown, "<td>Files by size</td>" in shown) == (several, several)


@pytest.mark.parametrize("several", [True, False])
def test_the_table_has_a_column_of_metrics_only_if_there_are_several(facts, several):
    shown = first_page(facts, lambda row: several or row.metric == "Time of one file")
    assert ('<th scope="col">Metric</th>' in shown, "<td>Time of one file</td>" in shown) == (several, several)
    assert ("All cases were measured for one metric, time of one file." in shown) is not several


def test_the_table_compares_only_if_something_was_compared_and_says_that_it_is_empty(facts):
    page = first_page(facts, lambda row: not row.compared)
    plain = page[page.index('<h2 id="metrics">') : page.index('<h2 id="results">')]
    assert "<td>Time of one file</td>" in plain and '<form class="filter"' in plain
    assert not re.search("ratio|verdict<", plain, re.I)
    empty = first_page(facts, lambda row: False)
    assert "No trial gave a primary metric." in empty and '<table class="primary"' not in empty


SORTED = """
  const table = document.querySelector("table.primary"), [words, verdict] = document.querySelector(".filter").elements;
  const all = table.tBodies[0].rows.length;
  const values = () => [...table.tBodies[0].rows].map((r) => r.cells[3].dataset.value);
  const pressed = [...table.tHead.querySelectorAll("button")][3];
  pressed.click();
  const up = values().filter(Boolean).map(Number);
  pressed.click();
  const down = values().filter(Boolean).map(Number);
  words.value = "files s3"; verdict.value = "worse";
  words.dispatchEvent(new window.Event("input", { bubbles: true }));
  const shown = [...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.textContent.toLowerCase());
  return { all, up, down, shown, said: document.querySelector(".filter output").textContent };
"""


def test_the_table_can_be_sorted_and_filtered_and_is_whole_without_scripts(made):
    build(*made)
    index = made[0] / "reports" / "embedded" / "index.html"
    seen = browser.ask(index, SORTED, width=1440)
    assert seen["up"] == sorted(seen["up"]) and seen["down"] == sorted(seen["up"], reverse=True)
    assert 0 < len(seen["shown"]) < seen["all"] and seen["said"].startswith(f"{len(seen['shown'])} of {seen['all']}")
    assert all("files" in text and "s3" in text and "worse" in text for text in seen["shown"])
    plain = index.read_text(encoding="utf-8")
    assert '<form class="filter" hidden>' in plain and plain.count("<tr data-verdicts=") == seen["all"]


def test_pairs_with_one_ratio_each_have_no_column_of_highest_ratios(made):
    path = made[0] / "reports" / "embedded" / "file_size" / "overview.json"
    whole = path.read_text(encoding="utf-8")
    notes = json.loads(whole)

    def headings() -> list[list[str]]:
        build(*made)
        page = (made[0] / "reports" / "embedded" / "index.html").read_text(encoding="utf-8")
        tables = re.findall(r'<table class="pairs">.*?</table>', page, re.S)
        for table in tables:
            columns = table.count('scope="col"')
            assert all(
                row.count("<td") == columns - 1 for row in re.findall(r"<tr><th scope=.row.*?</tr>", table, re.S)
            )
        return [re.findall(r'<th scope="col">([^<]+)', table) for table in tables]

    assert headings()[0] == ["Compared", "Lowest ratio", "Highest ratio", "Verdicts"]
    for finding in notes["findings"].values():
        finding["found"] = list({(one["metric"], one["level"]): one for one in finding["found"]}.values())
    path.write_text(json.dumps(notes), encoding="utf-8")
    try:
        assert headings()[0] == ["Compared", "Ratio", "Verdicts"]
    finally:
        path.write_text(whole, encoding="utf-8")


@pytest.mark.parametrize(
    ("verdict", "refusal", "told"), [("inconclusive", None, False), ("none", Refusal.DISTURBED, True)]
)
def test_verdicts_are_called_withheld_only_if_disturbed_trials_took_one(facts, verdict, refusal, told):
    made = said(facts, sizes=[found(verdict=verdict, low=None, high=None, refusal=refusal)])[1]
    assert ("1 is withheld, because other work disturbed trials" in made.detail) is told


# -- what stands below a sentence --------------------------------------------------------------------------------------


def shown_first(page):
    """The text of the first screen: everything above the table of primary metrics."""
    return html.unescape(re.sub(r"<[^>]+>", " ", page[page.index('id="found"') : page.index('id="metrics"')]))


def test_the_first_screen_has_the_first_answers_of_each_page(facts, tmp_path):
    lines = [[{"name": "local", "value": f"{size} ms", "evidence": "n = 6"}] for size in range(9)]
    answers = [{"what": f"Reads of {size}", "lines": lines[size], "note": ""} for size in range(9)]
    (tmp_path / "answer.json").write_text(json.dumps(answers), encoding="utf-8")
    family = replace(facts.families[0], exports=tmp_path, notes={})
    alone = copy.copy(facts)
    alone.families = [family]
    first = shown_first(first_page(alone, lambda row: True))
    assert [first.count(f"Reads of {size}") for size in range(9)] == [1] * 8 + [0]
    assert "1 more answer " in first and "reads of 1, local" not in first, "a sentence would repeat answers"
    assert headline(family).before == "Reads of 0, local: ", "for places without room for answers"
    alone.families = [family, *facts.families[1:]]
    first = shown_first(first_page(alone, lambda row: True))
    assert [first.count(f"Reads of {size}") for size in range(6)] == [1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("drifting", [0, 1])
def test_the_first_screen_explains_a_missing_steady_state_only_if_a_case_misses_it(facts, drifting):
    first, *others = facts.families
    cases = first.results.cases.select("target", "case").rows()[:drifting]
    steady = {"looked_at": 1, "cases": cases, "unseen": [], "rule": "a trend"}
    marked = copy.copy(facts)
    marked.families = [replace(first, notes={"steady": {first.name: steady}}), *(replace(o, notes={}) for o in others)]
    told = "Not steady means that the trials of a case still changed or varied"
    assert (told in shown_first(first_page(marked, lambda row: True))) is bool(drifting)


def test_the_first_screen_says_how_far_equal_cases_differ_and_which_checks_are_open(facts):
    told = "A/A: 9.9 and 9.9-again are the same case under two names."
    family = replace(facts.families[0], notes={"calibration": {"a": {"said": [told], "withheld": [], "cases": []}}})
    with_twins = copy.copy(facts)
    with_twins.families = [family, *facts.families[1:]]
    page = first_page(with_twins, lambda row: True)
    first = shown_first(page)
    assert first.count(told) == 1
    open_ones = [a for a in StudyIndex(with_twins).context()["checklist"] if a["status"] == "not satisfied"]
    assert open_ones and "; ".join(one["title"] for one in open_ones) in first


# -- all studies -------------------------------------------------------------------------------------------------------


def build(project: Path, facts, study: str = "embedded", **more: object) -> None:
    tidy = {family.name: project / "data" / "tidy" / "embedded" / family.name for family in facts.families}
    sessions = list((project / "data" / "raw").rglob("session.json"))
    stated = declared(tuple(tidy), study=study, title=f"Title of {study}", question="Which is faster?", **more)
    first_pages.build(stated, tidy=tidy, sessions=sessions, reports=project / "reports")


def test_one_study_is_the_first_page_and_several_are_listed_with_what_each_found(made):
    reports = made[0] / "reports"
    build(*made)
    first = reports / "index.html"
    assert "<h1>Title of embedded</h1>" in first.read_text(encoding="utf-8")
    build(*made, study="second")
    page = first.read_text(encoding="utf-8")
    named = re.findall(r'<h2><a href="([^"]+)">([^<]+)</a></h2>', page)
    assert sorted(named) == [
        ("./embedded/index.html", "Title of embedded"), ("./second/index.html", "Title of second"),
    ]  # fmt: skip
    of_first = page[page.index('id="study-embedded"') :]
    assert "measured 2026-11-20" in of_first and re.search(r"\d+ trials, \d+ failed; \d+ of 30 checks", of_first)
    table = r'href="\./embedded/file_size\.html#table-backends">'
    assert re.search(rf"<strong><a {table}[\d.,]+×</a></strong>", of_first)
    assert "<h1>Title of embedded</h1>" in (reports / "embedded" / "index.html").read_text(encoding="utf-8")


def test_studies_whose_pages_another_version_made_are_listed(made):
    reports = made[0] / "reports"
    build(*made, study="other-version")
    path = reports / "other-version" / "study.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["headlines"][0] |= {"pairs": ["sshfs against local: 5.0×"], "of_the_future": 1}
    del told["headlines"][1]["detail"]
    path.write_text(json.dumps(told), encoding="utf-8")
    build(*made, study="this-version")
    page = (reports / "index.html").read_text(encoding="utf-8")
    of_it = page[page.index('id="study-other-version"') :]
    assert told["headlines"][0]["number"] in of_it and 'class="pairs"' not in page


@pytest.mark.fault(36)
def test_another_study_that_is_damaged_or_has_lost_its_page_keeps_no_study_from_its_report(made):
    reports = made[0] / "reports"
    build(*made, study="damaged")
    build(*made, study="gone")
    summary = reports / "damaged" / "study.json"
    summary.write_bytes(summary.read_bytes()[:10])
    (reports / "gone" / "index.html").unlink()
    build(*made, study="whole")
    page = (reports / "index.html").read_text(encoding="utf-8")
    of_it = page[page.index('id="study-damaged"') :]
    assert "study.json is damaged, and the next report of this study makes it again." in of_it
    assert 'id="study-whole"' in page and 'id="study-gone"' not in page
    for study in ("damaged", "gone"):  # other tests list the studies, too
        shutil.rmtree(reports / study)


def test_the_page_and_the_archive_of_a_study_do_not_depend_on_the_other_studies_of_the_project(made):
    reports = made[0] / "reports"
    build(*made, study="alone")
    before = [(reports / name).read_bytes() for name in ("alone/index.html", "alone.zip")]
    build(*made, study="another")
    build(*made, study="alone")
    assert [(reports / name).read_bytes() for name in ("alone/index.html", "alone.zip")] == before
    assert b"../another" not in before[0], "a link out of the archive"


def test_what_differs_from_the_page_that_a_study_repeats_stands_above_all_findings(made):
    repeats = {"title": "Files <fast>", "url": "https://example.org/page", "differs": ["It has `fsync`.", "It has n."]}
    build(*made, repeats=repeats)
    page = (made[0] / "reports" / "embedded" / "index.html").read_text(encoding="utf-8")
    top = page[: page.index('<h2 id="found">')]
    assert '<a href="https://example.org/page">Files &lt;fast&gt;</a>' in top
    assert "<li>It has <code>fsync</code>.</li>" in top and "<li>It has n.</li>" in top
    build(*made, repeats={**repeats, "differs": []})
    assert "differs" not in (made[0] / "reports" / "embedded" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_first_page_explains_the_words_for_the_verdicts_that_it_has(facts, verdict):
    noted = replace(facts.families[0], notes={"findings": {"x": {"aside": False, "found": [found(verdict=verdict)]}}})
    legend = " ".join(meanings([noted])).lower()
    explained = {word for word in Verdict if word.counted in legend}
    assert explained == ({Verdict.BETTER, Verdict.WORSE} if verdict.is_difference else {verdict})
    (count,) = meanings([replace(noted, notes={})])
    assert count.startswith("n is the number of trials or of their pairs, and 95 % marks the interval")


# -- what is folded ----------------------------------------------------------------------------------------------------


def test_what_is_folded_is_there_behind_its_summary(bare_project, capsys, displayed):
    page = Exhibits(study="embedded", output="reports/embedded/fio")
    with page.folded("Bytes <per> second"):
        show("<p>one</p>")
        with page.folded("Nothing"):
            pass
    assert displayed == ['<details class="fold"><summary>Bytes &lt;per&gt; second</summary><p>one</p></details>']
    with page.folded("Cold and warm reads"):
        page.nothing("No trial gave a figure.")
    assert displayed[1:] == ['<p class="none">No trial gave a figure.</p>'], "the reader need not open it"


def test_figures_that_repeat_each_other_for_many_cases_are_folded_after_the_first_ones(bare_project, displayed):
    page = Exhibits(study="embedded", output="reports/embedded/load_test")
    style = Style(("a",))
    points = pl.DataFrame({"series": ["a", "a"], "trial": ["t", "t"], "x": [1.0, 2.0], "y": [1.0, 1.0]})
    medians = pl.DataFrame({"series": ["a"], "x": [1.5], "low": [1.2], "high": [1.8]})
    panel = strip_panel("Time", points, medians, Axis("Time", "s"), style)

    def figures(*names):
        return [(name, f"Of {name}", [panel], style, []) for name in names]

    page.show_groups((f"Load <{name}>", figures(name)) for name in "abcdef")
    headings, folds = (re.findall(f"<{tag}>(Load.*?)</{tag}>", "".join(displayed)) for tag in ("h3", "summary"))
    assert headings == [f"Load &lt;{name}&gt;" for name in "abcd"] and folds == ["Load &lt;e&gt;", "Load &lt;f&gt;"]
    displayed.clear()
    page.show_figures(figures("x", "y", "z"), most=1, others="The others")
    first, fold = displayed
    assert "Of x" in first and fold.startswith('<details class="fold"><summary>The others</summary>')
    assert "Of y" in fold and "Of z" in fold


def test_a_table_without_any_verdict_is_folded_and_one_with_a_verdict_is_not():
    none, worse = (
        Cell((text,), kind=f"{kind} verdict") for text, kind in (("no verdict", "missing"), ("worse", "text"))
    )

    def table(*cells):
        return Table("t", "T", ("A", "Verdict"), tuple((Cell.text("a"), cell) for cell in cells))

    assert table(none, none).is_undecided
    assert not table(none, worse).is_undecided and not table(Cell.text("1")).is_undecided


# -- figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "least"),
    [(0.9, 1.2, 4), (0.48, 2.4, 5), (0.5, 15, 5), (0.9, 130, 6), (0.02, 20, 5), (1e-3, 1e3, 5)],
)
def test_an_axis_of_ratios_has_ticks_enough_to_read_it(low, high, least):
    ticks = ratio_ticks(low, high)
    assert 1.0 in ticks and least <= len(ticks) <= 9 and low <= min(ticks) and max(ticks) <= high


@pytest.mark.parametrize("log", [False, True])
def test_an_outline_peaks_where_the_sample_is_dense(log):
    drawn = outline([1.0, 1.1, 1.05, 1.02, 1.08, 3.0], log)
    assert max(height for _, height in drawn) == pytest.approx(1.0)
    assert max(drawn, key=lambda place: place[1])[0] == pytest.approx(1.05, abs=0.15)
    assert (drawn[0][0], drawn[-1][0]) == pytest.approx((1.0, 3.0)), "over the range of the sample"
    assert outline([2.0, 2.0], log) == [] == outline([1.0], log) and outline([], log) == []


@pytest.mark.parametrize("size", [0.0, 1000.0, -1000.0])
def test_a_spread_in_the_tenth_digit_has_no_outline(size):
    """Of values near zero, the digit is that of 1: less is rounding on any scale of a drawing."""
    digit = 1e-9 * max(abs(size), 1.0)
    assert outline([size, size + 0.8 * digit]) == []
    assert outline([size, size + 1.2 * digit]) != []


def test_two_studies_lie_over_one_another_in_one_row():
    rows = [
        {"place": place, "series": series, "x": 1.0 + i, "y": 1.0, "trial": f"{place}{series}{i}"}
        for place in "ab"
        for series in ("old", "new")
        for i in range(DENSITY_FEWEST)
    ]
    medians = pl.DataFrame({"place": ["a"], "series": ["new"], "x": [5.0], "low": [4.0], "high": [6.0]})
    style = Style(("old", "new"))
    spec = strip_panel("Strip", pl.DataFrame(rows), medians, Axis("Value", "1"), style).spec(300)
    (area,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "area"]
    assert {(row["series"], row["row"] > 0) for row in spec["datasets"][area["data"]["name"]]} == {
        ("old", False), ("new", False), ("old", True), ("new", True),
    }  # fmt: skip
    (points,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    rows = {(row["place"], row["series"]): row["row"] for row in spec["datasets"][points["data"]["name"]]}
    assert rows["a", "old"] < rows["a", "new"] < rows["b", "old"] < rows["b", "new"]


@pytest.mark.parametrize("trials", [DENSITY_FEWEST - 1, DENSITY_FEWEST])
def test_a_strip_has_densities_where_there_are_trials_enough(trials):
    rows = [
        {"series": s, "x": 1.0 + i / trials, "y": 1.0, "trial": f"{s}{i}"} for s in ("a", "b") for i in range(trials)
    ]
    points = pl.DataFrame([row for row in rows if row["series"] == "a" or int(row["trial"][1:]) < 5])
    medians = pl.DataFrame({"series": ["a", "b"], "x": [1.5, 1.1], "low": [1.2, None], "high": [1.8, None]})
    spec = strip_panel("Strip", points, medians, Axis("Value", "1", log=False), Style(("a", "b"))).spec(300)
    areas = [layer for layer in spec["layer"] if layer["mark"]["type"] == "area"]
    assert len(areas) == (trials >= DENSITY_FEWEST)
    drawn = [row for area in areas for row in spec["datasets"][area["data"]["name"]]]
    assert {row["series"] for row in drawn} <= {"a"} and all(row["upper"] < row["row"] < 0 for row in drawn)


def test_methods_name_only_the_margin_that_decided(facts):
    with_another = copy.copy(facts)
    thresholds = Thresholds.model_validate({"margin": "5%", "margins": {"fio/iops": "40%"}})
    with_another.study = facts.study.model_copy(update={"thresholds": thresholds})
    assert "lies wholly beyond the margin of 5 %, and" in citing.of_study(with_another).markdown()


def test_methods_count_trials_that_failed(bare_project):
    tables = Tables(bare_project, "embedded", "fio")
    for block in (1, 2):
        tables.add({"job": "read"}, block, {"iops": (100.0, "1/s")}, status="ok" if block == 1 else "failed")
    tables.write()
    text = citing.of_study(facts_of(bare_project, {"fio": show_others})).markdown()
    assert "(2 trials; 1 failed, and the pages report each failure)" in text


def test_methods_say_that_verdicts_are_adjusted(facts):
    """An interval beyond the margin can be inconclusive, because the comparisons of a table are judged together."""
    assert "[3], both after this adjustment." in "".join(citing.of_study(facts).numbered)
