"""Figures of write tests: achieved rates and times up to and past saturation, and one trial over time."""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from benchstudy.families.log_write.page.capacity import AS_OFFERED, crossed_out
from benchstudy.families.log_write.page.load import LogWrite, Point, Sweep
from benchstudy.report import human
from benchstudy.report.exhibits import cells, figuredata
from benchstudy.report.figures import level_changes
from benchstudy.report.figures.charts import Drawing
from benchstudy.report.figures.layers import drawn_only
from benchstudy.report.figures.level_changes import LevelChanges
from benchstudy.report.figures.panels import Axis, Panel, Phase, Reference, Style, time_panel, trend_panel
from benchstudy.report.tables.tables import slug

STYLE = Style(("no dedup", "dedup", AS_OFFERED))
_LATENCIES = {
    "integrate_p99": "Time to integrate, p99",
    "integrate_p50": "Time to integrate, p50",
    "queue_p99": "Time in queue, p99",
}
_NUMBER = pl.Float64
_SECOND_S = 1.0  # of leaves, whose times are one row; `t_s` is its start
# Checkpoints are seen at `t_s`; a rate covers the time since the one before.
_MIDDLES = {"size": pl.col("t_s"), "qps": (pl.col("t_s") + pl.col("t_s").shift(1)) / 2}


