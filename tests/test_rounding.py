"""Figures for a reader: estimate and interval are rounded together, to two or three digits, without an exponent."""

import ast
import math
import random
import re
from collections.abc import Iterator

import altair as alt
import polars as pl
import pytest
from conftest import CHECKOUT

from benchstudy.model import rounding
from benchstudy.report import human
from benchstudy.report.figures import vega
from benchstudy.report.figures.axes import Axis
from benchstudy.statistics.stats import summarise

UNITS = ("s", "B", "B/s", "1/s", "1", "%", "parsecs")


def drawn(seed: int) -> tuple[list[float], str]:
    """Trials of any size and spread, some of them whole numbers, zero or negative."""
    chance = random.Random(seed)
    middle = chance.choice((1, -1, 1, 1)) * 10 ** chance.uniform(-9, 12)
    spread = 10 ** chance.uniform(-7, 1)
    values = [middle * (1 + spread * chance.gauss(0, 1)) for _ in range(chance.randint(6, 40))]
    if chance.random() < 0.2:
        values = [round(value) for value in values]
    return values + [0.0] * chance.choice((0, 0, 0, 3)), chance.choice(UNITS)


def number(text: str) -> float:
    return float(text.replace(",", ""))


_NUMBER = r"-?[\d,]+(?:\.\d+)?"


@pytest.mark.parametrize("start", range(0, 4000, 1000))
def test_an_estimate_never_lies_outside_its_printed_interval(start):
    for seed in range(start, start + 1000):
        values, unit = drawn(seed)
        summary = summarise(values)
        figure, evidence = human.median(summary, unit), human.interval(summary, unit)
        said = f"{seed}: {figure} | {evidence}"
        assert not re.search(r"\de[+-]?\d|-0(\.0*)?(?![.\d])|nan|inf", f"{figure} {evidence}"), said
        estimate = number(re.match(_NUMBER, figure)[0])
        reach = re.fullmatch(r"±([\d.]+) %", evidence)
        if reach:
            low, high = (summary.interval_low, summary.interval_high)
            furthest = max(high - summary.median, summary.median - low) / abs(summary.median)
            assert furthest <= float(reach[1]) / 100 * (1 + 1e-9), said
            continue
        ends = re.match(rf"({_NUMBER})(?:–| to )({_NUMBER})", evidence)
        low, high = number(ends[1]), number(ends[2])
        assert low <= estimate <= high, said
        for shown in (figure, ends[1], ends[2]):
            digits = re.match(_NUMBER, shown)[0].replace(",", "").replace(".", "").lstrip("-0").rstrip("0")
            assert len(digits) <= rounding.MOST, said


@pytest.mark.parametrize(
    ("values", "unit", "figure", "interval"),
    [
        ([1939, 1970, 1988.4, 1990.9, 1988.3, 1991], "1/s", "1,990/s", "1,940–1,990/s"),
        ([1.0, 1.2, 1.5, 1.6, 2.1, 2.4], "s", "1.6 s", "1.0–2.4 s"),
        ([100.01, 100.02, 100.02, 100.03, 100.03, 100.04], "1", "100", "±0.015 %"),
        ([0.0] * 6, "s", "0 s", "0–0 s"),
        ([-1e-9] * 6, "1/s", "-0.000000001/s", "-0.000000001 to -0.000000001/s"),
    ],
)
def test_the_width_of_the_interval_decides_the_digits(values, unit, figure, interval):
    summary = summarise(values)
    assert (human.median(summary, unit), human.interval(summary, unit)) == (figure, interval)


def test_a_range_that_begins_below_zero_has_no_dash_before_a_minus():
    assert human.estimate(-4.98, -5.06, -4.93, "1") == ("-4.98", "95 %: -5.06 to -4.93")
    assert human.value_range([-0.03, 0.5], "1") == "-0.03 to 0.5"


