"""The layout of the page, which depends on the factors and metrics that the study declares."""

import itertools
from collections.abc import Iterator, Mapping

import polars as pl

from benchstudy.families.command.config import COMMAND
from benchstudy.families.command.metrics import METRICS
from benchstudy.model.metrics import measured_for
from benchstudy.report import human
from benchstudy.report.exhibits import figuredata
from benchstudy.report.exhibits.pagefigures import of_strips
from benchstudy.report.figures.panels import Axis, Panel, Style, strip_panels, time_panel, trend_panel
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results, Where
from benchstudy.statistics.stats import smallest_n

_MOST_VIEWS = 12  # tables and panels of one kind
_STEPS = 200  # number of time steps in a figure of a run
_NUMBERS = (("_number", "1"), ("_bytes", "B"))

_RESOURCES = {
    "times": ("Time and memory per run", ("wall_time", "user_time", "system_time", "peak_memory")),
    "waits": (
        "Page faults and context switches per run",
        ("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"),
    ),
    "bytes": ("Bytes per run", ("bytes_read", "bytes_written", "storage_read", "storage_written")),
}


class Layout:
    """The order of a page's figures. `series`: the factor whose levels are compared side by side.

    It is the command if there are several, else the last factor that varies and is not numeric.
    """

    def __init__(self, page: Page):
        self.results = results = page.results
        self.varying = [factor for factor in results.factors if len(results.levels(factor)) > 1]
        texts = [factor for factor in self.varying if self.column(factor) is None]
        self.series = COMMAND if COMMAND in texts else next(reversed(texts or self.varying), COMMAND)
        numbers = [factor for factor in self.varying if factor != self.series and self.column(factor)]
        self.number = next(reversed(numbers), None)
        # The primary metrics come first. If every trial failed, the page says so of the one that each command has.
        self.primary = list(results.primary_metrics) or measured_for(METRICS, METRICS)
        self.own = [metric for metric in results.metrics if metric not in METRICS and metric not in self.primary]
        self._declared = {c["name"]: c.get("metrics", {}) for c in page.declared.get("commands", ())}

    @property
    def by(self) -> str:
        """The factor of the series as the end of a title; empty if it is the command."""
        return "" if self.series == COMMAND else f", by {self.series.replace('_', ' ')}"

    def column(self, factor: str) -> tuple[str, str] | None:
        """The numeric column of a factor and its unit."""
        columns = self.results.cases.columns
        return next(((factor + end, unit) for end, unit in _NUMBERS if factor + end in columns), None)

    def views(self, metric: str = "", *, numbered: bool | None = None) -> dict[str, Where]:
        """Choices of cases for a metric, by title: one per combination of the levels of all factors but `series`.

        `numbered`: True: only cases with a level of the factor `number`; False: only cases without one.
        """
        number = self.number if numbered is not None else None
        others = [factor for factor in self.varying if factor not in (self.series, number)]
        groups: dict[tuple[str | None, ...], dict[str, None]] = {}
        for row in self.results.cases.iter_rows(named=True):
            command = str(row[COMMAND])
            if not self.gives(command, metric) or (number and numbered is (row[number] is None)):
                continue
            groups.setdefault(tuple(row[factor] for factor in others), {})[command] = None
        # The levels of a factor do not identify commands that lack it.
        every = self.results.levels(COMMAND)
        found: dict[str, Where] = {}
        for levels, commands in itertools.islice(groups.items(), _MOST_VIEWS):
            where: dict[str, str | list[str]] = {f: v for f, v in zip(others, levels, strict=True) if v is not None}
            named = ", ".join(f"{f.replace('_', ' ')} {human.level(str(v))}" for f, v in where.items())
            found[named] = where if len(commands) == len(every) else {**where, COMMAND: list(commands)}
        return found

    def gives(self, command: str, metric: str) -> bool:
        """Whether the command declares the metric. A command that is imported under another name may have any."""
        return metric in METRICS or not metric or metric in self._declared.get(command, [metric])

    def title_of_axis(self, metric: str) -> str:
        better = self.results.declared(metric).better
        return f"{self.title(metric)} ({better} is better)" if better else self.title(metric)

    def title(self, metric: str, view: str = "") -> str:
        return " · ".join(part for part in (self.results.declared(metric).title, view) if part)


