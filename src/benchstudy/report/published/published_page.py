"""The page of published tables beside what a study measured of the same kind, one per study, without verdicts.

Each family names its published tables in its own `page/published.py`, as a `SECTION`.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from IPython.display import Markdown, display

from benchstudy import lints
from benchstudy.lints import Finding
from benchstudy.model import paths, registry
from benchstudy.model.errors import StudyError
from benchstudy.report import human
from benchstudy.report.exhibits.exhibits import Exhibits, show
from benchstudy.report.published import published
from benchstudy.report.results import sessions
from benchstudy.report.results.over_targets import OverTargets, as_shown
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import lint_list
from benchstudy.report.tables.tables import Cell, Table

_PART = "page.published"


@dataclass(frozen=True)
class Section:
    """A section on what others published about a family. `introduction` is Markdown below the heading `title`.

    `files` maps tables of data/published to the titles of their pages. `show(page, results)` shows on the page what is
    published beside our results, which are None if the study has none of the family. Sections are sorted by `order`,
    then by the family's name.
    """

    title: str
    introduction: str
    files: Mapping[str, str]
    show: Callable[["PublishedPage", Results | None], None]
    order: int = 100


class PublishedPage(Exhibits):
    """The page of published tables. `tidy` is the folder with the tables of all families of the study.

    If a family was not measured, its section shows only what is published.
    """

    def __init__(self, *, study: str, tidy: str | Path, output: str | Path):
        super().__init__(study=study, output=output, page="published")
        self._tidy, self._family = self.root / (tidy or f"data/tidy/{self.study}"), ""
        self.folder = paths.published(self.root)

    @cached_property
    def sections(self) -> Mapping[str, Section]:
        """The sections of the families that have one, in their order."""
        found = [(family, part.SECTION) for family, part in self._parts() if hasattr(part, "SECTION")]
        return dict(sorted(found, key=lambda one: (one[1].order, one[0])))

    def _parts(self) -> Iterator[tuple[str, ModuleType]]:
        """Raises StudyError for a broken one of a measured family, and leaves out that of another, with a warning."""
        for family in registry.names():
            try:
                part = registry.part(family, _PART)
            except StudyError as error:
                if (self._tidy / family).is_dir():
                    raise
                registry.warn_once(f"the published tables of {family} are left out: {error}")
                continue
            if part is not None:
                yield family, part

    @cached_property
    def own(self) -> Mapping[str, str]:
        """The tables in data/published that belong to no family: file name to title of the page."""
        known = {lints.published.CEILINGS, *(file for section in self.sections.values() for file in section.files)}
        files = [path for path in sorted(self.folder.glob("*.csv")) if path.name not in known]
        return {path.name: published.title(path) for path in files}

    def indexes(self, results: Results) -> Sequence[Mapping[str, Any]]:
        """The records of the study's own sessions of a family, whose `results` these are."""
        return sessions.family_indexes(self.root, self.study, results.family, results.of_trials.targets)

    # -- showing -----------------------------------------------------------------------------------------------------

    def summary(self) -> None:
        """Show the number of findings on each published page."""
        caption = "Findings on the published pages, by severity"
        files = [named for section in self.sections.values() for named in section.files.items()] + [*self.own.items()]
        self.show_table(lint_list.counts(self._found, files, "lints", caption))

    def show_section(self, family: str) -> None:
        """Show what is published beside ours, the findings in it, and each figure as printed."""
        section, self._family = self.sections[family], family
        display(Markdown(f"## {section.title}\n\n{section.introduction}"))
        missing = [file for file in section.files if not (self.folder / file).is_file()]
        if missing:
            return self.say([f"data/published has no {', '.join(missing)}."])
        tidy = self._tidy / family
        measured = (tidy / "cases.parquet").is_file()
        results = as_shown(Results(tidy, study=self.study, family=family)) if measured else None
        if isinstance(results, OverTargets):
            count = human.plural(len(results.measured.targets), "target")
            self.say([f"Ours are over {count}: a target's value is the median of its trials, and n counts targets."])
        section.show(self, results)
        self.heading("What is wrong with the published figures")
        figures = [_all(self.folder / file, title) for file, title in section.files.items()]
        with self.side_by_side():
            for file, title in section.files.items():
                self._findings(file, title)
            self.show_tables(figures, "Nothing is published.", folded=True)

    def show_own(self) -> None:
        """Show the tables that belong to no family as printed, with the findings in them."""
        for file, title in self.own.items():
            # Not as Markdown, in which a table's own words could be links and scripts.
            show(f"<h2>{html.escape(title)}</h2><p>From <code>data/published/{html.escape(file)}</code>.</p>")
            self.show_table(_all(self.folder / file, title))
            self._findings(file, file)

    def _table_html(self, table: Table) -> str:
        return super()._table_html(_elsewhere(table, self._family))

    # -- findings ----------------------------------------------------------------------------------------------------

    @cached_property
    def _found(self) -> list[Finding]:
        study = lint_list.declared(self.root, self.study)
        return lints.lint(self.folder, study.acknowledge if study else ())

    def _findings(self, file: str, title: str) -> None:
        own = [f for f in self._found if f.where.startswith(f"{file}:")]
        nearer = [replace(f, where=f.where.removeprefix(f"{file}: ")) for f in own]
        rules = human.plural(len({f.lint for f in own if not f.acknowledged}), "rule")
        found = human.plural(sum(not f.acknowledged for f in own), "finding")
        with self.folded(f"{title}: {found} by {rules}"):
            show(lint_list.section(nearer, level=4))


def _all(path: Path, title: str) -> Table:
    """One row per published figure: its line and section, its levels, its name and its printed value."""
    body = []
    for row in lints.published.rows(path):
        levels = " · ".join(text for name, text in row.items() if name not in lints.published.NOT_LEVELS and text)
        heads = (row.get("source_line") or "–", row["section"], levels or "–", row["statistic"].replace("_", " "))
        body.append((*map(Cell.text, heads), published.printed(row["as_printed"] or None)))
    caption = f"{title}: all {len(body)} figures as printed"
    return Table(f"figures-{path.stem}", caption, ("Line", "Section", "Of", "Figure", "Printed"), tuple(body))


def _elsewhere(table: Table, family: str) -> Table:
    """The table with links to trials on the family's own page."""
    return replace(table, rows=tuple(tuple(_elsewhere_cell(c, family) for c in row) for row in table.rows))


def _elsewhere_cell(cell: Cell, family: str) -> Cell:
    return replace(cell, href=f"./{family}.html{cell.href}") if (cell.href or "").startswith("#") else cell
