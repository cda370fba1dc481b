"""Lines over time, with shaded phases, bands for values known only as a range, and a cross-hair."""

import json
import math
from collections.abc import Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import altair as alt
import polars as pl

from benchstudy.report import human
from benchstudy.report.figures import findings, level_changes
from benchstudy.report.figures.axes import Axis
from benchstudy.report.figures.layers import Panel, fill, layered, stroke, tooltips, visible
from benchstudy.report.figures.level_changes import LevelChanges
from benchstudy.report.figures.off_axis import cut_off, has_place, off_axis
from benchstudy.report.figures.styles import INK, MUTED, REFERENCE, Style

_CROSSHAIR = "crosshair"
_MOST_STOPS = 100  # of the cross-hair: a pointer can hardly select more
_LETTER = 1 / 50  # width of a letter on a phone's axis: a phase that is narrower than its name has no label
_BAR_PX = 4  # height of each trial's own window; they are stacked from the top of the plot
_NAMES_PX = 15  # height of a row of names above the plot
_LABELS_PX = 46  # minimum for labels of the y axis, so that panels below one another share their time axis
_SHADES = (0.13, 0.05)  # neighbours differ if no phase is the measured one
_WIDTHS = (2.2, 1.0)  # of lines; dashes distinguish series
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_MOST_TICKS = 7


class Phase(NamedTuple):
    """A part of the time axis, in its unit.

    Beside a `measured` phase, which is not shaded, all others are shaded alike; without one, neighbours differ. A phase
    that belongs to one `series`, such as a trial's own window, is a bar in its colour above the lines.
    """

    name: str
    start: float
    end: float
    series: str = ""
    measured: bool = False


def time_panel(
    title: str, lines: pl.DataFrame, x: Axis, y: Axis, style: Style, phases: Sequence[Phase] = (),
    bands: pl.DataFrame | None = None, marks: pl.DataFrame | None = None, height: int = 240,
    changes: LevelChanges | None = None, steps: bool = False,
) -> Panel:  # fmt: skip
    """Lines over time, one per series and `line`, such as a percentile. The first `line` is thick, the next thin.

    `lines`: series, line, x (s), y. `bands`: series, x, low, high, between which a value is known to be. `phases` are
    light bands in the background, with their names if there is room. With `steps`, each x is the middle of the time
    that its y covers, and lines change half-way to the next. `marks`: series, x, y, `tip …`, for events. `changes` of
    level are thin vertical lines with their size, for the largest three. On a page, a cross-hair shows the values of
    all lines at the time under the pointer.
    """
    names = lines["line"].unique(maintain_order=True).to_list()
    frame = lines.with_columns(pl.col("x").round(3), pl.col("y").round_sig_figs(5))
    between = _without_gaps(bands)
    ends = [*frame["y"].drop_nulls().to_list(), *between["low"].to_list(), *between["high"].to_list()]
    base_x, y_encoding = _time_axis(x, frame, phases), y.encode(ends)
    lacks = off_axis(frame, "point", y, "y")
    frame = frame.with_columns(y=pl.when(has_place(y, "y")).then("y"))  # a line has a gap there
    between, cut = cut_off(between, y, y_encoding["scale"])
    between = between.drop_nulls()
    y_encoding["axis"]["minExtent"] = _LABELS_PX
    line = alt.Chart(frame if len(names) > 1 else frame.drop("line")).encode(
        x=base_x, y=alt.Y("y:Q", **y_encoding), color=style.colour(), strokeDash=style.dash()
    )
    shape: Literal["step", "linear"] = "step" if steps else "linear"
    if len(names) > 1:
        scale = alt.Scale(domain=names, range=[_WIDTHS[index % 2] for index in range(len(names))])
        width = alt.StrokeWidth("line:O", scale=scale, legend=None)
        line = line.mark_line(interpolate=shape, aria=False).encode(strokeWidth=width)
    else:
        line = line.mark_line(interpolate=shape, strokeWidth=1.8, aria=False)
    layers = [*_phase_layers([p for p in phases if not p.series], base_x), *_own_layers(phases, base_x, style)]
    if not between.is_empty():
        area = alt.Chart(between).mark_area(**fill(0.18), aria=False)
        layers.append(
            visible(area.encode(x=base_x, y=alt.Y("low:Q", **y_encoding), y2=alt.Y2("high:Q"), color=style.colour()))
        )
    layers.append(visible(line))
    if marks is not None and not marks.is_empty():
        point = alt.Chart(marks).mark_point(shape="triangle-down", size=55, filled=True, opacity=1, aria=False)
        at = alt.Y("y:Q", **y_encoding)
        layers.append(visible(point.encode(x=base_x, y=at, color=alt.ColorValue(REFERENCE), tooltip=tooltips(marks))))
    if changes is not None:
        times = [*frame["x"].to_list(), *(end for phase in phases for end in (phase.start, phase.end))]
        layers += _change_layers(changes, base_x, (min(times) + max(times)) / 2, style)
    # The cross-hair is only on the page: a printed figure has no pointer.
    live = _crosshair(frame, base_x, y.unit)
    told = findings.over_time(lines, y.unit)
    return Panel(title, layered(*layers), height, live, finding=told, off_axis=(*lacks, *cut))


