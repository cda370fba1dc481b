"""What the page of load tests says, from tidy tables with known values."""

import json
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from load_fixture import (
    AGAIN,
    BASE,
    DECLARED,
    DRIVER,
    ENTERED,
    NEW,
    LoadTables,
    api_calls,
    levels_of,
    store_calls,
    write_load,
)  # fmt: skip
from prometheus_file import every, write_trial
from test_disturbed import SEEN

from benchstudy import lints
from benchstudy.families.load_test.family import FAMILY
from benchstudy.families.load_test.page import panels as load_panels
from benchstudy.families.load_test.page.cells import signed_percent
from benchstudy.families.load_test.page.client import LoadClient
from benchstudy.families.load_test.page.load import LoadTest
from benchstudy.families.load_test.page.panels import PANELS, LoadPanels
from benchstudy.families.load_test.page.published import LoadPublished
from benchstudy.families.load_test.page.setup import LoadSetup
from benchstudy.families.load_test.page.summary import LoadSummary
from benchstudy.families.load_test.page.users import LoadUsers
from benchstudy.report import human
from benchstudy.report.figures.charts import Figure
from benchstudy.report.figures.panels import Phase
from benchstudy.report.overview import primarytable
from benchstudy.report.overview.headlines import headline
from benchstudy.report.results import material, sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.evidence import method


def indexes_of(results: Results) -> list[dict]:
    return sessions.family_indexes(results.tidy.parents[3], "embedded", "load_test", results.targets)


def load_of(tidy: Path, declared=DECLARED) -> LoadTest:
    results = Results(tidy, study="embedded", family="load_test")
    return LoadTest(results, declared, indexes_of(results))


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> LoadTest:
    return load_of(write_load(tmp_path_factory.mktemp("project")))


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> LoadTest:
    """A load that somebody else ran, once each: one window of base, one of new, nothing else."""
    tables = LoadTables(tmp_path_factory.mktemp("project"))
    for number, version in enumerate((BASE, NEW)):
        start = 1.79e9 + 7200 * number
        window = {"start_s": start, "end_s": start + 72}
        facts = {"mode": "scrape", "window": window, "steady": {"start_s": start + 12, "end_s": start + 72}}
        tables.run(levels_of(version), 1, facts=facts)
        tables.run(levels_of(version, load="unbounded"), 1, facts=facts, users=13223.0 if number == 0 else 12832.0)
    declared = {k: v for k, v in DECLARED.items() if k == "databases"}
    return load_of(tables.write(), declared)


def said(cell) -> str:
    return " | ".join(cell.all_lines)


def captured(root: Path, *versions: tuple[str, str, tuple[str, ...]]) -> LoadTest:
    """What a Prometheus saw of real servers: (version, captured trial, store methods to leave out)."""
    tables = LoadTables(root)
    for version, name, left_out in versions:
        levels = levels_of(version)
        parsed = FAMILY.parse(levels, CAPTURED / name)
        facts = json.loads((CAPTURED / name / "load_test.json").read_text(encoding="utf-8"))
        values = {o.metric: (o.value, o.unit) for o in parsed.observations if o.value is not None}
        tables.add(levels, 1, values, verified=json.dumps({"load_test": facts}))
        for series, rows in parsed.series.items():
            kept = (r for r in rows if not (r.get("group") == "store" and r.get("label") in left_out))
            tables.series.setdefault(series, []).extend(tables.head() | dict(r) for r in kept)
    return load_of(tables.write(), {})


def sentences(summary: LoadSummary) -> list[str]:
    """All comments."""
    return [text for _, texts in summary.comments() for text in texts]


def row(table, name: str) -> dict:
    found = [r for r in table.rows if name in " ".join(r[0].lines)]
    found = [r for r in found if r[0].lines[0] == name] or found
    assert len(found) == 1, (name, [r[0].lines for r in table.rows])
    return dict(zip(table.columns, found[0], strict=True))


def reading(load: LoadTest, place: str, group: str):
    (found,) = [r for r in LoadSummary(load).mix.readings if load.place(r.contrast) == place and r.group == group]
    return found


CAPTURED = Path(__file__).parent / "data" / "prometheus"
PUBLISHED = Path(__file__).parents[1] / "data" / "published"


def test_a_verdict_says_which_trials_it_leaves_out(tmp_path):
    tables = LoadTables(tmp_path)
    for block in range(1, 7):
        tables.run(levels_of(BASE), block)
        tables.run(levels_of(NEW), block, **({"session": "1" * 32} if block > 4 else {}))
    load = load_of(tables.write())
    (contrast,) = load.contrasts
    cell = row(LoadPanels(load).table(contrast), "Average API times")["Verdict"]
    assert "2 trials left out: session, tool or verified cache state differ from the counterpart's" in cell.lines


# -- mix shift -----------------------------------------------------------------------------------------


def test_an_answer_has_the_estimate_of_its_interval_which_one_slow_trial_does_not_move(tmp_path):
    tables = LoadTables(tmp_path, noise=0.0005)
    for block, version in product(range(1, 13), (BASE, NEW)):
        slow = 3.0 if (version, block) == (NEW, 3) else 1.0
        api = {name: (n, total * slow, buckets) for name, (n, total, buckets) in api_calls(new=False).items()}
        tables.run(levels_of(version), block, calls={"api": api, "store": store_calls(new=False)}, same=True)
    load = load_of(tables.write())
    answers = {answer["what"]: answer["lines"] for answer in LoadSummary(load).answers()}
    (line,) = answers[f"API times, {NEW} against {BASE}, like for like"]
    low, high = map(
        _share, re.match(r"95 %: (\S+) % to (\S+) %; no change of 5 % or more; ", line["evidence"]).groups()
    )
    assert -0.5 < low <= _share(line["value"].removesuffix(" %")) <= high < 0.5
    assert "plain mean +16.8 % (+2.15 ms)" in line["evidence"]
    labels = row(LoadSummary(load).mix.table(), "API")["From the labels"].lines
    assert labels[0] == "+2.15 ms" and labels[1] == f"trial by trial: {line['value']}" and labels[2] in line["evidence"]


def _share(text: str) -> float:
    return float(text.replace("−", "-"))


def test_a_label_that_is_no_longer_called_is_no_regression_and_is_named_without_a_persons_help(load):
    found = reading(load, "PostgreSQL 15, bounded", "store")
    assert found.verdict == "mix-driven, no regression"
    assert [part.label for part in found.drivers] == [DRIVER]
    assert found.raw.verdict == "worse" and found.like.verdict == "equivalent"
    text = LoadSummary(load).mix.sentence(found)
    assert re.match(r"Store times: mix-driven, no regression\. The mean changed by \+1\.\d\d ms", text)
    assert f"Without {DRIVER} (no longer called), the mean changed by −0.0" in text
    assert "within one bucket" in text, "14.7 ms within a bucket of 50 ms are an interpolation"
    answers = {a["what"]: a["lines"] for a in LoadSummary(load).answers()}
    line = answers[f"Store times, {NEW} against {BASE}, like for like"][0]
    assert "mix-driven, no regression" in line["evidence"] and f"mostly {DRIVER}" in line["evidence"]
    actions = LoadSummary(load).actions()
    assert not any("store times" in text for text in actions), "nobody need look at it"
    window = LoadPanels(load).table(found.contrast)
    assert "mix-driven, no regression: see Mix shift" in said(row(window, "Average store times")["Verdict"])
    assert "mix-driven" not in said(row(window, "Average API times")["Verdict"])


def test_a_label_that_is_hardly_called_any_more_is_found_too(tmp_path):
    tables = LoadTables(tmp_path)
    for block, version in product((1, 2, 3, 4), (BASE, NEW)):
        tables.run(levels_of(version), block, few=200.0)
    found = reading(load_of(tables.write()), "PostgreSQL 15, bounded", "store")
    assert found.verdict == "mix-driven, no regression" and found.drivers[0].few
    tables = list(LoadSummary(load_of(tmp_path / "data/tidy/embedded/load_test")).mix.entered_and_left())
    left = row(next(t for t in tables if "store" in t.caption), DRIVER)
    assert said(left[""]) == "left, except for a few calls"


