"""The panel of a comparison: ratios with their intervals around 1."""

import json
import textwrap
from dataclasses import replace

import altair as alt
import polars as pl

from benchstudy.model.rounding import significant
from benchstudy.report.figures import findings
from benchstudy.report.figures.axes import Axis, axis_of_names, ratio_ticks
from benchstudy.report.figures.layers import Panel, fill, layered, present, tooltips, visible
from benchstudy.report.figures.off_axis import cut_off, has_place, off_axis
from benchstudy.report.figures.paper import on_pages
from benchstudy.report.figures.styles import MUTED, Style

_TITLE = 28  # characters of a line of the axis's title


def forest_panels(title: str, ratios: pl.DataFrame, value_title: str, style: Style, margin: float) -> list[Panel]:
    """As `forest_panel`, in as many panels with the same axis as pages of a paper are needed."""
    rows = ratios["row"].unique(maintain_order=True).to_list()
    return [
        forest_panel(title + part, ratios.filter(pl.col("row").is_in(of_part)), value_title, style, margin, ratios)
        for part, of_part in on_pages(rows, _row_px(_together(ratios)))
    ]


def _together(ratios: pl.DataFrame) -> int:
    """The largest number of series in a row."""
    return max(ratios.group_by("row").agg(pl.col("series").n_unique())["series"].to_list(), default=1)


def _row_px(series: int) -> int:
    return 14 + 12 * series


def forest_panel(
    title: str, ratios: pl.DataFrame, value_title: str, style: Style, margin: float, among: pl.DataFrame | None = None
) -> Panel:
    """Ratios with their intervals on a log axis, with a line at 1 and a band for the `margin` (0.05 is 5 %).

    `ratios`: row, series, x, low, high, `decided` (drawn filled), `tip …`. Series of a row are below one another. An
    interval that is much wider than the range of the ratios is cut off at the edge. `among`: all ratios whose panels
    have the same axis.
    """
    by, edges = ("row", "series"), [1 / (1 + margin), 1 + margin]
    head, bracket, better = value_title.partition(" (")
    axis = Axis([*textwrap.wrap(head, _TITLE), *([f"({better}"] if bracket else [])], "×")
    told, lacks = findings.ratios(ratios), off_axis(ratios, "ratio", axis, "x", by)
    ratios, every = (frame.filter(has_place(axis, "x")) for frame in (ratios, ratios if among is None else among))
    drawn = [*every["x"].to_list(), *edges]
    ends = [min(max(v, min(drawn) / 3), max(drawn) * 3) for v in present(every, "low", "high")]
    low, high = min(*drawn, *ends) / 1.05, max(*drawn, *ends) * 1.05
    encoding = replace(axis, values=ratio_ticks(low, high)).encode(drawn)
    encoding["scale"] = alt.Scale(type="log", nice=False, domain=[significant(low, 4), significant(high, 4)])
    rows = ratios["row"].unique(maintain_order=True).to_list()
    names = [name for name in style.names if name in set(ratios["series"])] if _together(ratios) > 1 else []
    y = alt.Y(
        "row:N",
        sort=rows,
        axis=axis_of_names(rows, f"indexof({json.dumps(rows)}, datum.label)"),
        scale=alt.Scale(padding=0.15),
    )
    place = {"y": y, "color": style.colour()} | ({"yOffset": alt.YOffset("series:N", sort=names)} if names[1:] else {})
    band = alt.Chart(pl.DataFrame({"from": [edges[0]], "to": [edges[1]], "one": [1.0]}))
    # Cut off here, because the chart's clipping paths would be numbered differently in each figure.
    frame, cut = cut_off(ratios, axis, encoding["scale"], by)
    frame = frame.with_columns(pl.col("x", "low", "high").round_sig_figs(5))
    intervals = alt.Chart(frame).mark_rule(strokeWidth=2.5, aria=False)
    points = alt.Chart(frame).mark_point(size=70, strokeWidth=1.8, aria=False)
    layers = [
        band.mark_rect(color=MUTED, **fill(0.16), aria=False).encode(x=alt.X("from:Q", **encoding), x2=alt.X2("to:Q")),
        band.mark_rule(color=MUTED, strokeWidth=1.2, aria=False).encode(x=alt.X("one:Q", **encoding)),
        visible(intervals.encode(x=alt.X("low:Q", **encoding), x2=alt.X2("high:Q"), **place)),
        visible(
            points.encode(
                x=alt.X("x:Q", **encoding),
                shape=style.shape(),
                fill=style.colour(),
                fillOpacity=alt.FillOpacityValue(**alt.condition("datum.decided", alt.value(1), alt.value(0))),
                tooltip=tooltips(frame),
                **place,
            )
        ),
    ]
    height = 40 + len(rows) * _row_px(max(1, len(names)))
    return Panel(title, layered(*layers), height, finding=told, off_axis=(*lacks, *cut))
