"""Turns estimates into table cells: a figure with its evidence and a link to its trials."""

import re
from collections import Counter
from collections.abc import Sequence

import polars as pl

from benchstudy.model.causes import Cause
from benchstudy.report import human
from benchstudy.report.results.results import Estimate, Reason, Results
from benchstudy.report.scrutiny import cachestate, disturbed, drift, floor
from benchstudy.report.tables.tables import MISSING, Cell, Table
from benchstudy.statistics import histograms, stats

_SHORT_CAUSE = 56
# The place of a failure at the beginning of a cause; what failed follows it.
_WHERE = re.compile(r"^(?:service|backend) \S+: (?:(?:start|setup)-failed: )?")


def href(results: Results, target: str, case: str) -> str:
    """The link to a case's trials on the same page."""
    return f"#{results.anchors[target, case]}"


def estimate_cell(results: Results, estimate: Estimate | None, form: str, unit: str | None = None) -> Cell:
    """The cell of one case: its figure and interval, or why and how often it failed.

    `form` decides the lines: "median" (median, then its interval), "page" (and mean and deviation), "mean" (mean,
    deviation and p50 in the storage page's format first) or "range" (lowest to highest, for what must hold in every
    trial).
    `unit` replaces the metric's own unit, such as "%" for a share.
    """
    if estimate is None:
        return MISSING
    link, summary, unit = href(results, estimate.target, estimate.case), estimate.summary, unit or estimate.unit
    if summary.median is None:
        return Cell(tuple(failures(estimate)) or (summary.note,), link, "failed")
    if form == "range":
        values, trials = results.spanned(estimate)
        return Cell((f"{human.value_range(values, unit)} in {trials}",), link)
    lines = [human.median(summary, unit), human.evidence(summary, unit)]
    if form == "page":
        lines.append(f"mean {human.mean_cell(summary, unit)}")
    elif form == "mean":
        lines = [human.page_cell(summary, unit), f"median {lines[0]}, {lines[1]}"]
    if estimate.failed:
        lines.append("; ".join(failures(estimate)))
    kind = "number warning" if estimate.failed else "number"
    key = (estimate.target, estimate.case)
    found = marks(results, estimate.metric, *key)
    return Cell(disturbed.beside_mark(results, key, lines), link, kind, summary.note, found)


def marks(results: Results, metric: str, target: str, case: str) -> tuple[str, ...]:
    """The reservations about a figure of a case in one or two words each."""
    key = (target, case)
    return (
        *cachestate.mark(results, key),
        *drift.mark(results, metric, key),
        *floor.mark(results, metric, key),
        *disturbed.mark(results, key),
    )


def all_marks(results: Results, estimate: Estimate) -> tuple[str, ...]:
    """All reservations about an estimate, for files that have no cells: also that a capacity is only a lower bound."""
    found = marks(results, estimate.metric, estimate.target, estimate.case) if estimate.values else ()
    return (*found, *unbracketed(results, estimate))


def failures(estimate: Estimate) -> list[str]:
    """Why trials failed, in a few words per reason: "OOM (2 of 6)", "failed: connection refused (1 of 6)"."""
    found: Counter[str] = Counter()
    for reason, count in estimate.causes:
        found[short_cause(reason)] += count
    return [f"{reason} ({count} of {estimate.results})" for reason, count in found.most_common()]


def unbracketed(results: Results, estimate: Estimate) -> list[str]:
    """What trials that ended well lack of a capacity: "no capacity found (2 of 6)", "nothing failed above it (6 of 6)".

    Then the figure is only a lower bound, or one of some of the trials. Empty for other metrics.
    """
    if results.declared(estimate.metric).tells != "capacity" or not estimate.values:
        return []

    def giving(metric: str) -> set[str]:
        return {trial for trial, *_ in results.by_case(metric).get((estimate.target, estimate.case), ())}

    found = giving(estimate.metric)
    lacking = {
        "no capacity found": estimate.results - estimate.failed - len(found),
        "nothing failed above it": len(found.difference(*map(giving, results.telling("bracket")))),
    }
    return [f"{what} ({count} of {estimate.results})" for what, count in lacking.items() if count]


def short_cause(reason: Reason) -> str:
    """A cause shortened for a cell; the list of trials has the whole text."""
    if reason.cause is Cause.OOM:
        return "OOM"
    cause = _WHERE.sub("", reason.words)
    if len(cause) > _SHORT_CAUSE:
        clause = re.match(rf"(.{{12,{_SHORT_CAUSE}}}?)(?:[:;,] | \()", cause)
        cause = clause[1] if clause else human.shortened(cause, _SHORT_CAUSE)
    return f"failed: {cause}"


def percentile_table(
    results: Results, latencies: pl.DataFrame, name: str, percentiles: Sequence[float], caption: str
) -> Table:
    """Percentiles of merged histograms of all trials, one row per case and operation.

    `latencies` has rows of the histogram `latency_histogram`. Each percentile is the bucket that it lies in; below it
    is the median over trials of the trials' own percentiles, and how many trials have one if not all do.
    """
    keys = ["target", "case", "op", "kind"]
    merged = histograms.merge_histograms(latencies, keys)
    totals = merged.group_by(keys, maintain_order=True).agg(pl.col("count").sum())
    buckets = {
        (percentile, *row[:4]): row[5:]
        for percentile in percentiles
        for row in histograms.quantile_interval_from_histogram(latencies, percentile / 100, keys).iter_rows()
    }
    body = []
    for *key, count in totals.iter_rows():
        target, case, op, kind = key
        mean, *estimates = (
            results.estimate(f"{op}_{kind}_{name}", target, case)
            for name in ("mean", *(f"p{percentile:g}" for percentile in percentiles))
        )
        most = max((e.summary.n for e in (mean, *estimates) if e is not None), default=0)
        cells = [
            _percentile_cell(href(results, target, case), percentile, count, buckets[percentile, *key], estimate, most)
            for percentile, estimate in zip(percentiles, estimates, strict=True)
        ]
        trials = latencies.filter((pl.col("target") == target) & (pl.col("case") == case))["trials"][0]
        heads = (results.case_name(target, case, but=("test",)), op)
        body.append(
            (*map(Cell.text, heads), Cell((f"{count:,}", f"of {human.plural(trials, 'trial')}"), kind="text"), *cells)
        )
    columns = ("Case", "Operation", "Operations", *(f"p{percentile:g}" for percentile in percentiles))
    return Table(name, caption, columns, tuple(body))


def _percentile_cell(
    link: str, percentile: float, count: int, bucket: tuple[float, float], estimate: Estimate | None, most: int
) -> Cell:
    """`most`: how many trials gave latencies. Those with few operations, such as slow ones, have no high percentile."""
    if not stats.supported(percentile, count):
        return Cell((f"needs {stats.smallest_n(percentile):,} operations",), link, "missing")
    lines = [human.value_range(bucket, "s")]
    if estimate is not None and estimate.summary.median is not None:
        median = human.median(estimate.summary, estimate.unit)
        n = estimate.summary.n
        lines.append(f"{f'{n} of {most} trials' if n < most else 'trials'}: {median}")
        if estimate.summary.interval_low is not None:
            lines.append(f"95 %: {human.interval(estimate.summary, estimate.unit)}")
    return Cell(tuple(lines), link)
