"""What the page of write tests says, from tidy tables with known values and from real outputs."""

import json
import re
import shutil
from pathlib import Path

import pytest
from log_fixture import CAPACITY, DECLARED, LogTables, levels_of, write_log
from test_disturbed import SEEN
from tidy_fixture import Tables

from benchstudy.families.log_write.family import FAMILY
from benchstudy.families.log_write.hammer import parse_box
from benchstudy.families.log_write.page.capacity import LogCapacity
from benchstudy.families.log_write.page.figures import AS_OFFERED, LogFigures
from benchstudy.families.log_write.page.hammer import LogHammer
from benchstudy.families.log_write.page.limits import REST
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.families.log_write.page.published import LogPublished
from benchstudy.families.log_write.page.summary import LogSummary
from benchstudy.families.log_write.page.tables import LogTables as Drawn
from benchstudy.model import paths
from benchstudy.report.comparisons import findings, verdicts, wording
from benchstudy.report.comparisons.comparison import Comparisons
from benchstudy.report.exhibits.exhibits import Exhibits
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results

CAPTURED = Path(__file__).parent / "data" / "tessera"
BLOCK = DECLARED["families"]["log_write"]


def load_of(tidy: Path, declared=BLOCK) -> LogWrite:
    return LogWrite(Results(tidy, study="embedded", family="log_write"), declared)


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> LogWrite:
    return load_of(write_log(tmp_path_factory.mktemp("project")))


def row(table, *names: str):
    """The one row whose first texts contain all of the names."""
    found = [r for r in table.rows if all(name in " ".join(c.lines[0] for c in r[:4]) for name in names)]
    assert len(found) == 1, (names, [r[0].lines for r in table.rows])
    return dict(zip(table.columns, found[0], strict=True))


def said(cell) -> str:
    return " | ".join(cell.all_lines)


# -- the answer ----------------------------------------------------------------------------------------


def test_the_answer_is_the_capacity_where_it_was_searched_for_and_else_the_most(load):
    answers = {a["what"]: {line["name"]: line for line in a["lines"]} for a in LogSummary(load).answers()}
    assert list(answers) == [
        "Highest rate that meets the objective, 1-core-1GB",
        "Highest rate of leaves (per second), no limits",
        "Highest rate of leaves (per second), 1-core-1GB",
    ]
    posix = answers["Highest rate that meets the objective, 1-core-1GB"]["POSIX, local disk · no dedup"]
    assert posix["value"] == "2,280/s"
    assert posix["evidence"].startswith("n = 6, 95 %: 2,260–2,300/s; fails at 2,370/s; bottleneck: server CPU")
    most = answers["Highest rate of leaves (per second), no limits"]["POSIX, local disk · no dedup"]
    assert most["evidence"].startswith("at 8,000/s offered; n = 6") and most["evidence"].endswith("client-limited")


def test_a_log_that_lost_a_leaf_at_any_rate_is_not_answered_for_without_that(load):
    lines = [line for answer in LogSummary(load).answers() for line in answer["lines"]]
    told = {line["name"] for line in lines if "lost leaf at 500/s" in line["evidence"]}
    assert told == {"MariaDB (MySQL kind) · no dedup"}
    assert any(
        text.startswith("Accepted leaves were lost: MariaDB (MySQL kind) · 1-core-1GB · no dedup · open at 500/s")
        for text in LogSummary(load).weaknesses()
    )


def test_the_objective_is_told_as_it_was_declared(load):
    text = LogSummary(load).objective()
    assert "2 windows of 30 s in a row:" in text
    for part in ("at least 99 %", "at most 0.1 % fail", "within 5 s", "at most 5 % above"):
        assert part in text
    of_one = {**load.declared, "search": {**load.declared["search"], "windows": 1}}
    assert "in 1 window of 30 s:" in LogSummary(LogWrite(load.results, of_one)).objective()
    assert LogSummary(LogWrite(load.results, {})).objective() == ""


# -- tables --------------------------------------------------------------------------------------------


def test_the_pages_table_has_offered_and_achieved_side_by_side_with_and_without_dedup(load):
    table = Drawn(load).page()
    posix = row(table, "POSIX", "1-core-1GB", "open loop")
    assert said(posix["Offered, no dedup"]) == "4,000/s"
    achieved = posix["QPS, no dedup"].lines
    assert float(achieved[0].removesuffix("/s").replace(",", "")) == pytest.approx(CAPACITY["posix", "no"], rel=0.01)
    assert achieved[1].startswith("n = 6, 95 %: ") and re.fullmatch(r"58\.\d % of 4,000/s", achieved[2])
    assert posix["QPS, dedup"].marks[0].startswith("pushback ")
    not_sent, emulated = row(table, "GCP", "open loop")["QPS, no dedup"].marks
    assert not_sent.startswith("not sent ") and emulated == "emulated"
    assert row(table, "POSIX", "no limits")["QPS, no dedup"].marks == ("client-limited",)
    assert row(table, "POSIX", "hammer, closed loop")["QPS, no dedup"].marks == ("writers-bound",)
    assert said(row(table, "MariaDB")["QPS, dedup"]) == "–", "there is no such log"


