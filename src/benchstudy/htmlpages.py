"""Pages that need nothing but themselves: an executed notebook as HTML, and the index in front of them."""

import re
from functools import cache
from importlib import resources
from pathlib import Path

import nbformat
import vl_convert
from nbconvert import HTMLExporter
from traitlets.config import Config

from benchstudy.charts import VEGALITE_VERSION

_HEADING = re.compile(r'<h2 id="([^"]*)"[^>]*>(.*?)</h2>', re.DOTALL)
_CONTENTS = "<!-- contents -->"


def template_text(name: str) -> str:
    return resources.files("benchstudy").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _vega_bundle() -> str:
    bundle = vl_convert.javascript_bundle(vl_version=VEGALITE_VERSION)
    # Its top-level names would become the page's; and nothing in it may end the element it stands in.
    inert = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(()=>{{{inert}}})();"


def render_notebook(notebook: Path, html: Path, *, title: str) -> None:
    """The executed `notebook` as one HTML file that loads nothing: figures interactive, and static where scripts are off.

    Code is left out; it stays in the executed notebook. Raises nbformat errors for a file that is not a notebook.
    """
    executed = nbformat.read(notebook, as_version=4)
    page = {
        "title": title,
        "style": template_text("page.css"),
        "script": template_text("page.js"),
        "bundle": _vega_bundle(),
        "contents": _CONTENTS,
    }
    config = Config()
    config.HTMLExporter.exclude_anchor_links = True
    with resources.as_file(resources.files("benchstudy").joinpath("templates")) as templates:
        exporter = HTMLExporter(
            config=config,
            template_name="report",
            extra_template_basedirs=[str(templates)],
            exclude_input=True,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
        )
        body, _ = exporter.from_notebook_node(executed, resources={"page": page})
    html.parent.mkdir(parents=True, exist_ok=True)
    html.write_text(body.replace(_CONTENTS, contents(body), 1), encoding="utf-8")


def contents(body: str) -> str:
    """A list of links to the second-level headings of a page."""
    items = (f'<li><a href="#{id_}">{re.sub("<[^>]+>", "", text)}</a></li>' for id_, text in _HEADING.findall(body))
    return f"<ul>{''.join(items)}</ul>"
