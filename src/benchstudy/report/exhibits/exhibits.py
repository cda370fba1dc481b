"""Shows figures, tables and sentences in a notebook, and writes each of them below the page's exports.

All text from data is escaped here or in lower layers; a notebook never puts a name into HTML itself.
"""

import html
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

from IPython.display import HTML, display

from benchstudy.model import hints, paths
from benchstudy.model.studyfile import load_study
from benchstudy.report.exhibits.exhibitfiles import ANSWER, HEADLINE, NOTES
from benchstudy.report.figures.charts import Drawing, Figure
from benchstudy.report.figures.layers import Panel
from benchstudy.report.figures.paper import PAGE_MM
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.vega import PRINT_FORMATS
from benchstudy.report.scrutiny import evidence, lint_list
from benchstudy.report.tables import listings
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import TABLE_FORMATS, Table, anchor
from benchstudy.report.texts import as_html, fold

# Panels of a page's figure that the study's overview shows.
OVERVIEW_PANELS = 2
_NARROW = 3  # columns; a table with more is not shown beside another one
_NOTHING = '<p class="none">'
_MOST_OPEN = 4  # figures or groups of figures of one kind, such as one per target


class Exhibits:
    """A page of `study`. What it shows is also written below the folder `output`, absolute or relative to the project.

    The page itself is expected beside `output` (`reports/<study>/<page>.html`), so links start from there.
    """

    # The link from the page to the study's citation; empty for a page of several studies.
    cited_at = "index.html#cite"

    def __init__(self, *, study: str, output: str | Path, page: str = ""):
        self.root = paths.project_root()
        # A notebook that is run by hand need not name the project's own study.
        self.study = study or load_study(self.root / hints.EMBEDDED).study
        self.output = self.root / (output or f"scratch/{self.study}/{page}")
        # The name of the figure that the study's overview shows; if empty, it is the first one.
        self.headline = ""
        self._shown: Counter[str] = Counter()
        self._noted: dict[str, dict[str, Any]] = {}
        if not self.output.resolve().is_relative_to(paths.reports(self.root).resolve()):
            # A notebook that is run by hand, as in Jupyter Lab, does not change the published reports, and says so.
            self.say(
                [
                    f"This run writes its files below {self.output}, and nothing below reports/. To use another "
                    "folder, set `output` among the parameters."
                ]
            )

    @cached_property
    def published_form(self) -> str:
        """The form of cells that follow the published pages' format ("page" or "mean"), as the study declares it."""
        declared = lint_list.declared(self.root, self.study)
        return "mean" if declared and declared.stands_out == "mean" else "page"

    def note(self, kind: str, name: str, entry: Any) -> None:
        """Store `entry`, plain data, in `overview.json` for the study's overview, by kind and name."""
        self._noted.setdefault(kind, {})[name] = entry
        self.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._noted, ensure_ascii=False, indent=1, allow_nan=False)
        (self.output / NOTES).write_text(text + "\n", encoding="utf-8")

    def show_answers(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Show answers in the format of `evidence.answers`, and write `answer.json`."""
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / ANSWER).write_text(json.dumps(answers, ensure_ascii=False, indent=1), encoding="utf-8")
        if answers:
            show(evidence.answers(answers))

    def say(self, sentences: Iterable[str]) -> None:
        """Show sentences that come from data, one paragraph each."""
        show("".join(f"<p>{as_html(text)}</p>" for text in sentences))

    def nothing(self, sentence: str) -> None:
        """Stands in place of what a part of the page would show; the part's explanation is folded below it."""
        show(f"{_NOTHING}{as_html(sentence)}</p>")

    def heading(self, text: str) -> None:
        """Show a third-level heading that comes from data."""
        show(f"<h3>{html.escape(text)}</h3>")

    def points(self, groups: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Show sentences that come from data, as a list below each heading."""
        for title, sentences in groups:
            items = "".join(f"<li>{as_html(text)}</li>" for text in sentences)
            show(f'<h3>{html.escape(title)}</h3><ul class="weak">{items}</ul>')

    def flags(self, sentences: Iterable[str]) -> None:
        """Show findings that a reader must not overlook, one paragraph each."""
        show("".join(f'<p class="flag">{as_html(text)}</p>' for text in sentences))

    @contextmanager
    def folded(self, summary: str) -> Iterator[None]:
        """Fold what is shown inside below `summary`: closed on a screen, open in print. It needs no script.

        That there is nothing to show is not folded.
        """
        with _held() as shown:
            yield
        if any(shown):
            is_nothing = all(part.startswith(_NOTHING) for part in shown)
            show("".join(shown) if is_nothing else fold(summary, "".join(shown)))

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Show the folds inside in two columns if there is room."""
        with _held() as shown:
            yield
        show(f'<div class="cases">{"".join(shown)}</div>')

    def show_table(self, table: Table, about: str = "") -> None:
        """Show a table without its empty columns below the sentences `about` it, and write its files.

        For a table without rows, a sentence says that no trial gave a figure. A table of comparisons without a single
        verdict is folded below its caption.
        """
        if not table.rows:
            return self._not_measured(table.caption)
        said = f"<p>{as_html(about)}</p>" if about else ""
        made = said + self._table_html(table.without_empty_columns())
        show(fold(f"{table.caption}: none of {len(table.rows)} has a verdict", made) if table.is_undecided else made)

    def show_tables(
        self, tables: Iterable[Table], nothing: str, folded: bool = False, narrow: int = _NARROW
    ) -> None:  # fmt: skip
        """Show tables below one another, those of at most `narrow` columns side by side if there is room.

        With `folded`, each is folded below its caption. So is one that repeats another or has no verdict. If all are
        empty, the sentence `nothing` is shown.
        """
        shown, beside = "", [""]
        for table in (table.without_empty_columns() for table in tables):
            made = self._table_html(table) if table.rows else ""
            if folded or table.is_undecided or table.repeats:
                made = fold(table.caption, made) if made else ""
            elif made and len(table.columns) <= narrow:
                beside.append(f"<div>{made}</div>")
                continue
            shown += _beside(beside) + made
        made = shown + _beside(beside)
        if not made:
            return self.nothing(nothing)
        show(f'<div class="cases">{made}</div>' if folded else made)

    def show_listings(self, name: str, groups: Iterable[tuple[str, Sequence[Listing]]], nothing: str) -> None:
        """Show preformatted texts, each group side by side below its title, and write them as files of the tables."""
        shown = ""
        for title, listed in groups:
            stem = listings.write(name, title, listed, self.output / "tables")
            files = self._downloads("tables", stem, ("txt",))
            shown += f'{listings.side_by_side(title, listed)}<p class="downloads ways">{files}</p>'
        return show(shown) if shown else self.nothing(nothing)

    def show_groups(self, groups: Iterable[tuple[str, Iterable[Drawing]]]) -> None:
        """Show groups of figures, each below its title; from the fifth on, a group is folded below it."""
        for number, (title, figures) in enumerate(groups):
            folded = number >= _MOST_OPEN
            if not folded:
                self.heading(title)
            with self.folded(title) if folded else nullcontext():
                for figure in figures:
                    self.show_figure(*figure)

    def show_figures(self, figures: Iterable[Drawing], *, others: str, most: int = _MOST_OPEN) -> None:
        """Show figures of several cases; those after the first `most` are folded below `others`."""
        found = [*figures]
        for figure in found[:most]:
            self.show_figure(*figure)
        with self.folded(others):
            for figure in found[most:]:
                self.show_figure(*figure)

    def show_figure(
        self, name: str, caption: str, panels: Sequence[Panel], style: Style, in_legend: Iterable[str] = (),
        legend: str = "Series", failed: str = "",
    ) -> None:  # fmt: skip
        """Show panels side by side as one figure, and write its files. `in_legend`: what it names of what it draws.

        `failed`: a sentence on cases that the panels lack because their trials failed; it ends the caption.
        """
        if not panels:
            return self._not_measured(caption, failed)
        caption = f"{caption} {failed}".rstrip()
        present = {series for panel in panels for series in panel.series}.intersection(in_legend)
        shown = tuple(series for series in style.names if series in present)
        alt = f"{caption} The tables of this page have the same figures."
        figure = Figure(name, caption, alt, tuple(panels), style, shown, legend)
        stems = figure.write(self.output / "figures")
        if name == self.headline or not (self.headline or "figures" in self._noted):
            self.note("figures", name, {"caption": caption, "panels": len(panels), "shown": OVERVIEW_PANELS})
            (self.output / HEADLINE).write_text(figure.static_html(OVERVIEW_PANELS), encoding="utf-8")
        links = [
            f"{width} mm wide: {', '.join(self._downloads('figures', stem, PRINT_FORMATS) for stem in parts)}"
            for width, parts in stems.items()
        ]
        pictures = ", ".join(self._downloads("figures", stem, ("png",)) for stem in stems[PAGE_MM])
        files = "; ".join([pictures, *links])
        show(f'{figure.html(self._next("Figure"))}<p class="downloads ways">{files}{self._ways(f"figure-{name}")}</p>')

    def _table_html(self, table: Table) -> str:
        table.write(self.output / "tables")
        files = self._downloads("tables", table.name, TABLE_FORMATS)
        ways = self._ways(anchor("table", table.name))
        return f'{table.html(self._next("Table"))}<p class="downloads ways">{files}{ways}</p>'

    def _next(self, kind: str) -> str:
        """The number of the current figure or table, in the order of the page: "Figure 2"."""
        self._shown[kind] += 1
        return f"{kind} {self._shown[kind]}"

    def _ways(self, anchor: str) -> str:
        """Links to one figure or table, and to the citation."""
        cite = f' · <a href="{html.escape(self.cited_at)}">cite</a>' if self.cited_at else ""
        return f' · <a href="#{html.escape(anchor)}">link to this</a>{cite}'

    def _not_measured(self, what: str, failed: str = "") -> None:
        """Stands in place of a figure or table without values. `failed`: a sentence on trials that gave none."""
        what = what.rstrip(".")
        # Further sentences say how to read what would be drawn.
        self.nothing(f"{what}. {failed}" if failed else f"{what.split('. ')[0]}: no trial gave a figure.")

    def _downloads(self, folder: str, name: str, suffixes: Sequence[str]) -> str:
        links = (
            f'<a href="{html.escape(self.output.name)}/{folder}/{html.escape(name)}.{s}" download>{s.upper()}</a>'
            for s in suffixes
        )
        return " · ".join(links)


# The parts of the open folds, the innermost fold last.
_HELD: list[list[str]] = []


def show(content: str) -> None:
    """Show HTML as the output of a notebook's cell, or add it to the innermost open fold."""
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
    """Narrow tables side by side. Empties the list."""
    found, narrow[:] = "".join(narrow), []
    return f'<div class="beside">{found}</div>' if found else ""