def test_what_the_hammer_counts_is_no_share_because_it_does_not_count_accepted_leaves(tmp_path):
    tables = LogTables(tmp_path, "embedded")
    for block in range(1, 7):
        tables.hammered(levels_of("posix", "yes", "hammer", "1000-per-s"), block, 1000, 1500, pushback=200.0)
    load = load_of(tables.write())
    (sweep,) = load.sweeps
    assert load.marks(sweep.points[0]) == ("pushback: 1,200",)
    assert load.highest_met(sweep) == sweep.points[0], "its tree grew by all of the offered rate"


def test_a_log_that_integrates_nothing_has_no_times_of_zero_in_the_box(tmp_path):
    tables = LogTables(tmp_path, "embedded")
    for block in (1, 2):
        tables.opened(levels_of("posix", "no", "open", "1000-per-s"), block, 1000.0, 100.0)
    tables.observations = [row for row in tables.observations if not row["metric"].startswith("integrate_")]
    tables.series["histogram"] = [row for row in tables.series["histogram"] if row["which"] != "integrate"]
    ((_, (own,)),) = LogHammer(load_of(tables.write())).boxes()
    assert "Observed-time-to-integrate: –/–/– (min/avg/max)" in own.text and "p50 –, p90 –, p99 –" in own.text
    assert "Time-in-queue: –" not in own.text


def test_the_gap_of_two_brackets_is_their_median_and_not_the_wider_one(tmp_path):
    tables = LogTables(tmp_path, "embedded")
    for block, fails_at in ((1, 1050.0), (2, 1400.0)):
        tables.opened(levels_of("posix", "no", "open", "search"), block, 1000.0, 1000.0, search=(1000.0, fails_at))
    (capacity,) = LogCapacity(load_of(tables.write())).table().rows
    assert capacity[3].lines == ("22.5 %",)


def test_a_lost_leaf_marks_its_rate_and_a_rate_that_always_failed_says_why(load):
    tables = {table.caption: table for table in Drawn(load).rates()}
    mariadb = tables["Offered and achieved: MariaDB (MySQL kind) · 1-core-1GB (open loop)"]
    lost, failed = (row(mariadb, rate)["Achieved, no dedup"] for rate in ("500/s", "4,000/s"))
    assert lost.marks == ("lost leaf",) and "n = 5: too small for an interval" in lost.lines
    assert failed.kind == "failed" and failed.lines == ("failed: the database has too few connections (6 of 6)",)
    assert row(mariadb, "250/s")["Achieved, no dedup"].marks == ()


def test_times_of_all_open_loops_stand_in_one_table(load):
    (times,) = (table for table in Drawn(load).rates() if not table.name.startswith("rates-"))
    assert times.columns[:4] == ("Log", "Rate", "Time in queue, p99, no dedup", "Time to integrate, p99, no dedup")
    assert times.columns[4:] == ("Time in queue, p99, dedup", "Time to integrate, p99, dedup")
    assert len(times.rows) == 3 * 5 + 1, "three logs at five rates, and one without limits"
    mariadb = row(times, "MariaDB", "250/s")
    assert mariadb["Time in queue, p99, no dedup"].href == load_href(load, "mariadb", "250-per-s")
    assert said(mariadb["Time in queue, p99, dedup"]) == "–"


def test_the_capacity_is_a_bracket_for_each_trial(load):
    table = LogCapacity(load).table()
    posix, mariadb = row(table, "POSIX", "no dedup"), row(table, "MariaDB")
    assert (posix["Highest pass"].lines[0], posix["Lowest fail"].lines[0]) == ("2,280/s", "2,370/s")
    assert said(posix["Limit"]) == "server CPU" and said(mariadb["Limit"]) == "database"
    assert len(posix["Bracket of each trial"].lines) == 6
    assert mariadb["Bracket of each trial"].lines[0].endswith("/s, none failed")
    assert mariadb["Lowest fail"].lines[1] == "n = 5: too small for an interval"
    steps = next(LogCapacity(load).steps())
    assert len(steps.rows) == 6 * 4
    verdicts = {said(r[-1]) for r in steps.rows}
    assert verdicts == {"passed", "achieved 91 % of the offered rate, not 99 % (120 not sent)"}


DISAGREE = "trials disagree: "


