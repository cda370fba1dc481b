"""The tables of a family's page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.report import human
from benchstudy.report.exhibits import cells, figuredata
from benchstudy.report.exhibits.exhibits import Exhibits
from benchstudy.report.results.results import Results, Titled, Where
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.tables.tables import Cell, Table


class PageTables(Exhibits):
    """Methods that show tables. Every figure links to the trials of its case."""

    results: Results

    def _table_html(self, table: Table) -> str:
        return super()._table_html(disturbed.marked(self.results, table))

    def table(
        self, name: str, metric: str, *, rows: str, columns: Sequence[str], where: Where, caption: str,
        cell: str = "page",
    ) -> None:  # fmt: skip
        """Show a metric with levels of `rows` down and levels of `columns` across; each cell is one case.

        `cell`: "page" for the storage page's format with mean, deviation and p50, "median" for rates.
        """
        self.results.require_factors([rows, *columns])
        columns = self._with_target(columns, where)
        form = self.published_form if cell == "page" else cell
        estimates = self.results.estimates(metric, where)
        across = list(dict.fromkeys(tuple(e.levels[c] for c in columns) for e in estimates))
        down = [level for level in self.results.levels(rows, where) if any(e.levels[rows] == level for e in estimates)]
        found = {(e.levels[rows], tuple(e.levels[c] for c in columns)): e for e in estimates}
        header = (rows.replace("_", " ").capitalize(), *(_joined(key) for key in across))
        body = []
        for level in down:
            figures = [cells.estimate_cell(self.results, found.get((level, key)), form) for key in across]
            body.append((Cell.text(human.level(level)), *figures))
        self.show_table(Table(name, caption, header, tuple(body)))

    def metrics_table(
        self, name: str, metrics: Titled, *, rows: Sequence[str], caption: str, where: Where | None = None,
        cell: str = "median", units: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Show one row per case and one column per metric, without metrics that no trial gave, unless all failed.

        `units` replaces units of metrics: {metric: "%"}. `cell` is as for `table`, or "range" for what must hold in
        every trial.
        """
        self.results.require_factors(rows)
        rows = self._with_target(rows, where or {})
        titles = self.results.titles(metrics)
        given = {m: title for m, title in titles.items() if not self.results.points(m, where).is_empty()}
        chosen = self.results.counted.join(self.results.select(where), on=["target", "case"], how="semi")
        if (chosen["status"] != "ok").all():
            given = titles
        body = []
        for levels in self.results.select(where).iter_rows(named=True):
            estimates = {m: self.results.estimate(m, levels["target"], levels["case"]) for m in given}
            if any(estimate is not None for estimate in estimates.values()):
                heads = [Cell.text(human.level(str(levels[r] or "–"))) for r in rows]
                figures = [cells.estimate_cell(self.results, estimates[m], cell, (units or {}).get(m)) for m in given]
                body.append((*heads, *figures))
        headings = (*(r.capitalize() for r in rows), *given.values())
        self.show_table(Table(name, caption, headings, tuple(body)))

    def frame_table(self, name: str, frame: pl.DataFrame, columns: Mapping[str, tuple[str, str]], caption: str) -> None:
        """Show any frame as a table. `columns` maps its columns to (heading, unit); an empty unit is text.

        Figures link to the trials of the case that the columns `target` and `case` name, if there is one.
        """
        body = []
        for row in frame.iter_rows(named=True):
            of_case = row.get("target"), row.get("case")
            href = cells.href(self.results, *of_case) if of_case in self.results.anchors else None
            figures = []
            for column, (_, unit) in columns.items():
                value = row[column]
                if value is None:
                    figures.append(cells.MISSING if unit else Cell.text("–"))
                else:
                    figures.append(Cell((human.quantity(value, unit),), href) if unit else Cell.text(str(value)))
            body.append(tuple(figures))
        self.show_table(Table(name, caption, tuple(heading for heading, _ in columns.values()), tuple(body)))

    def latency_table(self, name: str, percentiles: Sequence[float], *, kind: str, caption: str) -> None:
        """Show percentiles of merged histograms, and the medians over trials of the trials' own percentiles.

        Syncs have rows of their own, whatever the kind of latency.
        """
        histogram = figuredata.latencies(self.results, kind)
        if histogram is None:
            return self._not_measured(caption)
        self.show_table(cells.percentile_table(self.results, histogram, name, percentiles, caption))

    def _with_target(self, columns: Sequence[str], where: Where) -> list[str]:
        """The columns, with the target and the number of clients if these differ between cases."""
        several = len(self.results.targets) > 1 and "target" not in where
        # Without that number, the study has a factor of its own of this name.
        loaded = NUMBER in self.results.cases.columns and CLIENTS not in where
        return [*(["target"] if several else []), *columns, *([CLIENTS] if loaded else [])]


def _joined(levels: Iterable[Any]) -> str:
    return " · ".join(human.level(str(level)) for level in levels if level is not None)
