"""Changes of level within a series: found where they exist, and rarely where there are none."""

import math
from itertools import accumulate

import numpy as np
import polars as pl
import pytest

from benchstudy.report.figures import level_changes
from benchstudy.report.figures.panels import Axis, Phase, Style, time_panel
from benchstudy.statistics import change_points

SERIES = 150


def remembering(random, n, memory, noise=None):
    noise = random.normal(size=n + 200) if noise is None else noise
    return np.array(list(accumulate(noise, lambda before, new: memory * before + new)))[200:]


def moving_rates(random, n, width):
    total = np.cumsum(random.exponential(size=n + width))
    return (total[width:] - total[:-width]) / width


QUIET = {
    "white": lambda random, n: random.normal(size=n),
    "skewed": lambda random, n: np.exp(random.normal(size=n)),
    "wild": lambda random, n: random.standard_t(2, size=n),
    "counts": lambda random, n: random.poisson(1, size=n).astype(float),
    "remembers 0.3": lambda random, n: remembering(random, n, 0.3),
    "remembers 0.5": lambda random, n: remembering(random, n, 0.5),
    "remembers 0.7": lambda random, n: remembering(random, n, 0.7),
    "remembers 0.9": lambda random, n: remembering(random, n, 0.9),
    "a collector's saw": lambda random, n: (np.arange(n) + random.integers(20)) % 20 + 2 * random.normal(size=n),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", QUIET)
@pytest.mark.parametrize(("n", "most"), [(40, 6), (100, 5), (600, 2)])
def test_a_series_that_only_makes_noise_rarely_has_a_change(kind, n, most):
    random = np.random.default_rng(1)
    told = [change_points.find(range(n), QUIET[kind](random, n)) for _ in range(SERIES)]
    # The length of two or three samples, and two teeth of the saw, as docs/statistics.md says.
    most = {("remembers 0.9", 40): 16, ("a collector's saw", 40): 14}.get((kind, n), most)
    assert 100 * sum(made.steady is False for made in told) / SERIES <= most


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [40, 101, 150, 200, 201, 600])
@pytest.mark.parametrize("period", [2, 4])
def test_samples_that_alternate_exactly_are_steady_and_divide_nothing_by_zero(n, period):
    assert change_points.find(range(n), [512.0 * (i % period == 0) for i in range(n)]) == change_points.Changes(n)


@pytest.mark.parametrize(("n", "width"), [(300, 5), (1800, 30)])
def test_rates_over_a_moving_window_have_no_changes_of_their_own(n, width):
    random = np.random.default_rng(2)
    told = [change_points.find(range(n), moving_rates(random, n, width), memory=width) for _ in range(SERIES)]
    assert sum(made.steady is False for made in told) / SERIES <= 0.03
    assert sum(made.steady is True for made in told) / SERIES >= 0.5, "it can tell that most are steady"