def answers(page: Page, layout: Layout) -> None:
    """Show every primary metric for each combination of the other factors."""
    groups = {
        f"{layout.title(metric, view)}{layout.by}": (metric, where)
        for metric in layout.primary
        for view, where in layout.views(metric).items()
    }
    page.answer(groups, series=layout.series)


def figures(page: Page, layout: Layout) -> None:
    """Show each primary metric against the last numeric factor, or as single trials for commands without one."""
    for metric in layout.primary:
        name = metric
        numbered = layout.views(metric, numbered=True) if layout.number else {}
        if layout.number is not None and numbered:
            column, unit = layout.column(layout.number) or ("", "")
            word = layout.number.replace("_", " ")
            named = {view or layout.title(metric): where for view, where in numbered.items()}
            page.trend(
                metric, metric, x=column, x_unit=unit, x_title=word.capitalize(), series=layout.series, views=named,
                caption=f"{layout.title(metric)}, by {word}.",
            )  # fmt: skip
            name = f"{metric}-apart"
        views = layout.views(metric, numbered=False)
        strips = {
            view: figuredata.points(layout.results, metric, layout.series, where) for view, where in views.items()
        }
        strips = {view: points for view, points in strips.items() if not points.is_empty()}
        panels = list(_strips(layout, metric, views, strips))
        if panels or name == metric:
            style = figuredata.style(layout.results, layout.series)
            failed = page.not_drawn([metric], views.values())
            said = f"{layout.title(metric)}{layout.by}. {f'{of_strips(strips.values())}.' if strips else ''}".strip()
            page.show_figure(name, said, panels, style, list(style.names), failed=failed)


def _strips(
    layout: Layout, metric: str, views: Mapping[str, Where], strips: Mapping[str, pl.DataFrame]
) -> Iterator[Panel]:
    style = figuredata.style(layout.results, layout.series)
    for view, points in strips.items():
        estimates = figuredata.estimates(layout.results, metric, layout.series, views[view])
        axis = Axis(layout.title(metric), points["unit"][0], log=False, from_zero=False)
        title = view or layout.title(metric)
        yield from strip_panels(title, points, estimates, axis, style)


def pairs(page: Page, layout: Layout) -> None:
    """Show the first primary metric against each further one, with one point per trial and a line through medians."""
    results = layout.results
    if len(layout.primary) < 2:
        page.say(["The study has only one primary metric."])
    style = figuredata.style(results, layout.series)
    for first, other in ((layout.primary[0], other) for other in layout.primary[1:]):
        across = results.points(other).select("trial", x="value", x_unit="unit")
        points = figuredata.points(results, first, layout.series, {}).drop("x").join(across, on="trial")
        if points.is_empty():
            continue
        x = Axis(layout.title_of_axis(other), points["x_unit"][0], shared=points["x"].to_list())
        y = Axis(layout.title_of_axis(first), points["unit"][0], shared=points["y"].to_list())
        medians = _medians(layout, first, other)
        panel = trend_panel("", points.drop("x_unit"), medians, x, y, style, apart=False, case=("series",))
        titles = f"{layout.title(first)} against {layout.title(other)}"
        caption = (
            f"{titles}. Points are trials, the line connects the medians of cases, and bars are 95 % intervals of the "
            "first metric."
        )
        page.show_figure(f"{first}-{other}", caption, [panel], style, points["series"].to_list())


def _medians(layout: Layout, first: str, other: str) -> pl.DataFrame:
    """One row per case: series, x, y, low, high, its position in the study, and tooltips."""
    rows = []
    for order, levels in enumerate(layout.results.select().iter_rows(named=True)):
        y, x = (layout.results.estimate(metric, levels["target"], levels["case"]) for metric in (first, other))
        if x is None or y is None or x.summary.median is None or y.summary.median is None:
            continue
        rows.append(
            {
                "series": figuredata.label(layout.results, levels, layout.series),
                "x": x.summary.median,
                "y": y.summary.median,
                "low": y.summary.interval_low,
                "high": y.summary.interval_high,
                "order": order,
                "tip case": layout.results.case_name(levels["target"], levels["case"]),
                "tip evidence": human.evidence(y.summary, y.unit),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64}, infer_schema_length=None)


