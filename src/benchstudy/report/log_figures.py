"""Figures of write tests: what became of rising rates, past saturation too, and one trial over its time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.report import human
from benchstudy.report.log_write import LogWrite, Point, Sweep
from benchstudy.report.panels import Axis, Panel, Style, time_panel, trend_panel

AS_OFFERED = "all that was offered"
_LATENCIES = {
    "integrate_p99": "Time to integrate, p99",
    "integrate_p50": "Time to integrate, p50",
    "queue_p99": "Time in queue, p99",
}
_NUMBER = pl.Float64
_ESTIMATES = {
    "series": pl.String, "x": _NUMBER, "y": _NUMBER, "low": _NUMBER, "high": _NUMBER, "tip offered": pl.String,
    "tip median": pl.String, "tip evidence": pl.String,
}  # fmt: skip
_POINTS = {"series": pl.String, "trial": pl.String, "x": _NUMBER, "y": _NUMBER, "tip offered": pl.String,
           "tip value": pl.String}  # fmt: skip


class LogFigures:
    def __init__(self, load: LogWrite):
        self.load = load

    # -- the hockey stick ------------------------------------------------------------------------------------------

    def hockey_sticks(self) -> Iterator[tuple[str, list[Panel], Style]]:
        """For each log (its name): achieved and latencies against the offered rate, without and with dedup."""
        for sweeps in self.load.subjects(is_open=True):
            if max(len(sweep.points) for sweep in sweeps) < 2:
                continue
            panels = [*self._achieved(sweeps), *self._latencies(sweeps)]
            if panels:
                yield self._name(sweeps), panels, self.style(sweeps)

    def style(self, sweeps: Sequence[Sweep]) -> Style:
        return Style((*(sweep.dedup for sweep in sweeps), AS_OFFERED))

    def _name(self, sweeps: Sequence[Sweep]) -> str:
        return self.load.name(sweeps[0], dedup=False, generator=False)

    def _achieved(self, sweeps: Sequence[Sweep]) -> Iterator[Panel]:
        points, estimates = self._frames(sweeps, "qps")
        if points.is_empty():
            return
        rates = sorted({p.rate for s in sweeps for p in s.points if p.rate is not None})
        ends = [float(rates[0]), float(rates[-1])]
        line = {"series": [AS_OFFERED] * 2, "x": ends, "y": ends, "low": ends, "high": ends}
        x, y = self._rates(rates), Axis("Integrated leaves a second", "1/s", shared=ends)
        yield trend_panel(
            "Achieved", points, estimates, x, y, self.style(sweeps), curves=pl.DataFrame(line), apart=False
        )

    def _latencies(self, sweeps: Sequence[Sweep]) -> Iterator[Panel]:
        frames = {metric: self._frames(sweeps, metric) for metric in _LATENCIES}
        shared = [y for points, _ in frames.values() for y in points["y"].to_list()]
        rates = sorted({p.rate for s in sweeps for p in s.points if p.rate is not None})
        for metric, title in _LATENCIES.items():
            points, estimates = frames[metric]
            if not points.is_empty():
                y = Axis(title, "s", shared=shared)
                yield trend_panel(title, points, estimates, self._rates(rates), y, self.style(sweeps), apart=False)

    @staticmethod
    def _rates(rates: Sequence[float]) -> Axis:
        return Axis("Offered leaves a second", "1/s", values=rates, shared=rates)

    def _frames(self, sweeps: Sequence[Sweep], metric: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Trials, and medians with their intervals, over the offered rate."""
        points: list[dict[str, Any]] = []
        estimates: list[dict[str, Any]] = []
        for sweep in sweeps:
            for point in sweep.points:
                found = self.load.estimate(metric, sweep, point)
                if found is None or found.summary.median is None:
                    continue
                common = {"series": sweep.dedup, "x": point.rate, "tip offered": point.level}
                points += [
                    common
                    | {"trial": trial, "y": values[metric], "tip value": human.quantity(values[metric], found.unit)}
                    for trial, values in self.load.trials(sweep, point).items()
                    if values.get(metric)
                ]
                summary = found.summary
                estimates.append(
                    common
                    | {
                        "y": summary.median,
                        "low": summary.interval_low,
                        "high": summary.interval_high,
                        "tip median": human.quantity(summary.median, found.unit),
                        "tip evidence": human.evidence(summary, found.unit),
                    }
                )
        return pl.DataFrame(points, schema=_POINTS), pl.DataFrame(estimates, schema=_ESTIMATES)

    # -- over time -------------------------------------------------------------------------------------------------

    def over_time(self) -> Iterator[tuple[str, str, list[Panel], Style]]:
        """For each log under open loops (its name, which trials): tree size, QPS, queue and integrate over a trial.

        The trial is the one nearest to the median of the rate at which most was integrated.
        """
        for sweeps in self.load.subjects(is_open=True):
            chosen = [
                (sweep, best[0], trial)
                for sweep in sweeps
                if (best := self._shown(sweep)) and (trial := self.load.typical(sweep, best[0]))
            ]
            panels = list(self._time_panels(chosen))
            if panels:
                which = ", ".join(f"{s.dedup}: {p.level}, trial {trial}" for s, p, trial in chosen)
                yield self._name(sweeps), which, panels, Style(tuple(s.dedup for s, _, _ in chosen))

    def _shown(self, sweep: Sweep) -> tuple[Point, Any] | None:
        """A fixed rate where there is one: the windows of a search follow one another at other rates."""
        known = [
            (point, median) for point in sweep.points if (median := self.load.median("qps", sweep, point)) is not None
        ]
        return max(known, key=lambda pair: pair[1], default=None)

    def _time_panels(self, chosen: Sequence[tuple[Sweep, Point, str]]) -> Iterator[Panel]:
        style = Style(tuple(sweep.dedup for sweep, _, _ in chosen))
        drawn = {
            "Tree size": ("growth", {"size": ""}, Axis("Leaves", "1", log=False)),
            "Integrated a second": ("growth", {"qps": ""}, Axis("Leaves a second", "1/s", log=False)),
            "Time in queue": ("latency", {"queue_p99_s": "p99", "queue_p50_s": "p50"}, Axis("Seconds", "s", log=False)),
            "Time to integrate": (
                "latency",
                {"integrate_p99_s": "p99", "integrate_p50_s": "p50"},
                Axis("Seconds", "s", log=False),
            ),
        }
        for title, (series, columns, axis) in drawn.items():
            lines = self._lines(chosen, series, columns)
            if not lines.is_empty():
                named = f"{title}: p99, and p50 dashed" if len(columns) > 1 else title
                yield time_panel(named, lines, Axis("Since the load began", "s", log=False), axis, style)

    def _lines(
        self, chosen: Sequence[tuple[Sweep, Point, str]], series: str, columns: Mapping[str, str]
    ) -> pl.DataFrame:
        rows = self.load.results.series(series)
        schema = {"series": pl.String, "line": pl.String, "x": _NUMBER, "y": _NUMBER}
        if rows is None:
            return pl.DataFrame(schema=schema)
        found = [
            rows.filter(pl.col("trial") == trial)
            .drop_nulls(column)
            .select(
                pl.lit(sweep.dedup).alias("series"),
                pl.lit(line).alias("line"),
                pl.col("t_s").cast(_NUMBER).alias("x"),
                pl.col(column).cast(_NUMBER).alias("y"),
            )
            for column, line in columns.items()
            for sweep, _, trial in chosen
        ]
        return pl.concat(found) if found else pl.DataFrame(schema=schema)
