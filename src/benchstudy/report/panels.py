"""The kinds of panels a figure is made of, their axes, and the colours and shapes of their series."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

# Okabe and Ito's palette in the order that stays apart under every common colour blindness; the shapes say it again.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# For series that have an order, such as concurrencies: teal to a dark red; neighbours differ in their dashes, too.
_ORDERED = (
    *("#3aa3a0", "#2f8fb5", "#2f7cc0", "#3a66b8", "#4a4fa6"),
    *("#5a3793", "#68217a", "#6a145c", "#5c0f3f", "#420c26"),
)
_DASHES = ((1, 0), (6, 3))
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# The page's style sheet recognises exactly these and replaces them in the dark.
INK, MUTED, GRID, REFERENCE = "#2b3038", "#5b6470", "#e1e5ea", "#8a4b00"

_LABELS = {
    "B": "{v} >= 1e9 ? format({v}/1e9,'~g')+' GB' : {v} >= 1e6 ? format({v}/1e6,'~g')+' MB' : "
    "{v} >= 1e3 ? format({v}/1e3,'~g')+' KB' : format({v},'~g')+' B'",
    "B/s": "{v} >= 1e9 ? format({v}/1e9,'~g')+' GB/s' : {v} >= 1e6 ? format({v}/1e6,'~g')+' MB/s' : "
    "format({v}/1e3,'~g')+' KB/s'",
    "s": "{v} == 0 ? '0' : {v} >= 1 ? format({v},',~g')+' s' : {v} >= 1e-3 ? format({v}*1e3,'~g')+' ms' : "
    "{v} >= 1e-6 ? format({v}*1e6,'~g')+' µs' : format({v}*1e9,'~g')+' ns'",
    "1/s": "format({v},',~r')",
    "%": "format({v},'.0%')",
    "1": "format({v},',~r')",
    "×": "format({v},',~g')+'×'",
}


@dataclass(frozen=True)
class Axis:
    """`unit` is the base unit of the values and decides the labels; `values` fixes the ticks."""

    title: str
    unit: str
    log: bool = True
    values: Sequence[float] | None = None
    # Values of every panel that shares the axis: panels side by side are compared by eye.
    shared: Sequence[float] = ()

    def encode(self, data: Sequence[float]) -> dict[str, Any]:
        """Vega-Lite's axis and scale for these values. Values of zero or less have no place on a log axis."""
        positive = [v for v in (*data, *self.shared) if v > 0 and math.isfinite(v)]
        ticks = self.values or (log_ticks(min(positive), max(positive)) if self.log and positive else None)
        label = _LABELS.get(self.unit, "format({v},'~g')").replace("{v}", "datum.value")
        axis = {"title": self.title, "labelExpr": label, "labelOverlap": "greedy"}
        if ticks:
            axis["values"] = list(ticks)
        scale: dict[str, Any] = {"type": "log", "nice": False} if self.log else {"type": "linear", "zero": True}
        if not self.log and positive:
            scale["domain"] = [0, max(positive) * 1.05]
        if self.log and positive:
            scale["domain"] = [min(positive) / 1.35, max(positive) * 1.35]
        return {"axis": alt.Axis(**axis), "scale": alt.Scale(**scale)}


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks for a log axis: powers of ten, with 2 and 5 between them when there are fewer than two decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 1.7 else (1,)
    return [float(f"{step}e{d}") for d in decades for step in steps if low / 1.35 <= step * 10.0**d <= high * 1.35]


