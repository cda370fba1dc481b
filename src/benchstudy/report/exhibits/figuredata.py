"""Turns results into the frames that panels draw; panels.py describes their columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.report import human
from benchstudy.report.figures.layers import NOTHING, NOTICED
from benchstudy.report.figures.styles import Style
from benchstudy.report.results.results import Results, Where
from benchstudy.report.scrutiny import disturbed
from benchstudy.statistics import histograms
from benchstudy.statistics.stats import Summary


def label(results: Results, levels: Mapping[str, Any], series: str, x: str | None = None) -> str:
    """The name of a series: its level, the number of clients, and the target if a study has several.

    `x` is the column on the x axis, which the name leaves out.
    """
    name = human.level(str(levels[series]))
    if NUMBER in results.cases.columns and levels.get(CLIENTS) and series != CLIENTS and x != NUMBER:
        name += f", {human.level_of(CLIENTS, levels[CLIENTS])}"
    return name if len(results.targets) < 2 else f"{name} on {levels['target']}"


def _labels(results: Results, frame: pl.DataFrame, series: str, x: str | None = None) -> pl.Series:
    return pl.Series([label(results, row, series, x) for row in frame.iter_rows(named=True)], dtype=pl.String)


def style(
    results: Results, series: str, where: Where | None = None, x: str | None = None, ordered: bool = False
) -> Style:  # fmt: skip
    """A colour and a shape for each series among the chosen cases. `ordered`: the levels are numbers."""
    levels = results.with_level(results.select(where), series)
    if ordered:
        levels = levels.sort(pl.col(series).cast(pl.Float64, strict=False), maintain_order=True)
    return Style(tuple(_labels(results, levels, series, x).unique(maintain_order=True).to_list()), ordered)


def points(results: Results, metric: str, series: str, where: Where, x: str | None = None) -> pl.DataFrame:
    """One row per trial: series, y, unit, trial, tooltips, and x: the case's numeric column `x`, or the value again."""
    results.require_factors([] if x is None else [x])
    found = results.with_level(results.points(metric, where), series)
    texts = [human.quantity(value, unit) for value, unit in found.select("value", "unit").iter_rows()]
    place, told_of_it = results.place_in_figure()
    columns: dict[str, pl.Series | pl.Expr] = {
        "series": _labels(results, found, series, x),
        "y": pl.col("value").round_sig_figs(5),
        "unit": pl.col("unit"),
        "trial": pl.col("trial"),
        "tip value": pl.Series(texts, dtype=pl.String),
        f"tip {place}": told_of_it,
    }
    if results.disturbed:
        told = {trial: disturbed.told(seen) for trial, seen in results.disturbed.items()}
        columns[NOTICED] = pl.col("trial").replace_strict(told, default=NOTHING, return_dtype=pl.String)
    columns["x"] = columns["y"] if x is None else pl.col(x).cast(pl.Float64)
    return leading(results, found.select(**columns))


def leading(results: Results, points: pl.DataFrame) -> pl.DataFrame:
    """The points with a link to each trial as `href`, if trials are not on the page of the figure."""
    if results.places.detail != "apart":
        return points
    return points.with_columns(href=pl.col("trial").map_elements(results.places.href, return_dtype=pl.String))


# The columns of `median_of`, without that of the median itself.
OF_MEDIANS: Mapping[str, Any] = {
    **dict.fromkeys(("low", "high"), pl.Float64),
    **dict.fromkeys(("tip median", "tip evidence"), pl.String),
}


def median_of(summary: Summary, unit: str, column: str = "y") -> dict[str, Any]:
    """A median, which the summary must have, as `column`, with low, high and tooltips."""
    return {
        column: summary.median,
        "low": summary.interval_low,
        "high": summary.interval_high,
        "tip median": human.median(summary, unit),
        "tip evidence": human.evidence(summary, unit),
    }


def estimates(results: Results, metric: str, series: str, where: Where, x: str | None = None) -> pl.DataFrame:
    """One row per case with a median: series, y (median), low, high, tooltips, and x as in `points`."""
    rows = [
        {
            "series": label(results, estimate.levels, series, x),
            **median_of(estimate.summary, estimate.unit),
            "x": estimate.summary.median if x is None else float(estimate.levels[x]),
        }
        for estimate in results.estimates(metric, where)
        if estimate.summary.median is not None and estimate.levels.get(series) is not None
    ]
    return pl.DataFrame(rows, schema={"series": pl.String, "y": pl.Float64, **OF_MEDIANS, "x": pl.Float64})


