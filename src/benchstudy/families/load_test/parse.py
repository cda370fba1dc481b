"""Parses one trial of load_test: the samples of its Prometheus, its load, and its circumstances. Pure."""

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchstudy.families.load_test.load_metrics import (
    GROUPS,
    TAIL,
    Event,
    Histogram,
    LoadMetrics,
    Panel,
    Window,
    read_metrics,
    scrape_interval_s,
)
from benchstudy.families.load_test.metric_names import Names
from benchstudy.families.load_test.prometheus_samples import pages
from benchstudy.families.shared.files import damaged, read_facts
from benchstudy.model.family import Observation, Parsed, ParseError
from benchstudy.statistics import stats

FACTS = "load_test.json"
METRICS = "metrics/files/metrics.ndjson.gz"
LOAD = "load/files"
_UNITS = {"heap": "B", "stack": "B", "rps": "1/s"}  # of all others: 1
_NEEDED = ("window", "steady", "phases", "scrape_interval_s", "rate_window_s")
_WIDE = 5  # scrape intervals in a rate window that would otherwise hold fewer than two scrapes

Rows = list[dict[str, Any]]
Values = dict[str, tuple[float | None, str]]


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """Return observations over the steady window, and series over the whole window. Raises ParseError."""
    trial = _read(files)
    found, window = trial.metrics, trial.window
    values: Values = {
        "window": ((window.steady_end_ms - window.steady_start_ms) / 1000, "s"),
        "scrape_interval": (window.interval_ms / 1000, "s"),
        "rate_window": (window.width_ms / 1000, "s"),
        "samples": (found.samples, "1"),
        "gaps": (found.gaps, "1"),
        "resets": (sum(window.steady_start_ms < at <= window.steady_end_ms for at in found.resets_ms), "1"),
    }
    for group, histogram in found.whole.items():
        values |= _of_histogram(group, histogram)
    values |= {name: (value, _UNITS.get(name, "1")) for name, value in found.values.items()}
    series: dict[str, Rows] = {
        "panels": [row for name, panel in found.panels.items() for row in _panel_rows(name, panel, trial)],
        "labels": list(_label_rows(found)),
        "buckets": list(_bucket_rows(found)),
        "phases": [
            {"phase": phase["name"], **{end: phase[end] - window.start_ms / 1000 for end in ("start_s", "end_s")}}
            for phase in trial.facts["phases"]
        ],
        "events": [
            {"t_s": (event.t_ms - window.start_ms) / 1000, "what": event.what, "detail": event.detail}
            for event in _events(trial)
        ],
    }
    load_values, load_series = _load(files, trial.facts)
    values |= load_values
    series |= load_series
    observations = [
        Observation(name, float(value), unit)
        for name, (value, unit) in values.items()
        if value is not None and math.isfinite(value)
    ]
    return Parsed(observations, series)


class _Trial(NamedTuple):
    facts: dict[str, Any]
    window: Window
    names: Names
    metrics: LoadMetrics


def _read(files: Path) -> _Trial:
    facts = read_facts(files / FACTS, _NEEDED)
    with damaged(f"{FACTS}: metrics"):
        names = Names(**(facts.get("metrics") or {}))
    window = _window(facts, scrape_interval_s(files / METRICS))
    found = read_metrics(files / METRICS, window, names)
    if not found.whole and not found.values.keys() & {"rps", "cpu", "goroutines"}:
        section = found.section
        between = f"{window.steady_start_ms / 1000:.0f} to {window.steady_end_ms / 1000:.0f} (Unix s)"
        counters = (f"{names.api}_count", f"{names.store}_count", names.requests, names.cpu)
        few, asked = (
            "no sample",
            "is the window right, does the selector match, and does Prometheus keep data that long?",
        )
        if _most_samples(files / METRICS, counters, window) == 1:
            few = "fewer than two samples"
            asked = "is it shorter than two scrapes, or did the target not answer?"
        raise ParseError(
            f"{section.url} has {few} of {', '.join(counters)} or {names.goroutines} with "
            f"{section.select or 'any labels'} from {between}: {asked}"
        )
    return _Trial(facts, window, names, found)


def _most_samples(path: Path, metrics: Collection[str], window: Window) -> int:
    """The most samples that a series has in a page within the steady time. A counter of one sample has no increase."""
    begin, end = window.steady_start_ms, window.steady_end_ms
    times = (series.times_ms for page in pages(path, metrics) for series in page.series)
    return max((int(((begin <= of) & (of <= end)).sum()) for of in times), default=0)


