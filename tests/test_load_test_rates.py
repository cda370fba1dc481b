"""Rates, gauges and quantiles of load_test, as PromQL documents them, and series that come page by page."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_file import Samples, every, figures, write_trial

from benchstudy.families.load_test.prometheus_faults import Changes
from benchstudy.families.load_test.prometheus_rates import Levels, Rates, Reset, Stream, Totals
from benchstudy.families.load_test.prometheus_samples import Page, Series
from benchstudy.statistics.buckets import histogram_quantile

CLOSE = 1e-9
UP, REQUESTS, GOROUTINES = "up", "mattermost_http_requests_total", "go_goroutines"
A, B = {"instance": "a"}, {"instance": "b"}

# --- rates ------------------------------------------------------------------------------------------------------

OLD, HALF_FIRST, LEFT_OPEN = "2.50.1", "2.51.0", "3.0.0"
RATES = {
    # name: samples, and the rate over the window from 1000 to 1060 by each release of Prometheus
    "to both edges, which are near": (every(10, 1005, range(1000, 1120, 20)), 2.0, 2.0),
    # Three intervals, 30 s from the start: half an interval more, 35 of 60 s.
    "half an interval towards a far edge": (every(10, 1030, [9000, 9020, 9040, 9060]), 70 / 60, 70 / 60),
    "an edge is far from 1.1 intervals on": (every(10, 1011, range(9000, 9100, 20)), 1.8, 1.8),
    "an edge is near below 1.1 intervals": (every(10, 1010.9, range(9000, 9100, 20)), 2.0, 2.0),
    "the end is far from 1.1 intervals on": (every(10, 1009, range(9000, 9100, 20)), 1.8, 1.8),
    # It was zero 2 s before its first sample, so 57 s of 60 s.
    "not to before zero": (every(10, 1005, range(4, 120, 20)), 1.9, 1.9),
    # It was zero 8 s before, which is near. Since 2.51, this is still a series that begins within the window.
    "to zero or half an interval": (every(10, 1030, [16, 36, 56, 76]), 76 / 60, 70 / 60),
    "zero is far, too": (every(10, 1030, [24, 44, 64, 84]), 70 / 60, 70 / 60),
    "a counter that began at zero": (every(10, 1030, [0, 20, 40, 60]), 1.0, 1.0),
    "counting began anew": (every(10, 1005, [1000, 1020, 1040, 10, 30, 50]), 1.8, 1.8),
    "a small counter began anew": (every(10, 1005, [0.75, 1, 1.25, 0.5, 0.75, 1]), 1.5 / 50, 1.5 / 50),
    "it began anew twice": (every(10, 1005, [1000, 1020, 10, 30, 5, 25]), (20 + 10 + 20 + 5 + 20) / 50, 75 / 50),
    # Histograms of negative values have such sums. Zero is no limit of theirs.
    "it began below zero": (every(10, 1005, [-0.5 + step for step in range(0, 120, 20)]), 2.0, 2.0),
    "a counter that stands still": (every(10, 1005, [7] * 6), 0.0, 0.0),
    "a counter that was never used": (every(10, 1005, [0] * 6), 0.0, 0.0),
    "two samples are enough": ([(1020, 50), (1030, 70)], 40 / 60, 40 / 60),
    "one sample is no rate": ([(1020, 50)], None, None),
    "no sample in the window": ([(990, 50), (1061, 70)], None, None),
    "a sample before the window is not of it": (every(10, 995, range(0, 140, 20)), 2.0, 2.0),
}


@pytest.mark.parametrize("name", RATES)
def test_rates_are_extrapolated_as_promql_documents_it(tmp_path, name: str):
    samples, *rates = RATES[name]
    for version, rate in zip((OLD, None, HALF_FIRST, LEFT_OPEN), (*rates[:1] * 2, *rates[1:] * 2), strict=True):
        for began_s in (0, 1000):
            shifted = [(at - 1000 + began_s, value) for at, value in samples]
            metrics = {GOROUTINES: [(A, every(10, began_s, [5] * 7))], REQUESTS: [(A, shifted)]}
            values, series = figures(write_trial(tmp_path, metrics, (began_s, began_s + 60), version=version))
            panel = {row["t_s"]: row["value"] for row in series["panels"] if row["panel"] == "rps"}
            if rate is None:
                assert "rps" not in values and not panel
            else:
                # The window of the panel's last point is the steady part.
                assert [values["rps"], panel[60.0]] == pytest.approx([rate, rate], rel=CLOSE), (version, began_s)


@pytest.mark.parametrize(
    ("version", "rate"),
    [
        ("2.42.0+ds", 5.0),
        ("2.53.1", 5.0),
        ("2.999.0", 5.0),
        (None, 5.0),
        ("of today", 5.0),
        ("3.0.0", 2.0),
        ("v3.1", 2.0),
    ],
)
def test_since_release_3_a_window_leaves_out_a_sample_at_its_beginning(tmp_path, version, rate):
    """Between this sample and the next one, the counter grows by 200, and later by 20 per scrape."""
    metrics = {REQUESTS: [(A, [(1000, 5000), *every(10, 1010, range(5200, 5320, 20))])]}
    values, series = figures(write_trial(tmp_path, metrics, (1000, 1060), version=version))
    assert values["rps"] == pytest.approx(rate)
    assert {row["t_s"]: row["value"] for row in series["panels"]}[60.0] == pytest.approx(rate)


def test_the_points_of_a_panel_may_lie_between_seconds(tmp_path):
    """A panel's points are at least as far apart as scrapes, which may be hours."""
    hours = every(7200.5, 0, range(0, 1100, 50))
    _, series = figures(write_trial(tmp_path, {REQUESTS: [(A, hours)]}, (0, 20 * 7200.5)))
    assert [row["t_s"] for row in series["panels"]][-3:] == [18 * 7200.5, 19 * 7200.5, 20 * 7200.5]