def of_cases(
    results: Results, cases: Iterable[tuple[str, tuple[str, str], Mapping[str, Any]]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Trials, and medians with intervals, of cases that are not chosen by their levels: series, trial, x, y, tooltips.

    `cases`: metric, (target, case), and its columns: series, tooltips, and x, which is the value again when left out.
    """
    trials: list[dict[str, Any]] = []
    medians: list[dict[str, Any]] = []
    for metric, case, columns in cases:
        found = results.estimate(metric, *case)
        if found is not None and found.summary.median is not None:
            medians.append({"x": found.summary.median, **columns, **median_of(found.summary, found.unit)})
            trials += [
                {"x": value, **columns, "trial": trial, "y": value, "tip value": human.quantity(value, unit)}
                for trial, value, unit in results.by_case(metric)[case]
            ]
    common: dict[str, Any] = {"series": pl.String, "x": pl.Float64, "y": pl.Float64}
    at_least = pl.DataFrame(schema=common | {"trial": pl.String}), pl.DataFrame(schema={**common, **OF_MEDIANS})
    points, estimates = (
        pl.concat([pl.DataFrame(rows, infer_schema_length=None), empty], how="diagonal_relaxed")
        for rows, empty in zip((trials, medians), at_least, strict=True)
    )
    return leading(results, points), estimates


def latencies(results: Results, kind: str) -> pl.DataFrame | None:
    """Histograms of one kind of latency, and of syncs, with the levels of their cases; None if there are none."""
    found = results.histogram("latency_histogram")
    if found is None:
        return None
    chosen = found.filter((pl.col("kind") == kind) | (pl.col("op") == "sync"))
    chosen = chosen.join(results.cases, on=["target", "case"])
    return None if chosen.is_empty() else chosen


def curves(results: Results, fitted: pl.DataFrame, series: str, where: Where, x: str | None = None) -> pl.DataFrame:
    """Fitted laws of the chosen cases for a panel: series, x, y, low, high.

    `fitted` has x, y, low, high, `target`, and the factors.
    """
    chosen = fitted.join(results.select(where).select("target", "case"), on=["target", "case"], how="semi")
    numbers = [pl.col(name).round_sig_figs(5) for name in ("x", "y", "low", "high")]
    return chosen.with_columns(series=_labels(results, chosen, series, x)).select("series", *numbers)


def cumulative_steps(results: Results, histogram: pl.DataFrame, series: str, by: Sequence[str]) -> pl.DataFrame:
    """Cumulative shares of merged histograms: `by`, series, x (upper edge of a bucket in s), fraction, tooltips."""
    named = histogram.with_columns(series=_labels(results, histogram, series))
    steps = histograms.cumulative(named, [*by, "series"]).filter(pl.col("count") > 0)
    steps = _thinned(steps, [*by, "series"])
    # Near the end, print the remaining share, because only its digits distinguish the slowest operations.
    left = ((1 - pl.col("fraction")) * 100).round_sig_figs(2)
    percent = (
        pl.when(pl.col("fraction") < 0.99).then((pl.col("fraction") * 100).round_sig_figs(3)).otherwise(100 - left)
    )
    share = percent.round(6).cast(pl.String) + " %"
    # Four digits of a bucket's edge are more than a screen shows, and take a third of the bytes.
    return steps.select(
        *by,
        "series",
        pl.col("upper_s").round_sig_figs(4).alias("x"),
        pl.col("fraction").round(5),
        share.alias("tip share"),
    )


def _thinned(steps: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Remove invisible steps: keep one per half percent, and ten per decade of the tail."""
    tail = (-(1 - pl.col("fraction")).clip(1e-9).log10() * 10).floor()
    seen = pl.struct((pl.col("fraction") * 200).floor(), tail)
    # Keep the first of the steps that look the same. The last one may be far to the right, after a gap.
    return steps.filter((seen != seen.shift(1)).over(by).fill_null(True))