@dataclass(frozen=True)
class Style:
    """Colour and shape of each series, the same in every figure of a page. `ordered`: they are levels of a number."""

    names: tuple[str, ...]
    ordered: bool = False

    @property
    def colours(self) -> list[str]:
        if self.ordered:
            step = (len(_ORDERED) - 1) / max(len(self.names) - 1, 1)
            return [_ORDERED[round(i * step)] for i in range(len(self.names))]
        return [_COLOURS[i % len(_COLOURS)] for i in range(len(self.names))]

    @property
    def shapes(self) -> list[str]:
        return [_SHAPES[(i + i // len(_COLOURS)) % len(_SHAPES)] for i in range(len(self.names))]

    def colour(self) -> alt.Color:
        legend = alt.Legend(title=None, orient="bottom", columns=3, symbolOpacity=1)
        return alt.Color("series:N", scale=alt.Scale(domain=list(self.names), range=self.colours), legend=legend)

    def dash(self) -> alt.StrokeDash:
        dashes = [list(_DASHES[i % 2 if self.ordered else 0]) for i in range(len(self.names))]
        return alt.StrokeDash("series:N", scale=alt.Scale(domain=list(self.names), range=dashes), legend=None)

    def shape(self) -> alt.Shape:
        legend = alt.Legend(title=None, orient="bottom", columns=3)
        return alt.Shape("series:N", scale=alt.Scale(domain=list(self.names), range=self.shapes), legend=legend)


@dataclass(frozen=True)
class Reference:
    """A line at a figure that somebody else published; it says so in its label."""

    value: float
    label: str


@dataclass(frozen=True)
class Panel:
    """One Vega-Lite view without a width: the figure gives it one."""

    title: str
    chart: alt.LayerChart
    height: int = 300

    def spec(self, width: int | str, *, legend: bool) -> dict[str, Any]:
        chart = self.chart.properties(width=width, height=self.height)
        spec = chart.to_dict()
        if not legend:
            _remove_legends(spec)
        return spec


def _remove_legends(node: Any) -> None:
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(child, dict) and "legend" in child:
            child["legend"] = None
        _remove_legends(child)


_HIDDEN = alt.param(name="hidden", value=[])


def _visible(chart: alt.Chart) -> alt.Chart:
    return chart.transform_filter("indexof(hidden, datum.series) < 0")


def _tooltips(frame: pl.DataFrame) -> list[alt.Tooltip]:
    """Every text column that begins with `tip ` becomes a line of the tooltip, under the rest of its name."""
    return [
        alt.Tooltip(f"{_escaped(c)}:N", title=c.removeprefix("tip ")) for c in frame.columns if c.startswith("tip ")
    ]


def _escaped(column: str) -> str:
    return re.sub(r"([.:\[\]])", r"\\\1", column)


def trend_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, x: Axis, y: Axis, style: Style,
    references: Sequence[Reference] = (), curves: pl.DataFrame | None = None, apart: bool = True,
) -> Panel:  # fmt: skip
    """Every trial as a point, the median of each x as a line, and its interval as a bar.

    `points`: series, x, y, trial, and `tip …` text columns. `estimates`: series, x, y (median), low, high (null without
    an interval), `tip …`, and `order` where the line must not go from left to right. `curves`: series, x, y, low, high
    of a law fitted to the trials; a series that has one has no line through its medians. With `apart` the x values of
    the series are drawn a little apart, so that none hides another.
    """
    if curves is None:
        curves = pl.DataFrame(schema={"series": pl.String, **dict.fromkeys(("x", "y", "low", "high"), pl.Float64)})
    x_encoding = x.encode(points["x"].to_list())
    points, estimates, curves = (_dodged(frame, style, x.log, apart) for frame in (points, estimates, curves))
    ends = [*_present(estimates, "low", "high"), *_present(curves, "low", "high"), *(r.value for r in references)]
    y_encoding = y.encode([*points["y"].to_list(), *ends])
    colour, shape = style.colour(), style.shape()
    base_x = alt.X("drawn_x:Q", **x_encoding)
    trials = (
        alt.Chart(points)
        .transform_calculate(href="'#trial-' + datum.trial")
        .mark_point(size=34, opacity=0.5, strokeWidth=1.2, aria=False)
        .encode(
            x=base_x,
            y=alt.Y("y:Q", **y_encoding),
            color=colour,
            shape=shape,
            href="href:N",
            tooltip=_tooltips(points),
        )
    )
    unfitted = estimates.filter(~pl.col("series").is_in(curves["series"].unique().to_list()))
    medians = alt.Chart(unfitted).encode(x=base_x, y=alt.Y("y:Q", **y_encoding), color=colour)
    if "order" in estimates.columns:
        medians = medians.encode(order="order:Q")
    intervals = (
        alt.Chart(estimates.drop_nulls(["low", "high"]))
        .mark_rule(strokeWidth=3, opacity=0.9, aria=False)
        .encode(x=base_x, y=alt.Y("low:Q", **y_encoding), y2="high:Q", color=colour, tooltip=_tooltips(estimates))
    )
    layers = [
        *(_curve_layers(curves, base_x, y_encoding, colour)),
        _visible(medians.mark_line(strokeWidth=2, aria=False)),
        _visible(intervals),
        _visible(trials),
        *(_reference_layers(references, horizontal=True, encoding=y_encoding)),
    ]
    return Panel(title, alt.layer(*layers).add_params(_HIDDEN))


def _curve_layers(curves: pl.DataFrame, x: alt.X, y_encoding: dict[str, Any], colour: alt.Color) -> list[alt.Chart]:
    if curves.is_empty():
        return []
    base = alt.Chart(curves)
    band = base.mark_area(opacity=0.16, aria=False)
    line = base.mark_line(strokeWidth=1.6, strokeDash=[5, 3], aria=False)
    return [
        _visible(band.encode(x=x, y=alt.Y("low:Q", **y_encoding), y2="high:Q", color=colour)),
        _visible(line.encode(x=x, y=alt.Y("y:Q", **y_encoding), color=colour)),
    ]


def time_panel(title: str, lines: pl.DataFrame, x: Axis, y: Axis, style: Style) -> Panel:
    """A line each series and `line`, such as a percentile, over time: the first `line` is solid, the next dashed.

    `lines`: series, line, x (s), y.
    """
    names = lines["line"].unique(maintain_order=True).to_list()
    dashes = [list(_DASHES[index % len(_DASHES)]) for index in range(len(names))]
    frame = lines.with_columns(pl.col("x").round(3), pl.col("y").round_sig_figs(5))
    chart = (
        alt.Chart(frame)
        .mark_line(strokeWidth=1.8, aria=False)
        .encode(
            x=alt.X("x:Q", **x.encode(frame["x"].to_list())),
            y=alt.Y("y:Q", **y.encode(frame["y"].drop_nulls().to_list())),
            color=style.colour(),
            strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=None),
        )
    )
    return Panel(title, alt.layer(_visible(chart)).add_params(_HIDDEN), 240)


def strip_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, value: Axis, style: Style,
    references: Sequence[Reference] = (),
) -> Panel:  # fmt: skip
    """One row a series: its trials as points, the median as a bar across, the interval as a band.

    Columns as for `trend_panel`, without x. Reference values are vertical lines.
    """
    encoding = value.encode(
        [*points["x"].to_list(), *_present(estimates, "low", "high"), *(r.value for r in references)]
    )
    rows = alt.Y("series:N", sort=list(style.names), axis=alt.Axis(title=None, grid=False, labelLimit=150))
    base_x, colour = alt.X("x:Q", **encoding), style.colour()
    band = alt.Chart(estimates.drop_nulls(["low", "high"])).mark_bar(height=18, opacity=0.22, aria=False)
    layers = [
        *(_reference_layers(references, horizontal=False, encoding=encoding)),
        _visible(band.encode(x=alt.X("low:Q", **encoding), x2="high:Q", y=rows, color=colour)),
        _visible(
            alt.Chart(points)
            .transform_calculate(href="'#trial-' + datum.trial")
            .mark_point(size=42, opacity=0.65, strokeWidth=1.3, aria=False)
            .encode(x=base_x, y=rows, color=colour, shape=style.shape(), href="href:N", tooltip=_tooltips(points))
        ),
        _visible(
            alt.Chart(estimates)
            .mark_tick(thickness=3, size=26, aria=False)
            .encode(x=base_x, y=rows, color=colour, tooltip=_tooltips(estimates))
        ),
    ]
    # Labels of reference lines stand upright and need room of their own.
    height = max(190 if references else 70, 44 * points["series"].n_unique() + 24)
    return Panel(title, alt.layer(*layers).add_params(_HIDDEN), height)


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
                axis=alt.Axis(title="Share of operations", format=".0%", tickCount=5),
            ),
            color=style.colour(),
            tooltip=_tooltips(steps),
            **({"strokeDash": style.dash()} if style.ordered else {}),
        )
    )
    return Panel(title, alt.layer(_visible(lines)).add_params(_HIDDEN))