def test_one_trial_an_arm_describes_the_mix_and_gives_no_verdict_over_trials(once):
    found = reading(once, "PostgreSQL 15, bounded", "store")
    assert found.verdict == "no verdict: mostly a change of the mix" and not found.tested
    assert found.mix_driven and found.shift.alarm, "what was seen is still told"
    assert reading(once, "PostgreSQL 15, bounded", "api").verdict == "no verdict: slower like for like"
    assert {line[1].kind for line in LoadSummary(once).mix.table().rows} == {"text verdict"}, "no colour of a verdict"
    slower = [text for text in LoadSummary(once).actions() if "slower" in text]
    assert slower and all(": slower like for like in these trials (API times +" in text for text in slower)
    text = LoadSummary(once).mix.sentence(found)
    assert text.startswith("Store times: in these trials, mostly a change of the mix, without a verdict. ")
    assert DRIVER in text and text.endswith("With 1 trial per version, this is a description, not a verdict.")


def test_real_servers_the_label_that_left_is_named(tmp_path):
    """9.9 calls it a third of the time, for a microsecond each; 10.2 no longer does. Found in Prometheus' data."""
    load = captured(tmp_path, ("9.9.0-dev", "mattermost-9.9", ()), ("10.2.0-dev", "mattermost-10.2", ()))
    found = reading(load, "postgres, bounded", "store")
    assert found.shift.parts[0].label == DRIVER and found.shift.parts[0].state == "left"
    assert found.shift.mix > 0.0005, "of the change, half a millisecond comes from calls that are not made any more"
    assert f"{DRIVER} (no longer called) adds +0.5" in LoadSummary(load).mix.sentence(found)
    drawn = dict(LoadPanels(load).figures())
    assert len(drawn["Bounded postgres"][0][2]) == len(PANELS)
    assert row(LoadSummary(load).mix.table(), "store") and LoadPanels(load).table(load.contrasts[0]).rows


def test_real_servers_a_release_that_only_lost_the_label_is_mix_driven(tmp_path):
    load = captured(tmp_path, ("9.9.0-dev", "mattermost-9.9", ()), ("9.9.0-lost", "mattermost-9.9", (DRIVER,)))
    found = reading(load, "postgres, bounded", "store")
    assert found.mix_driven and [p.label for p in found.drivers] == [DRIVER]
    assert found.shift.within == 0 and found.shift.change > 0.0004
    text = LoadSummary(load).mix.sentence(found)
    assert text.startswith(
        "Store times: in these trials, mostly a change of the mix, without a verdict. The mean changed by +0.5"
    )
    assert not any("store" in text for text in LoadSummary(load).actions())


def test_a_page_says_in_which_order_versions_were_measured(load):
    said = method(load.results, ())
    assert "the base first in odd blocks and last in even ones (ABBA)" in said and "in random order within" not in said


def test_a_version_is_told_without_where_the_program_lies():
    assert human.tool("locust", "locust 2.46.0 from /opt/x/site-packages/locust (Python 3.11.2)") == (
        "locust 2.46.0 (Python 3.11.2)"
    )
    assert human.tool("wrk", "4.1.0") == "wrk 4.1.0" and human.tool("ab", None) == "ab version unknown"


def test_a_slower_handler_is_a_regression_like_for_like(load):
    found = reading(load, "PostgreSQL 15, bounded", "api")
    assert found.verdict == "regression" and found.worse and found.like.verdict == "worse"
    ((heading, actions),) = LoadSummary(load).to_look_at()
    assert heading == "What to look at" and LoadSummary(load).nothing_worse() == []
    assert any("API times are slower like for like, +" in text for text in actions)
    assert any("createPost is slower, higher by at least 3" in text for text in actions)


def test_a_regression_that_the_mix_hides_is_found(tmp_path):
    """Every method is a fifth slower, and the slowest is called less often: the mean of all of them falls."""
    tables = LoadTables(tmp_path)
    shape = [0.5, 0.7, 0.9] + [1.0] * 9
    for block, version in product((1, 2, 3, 4, 5, 6), (BASE, NEW)):
        slower, many = (1.2, 60_000.0) if version == NEW else (1.0, 100_000.0)
        calls = {
            "slow": (many, many * 0.02 * slower, [many * s for s in shape]),
            "fast": (300_000.0, 300_000 * 0.001 * slower, [300_000 * s for s in shape]),
        }
        tables.run(levels_of(version), block, calls={"store": calls, "api": calls})
    found = reading(load_of(tables.write()), "PostgreSQL 15, bounded", "store")
    assert found.shift.change < 0 and found.like.verdict == "worse"
    assert found.verdict == "regression, hidden by the mix" and found.worse and found.shift.alarm
    text = LoadSummary(load_of(tmp_path / "data/tidy/embedded/load_test")).mix.sentence(found)
    assert (
        "Both are true: the store methods themselves got slower, but a larger share of the calls now goes to fast ones."
        in text
    )


def test_a_regression_in_a_mean_that_varies_is_not_called_hidden_by_the_mix(tmp_path):
    """Every method is 8 % slower, and so is their mean. Only its interval is wide, because the mix varies by trial."""
    tables = LoadTables(tmp_path)
    shape = [0.5, 0.7, 0.9] + [1.0] * 9
    varied = {BASE: (0.9, 1.1, 1.2, 0.8, 1.0, 1.05), NEW: (1.15, 0.85, 0.9, 1.1, 1.2, 0.85)}
    for block, version in product((1, 2, 3, 4, 5, 6), (BASE, NEW)):
        slower, many = 1.08 if version == NEW else 1.0, 60_000 * varied[version][block - 1]
        calls = {
            "slow": (many, many * 0.02 * slower, [many * s for s in shape]),
            "fast": (300_000.0, 300_000 * 0.001 * slower, [300_000 * s for s in shape]),
        }
        tables.run(levels_of(version), block, calls={"store": calls, "api": calls})
    found = reading(load_of(tables.write()), "PostgreSQL 15, bounded", "store")
    assert (found.raw.verdict, found.like.verdict) == ("inconclusive", "worse")
    assert found.raw.ratio > 1.05 and abs(found.shift.mix) < 0.05 * found.shift.within, "the mix hides nothing"
    assert found.verdict == "regression like for like, not shown in the mean" and found.worse


@pytest.mark.parametrize(
    ("many_then", "sign", "part"),
    [(90_000.0, -1, "in part hidden by the mix"), (150_000.0, 1, "and the mix changes the mean even more")],
)
def test_a_verdict_says_what_the_mix_does_to_a_mean_of_slower_methods(tmp_path, many_then, sign, part):
    """Every method is a fifth slower, and the slowest is called a little less often, or half as often again."""
    tables = LoadTables(tmp_path)
    shape = [0.5, 0.7, 0.9] + [1.0] * 9
    for block, version in product((1, 2, 3, 4, 5, 6), (BASE, NEW)):
        slower, many = (1.2, many_then) if version == NEW else (1.0, 100_000.0)
        calls = {
            "slow": (many, many * 0.02 * slower * (1 + block / 1000), [many * s for s in shape]),
            "fast": (300_000.0, 300_000 * 0.001 * slower, [300_000 * s for s in shape]),
        }
        tables.run(levels_of(version), block, calls={"store": calls, "api": calls})
    found = reading(load_of(tables.write()), "PostgreSQL 15, bounded", "store")
    assert (found.raw.verdict, found.like.verdict) == ("worse", "worse")
    assert sign * found.shift.mix > 0 and found.shift.change > 0 and found.shift.alarm
    assert found.verdict == f"regression, {part}" and found.worse