@pytest.mark.parametrize(
    ("kind", "n", "size", "least"),
    [
        ("white", 60, 2, 65), ("white", 600, 0.7, 90), ("skewed", 100, 2, 95), ("remembers 0.5", 300, 2, 85),
        ("remembers 0.9", 3000, 1.5, 80),
    ],
)  # fmt: skip
def test_a_shift_is_found_where_it_is(kind, n, size, least):
    """`size` in standard deviations of single samples."""
    random, right = np.random.default_rng(3), 0
    for _ in range(50):
        values = QUIET[kind](random, n)
        values = 100 + 5 * values / values.std()
        values[n // 3 :] += 5 * size
        made = change_points.find(range(n), values)
        right += len(made.found) == 1 and abs(made.found[0].at - n / 3) <= 0.08 * n
    assert 100 * right / 50 >= least


def test_a_change_says_when_and_from_what_to_what():
    random = np.random.default_rng(4)
    times = 1000 + 0.5 * np.arange(400)
    values = np.where(times < 1080, 20.0, 30.0) + random.normal(size=400)
    (change,) = change_points.find(times, values).found
    assert abs(change.at - 1080) <= change.blur <= 2.0
    assert (change.before, change.after) == (pytest.approx(20, abs=0.3), pytest.approx(30, abs=0.3))
    assert change.relative == pytest.approx(0.5, abs=0.03)
    (soon,) = change_points.find((times - 1000)[:60] / 50, values[130:190]).found
    assert soon.at == pytest.approx(30 / 100, abs=0.05), "whatever the unit of times"


def test_a_stretch_apart_has_two_changes_and_single_spikes_have_none():
    random = np.random.default_rng(5)
    values = 10 + random.normal(size=100)
    values[40:60] += 6
    assert [round(change.at, -1) for change in change_points.find(range(100), values).found] == [40, 60]
    spiky = 10 + random.normal(size=100)
    spiky[[7, 31, 62, 63, 90]] += 1000
    assert change_points.find(range(100), spiky).steady


@pytest.mark.parametrize(
    ("n", "begin", "length", "edges"), [(120, 50, 20, 2), (40, 20, 6, 2), (600, 300, 60, 2), (120, 105, 15, 1)]
)
def test_a_line_with_an_outage_is_not_steady(n, begin, length, edges):
    """The samples of the outage are too few for two steps in ranks, however far they fall."""
    random, right = np.random.default_rng(8), 0
    for _ in range(50):
        values = random.normal(100, 5, n)
        values[begin : begin + length] = 0
        found = change_points.find(range(n), values).found
        places = (begin, begin + length)[:edges]
        right += len(found) == edges and all(
            abs(change.at - place) <= 2 * change.blur for change, place in zip(found, places, strict=True)
        )
    assert right >= 30


def test_a_drift_is_no_stair():
    values = 100 + 0.5 * np.arange(120) + np.random.default_rng(6).normal(scale=3, size=120)
    made = change_points.find(range(120), values)
    assert made.found == () and made.steady is False
    assert (made.drift.before, made.drift.after) == (pytest.approx(106, abs=3), pytest.approx(154, abs=3))
    assert (made.drift.at, made.drift.blur) == (0, 0), "it begins with the series"


@pytest.mark.parametrize("seed", [1, 28])
def test_a_drift_so_slow_that_no_step_would_follow_it_is_not_told(seed):
    noise, place = np.random.default_rng(seed).normal(size=60), np.arange(60)
    assert change_points.find(place, noise + 0.0425 * place).steady
    assert change_points.find(place, noise + 0.1 * place).drift


@pytest.mark.parametrize("memory", [0.7, 0.9])
def test_a_short_series_that_remembers_a_lot_is_rarely_called_steady(memory):
    """Too few means would be left, and without memory most of these series would have a change."""
    random = np.random.default_rng(9)
    told = [change_points.find(range(39), remembering(random, 39, memory)) for _ in range(SERIES)]
    assert sum(made.steady is True for made in told) / SERIES <= 0.25


def test_a_clean_step_between_two_constants_is_found():
    (change,) = change_points.find(range(50), [145.0] * 20 + [154.0] * 30).found
    assert (change.at, change.before, change.after) == (20, 145, 154)


@pytest.mark.parametrize(
    ("n", "pitch", "memory", "samples"),
    [
        (100, 1, 0, 1),
        (101, 1, 0, 2),  # at most 100 stretches
        (240, 2, 0, 3),
        (60, 0.5, 1.5, 3),
        (100, 0.5, 1.6, 4),
        (60, 0.125, 0.25 + 1e-12, 2),  # a difference of two times, which no float tells exactly
        (240, 1, 2, 3),
    ],
)
def test_a_stretch_is_as_many_samples_as_one_of_them_remembers(n, pitch, memory, samples):
    times = np.arange(n) * pitch
    (change,) = change_points.find(times, [1.0] * (n // 2) + [2.0] * (n - n // 2), memory).found
    assert change.blur == samples * pitch


def test_a_clock_that_stands_still_hides_no_step():
    (change,) = change_points.find([7.0] * 39, [1.0] * 17 + [2.0] * 22, memory=5).found
    assert (change.at, change.blur, change.before, change.after) == (7, 0, 1, 2)


@pytest.mark.parametrize(
    ("values", "steady", "why"),
    [
        ([1.0, 2.0] * 10, None, "20 samples; 30 are needed"),
        ([3.0] * 100, True, ""),
        ([*range(20), *[math.inf, math.nan] * 20], None, "20 samples"),
        (list(np.cumsum(np.random.default_rng(0).normal(size=40))), None, "depend too much on the ones before"),
    ],
)
def test_what_cannot_be_told_is_said_in_words(values, steady, why):
    made = change_points.find(range(len(values)), values)
    assert made.steady is steady and why in made.why and not made.found


def test_a_change_from_zero_has_no_percentage():
    (change,) = change_points.find(range(60), [0.0] * 30 + [5.0] * 30).found
    assert change.relative is None and (change.before, change.after) == (0, 5)


def test_times_and_values_belong_together():
    with pytest.raises(ValueError, match="3 times and 2 values"):
        change_points.find([0, 1, 2], [1.0, 2.0])


# -- in charts ---------------------------------------------------------------------------------------------------------


def two_releases(steps):
    """9.11 with these steps of its level (s, factor), and a steady 10.0: an hour at one sample per second."""
    random, frames = np.random.default_rng(7), []
    for name, changes in (("9.11", steps), ("10.0", [])):
        level = np.full(3600, 0.05)
        for begin, factor in changes:
            level[begin:] *= factor
        seconds = np.arange(3600.0)
        frame = pl.DataFrame({"x": seconds, "y": level * (1 + 0.1 * random.normal(size=3600))})
        frames.append(frame.select(pl.lit(name).alias("series"), pl.lit("").alias("line"), "x", "y"))
    return pl.concat(frames)


def drawn(lines, found):
    x, y = Axis("Since it began", "time", log=False), Axis("Time", "s", log=False)
    phases = [Phase("ramp", 0, 600), Phase("steady", 600, 3600)]
    return time_panel("Times", lines.gather_every(40), x, y, Style(("9.11", "10.0")), phases, changes=found)


def texts(spec):
    """The chart's text marks, without its phases."""
    rows = [row for data in spec["datasets"].values() for row in data]
    return [row["text"] for row in rows if "text" in row and "series" in row]


@pytest.mark.parametrize("live", [False, True])
def test_a_chart_names_its_largest_changes_also_where_no_script_runs(live):
    lines = two_releases([(1200, 1.6), (1800, 0.5), (2400, 3.0), (3000, 0.7)])
    found = level_changes.find(lines, 600, 3600, "s")
    assert len(found.marks) == 4
    spec = drawn(lines, found).spec(400, live=live)
    said = sorted(set(texts(spec)))
    assert len(said) == level_changes.MOST_MARKED
    assert any(text.startswith("9.11 3.0") and "× at 4" in text for text in said), said
    assert any(text.startswith("9.11 −49.8 % at 3") for text in said), said
    assert sum(text.endswith(", and 1 more") for text in said) == 1


def test_a_chart_of_steady_lines_is_drawn_as_if_nobody_had_looked():
    lines = two_releases([])
    found = level_changes.find(lines, 600, 3600, "s")
    assert drawn(lines, found).spec(400) == drawn(lines, None).spec(400)
    told = level_changes.caption({"Times": found}, "the steady phase")
    assert told == (
        "Change points of the steady phase (PELT, changes from 5 %; annotation only; no verdict uses it): "
        "2 of 2 lines steady."
    )


def test_a_change_of_less_than_five_per_cent_is_not_told():
    lines = two_releases([(2000, 1.04)])
    mine = lines.filter(pl.col("series") == "9.11")
    assert change_points.find(mine["x"], mine["y"]).found, "it is there"
    assert not level_changes.find(lines, 600, 3600, "s").marks


def test_a_line_that_is_zero_with_few_exceptions_does_not_change_from_zero_to_zero():
    for seed in (5, 12, 17):
        seconds, y = np.arange(200.0), np.random.default_rng(seed).poisson(0.05, 200).astype(float)
        assert change_points.find(seconds, y).found, "the exceptions are not spread evenly"
        lines = pl.DataFrame({"series": "a", "line": "", "x": seconds, "y": y})
        found = level_changes.find(lines, 0, 200, "1/s")
        assert not found.marks and "1 of 1 line steady" in level_changes.caption({"Errors": found}, "the window")


def test_only_what_lies_within_the_window_is_looked_at():
    lines = two_releases([(300, 4.0)])
    assert not level_changes.find(lines, 600, 3600, "s").marks
    assert level_changes.find(lines, 0, 3600, "s").marks


def test_a_caption_tells_when_how_much_and_what_cannot_be_told():
    found = level_changes.find(two_releases([(2400, 1.4)]), 600, 3600, "s")
    few = level_changes.find(two_releases([]).filter(pl.col("x") < 20), 0, 3600, "s")
    told = level_changes.caption({"Times": found, "Others": few}, "the window")
    assert ("1 of 2 lines steady; Times: 9.11 +" in told and "% at 39 min" in told) or "% at 40 min" in told
    assert "(from 50." in told or "(from 49." in told
    assert told.endswith("; 2 cannot be determined: too few samples, or dependent ones.")
    assert level_changes.caption({"Others": few}, "the window") == (
        "Change points of the window: cannot be determined (20 samples; 30 are needed)."
    )
    fewer = level_changes.find(two_releases([]).filter(pl.col("x") < 18), 0, 3600, "s")
    told = level_changes.caption({"Others": few, "More": fewer}, "the window")
    assert told.endswith("(18 to 20 samples; 30 are needed).")


def test_a_drift_is_told_as_one_and_not_marked():
    seconds = np.arange(600.0)
    y = 100 + 0.1 * seconds + np.random.default_rng(8).normal(scale=2, size=600)
    lines = pl.DataFrame({"series": "a", "line": "", "x": seconds, "y": y}).select("series", "line", "x", "y")
    found = level_changes.find(lines, 0, 600, "1/s")
    assert not found.marks
    assert "0 of 1 line steady; Rate: drifts from 10" in level_changes.caption({"Rate": found}, "the window")


def test_a_series_that_is_the_same_from_either_end_has_no_drift_to_be_taken_off():
    """The slope is zero to the last digit in some series, and nearly so in others. Both have the same memory."""
    for seed in range(60):
        half = np.random.default_rng(seed).integers(0, 12, 20).astype(float)
        ranks = change_points._ranks(np.r_[half, half[::-1]])
        nearly = change_points._memory_and_noise(ranks + 1e-9 * np.arange(40))
        assert change_points._memory_and_noise(ranks) == pytest.approx(nearly, rel=1e-4), seed
