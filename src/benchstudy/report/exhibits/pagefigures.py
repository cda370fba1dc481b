"""The figures of a family's page."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import polars as pl

from benchstudy.report import human
from benchstudy.report.exhibits import cells, figuredata
from benchstudy.report.exhibits.exhibits import Exhibits
from benchstudy.report.figures import off_axis
from benchstudy.report.figures.panels import Axis, Panel, Reference, Style, cdf_panel, strip_panels, trend_panel
from benchstudy.report.results.results import Results, Titled, Where
from benchstudy.report.scrutiny import disturbed

# Choices of cases, each by the title of its panel or table.
Views = Mapping[str, Where]


class PageFigures(Exhibits):
    """Methods that show figures. Every trial is a point, and links to its command and files."""

    results: Results

    def show_figure(self, name: str, caption: str, panels: Sequence[Panel], *rest: Any, **options: Any) -> None:
        """Show and write a figure. If trials were disturbed, the caption says so."""
        chosen = frozenset[str]().union(*(panel.drawn for panel in panels))
        said = disturbed.of_drawn(self.results, chosen) if chosen else disturbed.of_page(self.results)
        if said and any(panel.trials for panel in panels):
            said = f"{said.removesuffix('.')} (struck through)."
        super().show_figure(name, f"{caption} {said}".rstrip(), panels, *rest, **options)

    def trend(
        self, name: str, metric: str, *, x: str, x_title: str, series: str, views: Views, caption: str,
        y_title: str = "", x_unit: str = "B", fitted: pl.DataFrame | None = None,
    ) -> None:  # fmt: skip
        """Plot a metric against a numeric column of the case table, log-log, one panel per view.

        `y_title` replaces the metric's title. `x_unit` is the base unit of the column. `fitted` has laws to draw
        through the points, with their intervals; `figuredata.curves` describes its rows.
        """
        style = figuredata.style(self.results, series, x=x)
        points = {view: figuredata.points(self.results, metric, series, where, x) for view, where in views.items()}
        points = {view: frame for view, frame in points.items() if not frame.is_empty()}
        failed = self.not_drawn([metric], views.values())
        if not points:
            return self._not_measured(caption, failed)
        lines = {view: frame for view, frame in points.items() if frame["x"].n_unique() > 1}
        lone = {view: frame for view, frame in points.items() if view not in lines}
        # A single point is no trend: the tables have its figure, and the panel is folded, in a figure of its own. In
        # the figure of the others, it would decide their scale.
        single = f"{human.plural(len(lone), 'panel')} with a single point per series ({human.noun(x_title)})"
        for stem, frames in ((name, lines), (f"{name}-single" if lines else name, lone)):
            if not frames:
                continue
            together = pl.concat(frames.values())
            sizes, unit = sorted(set(together["x"].to_list())), together["unit"][0]
            y = Axis(y_title or self.results.declared(metric).title, unit, shared=together["y"].to_list())
            x_axis = Axis(x_title, x_unit, log=sizes[0] > 0, values=sizes, shared=sizes)  # levels may be zero
            panels: list[Panel] = []
            law = ""
            for view, frame in frames.items():
                estimates = figuredata.estimates(self.results, metric, series, views[view], x)
                curves = None if fitted is None else figuredata.curves(self.results, fitted, series, views[view], x)
                if curves is not None and not curves.is_empty():
                    law = " (a line with a band: the fitted law, with its 95 % interval)"
                panels.append(trend_panel(view, frame, estimates, x_axis, y, style, curves=curves))
            drawn = f"Hollow points: trials; filled points and lines: medians{law}; upright bars: their 95 % intervals"
            scale = f"{'both axes' if sizes[0] > 0 else 'vertical axis'} logarithmic"
            said = f"{_stopped(caption)} {drawn}; {_counted(frames.values(), 'x')}; {scale}."
            with nullcontext() if frames is lines else self.folded(single):
                self.show_figure(stem, said, panels, style, together["series"], failed=failed)
            failed = ""

    def strip(
        self, name: str, metrics: Titled, *, series: str, where: Where, value_title: str, caption: str,
        references: Mapping[str, Sequence[Reference]] | None = None, log: bool = False,
    ) -> None:  # fmt: skip
        """Plot every trial of each series on one axis, one panel per metric, with published reference lines."""
        style = figuredata.style(self.results, series, where)
        failed = self.not_drawn(metrics, [where])
        panels: list[Panel] = []
        drawn = []
        for metric, title in self.results.titles(metrics).items():
            frame = figuredata.points(self.results, metric, series, where)
            if frame.is_empty():
                continue
            estimates = figuredata.estimates(self.results, metric, series, where)
            axis = Axis(value_title, frame["unit"][0], log=log)
            drawn.append(frame)
            panels += strip_panels(title, frame, estimates, axis, style, (references or {}).get(metric, ()))
        if not panels:
            return self._not_measured(caption, failed)
        said = f"{_stopped(caption)} {of_strips(drawn)}{'; logarithmic axis' if log else ''}."
        self.show_figure(name, said, panels, style, failed=failed)

    def not_drawn(self, metrics: Iterable[str], views: Iterable[Where]) -> str:
        """Names the chosen cases all of whose trials failed, with the reason, because they have no point."""
        failed = {
            (estimate.target, estimate.case): cells.failures(estimate)[0]
            for where in views
            for metric in metrics
            for estimate in self.results.estimates(metric, where)
            if not estimate.values and estimate.failed == estimate.results
        }
        named = [f"{self.results.case_name(*key)}: {why}" for key, why in failed.items()]
        return off_axis.sentence("Not drawn, because every trial failed", named)

    def latency_cdf(self, name: str, *, series: str, kind: str, caption: str) -> None:
        """Plot shares of operations by latency, from merged histograms, one panel per job and operation."""
        histogram = figuredata.latencies(self.results, kind)
        if histogram is None:
            return self._not_measured(caption)
        self.cdf(name, histogram, series=series, panels=["job", "op"], caption=caption)

    def cdf(
        self, name: str, histogram: pl.DataFrame | None, *, series: str, panels: Sequence[str], caption: str,
        ordered: bool = False,
    ) -> None:  # fmt: skip
        """Plot shares of operations by latency, from merged histograms, one panel per combination of `panels`.

        `histogram` has the columns target, case, the case's levels (`panels` are some of these), lower_s, upper_s and
        count; it is None if nothing was measured. `ordered`: the levels of the series are numbers.
        """
        if histogram is None or histogram.is_empty():
            return self._not_measured(caption)
        steps = figuredata.cumulative_steps(self.results, histogram, series, panels)
        caption = f"{_stopped(caption)} The axis of latencies is logarithmic."
        axis = Axis("Latency", "s", shared=steps["x"].to_list())
        found = set(steps["series"])
        in_order = figuredata.style(self.results, series, ordered=ordered).names
        style = Style(tuple(name for name in in_order if name in found), ordered)
        several: list[Panel] = []
        lone: list[Panel] = []
        shown: dict[bool, list[str]] = {True: [], False: []}
        for key, frame in steps.group_by(panels, maintain_order=True):
            of_panel = frame["series"].unique().to_list()
            (several if of_panel[1:] else lone).append(
                cdf_panel(": ".join(map(str, key)), frame.drop(panels), axis, style)
            )
            shown[len(of_panel) > 1] += of_panel
        legend = series.capitalize()
        if several:
            self.show_figure(name, caption, several, style, shown[True], legend=legend)
        if lone:
            stem = f"{name}-single" if several else name
            folded = self.folded(f"{human.plural(len(lone), 'panel')} with a single line ({series})")
            with folded if several else nullcontext():
                self.show_figure(stem, caption, lone, style, shown[False], legend=legend)


def _stopped(caption: str) -> str:
    return caption if caption.endswith(".") else f"{caption}."


def of_strips(panels: Iterable[pl.DataFrame]) -> str:
    """What a caption says of strips with these points, without a full stop."""
    return f"Points: trials; upright strokes: medians; bands: their 95 % intervals; {_counted(panels)}"


def _counted(panels: Iterable[pl.DataFrame], *x: str) -> str:
    """The number of trials per series and panel, and per x if given: "n = 6", or the range "n = 4–6"."""
    counts = [count for points in panels for count in points.group_by("series", *x).len()["len"]]
    low, high = min(counts), max(counts)
    return f"n = {low}" if low == high else f"n = {low}–{high}"