@pytest.mark.parametrize(
    ("ends", "value", "told"),
    [
        # The median of what passed is far above the only failure, whose trial has its bracket below it.
        (((1000, 1100), (8000, None), (8000, None)),
         "8,000/s", f"{DISAGREE}1,100/s failed in 1 of 1 trial, 8,000/s passed in 2 of 2 trials"),
        (((1000, 1200), (1300, 1400), (1300, 1400)),
         "1,300/s", f"fails at 1,400/s; {DISAGREE}1,200/s failed in 1 of 1 trial, 1,300/s passed in 2 of 2 trials"),
        (((1000, 1100), (1000, None), (1000, None)), "1,000/s", "fails at 1,100/s in 1 of 3 trials"),
    ],
)  # fmt: skip
def test_a_rate_that_fails_below_one_that_passes_is_no_end_of_a_bracket(tmp_path, ends, value, told):
    tables = LogTables(tmp_path)
    for block, (low, high) in enumerate(ends, 1):
        tables.opened(levels_of("posix", "no", "open", "search"), block, low, low, search=(low, high))
    searched = load_of(tables.write())
    (line,) = (line for found in LogSummary(searched).answers() for line in found["lines"])
    n, *evidence = line["evidence"].split("; ")
    assert line["value"] == value and n.startswith("n = 3") and "; ".join(evidence).startswith(told)
    marks = row(LogCapacity(searched).table(), "POSIX")["Lowest fail"].marks
    assert marks == (("trials disagree",) if DISAGREE in told else ())


def test_only_a_trial_that_takes_a_higher_rate_and_refuses_a_lower_one_is_not_monotonic(tmp_path):
    tables = LogTables(tmp_path)
    tables.opened(levels_of("posix", "no", "open", "search"), 1, 1000, 1000, search=(1000, 1100))
    above = next(row for row in tables.series["steps"] if row["passed"])
    tables.series["steps"].append({**above, "step": 9, "attempt": 1, "offered_per_s": 1200.0})
    searched = load_of(tables.write())
    assert row(LogCapacity(searched).table(), "POSIX")["Lowest fail"].marks == ("not monotonic",)


@pytest.mark.parametrize(("pushback", "too_high"), [(0.0, False), (0.12, True)])
def test_a_capacity_that_the_log_did_not_take_in_full_is_called_too_high_and_compared_with_none(
    tmp_path, pushback, too_high
):
    """Searches of earlier versions passed such rates, because the tree grew by leaves of the warm-up."""
    tables = LogTables(tmp_path)
    for block in range(1, 7):
        for backend, refused in (("posix", 0.0), ("mariadb", pushback)):
            levels = levels_of(backend, "no", "open", "search")
            tables.opened(levels, block, 1000.0, 1000.0, search=(1000.0, 1050.0), pushback=refused)
    searched = load_of(tables.write())
    (found,) = LogSummary(searched).answers()
    told = {line["name"]: "too high: 12 % of the leaves were not taken" in line["evidence"] for line in found["lines"]}
    assert sorted(told.values()) == [False, too_high]
    made = Comparisons(searched.results, [], ["capacity_pass"], factor="backend", unfit=searched.unfit)
    assert ["capacity is too high" in one.outcome.why for one in made.rows] == [too_high]


def test_only_cases_at_their_limit_have_one(load):
    table = Drawn(load).limits()
    assert not [r for r in table.rows if "250/s" in r[0].lines[0]]
    assert said(row(table, "no limits", "8,000/s")["Limit"]) == "generator CPU | client-limited"
    assert "81 % of the samples" in row(table, "MariaDB", "2,000/s")["Limit"].title


def test_percentiles_of_all_trials_are_of_merged_histograms(load):
    details = {table.caption: table for table in Drawn(load).details()}
    posix = details["POSIX, local disk · 1-core-1GB · no dedup (open loop), by offered rate"]
    cells = {r[0].lines[0]: r[1:] for r in posix.rows}
    together = cells["Time to integrate, merged histograms: p99.9"][0]
    assert together.lines[1] == "of 180,000 leaves" and "–" in together.lines[0]
    assert "trial nearest to the median" in cells["95 % interval within a trial"][0].lines


def test_proofs_are_counted_and_a_lost_leaf_is_a_trial_that_failed(load):
    table = Drawn(load).proofs()
    mariadb = row(table, "MariaDB")
    assert (said(mariadb["Proofs requested"]), said(mariadb["Proofs verified"])) == ("2,900", "2,900")
    assert said(mariadb["Trials that lost leaves"]) == "1 | lost leaf"
    assert mariadb["Trials that lost leaves"].href == load_href(load, "mariadb", "500-per-s")


def load_href(load: LogWrite, backend: str, rate: str) -> str:
    levels = levels_of(backend, "no", "open", rate)
    return f"#{load.results.anchors['this-machine', ','.join(f'{k}={v}' for k, v in levels.items())]}"


# -- the hammer ----------------------------------------------------------------------------------------