def test_a_faster_version_with_a_slower_mean_says_why_they_differ(tmp_path):
    """Every trial is a fifth faster. The hour in which all are slow has most of the new calls, and few of the base."""
    tables = LoadTables(tmp_path)
    for block, version in product((1, 2, 3, 4, 5, 6), (BASE, NEW)):
        hour, many = (50, 900_000.0 if version == NEW else 1_000.0) if block == 1 else (1, 100_000.0)
        total = many * 0.002 * hour * (0.8 if version == NEW else 1.0)
        calls = {"only": (many, total, [many * s for s in [0.5, 0.7, 0.9] + [1.0] * 9])}
        tables.run(levels_of(version), block, calls={"store": calls, "api": calls})
    load = load_of(tables.write())
    found = reading(load, "PostgreSQL 15, bounded", "store")
    text = LoadSummary(load).mix.sentence(found)
    assert (
        text.startswith("Store times: improvement. The mean changed by +")
        and "one trial with unusual times can reverse it" in text
    )


@pytest.mark.parametrize("blocks", [1, 6])
def test_a_base_whose_sums_never_moved_has_no_relative_change(tmp_path, blocks):
    """Calls that take less than a coarse clock tells."""
    tables = LoadTables(tmp_path)
    for block in range(1, blocks + 1):
        for version, total in ((BASE, 0.0), (NEW, 200.0)):
            calls = {"only": (100_000.0, total, [100_000.0] * 12)}
            tables.run(levels_of(version), block, calls={"store": calls, "api": calls})
    summary = LoadSummary(load_of(tables.write()))
    (found,) = [r for r in summary.mix.readings if r.group == "store"]
    assert found.shift.base_mean == 0
    assert re.search(r"The mean changed by \+[\d.]+ ms: \+", summary.mix.sentence(found))
    assert re.fullmatch(r"\+[\d.]+ ms", said(summary.mix.table().rows[0][4]))
    lines = [line for answer in summary.answers() for line in answer["lines"]]
    assert lines and not any("%" in line["value"] for line in lines)
    assert "%" not in json.dumps([*summary.comments()])


def test_the_first_page_says_that_times_are_compared_at_the_same_mix_of_calls(load):
    notes = {"findings": {"mix": LoadSummary(load).findings()}}
    family = SimpleNamespace(name="load_test", title="Load test", page="p.html", notes=notes, shown=load.results)
    told = headline(family)
    assert " at the same mix of calls under the bounded load of 30 users on PostgreSQL 15" in told.after
    assert told.basis == "at the same mix of calls"
    rows = primarytable.rows([family])[0]
    compared = [(each.metric, one["evidence"]) for each in rows for one in each.compared if one["evidence"]]
    mixed = "at the same mix of calls"
    assert {metric for metric, text in compared if text.endswith(mixed)} == {"API times", "Store times"}
    assert {metric for metric, text in compared if not text.endswith(mixed)} == {"Supported users"}


def test_the_same_version_twice_shows_no_shift(load):
    for again in LoadSummary(load).mix.repeats:
        assert again.contrast.new == AGAIN and again.verdict == "no change of 5 % or more"


def test_beside_a_change_of_times_stands_what_the_base_differs_from_itself_by(load, once):
    mix = LoadSummary(load).mix
    for found in mix.readings:
        twin, text = mix.twin(found), mix.sentence(found)
        assert twin.contrast.base == found.contrast.base and twin.group == found.group
        own = re.search(rf"{re.escape(BASE)} against itself, with as many trials: ([+−][\d.]+ %) \(", text)
        assert own and own[1] == signed_percent(twin.like.ratio, *twin.like.interval)
        assert text.endswith("5 % is usual elsewhere.")
    assert not any(
        "against itself" in LoadSummary(once).mix.sentence(found) for found in LoadSummary(once).mix.readings
    )


def test_a_change_seen_in_one_trial_stands_beside_that_of_the_base_against_itself(tmp_path):
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW, AGAIN):
        tables.run(levels_of(version), 1)
    summary = LoadSummary(load_of(tables.write()))
    for found in summary.mix.readings:
        assert f"{BASE} against itself, with as many trials: " in summary.mix.sentence(found)
        assert "Both are true" not in summary.mix.sentence(found)
    said = [answer for answer in summary.answers() if "plain mean" in answer["lines"][0]["evidence"]]
    notes = ["The plain mean is over the calls of all trials" in answer["note"] for answer in said]
    assert notes == [True, False], "the terms of both are explained once"
    times = [line for answer in said for line in answer["lines"]]
    assert len(times) == 2 and all(f"; {BASE} against itself: " in line["evidence"] for line in times)


def test_labels_of_one_side_have_no_ratio_and_are_never_an_improvement_to_nothing(load):
    summary = LoadSummary(load)
    tables = {t.caption: t for t in summary.mix.entered_and_left()}
    left = row(tables["PostgreSQL 15, bounded, store: entered and left"], DRIVER)
    assert said(left[""]) == "left" and said(left["Mean, new"]) == "not called"
    entered = row(tables["PostgreSQL 15, bounded, API: entered and left"], ENTERED)
    assert said(entered[""]) == "entered" and said(entered["Mean, base"]) == "not called"
    labels = {line.label for line in summary.labels.lines}
    assert not labels & {DRIVER, ENTERED}
    everything = [t for c in load.contrasts for t in (*summary.labels.changed(c), *summary.labels.others(c))]
    assert "100 %" not in " ".join(said(cell) for t in everything for r in t.rows for cell in r)


def test_five_labels_stand_with_what_each_adds(load):
    top = next(t for t in LoadSummary(load).mix.top() if t.caption.startswith("PostgreSQL 15, bounded, store"))
    assert len(top.rows) == 5 and top.rows[0][0].lines == (DRIVER, "no longer called")
    first = row(top, DRIVER)
    assert said(first["From the label itself"]) == "–" and said(first["Contribution"]).startswith("+1.9")


@pytest.mark.parametrize("group", ["store", "api"])
def test_calls_per_second_of_all_labels_are_those_of_their_group(tmp_path, group):
    """Counts are of the time between scrapes, and were divided by the longer window: 402/s beside 446/s."""
    load = captured(tmp_path, ("9.9.0-dev", "mattermost-9.9", ()), ("10.2.0-dev", "mattermost-10.2", ()))
    (contrast,) = load.contrasts
    shift = load.shift(contrast, group)
    made = (shift.base_count, shift.base_s), (shift.new_count, shift.new_s)
    for (count, seconds), case, (trial,) in zip(
        made, (contrast.base_case, contrast.new_case), load.sides(contrast), strict=True
    ):
        rate = load.results.estimate(f"{group}_rate", contrast.target, case).summary.median
        assert count / seconds == pytest.approx(rate) and seconds != load.window_s(trial)


# -- labels --------------------------------------------------------------------------------------------


def test_lists_have_the_verdict_how_many_were_tested_and_counts_means_and_sums_side_by_side(load):
    labels, contrast = LoadSummary(load).labels, load.contrasts[0]
    worse = {t.caption: t for t in labels.changed(contrast) if t.rows}
    assert list(worse) == ["PostgreSQL 15, bounded: API handlers that worsened"]
    found = row(worse["PostgreSQL 15, bounded: API handlers that worsened"], "createPost")
    assert said(found["Ratio of means"]).startswith("1.33× | 95 %: 1.3")
    assert "of 15 tests" in said(found["Verdict"]) and "p99" in said(found["Verdict"])
    assert said(found["Calls per second"]) == "333/s → 333/s" and "s → " in said(found["Time per second"])
    assert "15 labels tested (Benjamini-Hochberg over all of them): 1 worsened, 0 improved" in labels.summary(contrast)