def test_rates_of_instances_are_added_and_processor_time_is_their_mean(tmp_path):
    cpu = "mattermost_process_cpu_seconds_total"
    fast, slow = every(10, 1005, range(1000, 1120, 20)), every(10, 1002, range(1000, 1060, 10))
    metrics = {REQUESTS: [(A, fast), (B, slow)], cpu: [(A, fast), (B, slow), ({"instance": "c"}, fast[:1])]}
    values, series = figures(write_trial(tmp_path, metrics, (1000, 1060)))
    assert (values["rps"], values["cpu"]) == pytest.approx((3.0, 1.5))
    at_end = {row["panel"]: row["value"] for row in series["panels"] if row["t_s"] == 60}
    assert at_end == pytest.approx({"rps": 3.0, "cpu": 1.5})


# --- pages ------------------------------------------------------------------------------------------------------


def _random_trial(chance: random.Random) -> dict[str, Any]:
    """Series that begin late, end early, restart or miss scrapes, of two instances with their own times."""
    metrics: dict[str, list[tuple[dict[str, str], Samples]]] = defaultdict(list)
    for instance, shift in ((A, chance.uniform(0, 9)), (B, chance.uniform(0, 9))):
        times = [round(at, 3) for at, _ in every(10, 945 + shift, range(30)) if chance.random() < 0.93]
        restart = chance.choice(times)

        def counted(times: list[float] = times, restart: float = restart) -> Samples:
            value, found = float(chance.randrange(50)), []
            for at in times[chance.choice([0, 0, 9]) : chance.choice([20, 40, 40])]:
                value = 1.0 if at == restart else value + chance.randrange(9)
                found.append((at, value))
            return found

        metrics[REQUESTS].append((instance, counted()))
        metrics[GOROUTINES].append((instance, [(at, chance.randrange(99)) for at in times]))
        metrics[UP].append((instance, [(at, float(chance.random() < 0.9)) for at in times]))
        metrics["mattermost_process_start_time_seconds"].append(
            (instance, [(at, float(at >= restart)) for at in times])
        )
        for method in ("get", "put"):
            labels = {**instance, "method": method}
            for part in ("sum", "count"):
                metrics[f"mattermost_db_store_time_{part}"].append((labels, counted()))
            below, more = counted(), counted()
            upper = [(at, a + b) for (at, a), (_, b) in zip(below, more, strict=False)]
            for le, samples in (("0.1", below), ("+Inf", upper)):
                metrics["mattermost_db_store_time_bucket"].append(({**labels, "le": le}, samples))
    return dict(metrics)


