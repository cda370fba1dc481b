"""Figures: interactive if scripts run, a static SVG otherwise, and SVG, PNG and PDF files to publish.

A figure is one or more panels, side by side or, on a phone, below one another. A panel takes the available width. The
legend is HTML, so that it wraps and never covers data; exported files have their own.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from benchstudy.report.figures import off_axis, paper, vega
from benchstudy.report.figures.layers import Panel
from benchstudy.report.figures.styles import GRID, INK, MUTED, SYMBOLS, Style
from benchstudy.report.texts import numbered, unbroken

# The width of a static drawing is that of a phone's page and of a paper's column. Two fit side by side on a wide screen
# and on a paper's page, and none is scaled down, which would make its texts too small to read.
_STATIC_WIDTH = 348
_BESIDE_WIDTH = 280  # where two panels share half of a page, so that their type keeps its size
_FITTED = {"type": "fit-x", "contains": "padding"}
# Paper has no room around a drawing, except on the right for the end of an axis's last label.
_PADDING = {"left": 0, "top": 0, "bottom": 3, "right": 16}

_CONFIG: dict[str, Any] = {
    "font": "sans-serif",
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": MUTED,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "titlePadding": 10,
        "labelPadding": 6,
    },
    # Labels would touch where a reader's font is wider than the one that figures are drawn with.
    "axisX": {"labelSeparation": 10},
    "title": {"fontSize": 13, "fontWeight": 600, "color": INK, "anchor": "start", "offset": 10},
}


class Drawing(NamedTuple):
    """What `Exhibits.show_figure` takes. `in_legend`: series that the legend names."""

    name: str
    caption: str
    panels: list[Panel]
    style: Style
    in_legend: list[str]


@dataclass(frozen=True)
class Figure:
    """A figure. `name` is the stem of its files, `alt` the alternative text; `shown` are the series in the legend.

    `legend` says what the series are. Readers see it before series that are numbers, which say nothing alone.
    """

    name: str
    caption: str
    alt: str
    panels: tuple[Panel, ...]
    style: Style
    shown: tuple[str, ...] = ()
    legend: str = "Series"

    def html(self, number: str = "") -> str:
        """A `<figure>` with static SVG, its specification, and a legend whose buttons hide a series.

        `number` begins the caption: "Figure 2".
        """
        views = "".join(map(self._panel_html, self.panels, self._static))
        many = _columns(len(self.panels), over_time=all(panel.live for panel in self.panels))
        return (
            f'<figure class="chart" id="figure-{html.escape(self.name)}">{self._legend_html(self._entries)}'
            f'<div class="panels{many}">{views}</div><figcaption>{numbered(number)}'
            f"{html.escape(unbroken(self._said(self.panels)))}</figcaption></figure>"
        )

    def _said(self, panels: Sequence[Panel]) -> str:
        """The caption, and which trials are drawn in these panels if not all are."""
        points, trials = (sum(getattr(panel, name) for panel in panels) for name in ("points", "trials"))
        several = len(panels) > 1
        more = off_axis.told((panel.title if several else "", panel.off_axis) for panel in panels)
        if points != trials:
            more = (
                f"{points:,} of {trials:,} points are drawn: the lowest and the highest of each case, and others in "
                f"equal steps of rank. Medians and intervals use all trials; trials.csv has all. {more}"
            ).rstrip()
        stop = "" if self.caption.endswith(".") else "."
        return f"{self.caption}{stop} {more}" if more else self.caption

    def static_html(self, panels: int) -> str:
        """A `<figure>` with the first `panels` as static SVG, for a page without scripts and with other tables."""
        width = _BESIDE_WIDTH if min(panels, len(self.panels)) > 1 else _STATIC_WIDTH
        shown = list(zip(self.panels[:panels], self._drawn(width, panels), strict=True))
        views = "".join(self._view_html(panel, static, "its page") for panel, static in shown)
        many = _columns(len(shown))
        drawn = {name for panel, _ in shown for name in panel.series}
        legend = self._legend_html([entry for entry in self._entries if entry.name in drawn], buttons=False)
        return (
            f'<figure class="chart">{legend}<div class="panels{many}">{views}</div>'
            f"<figcaption>{html.escape(unbroken(self._said([panel for panel, _ in shown])))}</figcaption></figure>"
        )

    def _alt_text(self, panel: Panel) -> str:
        return " ".join(filter(None, (f"{panel.title}." if panel.title else "", panel.finding, self.alt)))

    @cached_property
    def _static(self) -> list[str]:
        return self._drawn(_STATIC_WIDTH)

    def _drawn(self, width: float, first: int | None = None) -> list[str]:
        """The panels as SVG, each `width` units wide; the `first` ones only, if given."""
        axis = {**_CONFIG["axis"], "labelLimit": width * 0.3}
        shared = {"config": {**_CONFIG, "axis": axis, "padding": _PADDING}, "autosize": _FITTED}
        specs = [(panel.spec(width), self._alt_text(panel)) for panel in self.panels[:first]]
        return [vega.svg({**spec, **shared, "description": alt_text}) for spec, alt_text in specs]

    def _view_html(self, panel: Panel, static: str, where: str, more: str = "") -> str:
        title = f"<p class='panel-title'>{html.escape(panel.title)}</p>" if panel.title else ""
        label = html.escape(self._alt_text(panel).replace("this page", where))
        return (
            f'<div class="panel">{title}<div class="view" role="group" aria-label="{label}">{static}</div>{more}</div>'
        )

    def _panel_html(self, panel: Panel, static: str) -> str:
        spec = panel.spec("container", live=True)
        spec |= {"config": _CONFIG, "description": self._alt_text(panel), "autosize": _FITTED}
        script = f'<script type="application/json" {vega.SPEC}>{vega.script_json(spec)}</script>'
        return self._view_html(panel, static, "this page", script)

    def _legend_html(self, entries: Sequence[paper.Entry], buttons: bool = True) -> str:
        if not entries:
            return ""
        items = [f"<li>{html.escape(self._heading)}</li>"] if self._heading else []
        for one in entries:
            entry = f"{_symbol(one)}{html.escape(one.name)}"
            if buttons:
                pressed = f'type="button" aria-pressed="true" data-series="{html.escape(one.name)}"'
                entry = f"<button {pressed}>{entry}</button>"
            items.append(f"<li>{entry}</li>")
        label = html.escape(f"{self.legend}; press one to hide it" if buttons else self.legend)
        return f'<ul class="legend" aria-label="{label}">{"".join(items)}</ul>'

    def write(self, folder: Path) -> dict[int, list[str]]:
        """Write the figure into `folder` as SVG and PDF, as wide as a page and as a column ("-85mm"), and as PNG.

        The background is white, type has 8 pt, and PNG is as wide as a page, with 200 dots per inch. A figure that is
        higher than a page continues in a file "-2". The same data give the same bytes. Returns the stems by width.
        """
        folder.mkdir(parents=True, exist_ok=True)
        # A drawing takes longer than all else, so the ones of the web page serve, too.
        narrow = self._titled(self._static)
        wide = narrow if len(self.panels) > 1 else self._titled(self._drawn(paper.units(paper.PAGE_MM)))
        column = paper.sheets(narrow, self._entries, paper.COLUMN_MM, 1, self._heading)
        page = paper.sheets(wide, self._entries, paper.PAGE_MM, min(2, len(self.panels)), self._heading)
        stems: dict[int, list[str]] = {paper.PAGE_MM: [], paper.COLUMN_MM: []}
        for width, suffix, sheets in ((paper.PAGE_MM, "", page), (paper.COLUMN_MM, f"-{paper.COLUMN_MM}mm", column)):
            for number, sheet in enumerate(sheets, start=1):
                stem = f"{self.name}{suffix}" + (f"-{number}" if number > 1 else "")
                (folder / f"{stem}.svg").write_text(sheet.file, encoding="utf-8")
                (folder / f"{stem}.pdf").write_bytes(vega.pdf(sheet.converter))
                if not suffix:
                    (folder / f"{stem}.png").write_bytes(vega.png(sheet.converter))
                stems[width].append(stem)
        return stems

    def _titled(self, drawn: Sequence[str]) -> list[paper.Drawn]:
        return [paper.Drawn(panel.title, svg) for panel, svg in zip(self.panels, drawn, strict=True)]

    @property
    def _heading(self) -> str:
        return f"{self.legend}:" if self.style.ordered else ""

    @cached_property
    def _telling(self) -> set[str]:
        """The channels besides colour that distinguish series: strokeDash of lines, shape of points."""
        specs = (panel.spec(_STATIC_WIDTH) for panel in self.panels)
        encodings = [layer.get("encoding", {}) for spec in specs for layer in spec["layer"]]
        channels = ("strokeDash", "shape")
        return {name for name in channels for each in encodings if each.get(name, {}).get("field") == "series"}

    @cached_property
    def _entries(self) -> list[paper.Entry]:
        """The legend, also of one series if the page has others; nothing if the page has a single one."""
        if len(self.style.names) < 2:
            return []
        every = zip(self.style.names, self.style.colours, self.style.shapes, self.style.dashes, strict=True)
        lines = "strokeDash" in self._telling
        points = "shape" in self._telling or not lines
        return [
            paper.Entry(name, SYMBOLS[shape] if points else "", colour, " ".join(map(str, dash)) if lines else None)
            for name, colour, shape, dash in every
            if name in self.shown
        ]


def _columns(panels: int, over_time: bool = False) -> str:
    """CSS classes for so many panels: two or four make pairs, other numbers three in a row if there is room.

    If scripts draw them, four panels `over_time` share a row where that saves one. Static ones would get small type.
    """
    if panels in (2, 4):
        return " many"
    four = " four" if over_time and -(-panels // 4) < -(-panels // 3) else ""
    return f" many three{four}" if panels > 1 else ""


def _symbol(entry: paper.Entry) -> str:
    """The line of a series as SVG if dashes distinguish series, and its symbol if shapes do."""
    if entry.dash is None:
        return _drawing(14, f'<g fill="{entry.colour}">{entry.symbol}</g>')
    dash = f'stroke-width="1.6" stroke-dasharray="{entry.dash}"'
    line = f'<path d="M0 7H26" stroke="{entry.colour}" {dash}/>'
    return _drawing(26, f'{line}<g transform="translate(6 0)" fill="{entry.colour}">{entry.symbol}</g>')


def _drawing(width: int, inner: str) -> str:
    return f'<svg width="{width}" height="14" viewBox="0 0 {width} 14" aria-hidden="true">{inner}</svg>'