def comparisons(page: Page, layout: Layout) -> None:
    """Compare the levels of each varying factor with its first level, in every primary metric."""
    agreeing = {metric: n for metric in layout.primary if (n := _agreeing(layout.results, metric))}
    exact = [metric for metric, n in agreeing.items() if n >= smallest_n(50)]
    if exact:
        titles = " and ".join(layout.title(metric) for metric in exact)
        rounded = "unless the clock or the tool rounds"
        page.say([f"{titles}: all trials of a case agree to the last digit, so differences need no test {rounded}."])
    page.say(
        f"{layout.title(metric)}: all trials of a case agree to the last digit, {n} of {n} trials of the case with the "
        f"fewest. So few do not show that a figure is exact, and have no interval, which needs {smallest_n(50)} trials."
        for metric, n in agreeing.items()
        if metric not in exact
    )
    compared = [m for m in layout.primary if m not in exact and layout.results.declared(m).better]
    for factor in layout.varying if compared else ():
        name = factor.replace("_", " ")
        page.compare(
            f"by-{factor.replace('_', '-')}",
            compared,
            factor=factor,
            # A session identifies each program once, by its path. Programs differ only if the study names two.
            across_tools=True,
            gives=lambda metric, levels: layout.gives(str(levels[COMMAND]), metric),
            caption=f"By {name}, each against the first one",
        )


def _agreeing(results: Results, metric: str) -> int:
    """The number of trials of the case with the fewest if each case has several and all have one value; else 0.

    Such is the size of a reproducible output.
    """
    values = [[value for _, value, _ in trials] for trials in results.by_case(metric).values()]
    agree = all(len(of_case) > 1 and len(set(of_case)) == 1 for of_case in values)
    return min(map(len, values), default=0) if agree else 0


def over_time(page: Page, layout: Layout) -> None:
    """Show each series of the commands as a figure with one panel per view, and the median of trials as a line."""
    samples = layout.results.series("samples")
    if samples is None or samples.is_empty():
        return page.say(["No command of this study declares a series over time."])
    found = samples.join(layout.results.cases, on=["target", "case"])
    style = figuredata.style(layout.results, layout.series)
    for (name,), rows in found.group_by("series", maintain_order=True):
        title = str(name).replace("_", " ").capitalize()
        y = Axis(title, rows["unit"][0], log=False)
        panels = [_time(layout, view, y, rows, where, style) for view, where in layout.views().items()]
        drawn = [panel for panel in panels if panel is not None]
        caption = f"{title} during a run, as the median of trials at each time."
        page.show_figure(f"series-{name}", caption, drawn, style, list(style.names))


def _time(layout: Layout, view: str, y: Axis, rows: pl.DataFrame, where: Where, style: Style) -> Panel | None:
    cases = layout.results.select(where).select("target", "case")
    chosen = rows.join(cases, on=["target", "case"], how="semi")
    if chosen.is_empty():
        return None
    labels = [figuredata.label(layout.results, row, layout.series) for row in chosen.iter_rows(named=True)]
    # Runs print their values at different times, so times are rounded to common steps.
    step = max(*chosen["x_s"].to_list(), _STEPS * 1e-9) / _STEPS
    lines = (
        chosen.select(pl.Series("series", labels), ((pl.col("x_s") / step).round() * step).alias("x"), "value")
        .group_by("series", "x", maintain_order=True)
        .agg(pl.col("value").median().alias("y"))
        .with_columns(line=pl.lit("median"))
        .sort("series", "x")
    )
    return time_panel(view, lines, Axis("Time since the start of the run", "time", log=False), y, style)


def resources(page: Page, layout: Layout) -> None:
    """Show the resource usage of every command, in tables that fit on a screen."""
    for name, (caption, metrics) in _RESOURCES.items():
        given = [metric for metric in metrics if metric in layout.results.metrics]
        page.metrics_table(name, given, rows=factors(layout), caption=f"{caption}, median over trials")


def further(page: Page, layout: Layout) -> None:
    """Show the metrics that the study declares besides the primary ones."""
    if not layout.own:
        return page.say(["The study declares no further metrics."])
    page.metrics_table("further", layout.own, rows=factors(layout), caption="Further metrics, median over trials")


def factors(layout: Layout) -> list[str]:
    return layout.varying or [COMMAND]


def shown(layout: Layout) -> list[str]:
    return list(dict.fromkeys([*layout.primary, *layout.own, "wall_time"]))