class LogFigures:
    def __init__(self, load: LogWrite):
        self.load = load

    # -- the hockey stick ------------------------------------------------------------------------------------------

    def saturation(self) -> Iterator[Drawing]:
        """For each log: achieved rate and times by offered rate, without and with dedup."""
        for sweeps in self.load.subjects(is_open=True):
            if max(len(sweep.points) for sweep in sweeps) < 2:
                continue
            panels = [*self._achieved(sweeps), *self._latencies(sweeps)]
            if panels:
                name = self._name(sweeps)
                caption = f"{name}: achieved rate and times by offered rate, open loop."
                failed = self._failed_at(sweeps)
                if failed:
                    told = ", ".join(f"{line.label} at {human.quantity(line.value, '1/s')}" for line in failed)
                    caption += f" A vertical line marks a rate at which no trial succeeded: {told}."
                    axis = self._rates(_all_rates(sweeps))
                    panels = [crossed_out(panel, failed, axis) for panel in panels]
                shown = [*(sweep.dedup for sweep in sweeps), AS_OFFERED]
                yield Drawing(slug(f"saturation-{name}"), caption, panels, STYLE, shown)

    def _failed_at(self, sweeps: Sequence[Sweep]) -> list[Reference]:
        """Rates at which every trial of a log failed, and why."""
        found: dict[float, list[str]] = {}
        for sweep in sweeps:
            for point in sweep.points:
                estimate = self.load.estimate("qps", point)
                if estimate is not None and estimate.failed and estimate.summary.median is None:
                    causes = dict.fromkeys(cells.short_cause(reason) for reason, _ in estimate.causes)
                    found.setdefault(point.rate or 0.0, []).append(f"{sweep.dedup}: {', '.join(causes)}")
        return [Reference(rate, "; ".join(whys)) for rate, whys in sorted(found.items())]

    def _name(self, sweeps: Sequence[Sweep]) -> str:
        return self.load.name(sweeps[0], dedup=False, generator=False)

    def _achieved(self, sweeps: Sequence[Sweep]) -> Iterator[Panel]:
        points, estimates = self._frames(sweeps, "qps")
        if points.is_empty():
            return
        rates = _all_rates(sweeps)
        ends = [float(rates[0]), float(rates[-1])]
        line = {"series": [AS_OFFERED] * 2, "x": ends, "y": ends, "low": ends, "high": ends}
        x, y = self._rates(rates), Axis("Integrated leaves per second", "1/s", shared=ends)
        yield trend_panel("Achieved", points, estimates, x, y, STYLE, curves=pl.DataFrame(line), apart=False)

    def _latencies(self, sweeps: Sequence[Sweep]) -> Iterator[Panel]:
        frames = {metric: self._frames(sweeps, metric) for metric in _LATENCIES}
        shared = [y for points, _ in frames.values() for y in points["y"].to_list()]
        rates = _all_rates(sweeps)
        for metric, title in _LATENCIES.items():
            points, estimates = frames[metric]
            if not points.is_empty():
                y = Axis(title, "s", shared=shared)
                yield trend_panel(title, points, estimates, self._rates(rates), y, STYLE, apart=False)

    @staticmethod
    def _rates(rates: Sequence[float]) -> Axis:
        return Axis("Offered leaves per second", "1/s", values=rates, shared=rates)

    def _frames(self, sweeps: Sequence[Sweep], metric: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Trials, and medians with their intervals, by offered rate."""
        cases = (
            (metric, point.key, {"series": sweep.dedup, "x": point.rate, "tip offered": point.level})
            for sweep in sweeps
            for point in sweep.points
        )
        return figuredata.of_cases(self.load.results, cases)

    # -- over time -------------------------------------------------------------------------------------------------

    def over_time(self) -> Iterator[Drawing]:
        """For each log under an open loop: tree size, QPS and times of the trial nearest to the median of a rate."""
        for sweeps in self.load.subjects(is_open=True):
            chosen = [
                (point, trial)
                for sweep in sweeps
                if (point := self.load.shown(sweep)) and (trial := self.load.typical(point))
            ]
            changes: dict[str, LevelChanges] = {}
            panels = drawn_only(self._time_panels(chosen, changes), [trial for _, trial in chosen])
            if panels:
                which = ", ".join(f"{p.sweep.dedup}: {p.level}, trial {trial}" for p, trial in chosen)
                name = self._name(sweeps)
                caption = (
                    f"{name}: tree size, QPS, time in queue and time to integrate ({which}). Tables cover only the "
                    "window; warm-up, cool-down and drain are shaded. In the drain nothing new is offered, and the "
                    "backlog is integrated. "
                    f"{level_changes.caption(changes, 'the window')}"
                ).strip()
                in_legend = [p.sweep.dedup for p, _ in chosen]
                yield Drawing(slug(f"time-{name}"), caption, panels, STYLE, in_legend)

    def _time_panels(self, chosen: Sequence[tuple[Point, str]], changes: dict[str, LevelChanges]) -> Iterator[Panel]:
        """The charts of a figure. Level changes within the window are added to `changes`, by title."""
        drawn = {
            "Tree size": ("growth", {"size": ""}, Axis("Leaves", "1", log=False)),
            "Integration rate": ("growth", {"qps": ""}, Axis("Leaves per second", "1/s", log=False)),
            "Time in queue": ("latency", {"queue_p99_s": "p99", "queue_p50_s": "p50"}, Axis("Seconds", "s", log=False)),
            "Time to integrate": (
                "latency",
                {"integrate_p99_s": "p99", "integrate_p50_s": "p50"},
                Axis("Seconds", "s", log=False),
            ),
        }
        phases = self._phases(chosen)
        for title, (series, columns, axis) in drawn.items():
            lines = self._lines(chosen, series, columns)
            if not lines.is_empty():
                named = f"{title}: p99, and p50 thin" if len(columns) > 1 else title
                window = next((phase for phase in phases if phase.measured), None)
                if window is not None and "size" not in columns:  # the tree grows all the time
                    changes[title] = level_changes.find(lines, window.start, window.end, axis.unit)
                x, found = Axis("Time since the load started", "s", log=False), changes.get(title)
                yield time_panel(named, lines, x, axis, STYLE, phases, changes=found, steps="size" not in columns)

    def _phases(self, chosen: Sequence[tuple[Point, str]]) -> list[Phase]:
        """The phases of the longest trial: all trials of a log have the same warm-up and window."""
        rows = self.load.results.series("phases")
        if rows is None or not chosen:
            return []
        mine = [rows.filter(pl.col("trial") == trial).sort("start_s") for _, trial in chosen]
        longest = max(mine, key=lambda frame: frame["end_s"].max() or 0.0)
        ordered = longest.select("phase", "start_s", "end_s").iter_rows()
        return [Phase(name, start, end, measured=name == "window") for name, start, end in ordered]

    def _lines(self, chosen: Sequence[tuple[Point, str]], series: str, columns: Mapping[str, str]) -> pl.DataFrame:
        rows = self.load.results.series(series)
        schema = {"series": pl.String, "line": pl.String, "x": _NUMBER, "y": _NUMBER}
        if rows is None:
            return pl.DataFrame(schema=schema)
        found = [
            rows.filter(pl.col("trial") == trial)
            .select(
                pl.lit(point.sweep.dedup).alias("series"),
                pl.lit(line).alias("line"),
                x=_MIDDLES.get(column, pl.col("t_s") + _SECOND_S / 2).cast(_NUMBER),
                y=pl.col(column).cast(_NUMBER),
            )
            .drop_nulls(["x", "y"])
            for column, line in columns.items()
            for point, trial in chosen
        ]
        return pl.concat(found) if found else pl.DataFrame(schema=schema)


def _all_rates(sweeps: Sequence[Sweep]) -> list[float]:
    return sorted({p.rate for s in sweeps for p in s.points if p.rate is not None})
