"""A load test as a Prometheus remembers it: random calls, second by second, written as OpenMetrics."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass
class Calls:
    """One label of a histogram: `calls` per second take times around `median_s`. `when`: which seconds have calls."""

    metric: str
    label: str
    value: str
    calls: float
    median_s: float
    further: dict[str, str] = field(default_factory=dict)
    when: Callable[[int], bool] = lambda second: True


@dataclass
class Instance:
    """A server. `restarts`: seconds at which its counters start again at zero; `away`: seconds without a scrape."""

    name: str
    histograms: Sequence[Calls]
    gauges: dict[str, float]
    counters: dict[str, float]
    restarts: Sequence[int] = ()
    away: Sequence[int] = ()


def lines(
    instances: Sequence[Instance], start_s: float, seconds: int, interval_s: float = 1.0, seed: int = 1
) -> Iterator[str]:
    """OpenMetrics text, metric by metric as the format requires. The same arguments give the same text."""
    families: dict[str, tuple[str, list[str]]] = {}
    for number, instance in enumerate(instances):
        for name, kind, sample in _samples(instance, start_s, seconds, interval_s, random.Random(f"{seed} {number}")):
            families.setdefault(name, (kind, []))[1].append(sample)
    for name, (kind, samples) in families.items():
        yield f"# TYPE {name} {kind}"
        yield from samples


def _samples(
    instance: Instance, start_s: float, seconds: int, interval_s: float, rng: random.Random
) -> Iterator[tuple[str, str, str]]:
    shift = rng.uniform(0, interval_s)  # Prometheus scrapes each target at its own offset.
    scrapes = [k * interval_s + shift for k in range(int(seconds / interval_s))]
    own = f'instance="{instance.name}",job="server"'
    shown = [t for t in scrapes if int(t) not in instance.away]
    for t in scrapes:
        yield "up", "gauge", f"up{{{own}}} {int(int(t) not in instance.away)} {start_s + t:.3f}"
    started = [0, *instance.restarts]
    for t in shown:
        begun = max(second for second in started if second <= t)
        yield (
            "process_start_time_seconds",
            "gauge",
            f"mattermost_process_start_time_seconds{{{own}}} {begun} {start_s + t:.3f}",
        )
    for name, level in instance.gauges.items():
        for t in shown:
            value = round(level * (1 + 0.2 * math.sin(t / 40) + rng.uniform(-0.05, 0.05)))
            yield name, "gauge", f"{name}{{{own}}} {value} {start_s + t:.3f}"
    for name, rate in instance.counters.items():
        total, before, next_restart = 0.0, 0.0, list(instance.restarts)
        for t in scrapes:
            while next_restart and t >= next_restart[0]:
                total, before = 0.0, float(next_restart.pop(0))
            total += rate * (t - before) * rng.uniform(0.8, 1.2)
            before = t
            if int(t) not in instance.away:
                yield name, "unknown", f"{name}{{{own}}} {total!r} {start_s + t:.3f}"
    for calls in instance.histograms:
        labels = ",".join([own, *(f'{k}="{v}"' for k, v in {calls.label: calls.value, **calls.further}.items())])
        yield from _histogram(calls, labels, instance, start_s, scrapes, rng)


def _histogram(
    calls: Calls, labels: str, instance: Instance, start_s: float, scrapes: Sequence[float], rng: random.Random
) -> Iterator[tuple[str, str, str]]:
    counts, total, added = [0] * (len(EDGES) + 1), 0, 0.0
    restarts, before = list(instance.restarts), 0.0
    edges = [f"{edge:g}" for edge in EDGES] + ["+Inf"]
    for t in scrapes:
        while restarts and t >= restarts[0]:
            counts, total, added, before = [0] * (len(EDGES) + 1), 0, 0.0, float(restarts.pop(0))
        expected = calls.calls * (t - before) if calls.when(int(t)) else 0.0
        for _ in range(int(expected) + (rng.random() < expected % 1)):
            took = calls.median_s * math.exp(rng.gauss(0, 0.8))
            total, added = total + 1, added + took
            counts[next((n for n, edge in enumerate(EDGES) if took <= edge), len(EDGES))] += 1
        before = t
        if not total or int(t) in instance.away:
            continue  # a label that was never called has no series
        upto, at = 0, f"{start_s + t:.3f}"
        for edge, count in zip(edges, counts, strict=True):
            upto += count
            yield calls.metric + "_bucket", "unknown", f'{calls.metric}_bucket{{{labels},le="{edge}"}} {upto} {at}'
        yield calls.metric + "_sum", "unknown", f"{calls.metric}_sum{{{labels}}} {added!r} {at}"
        yield calls.metric + "_count", "unknown", f"{calls.metric}_count{{{labels}}} {total} {at}"
