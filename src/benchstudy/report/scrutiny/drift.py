"""Cases whose trials, in the order of measurement, had not settled, or depend on one another."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from benchstudy.report.results.results import Results
from benchstudy.statistics import steady
from benchstudy.statistics.comparisons import ALPHA

Key = tuple[str, str]  # target, case
STORAGE_RULE = f"SNIA's limits over the last {steady.ROUNDS} blocks"
TREND_RULE = "a trend over the blocks by Kendall's rank correlation, adjusted over the cases (Benjamini-Hochberg)"
DEPENDENCE_RULE = "each trial with the one before it, by Kendall's rank correlation, adjusted over the cases"


@dataclass(frozen=True)
class Drift:
    """Cases that drift by a `rule`.

    `looked_at` counts the cases with enough blocks for the rule. `cases` are those that drift. `unseen` are those that
    gave too few figures.
    """

    rule: str
    looked_at: int
    cases: tuple[Key, ...]
    unseen: tuple[Key, ...]


NOT_STEADY = "not steady"


def mark(results: Results, metric: str, key: Key) -> tuple[str, ...]:
    """The mark for a figure of a primary metric if its case drifts; else empty."""
    keys, metrics = _drifting(results)
    return (NOT_STEADY,) if key in keys and metric in metrics else ()


@lru_cache(maxsize=8)
def _drifting(results: Results) -> tuple[frozenset[Key], frozenset[str]]:
    """The drifting cases and the primary metrics, computed once for all cells of a page."""
    return frozenset(find(results).cases), frozenset(results.primary_metrics)


def find(results: Results) -> Drift:
    """Find drifting cases: storage by SNIA's limits, which also bound noise; all else by a trend, which does not."""
    in_order = _in_order(results)
    unseen = tuple(dict.fromkeys(key for key, values in in_order if len(values) < steady.ROUNDS))
    if results.telling("storage"):
        found = [(key, steady.is_steady(values)) for key, values in in_order]
        known = {key for key, is_steady in found if is_steady is not None}
        drifting = tuple(sorted({key for key, is_steady in found if is_steady is False}))
        return Drift(STORAGE_RULE, len(known), drifting, unseen)
    long = _with_spread(in_order)
    keys = _significant([(key, range(len(values)), values) for key, values in long], "two-sided")
    return Drift(TREND_RULE, len({key for key, _ in long}), keys, unseen)


def find_dependent(results: Results, drifting: Collection[Key]) -> tuple[Key, ...]:
    """Find cases whose trials resemble the previous one. Intervals assume independence, so theirs are too narrow.

    `drifting` cases are left out, because a trend makes neighbours alike, too.
    """
    long = [(key, values) for key, values in _with_spread(_in_order(results)) if key not in drifting]
    return _significant([(key, values[:-1], values[1:]) for key, values in long], "greater")


def _with_spread(in_order: list[tuple[Key, list[float]]]) -> list[tuple[Key, list[float]]]:
    return [(key, values) for key, values in in_order if len(values) >= steady.ROUNDS and min(values) < max(values)]


def _significant(
    pairs: Sequence[tuple[Key, Sequence[float], Sequence[float]]], alternative: Literal["two-sided", "greater"]
) -> tuple[Key, ...]:
    from scipy import stats as scipy_stats

    found = [float(scipy_stats.kendalltau(x, y, alternative=alternative).pvalue) for _, x, y in pairs]
    # Constant values have no correlation, which is no evidence.
    p_values = [1.0 if math.isnan(p) else p for p in found]
    adjusted = scipy_stats.false_discovery_control(p_values).tolist() if p_values else []
    return tuple(sorted({key for (key, *_), p in zip(pairs, adjusted, strict=True) if p <= ALPHA}))


def _in_order(results: Results) -> list[tuple[Key, list[float]]]:
    if results.unit != "trial":  # targets have no order
        return []
    started = dict(results.counted.select("trial", "started").iter_rows())
    return [
        (key, [value for trial, value, _ in sorted(trials, key=lambda t: started[t[0]] or "")])
        for metric in results.primary_metrics
        for key, trials in results.by_case(metric).items()
        if key not in results.imported
    ]