def test_the_hammers_screen_is_drawn_again_as_it_was_beside_ours_at_the_same_rate(load):
    boxes = dict(LogHammer(load).boxes())
    ours, its = boxes["POSIX, local disk · 1-core-1GB · no dedup"]
    assert (ours.title, its.title) == ("Ours at 1,000/s (open loop)", "Hammer's own screen at 1,000/s")
    screen = parse_box(its.text)
    assert (screen.write_workers, screen.write_max_per_s, screen.window_s) == (2000, 1000, 30)
    assert "tick means, not of single leaves" in its.note and "nearest to the median of 6 trials" in its.note
    assert "Offered: 1000/s" in ours.text and "Proved included: 100 of 100" in ours.text
    lines = ours.text.splitlines()
    assert len({len(line) for line in lines}) == 1, "the box is a box"
    least, mean, most = map(int, re.search(r"integrate: (\d+)ms/(\d+)ms/(\d+)ms", ours.text).groups())
    assert 0 < least < mean < most


def test_a_box_tells_that_its_trials_were_disturbed(tmp_path):
    tables = LogTables(tmp_path, "embedded")
    tables.opened(levels_of("posix", "no", "open", "1000-per-s"), 1, 1000, 1500)
    tables.hammered(levels_of("posix", "no", "hammer", "1000-per-s"), 1, 1000, 1500)
    for row in tables.trials:
        row |= {"disturbed": True, "disturbance": json.dumps(SEEN)}
    ((_, (ours, its)),) = LogHammer(load_of(tables.write())).boxes()
    assert ours.note.endswith("Other work disturbed 1 of 1 trial.")
    assert its.note.endswith("Other work disturbed this trial.")


def test_every_trial_whose_tree_grew_by_a_backlog_is_counted(tmp_path):
    """The median share hides it: 1.36 of the offered rate in one of three trials."""
    tables = LogTables(tmp_path)
    levels = levels_of("posix", "no", "open", "500-per-s")
    for block in (1, 2, 3):
        tables.opened(levels, block, 500.0, 2000.0)
    share = next(row for row in tables.observations if row["metric"] == "achieved_share")
    share["value"] = 1.36
    grown = load_of(tables.write())
    (sweep,) = grown.sweeps
    assert grown.marks(sweep.points[0]) == ("backlog in 1 of 3 trials",)


def test_a_capacity_search_is_no_rate_in_words(tmp_path):
    tables = LogTables(tmp_path)
    tables.opened(levels_of("posix", "no", "open", "search"), 1, 1000.0, 1000.0, search=(1000.0, 1050.0))
    searched = load_of(tables.write())
    ((_, (ours,)),) = LogHammer(searched).boxes()
    assert ours.title == "Ours in the capacity search (open loop)"
    table = LogPublished(paths.published(paths.project_root(Path(__file__).parent)), searched).table()
    beside = " ".join(said(cell) for line in table.rows for cell in line)
    assert "1-core-1GB, in the capacity search" in beside and "search offered" not in beside


def test_a_disagreement_of_any_trial_is_marked(load):
    table = LogHammer(load).agreement()
    apart = table.columns.index("Difference, worst trial")
    marked = [r[0].lines[0] for r in table.rows if r[apart].marks]
    assert marked == ["POSIX, local disk · 1-core-1GB · dedup · hammer · 4,000/s"]
    assert table.rows[-1][apart].lines == ("5 %",)
    assert any("by more than 3 % in at least one trial" in text for text in LogSummary(load).weaknesses())


def test_a_hammer_that_ran_too_shortly_for_its_window_is_not_called_compared(load, tmp_path):
    assert LogHammer(load).not_compared() == []
    tables = LogTables(tmp_path)
    tables.hammered(levels_of("posix", "no", "hammer", "500-per-s"), 1, 500.0, 900.0)
    tables.observations = [row for row in tables.observations if row["metric"] != "hammer_qps_mean"]
    short = LogHammer(load_of(tables.write()))
    assert short.not_compared()[0].endswith("so whether they agree is not known.")
    assert short.agreement().caption == "The hammer's oversupply and the checkpoints of the same run"


def test_open_and_closed_loops_stand_in_pairs(load):
    table = LogHammer(load).open_closed()
    assert [said(r[1]) for r in table.rows] == ["open loop", "hammer, closed loop"] * 4


def test_open_and_closed_loops_stand_in_one_picture(load):
    ((_, _, panels, style, _),) = LogHammer(load).figures()
    assert [name.split(" · ")[0] for name in style.names[:4]] == ["open", "closed"] * 2
    assert [panel.title for panel in panels] == ["Achieved", "Time in queue, mean", "Time to integrate, mean"]
    drawn = json.dumps(panels[1].spec(400))
    assert all(json.dumps(name)[1:-1] in drawn for name in style.names[:2]) and '"trial"' in drawn


# -- comparisons ---------------------------------------------------------------------------------------


def compared(load: LogWrite, *more: str) -> Comparisons:
    metrics = ["qps", "integrate_p50", *more]
    choice = {"factor": "antispam", "base": "no", "unfit": load.unfit, "settled": load.settled}
    return Comparisons(load.results, [], metrics, **choice)