def test_without_a_verdict_no_label_is_listed_as_worse_and_nothing_is_red(once):
    """Two trials or one: the mean of createPost is a third slower, and nothing tells whether this is by chance."""
    labels, contrast = LoadSummary(once).labels, once.contrasts[0]
    assert any(line.seen == "worsened" for line in labels.lines)
    assert not [row for table in labels.changed(contrast) for row in table.rows]
    others = list(labels.others(contrast))
    assert all("without a verdict, by total time" in table.caption for table in others if table.rows)
    drawn = "".join(table.html() for table in others)
    assert "createPost" in drawn and "verdict worse" not in drawn and 'class="failed' not in drawn
    assert re.search(r"\d got slower and \d+ got faster by more .* by chance", labels.summary(contrast))
    comments = " ".join(sentences(LoadSummary(once)))
    assert "by chance" not in comments, "the page says it once, above the labels"


def test_p99s_in_one_bucket_are_not_distinguishable_and_the_lowest_bucket_is_no_figure(load):
    others = next(t for t in LoadSummary(load).labels.others(load.contrasts[0]) if "store" in t.caption)
    found = row(others, "PostStore.Save")
    assert "p99 not distinguishable: same bucket" in said(found["Verdict"])
    assert said(found["p99, base"]).startswith("< 5 ms | interpolated over all calls: ")


def test_a_p99_of_few_calls_is_not_printed(tmp_path):
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW):
        calls = {"rare": (50.0, 0.5, [50.0] * 12), "common": (5000.0, 5.0, [5000.0] * 12)}
        calls["once"] = (1.0, 0.1, [1.0] * 12)
        tables.run(levels_of(version), 1, calls={"store": calls, "api": calls})
    found = load_of(tables.write())
    table = next(t for t in LoadSummary(found).labels.others(found.contrasts[0]) if t.rows)
    assert said(row(table, "rare")["p99, base"]) == "needs 368 calls"
    assert said(row(table, "common")["p99, base"]).startswith("< 5 ms")
    assert row(table, "once")["Mean, base"].lines[1] == "1 call"


# -- supported users -----------------------------------------------------------------------------------


def test_supported_users_stand_with_their_interval_this_studys_band_and_the_pages(load):
    found = row(LoadSummary(load).users.table(), "PostgreSQL 15, unbounded")
    assert re.fullmatch(r"13,\d{3} \| n = 6, 95 %: 1\d,\d{3}–1\d,\d{3}", said(found[BASE]))
    assert re.fullmatch(r"−\d\.\d % \| 95 %: −\d\.\d % to −\d\.\d %", said(found["Delta"]))
    assert said(found["This study's band"]).endswith("6 pairs: the same version under two names (A/A)")
    assert said(found["Published band"]).startswith("5 %")
    assert AGAIN not in LoadSummary(load).users.table().columns


def test_without_the_same_version_twice_the_band_is_of_the_bases_own_trials(load):
    declared = {**DECLARED, "versions": DECLARED["versions"][:2]}
    alone = LoadTest(load.results, declared)
    contrast = next(c for c in alone.contrasts if c.load == "unbounded" and c.new == NEW)
    band = LoadSummary(alone).users.band(contrast)
    assert band.n == 15 and band.low < 1 < band.high and "own trials" in band.source
    assert LoadSummary(alone).users.about_band() == ["The band shows how much equal versions differ on these machines."]
    weak = " ".join(LoadSummary(alone).weaknesses())
    assert "the band of equal versions comes from pairs of the base's own trials." in weak


def test_the_bracket_lies_between_the_most_users_without_an_alert_and_the_fewest_with_one(load):
    users, contrast = LoadSummary(load).users, next(c for c in load.contrasts if c.load == "unbounded")
    for trial in load.sides(contrast)[0]:
        found = users.bracket(trial)
        assert found.passed < found.failed and found.failed - found.passed <= 8
        assert list(found.alerts) == ["client_mean", "cpu"] and found.limited_by == "client_mean"
    assert "The most frequent limit of both: client mean time." in " ".join(sentences(LoadSummary(load)))


@pytest.mark.parametrize(
    ("blocks", "limits", "text"),
    [
        (1, {BASE: "cpu", NEW: "cpu"}, "The limit of both: CPU."),
        (1, {BASE: "cpu", NEW: "memory"}, f"The limits: CPU ({BASE}), memory ({NEW})."),
        (2, {BASE: "cpu", NEW: "cpu"}, "The most frequent limit of both: CPU."),
    ],
)
def test_only_several_trials_have_a_most_frequent_limit(tmp_path, blocks, limits, text):
    tables = LoadTables(tmp_path)
    for block in range(1, blocks + 1):
        for version, limit in limits.items():
            facts = {"load": {"result": {"limited_by": limit}}}
            tables.run(levels_of(version, load="unbounded"), block, users=13_000.0 + block, facts=facts)
    summary = LoadSummary(load_of(tables.write()))
    (told,) = [sentence for sentence in sentences(summary) if sentence.startswith("Supported users")]
    assert told.endswith(f" {text}")


def test_a_load_that_did_not_settle_says_why_instead_of_a_number(tmp_path):
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW):
        facts = {"load": {"result": {"why": "at_minimum", "limited_by": "cpu"}}}
        tables.run(levels_of(version, load="unbounded"), 1, facts=facts)
    found = load_of(tables.write())
    summary = LoadSummary(found)
    cell = row(summary.users.table(), "unbounded")[BASE]
    assert said(cell) == "not found | an alert was on even with the fewest users" and cell.kind == "failed"
    assert "an alert was on even with the fewest" in summary.answers()[0]["lines"][0]["evidence"]
    assert any(text.startswith("The number of supported users is not known") for text in sentences(summary))
    ((_, caption, panels, *_),) = summary.users.figures()
    assert len(panels[0].drawn) == 2, "users over time are shown all the same"
    assert "nearest to the median" not in caption, "each version has one trial"


def test_a_load_of_one_version_that_did_not_settle_says_why_in_the_answer(tmp_path):
    tables = LoadTables(tmp_path)
    facts = {"load": {"result": {"why": "at_minimum", "limited_by": "cpu"}}}
    tables.run(levels_of(BASE, load="unbounded"), 1, facts=facts)
    users, *_ = LoadSummary(load_of(tables.write())).answers()
    assert users["what"] == "Supported users" and users["lines"][0]["value"] == "–"
    assert users["lines"][0]["evidence"] == "an alert was on even with the fewest users"


def test_the_heights_of_a_ramp_do_not_press_what_is_measured_to_the_ground():
    heights = {"y": [90.0, 50.0, 1.0, 1.2], "low": [0.5] * 4, "high": [99.0, 60.0, 1.1, 1.3]}
    rows = pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], **heights})
    assert load_panels._towers(rows, [Phase("steady", 2, 3)]), "the axis is logarithmic"
    assert not load_panels._towers(rows, [Phase("all", 0, 3)]) and not load_panels._towers(rows, [])
    nothing = rows.with_columns(low=pl.lit(0.0))
    assert not load_panels._towers(nothing, [Phase("steady", 2, 3)]), "of zero there is no logarithm"


def drawn_of(panels) -> list[dict]:
    """Every row that is drawn."""
    return [r for p in panels for rows in p.spec(400)["datasets"].values() for r in rows]


def searched_at_other_times(root: Path, **of_new: object) -> LoadTest:
    """One search per version. `of_new`: fields of the new version's trial.

    The base's window is 12 to 72 s, the other's 42 to 102 s, and its times are twice as long in it.
    """
    tables = LoadTables(root)
    for version, later_s in ((BASE, 0.0), (NEW, 30.0)):
        users, fields = (93.0, {}) if version == BASE else (22.0, of_new)
        trial = tables.run(levels_of(version, load="unbounded"), 1, users=users, **fields)
        for row in [row for rows in tables.series.values() for row in rows if row["trial"] == trial]:
            row |= {name: row[name] + later_s for name in ("t_s", "start_s", "end_s") if row.get(name) is not None}
            if row.get("panel") == "api_mean" and version == NEW and row["t_s"] > 60:
                row |= {name: 10 * row["value"] for name in ("value", "low", "high")}
    return load_of(tables.write(), {k: v for k, v in DECLARED.items() if k == "databases"})


