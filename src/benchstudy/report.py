"""What a notebook calls: one `Page` a notebook, one call a figure or table.

Every call shows its result and writes it below the page's folder of exports (`figures/*.svg|png`, `tables/*.csv|rst|md`).
Everything that comes from data is escaped here or below; a notebook never puts a name into HTML itself.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from IPython.display import HTML, display

from benchstudy import evidence, histograms, human, paths, published, stats
from benchstudy.charts import Axis, Figure, Panel, Reference, Style, cdf_panel, strip_panel, trend_panel
from benchstudy.results import Estimate, Results, Where
from benchstudy.sessions import family_indexes
from benchstudy.tables import MISSING, Cell, Table

# One trial's worth of axis padding is not worth a parameter; what a metric measures decides its axis title.
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
        self._indexes = family_indexes(self.root, study, family)

    # -- choosing ----------------------------------------------------------------------------------------------------

    def levels(self, factor: str, **where: str | Sequence[str]) -> list[str]:
        return self.results.levels(factor, where)

    def views(
        self, title: str, factor: str, shared: Sequence[str] = (), **where: str | Sequence[str]
    ) -> dict[str, Where]:
        """One choice of cases for each level of `factor`, by a title such as "Write, sync fsync"."""
        variants = self.results.variants(factor, shared, where)
        return {f"{title}, {factor} {levels[0]}": {**where, factor: levels} for levels in variants}

    def style(self, factor: str, where: Where | None = None) -> Style:
        """A colour and a shape for each level among the chosen cases (on each target, if there are several)."""
        return Style(
            tuple(dict.fromkeys(self._labels(self.results.select(where).drop_nulls(factor), factor)))
        )

    @staticmethod
    def slug(title: str) -> str:
        """A file name out of a title: "Write, sync fsync" is "write-sync-fsync"."""
        return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")

    # -- sections ----------------------------------------------------------------------------------------------------

    def overview(self) -> None:
        """How many trials stand behind the page, and what must be known before reading on."""
        _show(evidence.overview(self.results, self._indexes))

    def answer(self, groups: Mapping[str, tuple[str, Where]], *, series: str) -> None:
        """For each group `{title: (metric, choice of cases)}` the median of each series, in order, and whether it is sure.

        The same goes to `answer.json` for the index.
        """
        answers = [a for a in (self._answer(label, *asked, series) for label, asked in groups.items()) if a]
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / "answer.json").write_text(
            json.dumps(answers, ensure_ascii=False, indent=1), encoding="utf-8"
        )
        _show(evidence.answers(answers))

    def _answer(self, label: str, metric: str, where: Where, series: str) -> dict[str, Any] | None:
        estimates = self.results.estimates(metric, where)
        known = sorted((e for e in estimates if e.summary.median is not None), key=lambda e: e.summary.median)
        lines = [
            {
                "name": self._label(e.levels, series),
                "value": human.brief(e.summary.median, e.unit),
                "evidence": human.evidence(e.summary, e.unit) + (f"; {e.failure}" if e.failed else ""),
            }
            for e in known
        ]
        lost = [e for e in estimates if e.summary.median is None]
        lines += [{"name": self._label(e.levels, series), "value": "–", "evidence": e.failure} for e in lost]
        unclear = [
            f"{self._label(a.levels, series)} and {self._label(b.levels, series)}"
            for a, b in zip(known, known[1:], strict=False)
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
        down = [
            level
            for level in self.results.levels(rows, where)
            if any(e.levels[rows] == level for e in estimates)
        ]
        found = {(e.levels[rows], tuple(e.levels[c] for c in columns)): e for e in estimates}
        header = (rows.replace("_", " ").capitalize(), *(_joined(key) for key in across))
        body = [
            (Cell.text(level), *(self.cell(found.get((level, key)), cell) for key in across)) for level in down
        ]  # fmt: skip
        self.show_table(Table(name, caption, header, tuple(body)))

    def metrics_table(
        self, name: str, metrics: Mapping[str, str], *, rows: Sequence[str], where: Where | None = None, caption: str,
        cell: str = "median",
    ) -> None:  # fmt: skip
        """One row a case, one column a metric (`{metric: heading}`); metrics nobody gave are left out."""
        rows = self._with_target(rows, where or {})
        given = {m: h for m, h in metrics.items() if not self.results.points(m, where).is_empty()}
        body = []
        for levels in self.results.select(where).iter_rows(named=True):
            estimates = [self.results.estimate(m, levels["target"], levels["case"]) for m in given]
            if any(e is not None for e in estimates):
                heads = [Cell.text(str(levels[r] or "–")) for r in rows]
                body.append((*heads, *(self.cell(e, cell) for e in estimates)))
        self.show_table(Table(name, caption, (*map(str.capitalize, rows), *given.values()), tuple(body)))

    def cell(self, estimate: Estimate | None, form: str = "median") -> Cell:
        """One case's figure with what stands behind it; a failure says why and how often."""
        if estimate is None:
            return MISSING
        href = f"#{self.results.anchors[estimate.target, estimate.case]}"
        summary = estimate.summary
        if summary.median is None:
            return Cell((estimate.failure or summary.note,), href, "failed")
        figure = (human.page_cell if form == "page" else human.median_cell)(summary, estimate.unit)
        lines = [figure, human.evidence(summary, estimate.unit)]
        if estimate.failed:
            lines.append(estimate.failure)
        return Cell(tuple(lines), href, "number warning" if estimate.failed else "number", summary.note)

    def frame_table(
        self, name: str, frame: pl.DataFrame, columns: Mapping[str, tuple[str, str]], caption: str
    ) -> None:
        """Any frame as a table: `columns` maps its columns to (heading, unit); an empty unit is text.

        Figures lead to the trials of the case that the columns `target` and `case` name.
        """
        body = []
        for row in frame.iter_rows(named=True):
            href = f"#{self.results.anchors[row['target'], row['case']]}"
            cells = []
            for column, (_, unit) in columns.items():
                text = str(row[column]) if row[column] is not None else "–"
                cells.append(Cell((human.quantity(row[column], unit),), href) if unit else Cell.text(text))
            body.append(tuple(cells))
        self.show_table(Table(name, caption, tuple(heading for heading, _ in columns.values()), tuple(body)))

    def show_table(self, table: Table) -> None:
        if not table.rows:
            _show(f'<p class="none">{html.escape(table.caption)}: nothing was measured.</p>')
            return
        table.write(self.output / "tables")
        files = self._downloads("tables", table.name, ("csv", "rst", "md"))
        _show(f'{table.html()}<p class="downloads">{files}</p>')

    # -- figures -----------------------------------------------------------------------------------------------------

    def trend(
        self, name: str, metric: str, *, x: str, x_title: str, y_title: str, series: str, views: Views, caption: str,
    ) -> None:  # fmt: skip
        """The metric against a numeric column of the case table, log-log, one panel a view."""
        style = self.style(series)
        points = {view: self._points(metric, series, where, x) for view, where in views.items()}
        points = {view: frame for view, frame in points.items() if not frame.is_empty()}
        together = pl.concat(points.values()) if points else pl.DataFrame()
        if together.is_empty():
            return _show(f'<p class="none">{html.escape(caption)} Nothing was measured.</p>')
        sizes = sorted(set(together["x"].to_list()))
        unit = together["unit"][0]
        panels = []
        for view, frame in points.items():
            estimates = self._estimates_frame(metric, series, views[view], x)
            y = Axis(y_title, unit, shared=together["y"].to_list())
            panels.append(trend_panel(view, frame, estimates, Axis(x_title, "B", values=sizes), y, style))
        self._show_figure(name, caption, panels, style, together)

    def strip(
        self, name: str, metrics: Mapping[str, str], *, series: str, where: Where, value_title: str, caption: str,
        references: Mapping[str, Sequence[Reference]] | None = None, log: bool = False,
    ) -> None:  # fmt: skip
        """Every trial of each series on one axis, a panel a metric, with published reference lines."""
        style = self.style(series, where)
        panels, frames = [], []
        for metric, title in metrics.items():
            frame = self._points(metric, series, where)
            if frame.is_empty():
                continue
            frame = frame.with_columns(x=pl.col("y"))
            estimates = self._estimates_frame(metric, series, where).with_columns(x=pl.col("y"))
            axis = Axis(value_title, frame["unit"][0], log=log)
            panels.append(
                strip_panel(title, frame, estimates, axis, style, (references or {}).get(metric, ()))
            )
            frames.append(frame)
        if not panels:
            return _show(f'<p class="none">{html.escape(caption)} Nothing was measured.</p>')
        self._show_figure(name, caption, panels, style, pl.concat(frames), legend=False)

    def cdf(self, name: str, *, series: str, op: str, kind: str, x_title: str, caption: str) -> None:
        """Shares of operations by latency, from the histograms of all trials laid together; a panel a job and operation."""
        latencies = self._histograms(kind)
        if latencies is None:
            return _show(f'<p class="none">{html.escape(caption)} No job measured latencies.</p>')
        latencies = latencies.with_columns(series=pl.Series(self._labels(latencies, series), dtype=pl.String))
        steps = histograms.cumulative(latencies, ["job", op, "series"]).filter(pl.col("count") > 0)
        steps = steps.with_columns(
            x=pl.col("upper_s").round_sig_figs(4),
            fraction=pl.col("fraction").round(5),
            **{"tip share": (pl.col("fraction") * 100).round(3).cast(pl.String) + " %"},
        )
        axis = Axis(x_title, "s", shared=steps["x"].to_list())
        style = Style(tuple(steps["series"].unique(maintain_order=True).to_list()))
        panels = [
            cdf_panel(
                f"{job}: {operation}", frame.select("series", "x", "fraction", "tip share"), axis, style
            )
            for (job, operation), frame in steps.group_by("job", op, maintain_order=True)
        ]
        self._show_figure(name, caption, panels, style, steps)

    def percentiles(self, name: str, percentiles: Sequence[float], *, kind: str, caption: str) -> None:
        """Percentiles of merged histograms, each the bucket it lies in; below it what single trials say."""
        latencies = self._histograms(kind)
        if latencies is None:
            return _show(f'<p class="none">{html.escape(caption)}: no job measured latencies.</p>')
        keys = ["target", "case", "directory", "job", "op"]
        totals = (
            histograms.merge_histograms(latencies, keys)
            .group_by(keys, maintain_order=True)
            .agg(pl.col("count").sum())
        )
        found = {
            (p, *row[:5]): row[6:]
            for p in percentiles
            for row in histograms.quantile_interval_from_histogram(latencies, p / 100, keys).iter_rows()
        }
        body = []
        for *key, count in totals.iter_rows():
            cells = [self._percentile_cell(kind, p, key, count, found[p, *key]) for p in percentiles]
            body.append((*map(Cell.text, (*key[2:], f"{count:,}")), *cells))
        heads = ("Directory", "Job", "Operation", "Operations merged", *(f"p{p:g}" for p in percentiles))
        self.show_table(Table(name, caption, heads, tuple(body)))

    def _percentile_cell(
        self, kind: str, percentile: float, key: Sequence[str], count: int, bucket: tuple[float, ...]
    ) -> Cell:
        target, case, _, _, op = key
        href = f"#{self.results.anchors[target, case]}"
        if not stats.supported(percentile, count):
            return Cell((f"needs {stats.smallest_n(percentile):,} operations",), href, "missing")
        lower, upper = bucket[-2:]
        unit = human.scale(upper, "s")
        estimate = self.results.estimate(f"{op}_{kind}_p{percentile:g}", target, case)
        lines = [f"{unit.number(lower)}–{unit.text(upper)}"]
        if estimate is not None and estimate.summary.median is not None:
            lines.append(f"trials: {human.evidence(estimate.summary, estimate.unit)}")
        return Cell(tuple(lines), href)

    def _histograms(self, kind: str) -> pl.DataFrame | None:
        """Histograms of one kind of latency with the levels of their cases; None when there are none."""
        series = self.results.series("latency_histogram")
        if series is None or series.is_empty():
            return None
        chosen = series.filter(pl.col("kind") == kind).join(self.results.cases, on=["target", "case"])
        return None if chosen.is_empty() else chosen

    def _show_figure(
        self,
        name: str,
        caption: str,
        panels: list[Panel],
        style: Style,
        data: pl.DataFrame,
        *,
        legend: bool = True,
    ) -> None:
        present = set(data["series"].to_list())
        shown = tuple(n for n in style.names if n in present) if legend else ()
        alt = f"{caption} The same figures stand in the tables of this page."
        figure = Figure(name, caption, alt, tuple(panels), style, shown)
        figure.write(self.output / "figures")
        _show(f'{figure.html()}<p class="downloads">{self._downloads("figures", name, ("svg", "png"))}</p>')

    def _points(self, metric: str, series: str, where: Where, x: str | None = None) -> pl.DataFrame:
        points = self.results.points(metric, where)
        columns = {"series": pl.Series(self._labels(points, series), dtype=pl.String)}
        if x is not None:
            columns["x"] = points[x].cast(pl.Float64)
        value_texts = [human.quantity(v, u) for v, u in points.select("value", "unit").iter_rows()]
        return points.with_columns(**columns).select(
            "series",
            *(["x"] if x is not None else []),
            pl.col("value").alias("y"),
            "unit",
            "trial",
            pl.Series("tip value", value_texts, dtype=pl.String),
            (pl.col("trial") + " in block " + pl.col("block").cast(pl.String)).alias("tip trial"),
        )

    def _labels(self, frame: pl.DataFrame, series: str) -> list[str]:
        return [self._label(row, series) for row in frame.iter_rows(named=True)]

    def _label(self, levels: Mapping[str, Any], series: str) -> str:
        name = str(levels[series])
        return name if len(self.results.targets) < 2 else f"{name} on {levels['target']}"

    def _estimates_frame(self, metric: str, series: str, where: Where, x: str | None = None) -> pl.DataFrame:
        rows = [
            {
                "series": self._label(e.levels, series),
                **({"x": float(e.levels[x])} if x is not None else {}),
                "y": e.summary.median,
                "low": e.summary.interval_low,
                "high": e.summary.interval_high,
                "tip median": human.quantity(e.summary.median, e.unit),
                "tip evidence": human.evidence(e.summary, e.unit),
            }
            for e in self.results.estimates(metric, where)
            if e.summary.median is not None
        ]
        numbers = {n: pl.Float64 for n in (*(["x"] if x is not None else []), "y", "low", "high")}
        schema = {"series": pl.String, **numbers, "tip median": pl.String, "tip evidence": pl.String}
        return pl.DataFrame(rows, schema=schema)

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
        _show(evidence.weaknesses(self.results, self._indexes, extra))

    def trials(self, metrics: Sequence[str]) -> None:
        """Every trial with its command and raw files, and the estimates of every metric as a CSV file."""
        estimates = [e for metric in self.results.metrics for e in self.results.estimates(metric)]
        evidence.write_estimates(estimates, self.output / "tables" / "estimates.csv")
        _show(
            f'<p class="downloads">Every estimate of every metric, in base units: '
            f"{self._downloads('tables', 'estimates', ('csv',))}</p>"
            + evidence.trials(self.results, metrics, self.root, self.output.parent)
        )

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
    return " · ".join(str(level) for level in levels if level is not None)


def _apart(a: Estimate, b: Estimate) -> bool:
    """Whether the intervals of two medians do not touch: the least that naming an order asks for."""
    ends = (a.summary.interval_low, a.summary.interval_high, b.summary.interval_low, b.summary.interval_high)
    return None not in ends and (ends[1] < ends[2] or ends[3] < ends[0])


def _show(content: str) -> None:
    display(HTML(content))