@pytest.mark.parametrize("seed", range(6))
def test_figures_do_not_depend_on_where_pages_end(tmp_path, seed: int):
    chance = random.Random(seed)
    metrics = _random_trial(chance)
    at_samples = [at for _, samples in metrics[GOROUTINES] for at, _ in samples if at < 1180]
    borders = sorted(
        {*chance.sample(at_samples, 3), *(chance.randrange(945, 1180) for _ in range(chance.choice([1, 9])))}
    )
    spans, version = ((1000, 1180), (1030.5, 1150.5)), chance.choice([OLD, LEFT_OPEN])
    values, series = figures(write_trial(tmp_path / "whole", metrics, *spans, version=version, width_s=30))
    cut_values, cut_series = figures(
        write_trial(tmp_path / "cut", metrics, *spans, version=version, width_s=30, borders=borders)
    )
    assert values.pop("samples") <= cut_values.pop("samples"), "a sample on a border is in both pages"
    assert cut_values == pytest.approx(values, rel=CLOSE)
    assert cut_series.keys() == series.keys()
    for name, rows in series.items():
        words, numbers = _apart(rows)
        assert _apart(cut_series[name]) == (words, pytest.approx(numbers, rel=CLOSE)), name


def _apart(rows: Sequence[dict[str, Any]]) -> tuple[list[Any], list[float]]:
    cells = [cell for row in rows for cell in row.values()]
    return [c for c in cells if not isinstance(c, float)], [c for c in cells if isinstance(c, float)]


# --- series page by page ----------------------------------------------------------------------------------------


def page(end_ms: int, *series: tuple[str, list[int], list[float]]) -> Page:
    """One page of a metric: name of an instance, times in ms, values."""
    return Page("m", 0, end_ms, [Series(b'{"i":"%s"}' % i.encode(), np.array(t), np.array(v)) for i, t, v in series])


def streamed(sink: Any, *found: Page) -> Any:
    stream = Stream(*(sink if isinstance(sink, list) else [sink]))
    for each in found:
        stream.add(each)
    stream.finish()
    return sink


def test_a_fall_is_found_once_and_with_the_sample_before_it():
    pages = (
        page(30, ("a", [10, 20, 30], [5, 9, 2])),
        page(60, ("a", [30, 40, 50], [2, 3, 1])),
        page(90, ("a", [70], [0])),
    )
    falls = [Reset(20, 30, {"i": "a"}), Reset(40, 50, {"i": "a"}), Reset(50, 70, {"i": "a"})]
    found = streamed(Totals(0, 90), *pages)
    assert found.resets == falls
    # Levels keep samples for longer, which the others get again.
    totals, changes = Totals(0, 90), Changes()
    streamed([Levels(np.array([80]), 1000), totals, changes], *pages)
    assert totals.resets == falls and totals.increase.tolist() == found.increase.tolist()
    assert changes.found == [(at_ms, {"i": "a"}) for at_ms in (20, 30, 40, 50, 70)]
    assert (found.increase.tolist(), found.samples.tolist()) == ([4 + 2 + 1 + 1 + 0], [6])
    assert (found.first_ms.tolist(), found.first_value.tolist()) == ([10], [5])


def test_totals_are_of_many_series_and_of_the_samples_from_the_start_to_the_end():
    names = [f"{n}" for n in range(150)]
    times = [10, 20, 30, 40]
    found = streamed(Totals(20, 30), page(40, *((name, times, [0, int(name), 2 * int(name), 1000]) for name in names)))
    assert found.labels == [{"i": name} for name in names]
    assert found.increase.tolist() == [float(name) for name in names]
    assert set(found.samples.tolist()) == {2.0} and set(found.first_ms.tolist()) == {20.0}
    assert found.first_value.tolist() == [float(name) for name in names]


@pytest.mark.parametrize(("reach_ms", "kept"), [(0, 1), (25, 3), (30, 4)])
def test_only_samples_that_a_window_still_reaches_are_kept(reach_ms: int, kept: int):
    """And one that the next sample is compared with."""
    sink = SimpleNamespace(reach_ms=reach_ms, meet=lambda labels: None, fresh=[])
    sink.take = lambda batch, after_ms, until_ms: sink.fresh.append(batch.fresh)
    times = [list(range(begin, begin + 100, 10)) for begin in (10, 110, 210)]
    streamed(sink, *(page(at[-1], ("a", at, [0.0] * 10)) for at in times))
    assert sink.fresh == [0, kept, kept, kept]


def test_a_total_of_fewer_than_two_samples_has_no_rate():
    found = streamed(
        Totals(20, 30), page(40, ("a", [10, 20, 40], [1, 2, 4]), ("b", [10], [1]), ("c", [20, 30], [5, 6]))
    )
    assert found.samples.tolist() == [1, 0, 2] and found.increase.tolist() == [0, 0, 1]
    assert np.isnan(found.rate).tolist() == [True, True, False]