def test_each_trials_own_window_is_drawn_and_no_height_is_clipped_by_it(tmp_path):
    load = searched_at_other_times(tmp_path)
    bars = {(BASE, 12.0, 72.0), (NEW, 42.0, 102.0)}
    ((caption, panels),) = [(c, p) for title, figures in LoadPanels(load).figures() for _, c, p, *_ in figures]
    rows = drawn_of(panels)
    assert {(r["series"], r["from"], r["to"]) for r in rows if "from" in r and "series" in r} == bars
    assert not [r for r in rows if "shade" in r] and "Shaded areas" not in caption, "they share no phase"
    of_bars = "Bars at the top: the stable phase of each trial."
    assert of_bars in caption
    highest = max(r["y"] for r in drawn_of(panels[:1]) if r.get("series") == NEW and "y" in r)
    trial = load.trials("this-machine", f"database=postgres,version={NEW},load=unbounded")[0]
    measured = load.series("panels", trial.uuid).filter(panel="api_mean")["value"].max()
    assert highest == pytest.approx(measured, rel=1e-3)
    caption, users = next((c, p) for _, c, p, *_ in LoadSummary(load).users.figures())
    assert caption.endswith(of_bars)
    assert {(r["series"], r["from"], r["to"]) for r in drawn_of(users) if "from" in r and "series" in r} == bars
    close = drawn_of(users[1:])
    for version, begin, end in bars:
        times = [r["x"] for r in close if r.get("series") == version and "x" in r]
        assert begin <= min(times) and max(times) <= end, "of each its own window"


def test_a_headline_of_too_few_trials_tells_that_one_was_disturbed(tmp_path):
    """Another guest of the hypervisor took 12 % of the host, and the first page only said "57 → 46.5"."""
    summary = LoadSummary(searched_at_other_times(tmp_path, disturbed=True, disturbance=json.dumps(SEEN)))
    lines = [line["evidence"] for answer in summary.answers() for line in answer["lines"]]
    assert len(lines) == 3 and all(f"; {NEW}: disturbed in 1 of 1 trial" in line for line in lines)
    assert f"so without a verdict. {NEW}: disturbed in 1 of 1 trial." in " ".join(sentences(summary))


def test_one_trial_an_arm_has_both_values_for_a_headline_and_no_per_cent(tmp_path):
    summary = LoadSummary(searched_at_other_times(tmp_path))
    for line in [line for answer in summary.answers() for line in answer["lines"]]:
        assert " → " in line["value"] and "%" not in line["value"], line
    (users,) = summary.answers()[0]["lines"]
    assert (users["value"], users["evidence"]) == ("93 → 22", "only 1 trial per version, so there is no verdict")
    assert said(row(summary.users.table(), "unbounded")["Delta"]).startswith("93 → 22")
    comments = " ".join(sentences(summary))
    assert "Supported users, in these trials: 93 → 22, from one trial per version, so without a verdict." in comments
    weak = [text for text in summary.weaknesses() if text.startswith("Fewer than 3 trials of a version")]
    assert len(weak) == 1 and weak[0].endswith("nothing has a verdict there: PostgreSQL 15, unbounded.")
    assert "−76" not in json.dumps([*summary.answers(), comments])


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (
            range(6),
            "No load has successful trials of both versions, so there is no verdict. A verdict needs at least",
        ),
        (range(4), "2 successful trials of each version: no verdict, because the spread between loads of the same"),
    ],
)
def test_trials_that_failed_are_not_counted_as_trials_that_nobody_ran(tmp_path, lost, told):
    tables = LoadTables(tmp_path)
    for block, version in product(range(6), (BASE, NEW)):
        failed = {"status": "failed", "cause": "it broke"} if version == NEW and block in lost else {}
        tables.run(levels_of(version), block, **failed)
    summary = LoadSummary(load_of(tables.write()))
    assert next(texts for title, texts in summary.comments() if title.startswith("All"))[0].startswith(told)
    (weak,) = [text for text in summary.weaknesses() if text.startswith("Fewer than 3 trials of a version")]
    assert weak.startswith("Fewer than 3 trials of a version succeeded, so nothing has a verdict there")


def test_what_limited_users_is_read_before_they_were_removed(tmp_path):
    """A second after an alert began at 36 users there are 12: the number that did not pass is 36."""
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW):
        seen = {"why": "swinging", "least": 12.0, "most": 36.0, "passed": 24.0, "failed": 36.0, "swing": 1.14}
        trial = tables.run(
            levels_of(version, load="unbounded"), 1, facts={"load": {"result": {**seen, "limited_by": "cpu"}}}
        )
        for name in ("users", "checks"):
            tables.series[name] = [r for r in tables.series[name] if r["trial"] != trial]
        head = tables.head()
        # An alert at 18 users was over before the window began.
        checks = ((24, "cpu"), (12, None), (18, "cpu"), (12, None), (24, None), (36, "cpu"), (24, "cpu"), (12, None))
        for n, (users, alert) in enumerate(checks):
            check = head | {"t_s": 2.0 * n, "users": float(users), "alert": alert, "judged": n > 0}
            tables.series["checks"].append(check)
            after = users - 12 if alert else users + 12
            tables.series["users"].append(head | {"t_s": 2.0 * n + 1, "users": float(after), "alert": alert or ""})
    load = load_of(tables.write())
    users = LoadSummary(load).users
    trial = load.sides(next(c for c in load.contrasts if c.load == "unbounded"))[0][0]
    found = users.bracket(trial)
    assert (found.passed, found.failed, found.limited_by) == (24, 36, "cpu") and found.alerts == {"cpu": 3 / 7}
    table = users.limits()
    limits = dict(zip(table.columns, table.rows[0], strict=True))
    assert said(limits["Bracket"]) == "24–36", "24 users also had an alert that went on"
    (about,) = users.about_brackets()
    assert about.endswith("so they can lie outside the bracket.") and "bracket" not in table.caption
    assert not [name for name in table.columns if "without an alert" in name]
    assert said(limits["Supported users"]) == "not found"
    assert said(limits["Users in the window"]) == "12–36 | swing: 114 %"
    cell = row(users.table(), "unbounded")[BASE]
    assert said(cell) == "not found | the number of users swung between 12 and 36" and cell.kind == "failed"


def loads(root: Path, *users: tuple[float | None, float | None]) -> LoadTest:
    """What unbounded loads of base and new supported, by block; None: the load of 40 users did not settle."""
    tables = LoadTables(root)
    for block, of_versions in enumerate(users, start=1):
        for version, supported in zip((BASE, NEW), of_versions, strict=True):
            unsettled = {} if supported else {"extra": {"supported_users": (None, "1")}}
            tables.run(levels_of(version, load="unbounded"), block, users=supported or 40.0, **unsettled)
    return load_of(tables.write())


def test_an_interval_from_within_a_trial_is_of_the_trial_whose_figure_is_beside_it(tmp_path):
    several = row(LoadSummary(loads(tmp_path / "two", (10_000.0, 5000.0), (2000.0, 3000.0))).users.table(), "unbounded")
    assert said(several["Delta"]) == "6,000 → 4,000 | n too small for an interval"
    found = row(LoadSummary(loads(tmp_path / "one", (None, 5000.0), (2000.0, 3000.0))).users.table(), "unbounded")
    assert said(found[BASE]) == "2,000 | 95 %: 1,990–2,000 | within one trial"
    assert said(found["Delta"]) == "2,000 → 4,000 | n too small for an interval"


def test_the_band_of_a_single_pair_is_one_value(tmp_path):
    found = row(LoadSummary(loads(tmp_path, (10_000.0, 5000.0), (9000.0, 5000.0))).users.table(), "unbounded")
    assert said(found["This study's band"]) == "−10 % | 1 pair: pairs of the base's own trials"