def _window(facts: Mapping[str, Any], measured_s: float | None) -> Window:
    interval_s = measured_s or facts["scrape_interval_s"]
    width_s = facts["rate_window_s"] if facts["rate_window_s"] >= 2 * interval_s else _WIDE * interval_s
    moments = (facts[part][edge] for part in ("window", "steady") for edge in ("start_s", "end_s"))
    window = Window(*(round(1000 * moment) for moment in (*moments, width_s, interval_s)))
    if not window.start_ms <= window.steady_start_ms < window.steady_end_ms <= window.end_ms:
        raise ParseError(f"{FACTS}: the steady part {facts['steady']} is not within the window {facts['window']}")
    return window


def _of_histogram(group: str, histogram: Histogram) -> Values:
    known = not math.isnan(histogram.p99) and stats.supported(100 * TAIL, int(histogram.count))
    return {
        f"{group}_calls": (histogram.count, "1"),
        f"{group}_mean": (histogram.mean_s, "s"),
        f"{group}_p99": (histogram.p99 if known else None, "s"),
        f"{group}_p99_low": (histogram.p99_low if known else None, "s"),
        f"{group}_p99_high": (_finite(histogram.p99_high) if known else None, "s"),
        f"{group}_rate": (histogram.rate, "1/s"),
    }


def _panel_rows(name: str, panel: Panel, trial: _Trial) -> Iterator[dict[str, Any]]:
    window = trial.window
    bounds = [panel.value if part is None else part for part in (panel.low, panel.high)]
    for at, value, low, high in zip(*(part.tolist() for part in (panel.times_ms, panel.value, *bounds)), strict=True):
        if math.isnan(value):
            continue
        yield {
            "panel": name,
            "t_s": (at - window.start_ms) / 1000,
            "value": value,
            "low": None if panel.low is None else low,
            "high": None if panel.high is None else _finite(high),
            "width_s": window.width_ms / 1000,
            "resets": sum(at - window.width_ms < reset <= at for reset in trial.metrics.resets_ms),
        }


def _label_rows(found: LoadMetrics) -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        for label, histogram in found.labels.get(group, {}).items():
            known = histogram.count > 0 and not math.isnan(histogram.p99)
            yield {
                "group": group,
                "label": label,
                "count": histogram.count,
                "sum_s": histogram.sum_s,
                "mean_s": histogram.mean_s,
                "p99_s": histogram.p99 if known else None,
                "p99_low_s": histogram.p99_low if known else None,
                "p99_high_s": _finite(histogram.p99_high) if known else None,
                "rate_per_s": histogram.rate,
            }


def _bucket_rows(found: LoadMetrics) -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        for label, histogram in found.labels.get(group, {}).items():
            for edge, count in zip(histogram.edges, histogram.cumulative, strict=True):
                yield {"group": group, "label": label, "le_s": edge, "count": count}


def _events(trial: _Trial) -> list[Event]:
    """Events of the samples, and events for what is missing in them."""
    found, window, names = trial.metrics, trial.window, trial.names
    missing = found.section.missing
    events = [Event(window.start_ms, "missing", f"the server has no {metric} in the window") for metric in missing]
    for group, histogram in found.whole.items():
        if math.isinf(histogram.p99_high):
            detail = f"the p99 of {names.of_group(group)[0]} is above its last bucket, {histogram.p99_low:g} s"
            events.append(Event(window.steady_start_ms, "censored", detail))
    for group, labels in found.labels.items():
        beyond = [label for label, histogram in labels.items() if math.isinf(histogram.p99_high)]
        if beyond:
            detail = f"the p99 of {', '.join(beyond)} ({group}) is above the last bucket"
            events.append(Event(window.steady_start_ms, "censored", detail))
    return sorted([*events, *found.events])


def _load(files: Path, facts: Mapping[str, Any]) -> tuple[Values, dict[str, Rows]]:
    """Values and series of the load generator, if the study ran it."""
    nothing: dict[str, Rows] = {"users": [], "checks": [], "search": [], "client": [], "client_histogram": []}
    if not (files / LOAD).is_dir():
        return {}, nothing
    from benchstudy.families.load_test.locust import parse_load

    steady = facts["steady"]["start_s"], facts["steady"]["end_s"]
    offset_s = (facts.get("clock") or {}).get("load_minus_prometheus_s") or 0.0
    load = parse_load(files / LOAD, facts["window"]["start_s"], steady, offset_s)
    return dict(load.values), {**nothing, **{name: [dict(row) for row in rows] for name, rows in load.series.items()}}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
