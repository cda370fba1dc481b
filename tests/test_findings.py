"""Comparisons as the overview gets them: how strong one is, and one line for several."""

import json
import math

import pytest
from tidy_fixture import Tables

from benchstudy.report.comparisons import findings, verdicts, wording
from benchstudy.report.comparisons.comparison import Comparisons
from benchstudy.statistics.comparisons import Arm, Comparison, Evidence, Refusal, Verdict

LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}
DISTURBED = {"host": "here", "what": "others_cpu", "share": 0.55, "others_cpu": 1.1, "cpus": 2, "busiest": ["backup"]}


def found(tmp_path, *, metrics=("duration",), **backends):
    """Backends against local. Each maps a size to how many times as long it takes; None is a trial that was disturbed.

    Trials of one block are alike, but for a thousandth.
    """
    tables = Tables(tmp_path, "study", "file_size")
    for backend, sizes in {"local": dict.fromkeys(("1MB", "2MB"), 1.0), **backends}.items():
        for size, factor in sizes.items():
            for block in range(1, 7):
                seconds = (factor or 1.0) * (1 + block / 100) * tables.noisy(1.0, 0.001)
                values = {"duration": (seconds, "s"), "throughput": (1e6 / seconds, "B/s")}
                met = {} if factor else {"disturbed": True, "disturbance": json.dumps(DISTURBED)}
                levels = LEVELS | {"backend": backend, "size": size}
                tables.add(levels, block, values, numbers={"size_bytes": 10**6}, **met)
    return Comparisons(tables.results(), [], list(metrics), factor="backend", base="local")


# -- one ----------------------------------------------------------------------


def evidence(low, high):
    return Evidence(low, high, p_beyond=0.01, p_within=1.0, smallest_detectable=0.1)


def finding(verdict=Verdict.WORSE, **made):
    sides = (Arm(name, "s", values) for name, values in (("base", (1.0, 2.0, 4.0)), ("other", (2.0, 4.0, 8.0, 16.0))))
    outcome = Comparison(*sides, margin=0.21, better="lower", verdict=verdict, **made)
    cases = {"target": "host", "case": "new"}, {"target": "host", "case": "old"}
    return findings.finding("duration", "Time", "s", ("new", "old"), "", cases, outcome)


@pytest.mark.parametrize(
    ("ratio", "strength"),
    [(1.1, 1.0), (1.1**3, 3.0), (1.1**0.5, 0.5), (1.1**-2, 2.0)],
)
@pytest.mark.parametrize("verdict", [Verdict.BETTER, Verdict.WORSE])
def test_a_difference_is_as_strong_as_it_is_often_the_smallest_detectable_one(verdict, ratio, strength):
    told = finding(verdict, ratio=ratio, evidence=evidence(ratio / 1.01, ratio * 1.01))
    assert told["strength"] == pytest.approx(strength)


@pytest.mark.parametrize(("low", "high"), [(1 / 1.1, 1.05), (1 / 1.05, 1.1)])
def test_an_equivalence_is_as_strong_as_its_margin_is_wide_over_the_farther_end(low, high):
    """The margin of 1.21 is twice 1.1, as logarithms."""
    assert finding(Verdict.EQUIVALENT, ratio=1.0, evidence=evidence(low, high))["strength"] == pytest.approx(2)
    exact = finding(Verdict.EQUIVALENT, ratio=1.0, evidence=evidence(1.0, 1.0))["strength"]
    assert math.isfinite(exact) and exact > 1e6


@pytest.mark.parametrize(
    ("verdict", "made"),
    [
        (Verdict.NONE, {"ratio": 2.0, "evidence": evidence(1.9, 2.1)}),
        (Verdict.INCONCLUSIVE, {"ratio": 2.0, "evidence": evidence(1.9, 2.1)}),
        (Verdict.WORSE, {"ratio": 2.0, "evidence": None}),
        (Verdict.EQUIVALENT, {"ratio": None, "evidence": evidence(1.0, 1.0)}),
    ],
)
def test_what_is_not_decided_has_no_strength(verdict, made):
    assert finding(verdict, **made)["strength"] == 0


def test_a_finding_has_both_figures_and_how_many_trials_they_are_from():
    told = finding(ratio=2.0, evidence=evidence(1.0, math.inf))
    assert (told["median"], told["base_median"], told["ratio"], told["low"], told["high"]) == (6, 2, 2, 1, None)
    assert (told["n"], told["base_n"], told["paired"]) == (4, 3, False)
    assert [finding(pairs=3)[key] for key in ("n", "base_n", "paired")] == [3, 3, True]
    assert (told["target"], told["case"], told["base_case"]) == ("host", "new", "old")


def test_the_strongest_findings_come_first_and_only_those_of_primary_metrics(tmp_path):
    compared = found(tmp_path, metrics=("duration", "throughput"), near={"1MB": 1.2}, far={"1MB": 3.0, "2MB": 2.0})
    noted = findings.of(compared, wording.of("file_size"), aside=False)
    assert (noted["aside"], noted["others"]) == (False, [])
    told = noted["found"]
    assert [(one["level"], one["metric"], round(one["ratio"])) for one in told] == [
        ("far", "duration", 3), ("far", "duration", 2), ("near", "duration", 1),
    ]  # fmt: skip
    assert told[0]["where"] == "to write 1 MB with fsync" and told[0]["base_level"] == "local"


