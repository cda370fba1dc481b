"""Showing things in a notebook, and writing each of them below the page's exports.

Everything that comes from data is escaped here or below; a notebook never puts a name into HTML itself.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from IPython.display import HTML, display

from benchstudy.model import paths
from benchstudy.report.exhibits.exhibitfiles import ANSWER, HEADLINE, NOTES
from benchstudy.report.figures.charts import Figure
from benchstudy.report.figures.layers import Panel
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.vega import FIGURE_FORMATS
from benchstudy.report.scrutiny import evidence, lint_list
from benchstudy.report.tables import listings
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import TABLE_FORMATS, Table, unbroken

# Of a page's figure, on the study's overview.
OVERVIEW_PANELS = 2


class Exhibits:
    """What is shown on a page of `study` and, as files, below the folder `output`, absolute or relative to the project.

    The page itself is expected beside `output` (`reports/<study>/<page>.html`), so links start from there.
    """

    def __init__(self, *, study: str, output: str | Path):
        self.root = paths.project_root()
        self.study, self.output = study, self.root / output
        # The figure of the page that the study's overview shows, by its name; the first one when left empty.
        self.headline = ""
        self._noted: dict[str, dict[str, Any]] = {}
        if not self.output.resolve().is_relative_to(paths.reports(self.root).resolve()):
            # Whoever runs cells by hand, as in Jupyter Lab, is told, and what is published stays as it is.
            self.say(
                [
                    f"Figures and tables of this run are files below {self.output}; nothing below reports/ is written. "
                    "Another folder is another `output` among the parameters."
                ]
            )

    @cached_property
    def published_form(self) -> str:
        """How cells are written where the published pages have a format of their own: as the study declares it."""
        declared = lint_list.declared(self.root, self.study)
        return "mean" if declared and declared.stands_out == "mean" else "page"

    def note(self, kind: str, name: str, entry: Any) -> None:
        """Keep `entry`, plain data, for the study's overview: `overview.json` has them by kind and name."""
        self._noted.setdefault(kind, {})[name] = entry
        self.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._noted, ensure_ascii=False, indent=1, allow_nan=False)
        (self.output / NOTES).write_text(text + "\n", encoding="utf-8")

    def show_answers(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """`{what, lines: [{name, value, evidence}], note}` each, all plain text: here, and in `answer.json`."""
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / ANSWER).write_text(json.dumps(answers, ensure_ascii=False, indent=1), encoding="utf-8")
        show(evidence.answers(answers))

    def say(self, sentences: Iterable[str]) -> None:
        """Sentences that come from data, a paragraph each."""
        show("".join(f"<p>{html.escape(text)}</p>" for text in sentences))

    def heading(self, text: str) -> None:
        """A heading that comes from data, of the third level."""
        show(f"<h3>{html.escape(text)}</h3>")

    def points(self, groups: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Sentences that come from data, as a list under each heading."""
        for title, sentences in groups:
            items = "".join(f"<li>{html.escape(unbroken(text))}</li>" for text in sentences)
            show(f'<h3>{html.escape(title)}</h3><ul class="weak">{items}</ul>')

    def flags(self, sentences: Iterable[str]) -> None:
        """Findings that a reader must not overlook, each in a paragraph of its own."""
        coded = (re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text)) for text in sentences)
        show("".join(f'<p class="flag">{text}</p>' for text in coded))

    def show_table(self, table: Table) -> None:
        if not table.rows:
            return self._nothing(table.caption)
        show(self._table_html(table))

    def show_tables(self, tables: Iterable[Table], nothing: str, folded: bool = False) -> None:
        """Tables below one another, `folded` each under its caption; the sentence `nothing` when there is none."""
        shown = [
            f'<details class="case"><summary>{html.escape(table.caption)}</summary>{self._table_html(table)}</details>'
            if folded
            else self._table_html(table)
            for table in tables
            if table.rows
        ]
        show("".join(shown) or f'<p class="none">{html.escape(nothing)}</p>')

    def show_listings(self, name: str, groups: Iterable[tuple[str, Sequence[Listing]]], nothing: str) -> None:
        """Texts that keep their columns, each group side by side under its title, and as a file of the tables."""
        shown = ""
        for title, listed in groups:
            stem = listings.write(name, title, listed, self.output / "tables")
            files = self._downloads("tables", stem, ("txt",))
            shown += f'{listings.side_by_side(title, listed)}<p class="downloads">{files}</p>'
        show(shown or f'<p class="none">{html.escape(nothing)}</p>')

    def show_figure(
        self, name: str, caption: str, panels: Sequence[Panel], style: Style, in_legend: Iterable[str] = (),
        legend: str = "Series",
    ) -> None:  # fmt: skip
        """Panels side by side as one figure, here and as files; `in_legend`: the series that are in them."""
        if not panels:
            return self._nothing(caption)
        present = set(in_legend)
        shown = tuple(series for series in style.names if series in present)
        alt = f"{caption} The same figures stand in the tables of this page."
        figure = Figure(name, caption, alt, tuple(panels), style, shown, legend)
        figure.write(self.output / "figures")
        if name == self.headline or not (self.headline or "figures" in self._noted):
            self.note("figures", name, {"caption": caption, "panels": len(panels), "shown": OVERVIEW_PANELS})
            (self.output / HEADLINE).write_text(figure.static_html(OVERVIEW_PANELS), encoding="utf-8")
        show(f'{figure.html()}<p class="downloads">{self._downloads("figures", name, FIGURE_FORMATS)}</p>')

    def _table_html(self, table: Table) -> str:
        table.write(self.output / "tables")
        files = self._downloads("tables", table.name, TABLE_FORMATS)
        return f'{table.html()}<p class="downloads">{files}</p>'

    def _nothing(self, what: str) -> None:
        show(f'<p class="none">{html.escape(what.rstrip("."))}: nothing was measured.</p>')

    def _downloads(self, folder: str, name: str, suffixes: Sequence[str]) -> str:
        links = (
            f'<a href="{html.escape(self.output.name)}/{folder}/{html.escape(name)}.{s}" download>{s.upper()}</a>'
            for s in suffixes
        )
        return " · ".join(links)


def show(content: str) -> None:
    """HTML as the output of a notebook's cell."""
    display(HTML(content))