def test_logs_that_took_the_same_offered_rate_are_compared_by_their_times_and_not_by_it(load):
    made = compared(load)
    took = [r for r in made.rows if r.outcome.why == "both achieved the offered rate"]
    assert {(r.metric, r.base["backend"], r.base["generator"], r.base["rate"]) for r in took} == {
        *(("qps", "posix", "open", rate) for rate in ("250-per-s", "500-per-s", "1000-per-s")),
        ("qps", "gcp-emulated", "open", "250-per-s"),
    }
    noted = findings.of(made, wording.of("log_write"), aside=False)["found"]
    assert {one["verdict"] for one in noted if one["why"] == "both achieved the offered rate"} == {"none"}
    assert [one["metric"] for one in noted if one["ratio"] and one["where"].startswith("at 250/s")] == [
        "integrate_p50", "integrate_p50",
    ]  # fmt: skip
    lacking = verdicts.summarised(made, "Antispam")["lacking"]["interval"]
    assert not [name for name in lacking if "250/s" in name], "no interval is missing where the study sets the ratio"


def test_a_log_that_refuses_leaves_is_not_compared_by_the_times_of_the_others(load):
    """Of 12 % pushed back, nobody knows how long they would have taken."""
    made = [row for row in compared(load).rows if row.base["generator"] == "open" and row.base["backend"] == "posix"]
    refused = {row.base["rate"] for row in made if "not accepted, so its times are not compared" in row.outcome.why}
    assert refused == {"2000-per-s", "4000-per-s"}
    for row in made:
        if row.base["rate"] in refused:
            assert (row.outcome.verdict == "none") is (row.metric == "integrate_p50"), "the growth is that of the log"


@pytest.mark.parametrize(("fails_at", "is_bound"), [((None, None), True), ((550.0, None), True), ((550.0,) * 2, False)])
def test_a_capacity_above_all_rates_of_a_search_is_compared_with_none(tmp_path, fails_at, is_bound):
    tables = LogTables(tmp_path)
    for antispam, high in zip(("no", "yes"), fails_at, strict=True):
        for block in range(1, 7):
            # One trial without a rate that failed is enough.
            ends = 500.0 + block / 8, high if block == 1 else 550.0
            tables.opened(levels_of("posix", antispam, "open", "search"), block, 500.0, 900.0, search=ends)
    made = compared(load_of(tables.write()), "capacity_pass")
    told = {row.metric: row.outcome.why.startswith("no rate failed in a search") for row in made.rows}
    assert told == {"qps": is_bound, "integrate_p50": False, "capacity_pass": is_bound}
    assert all(row.outcome.verdict == "none" for row in made.rows if told[row.metric])


def test_searches_are_compared_by_their_capacities_only(tmp_path):
    """A log with a higher capacity is measured at a higher rate, so its times are not those of the same load."""
    tables = LogTables(tmp_path)
    for block in range(1, 7):
        for antispam, takes in (("no", 900.0), ("yes", 500.0)):
            at = takes + block
            tables.opened(levels_of("posix", antispam, "open", "search"), block, at, 2 * at, search=(at, 1.05 * at))
    made = {row.metric: row.outcome for row in compared(load_of(tables.write()), "capacity_pass").rows}
    assert made["capacity_pass"].verdict == "worse"
    whys = {made[metric].why for metric in ("qps", "integrate_p50")}
    assert whys == {"each at its own highest rate: compared by their capacities"}


def test_a_comparison_calls_a_level_that_is_no_name_by_the_familys_phrase(load):
    made = compared(load)
    assert made.drawn and {*made.drawn} == {"a log with deduplication"}
    assert made.base_name == "one without deduplication"
    (told,) = {line["name"].split(",")[0] for line in verdicts.lines(made)}
    assert told == "a log with deduplication against one without deduplication"
    backends = Comparisons(load.results, [], ["qps"], factor="backend")
    assert {part for row in backends.rows for part in row.short.split(" · ")} >= {"antispam", "no antispam"}


# -- figures -------------------------------------------------------------------------------------------


def test_the_figures_go_up_to_saturation_and_past_it(load):
    figures = {name: (panels, shown) for name, _, panels, _, shown in LogFigures(load).saturation()}
    panels, shown = figures["saturation-posix-local-disk-1-core-1gb"]
    assert [p.title for p in panels] == [
        "Achieved", "Time to integrate, p99", "Time to integrate, p50", "Time in queue, p99",
    ]  # fmt: skip
    assert shown == ["no dedup", "dedup", AS_OFFERED]
    assert len(figures) == 3, "one rate alone is no sweep"
    drawn = json.dumps(panels[1].spec(400))
    assert '"trial"' in drawn and "#trial-" in drawn


def test_a_rate_at_which_every_trial_failed_has_a_line_with_the_cause(load):
    figures = {caption: panels for _, caption, panels, _, _ in LogFigures(load).saturation()}
    caption = next(caption for caption in figures if caption.startswith("MariaDB"))
    line = "no dedup: failed: the database has too few connections"
    assert f"A vertical line marks a rate at which no trial succeeded: {line} at 4,000/s." in caption
    for panel in figures[caption]:
        spec = panel.spec(400)
        rules = [rows for rows in spec["datasets"].values() if {"value": 4000.0, "label": line} in rows]
        assert rules and spec["params"], "the line is drawn, and the legend still hides series"