def test_one_trial_an_arm_has_an_interval_from_within_and_says_so(once):
    found = row(LoadSummary(once).users.table(), "PostgreSQL 15, unbounded")
    assert said(found["Delta"]).startswith("13,200 → 12,800 | 95 %: ")
    assert said(found["Delta"]).endswith("within one trial")
    assert said(found["Verdict"]).startswith("no verdict") and said(found["This study's band"]) == "–"
    assert LoadSummary(once).users.about_band()[0].startswith("There is no band of equal versions")
    weak = " ".join(LoadSummary(once).weaknesses())
    assert "the band of equal versions is unknown" in weak and "own trials" not in weak
    assert any("no verdict" in text for text in sentences(LoadSummary(once)))


def test_a_load_that_reached_its_greatest_number_without_an_alert_is_no_capacity(tmp_path):
    tables = LoadTables(tmp_path)
    facts = {"load": {"result": {"why": "at_maximum", "limited_by": None, "least": 190.0, "most": 200.0}}}
    for version, users in ((BASE, None), (NEW, 180.0)):
        tables.run(levels_of(version, load="unbounded"), 1, facts=facts, extra={"at_maximum": (1.0, "1")})
        tables.run(levels_of(version, load="unbounded"), 2, users=users, facts=None if users else facts)
    found = load_of(tables.write())
    cells = row(LoadSummary(found).users.table(), "unbounded")
    assert said(cells[BASE]) == "not found | nothing failed up to 200 users, the most that the load tried"
    assert said(cells[NEW]) == "≥ 180 | 1 of 2 loads not limited", "beside the one trial that was"
    assert "nothing failed up to 200 users" in LoadSummary(found).answers()[0]["lines"][0]["evidence"]


CLIPPED = {"why": "clipped", "supported": 97.2, "max_users": 100, "checks": 12, "clipped": 5}


@pytest.mark.parametrize("blocks", [1, 6])
def test_a_number_that_the_loads_own_maximum_clipped_is_told_as_a_lower_bound_and_has_no_verdict(tmp_path, blocks):
    """Of six trials, the others make the new version better, and leave out just the highest number."""
    tables = LoadTables(tmp_path)
    for block in range(1, blocks + 1):
        tables.run(levels_of(BASE, load="unbounded"), block, users=80.0 + block / 10)
        clipped = {"facts": {"load": {"result": CLIPPED}}, "extra": {"supported_users": (None, "1")}}
        tables.run(levels_of(NEW, load="unbounded"), block, users=97.2, **(clipped if block == 1 else {}))
    found = load_of(tables.write())
    summary = LoadSummary(found)
    how = f"{NEW}: at the maximum of 100 users in 5 of 12 checks"
    (answer,) = summary.answers()[0]["lines"]
    assert answer["value"].endswith(" → ≥ 97.2") and answer["evidence"] == f"no verdict; {how}"
    (made,) = summary.users.outcomes.values()
    assert made.verdict == "none" and made.ratio is None
    assert all(one["metric"] != "supported_users" or one["verdict"] == "none" for one in summary.findings()["found"])
    shown = row(summary.users.table(), "unbounded")
    assert said(shown[NEW]) == "≥ 97.2 | at the maximum of 100 users in 5 of 12 checks"
    assert "≥" not in said(shown[BASE]) and said(shown["Verdict"]) == f"no verdict | {how}"
    (limits,) = [r for r in summary.users.limits().rows if said(r[0]).endswith(f"{NEW} | block 1")]
    assert said(limits[1]) == "≥ 97.2"
    assert any(text.startswith(f"PostgreSQL 15, unbounded, {how}") for text in summary.weaknesses())
    comments = " ".join(sentences(summary))
    assert f"without a verdict: {how}." in comments and f"the load's maximum of users ({NEW})" in comments
    published = row(LoadPublished(PUBLISHED, found).users(), "Postgres")
    assert said(published["Measured: new"]).startswith("≥ 97.2") and said(published["Measured: change"]) == "–"


# -- panels --------------------------------------------------------------------------------------------


def test_what_is_measured_begins_together_however_long_users_took_to_arrive(tmp_path):
    tables = LoadTables(tmp_path)
    for version, later_s in ((BASE, 0.0), (NEW, 6.0)):
        trial = tables.run(levels_of(version), 1)
        own = [row for rows in tables.series.values() for row in rows if row["trial"] == trial]
        for row in own:
            row |= {name: row[name] + later_s for name in ("t_s", "start_s", "end_s") if row.get(name)}
    panels = dict(LoadPanels(load_of(tables.write())).figures())["Bounded PostgreSQL 15"][0][2]
    rows = [r for data in panels[0].spec(400)["datasets"].values() for r in data if "y" in r]
    ends = {version: max(r["x"] for r in rows if r.get("series") == version) for version in (BASE, NEW)}
    assert ends[BASE] == ends[NEW]


def test_ten_graphs_of_each_load_and_database_with_base_and_new_and_their_phases(load):
    drawn = dict(LoadPanels(load).figures())
    assert list(drawn)[:2] == ["Bounded PostgreSQL 15", "Unbounded PostgreSQL 15"] and len(drawn) == 4
    _, caption, panels, style, shown = drawn["Bounded PostgreSQL 15"][0]
    assert f"({BASE}: 6 trials, {NEW}: 6 trials)" in caption and style.names == (BASE, NEW)
    assert [p.title for p in panels] == [kind.title for kind in PANELS.values()] and shown == [BASE, NEW]
    spec = json.dumps(panels[0].spec(400, live=True))
    assert '"ramp"' in spec and '"steady"' in spec and "crosshair" in spec
    assert "crosshair" not in json.dumps(panels[0].spec(400)), "a printed figure has no pointer"
    assert AGAIN not in spec
    p99 = panels[1].spec(400)
    edges = {(r["low"], r["high"]) for rows in p99["datasets"].values() for r in rows if "low" in r}
    assert edges == {(0.025, 0.05), (0.05, 0.1)}, "the band of a p99 is its bucket"


@pytest.mark.long
def test_four_graphs_share_a_row_only_if_scripts_draw_them(load):
    name, caption, panels, style, shown = dict(LoadPanels(load).figures())["Bounded PostgreSQL 15"][0]
    columns = {}
    for number in (4, 6, 9, 10):
        figure = Figure(name, caption, "", tuple(panels[:number]), style, tuple(shown))
        columns[number] = re.search('class="panels([^"]*)"', figure.html())[1]
    assert columns == {4: " many", 6: " many three", 9: " many three", 10: " many three four"}
    assert 'class="panels many three"' in figure.static_html(10), "type would be too small in static ones"


@pytest.mark.long
def test_what_rates_look_back_at_is_not_named_steady(load, once):
    _, caption, panels, *_ = dict(LoadPanels(load).figures())["Bounded PostgreSQL 15"][0]
    areas = {
        kind: [(r["phase"], r["from"], r["to"]) for r in drawn_of([panel]) if "shade" in r]
        for kind, panel in zip(PANELS, panels, strict=True)
    }
    assert areas["heap"] == areas["devices"] == [("ramp", 0, 12), ("steady", 12, 72)]
    assert areas["cpu"] == areas["api_p99"] == [("ramp", 0, 12), ("look-back", 12, 17), ("steady", 17, 72)]
    assert 'Rates cover the 5 s before each point. In the area "look-back", they still contain the phase' in caption
    assert "Since the load began" in json.dumps(panels[0].spec(400)), "the axis has the ramp, too"
    ((_, _, scraped, *_),) = dict(LoadPanels(once).figures())["Bounded PostgreSQL 15"]
    assert "Since the window began" in json.dumps(scraped[0].spec(400)), "of a scraped load, nothing else is known"


