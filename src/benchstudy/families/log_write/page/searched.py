"""Figures of capacity searches: every attempt at every rate, and the rates at which servers died."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from benchstudy.families.log_write.page import reasons
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.model.causes import Cause
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits.figuredata import leading
from benchstudy.report.figures.charts import Drawn
from benchstudy.report.figures.layers import layered, reference_layers
from benchstudy.report.figures.panels import Axis, Panel, Reference, Style, trend_panel
from benchstudy.report.tables.tables import slug

AS_OFFERED = "achieved = offered"
_STYLE = Style(("no dedup, passed", "dedup, passed", "no dedup, failed", "dedup, failed", AS_OFFERED))
# Why servers died during an attempt, in at most two words.
_DEATHS = {Cause.OOM: "OOM", Cause.SERVER_DIED: "server died"}
_WIDE = 4.0
_NUMBER = pl.Float64
_POINTS = {
    "series": pl.String, "trial": pl.String, "x": _NUMBER, "y": _NUMBER, "tip offered": pl.String,
    "tip value": pl.String, "tip verdict": pl.String,
}  # fmt: skip
_ESTIMATES = {"series": pl.String, "x": _NUMBER, "y": _NUMBER, "low": _NUMBER, "high": _NUMBER}


class LogSearched:
    def __init__(self, load: LogWrite):
        self.load = load

    def figures(self) -> Iterator[Drawn]:
        """For each log with a capacity search: achieved rate and time to integrate by offered rate."""
        for sweeps in self.load.subjects(is_open=True):
            rows = [
                row | {"dedup": sweep.dedup}
                for sweep in sweeps
                if sweep.search and (steps := self.load.steps(sweep.search)) is not None
                for row in steps.iter_rows(named=True)
            ]
            if len({row["offered_per_s"] for row in rows}) < 2:
                continue
            name = self.load.name(sweeps[0], dedup=False, generator=False)
            caption = f"{name}: every attempt of the capacity search.{_deaths_told(rows)}"
            series = sorted({_series(row) for row in rows if row["cause"] not in _DEATHS}, key=_STYLE.names.index)
            yield slug(f"searched-{name}"), caption, list(self._panels(rows)), _STYLE, [*series, AS_OFFERED]

    def _panels(self, rows: Sequence[dict[str, Any]]) -> Iterator[Panel]:
        rates = sorted({float(row["offered_per_s"]) for row in rows})
        ends = [rates[0], rates[-1]]
        wide = ends[1] > _WIDE * ends[0]  # a logarithmic axis over a smaller range has hardly a tick
        x = Axis("Offered leaves per second", "1/s", log=wide, shared=rates, from_zero=False)
        drawn = {
            "Achieved": ("achieved_per_s", "1/s", "Integrated leaves per second", ends),
            "Time to integrate, p99": ("integrate_p99_s", "s", "Time to integrate, p99", []),
        }
        line = pl.DataFrame({"series": [AS_OFFERED] * 2, "x": ends, "y": ends, "low": ends, "high": ends})
        for title, (column, unit, label, shared) in drawn.items():
            points = self._points(rows, column, unit)
            if not points.is_empty():
                y, curves = Axis(label, unit, log=wide, shared=shared), line if unit == "1/s" else None
                estimates = pl.DataFrame(schema=_ESTIMATES)
                panel = trend_panel(title, points, estimates, x, y, _STYLE, curves=curves, apart=False)
                yield crossed_out(panel, [Reference(rate, why) for rate, why in _deaths(rows).items()], x)

    def _points(self, rows: Sequence[dict[str, Any]], column: str, unit: str) -> pl.DataFrame:
        found = [
            {
                "series": _series(row),
                "trial": row["trial"],
                "x": row["offered_per_s"],
                "y": row[column],
                "tip offered": human.quantity(row["offered_per_s"], "1/s"),
                "tip value": human.quantity(row[column], unit),
                "tip verdict": reasons.told(row) or "passed",
            }
            for row in rows
            if row[column] is not None and row["cause"] not in _DEATHS  # a server that died has no achieved rate
        ]
        return leading(self.load.results, pl.DataFrame(found, schema=_POINTS))


def crossed_out(panel: Panel, failed: Sequence[Reference], x: Axis) -> Panel:
    """Add a vertical line to the panel at each rate of `failed`, which has no point because of a failure.

    `x`: the panel's axis, whose shared values include these rates.
    """
    if not failed:
        return panel
    lines = reference_layers(failed, x.encode([]))
    return replace(panel, chart=layered(*panel.chart.layer, *lines))


def _series(row: dict[str, Any]) -> str:
    return f"{row['dedup']}, {'passed' if row['passed'] else 'failed'}"


def _deaths(rows: Sequence[dict[str, Any]]) -> dict[float, str]:
    found = grouped((row["offered_per_s"], death) for row in rows if (death := _DEATHS.get(row["cause"])))
    return {rate: ", ".join(dict.fromkeys(deaths)) for rate, deaths in sorted(found.items())}


def _deaths_told(rows: Sequence[dict[str, Any]]) -> str:
    told = ", ".join(f"{why} at {human.quantity(rate, '1/s')}" for rate, why in _deaths(rows).items())
    return f" A vertical line marks a rate at which a server died: {told}." if told else ""