def test_over_time_a_rate_that_was_met_is_shown_by_the_trial_nearest_to_its_median(load):
    drawn = [*LogFigures(load).over_time()]
    captions = [caption for _, caption, *_ in drawn]
    told = [set(re.findall(r"trial (\w+)", caption)) for caption in captions]
    assert [panels[0].drawn for _, _, panels, *_ in drawn] == told, "a caption counts the disturbed ones among these"
    assert any("no dedup: 2,000/s" in c and "dedup: 1,000/s" in c for c in captions)
    sweep = load.sweeps[0]
    point = load.shown(sweep)
    values = {t: v["qps"] for t, v in load.trials(point).items()}
    median = load.median("qps", point)
    assert load.typical(point) == min(values, key=lambda t: abs(values[t] - median))


# -- published -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(load) -> LogPublished:
    return LogPublished(paths.published(paths.project_root(Path(__file__).parent)), load)


def test_published_and_measured_stand_in_columns_of_their_own(published):
    table = published.table()
    e2, gcp, aws = row(table, "POSIX · e2-micro"), row(table, "GCP · spanner-300-pu · 2 front ends"), row(table, "AWS")
    assert e2["Published, dedup not stated"].lines == ("> 1500 writes/s", "box: 1,590/s")
    assert said(gcp["Published, no dedup"]) == "not done" and gcp["Published, no dedup"].kind == "published warning"
    assert said(aws["Measured here, no dedup"]) == "not measured here"
    first = row(table, "GCP · spanner-100-pu")["Measured here, no dedup"]
    assert first.marks[-1] == "emulated" and first.href
    assert said(gcp["Measured here, no dedup"]) == "–", "ours stand once"


@pytest.mark.parametrize(
    "part",
    [
        "MySQL, GCP free-tier + CloudSQL: offered above achieved: 2571/s were offered, and the tree grew by 2047/s",
        "POSIX, GCP free tier VM instance: writers-bound: 589 of 600",
        "All boxes: min/avg/max of queue and integrate are over at most the last 30 tick means",
        "5 pasted screens without repetitions",
        "“around 1600 writes/s” above 1664/s",
        "“Coming soon”",
        "reads besides the writes",
    ],
)
def test_what_is_wrong_on_the_page_is_found_by_rule(published, part):
    assert len([text for text in published.problems() if part in text]) == 1


# -- real outputs --------------------------------------------------------------------------------------


def add(tables: Tables, tmp_path: Path, levels: dict[str, str], files: dict[str, str | bytes], block: int) -> None:
    """A trial of real files, parsed as in tidy."""
    folder = tmp_path / f"trial-{block}"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    parsed = FAMILY.parse(levels, folder)
    values = {o.metric: (o.value, o.unit) for o in parsed.observations}
    tables.add(levels, block, values, numbers=FAMILY.numbers(levels), verified="{}")
    for name, rows in parsed.series.items():
        tables.series.setdefault(name, []).extend(tables.head() | dict(r) for r in rows)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("interval_s", "is_most"), [(1.0, True), (0.5, False)])
def test_a_wait_for_the_checkpoint_that_is_most_of_the_time_is_weak(tmp_path, interval_s, is_most):
    tables = LogTables(tmp_path)
    for block in range(1, 4):
        tables.opened(levels_of("posix", "no", "logbench", "500-per-s"), block, 500.0, 5_000.0)
    backend = {**BLOCK["backends"][0], "publish_interval": interval_s}
    found = [*LogSummary(load_of(tables.write(), {"backends": [backend]})).weaknesses()]
    said = [text for text in found if "checkpoint, " in text]
    assert bool(said) is is_most
    assert not said or said[0].startswith(
        "In 1 of 1 case most of the time to integrate (p50) is the wait for the next checkpoint, 500 ms on average"
    )


def facts(rate: float) -> str:
    found = {
        "schema": 1, "tool": "logbench", "mode": "open", "rate_per_s": rate, "duplicate_share": 0.0, "front_ends": 1,
        "deduplicates": False, "publish_interval_s": 1.0, "cpus": {"server": 2, "generator": 2},
        "servers": [{"peak_memory_bytes": 90_000_000}],
    }  # fmt: skip
    return json.dumps(found)


