"""Computes what a load test's report needs from raw samples of a Prometheus: totals by label, panels, faults. Pure.

`Names` names the metrics; the defaults are Mattermost's.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from benchstudy.families.load_test.metric_names import DEFAULT_NAMES, NODE_CPU, NODE_MEMORY, NODE_TCP, Names
from benchstudy.families.load_test.prometheus_faults import LATE, Changes, Scrapes
from benchstudy.families.load_test.prometheus_rates import (
    GroupOf,
    Labels,
    Levels,
    Rates,
    Sink,
    Stream,
    Totals,
    one_group,
)
from benchstudy.families.load_test.prometheus_raw import Section, sections
from benchstudy.families.load_test.prometheus_samples import pages
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError
from benchstudy.model.grouping import grouped
from benchstudy.model.rounding import plural
from benchstudy.statistics.buckets import histogram_quantile

S = TypeVar("S", bound=Sink)
TAIL = 0.99
GROUPS = ("api", "store")
_MOST_STEPS = 400  # per panel; no screen shows more
_MOST_INSTANTS = 8192  # samples of a gauge for its mean, so that memory does not grow with the duration
_NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_EVER_MS = math.inf
_LOOKBACK = 2.5  # intervals for which a gauge's value stays valid


@dataclass(frozen=True)
class Window:
    """A window in ms. Panels cover all of it, totals the steady part. `width_ms`: rate window of the panels."""

    start_ms: int
    end_ms: int
    steady_start_ms: int
    steady_end_ms: int
    width_ms: int
    interval_ms: int

    @property
    def steps_ms(self) -> np.ndarray:
        """Times of a panel's points."""
        least_s = max((self.end_ms - self.start_ms) / 1000 / _MOST_STEPS, self.interval_ms / 1000)
        step_s = next((nice for nice in _NICE_S if nice >= least_s), least_s)
        return np.arange(self.start_ms, self.end_ms + 1, max(1, round(1000 * step_s)), dtype=np.int64)

    @property
    def instants_ms(self) -> np.ndarray:
        """Times in the steady part at which gauges are sampled."""
        length = self.steady_end_ms - self.steady_start_ms
        step = max(self.interval_ms, math.ceil(length / _MOST_INSTANTS))
        return np.arange(self.steady_start_ms, self.steady_end_ms + 1, step, dtype=np.int64)


@dataclass(frozen=True)
class Histogram:
    """A histogram of one label value or of all of them, over the steady window and summed over instances.

    `count`, `sum_s`: increases. `rate`: calls per second as PromQL computes it. `edges`, `cumulative`: the buckets'
    increases. `p99`: as PromQL computes it, with its bucket's edges (high is inf in the last); NaN without calls.
    """

    count: float
    sum_s: float
    rate: float
    edges: list[float]
    cumulative: list[float]
    p99: float
    p99_low: float
    p99_high: float

    @property
    def mean_s(self) -> float | None:
        return self.sum_s / self.count if self.count > 0 else None


class Panel(NamedTuple):
    """Points of one panel; NaN where there is no value. low, high: edges of a quantile's bucket."""

    times_ms: np.ndarray
    value: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class Event(NamedTuple):
    t_ms: int
    what: str
    detail: str


@dataclass
class LoadMetrics:
    """Results of one window. A metric that the server does not have is only in `section.missing`; it is never zero.

    `labels`: by group and label. `whole`: by group, all labels combined. `values`: {name: number} in base units.
    `samples`: number of samples read. `events`: of the whole window, sorted by time.
    """

    section: Section
    labels: dict[str, dict[str, Histogram]] = field(default_factory=dict)
    whole: dict[str, Histogram] = field(default_factory=dict)
    panels: dict[str, Panel] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    resets_ms: list[int] = field(default_factory=list)
    gaps: int = 0
    samples: int = 0


@damaged("the samples of Prometheus are damaged")
def read_metrics(path: Path, window: Window, names: Names = DEFAULT_NAMES) -> LoadMetrics:
    """Compute the results in one pass over the file. Raises ParseError if it is damaged or does not hold the window."""
    held = sections(path)
    if len(held) != 1:
        raise ParseError(f"{path.name} holds {len(held)} windows, but a trial has one: cut it out")
    section = held[0]
    if not section.holds(window.start_ms / 1000, window.end_ms / 1000):
        raise ParseError(
            f"{path.name} was fetched for {section.start_s:.3f} to {section.end_s:.3f}, and the window is "
            f"{window.start_ms / 1000:.3f} to {window.end_ms / 1000:.3f} (Unix s)"
        )
    return _Reader(section, window, names).read(path)