def test_a_ratio_is_rounded_with_its_interval():
    assert human.ratio(5.3372, 5.2, 9.04) == ("5.3×", "95 %: 5.2–9.0×")
    assert human.ratio(1.0151, 1.005, 1.018) == ("1.02×", "95 %: 1.00–1.02×")
    assert human.ratio(math.exp(2), None, None) == ("7.39×",)


@pytest.mark.parametrize("log", [True, False])
def test_no_text_of_a_figure_has_fifteen_digits(log):
    values = [6.15644444444e-6, 0.31234567891, 0.87654321]
    encoding = Axis("Share of time", "1", log=log).encode(values)
    chart = alt.Chart(pl.DataFrame({"x": values, "y": values})).mark_point()
    drawn = vega.svg(chart.encode(x=alt.X("x:Q", **encoding), y=alt.Y("y:Q", **encoding)).to_dict())
    labels = re.findall(r'aria-label="([^"]*)"|<text[^>]*>([^<]*)', drawn)
    said = [text for pair in labels for text in pair if (text and "axis" in "".join(pair)) or "Share" in "".join(pair)]
    assert said and not [text for text in said if re.search(r"[1-9][.\d]{5,}|\de-\d", text)], said


# Numbers that are not figures of a report: for machines, points in time, and our own durations in fixed steps.
FIXED = {
    "families/http_concurrency/command.py": "settings of a generator",
    "report/figures/vega.py": "coordinates",
    "families/load_test/load_metrics.py": "moments, in Unix s, and gaps between them",
    "families/load_test/parse.py": "moments, in Unix s",
    "families/load_test/check.py": "clocks, to the millisecond that they are compared to",
    "families/load_test/clocks.py": "clocks, to the millisecond that they are compared to",
    "commands/checks.py": "clocks, to the millisecond that they are compared to",
    "families/log_write/hammer.py": "as the hammer itself prints it",
    "families/log_write/page/hammer.py": "as the hammer itself prints it",
    "lints/comparisons.py": "as it was printed elsewhere",
    "report/comparisons/comparison.py": "a limit, and no estimate",
    "provisioning/toolbuilder.py": "a limit, and no estimate",
    "report/figures/paper.py": "places in a drawing",
    "report/tables/latex.py": "widths of columns",
    "hosts/line.py": "progress",
    "measuring/progress.py": "progress",
}
_DIGITS = re.compile(r"\.[1-9]\d*[efg]|%$")
_OF_A_LOG = re.compile(r"%[-+]?\d*\.\d+[efg]")