@pytest.fixture
def real(tmp_path) -> LogWrite:
    """Captured results of logbench, and the page's own box of a small machine, as if imported."""
    tables = Tables(tmp_path, "embedded", "log_write")
    for block, (name, rate) in enumerate({"logbench-posix": 500, "logbench-saturated": 20_000}.items(), start=1):
        files = {"log.json": facts(rate), "load/files/result.json": (CAPTURED / f"{name}.json").read_bytes()}
        add(tables, tmp_path, levels_of("posix", "no", "open", f"{rate}-per-s", limits="none"), files, block)
    box = CAPTURED / "page-e2-micro.txt"
    (imported,) = FAMILY.parse_import(box)
    levels = {**imported.levels, "backend": "page-e2-micro"}  # as with --level
    add(tables, tmp_path, levels, {"hammer-screen.txt": box.read_bytes()}, 3)
    return load_of(tables.write(), {})


def test_real_outputs_fill_every_table_and_figure(real):
    tables, hammer = Drawn(real), LogHammer(real)
    steady = row(next(iter(tables.rates())), "500/s")
    assert steady["Achieved, no dedup"].lines[0].startswith(("49", "50"))
    assert steady["Achieved, no dedup"].lines[1] == "n = 1: too small for an interval"
    (_, listings), (_, imported) = hammer.boxes()
    assert "Offered: 500/s" in listings[0].text
    assert imported[0].text == parse_box((CAPTURED / "page-e2-micro.txt").read_text()).box()
    assert "the only trial" in imported[0].note
    (saturated,) = LogFigures(real).saturation()
    assert len(saturated[2]) == 4
    (over_time,) = LogFigures(real).over_time()
    assert "no dedup: 500/s" in over_time[1] and len(over_time[2]) == 4
    size, rate, queue, _ = (panel.spec(400)["datasets"].values() for panel in over_time[2])
    shades = {row["phase"]: row["shade"] for rows in size for row in rows if "shade" in row}
    assert list(shades) == ["warm-up", "window", "cool-down", "drain"]
    assert {shades.pop("window")} == {0} and len({*shades.values()}) == 1, "what a table does not count is shaded"
    marks = [panel.spec(400)["layer"][2]["mark"].get("interpolate") for panel in over_time[2]]
    assert marks == ["linear", "step", "step", "step"], "no slope leads from the window into the cool-down"
    seconds = {row["x"] % 1 for rows in queue for row in rows if "line" in row}
    assert seconds == {0.5}, "the times of a second are drawn at its middle"
    trial = real.results.series("growth").filter(trial=over_time[1].split("trial ")[1][:8])
    first, second = trial["t_s"].to_list()[:2]
    assert min(row["x"] for rows in rate for row in rows if "y" in row) == pytest.approx((first + second) / 2, abs=1e-3)
    assert said(row(tables.proofs(), "page-e2-micro")["Proofs requested"]) == "none"
    assert list(LogSummary(real).answers()) and list(LogSummary(real).weaknesses())
    for table in (tables.page(), tables.limits(), *tables.details(), hammer.agreement(), hammer.open_closed()):
        assert table.html()


def test_a_factor_with_one_level_is_in_no_name_and_gives_no_empty_columns(tmp_path, captured):
    tables = Tables(tmp_path, "embedded", "log_write")
    files = {"log.json": facts(500), "load/files/result.json": (CAPTURED / "logbench-posix.json").read_bytes()}
    for block, backend in enumerate(("posix", "sshfs"), start=1):
        add(tables, tmp_path, levels_of(backend, "no", "open", "500-per-s", limits="none"), files, block)
    labels = {"posix": "disk", "sshfs": "net"}
    declared = {"backends": [{"name": name, "label": label} for name, label in labels.items()]}
    load = load_of(tables.write(), declared)
    assert [load.name(sweep) for sweep in load.sweeps] == ["disk", "net"]
    assert [line["name"] for block in LogSummary(load).answers() for line in block["lines"]] == ["disk", "net"]
    page = Drawn(load).page()
    assert page.columns == ("Backend", "Resources", "Generator", "Offered, no dedup", "QPS, no dedup")
    assert said(row(page, "disk")["Resources"]) == "no limits", "the only level is told once"
    assert captured.name(captured.sweeps[0]) == "POSIX, local disk · no dedup · open", "one limit, and two of antispam"


@pytest.fixture(scope="module")
def captured() -> LogWrite:
    """A real session on a shared machine: one block, see the README next to the tables."""
    return load_of(Path(__file__).parent / "data" / "log_write", {})


def test_a_table_of_one_rate_is_folded_because_the_first_table_has_its_cells(load, bare_project, monkeypatch):
    (lone,) = (table for table in Drawn(load).rates() if table.repeats)
    assert lone.caption.startswith("Offered and achieved: POSIX, local disk · no limits")
    assert row(Drawn(load).page(), "POSIX", "no limits")["QPS, no dedup"] == lone.rows[0][2]
    shown: list[str] = []
    monkeypatch.setattr("benchstudy.report.exhibits.exhibits.show", shown.append)
    Exhibits(study="embedded", output="reports/embedded/log_write").show_tables(Drawn(load).rates(), "")
    folds = re.findall(r"<summary>(.*?)</summary>", "".join(shown))
    assert folds == [lone.caption]


