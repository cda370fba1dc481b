"""Cases whose trials, in the order of measurement, had not settled, or depend on one another."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.statistics import steady
from benchstudy.statistics.comparisons import ALPHA

Key = tuple[str, str]  # target, case
STORAGE_RULE = f"SNIA's limits over the last {steady.ROUNDS} blocks"
TREND_RULE = "a trend over the blocks by Kendall's rank correlation, adjusted over the cases (Benjamini-Hochberg)"
DEPENDENCE_RULE = "each trial with the one before it, by Kendall's rank correlation, adjusted over the cases"


class Figures(NamedTuple):
    """The figures of one metric in one case, in the order of measurement."""

    metric: str
    key: Key
    values: Sequence[float]


@dataclass(frozen=True)
class Drift:
    """Cases that drift by a `rule`.

    `looked_at` counts the cases with enough blocks for the rule. `moving` are the figures that drift. `unseen` are the
    cases that gave too few figures.
    """

    rule: str
    looked_at: int
    moving: tuple[Figures, ...]
    unseen: tuple[Key, ...]

    @property
    def cases(self) -> tuple[Key, ...]:
        """The cases that drift in a metric."""
        return tuple(sorted({key for _, key, _ in self.moving}))

    def told(self, results: Results) -> list[str]:
        """What each case does: "posix · 10 MB: throughput fell by 12 % over 6 trials", one text per case."""
        found = grouped((key, _course(results, figures, self.rule)) for figures in self.moving if (key := figures.key))
        return [f"{results.case_name(*key)}: {', '.join(found[key])}" for key in self.cases]


def _course(results: Results, figures: Figures, rule: str) -> str:
    """How one metric moved: by the line that is fitted to its trials, or if that is level, by how much they vary."""
    values = figures.values
    mean, noun = sum(values) / len(values), human.noun(results.declared(figures.metric).title)
    over = f"over {human.plural(len(values), 'trial')}"
    change = steady.fitted_change(values)
    if mean <= 0:
        return f"{noun} {'fell' if change < 0 else 'rose'} {over}"
    if rule == STORAGE_RULE and steady.is_level(values):
        return f"{noun} varied by {human.percent((max(values) - min(values)) / mean)} {over}"
    return f"{noun} {'fell' if change < 0 else 'rose'} by {human.percent(abs(change) / mean)} {over}"


NOT_STEADY = "not steady"


def mark(results: Results, metric: str, key: Key) -> tuple[str, ...]:
    """The mark for a figure of a primary metric, or of another form of it, if its case drifts; else empty."""
    return (NOT_STEADY,) if (results.declared(metric).form_of or metric, key) in _drifting(results) else ()


@lru_cache(maxsize=8)
def _drifting(results: Results) -> frozenset[tuple[str, Key]]:
    """The metrics and cases that drift, computed once for all cells of a page."""
    return frozenset((metric, key) for metric, key, _ in find(results).moving)


def find(results: Results) -> Drift:
    """Find drifting cases: storage by SNIA's limits, which also bound noise; all else by a trend, which does not."""
    in_order = _in_order(results)
    unseen = tuple(dict.fromkeys(key for _, key, values in in_order if len(values) < steady.ROUNDS))
    if results.telling("storage"):
        found = [(each, steady.is_steady(each.values)) for each in in_order]
        known = {each.key for each, is_steady in found if is_steady is not None}
        drifting = [e._replace(values=e.values[-steady.ROUNDS :]) for e, is_steady in found if is_steady is False]
        return Drift(STORAGE_RULE, len(known), tuple(drifting), unseen)
    long = _with_spread(in_order)
    moving = _significant([(each, range(len(each.values)), each.values) for each in long], "two-sided")
    return Drift(TREND_RULE, len({each.key for each in long}), moving, unseen)


def find_dependent(results: Results, drifting: Collection[Key]) -> tuple[Key, ...]:
    """Find cases whose trials resemble the previous one. Intervals assume independence, so theirs are too narrow.

    `drifting` cases are left out, because a trend makes neighbours alike, too.
    """
    long = [each for each in _with_spread(_in_order(results)) if each.key not in drifting]
    found = _significant([(each, each.values[:-1], each.values[1:]) for each in long], "greater")
    return tuple(sorted({each.key for each in found}))


def _with_spread(in_order: list[Figures]) -> list[Figures]:
    return [e for e in in_order if len(e.values) >= steady.ROUNDS and min(e.values) < max(e.values)]


def _significant(
    pairs: Sequence[tuple[Figures, Sequence[float], Sequence[float]]], alternative: Literal["two-sided", "greater"]
) -> tuple[Figures, ...]:
    from scipy import stats as scipy_stats

    found = [float(scipy_stats.kendalltau(x, y, alternative=alternative).pvalue) for _, x, y in pairs]
    # Constant values have no correlation, which is no evidence.
    p_values = [1.0 if math.isnan(p) else p for p in found]
    adjusted = scipy_stats.false_discovery_control(p_values).tolist() if p_values else []
    return tuple(figures for (figures, *_), p in zip(pairs, adjusted, strict=True) if p <= ALPHA)


def _in_order(results: Results) -> list[Figures]:
    if results.unit != "trial":  # targets have no order
        return []
    started = dict(results.counted.select("trial", "started").iter_rows())
    return [
        Figures(metric, key, [value for trial, value, _ in sorted(trials, key=lambda t: started[t[0]] or "")])
        for metric in results.primary_metrics
        for key, trials in results.by_case(metric).items()
        if key not in results.imported
    ]
