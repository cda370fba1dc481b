"""Showing things in a notebook, and writing each of them below the page's exports.

Everything that comes from data is escaped here or below; a notebook never puts a name into HTML itself.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from IPython.display import HTML, display

from benchstudy.model import paths
from benchstudy.report.exhibits.exhibitfiles import ANSWER, HEADLINE, NOTES
from benchstudy.report.figures.charts import Figure
from benchstudy.report.figures.layers import Panel
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.vega import PRINT_FORMATS
from benchstudy.report.scrutiny import evidence, lint_list
from benchstudy.report.tables import listings
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import TABLE_FORMATS, Table, anchor, unbroken

# Of a page's figure, on the study's overview.
OVERVIEW_PANELS = 2
_NARROW = 3  # columns at most of a table that stands beside another one


class Exhibits:
    """What is shown on a page of `study` and, as files, below the folder `output`, absolute or relative to the project.

    The page itself is expected beside `output` (`reports/<study>/<page>.html`), so links start from there.
    """

    # Where the study says how it is cited, as seen from the page; empty for a page of several studies.
    cited_at = "index.html#cite"

    def __init__(self, *, study: str, output: str | Path):
        self.root = paths.project_root()
        self.study, self.output = study, self.root / output
        # The figure of the page that the study's overview shows, by its name; the first one when left empty.
        self.headline = ""
        self._shown: Counter[str] = Counter()
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

    @contextmanager
    def folded(self, summary: str) -> Iterator[None]:
        """What is shown inside is behind `summary`: closed on a screen, open in print, there without scripts."""
        with _held() as shown:
            yield
        if shown:
            show(_fold(summary, "".join(shown)))

    def show_table(self, table: Table) -> None:
        """Show a table and write its files. Without rows, its caption says that there is nothing.

        A table that decides nothing, because each of its comparisons lacks a verdict, is folded behind its caption.
        """
        if not table.rows:
            return self._nothing(table.caption)
        made = self._table_html(table)
        show(_fold(f"{table.caption}: none of {len(table.rows)} has a verdict", made) if table.is_undecided else made)

    def show_tables(self, tables: Iterable[Table], nothing: str, folded: bool = False) -> None:
        """Tables below one another, narrow ones side by side where there is room, `folded` each under its caption; the
        sentence `nothing` when there is none.
        """
        shown, narrow = "", [""]
        for table in tables:
            made = self._table_html(table) if table.rows else ""
            if folded or table.is_undecided:
                made = _fold(table.caption, made) if made else ""
            elif made and len(table.columns) <= _NARROW:
                narrow.append(f"<div>{made}</div>")
                continue
            shown += _beside(narrow) + made
        show(shown + _beside(narrow) or f'<p class="none">{html.escape(nothing)}</p>')

    def show_listings(self, name: str, groups: Iterable[tuple[str, Sequence[Listing]]], nothing: str) -> None:
        """Texts that keep their columns, each group side by side under its title, and as a file of the tables."""
        shown = ""
        for title, listed in groups:
            stem = listings.write(name, title, listed, self.output / "tables")
            files = self._downloads("tables", stem, ("txt",))
            shown += f'{listings.side_by_side(title, listed)}<p class="downloads ways">{files}</p>'
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
        stems = figure.write(self.output / "figures")
        if name == self.headline or not (self.headline or "figures" in self._noted):
            self.note("figures", name, {"caption": caption, "panels": len(panels), "shown": OVERVIEW_PANELS})
            (self.output / HEADLINE).write_text(figure.static_html(OVERVIEW_PANELS), encoding="utf-8")
        links = [
            f"{width} mm wide: {', '.join(self._downloads('figures', stem, PRINT_FORMATS) for stem in parts)}"
            for width, parts in stems.items()
        ]
        files = "; ".join([self._downloads("figures", name, ("png",)), *links])
        show(f'{figure.html(self._next("Figure"))}<p class="downloads ways">{files}{self._ways(f"figure-{name}")}</p>')

    def _table_html(self, table: Table) -> str:
        table.write(self.output / "tables")
        files = self._downloads("tables", table.name, TABLE_FORMATS)
        ways = self._ways(anchor("table", table.name))
        return f'{table.html(self._next("Table"))}<p class="downloads ways">{files}{ways}</p>'

    def _next(self, kind: str) -> str:
        """ "Figure 2": the number of what is shown now, in the order of the page."""
        self._shown[kind] += 1
        return f"{kind} {self._shown[kind]}"

    def _ways(self, anchor: str) -> str:
        """The address of one figure or table, and how to cite it."""
        cite = f' · <a href="{html.escape(self.cited_at)}">cite</a>' if self.cited_at else ""
        return f' · <a href="#{html.escape(anchor)}">link to this</a>{cite}'

    def _nothing(self, what: str) -> None:
        show(f'<p class="none">{html.escape(what.rstrip("."))}: nothing was measured.</p>')

    def _downloads(self, folder: str, name: str, suffixes: Sequence[str]) -> str:
        links = (
            f'<a href="{html.escape(self.output.name)}/{folder}/{html.escape(name)}.{s}" download>{s.upper()}</a>'
            for s in suffixes
        )
        return " · ".join(links)


# What is shown while something is folded, the innermost fold last.
_HELD: list[list[str]] = []


def show(content: str) -> None:
    """HTML as the output of a notebook's cell, or as a part of what is being folded."""
    if _HELD:
        _HELD[-1].append(content)
    else:
        display(HTML(content))


@contextmanager
def _held() -> Iterator[list[str]]:
    _HELD.append([])
    try:
        yield _HELD[-1]
    finally:
        _HELD.pop()


def _beside(narrow: list[str]) -> str:
    """Narrow tables in columns; what was given is used up."""
    found, narrow[:] = "".join(narrow), []
    return f'<div class="beside">{found}</div>' if found else ""


def _fold(summary: str, content: str) -> str:
    return f'<details class="fold"><summary>{html.escape(summary)}</summary>{content}</details>'
