"""The one door to Vega: specifications drawn, the script that draws them in a page, the files that figures have."""

import json
import re
from functools import cache
from importlib.metadata import version
from typing import Any

import vl_convert

from benchstudy.model import paths
from benchstudy.model.files import write_atomically
from benchstudy.report.figures.pdf import in_fixed_order

# The files of a figure, by their suffixes.
FIGURE_FORMATS = ("svg", "png", "pdf")
# Of one that is as wide as a column.
PRINT_FORMATS = ("svg", "pdf")
# The bundle in a page and the static figures must draw a specification in the same way, the one that altair writes.
VEGALITE_VERSION = "6.4"

_COORDINATES = re.compile(r' (d|transform|x|y|x1|x2|y1|y2|width|height)="([^"]*)"')
_LONG_DECIMAL = re.compile(r"-?[0-9]+[.][0-9]{3,}(?:e-?[0-9]+)?")


def svg(spec: dict[str, Any]) -> str:
    """A Vega-Lite specification drawn. Links in it are relative to the page that it will stand in."""
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE_VERSION)
    # The converter makes relative links absolute, to a site of its own. A figure's points are no stops of the tab key:
    # the table of trials has each of them, with its name.
    drawn = re.sub(r'xlink:href="https?://[^"]*?/vega-datasets/', 'tabindex="-1" href="', drawn)
    # Vega prints 17 digits; two decimals of a pixel are enough and halve the page.
    return _COORDINATES.sub(lambda m: f' {m[1]}="{_LONG_DECIMAL.sub(_two_decimals, m[2])}"', drawn)


def _two_decimals(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def png(drawn: str) -> bytes:
    """An SVG with 200 dots per inch, where a unit is a point."""
    return vl_convert.svg_to_png(drawn, scale=200 / 72)


def pdf(drawn: str) -> bytes:
    """An SVG as PDF, which takes a tenth of the time of drawing its specification again; always the same bytes."""
    return in_fixed_order(vl_convert.svg_to_pdf(drawn))


def script_json(data: Any) -> str:
    """JSON that can stand inside `<script>`: no text in it can end the element or begin a comment."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def bundle() -> str:
    """The script with which a page draws its figures; made once for this project and kept among its local state."""
    stored = paths.vega_bundle(paths.project_root(), f"{VEGALITE_VERSION}-{version('vl-convert-python')}")
    if stored.is_file():
        script = stored.read_text(encoding="utf-8")
    else:  # two seconds, and every page is a process of its own
        # Its stub knows of no default for the snippet, which is the one that Vega-Embed needs.
        script = vl_convert.javascript_bundle(vl_version=VEGALITE_VERSION)  # type: ignore[call-arg]
        stored.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(stored, script)
    # Its top-level names would become the page's; and nothing in it may end the element it stands in.
    return "(()=>{" + script.replace("</script", "<\\/script").replace("<!--", "<\\!--") + "})();"
