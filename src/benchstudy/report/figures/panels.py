"""The kinds of panels that show one metric: against a number, over time, trial by trial, as shares of operations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from benchstudy.report.figures.axes import Axis
from benchstudy.report.figures.forest import forest_panel
from benchstudy.report.figures.layers import (
    Panel,
    Reference,
    layered,
    present,
    reference_layers,
    strokes,
    tooltips,
    visible,
)
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.thinning import thinned
from benchstudy.report.figures.timeline import Phase, time_panel

# Who makes panels needs no other module.
__all__ = [
    "Axis",
    "Panel",
    "Phase",
    "Reference",
    "Style",
    "cdf_panel",
    "forest_panel",
    "strip_panel",
    "time_panel",
    "trend_panel",
]

# Decades that two series stand apart for each decade that the axis shows: some five pixels.
_APART = 0.018


def trend_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, x: Axis, y: Axis, style: Style,
    references: Sequence[Reference] = (), curves: pl.DataFrame | None = None, apart: bool = True,
    case: Sequence[str] = ("series", "x"),
) -> Panel:  # fmt: skip
    """Trials as points, the median of each x as a line, and its interval as a bar.

    `points`: series, x, y, trial, `href` where trials are not on the figure's page, and `tip …` text columns; the
    columns `case` tell apart what is thinned by itself where there are more than a page can hold. `estimates`: series,
    x, y (median), low, high (null without an interval), `tip …`, and `order` where the line must not go from left to
    right. `curves`: series, x, y, low, high of a law fitted to the trials; a series that has one has no line through
    its medians. With `apart` the x values of the series are drawn a little apart, so that none hides another.
    """
    if curves is None:
        curves = pl.DataFrame(schema={"series": pl.String, **dict.fromkeys(("x", "y", "low", "high"), pl.Float64)})
    x_encoding = x.encode(points["x"].to_list())
    every, points = points, thinned(points, case)
    places = _places(every, style) if x.log and apart else {}
    points, estimates = (_dodged(frame, places) for frame in (points, estimates))
    curves = _dodged(curves, {})  # a law is read off at its x
    ends = [*present(estimates, "low", "high"), *present(curves, "low", "high"), *(r.value for r in references)]
    y_encoding = y.encode([*every["y"].to_list(), *ends])
    colour, shape = style.colour(), style.shape()
    base_x = alt.X("drawn_x:Q", **x_encoding)
    trials = (
        _leading_to_trials(points)
        .mark_point(size=34, opacity=0.5, strokeWidth=1.2, aria=False)
        .encode(
            x=base_x,
            y=alt.Y("y:Q", **y_encoding),
            color=colour,
            shape=shape,
            href="href:N",
            tooltip=tooltips(points),
        )
    )
    unfitted = estimates.filter(~pl.col("series").is_in(curves["series"].unique().to_list()))
    medians = alt.Chart(unfitted).encode(x=base_x, y=alt.Y("y:Q", **y_encoding), color=colour)
    if "order" in estimates.columns:
        medians = medians.encode(order="order:Q")
    intervals = (
        alt.Chart(estimates.drop_nulls(["low", "high"]))
        .mark_rule(strokeWidth=3, opacity=0.9, aria=False)
        .encode(x=base_x, y=alt.Y("low:Q", **y_encoding), y2="high:Q", color=colour, tooltip=tooltips(estimates))
    )
    layers = [
        *(_curve_layers(curves, base_x, y_encoding, colour)),
        visible(medians.mark_line(strokeWidth=2, aria=False)),
        visible(intervals),
        visible(trials),
        *strokes(points, base_x, alt.Y("y:Q", **y_encoding)),
        *(reference_layers(references, horizontal=True, encoding=y_encoding)),
    ]
    chart = layered(*layers)
    return Panel(title, chart, trials=every.height, points=points.height)


def _leading_to_trials(points: pl.DataFrame) -> alt.Chart:
    """On the page of the figure, unless the points say where else."""
    chart = alt.Chart(points)
    return chart if "href" in points.columns else chart.transform_calculate(href="'#trial-' + datum.trial")


def _curve_layers(curves: pl.DataFrame, x: alt.X, y_encoding: dict[str, Any], colour: alt.Color) -> list[alt.Chart]:
    if curves.is_empty():
        return []
    base = alt.Chart(curves)
    band = base.mark_area(opacity=0.16, aria=False)
    line = base.mark_line(strokeWidth=1.6, strokeDash=[5, 3], aria=False)
    return [
        visible(band.encode(x=x, y=alt.Y("low:Q", **y_encoding), y2="high:Q", color=colour)),
        visible(line.encode(x=x, y=alt.Y("y:Q", **y_encoding), color=colour)),
    ]


def strip_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, value: Axis, style: Style,
    references: Sequence[Reference] = (),
) -> Panel:  # fmt: skip
    """One row a series: trials as points, the median as a bar across, the interval as a band.

    Columns as for `trend_panel`, without x. Reference values are vertical lines.
    """
    encoding = value.encode(
        [*points["x"].to_list(), *present(estimates, "low", "high"), *(r.value for r in references)]
    )
    every, points = points, thinned(points, ["series"])
    rows = alt.Y("series:N", sort=list(style.names), axis=alt.Axis(title=None, grid=False, labelLimit=150))
    base_x, colour = alt.X("x:Q", **encoding), style.colour()
    band = alt.Chart(estimates.drop_nulls(["low", "high"])).mark_bar(height=18, opacity=0.22, aria=False)
    layers = [
        *(reference_layers(references, horizontal=False, encoding=encoding)),
        visible(band.encode(x=alt.X("low:Q", **encoding), x2="high:Q", y=rows, color=colour)),
        visible(
            _leading_to_trials(points)
            .mark_point(size=42, opacity=0.65, strokeWidth=1.3, aria=False)
            .encode(x=base_x, y=rows, color=colour, shape=style.shape(), href="href:N", tooltip=tooltips(points))
        ),
        *strokes(points, base_x, rows),
        visible(
            alt.Chart(estimates)
            .mark_tick(thickness=3, size=26, aria=False)
            .encode(x=base_x, y=rows, color=colour, tooltip=tooltips(estimates))
        ),
    ]
    height = max(70, 44 * points["series"].n_unique() + 24)
    chart = layered(*layers)
    return Panel(title, chart, height, trials=every.height, points=points.height)


def cdf_panel(title: str, steps: pl.DataFrame, x: Axis, style: Style) -> Panel:
    """Share of operations that took at most x. `steps`: series, x (upper edge of a histogram's bucket), fraction."""
    lines = (
        alt.Chart(steps)
        .mark_line(interpolate="step-after", strokeWidth=2, aria=False)
        .encode(
            x=alt.X("x:Q", **x.encode(steps["x"].to_list())),
            y=alt.Y(
                "fraction:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="Share of operations", labelExpr="round(100 * datum.value) + ' %'", tickCount=5),
            ),
            color=style.colour(),
            tooltip=tooltips(steps),
            **({"strokeDash": style.dash()} if style.ordered else {}),
        )
    )
    return Panel(title, layered(visible(lines)))


def _places(points: pl.DataFrame, style: Style) -> dict[str, float]:
    """By what factor each series that the panel has is moved on a logarithmic axis: some pixels, whatever it spans."""
    here = set(points["series"])
    names = [name for name in style.names if name in here]
    places = points["x"].drop_nulls().to_list()
    span = math.log10(max(places) / min(places)) if places else 0.0
    step = 10 ** (_APART * max(span, 1.0))
    return {name: step ** (index - (len(names) - 1) / 2) for index, name in enumerate(names)}


def _dodged(frame: pl.DataFrame, places: Mapping[str, float]) -> pl.DataFrame:
    drawn = pl.col("x")
    if places:
        drawn *= pl.col("series").replace_strict(dict(places), default=1.0, return_dtype=pl.Float64)
    return frame.select(pl.exclude("x", "unit"), drawn.round_sig_figs(5).alias("drawn_x"))
