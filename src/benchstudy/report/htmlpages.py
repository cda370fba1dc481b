"""Self-contained HTML pages of executed notebooks."""

import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from traitlets.config import Config

from benchstudy.model import registry
from benchstudy.report.figures import vega
from benchstudy.report.pagetemplates import template_text
from benchstudy.report.study.studypages import STUDY_PAGES
from benchstudy.report.tables.tables import slug

_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
_NOTHING = re.compile(r'<p class="none">(.*?)</p>', re.DOTALL)
_PART = re.compile(r"<(/?)(?:div|section|details)\b|<h([23])[ >]")
# Replaced last, so that headings are searched in the notebook's text and not in a library's code.
_CONTENTS, _BUNDLE = "<!-- contents -->", "/* bundle */"


class _Exporter(HTMLExporter):
    """Leaves out what nbconvert does at the end: parse the page and print it anew, to complete what ours has anyway.

    That takes a second of processor time per megabyte, thirty times as long as all else.
    """

    def from_notebook_node(self, nb: nbformat.NotebookNode, resources: Any = None, **kw: Any) -> Any:
        """The page, and the resources."""
        return super(HTMLExporter, self).from_notebook_node(nb, resources, **kw)


def page_title(page: str) -> str:
    """The title of a family's page, or of one of the study's own pages."""
    return registry.get(page).title if page in registry.names() else STUDY_PAGES[page]


def render_notebook(
    notebook: Path, html: Path, *, title: str, up: Sequence[tuple[str, str]] = (("Study overview", "index.html"),)
) -> None:
    """Write the executed `notebook` as one HTML file that loads nothing.

    Figures are interactive, or static if scripts are off. Code is left out; it stays in the executed notebook. `up` are
    links to parent pages: pairs (text, address). Raises nbformat errors for a file that is not a notebook.
    """
    executed = nbformat.read(notebook, as_version=4)
    list_what_shows_nothing(executed)
    page = {
        "title": title,
        "style": template_text("page.css"),
        "script": template_text("page.js") + template_text("paper.js"),
        "bundle": _BUNDLE,
        "contents": _CONTENTS,
        "up": up,
    }
    config = Config()
    config.HTMLExporter.exclude_anchor_links = True
    with resources.as_file(resources.files("benchstudy.report").joinpath("templates")) as templates:
        exporter = _Exporter(
            config=config,
            template_name="report",
            extra_template_basedirs=[str(templates)],
            extra_template_paths=[str(templates)],
            exclude_input=True,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
        )
        body, _ = exporter.from_notebook_node(executed, resources={"page": page})
    html.parent.mkdir(parents=True, exist_ok=True)
    # The bundle has 0.9 MB, so that only a page with something to draw carries it.
    bundle = vega.bundle() if vega.SPEC in body else ""
    html.write_text(in_topics(with_contents(body)).replace(_BUNDLE, bundle, 1), encoding="utf-8")


def list_what_shows_nothing(executed: nbformat.NotebookNode) -> None:
    """Move each part that shows nothing to a list at the end: why, with the part's explanation folded below.

    A part is a Markdown cell with a heading and the code cells after it. One with parts below it stays.
    """
    starts = [index for index, cell in enumerate(executed.cells) if cell.cell_type == "markdown"]
    found, next_level = [], 0
    for start, end in reversed(list(pairwise([*starts, len(executed.cells)]))):
        part, outputs = executed.cells[start], [o for cell in executed.cells[start + 1 : end] for o in cell.outputs]
        heading, _, explanation = part.source.partition("\n")
        level = len(heading) - len(heading.lstrip("#"))
        shown = "".join(output.get("data", {}).get("text/html", output.output_type) for output in outputs)
        said = " ".join(filter(None, _NOTHING.findall(shown)))
        is_empty = said and explanation.strip() and "\n#" not in explanation and next_level <= level
        if not is_empty or _NOTHING.sub("", shown).strip():
            next_level = level
            continue
        del executed.cells[start:end]
        title = escape(heading.lstrip("# "))
        told = f"<b>{title}{'' if title.endswith('?') else ':'}</b> {said}"
        opening = f'<details class="fold nothing" id="{slug(title)}"><summary>{told}</summary>'
        found.append(f"{opening}\n\n{explanation.strip()}\n\n</details>")
    if found:
        listed = "\n".join(reversed(found))
        source = f'## Not part of this study\n\n<div class="cases">\n{listed}\n</div>'
        executed.cells.append(nbformat.v4.new_markdown_cell(source))


def with_contents(body: str) -> str:
    """`body` with an id on each second-level heading, and links to them at the template's placeholder."""
    found: dict[str, str] = {}

    def identified(match: re.Match[str]) -> str:
        text = re.sub("<[^>]+>", "", match[1]).strip()
        name = slug(text) or f"part-{len(found)}"
        found[name] = text
        return f'<h2 id="{name}">{match[1].strip()}</h2>'

    body = _HEADING.sub(identified, body)
    items = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in found.items())
    return body.replace(_CONTENTS, f"<ul>{items}</ul>", 1)


def in_topics(body: str) -> str:
    """`body` with each part below a heading as a `<section class="topic">`, which the style sheet places.

    A third-level part lies in the second-level part before it. Headings inside other elements begin no part.
    """
    start, end = body.index("</header>"), body.rindex("</main>")
    made, done, depth, is_open = [body[:start]], start, 0, 0
    for match in _PART.finditer(body, start, end):
        if not match[2]:
            depth += -1 if match[1] else 1
        elif not depth:
            level = int(match[2]) - 1
            closed = max(is_open - level + 1, 0)
            made += [body[done : match.start()], "</section>" * closed, '<section class="topic">']
            done, is_open = match.start(), is_open - closed + 1
    return "".join([*made, body[done:end], "</section>" * is_open, body[end:]])
