"""Figures: interactive where scripts run, a static SVG everywhere else, and SVG and PNG files for publishing.

A figure is one or more panels that stand side by side or, on a phone, below one another. Each panel takes the width it
gets. The legend is made of HTML, so that it wraps and never covers data; exported files carry Vega's own.
"""

import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert

# Okabe and Ito's palette in the order that stays apart under every common colour blindness; the shapes say it again.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# The page's style sheet recognises exactly these and replaces them in the dark.
_INK, _MUTED, _GRID, _REFERENCE = "#2b3038", "#5b6470", "#e1e5ea", "#8a4b00"
_EMBEDDED_WIDTH, _EXPORTED_WIDTH = 520, 440
VEGALITE_VERSION = "6." + alt.SCHEMA_VERSION.split(".")[1]

_LABELS = {
    "B": "{v} >= 1e9 ? format({v}/1e9,'~g')+' GB' : {v} >= 1e6 ? format({v}/1e6,'~g')+' MB' : "
    "{v} >= 1e3 ? format({v}/1e3,'~g')+' KB' : format({v},'~g')+' B'",
    "B/s": "{v} >= 1e9 ? format({v}/1e9,'~g')+' GB/s' : {v} >= 1e6 ? format({v}/1e6,'~g')+' MB/s' : "
    "format({v}/1e3,'~g')+' KB/s'",
    "s": "{v} == 0 ? '0' : {v} >= 1 ? format({v},',~g')+' s' : {v} >= 1e-3 ? format({v}*1e3,'~g')+' ms' : "
    "{v} >= 1e-6 ? format({v}*1e6,'~g')+' µs' : format({v}*1e9,'~g')+' ns'",
    "1/s": "format({v},',~r')",
    "%": "format({v},'.0%')",
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
        scale: dict[str, Any] = (
            {"type": "log", "nice": False} if self.log else {"type": "linear", "zero": True}
        )
        if not self.log and positive:
            scale["domain"] = [0, max(positive) * 1.05]
        if self.log and positive:
            scale["domain"] = [min(positive) / 1.35, max(positive) * 1.35]
        return {"axis": alt.Axis(**axis), "scale": alt.Scale(**scale)}


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks for a log axis: powers of ten, with 2 and 5 between them when there are fewer than three decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    return [
        float(f"{step}e{d}") for d in decades for step in steps if low / 1.35 <= step * 10.0**d <= high * 1.35
    ]


@dataclass(frozen=True)
class Style:
    """Colour and shape of each series, the same in every figure of a page."""

    names: tuple[str, ...]

    @property
    def colours(self) -> list[str]:
        return [_COLOURS[i % len(_COLOURS)] for i in range(len(self.names))]

    @property
    def shapes(self) -> list[str]:
        return [_SHAPES[(i + i // len(_COLOURS)) % len(_SHAPES)] for i in range(len(self.names))]

    def colour(self) -> alt.Color:
        legend = alt.Legend(title=None, orient="bottom", columns=3, symbolOpacity=1)
        return alt.Color(
            "series:N", scale=alt.Scale(domain=list(self.names), range=self.colours), legend=legend
        )

    def shape(self) -> alt.Shape:
        legend = alt.Legend(title=None, orient="bottom", columns=3)
        return alt.Shape(
            "series:N", scale=alt.Scale(domain=list(self.names), range=self.shapes), legend=legend
        )


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


_CONFIG: dict[str, Any] = {
    "font": "sans-serif",
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": _MUTED,
        "titleColor": _INK,
        "gridColor": _GRID,
        "domainColor": _GRID,
        "tickColor": _GRID,
        "titlePadding": 10,
        "labelPadding": 6,
    },
    "title": {"fontSize": 13, "fontWeight": 600, "color": _INK, "anchor": "start", "offset": 10},
    "legend": {"labelFontSize": 12, "labelColor": _INK, "symbolSize": 90},
}


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its files, `alt` what a reader who does not see it is told."""

    name: str
    caption: str
    alt: str
    panels: tuple[Panel, ...]
    style: Style | None = None
    shown: tuple[str, ...] = field(default=())

    def html(self) -> str:
        """`<figure>` with static SVG, the specification beside it, and a legend whose buttons hide a series."""
        views = "".join(self._panel_html(index, panel) for index, panel in enumerate(self.panels))
        many = " many" if len(self.panels) > 1 else ""
        return (
            f'<figure class="chart" id="figure-{html.escape(self.name)}">{self._legend_html()}'
            f'<div class="panels{many}">{views}</div><figcaption>{html.escape(self.caption)}</figcaption></figure>'
        )

    def _panel_html(self, index: int, panel: Panel) -> str:
        title = f"<p class='panel-title'>{html.escape(panel.title)}</p>" if panel.title else ""
        spec = panel.spec("container", legend=False)
        alt_text = f"{panel.title}. {self.alt}" if panel.title else self.alt
        spec |= {
            "config": _CONFIG,
            "description": alt_text,
            "autosize": {"type": "fit-x", "contains": "padding"},
        }
        static = _svg(
            {**panel.spec(_EMBEDDED_WIDTH, legend=False), "config": _CONFIG, "description": alt_text}
        )
        return (
            f'<div class="panel">{title}<div class="view" role="img" aria-label="{html.escape(alt_text)}">{static}</div>'
            f'<script type="application/json" class="spec">{script_json(spec)}</script></div>'
        )

    def _legend_html(self) -> str:
        if self.style is None or len(self.shown) < 2:
            return ""
        items = []
        for name, colour, shape in zip(self.style.names, self.style.colours, self.style.shapes, strict=True):
            if name in self.shown:
                items.append(
                    f'<li><button type="button" aria-pressed="true" data-series="{html.escape(name)}">'
                    f"{_symbol(shape, colour)}{html.escape(name)}</button></li>"
                )
        return f'<ul class="legend" aria-label="Series; press one to hide it">{"".join(items)}</ul>'

    def write(self, folder: Path) -> None:
        """Writes name.svg and name.png (two pixels a point, white background) into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.svg").write_text(self._exported, encoding="utf-8")
        (folder / f"{self.name}.png").write_bytes(vl_convert.svg_to_png(self._exported, scale=2))

    @cached_property
    def _exported(self) -> str:
        width = _EXPORTED_WIDTH if len(self.panels) > 1 else 760
        views = []
        for panel in self.panels:
            spec = panel.spec(width, legend=self.style is not None)
            views.append({**spec, "title": panel.title or ""})
        params = {json.dumps(p, sort_keys=True): p for view in views for p in view.pop("params", [])}
        datasets = {k: v for view in views for k, v in view.pop("datasets", {}).items()}
        for view in views:
            view.pop("$schema", None)
            view.pop("config", None)
        spec = {
            "concat": views,
            "columns": 2,
            "params": list(params.values()),
            "datasets": datasets,
            "config": {**_CONFIG, "background": "white", "padding": 16, "concat": {"spacing": 32}},
        }
        return _svg(spec)


def _svg(spec: dict[str, Any]) -> str:
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE_VERSION)
    # Vega prints 17 digits; two decimals of a pixel are enough and halve the page.
    return re.sub(
        r' (d|transform|x|y|x1|x2|y1|y2|width|height)="([^"]*)"',
        lambda m: f' {m[1]}="{re.sub(r"-?[0-9]+[.][0-9]{3,}(e-?[0-9]+)?", _two_decimals, m[2])}"',
        svg,
    )


def _two_decimals(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def script_json(data: Any) -> str:
    """JSON that can stand inside `<script>`: no text in it can end the element or begin a comment."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )


def _symbol(shape: str, colour: str) -> str:
    drawing = {
        "circle": '<circle cx="7" cy="7" r="5"/>',
        "square": '<rect x="2" y="2" width="10" height="10"/>',
        "triangle-up": '<path d="M7 1.5 13 12.5H1z"/>',
        "diamond": '<path d="M7 .5 13 7 7 13.5 1 7z"/>',
        "cross": '<path d="M5 1h4v4h4v4H9v4H5V9H1V5h4z"/>',
        "triangle-down": '<path d="M7 12.5 1 1.5h12z"/>',
    }[shape]
    return (
        f'<svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" fill="{colour}">{drawing}</svg>'
    )


# -- the kinds of panels ---------------------------------------------------------------------------------------------

_HIDDEN = alt.param(name="hidden", value=[])


def _visible(chart: alt.Chart) -> alt.Chart:
    return chart.transform_filter("indexof(hidden, datum.series) < 0")


def _tooltips(frame: pl.DataFrame) -> list[alt.Tooltip]:
    """Every text column that begins with `tip ` becomes a line of the tooltip, under the rest of its name."""
    return [
        alt.Tooltip(f"{_escaped(c)}:N", title=c.removeprefix("tip "))
        for c in frame.columns
        if c.startswith("tip ")
    ]


def _escaped(column: str) -> str:
    return re.sub(r"([.:\[\]])", r"\\\1", column)


def trend_panel(
    title: str, points: pl.DataFrame, estimates: pl.DataFrame, x: Axis, y: Axis, style: Style,
    references: Sequence[Reference] = (),
) -> Panel:  # fmt: skip
    """Every trial as a point, the median of each x as a line, and its interval as a bar.

    `points`: series, x, y, trial, and `tip …` text columns. `estimates`: series, x, y (median), low, high (null without
    an interval), `tip …`. The x values of the series are drawn a little apart, so that none hides another.
    """
    points, estimates = _dodged(points, style, x.log), _dodged(estimates, style, x.log)
    x_encoding = x.encode(points["x"].to_list() or estimates["x"].to_list())
    y_encoding = y.encode(
        [*points["y"].to_list(), *_present(estimates, "low", "high"), *(r.value for r in references)]
    )
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
    medians = alt.Chart(estimates).encode(x=base_x, y=alt.Y("y:Q", **y_encoding), color=colour)
    intervals = (
        alt.Chart(estimates.drop_nulls(["low", "high"]))
        .mark_rule(strokeWidth=3, opacity=0.9, aria=False)
        .encode(
            x=base_x, y=alt.Y("low:Q", **y_encoding), y2="high:Q", color=colour, tooltip=_tooltips(estimates)
        )
    )
    layers = [
        _visible(medians.mark_line(strokeWidth=2, aria=False)),
        _visible(intervals),
        _visible(trials),
        *(_reference_layers(references, horizontal=True, encoding=y_encoding)),
    ]
    return Panel(title, alt.layer(*layers).add_params(_HIDDEN))


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
            .encode(
                x=base_x, y=rows, color=colour, shape=style.shape(), href="href:N", tooltip=_tooltips(points)
            )
        ),
        _visible(
            alt.Chart(estimates)
            .mark_tick(thickness=3, size=26, aria=False)
            .encode(x=base_x, y=rows, color=colour, tooltip=_tooltips(estimates))
        ),
    ]
    # Labels of reference lines stand upright and need room of their own.
    height = max(170 if references else 70, 44 * points["series"].n_unique() + 24)
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
        )
    )
    return Panel(title, alt.layer(_visible(lines)).add_params(_HIDDEN))


def _reference_layers(
    references: Sequence[Reference], *, horizontal: bool, encoding: dict[str, Any]
) -> list[alt.Chart]:
    if not references:
        return []
    data = pl.DataFrame({"value": [r.value for r in references], "label": [r.label for r in references]})
    base = alt.Chart(data)
    rule = base.mark_rule(strokeDash=[5, 4], strokeWidth=1.4, color=_REFERENCE, aria=False)
    text = {"fontSize": 11, "color": _REFERENCE, "aria": False}
    if horizontal:
        label = base.mark_text(align="left", dy=-6, **text).encode(
            y=alt.Y("value:Q", **encoding), x=alt.value(4), text="label:N"
        )
        return [rule.encode(y=alt.Y("value:Q", **encoding)), label]
    label = base.mark_text(align="right", baseline="top", angle=270, dy=4, **text)
    label = label.encode(x=alt.X("value:Q", **encoding), y=alt.value(2), text="label:N")
    return [rule.encode(x=alt.X("value:Q", **encoding)), label]


def _dodged(frame: pl.DataFrame, style: Style, log: bool) -> pl.DataFrame:
    order = {name: index - (len(style.names) - 1) / 2 for index, name in enumerate(style.names)}
    offset = pl.col("series").replace_strict(order, default=0.0, return_dtype=pl.Float64)
    drawn = pl.col("x") * pl.lit(1.16).pow(offset) if log else pl.col("x")
    return frame.with_columns(drawn_x=drawn)


def _present(frame: pl.DataFrame, *columns: str) -> list[float]:
    return [value for column in columns for value in frame[column].drop_nulls().to_list()]
