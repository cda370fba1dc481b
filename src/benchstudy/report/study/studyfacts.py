"""The data behind a study's first page: tables, sessions, and the notes of each family's page."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.model import registry
from benchstudy.model.metrics import Tells
from benchstudy.model.study import Study
from benchstudy.report.exhibits.exhibitfiles import ANSWER, HEADLINE, NOTES, read
from benchstudy.report.results.over_targets import as_shown
from benchstudy.report.results.results import Results
from benchstudy.report.study.studypages import STUDY_PAGES
from benchstudy.report.tables.tables import link


@dataclass(frozen=True)
class FamilyFacts:
    """One family of a study. `notes` are those of its page, by kind and name; empty if it has none."""

    name: str
    results: Results
    notes: Mapping[str, Mapping[str, Any]]
    exports: Path

    @property
    def page(self) -> str:
        """The link to the family's page."""
        return f"./{self.name}.html"

    @cached_property
    def shown(self) -> Results:
        """The results as the family's page shows them."""
        return as_shown(self.results)

    @property
    def title(self) -> str:
        """The family's title for the reader."""
        return registry.get(self.name).title

    def noted(self, kind: str) -> Any:
        """The page's note about the family as a whole; None if there is none."""
        return self.notes.get(kind, {}).get(self.name)

    @cached_property
    def answers(self) -> list[Mapping[str, Any]]:
        """The answers of the family's page, as `Page.show_answers` got them; [] if it gave none."""
        path = self.exports / ANSWER
        return read(path, self.name) if path.is_file() else []

    @property
    def comparisons(self) -> list[Mapping[str, Any]]:
        """The summaries of the page's comparisons, as `verdicts.summarised` makes them."""
        return list(self.notes.get("comparisons", {}).values())

    @property
    def lints(self) -> list[Mapping[str, Any]]:
        """One entry per lint with findings: lint, severity, open, acknowledged, first."""
        return self.noted("lints") or []

    @cached_property
    def measured(self) -> pl.DataFrame:
        """Trials that count and were measured here, not imported."""
        return self.results.counted.filter(~pl.col("imported").fill_null(False))

    @cached_property
    def succeeded(self) -> pl.DataFrame:
        """Trials that count and gave figures, including imported ones."""
        return self.results.counted.filter(pl.col("status") == "ok")

    @cached_property
    def loaded(self) -> pl.DataFrame:
        """Successful trials with a load generator, and its `loop`: open, closed, or null if unknown."""
        family = registry.get(self.name)
        declared = {
            (row["target"], row["case"]): family.loop({f: row[f] for f in self.results.factors if row[f] is not None})
            for row in self.results.cases.iter_rows(named=True)
        }
        loops = [
            json.loads(verified or "{}").get("loop") or declared.get((target, case))
            for target, case, verified in self.succeeded.select("target", "case", "verified").iter_rows()
        ]
        loaded = self.succeeded.with_columns(pl.Series("loop", loops, dtype=pl.String)).drop_nulls("loop")
        return loaded.with_columns(pl.when(pl.col("loop") != "noted").then("loop"))

    def told(self, what: Tells, *, least: bool = False) -> dict[str, float]:
        """Map each trial to the sum of its metrics that tell `what`, or with `least` to the lowest of them."""
        told = self.results.usable.filter(pl.col("metric").is_in(self.results.telling(what)))
        value = pl.col("value").min() if least else pl.col("value").sum()
        return dict(told.group_by("trial", maintain_order=True).agg(value).iter_rows())

    def figure(self) -> str:
        """The page's figure for the overview, as HTML with links to that page; empty without one."""
        path = self.exports / HEADLINE
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        text = text.replace('href="#trial-', f'href="{self.page}#trial-')
        for folder in ("trials", "targets"):
            text = text.replace(f'href="{self.name}/{folder}/', f'href="./{self.name}/{folder}/')
        return text


class StudyFacts:
    """The facts of one study. Links are relative to its `folder` below `reports`, the folder of all reports."""

    def __init__(self, study: Study, *, tidy: Mapping[str, Path], indexes: Sequence[Mapping[str, Any]], reports: Path):
        self.study, self.indexes, self.folder = study, indexes, reports / study.study
        self.families = [
            self._family(name, Results(path, study=study.study, family=name)) for name, path in tidy.items()
        ]

    def _family(self, name: str, results: Results) -> FamilyFacts:
        exports = self.folder / name
        path = exports / NOTES
        return FamilyFacts(name, results, read(path, name) if path.is_file() else {}, exports)

    def link(self, path: Path) -> str:
        """The link to a file."""
        return link(os.path.relpath(path, self.folder))

    @property
    def sessions(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Pairs (index, session) of all sessions, the earliest first."""
        pairs = [(index, session) for index in self.indexes for session in index["sessions"]]
        return sorted(pairs, key=lambda pair: pair[1]["started"])

    @cached_property
    def notebooks(self) -> dict[str, dict[str, Any]]:
        """The executed notebooks, by the name of their page."""
        pages = [*(family.name for family in self.families), *STUDY_PAGES]
        found = {page: self.folder / "notebooks" / f"{page}.ipynb" for page in pages}
        return {page: read(path, page) for page, path in found.items() if path.is_file()}