def test_the_windows_table_gives_quantiles_no_ratio(load):
    table = LoadPanels(load).table(load.contrasts[0])
    api, p99 = row(table, "Average API times"), row(table, "p99 of store times")
    assert said(api["Ratio"]).startswith("+1") and said(api["Verdict"]).startswith("worse")
    assert said(p99["Ratio"]) == "–" and said(p99["Verdict"]) == "not distinguishable | the same bucket"
    assert said(p99[f"{BASE} (base)"]).startswith("50–100 ms (6 of 6)")
    assert said(row(table, "p99 of API times")["Verdict"]) == "higher bucket in 6, lower in 0 | of 6 blocks"


def test_one_trial_an_arm_has_intervals_over_blocks_of_its_samples(once):
    found = row(LoadPanels(once).table(once.contrasts[0]), "CPU utilization")
    assert re.match(r"one trial per version \| 95 %: .* within one trial$", said(found["Ratio"]))
    assert said(found["Verdict"]) == "no verdict | one trial per version"


def test_an_interval_within_one_trial_holds_nothing_of_the_ramp(tmp_path):
    """Both sides answer in 5 ms once all users are there, and the base in 15 ms before. Times are in s."""
    scrapes, steady = range(1000, 1601, 15), (1240, 1600)
    noise = np.random.default_rng(1).normal(1, 0.02, (2, len(scrapes)))
    for version, ramp, noises in ((BASE, 0.015, noise[0]), (NEW, 0.005, noise[1])):
        spent = [1500 * (ramp if at < steady[0] else 0.005 * by) for at, by in zip(scrapes, noises, strict=True)]
        labels = {"instance": "a", "handler": "h", "status_code": "200"}
        counters = {"count": range(0, 1500 * len(scrapes), 1500), "sum": [0, *np.cumsum(spent[:-1])]}
        metrics = {f"mattermost_api_time_{part}": [(labels, every(15, 1000, of))] for part, of in counters.items()}
        metrics["go_goroutines"] = [({"instance": "a"}, every(15, 1000, scrapes))]
        write_trial(tmp_path / version, metrics, (1000, 1600), steady)
    load = captured(tmp_path / "project", *((v, str(tmp_path / v), ()) for v in (BASE, NEW)))
    panels, (contrast,) = LoadPanels(load), load.contrasts
    found = said(row(panels.table(contrast), "Average API times")["Ratio"])
    low, high = (float(text.replace("−", "-")) for text in re.search(r"95 %: (\S+) % to (\S+) %", found).groups())
    assert -2 < low < 0 < high < 2, found
    ((base,), _) = load.sides(contrast)
    assert panels.steady("goroutines", base) == [*range(1240, 1601, 15)], "a gauge looks back at nothing"


# -- set-up, clients and failures ----------------------------------------------------------------------


def test_the_set_up_is_what_was_recorded_and_declared(load, once):
    table = LoadSetup(load).table()
    assert "12,000 posts" in said(row(table, "Data set")["Value"])
    rule = said(row(table, "Unbounded: rule")["Value"])
    assert "at most 20,000 users, steps of 8 users, every 2 s" in rule and "over 30 min" in rule
    assert said(row(table, "Order of base")["Value"]) == "AB BA AB BA AB BA"
    assert "A processor" in said(row(table, "Host here")["Value"])
    scraped = LoadSetup(once).table()
    assert said(row(scraped, "Load")["Value"]).startswith("run by someone else")
    assert not any("Order" in r[0].lines[0] for r in scraped.rows)


def test_clients_stand_beside_the_server_action_by_action(load):
    client = LoadClient(load)
    beside = row(client.beside(), f"PostgreSQL 15, bounded, {BASE}")
    assert said(beside["Server, p99"]) == "25–50 ms"
    contrast = load.contrasts[0]
    client_s, server_s = (load.median(m, contrast.target, contrast.base_case) for m in ("client_mean", "api_mean"))
    told = f"client: {human.number(client_s / server_s)} times the server's"
    assert said(beside["Difference"]).endswith(told), "a ratio of the two, not of the difference"
    assert "Server, API calls per second" in beside, "the graph of requests per second counts other requests, too"
    actions = next(client.actions())
    failed = row(actions, "post")
    assert said(failed["Failed"]).startswith("12 → ") and " | 0.22 %, 95 %: 0.1" in said(failed["Failed"])
    assert said(row(actions, "login")["p99"]).startswith("needs 368 → ")


def test_why_clients_have_no_interval_is_told_once_per_case(load, once):
    tables = LoadClient(load).beside(), LoadClient(once).beside()
    several, single = (row(table, f"PostgreSQL 15, bounded, {BASE}") for table in tables)
    assert said(several["Case"]) == f"PostgreSQL 15, bounded, {BASE}", "intervals differ from cell to cell"
    assert all("95 %: " in said(several[name]) for name in ("Client, mean", "Server, mean"))
    assert said(single["Case"]) == f"PostgreSQL 15, bounded, {BASE} | n = 1: too small for an interval"
    assert not any("n = 1" in said(cell) for name, cell in single.items() if name != "Case")
    assert len(said(single["Client, p99"]).split(" | ")) == 1


def test_failures_gaps_and_resets_are_told(load):
    client = LoadClient(load)
    table = client.failures()
    assert "5 of 6 ok" in said(row(table, f"</script>, bounded, {NEW}")["Trials"])
    gaps = {r[0].lines[0]: said(r[-2]) for r in table.rows}
    assert [name for name, count in gaps.items() if count == "1"] == [f"PostgreSQL 15, bounded, {BASE}"]
    assert len(client.events().rows) == 1 and "no sample for 4 s" in said(client.events().rows[0][-1])
    weak = " ".join(LoadSummary(load).weaknesses())
    assert "1 trial with gaps in the samples" in weak
    assert any("exit status 2" in text for text in LoadSummary(load).actions())


TROUBLES = ("server_error_share", "client_errors", "gaps", "resets")


@pytest.mark.parametrize("trouble", [None, "failed", *TROUBLES])
def test_a_page_says_that_nothing_failed_only_if_nothing_did(tmp_path, trouble):
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW):
        here = trouble if version == NEW else None
        values = {name: (0.01 if name == here else 0.0, "1") for name in TROUBLES}
        fields = {"status": "failed", "cause": "exit status 2"} if here == "failed" else {}
        tables.run(levels_of(version), 1, extra=values, **fields)
    told = LoadClient(load_of(tables.write())).nothing_failed()
    assert bool(told) == (trouble is None) and all("no restart and no counter reset" in text for text in told)


@pytest.mark.parametrize(
    ("roles", "is_shared"),
    [({"sut": "a"}, True), ({"sut": "a", "load": "a"}, True), ({"sut": "a", "load": "b"}, False)],
)
def test_users_beside_the_server_are_a_weakness(load, roles, is_shared):
    of_session = LoadTest(load.results, DECLARED, [index | {"roles": roles} for index in indexes_of(load.results)])
    weak = " ".join(LoadSummary(of_session).weaknesses())
    assert ("Users and server shared a host" in weak) is is_shared


def test_windows_that_do_not_alternate_are_held_against_a_scraped_study(once):
    weak = list(LoadSummary(once).weaknesses())
    assert LoadClient(once).why_none() == "Someone else ran the load."
    assert any("all windows of one version are before all of the other" in text for text in weak)


def test_a_study_with_one_version_says_that_there_is_nothing_to_compare(tmp_path):
    tables = LoadTables(tmp_path)
    tables.run(levels_of(BASE), 1)
    alone = load_of(tables.write())
    (text,) = LoadSummary(alone).nothing_worse()
    assert text.startswith("No two versions were measured") and not list(LoadSummary(alone).comments())
    assert alone.not_compared == text and LoadClient(alone).why_none() == "No trial gave client-side figures."
    assert LoadSummary(alone).mix.table().rows == () and dict(LoadPanels(alone).figures())