def test_a_real_session_says_what_disturbed_it(captured):
    tables = {table.caption: table for table in Drawn(captured).rates()}
    posix = next(table for caption, table in tables.items() if caption.startswith("Offered and achieved: POSIX"))
    full = row(posix, "4,000/s")["Achieved, no dedup"]
    assert full.lines[0] == "4,260/s" and full.lines[2] == "107 % of 4,000/s"
    assert full.marks[0] == "host busy" and full.marks[1].startswith("not sent 9.") and full.marks[-1] == "backlog"
    assert row(posix, "500/s")["Achieved, no dedup"].marks == ()
    assert any(f"{REST} used the host's CPUs" in text for text in LogSummary(captured).weaknesses())
    shown = [captured.shown(sweep).level for sweep in captured.sweeps if sweep.is_open]
    assert shown == ["500/s"] * 3, "4,000/s was not met, although more than that came into the tree"


def test_a_rate_at_which_nothing_was_integrated_is_named_and_not_drawn(captured):
    figures = {caption: panels for _, caption, panels, _, _ in LogFigures(captured).saturation()}
    panel = next(panels[0] for caption, panels in figures.items() if caption.startswith("MariaDB"))
    assert [str(one) for one in panel.off_axis] == [
        "1 point of no dedup at 16,000/s (0/s)", "the median of no dedup at 16,000/s (0/s)",
    ]  # fmt: skip
    achieved = panel.spec(400)
    rows = [r for data in achieved["datasets"].values() for r in data if r.get("trial")]
    assert rows and all(r["y"] > 0 for r in rows)


def test_a_study_of_failures_only_makes_a_page_too(tmp_path):
    tables = LogTables(tmp_path)
    for block in (1, 2):
        for rate in ("search", "500-per-s"):
            levels = levels_of("posix", "no", "open", rate)
            tables.opened(levels, block, 500, 2000, status="failed", cause="another program uses the port")
    for name in list(tables.series):
        if not tables.series[name]:
            del tables.series[name]
    load = load_of(tables.write())
    lines = [line for answer in LogSummary(load).answers() for line in answer["lines"]]
    assert [line["evidence"] for line in lines] == ["failed: another program uses the port (2 of 2)"]
    assert lines[0]["href"].startswith("#case-"), "to the trials that failed"
    assert not list(LogFigures(load).saturation()) and not list(LogFigures(load).over_time())
    assert not list(LogHammer(load).boxes()) and not list(LogCapacity(load).steps())
    for table in (Drawn(load).page(), Drawn(load).proofs(), LogCapacity(load).table(), *Drawn(load).details()):
        assert "another program uses the port" in table.html() or table.name == "proofs"


def test_the_page_knows_what_the_study_declared(bare_project):
    tidy = write_log(bare_project, blocks=1)
    page = Page("log_write", study="embedded", tidy=tidy, output=bare_project / "reports")
    assert page.declared["search"]["within"] == 0.05


def test_a_window_without_two_checkpoints_has_no_rate_and_says_so(tmp_path):
    tables = LogTables(tmp_path)
    for rate in ("500-per-s", "1000-per-s"):
        tables.opened(levels_of("posix", "no", "open", rate), 1, float(rate.split("-")[0]), 2350.0)
    steps = {tables.trials[0]["trial"]: 0.0, tables.trials[1]["trial"]: 2.0}
    without = [r for r in tables.observations if (r["trial"], r["metric"]) != (tables.trials[0]["trial"], "qps")]
    tables.observations[:] = without + [
        {**r, "metric": "publish_steps", "value": steps[r["trial"]], "unit": "1"}
        for r in without
        if r["metric"] == "offered"
    ]
    (rates,) = [t for t in Drawn(load_of(tables.write())).rates() if t.name.startswith("rates")]
    none, few = (dict(zip(rates.columns, r, strict=True))["Achieved, no dedup"] for r in rates.rows)
    assert none.lines == ("no two checkpoints in the window",) and none.kind == "failed"
    assert few.lines[-1] == "over 2 publish steps"


def test_a_rate_over_few_publish_steps_gives_their_range_because_their_median_may_be_no_whole_number(tmp_path):
    tables = LogTables(tmp_path)
    for block in (1, 2):
        tables.opened(levels_of("posix", "no", "open", "500-per-s"), block, 500.0, 2350.0)
    blocks = {trial["trial"]: trial["block"] for trial in tables.trials}
    offered = [row for row in tables.observations if row["metric"] == "offered"]
    tables.observations += [
        {**row, "metric": "publish_steps", "value": 1.0 + blocks[row["trial"]], "unit": "1"} for row in offered
    ]
    (rates,) = [t for t in Drawn(load_of(tables.write())).rates() if t.name.startswith("rates")]
    (cells,) = (dict(zip(rates.columns, row, strict=True)) for row in rates.rows)
    assert cells["Achieved, no dedup"].lines[-1] == "over 2–3 publish steps"