def _without_gaps(bands: pl.DataFrame | None) -> pl.DataFrame:
    if bands is None:
        return pl.DataFrame(schema={"series": pl.String, **dict.fromkeys(("x", "low", "high"), pl.Float64)})
    known = bands.drop_nulls(["low", "high"])
    return known.with_columns(pl.col("x").round(3), pl.col("low", "high").round_sig_figs(4))


def _time_axis(x: Axis, frame: pl.DataFrame, phases: Sequence[Phase]) -> alt.X:
    times = [*frame["x"].to_list(), *(t for phase in phases for t in (phase.start, phase.end)), *x.shared]
    encoding = x.encode([t for t in times if t > 0])
    low, high = min(times, default=0.0), max(times, default=1.0)
    low = min(low, 0.0) if x.from_zero else low
    if low or phases or x.shared:
        encoding["scale"] = alt.Scale(type="linear", domain=[low, high], nice=False)
    if x.unit in ("s", "time"):
        encoding["axis"]["values"] = time_ticks(low, high)
    return alt.X("x:Q", **encoding)


def time_ticks(low: float, high: float) -> list[float]:
    """Ticks of a time axis in seconds, at round seconds, minutes or hours."""
    span = max(high - low, 1e-9)
    step = next((s for s in _TIME_STEPS if span / s <= _MOST_TICKS), _TIME_STEPS[-1])
    return [float(i * step) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _phase_layers(phases: Sequence[Phase], x: alt.X) -> list[alt.Chart]:
    if not phases:
        return []
    span = max(p.end for p in phases) - min(p.start for p in phases)
    shades = _SHADES[:1] if any(p.measured for p in phases) else _SHADES
    rows = [
        {
            "from": round(p.start, 3),
            "to": round(p.end, 3),
            "shade": 0.0 if p.measured else shades[index % len(shades)],
            "phase": p.name,
            "name": p.name if p.end - p.start >= _LETTER * (len(p.name) + 1) * span else "",
        }
        for index, p in enumerate(phases)
    ]
    at, base = _from(x), alt.Chart(pl.DataFrame(rows))
    opacity = alt.Opacity("shade:Q", scale=None, legend=None)
    tip = [alt.Tooltip("phase:N", title="phase")]
    band = base.mark_rect(color=MUTED, aria=False).encode(x=at, x2=alt.X2("to:Q"), opacity=opacity, tooltip=tip)
    # Names are above the plot, because lines would cross them within it.
    name = base.mark_text(align="left", baseline="bottom", dx=2, dy=-3, fontSize=11, color=MUTED, aria=False)
    return [band, name.encode(x=at, y=alt.YValue(0), text=alt.Text("name:N"))]


def _own_layers(phases: Sequence[Phase], x: alt.X, style: Style) -> list[alt.Chart]:
    own = [phase for phase in phases if phase.series]
    if not own:
        return []
    rows = [
        {"series": p.series, "phase": p.name, "from": round(p.start, 3), "to": round(p.end, 3), "row": _BAR_PX * row}
        for row, p in enumerate(own, 1)
    ]
    bar = alt.Chart(pl.DataFrame(rows)).mark_rule(strokeWidth=_BAR_PX - 1, **stroke(0.75), aria=False)
    tip = [alt.Tooltip(column) for column in ("series:N", "phase:N", "from:Q", "to:Q")]
    y = alt.Y("row:Q", scale=None, axis=None)
    return [visible(bar.encode(x=_from(x), x2=alt.X2("to:Q"), y=y, color=style.colour(), tooltip=tip))]


def _from(x: alt.X) -> alt.X:
    """The time axis, for the column `from`."""
    at = x.copy()
    at.shorthand = "from:Q"
    return at


def _change_layers(changes: LevelChanges, x: alt.X, middle: float, style: Style) -> list[alt.Chart]:
    """A rule at each of the largest changes. Each has its label above the plot and the phases, in a separate row."""
    marked = changes.marks
    rows: list[dict[str, Any]] = [
        {"series": line.series, "x": round(change.at, 3), "text": changes.label(line, change)}
        for line, change in marked[: level_changes.MOST_MARKED]
    ]
    if not rows:
        return []
    if len(marked) > len(rows):
        rows[-1]["text"] += f", and {len(marked) - len(rows)} more"
    rule = alt.Chart(pl.DataFrame(rows)).mark_rule(strokeWidth=1.3, strokeDash=[2, 2], aria=False)
    layers = [visible(rule.encode(x=x, color=style.colour()))]
    for number, row in enumerate(sorted(rows, key=lambda row: row["x"])):
        # Beyond the middle the text is to the left of its rule, or it would leave the chart.
        left = row["x"] < middle
        text = alt.Chart(pl.DataFrame([row])).mark_text(
            align="left" if left else "right", baseline="bottom", fontSize=11, color=INK, aria=False
        )
        layers.append(visible(text.encode(x=x, y=alt.YValue(-_NAMES_PX * (number + 1)), text=alt.Text("text:N"))))
    return layers


def _crosshair(frame: pl.DataFrame, x: alt.X, unit: str) -> alt.Chart:
    """A rule at the time under the pointer, with the values of all lines."""
    stops = frame["x"].unique().sort()
    if len(stops) > _MOST_STOPS:
        stops = stops.gather_every(math.ceil(len(stops) / _MOST_STOPS))
    told = pl.DataFrame({"x": stops})
    pitch = float(median(stops.diff().to_list()[1:] or [1.0]))
    several = frame["line"].n_unique() > 1
    named: dict[str, str] = {"time": "time"}
    told = told.with_columns(time=pl.col("x").map_elements(level_changes.moment, return_dtype=pl.String))
    keys = frame.select("series", "line").unique(maintain_order=True).rows()
    for number, (series, line) in enumerate(keys):
        own = frame.filter((pl.col("series") == series) & (pl.col("line") == line)).drop_nulls("y").sort("x")
        texts = [human.quantity(value, unit) for value in own["y"]]
        column = f"v{number}"
        said = own.select("x", pl.Series(column, texts, dtype=pl.String))
        told = told.join_asof(said, on="x", strategy="nearest", tolerance=2 * pitch)
        named[column] = " · ".join([series, *([line] if several and line else [])])
    told = told.with_columns(pl.col(f"v{n}").fill_null("–") for n in range(len(keys)))
    near = alt.selection_point(
        name=_CROSSHAIR, nearest=True, on="pointermove", clear="pointerout", fields=["x"], empty=False
    )
    # The pointer hits a cell of Vega's Voronoi diagram above the rule. The cell's datum is the rule's mark, and the row
    # is that mark's datum.
    row = "(datum.datum || datum)"
    shown = ", ".join(f"{json.dumps(title)}: {row}.{column}" for column, title in named.items())
    return (
        alt.Chart(told)
        .mark_rule(color=MUTED, strokeWidth=1.2, aria=False, tooltip=alt.ExprRef(f"{{{shown}}}"))
        .encode(x=x, opacity=alt.OpacityValue(**alt.condition(near, alt.value(0.9), alt.value(0))))
        .add_params(near)
    )
