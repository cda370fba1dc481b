"""Figures: interactive where scripts run, a static SVG everywhere else, and SVG, PNG and PDF files to publish.

A figure is one or more panels that stand side by side or, on a phone, below one another. Each panel takes the width it
gets. The legend is made of HTML, so that it wraps and never covers data; exported files carry Vega's own.
"""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchstudy.report.figures import vega
from benchstudy.report.figures.layers import Panel
from benchstudy.report.figures.styles import GRID, INK, MUTED, Style

_EMBEDDED_WIDTH, _EXPORTED_WIDTH = 520, 440

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
    "title": {"fontSize": 13, "fontWeight": 600, "color": INK, "anchor": "start", "offset": 10},
    "legend": {"labelFontSize": 12, "labelColor": INK, "symbolSize": 90},
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
    legend: str = "Series"

    def html(self) -> str:
        """`<figure>` with static SVG, the specification beside it, and a legend whose buttons hide a series."""
        views = "".join(map(self._panel_html, self.panels, self._static))
        many = " many" if len(self.panels) > 1 else ""
        return (
            f'<figure class="chart" id="figure-{html.escape(self.name)}">{self._legend_html()}'
            f'<div class="panels{many}">{views}</div><figcaption>{html.escape(self._said(self.panels))}</figcaption>'
            "</figure>"
        )

    def _said(self, panels: Sequence[Panel]) -> str:
        """The caption, and what of the trials is drawn in these panels where not all of them are."""
        points, trials = (sum(getattr(panel, name) for panel in panels) for name in ("points", "trials"))
        if points == trials:
            return self.caption
        stop = "" if self.caption.endswith(".") else "."
        return (
            f"{self.caption}{stop} {points:,} of {trials:,} points are drawn: of each case the least, the greatest, "
            "and others in equal steps of rank. Medians and intervals are of all; trials.csv has all."
        )

    def static_html(self, panels: int) -> str:
        """`<figure>` with the first `panels` as static SVG, for a page that has no scripts and other tables."""
        shown = list(zip(self.panels, self._static, strict=True))[:panels]
        views = "".join(self._view_html(panel, static, "its page") for panel, static in shown)
        many = " many" if len(shown) > 1 else ""
        return (
            f'<figure class="chart">{self._legend_html(buttons=False)}<div class="panels{many}">{views}</div>'
            f"<figcaption>{html.escape(self._said([panel for panel, _ in shown]))}</figcaption></figure>"
        )

    def _alt_text(self, panel: Panel) -> str:
        return f"{panel.title}. {self.alt}" if panel.title else self.alt

    @cached_property
    def _static(self) -> list[str]:
        specs = [(panel.spec(_EMBEDDED_WIDTH, legend=False), self._alt_text(panel)) for panel in self.panels]
        return [vega.svg({**spec, "config": _CONFIG, "description": alt_text}) for spec, alt_text in specs]

    def _view_html(self, panel: Panel, static: str, where: str, more: str = "") -> str:
        title = f"<p class='panel-title'>{html.escape(panel.title)}</p>" if panel.title else ""
        label = html.escape(self._alt_text(panel).replace("this page", where))
        return f'<div class="panel">{title}<div class="view" role="img" aria-label="{label}">{static}</div>{more}</div>'

    def _panel_html(self, panel: Panel, static: str) -> str:
        spec = panel.spec("container", legend=False, live=True)
        spec |= {
            "config": _CONFIG,
            "description": self._alt_text(panel),
            "autosize": {"type": "fit-x", "contains": "padding"},
        }
        script = f'<script type="application/json" class="spec">{vega.script_json(spec)}</script>'
        return self._view_html(panel, static, "this page", script)

    def _legend_html(self, buttons: bool = True) -> str:
        if self.style is None or len(self.shown) < 2:
            return ""
        items = []
        for name, colour, shape in zip(self.style.names, self.style.colours, self.style.shapes, strict=True):
            if name in self.shown:
                entry = f"{_symbol(shape, colour)}{html.escape(name)}"
                if buttons:
                    pressed = f'type="button" aria-pressed="true" data-series="{html.escape(name)}"'
                    entry = f"<button {pressed}>{entry}</button>"
                items.append(f"<li>{entry}</li>")
        label = html.escape(f"{self.legend}; press one to hide it" if buttons else self.legend)
        return f'<ul class="legend" aria-label="{label}">{"".join(items)}</ul>'

    def write(self, folder: Path) -> None:
        """Writes the figure into `folder` in each of `vega.FIGURE_FORMATS`, on white; PNG has two pixels a point.

        The same data give the same bytes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.svg").write_text(self._exported, encoding="utf-8")
        (folder / f"{self.name}.png").write_bytes(vega.png(self._exported))
        (folder / f"{self.name}.pdf").write_bytes(vega.pdf(self._exported))

    @cached_property
    def _exported(self) -> str:
        width = _EXPORTED_WIDTH if len(self.panels) > 1 else 760
        views = []
        for panel in self.panels:
            spec = panel.spec(width, legend=len(self.shown) > 1)
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
        # A figure that stands alone has no trials to lead to.
        return re.sub(r"</?a\b[^>]*>", "", vega.svg(spec))


def _symbol(shape: str, colour: str) -> str:
    drawing = {
        "circle": '<circle cx="7" cy="7" r="5"/>',
        "square": '<rect x="2" y="2" width="10" height="10"/>',
        "triangle-up": '<path d="M7 1.5 13 12.5H1z"/>',
        "diamond": '<path d="M7 .5 13 7 7 13.5 1 7z"/>',
        "cross": '<path d="M5 1h4v4h4v4H9v4H5V9H1V5h4z"/>',
        "triangle-down": '<path d="M7 12.5 1 1.5h12z"/>',
    }[shape]
    return f'<svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" fill="{colour}">{drawing}</svg>'