def test_a_study_with_one_version_shows_what_it_measured(tmp_path):
    """Supported users, times and what limited them. Nothing is compared, and nothing is called a version's change."""
    tables = LoadTables(tmp_path)
    for block, users in enumerate((90.0, 93.0, 96.0), 1):
        tables.run(levels_of(BASE), block)
        tables.run(levels_of(BASE, load="unbounded"), block, users=users)
    alone = load_of(tables.write())
    answers = {answer["what"]: answer["lines"] for answer in LoadSummary(alone).answers()}
    assert list(answers) == ["Supported users", "API times", "Store times"]
    (users_line,) = answers["Supported users"]
    assert users_line["value"] == "93" and users_line["evidence"].startswith("n = 3")
    assert [line["name"] for line in answers["API times"]] == [
        f"PostgreSQL 15, bounded, {BASE} (30 users)",
        f"PostgreSQL 15, unbounded, {BASE} (users are added until an alert)",
    ]
    users = LoadUsers(alone)
    compared, single = users.tables()
    assert not compared.rows and said(single.rows[0][1]).startswith("93")
    assert len(users.limits().rows) == 3 and list(users.figures())
    bounded, _ = LoadPanels(alone).tables()
    assert bounded.columns == ("Metric over the steady window", BASE) and len(bounded.rows) == len(PANELS)
    actions = next(iter(LoadClient(alone).actions())).without_empty_columns()
    assert "base" not in actions.caption and "Change" not in actions.columns
    assert all(" → " not in said(cell) and "not done" not in said(cell) for cells in actions.rows for cell in cells)


def test_a_version_beside_another_one_is_not_shown_by_itself(load):
    assert (
        load.singles == []
        and load.not_compared == ""
        and [table.rows for table in LoadUsers(load).tables()[1:]] == [()]
    )


def test_a_version_that_always_failed_is_told_and_breaks_no_table(tmp_path):
    tables = LoadTables(tmp_path)
    for block in (1, 2, 3):
        tables.run(levels_of(BASE), block)
        tables.run(levels_of(NEW), block, status="failed", cause="the server could not be built: no registry")
    found = load_of(tables.write())
    summary = LoadSummary(found)
    assert summary.mix.readings == [] and any("could not be built" in text for text in summary.actions())
    table = LoadPanels(found).table(found.contrasts[0])
    assert "could not be built" in said(row(table, "CPU utilization")[NEW])


# -- lints ---------------------------------------------------------------------------------------------


def lints_of(load: LoadTest) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in lints.lint(material.read(load.results)):
        found.setdefault(finding.lint, []).append(f"{finding.where}: {finding.what}")
    return found


def test_lints_tell_gaps_resets_short_windows_and_quantiles_at_the_ends_of_a_histogram(tmp_path):
    tables = LoadTables(tmp_path)
    low = {"rare": (50.0, 0.05, [50.0] * 12)}
    high = {"slow": (5000.0, 9e4, [0.0] * 11 + [5000.0])}
    extra = {"window": (12.04, "s"), "gaps": (2.0, "1"), "resets": (1.0, "1"), "generator_cpu": (0.97, "1")}
    tables.run(levels_of(BASE), 1, calls={"store": low, "api": high}, extra=extra)
    values = tables.observations
    values[:] = [row for row in values if row["value"] is not None]  # above the last edge there is no upper bound
    found = lints_of(load_of(tables.write()))
    assert found["counter-reset"][0].endswith("1 counter reset within the window")
    assert found["scrape-gap"][0].endswith("2 gaps in the samples of the window")
    assert found["short-window"][0].endswith("12 s scraped every 1 s: 12 scrapes; at least 30 are needed")
    assert any("store: the p99 lies in the lowest bucket, below 5 ms" in text for text in found["histogram-end"])
    assert any(
        "api: the p99 lies above the last edge of the histogram, 10 s" in text for text in found["histogram-end"]
    )
    assert "97 % of its CPUs" in found["client-limited"][0]


def test_lints_name_the_labels_of_one_version_only(load):
    found = lints_of(load)["one-sided-label"]
    assert any(DRIVER in text and "left: 50 % of the store calls" in text for text in found), found
    assert not any(AGAIN in text for text in found), "the same version again calls the same labels"
    assert "short-window" not in lints_of(load)


def test_what_a_lint_calls_left_is_what_the_studys_base_had(tmp_path):
    """For any order of the observations: by name, 10 comes before 9."""
    tables = LoadTables(tmp_path)
    for version in (BASE, NEW):
        tables.run(levels_of(version), 1)
    tables.observations.reverse()
    found = lints_of(load_of(tables.write()))["one-sided-label"]
    assert any(f"{BASE} → {NEW}" in text and f"{DRIVER} left" in text for text in found), found


# -- outside the page -----------------------------------------------------------------------------------


def test_the_pages_own_figures_stand_beside_ours_and_what_it_found_by_hand_beside_what_we_find(load):
    tables = LoadPublished(PUBLISHED, load)
    postgres = row(tables.users(), "Postgres")
    assert said(postgres["Published: change"]) == "-2.96%" and said(postgres["Measured: change"]).startswith("−2.")
    assert said(row(tables.users(), "MySQL")["Measured: base"]) == "–", "MariaDB is no MySQL"
    assert said(row(tables.users(), "MariaDB")["Published: v9.11.0"]) == "–"
    shift = tables.shift()
    everything, rest = row(shift, "All methods, mean"), row(shift, f"Without {DRIVER}, mean")
    (measured,) = (c for c in shift.columns if c.startswith("Measured: PostgreSQL 15, bounded"))
    assert said(everything["Published"]) == "1.9 milliseconds slower"
    assert said(everything[measured]).endswith("mix-driven, no regression")
    assert said(rest["Published"]) == "0.0525 milliseconds faster" and said(rest[measured]).startswith("−0.0")
    assert said(rest[measured]).endswith(f"without {DRIVER}")


def test_beside_published_figures_ours_are_marked_if_they_were_disturbed(tmp_path):
    seen = {"disturbed": True, "disturbance": json.dumps(SEEN)}
    users = row(LoadPublished(PUBLISHED, searched_at_other_times(tmp_path / "a", **seen)).users(), "Postgres")
    marks = [users[f"Measured: {what}"].marks for what in ("base", "new", "change")]
    assert marks == [(), ("disturbed 1 of 1",), ("disturbed 1 of 2",)]
    tables = LoadTables(tmp_path / "b")
    for version, fields in ((BASE, {}), (NEW, seen)):
        tables.run(levels_of(version), 1, **fields)
    load = load_of(tables.write(), {k: v for k, v in DECLARED.items() if k == "databases"})
    shift = LoadPublished(PUBLISHED, load).shift()
    assert {cells[2].marks for cells in shift.rows} == {("disturbed 1 of 2",)}


def test_a_change_of_p99_within_one_bucket_is_nowhere_told_as_known(load):
    """The p99s of both versions lie between 25 and 50 ms; only PromQL's interpolation tells them apart."""
    found = reading(load, "PostgreSQL 15, bounded", "store")
    rest = found.shift.without([DRIVER])
    assert not found.shift.base_quantile().apart(found.shift.standardised_quantile())
    assert not rest.base_quantile().apart(rest.new_quantile())
    sentence = LoadSummary(load).mix.sentence(found)
    assert sentence.count("p99 stayed within one bucket (50–100 ms)") == 2, "as called, and without the label"
    assert "with the calls of the base, it stayed within one bucket (50–100 ms)" in sentence
    shift = LoadPublished(PUBLISHED, load).shift()
    (measured,) = (c for c in shift.columns if c.startswith("Measured: PostgreSQL 15, bounded"))
    mean, p99 = (said(row(shift, f"All methods, {what}")[measured]) for what in ("mean", "p99"))
    assert p99 == "+14.7 ms | not distinguishable: same bucket | mix-driven, no regression"
    assert "bucket" not in mean, "a mean is exact"


def test_the_page_stands_alone_where_no_load_test_was_measured():
    tables = LoadPublished(PUBLISHED, None)
    assert len(tables.users().rows) == 2 and tables.shift().columns == ("Of", "Published")