def scrape_interval_s(path: Path) -> float | None:
    """The median interval between samples in the first page that has one; None if no series has two samples."""
    for page in pages(path):
        distances = [np.diff(series.times_ms) for series in page.series[:100]]
        together = np.concatenate(distances) if distances else np.empty(0)
        if len(together):
            return float(np.median(together)) / 1000
    return None


class _Reader:
    def __init__(self, section: Section, window: Window, names: Names):
        self._section, self._window, self._names = section, window, names
        self._sinks: dict[str, list[Sink]] = {}
        self._histograms = {group: self._histogram(names.of_group(group)[0]) for group in GROUPS}
        self._requests, self._errors = self._counter(names.requests), self._totals(names.errors)
        self._cpu = self._counter(names.cpu)
        self._gauges = {name: self._gauge(getattr(names, name)) for name in _GAUGES}
        self._node = {name: self._totals(name) for name in (NODE_CPU, *NODE_TCP)}
        self._memory = {name: self._add(name, self._levels(window.instants_ms)) for name in NODE_MEMORY}
        times = window.start_ms, window.end_ms, window.interval_ms
        self._up = self._add("up", Scrapes(*times, lambda values: values == 1))
        self._seen = self._add(names.goroutines, Scrapes(*times, lambda values: ~np.isnan(values)))
        self._started = self._add(names.started, Changes())

    def read(self, path: Path) -> LoadMetrics:
        streams = {name: Stream(*sinks) for name, sinks in self._sinks.items()}
        samples = 0
        for page in pages(path, streams):
            streams[page.metric].add(page)
            samples += sum(len(series.times_ms) for series in page.series)
        for stream in streams.values():
            stream.finish()
        absent_at = self._absent_at()
        for totals in self._all_totals():
            totals.begin_at_zero(absent_at)
        found = LoadMetrics(self._section, samples=samples)
        for group in GROUPS:
            self._of_group(group, found)
        self._of_process(found)
        self._of_host(found)
        self._faults(found)
        return found

    @property
    def _scrapes(self) -> Scrapes:
        # If `up` was not kept, a metric that every such program exports replaces it.
        return self._up if self._up.any else self._seen

    def _all_totals(self) -> Iterator[Totals]:
        yield from (sink for sinks in self._sinks.values() for sink in sinks if isinstance(sink, Totals))

    def _absent_at(self) -> Callable[[Labels, int], int | None]:
        """Tell when an instance answered last before a series' first sample, if it did so one scrape before and was
        not started anew since: a program that counts exports a series from its first increment on.
        """
        good_ms = {instance: sorted(times) for instance, times in self._scrapes.good_ms.items()}
        begun_ms: dict[str, set[int]] = {}
        resets = ((reset.t_ms, reset.labels) for totals in self._all_totals() for reset in totals.resets)
        for at_ms, labels in [*resets, *self._started.found]:
            begun_ms.setdefault(labels.get("instance", ""), set()).add(at_ms)

        def absent_at(labels: Labels, first_ms: int) -> int | None:
            instance = labels.get("instance", "")
            times_ms = good_ms.get(instance, [])
            place = bisect_left(times_ms, first_ms)
            if not place or first_ms - times_ms[place - 1] > LATE * self._window.interval_ms:
                return None
            before_ms = times_ms[place - 1]
            return None if any(before_ms < at <= first_ms for at in begun_ms.get(instance, ())) else before_ms

        return absent_at

    # --- sinks of each metric -----------------------------------------------------------------------------------

    def _add(self, metric: str, sink: S) -> S:
        self._sinks.setdefault(metric, []).append(sink)
        return sink

    def _totals(self, metric: str) -> Totals:
        window = self._window
        return self._add(metric, Totals(window.steady_start_ms, window.steady_end_ms, self._section.dialect))

    def _rates(self, metric: str, group_of: GroupOf = one_group) -> Rates:
        rates = Rates(self._window.steps_ms, self._window.width_ms, group_of, self._section.dialect)
        return self._add(metric, rates)

    def _levels(self, moments_ms: np.ndarray) -> Levels:
        return Levels(moments_ms, round(_LOOKBACK * self._window.interval_ms))

    def _counter(self, metric: str) -> "_Counter":
        return _Counter(self._totals(metric), self._rates(metric))

    def _gauge(self, metric: str) -> "_Gauge":
        window = self._window
        steps, instants = (self._add(metric, self._levels(at)) for at in (window.steps_ms, window.instants_ms))
        return _Gauge(steps, instants)

    def _histogram(self, metric: str) -> "_HistogramSinks":
        edges: dict[float, int] = {}

        def number(labels: Labels) -> int:
            return edges.setdefault(float(labels["le"]), len(edges))

        return _HistogramSinks(
            edges,
            _Counter(self._totals(f"{metric}_bucket"), self._rates(f"{metric}_bucket", number)),
            self._counter(f"{metric}_sum"),
            self._counter(f"{metric}_count"),
        )

    # --- results ------------------------------------------------------------------------------------------------

    def _of_group(self, group: str, found: LoadMetrics) -> None:
        sinks, label = self._histograms[group], self._names.of_group(group)[1]
        by_label: dict[str, _Sums] = {}
        whole = _Sums()
        for part, totals in (
            ("sum", sinks.sums.totals),
            ("count", sinks.counts.totals),
            ("bucket", sinks.buckets.totals),
        ):
            for labels, increase, rate, samples in zip(
                totals.labels, totals.increase.tolist(), totals.rate.tolist(), totals.samples.tolist(), strict=True
            ):
                if samples:
                    of_label = by_label.setdefault(labels.get(label, ""), _Sums())
                    for sums in (of_label, whole):
                        sums.add(part, labels, increase, rate)
        if not by_label:
            return
        found.labels[group] = _histograms(by_label)
        found.whole[group] = _histograms({"": whole})[""]
        times = self._window.steps_ms
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = _one(sinks.sums.rates.sums, times) / _one(sinks.counts.rates.sums, times)
        found.panels[f"{group}_mean"] = Panel(times, mean)
        edges = sorted(sinks.edges)
        rates = sinks.buckets.rates.sums[[sinks.edges[edge] for edge in edges]]
        quantile = histogram_quantile(TAIL, edges, rates)
        found.panels[f"{group}_p99"] = Panel(times, *quantile)
        found.events += self._appeared(group, sinks.counts.totals, label)

    def _appeared(self, group: str, totals: Totals, label: str) -> Iterator[Event]:
        """Report labels first counted within the window by an instance of which nobody knows when it began to count."""
        late = self._window.steady_start_ms + LATE * self._window.interval_ms
        begun: dict[str, float] = {}
        first = _EVER_MS
        uncounted = (totals.first_value - totals.from_zero).tolist()
        for labels, first_ms, value in zip(totals.labels, totals.first_ms.tolist(), uncounted, strict=True):
            if first_ms > late and value > 0:
                name = labels.get(label, "")
                begun[name] = begun.get(name, 0.0) + value
                first = min(first, first_ms)
        if begun:
            names = ", ".join(f"{name} ({calls:g})" for name, calls in sorted(begun.items()))
            detail = f"{group}: called for the first time; the calls before the first scrape are not counted: {names}"
            yield Event(int(first), "appeared", detail)

    def _of_process(self, found: LoadMetrics) -> None:
        times = self._window.steps_ms
        requests, cpu = self._requests.totals, self._cpu.totals
        if (requests.samples > 1).any():
            found.values["rps"] = float(np.nansum(requests.rate))
            found.panels["rps"] = Panel(times, _one(self._requests.rates.sums, times))
        if (cpu.samples > 1).any():
            found.values["cpu"] = float(np.nanmean(cpu.rate))
            found.panels["cpu"] = Panel(times, _one(self._cpu.rates.averages, times))
        for name, gauge in self._gauges.items():
            over_time = gauge.instants.averages if name in _AVERAGED else gauge.instants.sums
            if over_time.size and not np.isnan(over_time).all():
                found.values[name] = float(np.nanmean(over_time))
                panel = gauge.steps.averages if name in _AVERAGED else gauge.steps.sums
                found.panels[name] = Panel(times, _one(panel, times))
        share = self._error_share()
        if share is not None:
            found.values["server_error_share"] = share

    def _error_share(self) -> float | None:
        """The share of requests that the server answered with 5xx; 0 if it answered none so, None without requests."""
        status = self._names.status_label
        counts = self._histograms["api"].counts.totals
        if any(status in labels for labels in counts.labels):
            failed = [labels.get(status, "").startswith("5") for labels in counts.labels]
            return _share(float(counts.increase[failed].sum()), float(counts.increase.sum()))
        if not self._errors.samples.any():
            return None
        return _share(float(self._errors.increase.sum()), float(self._requests.totals.increase.sum()))

    def _of_host(self, found: LoadMetrics) -> None:
        cpu = self._node[NODE_CPU]
        modes = [labels.get("mode", "") for labels in cpu.labels]
        idle = float(cpu.increase[[mode in _IDLE for mode in modes]].sum())
        # The kernel counts the time of guests as user time, too.
        everything = float(cpu.increase[[not mode.startswith("guest") for mode in modes]].sum())
        sent, again = (float(self._node[name].increase.sum()) for name in NODE_TCP)
        with np.errstate(divide="ignore", invalid="ignore"):
            total, available = (_one(self._memory[name].sums, self._window.instants_ms) for name in NODE_MEMORY)
            memory = 1 - available / total
        shares = {
            "node_cpu": _share(everything - idle, everything),
            "node_memory": None if np.isnan(memory).all() else float(np.nanmean(memory)),
            "tcp_retransmits": _share(again, sent),
        }
        found.values |= {name: share for name, share in shares.items() if share is not None}

    def _faults(self, found: LoadMetrics) -> None:
        window = self._window
        for began in self._began_anew():
            if window.start_ms < began.t_ms <= window.end_ms:
                found.events.append(began)
                found.resets_ms.append(began.t_ms)
        for at, labels in self._started.found:
            if window.start_ms < at <= window.end_ms:
                found.events.append(Event(at, "restart", f"{labels.get('instance', '')}: the process was started anew"))
        for gap in self._scrapes.gaps():
            length = (gap.end_ms - gap.start_ms) / 1000
            failed = f", {plural(gap.failed, 'scrape')} failed" if gap.failed else ""
            detail = f"{gap.instance}: no sample for {length:.1f} s{failed}"
            found.events.append(Event(gap.start_ms, "down" if gap.failed else "gap", detail))
            found.gaps += gap.start_ms < window.steady_end_ms and gap.end_ms > window.steady_start_ms
        found.events.sort()
        found.resets_ms.sort()

    def _began_anew(self) -> Iterator[Event]:
        """Merge the resets of all counters of an instance into events. Rarely changed counters show a reset later."""
        falls: dict[str, list[tuple[int, int, str]]] = {}
        for metric, sinks in self._sinks.items():
            for reset in (reset for sink in sinks if isinstance(sink, Totals) for reset in sink.resets):
                of_instance = falls.setdefault(reset.labels.get("instance", ""), [])
                of_instance.append((reset.t_ms, reset.before_ms, metric))
        for instance, left in falls.items():
            left.sort()
            while left:
                at_ms = left[0][0]
                metrics = sorted({metric for _, before_ms, metric in left if before_ms < at_ms})
                yield Event(at_ms, "reset", f"{instance}: counters began anew, of {', '.join(metrics)}")
                left = [fall for fall in left[1:] if fall[1] >= at_ms]


