"""What a notebook calls: one `Page` a notebook, one call a figure or table.

Every call shows its result, and writes it below the page's exports (`figures/*.svg|png|pdf`,
`tables/*.csv|rst|md|tex`).
Everything that comes from data is escaped here or below; a notebook never puts a name into HTML itself.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from IPython.display import HTML, display

from benchstudy import paths
from benchstudy.report import cells, evidence, figuredata, human, lint_list, listings, published, sessions
from benchstudy.report.charts import FIGURE_FORMATS, Figure
from benchstudy.report.comparison import Comparisons, calibrations
from benchstudy.report.listings import Listing
from benchstudy.report.panels import Axis, Panel, Reference, Style, cdf_panel, strip_panel, trend_panel
from benchstudy.report.results import Estimate, Results, Where
from benchstudy.report.tables import TABLE_FORMATS, Cell, Table, slug

# Choices of cases, each under the title of its panel or table.
Views = Mapping[str, Where]


class Page:
    """One family's report. `tidy` and `output` are folders, absolute or relative to the project.

    The page itself is expected beside `output` (`reports/<study>/<family>.html`), so links start from there.
    """

    def __init__(self, family: str, *, study: str, tidy: str | Path, output: str | Path):
        self.root = paths.project_root()
        self.family, self.study = family, study
        self.output = self.root / output
        self.results = Results(self.root / tidy, study=study, family=family)
        self._indexes = sessions.family_indexes(self.root, study, family)

    @property
    def declared(self) -> Mapping[str, Any]:
        """What the study said about this family when it was measured last; empty when nothing was."""
        return sessions.declared(self._indexes, self.family)

    # -- choosing ----------------------------------------------------------------------------------------------------

    def levels(self, factor: str, **where: str | Sequence[str]) -> list[str]:
        return self.results.levels(factor, where)

    def views(
        self, title: str, factor: str, shared: Sequence[str] = (), **where: str | Sequence[str]
    ) -> dict[str, Where]:
        """One choice of cases for each level of `factor`, by a title such as "Write, sync fsync"."""
        variants = self.results.variants(factor, shared, where)
        return {f"{title}, {factor} {levels[0]}": {**where, factor: levels} for levels in variants}

    @staticmethod
    def slug(title: str) -> str:
        return slug(title)

    # -- sections ----------------------------------------------------------------------------------------------------

    def overview(self) -> None:
        """How many trials stand behind the page, and what must be known before reading on."""
        _show(evidence.overview(self.results, self._indexes))

    def answer(self, groups: Mapping[str, tuple[str, Where]], *, series: str) -> None:
        """For each group `{title: (metric, choice of cases)}` the medians of its series, sorted, and how sure that is.

        The same goes to `answer.json` for the index.
        """
        self.show_answers([a for a in (self._answer(label, *asked, series) for label, asked in groups.items()) if a])

    def show_answers(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """`{what, lines: [{name, value, evidence}], note}` each, all plain text: here, and in `answer.json`."""
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / "answer.json").write_text(json.dumps(answers, ensure_ascii=False, indent=1), encoding="utf-8")
        _show(evidence.answers(answers))

    def say(self, sentences: Iterable[str]) -> None:
        """Sentences that come from data, a paragraph each."""
        _show("".join(f"<p>{html.escape(text)}</p>" for text in sentences))

    def flags(self, sentences: Iterable[str]) -> None:
        """Findings that a reader must not overlook, each in a paragraph of its own."""
        _show("".join(f'<p class="flag">{html.escape(text)}</p>' for text in sentences))

    def _answer(self, label: str, metric: str, where: Where, series: str) -> dict[str, Any] | None:
        estimates = self.results.estimates(metric, where)
        known = sorted((e for e in estimates if e.summary.median is not None), key=lambda e: e.summary.median)
        lines = [
            {
                "name": figuredata.label(self.results, e.levels, series),
                "value": human.brief(e.summary.median, e.unit),
                "evidence": human.evidence(e.summary, e.unit) + (f"; {e.failure}" if e.failed else ""),
            }
            for e in known
        ]
        lost = [e for e in estimates if e.summary.median is None]
        lines += [
            {"name": figuredata.label(self.results, e.levels, series), "value": "–", "evidence": e.failure}
            for e in lost
        ]
        # Only within a target: figures of different hosts allow no verdict, so none is denied either.
        by_target = [[e for e in known if e.target == target] for target in self.results.targets]
        unclear = [
            f"{figuredata.label(self.results, a.levels, series)} and {figuredata.label(self.results, b.levels, series)}"
            for of_target in by_target
            for a, b in pairwise(of_target)
            if not _apart(a, b)
        ]
        note = f"So few trials do not establish the order of {', nor of '.join(unclear)}." if unclear else ""
        return {"what": label, "lines": lines, "note": note} if lines else None

    def table(
        self, name: str, metric: str, *, rows: str, columns: Sequence[str], where: Where, caption: str,
        cell: str = "page",
    ) -> None:  # fmt: skip
        """Levels of `rows` down, levels of `columns` across; each cell one case, linked to its trials.

        `cell`: "page" for the storage page's format with mean, deviation and p50, "median" for rates.
        """
        columns = self._with_target(columns, where)
        estimates = self.results.estimates(metric, where)
        across = list(dict.fromkeys(tuple(e.levels[c] for c in columns) for e in estimates))
        down = [level for level in self.results.levels(rows, where) if any(e.levels[rows] == level for e in estimates)]
        found = {(e.levels[rows], tuple(e.levels[c] for c in columns)): e for e in estimates}
        header = (rows.replace("_", " ").capitalize(), *(_joined(key) for key in across))
        body = []
        for level in down:
            figures = [cells.estimate_cell(self.results, found.get((level, key)), cell) for key in across]
            body.append((Cell.text(human.level(level)), *figures))
        self.show_table(Table(name, caption, header, tuple(body)))

    def metrics_table(
        self, name: str, metrics: Mapping[str, tuple[str, str | None]], *, rows: Sequence[str], caption: str,
        where: Where | None = None, cell: str = "median",
    ) -> None:  # fmt: skip
        """One row a case, one column a metric (`{metric: (heading, unit)}`); metrics nobody gave are left out.

        A unit of None is the metric's own. `cell` as for `table`, or "range" for what must hold in every trial.
        """
        rows = self._with_target(rows, where or {})
        given = {m: shown for m, shown in metrics.items() if not self.results.points(m, where).is_empty()}
        body = []
        for levels in self.results.select(where).iter_rows(named=True):
            estimates = {m: self.results.estimate(m, levels["target"], levels["case"]) for m in given}
            if any(estimate is not None for estimate in estimates.values()):
                heads = [Cell.text(human.level(str(levels[r] or "–"))) for r in rows]
                figures = [
                    cells.estimate_cell(self.results, estimates[m], cell, unit) for m, (_, unit) in given.items()
                ]
                body.append((*heads, *figures))
        headings = (*(r.capitalize() for r in rows), *(heading for heading, _ in given.values()))
        self.show_table(Table(name, caption, headings, tuple(body)))

    def frame_table(self, name: str, frame: pl.DataFrame, columns: Mapping[str, tuple[str, str]], caption: str) -> None:
        """Any frame as a table: `columns` maps its columns to (heading, unit); an empty unit is text.

        Figures lead to the trials of the case that the columns `target` and `case` name.
        """
        body = []
        for row in frame.iter_rows(named=True):
            href = cells.href(self.results, row["target"], row["case"])
            figures = []
            for column, (_, unit) in columns.items():
                text = str(row[column]) if row[column] is not None else "–"
                figures.append(Cell((human.quantity(row[column], unit),), href) if unit else Cell.text(text))
            body.append(tuple(figures))
        self.show_table(Table(name, caption, tuple(heading for heading, _ in columns.values()), tuple(body)))

    def show_table(self, table: Table) -> None:
        if not table.rows:
            return self._nothing(table.caption)
        _show(self._table_html(table))

    def show_tables(self, tables: Iterable[Table], nothing: str, folded: bool = False) -> None:
        """Tables below one another, `folded` each under its caption; the sentence `nothing` when there is none."""
        shown = [
            f'<details class="case"><summary>{html.escape(table.caption)}</summary>{self._table_html(table)}</details>'
            if folded
            else self._table_html(table)
            for table in tables
            if table.rows
        ]
        _show("".join(shown) or f'<p class="none">{html.escape(nothing)}</p>')

    def show_listings(self, name: str, groups: Iterable[tuple[str, Sequence[Listing]]], nothing: str) -> None:
        """Texts that keep their columns, each group side by side under its title, and as a file of the tables."""
        shown = ""
        for title, listed in groups:
            stem = listings.write(name, title, listed, self.output / "tables")
            files = self._downloads("tables", stem, ("txt",))
            shown += f'{listings.side_by_side(title, listed)}<p class="downloads">{files}</p>'
        _show(shown or f'<p class="none">{html.escape(nothing)}</p>')

    def _table_html(self, table: Table) -> str:
        table.write(self.output / "tables")
        files = self._downloads("tables", table.name, TABLE_FORMATS)
        return f'{table.html()}<p class="downloads">{files}</p>'

    # -- figures -----------------------------------------------------------------------------------------------------

    def trend(
        self, name: str, metric: str, *, x: str, x_title: str, y_title: str, series: str, views: Views, caption: str,
        x_unit: str = "B", fitted: pl.DataFrame | None = None,
    ) -> None:  # fmt: skip
        """The metric against a numeric column of the case table, log-log, one panel a view.

        `x_unit`: the base unit of that column. `fitted`: laws to draw through the points, with their intervals (rows as
        `figuredata.curves` wants them).
        """
        style = figuredata.style(self.results, series)
        points = {view: figuredata.points(self.results, metric, series, where, x) for view, where in views.items()}
        points = {view: frame for view, frame in points.items() if not frame.is_empty()}
        together = pl.concat(points.values()) if points else pl.DataFrame()
        if together.is_empty():
            return self._nothing(caption)
        sizes = sorted(set(together["x"].to_list()))
        unit = together["unit"][0]
        panels = []
        for view, frame in points.items():
            estimates = figuredata.estimates(self.results, metric, series, views[view], x)
            y = Axis(y_title, unit, shared=together["y"].to_list())
            x_axis = Axis(x_title, x_unit, values=sizes, shared=sizes)
            curves = None if fitted is None else figuredata.curves(self.results, fitted, series, views[view])
            panels.append(trend_panel(view, frame, estimates, x_axis, y, style, curves=curves))
        self.show_figure(name, caption, panels, style, together["series"].to_list())

    def strip(
        self, name: str, metrics: Mapping[str, str], *, series: str, where: Where, value_title: str, caption: str,
        references: Mapping[str, Sequence[Reference]] | None = None, log: bool = False,
    ) -> None:  # fmt: skip
        """Every trial of each series on one axis, a panel a metric, with published reference lines."""
        style = figuredata.style(self.results, series, where)
        panels = []
        for metric, title in metrics.items():
            frame = figuredata.points(self.results, metric, series, where)
            if frame.is_empty():
                continue
            frame = frame.with_columns(x=pl.col("y"))
            estimates = figuredata.estimates(self.results, metric, series, where).with_columns(x=pl.col("y"))
            axis = Axis(value_title, frame["unit"][0], log=log)
            panels.append(strip_panel(title, frame, estimates, axis, style, (references or {}).get(metric, ())))
        if not panels:
            return self._nothing(caption)
        self.show_figure(name, caption, panels, style)

    def latency_cdf(self, name: str, *, series: str, kind: str, caption: str) -> None:
        """Shares of operations by latency, from histograms laid together over trials; a panel a job and operation."""
        histogram = figuredata.latencies(self.results, kind)
        if histogram is None:
            return self._nothing(caption)
        self.cdf(name, histogram, series=series, panels=["job", "op"], caption=caption)

    def cdf(
        self, name: str, histogram: pl.DataFrame | None, *, series: str, panels: Sequence[str], caption: str,
        ordered: bool = False,
    ) -> None:  # fmt: skip
        """Shares of operations by latency, trials laid together: a panel for each combination of the columns `panels`.

        `histogram`: target, case, the case's levels, lower_s, upper_s, count; None when nobody
        measured any. `ordered`: the series are numbers.
        """
        if histogram is None or histogram.is_empty():
            return self._nothing(caption)
        steps = figuredata.cumulative_steps(self.results, histogram, series, panels)
        axis = Axis("Latency", "s", shared=steps["x"].to_list())
        found = set(steps["series"])
        in_order = figuredata.style(self.results, series).names
        style = Style(tuple(n for n in in_order if n in found), ordered)
        views = [
            cdf_panel(": ".join(map(str, key)), frame.drop(panels), axis, style)
            for key, frame in steps.group_by(panels, maintain_order=True)
        ]
        self.show_figure(name, caption, views, style, style.names, legend=series.capitalize())

    def latency_table(self, name: str, percentiles: Sequence[float], *, kind: str, caption: str) -> None:
        """Percentiles of histograms laid together over trials, and what the trials say one by one."""
        histogram = figuredata.latencies(self.results, kind)
        if histogram is None:
            return self._nothing(caption)
        self.show_table(cells.percentile_table(self.results, histogram, name, percentiles, kind, caption))

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
        _show(f'{figure.html()}<p class="downloads">{self._downloads("figures", name, FIGURE_FORMATS)}</p>')

    # -- comparisons -------------------------------------------------------------------------------------------------

    def compare(self, name: str, metrics: Mapping[str, str], *, factor: str, caption: str, **choice: Any) -> None:
        """Each level of `factor` against one of them, as a figure and a table of ratios with their verdicts.

        `metrics`: {metric: title}. `choice`: what `Comparisons` takes: `base`, `where`, `counterparts`, `better`,
        `across_tools`. All comparisons of one call are one family for the adjustment of their p values.
        """
        found = Comparisons(self.results, self._indexes, metrics, factor=factor, **choice)
        if not found.rows:
            return _show(f'<p class="none">{html.escape(found.nothing(caption))}</p>')
        _show(f"<p>{html.escape(found.summary())}</p>")
        style = figuredata.style(self.results, factor, choice.get("where"))
        panels = found.panels(style)
        if panels:
            told = f"{caption}. Bars: 95 % intervals; filled: better or worse; band: the margin."
            self.show_figure(name, told, panels, style, found.drawn, f"Against {found.base}")
        self.show_table(found.table(name, caption))

    def calibration(self, metrics: Mapping[str, str]) -> None:
        """How often this study finds a difference where there is none, if it describes a case twice (A/A)."""
        found = calibrations(self.results, self._indexes, metrics, self.declared)
        none = "This study describes no case twice, so that its own rate of false alarms is not known (A/A)."
        _show("".join(f"<p>{html.escape(text)}</p>" for text in found or [none]))

    # -- evidence ----------------------------------------------------------------------------------------------------

    def published_references(self, file: str, op: str, section: str) -> list[Reference]:
        return published.references(paths.published(self.root) / file, op, section=section)

    def published_problems(self, file: str, **kwargs: Any) -> None:
        """A list of what is impossible in published figures; nothing when all is possible."""
        found = published.impossible(paths.published(self.root) / file, **kwargs)
        _show("".join(f'<p class="flag">{html.escape(text)}.</p>' for text in found))

    def published(self, name: str, file: str, **kwargs: Any) -> None:
        """Figures somebody else published, in a table of their own, with what is impossible in them flagged."""
        self.show_table(published.table(paths.published(self.root) / file, name, **kwargs))

    def method(self) -> None:
        _show(evidence.method(self.results, self._indexes))

    def weaknesses(self, extra: Iterable[str] = ()) -> None:
        """What a sceptical reader should hold against the figures, and a section of its own for what lints find."""
        found = lint_list.of_family(self.results, lint_list.declared(self.root, self.study))
        lints = f"<h2>Lints</h2>{lint_list.section(found)}"
        _show(evidence.weaknesses(self.results, self._indexes, extra) + lints)

    def trials(self, metrics: Sequence[str]) -> None:
        """Every trial with its command and raw files, and the estimates of every metric as a CSV file."""
        estimates = [e for metric in sorted(self.results.metrics) for e in self.results.estimates(metric)]
        evidence.write_estimates(estimates, self.output / "tables" / "estimates.csv")
        _show(
            f'<p class="downloads">Every estimate of every metric, in base units: '
            f"{self._downloads('tables', 'estimates', ('csv',))}</p>"
            + evidence.trials(self.results, metrics, self.root, self.output.parent)
        )

    def _nothing(self, what: str) -> None:
        _show(f'<p class="none">{html.escape(what.rstrip("."))}: nothing was measured.</p>')

    def _with_target(self, columns: Sequence[str], where: Where) -> list[str]:
        several = len(self.results.targets) > 1 and "target" not in where
        return ["target", *columns] if several else list(columns)

    def _downloads(self, folder: str, name: str, suffixes: Sequence[str]) -> str:
        links = (
            f'<a href="{html.escape(self.output.name)}/{folder}/{html.escape(name)}.{s}" download>{s.upper()}</a>'
            for s in suffixes
        )
        return " · ".join(links)


def _joined(levels: Iterable[Any]) -> str:
    return " · ".join(human.level(str(level)) for level in levels if level is not None)


def _apart(a: Estimate, b: Estimate) -> bool:
    """Whether the intervals of two medians do not touch: the least that naming an order asks for."""
    ends = (a.summary.interval_low, a.summary.interval_high, b.summary.interval_low, b.summary.interval_high)
    return None not in ends and (ends[1] < ends[2] or ends[3] < ends[0])


def _show(content: str) -> None:
    display(HTML(content))
