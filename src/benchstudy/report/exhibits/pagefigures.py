"""The figures that a family's page makes of its results."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.report.exhibits import figuredata
from benchstudy.report.exhibits.exhibits import Exhibits
from benchstudy.report.figures.panels import Axis, Panel, Reference, Style, cdf_panel, strip_panel, trend_panel
from benchstudy.report.results.results import Results, Titled, Where
from benchstudy.report.scrutiny import disturbed

# Choices of cases, each under the title of its panel or table.
Views = Mapping[str, Where]


class PageFigures(Exhibits):
    """Every trial is a point in them, and leads to its command and files."""

    results: Results

    def show_figure(self, name: str, caption: str, panels: Sequence[Panel], *rest: Any, **options: Any) -> None:
        said = disturbed.of_page(self.results)
        if said and any(panel.trials for panel in panels):
            said = f"{said.removesuffix('.')} (struck through)."
        super().show_figure(name, f"{caption} {said}".rstrip(), panels, *rest, **options)

    def trend(
        self, name: str, metric: str, *, x: str, x_title: str, series: str, views: Views, caption: str,
        y_title: str = "", x_unit: str = "B", fitted: pl.DataFrame | None = None,
    ) -> None:  # fmt: skip
        """The metric against a numeric column of the case table, log-log, one panel a view.

        `y_title`: where it is another than the metric's. `x_unit`: the base unit of that column. `fitted`: laws to draw
        through the points, with their intervals (rows as `figuredata.curves` wants them).
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
            y = Axis(y_title or self.results.declared(metric).title, unit, shared=together["y"].to_list())
            x_axis = Axis(x_title, x_unit, values=sizes, shared=sizes)
            curves = None if fitted is None else figuredata.curves(self.results, fitted, series, views[view])
            panels.append(trend_panel(view, frame, estimates, x_axis, y, style, curves=curves))
        self.show_figure(name, caption, panels, style, together["series"].to_list())

    def strip(
        self, name: str, metrics: Titled, *, series: str, where: Where, value_title: str, caption: str,
        references: Mapping[str, Sequence[Reference]] | None = None, log: bool = False,
    ) -> None:  # fmt: skip
        """Every trial of each series on one axis, a panel a metric, with published reference lines."""
        style = figuredata.style(self.results, series, where)
        panels = []
        for metric, title in self.results.titles(metrics).items():
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