# --- helpers ----------------------------------------------------------------------------------------------------

_GAUGES = ("goroutines", "heap", "stack", "devices")
_AVERAGED = ("heap", "stack")  # over instances; the others are summed, as on the published dashboard
_IDLE = ("idle", "iowait")


class _Counter(NamedTuple):
    totals: Totals
    rates: Rates


class _Gauge(NamedTuple):
    steps: Levels
    instants: Levels


class _HistogramSinks(NamedTuple):
    edges: dict[float, int]  # the buckets' upper edges, numbered in the order in which they appear
    buckets: _Counter
    sums: _Counter
    counts: _Counter


class _Sums:
    """Sums a histogram's parts over series. `buckets`: by upper edge, the increase and the rate."""

    def __init__(self) -> None:
        self.increase = {"sum": 0.0, "count": 0.0}
        self.rate = 0.0
        self.buckets: dict[float, list[float]] = {}

    def add(self, part: str, labels: Labels, increase: float, rate: float) -> None:
        rate = 0.0 if math.isnan(rate) else rate
        if part == "bucket":
            bucket = self.buckets.setdefault(float(labels["le"]), [0.0, 0.0])
            bucket[0] += increase
            bucket[1] += rate
            return
        self.increase[part] += increase
        if part == "count":
            self.rate += rate


def _histograms(by_label: Mapping[str, _Sums]) -> dict[str, Histogram]:
    """The histogram of each label, sorted. Quantiles of labels with the same edges are computed together."""
    alike = grouped((tuple(sorted(sums.buckets)), label) for label, sums in by_label.items())
    found = dict[str, Histogram]()
    for edges, labels in alike.items():
        buckets = [[by_label[label].buckets[edge] for edge in edges] for label in labels]
        increases, rates = np.moveaxis(np.array(buckets).reshape(len(labels), len(edges), 2), 2, 0)
        quantiles = (part.tolist() for part in histogram_quantile(TAIL, edges, rates.T))
        for label, counts, *p99 in zip(labels, increases.tolist(), *quantiles, strict=True):
            sums = by_label[label]
            found[label] = Histogram(sums.increase["count"], sums.increase["sum"], sums.rate, list(edges), counts, *p99)
    return dict(sorted(found.items()))


def _one(matrix: np.ndarray, times_ms: np.ndarray) -> np.ndarray:
    """The row of the only group; NaN if there is no series."""
    return matrix[0] if len(matrix) else np.full(len(times_ms), np.nan)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