def test_a_family_without_words_of_its_own_lists_the_levels():
    words = wording.of("nobody's")
    assert words.setting({"size": "100MB", "op": "read"}) == "for 100 MB, read"
    assert words.setting({}) == "" and words.name("op", "read") == "read"


# -- several ----------------------------------------------------------------------


def test_a_line_of_one_comparison_says_its_verdict_and_its_reason(tmp_path):
    (line,) = verdicts.lines(found(tmp_path, other={"1MB": 2.0}))
    assert (line["name"], line["verdict"], line["kind"], line["several"]) == (
        "other against local", "worse", Verdict.WORSE, False,
    )  # fmt: skip
    assert line["ratio"].startswith("2.0") and line["why"].startswith("higher by at least 99.7 %")


def test_a_finding_and_its_line_say_how_many_trials_failed(tmp_path):
    tables = Tables(tmp_path, "study", "file_size")
    for backend, factor in {"local": 1.0, "other": 0.5}.items():
        for block in range(1, 13):
            values = {"duration": (factor * tables.noisy(1.0, 0.001), "s")}
            lost = {"status": "timeout", "cause": "ended after 600 s"} if backend == "other" and block > 6 else {}
            tables.add(LEVELS | {"backend": backend}, block, values, numbers={"size_bytes": 10**6}, **lost)
    compared = Comparisons(tables.results(), [], ["duration"], factor="backend", base="local")
    failed = "6 of 12 trials of other failed (95 %: 25–75 %): the ratio covers only the others"
    (line,) = verdicts.lines(compared)
    assert line["verdict"] == "better" and line["why"].endswith(f"; {failed}")
    (told,) = findings.of(compared, wording.of("file_size"), aside=False)["found"]
    assert told["warnings"] == [failed]


def test_a_line_of_one_withheld_comparison_names_its_trials(tmp_path):
    compared = found(tmp_path, other={"1MB": None})
    (line,) = verdicts.lines(compared)
    assert (line["verdict"], line["ratio"]) == ("without a verdict", "no ratio")
    assert line["why"].startswith("disturbed in 0 of 6 trials of local and 6 of 6 trials of other")
    (answer,) = verdicts.answer(compared, "Which?", "#table-which")["lines"]
    assert (answer["value"], answer["evidence"]) == ("no verdict", f"no ratio; {line['why']}")


def test_a_line_of_several_counts_their_verdicts_and_has_their_range(tmp_path):
    compared = found(
        tmp_path, like={"1MB": 1.0, "2MB": 1.0}, mixed={"1MB": 1.0, "2MB": 3.0}, slow={"1MB": 2.0, "2MB": 3.0}
    )
    like, mixed, slow = verdicts.lines(compared)
    assert (like["verdict"], like["why"]) == ("equivalent in 2 of 2", "they differ by less than 5 %")
    assert (mixed["verdict"], mixed["kind"], mixed["why"]) == ("worse in 1, equivalent in 1 of 2", "mixed", "")
    assert (slow["verdict"], slow["kind"], slow["why"]) == ("worse in 2 of 2", Verdict.WORSE, ""), "two reasons"
    assert slow["ratio"].startswith("from 2.0") and " to 3.0" in slow["ratio"]
    said = {line["name"]: line["value"] for line in verdicts.answer(compared, "Which?", "#table-which")["lines"]}
    assert said == {
        "like against local": "equivalent", "mixed against local": "it depends", "slow against local": "worse",
    }  # fmt: skip


def test_an_answer_is_a_verdict_if_nothing_that_was_decided_contradicts_it(tmp_path):
    compared = found(
        tmp_path, slow={"1MB": 2.0, "2MB": None}, mixed={"1MB": 2.0, "2MB": 0.5}, near={"1MB": 1.05, "2MB": None}
    )
    assert {line["name"]: line["value"] for line in verdicts.answer(compared, "Which?", "#table-which")["lines"]} == {
        "slow against local": "worse where decided", "mixed against local": "it depends",
        "near against local": "undecided",
    }  # fmt: skip


def test_lines_of_several_metrics_are_named_after_them(tmp_path):
    told = verdicts.lines(found(tmp_path, metrics=("duration", "throughput"), other={"1MB": 2.0}))
    assert [line["name"] for line in told] == [
        "other against local, time of one file",
        "other against local, throughput",
    ]
    assert [line["ratio"][:3] for line in told] == ["2.0", "0.5"]


def test_a_summary_counts_what_was_compared_and_names_what_is_lacking(tmp_path):
    compared = found(tmp_path, other={"1MB": 2.0, "2MB": None}, like={"1MB": 1.0})
    told = verdicts.summarised(compared, "Backends")
    assert told["verdicts"] == {Verdict.WORSE: 1, Verdict.NONE: 1, Verdict.EQUIVALENT: 1}
    assert (told["intervals"], told["tests"], len(told["tested"]), told["margins"]) == (2, 2, 2, [0.05])
    (low, high) = told["detectable"]
    assert 0 < low < high < 0.05
    assert told["lacking"] == {
        "interval": ["other against local · 2MB, Time of one file"],
        "adjusted": [], "detectable": [], "session": [],
    }  # fmt: skip
    (row,) = [row for row in compared.rows if row.outcome.refusal]
    assert row.outcome.refusal is Refusal.DISTURBED
