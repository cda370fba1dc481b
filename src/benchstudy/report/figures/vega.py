"""The only module that uses Vega: it draws specifications, writes files, and makes the script for pages."""

import json
import re
from functools import cache
from importlib.metadata import version
from typing import Any

import vl_convert

from benchstudy.model import paths
from benchstudy.model.files import write_atomically
from benchstudy.report.figures.pdf import in_fixed_order

# The files of a figure, by suffix.
FIGURE_FORMATS = ("svg", "png", "pdf")
# The formats of files that are as wide as a column.
PRINT_FORMATS = ("svg", "pdf")
# The bundle in a page and the static figures must draw the same version of specifications, the one that altair writes.
VEGALITE_VERSION = "6.4"
# Marks an element with a specification, which the script of the page draws.
SPEC = 'class="spec"'

_COORDINATES = re.compile(r' (d|transform|x|y|x1|x2|y1|y2|width|height)="([^"]*)"')
_LONG_DECIMAL = re.compile(r"-?[0-9]+[.][0-9]{3,}(?:e-?[0-9]+)?")


def svg(spec: dict[str, Any]) -> str:
    """Draw a Vega-Lite specification. Links in the SVG are relative to the page that it will be part of."""
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE_VERSION)
    # The converter makes relative links absolute, to a site of its own. Points are no tab stops, because the table of
    # trials has a named link for each.
    drawn = re.sub(r'xlink:href="https?://[^"]*?/vega-datasets/', 'tabindex="-1" href="', drawn)
    # Vega prints 17 digits. Two decimals of a pixel are enough, and halve the page.
    return _COORDINATES.sub(lambda m: f' {m[1]}="{_LONG_DECIMAL.sub(_two_decimals, m[2])}"', drawn)


def _two_decimals(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def png(drawn: str) -> bytes:
    """Convert an SVG, whose unit is a point, to PNG with 200 dots per inch."""
    return vl_convert.svg_to_png(drawn, scale=200 / 72)


def pdf(drawn: str) -> bytes:
    """Convert an SVG to PDF, always with the same bytes. This is ten times as fast as drawing its specification."""
    return in_fixed_order(vl_convert.svg_to_pdf(drawn))


def script_json(data: Any) -> str:
    """JSON that is safe inside `<script>`: no text in it can end the element or begin a comment."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def bundle() -> str:
    """The script that draws figures in a page. It is made once and kept in the project's local state."""
    stored = paths.vega_bundle(paths.project_root(), f"{VEGALITE_VERSION}-{version('vl-convert-python')}")
    if stored.is_file():
        script = stored.read_text(encoding="utf-8")
    else:  # takes two seconds, and every page has its own process
        # The stub lacks the default of `snippet`, which is the one for Vega-Embed.
        script = vl_convert.javascript_bundle(vl_version=VEGALITE_VERSION)  # type: ignore[call-arg]
        stored.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(stored, script)
    # A function keeps its top-level names out of the page. Nothing in it may end the `<script>` element.
    return "(()=>{" + script.replace("</script", "<\\/script").replace("<!--", "<\\!--") + "})();"