def rounded_by_hand(source: str) -> Iterator[int]:
    """Lines with a format that sets its own digits: ".1f", ".2%", ".0f" of a quotient, "%.1f"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)[2:-1]
            is_ratio = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, (ast.Div, ast.Mult))
            if _DIGITS.search(spec) or (spec.endswith(".0f") and is_ratio):
                yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _OF_A_LOG.search(node.value):
            yield node.lineno


def test_all_figures_for_people_are_rounded_in_one_place():
    """Code on hosts prints for machines."""
    assert [*rounded_by_hand('f"{x:.1f} {y:.2%} {a / b:.0f} {n:,} {rate:g} {name}"')] == [1, 1, 1]
    root = CHECKOUT / "src" / "benchstudy"
    files = [p for p in root.rglob("*.py") if not {"agent", "on_host"} & set(p.parts)]
    found = {p.relative_to(root).as_posix(): [*rounded_by_hand(p.read_text())] for p in files}
    by_hand = {name: lines for name, lines in found.items() if lines}
    assert by_hand.keys() == FIXED.keys(), {name: by_hand[name] for name in by_hand.keys() - FIXED.keys()}


def test_a_text_that_is_cut_ends_with_a_whole_word():
    assert human.shortened("at worst others used 0.27 of 2 processors of this-machine", 53) == (
        "at worst others used 0.27 of 2 processors of …"
    )
    assert human.shortened("short", 5) == "short"


def test_a_cause_that_is_cut_keeps_its_begin_and_its_end():
    cause = "it ended with exit status 3: GET /a 200 / GET /b 200 / GET /c 200 / GET /d 200 / no space left"
    assert human.shortened_within(cause, 60) == "it ended with exit status 3: GET /a … /d 200 / no space left"
    assert human.shortened_within("two\n words", 9) == "two words", "a text that fits is whole"
    assert human.shortened_within("x" * 30, 10) == "…", "and one without a word's end is left out"


def test_a_text_ends_with_a_whole_sentence_if_one_fits():
    text = "1 of 7 points broke the law. In 2, more requests were in flight. Repeat it."
    assert human.first_sentences(text, 40) == "1 of 7 points broke the law."
    assert human.first_sentences(text, 70) == text.removesuffix(" Repeat it.")
    assert human.first_sentences(text, 20) == "1 of 7 points …"
    assert human.first_sentences(text, 200) == text


def test_two_values_to_compare_have_one_unit():
    assert human.from_to(0.000294, 0.0000922, "s") == "0.294 ms → 0.0922 ms"
    assert human.from_to(0.0000922, 0.000294, "s") == "0.0922 ms → 0.294 ms"


@pytest.mark.parametrize(
    ("value", "spread", "unit", "said"),
    [
        (1.2034, 0.0512, "s", "1.20 ± 0.05 s"),
        (0.9996, 0.1, "s", "1,000 ± 100 ms"),
        (0.0009, 0.000632, "s", "0.900 ± 0.632 ms"),
        (0.2, 0.00002, "s", "200.00 ± 0.02 ms"),
        (0.0005, 1.25, "s", "0.0005 ± 1.2500 s"),
        (33_415.0, 1234.0, "1/s", "33,400 ± 1,200/s"),
        (1.5e9, 0.7e9, "B", "1.5 ± 0.7 GB"),
        (0.05, 0.01, "%", "5 ± 1 %"),
        (3.5, 0.0, "s", "3.50 ± 0 s"),
        (0.0, 0.0, "s", "0 ± 0 s"),
        (-1.2, 0.05, "s", "-1.20 ± 0.05 s"),
        (1.0, math.inf, "s", "1.00 ± ∞ s"),
    ],
)  # fmt: skip
def test_a_value_and_its_deviation_have_one_unit_and_end_at_one_digit(value, spread, unit, said):
    assert human.plus_minus(value, spread, unit) == said


@pytest.mark.parametrize("start", range(0, 2000, 1000))
def test_no_value_nor_deviation_is_rounded_away(start):
    for seed in range(start, start + 1000):
        chance = random.Random(seed)
        value, spread = (10 ** chance.uniform(-9, 9) for _ in "ab")
        texts = re.fullmatch(rf"({_NUMBER}) ± ({_NUMBER})(?: \w+|/s)?", human.plus_minus(value, spread, "parsecs"))
        shown = [number(text) for text in texts.groups()]
        assert shown == [pytest.approx(figure, rel=0.5) for figure in (value, spread)], (seed, texts[0])
        assert len({len(text.partition(".")[2]) for text in texts.groups()}) == 1, texts[0]


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.000999, "< 0.001"), (0.0302, "0.03"), (0.0496, "0.05"), (0.05, "0.05"), (0.0501, "0.0501"), (0.0523, "0.052")],
)
def test_a_p_value_that_just_misses_a_verdict_does_not_look_like_one_that_has_it(p, shown):
    assert human.p_value(p) == shown


def test_a_title_within_a_sentence_keeps_the_capital_letters_of_abbreviations():
    titles = ["P99 latency", "GC pause", "I/O wait", "QPS", "C heap", "Time of one file", "E-mail rate"]
    assert [human.noun(title) for title in titles] == [*titles[:5], "time of one file", "e-mail rate"]


@pytest.mark.parametrize(
    ("count", "total", "verb"), [(0, 1, "is"), (1, 1, "is"), (1, 6, "is"), (0, 6, "are"), (2, 6, "are")]
)
def test_a_verb_after_a_part_of_a_total_fits_both(count, total, verb):
    assert rounding.verb(count, total, "is", "are") == verb