def forest_panel(title: str, ratios: pl.DataFrame, value_title: str, style: Style, margin: float) -> Panel:
    """Ratios with their intervals on a log axis, around 1 and the band within `margin`, which does not matter.

    `ratios`: row, series, x, low, high, `decided` (drawn filled), `tip …`. Series of a row stand below one another. An
    interval far wider than the ratios themselves is cut off at the edge.
    """
    edges = [1 / (1 + margin), 1 + margin]
    drawn = [*ratios["x"].to_list(), *edges]
    ends = [min(max(v, min(drawn) / 3), max(drawn) * 3) for v in _present(ratios, "low", "high")]
    low, high = min(*drawn, *ends) / 1.05, max(*drawn, *ends) * 1.05
    encoding = Axis(value_title, "×", values=ratio_ticks(low, high)).encode(drawn)
    encoding["scale"] = alt.Scale(type="log", nice=False, domain=[low, high])
    rows = ratios["row"].unique(maintain_order=True).to_list()
    names = [name for name in style.names if name in set(ratios["series"])]
    y = alt.Y("row:N", sort=rows, axis=alt.Axis(title=None, grid=False, labelLimit=190), scale=alt.Scale(padding=0.15))
    place = {"y": y, "color": style.colour()} | ({"yOffset": alt.YOffset("series:N", sort=names)} if names[1:] else {})
    band = alt.Chart(pl.DataFrame({"from": [edges[0]], "to": [edges[1]], "one": [1.0]}))
    # Cut off here and not by the chart, whose clipping paths are numbered anew in each figure.
    frame = ratios.with_columns(pl.col("x", "low", "high").clip(low, high).round_sig_figs(5))
    intervals = alt.Chart(frame).mark_rule(strokeWidth=2.5, aria=False)
    points = alt.Chart(frame).mark_point(size=70, strokeWidth=1.8, aria=False)
    layers = [
        band.mark_rect(color=MUTED, opacity=0.16, aria=False).encode(x=alt.X("from:Q", **encoding), x2="to:Q"),
        band.mark_rule(color=MUTED, strokeWidth=1.2, aria=False).encode(x=alt.X("one:Q", **encoding)),
        _visible(intervals.encode(x=alt.X("low:Q", **encoding), x2="high:Q", **place)),
        _visible(
            points.encode(
                x=alt.X("x:Q", **encoding),
                shape=style.shape(),
                fill=style.colour(),
                fillOpacity=alt.condition("datum.decided", alt.value(1), alt.value(0)),
                tooltip=_tooltips(frame),
                **place,
            )
        ),
    ]
    return Panel(title, alt.layer(*layers).add_params(_HIDDEN), 40 + len(rows) * (14 + 12 * len(names)))