def test_series_that_come_and_go_keep_their_rows():
    """After a page, a series may be alone, in another order, or have other times than those it came with."""
    pages = (
        page(20, ("a", [10, 20], [1, 2]), ("b", [10, 20], [100, 200])),
        page(40, ("b", [30, 40], [300, 400]), ("c", [30, 40], [7, 8]), ("a", [30, 40], [3, 4])),
        page(60, ("a", [50, 60], [5, 6]), ("c", [50, 60], [9, 10])),
        page(80, ("c", [70], [11]), ("b", [75], [700])),
    )
    found = streamed(Totals(0, 80), *pages)
    assert [labels["i"] for labels in found.labels] == ["a", "b", "c"]
    assert found.increase.tolist() == [5, 600, 4] and found.samples.tolist() == [6, 5, 5]
    levels = streamed(Levels(np.array([5, 10, 25, 45, 50, 61, 74, 75, 95, 96]), 20), *pages)
    at = {"a": (1, 2, 4, 5, 6, 6, 6), "b": (100, 200, 400, 400)}
    assert levels.sums.tolist()[0][1:3] == [at["a"][0] + at["b"][0], at["a"][1] + at["b"][1]]
    nothing, *sums = levels.sums[0].tolist()
    assert math.isnan(nothing)
    assert sums[2:8] == [4 + 400 + 8, 5 + 400 + 9, 6 + 10, 6 + 11, 6 + 11 + 700, 700] and math.isnan(sums[8])
    assert levels.averages[0].tolist()[3:9] == [412 / 3, 414 / 3, 8, 8.5, 717 / 3, 700]


def test_groups_may_come_in_any_order():
    rates = streamed(
        Rates(np.array([20, 40]), 20, lambda labels: {"a": 2, "b": 0, "c": 2}[labels["i"]]),
        page(40, ("b", [30, 40], [50, 80]), ("a", [10, 20], [10, 20]), ("c", [10, 20], [100, 130])),
    )
    sums = rates.sums
    assert sums.shape == (3, 2)
    assert sums[2, 0] == pytest.approx(40 / 0.01) and sums[0, 1] == pytest.approx(30 / 0.01)
    assert np.isnan([sums[0, 0], sums[2, 1], *sums[1]]).all()
    assert rates.averages[2, 0] == pytest.approx(20 / 0.01)


def test_moments_without_any_series_are_empty():
    assert Levels(np.array([1, 2]), 5).sums.shape == (0, 2)


# --- quantiles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantile", "edges", "counts", "expected"),
    [
        # value, and the edges of its bucket; as histogram_quantile is documented
        (0.5, [0.2, math.inf], [4, 4], (0.1, 0, 0.2)),  # the lowest bucket begins at zero
        (0.5, [-0.2, 1, math.inf], [4, 4, 4], (-0.2, -0.2, -0.2)),  # but not above its own edge
        (0.5, [0.1, 0.2, 0.4, math.inf], [0, 10, 10, 10], (0.15, 0.1, 0.2)),
        (0.75, [0.1, 0.2, 0.4, math.inf], [4, 8, 16, 16], (0.3, 0.2, 0.4)),
        (0.5, [0.1, 0.2, 0.4, math.inf], [4, 8, 16, 16], (0.2, 0.1, 0.2)),  # just reached
        (0.99, [0.1, 0.2, math.inf], [4, 8, 16], (0.2, 0.2, math.inf)),  # only known to be higher
        (0.99, [0.1, 0.2, math.inf], [0, 0, 0.25], (0.2, 0.2, math.inf)),
        (0.5, [0.1, 0.2, math.inf], [0.125, 0.25, 0.25], (0.1, 0, 0.1)),
        # A scrape during a write: no bucket holds fewer than the one below it.
        (0.5, [0.1, 0.2, 0.4, math.inf], [6, 4, 12, 10], (0.1, 0, 0.1)),
        (0.75, [0.1, 0.2, 0.4, math.inf], [6, 4, 12, 10], (0.3, 0.2, 0.4)),
        (0.5, [0.1, 0.2, math.inf], [math.nan, 4, 4], (0.15, 0.1, 0.2)),
        (0.5, [0.1, math.inf], [0, 0], None),
        (0.5, [math.inf], [4], None),
        (0.5, [], [], None),
        (0.5, [0.1, 0.2], [4, 4], None),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(quantile, edges, counts, expected):
    other = [float(n) for n in range(len(counts))]
    both = np.array([counts, other], dtype=float).T if counts else np.empty((0, 2))
    found = [part[0] for part in histogram_quantile(quantile, edges, both)]
    if expected is None:
        assert np.isnan(found).all()
    else:
        assert found == pytest.approx(expected)
