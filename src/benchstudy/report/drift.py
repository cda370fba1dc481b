"""Cases whose trials, in the order of measuring, had not come to rest."""

from dataclasses import dataclass
from functools import lru_cache

from benchstudy import steady
from benchstudy.report.outliers import primary_metrics
from benchstudy.report.results import Results

Key = tuple[str, str]  # target, case
_ALPHA = 0.05
STORAGE_RULE = f"SNIA's limits over the last {steady.ROUNDS} blocks"
TREND_RULE = "a trend over the blocks by Kendall's rank correlation, adjusted over the cases (Benjamini-Hochberg)"


@dataclass(frozen=True)
class Drift:
    """`looked_at`: how many cases have blocks enough for the `rule`; `cases`: those of them that drift."""

    rule: str
    looked_at: int
    cases: tuple[Key, ...]


NOT_STEADY = "not steady"


def mark(results: Results, metric: str, key: Key) -> tuple[str, ...]:
    """What a figure is marked with where it stands, if it is one that its family is read for and its case drifts."""
    keys, metrics = _drifting(results)
    return (NOT_STEADY,) if key in keys and metric in metrics else ()


@lru_cache(maxsize=8)
def _drifting(results: Results) -> tuple[frozenset[Key], frozenset[str]]:
    """The cases and the metrics, found once for all cells of a page."""
    return frozenset(find(results).cases), frozenset(primary_metrics(results))


def find(results: Results) -> Drift:
    """Of storage by the limits of its own trade, which also forbid noise; of all else by a trend, which does not."""
    in_order = _in_order(results)
    if any(metric.endswith("_iops") or metric == "device_read" for metric in results.metrics):
        found = [(key, steady.is_steady(values)) for key, values in in_order]
        known = {key for key, is_steady in found if is_steady is not None}
        return Drift(STORAGE_RULE, len(known), tuple(sorted({key for key, is_steady in found if is_steady is False})))
    from scipy import stats as scipy_stats

    long = [(key, v) for key, v in in_order if len(v) >= steady.ROUNDS and min(v) < max(v)]
    p_values = [float(scipy_stats.kendalltau(range(len(v)), v).pvalue) for _, v in long]
    adjusted = scipy_stats.false_discovery_control(p_values) if p_values else []
    cases = {key for (key, _), p in zip(long, adjusted, strict=True) if p <= _ALPHA}
    return Drift(TREND_RULE, len({key for key, _ in long}), tuple(sorted(cases)))


def _in_order(results: Results) -> list[tuple[Key, list[float]]]:
    started = dict(results.counted.select("trial", "started").iter_rows())
    return [
        (key, [value for trial, value, _ in sorted(trials, key=lambda t: started[t[0]] or "")])
        for metric in primary_metrics(results)
        for key, trials in results.by_case(metric).items()
    ]