def ratio_ticks(low: float, high: float) -> list[float]:
    """Ticks of an axis of ratios, 1 among them: even steps while they are close, else 1, 2, 5 or powers of ten."""
    if high / low > 4:
        return log_ticks(low, high)
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 6)
    return [round(i * step, 2) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _reference_layers(
    references: Sequence[Reference], *, horizontal: bool, encoding: dict[str, Any]
) -> list[alt.Chart]:
    if not references:
        return []
    data = pl.DataFrame({"value": [r.value for r in references], "label": [r.label for r in references]})
    base = alt.Chart(data)
    rule = base.mark_rule(strokeDash=[5, 4], strokeWidth=1.4, color=REFERENCE, aria=False)
    text = {"fontSize": 11, "color": REFERENCE, "aria": False}
    if horizontal:
        label = base.mark_text(align="left", dy=-6, **text).encode(
            y=alt.Y("value:Q", **encoding), x=alt.value(4), text="label:N"
        )
        return [rule.encode(y=alt.Y("value:Q", **encoding)), label]
    label = base.mark_text(align="right", baseline="bottom", angle=270, dy=-4, **text)
    label = label.encode(x=alt.X("value:Q", **encoding), y=alt.value(2), text="label:N")
    return [rule.encode(x=alt.X("value:Q", **encoding)), label]


def _dodged(frame: pl.DataFrame, style: Style, log: bool, apart: bool) -> pl.DataFrame:
    order = {name: index - (len(style.names) - 1) / 2 for index, name in enumerate(style.names)}
    offset = pl.col("series").replace_strict(order, default=0.0, return_dtype=pl.Float64)
    drawn = pl.col("x") * pl.lit(1.16).pow(offset) if log and apart else pl.col("x")
    return frame.select(pl.exclude("x", "unit"), drawn.round_sig_figs(5).alias("drawn_x"))


def _present(frame: pl.DataFrame, *columns: str) -> list[float]:
    return [value for column in columns for value in frame[column].drop_nulls().to_list()]
