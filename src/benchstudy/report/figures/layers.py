"""One panel of a figure, and the layers that several kinds of panels share."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import altair as alt
import polars as pl

from benchstudy.report.figures.off_axis import OffAxis
from benchstudy.report.figures.styles import REFERENCE


@dataclass(frozen=True)
class Reference:
    """A line at a value that others published, which its label says."""

    value: float
    label: str


@dataclass(frozen=True)
class Panel:
    """One Vega-Lite view without a width, which the figure sets. `live` is one more layer, if scripts run.

    `trials` is the number of trials that it is about, and `points` the number drawn; both are 0 if points are not
    trials.
    """

    title: str
    chart: alt.LayerChart
    height: int = 250
    live: alt.Chart | None = None
    trials: int = 0
    points: int = 0
    # A sentence on what it shows, for readers who do not see it.
    finding: str = ""
    # Marks that it lacks because the axis has no place for them, and intervals that end at an edge of the axis.
    off_axis: Sequence[OffAxis] = ()
    # The only trials that it draws, if a caption must speak of these and not of all trials of the page.
    drawn: frozenset[str] = frozenset()

    def spec(self, width: float | str, *, live: bool = False) -> dict[str, Any]:
        """The Vega-Lite specification at a width in px, or "container". `live`: for a page with scripts."""
        drawn = self._live if live and self.live is not None else self._static
        return {**drawn, "width": width, "height": self.height}

    @property
    def series(self) -> set[str]:
        """The names of the series that it draws."""
        return {row["series"] for rows in self._static["datasets"].values() for row in rows if "series" in row}

    # Cached, because a figure uses its panels three times, and a specification takes as long as drawing it.
    @cached_property
    def _static(self) -> dict[str, Any]:
        return self.chart.to_dict(validate=False)

    @cached_property
    def _live(self) -> dict[str, Any]:
        assert self.live is not None
        drawn, added = self._static, self.live.to_dict(validate=False)
        layer = {part: added[part] for part in ("data", "mark", "encoding", "params")}
        return {**drawn, "layer": [*drawn["layer"], layer], "datasets": drawn["datasets"] | added["datasets"]}


def drawn_only(panels: Iterable[Panel], trials: Iterable[str]) -> list[Panel]:
    """The panels, of which the caption says how many of these trials were disturbed."""
    drawn = frozenset(trials)
    return [replace(panel, drawn=drawn) for panel in panels]


# The column of points with what was noticed during each trial. It exists if something was noticed during any of them.
NOTICED, NOTHING = "tip beside it", "nothing"
HIDDEN = alt.param(name="hidden", value=[])


def stroke(opacity: float) -> dict[str, Any]:
    """The options of a mark whose strokes are translucent.

    With the option `opacity`, each mark would be a group of its own in a PDF, and the file twice as large.
    """
    return {"opacity": 1.0, "strokeOpacity": opacity}


def fill(opacity: float) -> dict[str, Any]:
    """The options of a mark whose fill is translucent; see `stroke`."""
    return {"opacity": 1.0, "fillOpacity": opacity}


def layered(*layers: Any) -> alt.LayerChart:
    """Charts as layers, with the parameter that hides series."""
    first, *others = layers
    # Adding a parameter to a chart with layers would copy each of them.
    chart = alt.layer(first.add_params(HIDDEN), *others)
    assert isinstance(chart, alt.LayerChart), "layers without facets"
    return chart


def visible(chart: alt.Chart) -> alt.Chart:
    """The chart without the series that the reader has hidden."""
    return chart.transform_filter("indexof(hidden, datum.series) < 0")


def tooltips(frame: pl.DataFrame) -> list[alt.Tooltip]:
    """A line of the tooltip for each column that begins with `tip `, titled with the rest of its name."""
    return [
        alt.Tooltip(f"{_escaped(c)}:N", title=c.removeprefix("tip ")) for c in frame.columns if c.startswith("tip ")
    ]


def _escaped(column: str) -> str:
    return re.sub(r"([.:\[\]])", r"\\\1", column)


def strokes(points: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """A stroke through each trial during which something was noticed on the host."""
    if NOTICED not in points.columns:
        return []
    chart = alt.Chart(points.filter(pl.col(NOTICED) != NOTHING))
    mark = chart.mark_point(shape="stroke", angle=45, size=140, color=REFERENCE, strokeWidth=1.6, aria=False)
    return [visible(mark.encode(x=x, y=y))]


def reference_layers(references: Sequence[Reference], encoding: dict[str, Any]) -> list[alt.Chart]:
    """Vertical lines of values with labels. `encoding` is that of the values' axis."""
    if not references:
        return []
    data = pl.DataFrame({"value": [r.value for r in references], "label": [r.label for r in references]})
    rule = alt.Chart(data).mark_rule(strokeDash=[5, 4], strokeWidth=1.4, color=REFERENCE, aria=False)
    text: dict[str, Any] = {"fontSize": 11, "color": REFERENCE, "aria": False}
    in_order = sorted(references, key=lambda reference: reference.value)
    labels = [
        # Above the panel, one line each: beside the rule they would cover points. Lower ones are to the right of it.
        alt.Chart(pl.DataFrame({"value": [reference.value], "label": [reference.label]}))
        .mark_text(align="left" if 2 * line < len(references) else "right", baseline="bottom", **text)
        .encode(x=alt.X("value:Q", **encoding), y=alt.YValue(-4 - 15 * line), text=alt.Text("label:N"))
        for line, reference in enumerate(in_order)
    ]
    return [rule.encode(x=alt.X("value:Q", **encoding)), *labels]


def present(frame: pl.DataFrame, *columns: str) -> list[float]:
    """All values of these columns that are not null."""
    return [value for column in columns for value in frame[column].drop_nulls().to_list()]
