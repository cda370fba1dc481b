"""The kinds of panels for one metric: against a number, over time, trial by trial, as shares of operations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import polars as pl

from benchstudy.model.criteria import DENSITY_FEWEST
from benchstudy.model.rounding import significant
from benchstudy.report.figures import findings
from benchstudy.report.figures.axes import Axis, axis_of_names
from benchstudy.report.figures.forest import forest_panel, forest_panels  # noqa: F401  others import it from here
from benchstudy.report.figures.layers import (
    Panel,
    Reference,
    fill,
    layered,
    present,
    reference_layers,
    stroke,
    strokes,
    tooltips,
    visible,
)
from benchstudy.report.figures.off_axis import OffAxis, cut_off, has_place, off_axis
from benchstudy.report.figures.paper import on_pages
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.thinning import thinned
from benchstudy.report.figures.timeline import Phase, time_panel  # noqa: F401  others import it from here
from benchstudy.statistics.densities import outline

# The distance of two series in decades, per decade that the axis shows: about five pixels.
_APART = 0.018
# Shares of the height of a row in a strip: the distance of an outline from the points below it, and its height.
_FOOT, _PEAK = 0.2, 0.28
_BESIDE = 0.22  # distance between series that share a row


def trend_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, x: Axis, y: Axis, style: Style,
    curves: pl.DataFrame | None = None, apart: bool = True, case: Sequence[str] = ("series", "x"),
) -> Panel:  # fmt: skip
    """Trials as hollow points, the median at each x as a filled one on a line, and its interval as a bar.

    `points`: series, x, y, trial, `href` if trials are not on the figure's page, and `tip …` text columns. If there are
    too many points for a page, they are thinned separately for each combination of the columns `case`. `estimates`:
    series, x, y (median), low, high (null without an interval), `tip …`, and `order` if the line must not go from left
    to right. `curves`: series, x, y, low, high of a law fitted to the trials; a series with one has no line through its
    medians. With `apart`, series are drawn slightly apart in x, so that none hides another.
    """
    if curves is None:
        curves = pl.DataFrame(schema={"series": pl.String, **dict.fromkeys(("x", "y", "low", "high"), pl.Float64)})
    x_encoding = x.encode(points["x"].to_list())
    ends = [*present(estimates, "low", "high"), *present(curves, "low", "high")]
    y_encoding = y.encode([*points["y"].to_list(), *ends])
    medians_of = estimates
    points, estimates, lacks = _on_axis(points, estimates, "x", x)
    by = ("series", "x")
    points, estimates, more = _on_axis(points, estimates, "y", y, by, x.named)
    estimates, cut = cut_off(estimates, y, y_encoding["scale"], by, x.named)
    curves, _ = cut_off(curves.filter(has_place(y, "y")), y, y_encoding["scale"])
    every, points = points, thinned(points, case)
    places = _places(every, style) if x.log and apart else {}
    points, estimates = (_dodged(frame, places) for frame in (points, estimates))
    curves = _dodged(curves, {})  # a law must be at its exact x
    colour, shape = style.colour(), style.shape()
    base_x = alt.X("drawn_x:Q", **x_encoding)
    trials = (
        _leading_to_trials(points)
        .mark_point(size=34, **stroke(0.5), strokeWidth=1.2, aria=False)
        .encode(
            x=base_x,
            y=alt.Y("y:Q", **y_encoding),
            color=colour,
            shape=shape,
            href=alt.Href("href:N"),
            tooltip=tooltips(points),
        )
    )
    unfitted = estimates.filter(~pl.col("series").is_in(curves["series"].unique().to_list()))
    medians = alt.Chart(unfitted).encode(x=base_x, y=alt.Y("y:Q", **y_encoding), color=colour)
    if "order" in estimates.columns:
        medians = medians.encode(order=alt.Order("order:Q"))
    intervals = (
        alt.Chart(estimates.drop_nulls(["low", "high"]))
        .mark_rule(strokeWidth=3, **stroke(0.9), aria=False)
        .encode(
            x=base_x, y=alt.Y("low:Q", **y_encoding), y2=alt.Y2("high:Q"), color=colour, tooltip=tooltips(estimates)
        )
    )
    # A series with a single place has no line.
    marks = alt.Chart(estimates).mark_point(filled=True, size=44, opacity=1, aria=False)
    marks = marks.encode(x=base_x, y=alt.Y("y:Q", **y_encoding), color=colour, shape=shape)
    layers = [
        *(_curve_layers(curves, base_x, y_encoding, colour)),
        visible(medians.encode(strokeDash=style.dash()).mark_line(strokeWidth=2, aria=False)),
        visible(intervals),
        visible(marks),
        visible(trials),
        *strokes(points, base_x, alt.Y("y:Q", **y_encoding)),
    ]
    told = findings.along(medians_of, x.unit, y.unit)
    return Panel(title, layered(*layers), 250, None, every.height, points.height, told, (*lacks, *more, *cut))


def _on_axis(
    points: pl.DataFrame, estimates: pl.DataFrame, column: str, axis: Axis, *by: Any
) -> tuple[pl.DataFrame, pl.DataFrame, list[OffAxis]]:
    """Points and medians that have a place on an axis, and the others, by series or as `off_axis` takes it.

    A median without a place is null: a line through the medians has a gap there.
    """
    lacks = [*off_axis(points, "point", axis, column, *by), *off_axis(estimates, "median", axis, column, *by)]
    placed = pl.when(has_place(axis, column)).then(column).alias(column)
    return points.filter(has_place(axis, column)), estimates.with_columns(placed), lacks


def _references_on(references: Sequence[Reference], axis: Axis) -> tuple[list[Reference], list[OffAxis]]:
    """The references that have a place on the axis, and the others."""
    frame = pl.DataFrame({"of": [r.label for r in references], "value": [float(r.value) for r in references]})
    drawn = frame.select(has_place(axis, "value"))["value"].to_list()
    kept = [reference for reference, is_drawn in zip(references, drawn, strict=True) if is_drawn]
    return kept, off_axis(frame, "line", axis, "value", ["of"])


def _leading_to_trials(points: pl.DataFrame) -> alt.Chart:
    """Points that link to trials: on the page of the figure, unless the points have an `href`."""
    chart = alt.Chart(points)
    return chart if "href" in points.columns else chart.transform_calculate(href="'#trial-' + datum.trial")


def _curve_layers(curves: pl.DataFrame, x: alt.X, y_encoding: dict[str, Any], colour: alt.Color) -> list[alt.Chart]:
    if curves.is_empty():
        return []
    base = alt.Chart(curves)
    band = base.mark_area(**fill(0.16), aria=False)
    line = base.mark_line(strokeWidth=1.6, strokeDash=[5, 3], aria=False)
    return [
        visible(band.encode(x=x, y=alt.Y("low:Q", **y_encoding), y2=alt.Y2("high:Q"), color=colour)),
        visible(line.encode(x=x, y=alt.Y("y:Q", **y_encoding), color=colour)),
    ]


def strip_panels(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, value: Axis, style: Style,
    references: Sequence[Reference] = (),
) -> list[Panel]:  # fmt: skip
    """As `strip_panel`, in as many panels with the same axis as pages of a paper are needed."""
    column, rows = _rows_of(points, style)
    most = max(points.group_by(sorted({column, "series"})).len()["len"].to_list(), default=0)
    value = replace(value, shared=[*value.shared, *points["x"].to_list(), *present(estimates, "low", "high")])
    found = []
    for part, of_part in on_pages(rows, _row_px(dense=most >= DENSITY_FEWEST)):
        own = pl.col(column).is_in(of_part)
        own_points, own_estimates = points.filter(own), estimates.filter(own)
        found.append(strip_panel(title + part, own_points, own_estimates, value, style, references))
    return found


def _rows_of(points: pl.DataFrame, style: Style) -> tuple[str, list[str]]:
    """The column that names the rows of a strip, and the names in order: places, or else series."""
    if "place" in points.columns:
        return "place", points["place"].unique(maintain_order=True).to_list()
    here = set(points["series"])
    return "series", [name for name in style.names if name in here]


def _row_px(*, dense: bool) -> int:
    return 72 if dense else 44


def strip_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, value: Axis, style: Style,
    references: Sequence[Reference] = (),
) -> Panel:  # fmt: skip
    """One row per series: trials as points, the median as a bar across, and the interval as a band.

    If there are enough trials, the outline of their density is above them. Columns are as for `trend_panel`, with x for
    y. With a column `place`, rows are places, and the series of one place share a row. Reference values are vertical
    lines.
    """
    encoding = value.encode(
        [*points["x"].to_list(), *present(estimates, "low", "high"), *(r.value for r in references)]
    )
    column, names = _rows_of(points, style)
    overlaid = column == "place"
    keys = ["place", "series"] if overlaid else ["series"]
    measured, medians_of = points, estimates
    points, estimates, lacks = _on_axis(points, estimates, "x", value, keys)
    estimates, cut = cut_off(estimates, value, encoding["scale"], keys)
    references, without = _references_on(references, value)
    every, points = points, thinned(points, keys)
    rows = _Rows(names, column, style.names if overlaid else ())
    dense = _densities(measured, value, rows)
    points, estimates = rows.placed(points), rows.placed(estimates)
    base_x, colour, y = alt.X("x:Q", **encoding), style.colour(), rows.encoding
    band = alt.Chart(estimates.drop_nulls(["low", "high"])).mark_rule(strokeWidth=18, **stroke(0.22), aria=False)
    layers = [
        *reference_layers(references, encoding),
        *([] if dense.is_empty() else [_outlines(dense, base_x, colour, y)]),
        visible(band.encode(x=alt.X("low:Q", **encoding), x2=alt.X2("high:Q"), y=y, color=colour)),
        visible(
            _leading_to_trials(points)
            .mark_point(size=42, **stroke(0.65), strokeWidth=1.3, aria=False)
            .encode(x=base_x, y=y, color=colour, shape=style.shape(), href=alt.Href("href:N"), tooltip=tooltips(points))
        ),
        *strokes(points, base_x, y),
        visible(
            alt.Chart(estimates)
            .mark_tick(orient="vertical", thickness=3, size=26, aria=False)
            .encode(x=base_x, y=y, color=colour, tooltip=tooltips(estimates))
        ),
    ]
    height = max(70, _row_px(dense=not dense.is_empty()) * len(rows.names) + 24)
    told = findings.beside(medians_of, value.unit)
    off = (*lacks, *without, *cut)
    return Panel(title, layered(*layers), height, None, every.height, points.height, told, off)


@dataclass(frozen=True)
class _Rows:
    """Rows of a strip, from the top, on a numeric axis, which leaves room for an outline above each row.

    `column` names the rows; `series` that share a row are slightly apart.
    """

    names: Sequence[str]
    column: str
    series: Sequence[str]

    @property
    def encoding(self) -> alt.Y:
        count = len(self.names)
        axis = axis_of_names(self.names, "datum.value", values=list(range(count)), ticks=False)
        return alt.Y("row:Q", axis=axis, scale=alt.Scale(domain=[count - 0.5, -0.5], nice=False, zero=False))

    def placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        places = {name: float(row) for row, name in enumerate(self.names)}
        row = pl.col(self.column).replace_strict(places, return_dtype=pl.Float64)
        if self.series:
            middle = (len(self.series) - 1) / 2
            apart = {name: _BESIDE * (index - middle) for index, name in enumerate(self.series)}
            row += pl.col("series").replace_strict(apart, return_dtype=pl.Float64)
        return frame.with_columns(row=row)


def _densities(points: pl.DataFrame, axis: Axis, rows: _Rows) -> pl.DataFrame:
    """An outline above the points of each series with enough trials, as series, x, row, upper."""
    found = []
    placed = points.with_columns(place=pl.col(rows.column))
    for (place, series), own in placed.group_by(["place", "series"], maintain_order=True):
        values = own["x"].drop_nulls().to_list()
        if len(values) >= DENSITY_FEWEST and not off_axis(own, "point", axis, "x"):
            foot = rows.names.index(str(place)) - _FOOT
            found += [
                {"series": series, "x": significant(x, 5), "row": foot, "upper": significant(foot - _PEAK * height, 4)}
                for x, height in outline(values, axis.log)
            ]
    return pl.DataFrame(found, schema={"series": pl.String, **dict.fromkeys(("x", "row", "upper"), pl.Float64)})


def _outlines(dense: pl.DataFrame, x: alt.X, colour: alt.Color, y: alt.Y) -> alt.Chart:
    upper = y.copy()
    upper.shorthand = "upper:Q"
    area = alt.Chart(dense).mark_area(**fill(0.28), line={"strokeWidth": 1.2}, aria=False)
    return visible(area.encode(x=x, y=upper, y2=alt.Y2("row:Q"), color=colour))


def cdf_panel(title: str, steps: pl.DataFrame, x: Axis, style: Style) -> Panel:
    """The share of operations that took at most x. `steps`: series, x (upper edge of a histogram bucket), fraction."""
    lines = (
        alt.Chart(steps.filter(has_place(x, "x")))
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
            strokeDash=style.dash(),
        )
    )
    off = off_axis(steps, "step", x, "x")
    return Panel(title, layered(visible(lines)), finding=findings.shares(steps), off_axis=off)


def _places(points: pl.DataFrame, style: Style) -> dict[str, float]:
    """The factor by which each series is moved on a logarithmic axis: a few pixels, whatever the axis spans."""
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
