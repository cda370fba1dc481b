"""Figures for print: as wide as one or two columns of a paper, with 8 pt type and an embedded font."""

import html
import math
import re
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from benchstudy.report.figures.styles import INK

COLUMN_MM, PAGE_MM = 85, 170
_MOST_HIGH_MM = 235  # leaves room for a caption on A4
# Type in a chart has a size of 12 units. A unit is two thirds of a point, so that makes 8 pt.
_TYPE, _UNITS_OF_MM = 12, 72 / 25.4 * 1.5
_POINTS_OF_UNIT = 2 / 3
_BESIDE_ROWS = 150  # units that legend, title and axis of a panel of rows take of a page
GAP = 24.0  # units between panels, and below a legend
_LINE = 17.0  # height of a line of type
_SIGN = 6.4  # width of a character, rounded up
_SWATCH = 26.0  # width of a symbol with its line
# Arial and Helvetica have the same character widths as the embedded font, for programs that ignore embedded fonts.
_FONTS = "Figure, 'Liberation Sans', Arial, Helvetica, sans-serif"


def units(width_mm: float) -> float:
    """A width in mm, in units of a chart."""
    return width_mm * _UNITS_OF_MM


def on_pages(rows: Sequence[str], row_height: float) -> list[tuple[str, Sequence[str]]]:
    """The rows of a panel, each so many units high, split evenly so that each part fits on a page.

    Each part comes with the end of its title: ", 1 of 2", or nothing if there is only one.
    """
    most = int((units(_MOST_HIGH_MM) - _BESIDE_ROWS) / row_height)
    parts = max(1, math.ceil(len(rows) / most))
    size = math.ceil(len(rows) / parts)
    return [
        (f", {number + 1} of {parts}" if parts > 1 else "", rows[number * size : (number + 1) * size])
        for number in range(parts)
    ]


@dataclass(frozen=True)
class Entry:
    """An entry of a legend, in `colour`: the `symbol` as SVG of 14 × 14 units, and a line with `dash` if it has one."""

    name: str
    symbol: str
    colour: str
    dash: str | None


@dataclass(frozen=True)
class Drawn:
    """A panel with its title; `svg` is Vega's drawing."""

    title: str
    svg: str

    @property
    def height(self) -> float:
        """The height in units of the chart."""
        found = re.search(r'<svg[^>]*? viewBox="0 0 [\d.]+ ([\d.]+)"', self.svg)
        assert found, "Vega's SVG has a view box"
        return float(found[1])


class Sheet(NamedTuple):
    """One SVG for the `file`, and the same for the `converter`, which takes a pixel for a point and has the font."""

    file: str
    converter: str


def sheets(
    panels: Sequence[Drawn], legend: Sequence[Entry], width_mm: float, columns: int, heading: str = ""
) -> list[Sheet]:  # fmt: skip
    """SVGs `width_mm` wide and not higher than a page, with the panels in so many columns below the legend.

    The background is white, and links are removed. If the panels do not fit on a page, the rest is on a second sheet
    with the same legend. `heading` stands before the entries of the legend.
    """
    head, top = _legend(legend, units(width_mm), heading)
    pages: list[list[tuple[str, float]]] = [[]]
    for start in range(0, len(panels), columns):
        row = _row(panels[start : start + columns], units(width_mm), columns)
        if pages[-1] and top + sum(height + GAP for _, height in pages[-1]) + row[1] > units(_MOST_HIGH_MM):
            pages.append([])
        pages[-1].append(row)
    return [_sheet(head, top, rows, width_mm) for rows in pages]


def _row(panels: Sequence[Drawn], width: float, columns: int) -> tuple[str, float]:
    """Panels side by side as SVG, and their height in units."""
    pitch = (width + GAP) / columns
    titles = [textwrap.wrap(panel.title, int((pitch - GAP) / _SIGN)) for panel in panels]
    # A title of several lines moves all plots of the row down.
    top = max(map(len, titles)) * _LINE
    body = ""
    for column, (panel, lines) in enumerate(zip(panels, titles, strict=True)):
        title = "".join(_text(0, _TYPE + n * _LINE, line) for n, line in enumerate(lines))
        plot = panel.svg[panel.svg.index("<svg") :]
        body += f'<g transform="translate({column * pitch:.2f} 0)">{title}'
        body += f'<g transform="translate(0 {top:.2f})">{plot}</g></g>'
    return body, top + max(panel.height for panel in panels)


def _sheet(head: str, top: float, rows: Sequence[tuple[str, float]], width_mm: float) -> Sheet:
    body, y = head, top
    for row, height in rows:
        body += f'<g transform="translate(0 {y:.2f})">{row}</g>'
        y += height + GAP
    width, height = units(width_mm), y - GAP
    # Links would be dead in a file, and type of 11 units on a page becomes 12, like all other type.
    body = re.sub(r"</?a\b[^>]*>", "", body)
    body = re.sub(r'font-size="(?:11|13)px"', f'font-size="{_TYPE}px"', body).replace(' font-family="sans-serif"', "")
    in_mm = f'width="{width_mm:g}mm" height="{height / _UNITS_OF_MM:.2f}mm"'
    in_points = f'width="{round(width, 2) * _POINTS_OF_UNIT:.2f}" height="{round(height, 2) * _POINTS_OF_UNIT:.2f}"'
    inner = f'<rect width="100%" height="100%" fill="white"/>{body}</svg>'
    start = '<svg xmlns="http://www.w3.org/2000/svg"'
    end = f'viewBox="0 0 {width:.2f} {height:.2f}" font-family="{_FONTS}">'
    return Sheet(f"{start} {in_mm} {end}{_font_face()}{inner}", f"{start} {in_points} {end}{inner}")


def _legend(entries: Sequence[Entry], width: float, heading: str) -> tuple[str, float]:
    """The heading and the entries side by side in as many rows as they need, and the y below them."""
    drawn, x, y = "", 0.0, 0.0
    if entries and heading:
        drawn, x = _text(0, 11, heading), len(heading) * _SIGN + _TYPE
    for entry in entries:
        room = _SWATCH + len(entry.name) * _SIGN
        if x and x + room > width:
            x, y = 0.0, y + _LINE
        line = f'<path d="M0 7H22" stroke="{entry.colour}" stroke-width="1.6" stroke-dasharray="{entry.dash}"/>'
        drawn += (
            f'<g transform="translate({x:.2f} {y:.2f})">{line if entry.dash else ""}'
            f'<g transform="translate(4 0)" fill="{entry.colour}">{entry.symbol}</g>'
            f"{_text(_SWATCH, 11, entry.name)}</g>"
        )
        x += room + 1.5 * _TYPE
    return drawn, y + _LINE + GAP / 2 if entries else 0.0


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:.2f}" font-size="{_TYPE}px" fill="{INK}">{html.escape(text)}</text>'


@cache
def _font_face() -> str:
    font = resources.files("benchstudy.report").joinpath("figures", "figure-font.woff2").read_bytes()
    return f"<style>@font-face{{font-family:Figure;src:url(data:font/woff2;base64,{b64encode(font).decode()})}}</style>"
