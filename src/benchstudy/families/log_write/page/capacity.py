"""Tables and figures of capacity searches: the highest rate that met the objective, and the lowest that did not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from benchstudy.families.log_write.page import reasons
from benchstudy.families.log_write.page.load import LogWrite, Point
from benchstudy.families.log_write.page.summary import bracket_width, inversion
from benchstudy.model.causes import Cause
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.exhibits.figuredata import leading
from benchstudy.report.figures.charts import Drawing
from benchstudy.report.figures.layers import layered, reference_layers
from benchstudy.report.figures.panels import Axis, Panel, Reference, Style, trend_panel
from benchstudy.report.tables.tables import MISSING, MOST_OF_TRIALS, Cell, Table, slug

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


class LogCapacity:
    def __init__(self, load: LogWrite):
        self.load = load

    def table(self) -> Table:
        """One row per search: highest pass, lowest fail, the gap between them, all trials' brackets, the limit."""
        body = []
        for point in self.load.searches:
            row = [self._bound(point, f"capacity_{end}") for end in ("pass", "fail")]
            width = bracket_width(self.load, point)
            row += [MISSING if width is None else Cell.text(human.percent(width)), self._brackets(point)]
            body.append((Cell.text(self.load.name(point.sweep)), *row, self._limit(point)))
        columns = ("Log", "Highest pass", "Lowest fail", "Gap", "Bracket of each trial", "Limit")
        return Table("capacity", "Capacity, in offered leaves per second", columns, tuple(body))

    def _bound(self, point: Point, metric: str) -> Cell:
        estimate = self.load.estimate(metric, point)
        if metric == "capacity_fail" and estimate is not None and not estimate.values and not estimate.failed:
            return Cell(("none failed",), self.load.href(point), "missing")
        cell = cells.estimate_cell(self.load.results, estimate, "median")
        marks = self.load.marks(point) if metric == "capacity_pass" else ()
        if metric == "capacity_fail" and (inverted := inversion(self.load, point)) is not None:
            marks = (inverted.mark,)
        return cell if cell is MISSING else Cell(cell.lines, cell.href, cell.kind, cell.title, marks)

    def _brackets(self, point: Point) -> Cell:
        ends = [
            _bracket(values["capacity_pass"], values.get("capacity_fail"))
            for values in self.load.trials(point).values()
            if "capacity_pass" in values
        ]
        return Cell(tuple(ends), kind="text") if ends else MISSING

    def _limit(self, point: Point) -> Cell:
        counts = self.load.limits(point).most_common()
        lines = tuple(f"{name} ({count})" if len(counts) > 1 else name for name, count in counts)
        href = self.load.href(point)
        return Cell(lines, href, "number", " | ".join(self.load.limit_texts(point))) if lines else MISSING

    def steps(self) -> Iterator[Table]:
        """Every attempt at every rate, one table per search."""
        columns = ("Block, step, attempt", "Offered", "Achieved", "Integrate, p99", "Errors", "Pushback", "Verdict")
        for point in self.load.searches:
            if (mine := self.load.steps(point)) is None:
                return
            in_order = mine.sort("block", "trial", "step", "attempt").iter_rows(named=True)
            body = tuple(_step_row(row, self.load.results.places.href(row["trial"])) for row in in_order)
            name = self.load.name(point.sweep)
            yield Table(slug(f"steps-{name}"), f"Rates tried: {name}", columns, body, MOST_OF_TRIALS)

    # -- figures ---------------------------------------------------------------------------------------------------

    def figures(self) -> Iterator[Drawing]:
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
            legend = [*series, AS_OFFERED]
            yield Drawing(slug(f"searched-{name}"), caption, list(self._panels(rows)), _STYLE, legend)

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


def _bracket(passed: float, failed: float | None) -> str:
    if failed is None:
        return f"{human.quantity(passed, '1/s')}, none failed"
    return human.value_range((passed, failed), "1/s")


def _step_row(row: dict[str, Any], href: str) -> tuple[Cell, ...]:
    def figure(column: str, unit: str) -> Cell:
        return Cell((human.quantity(row[column], unit),), href)

    verdict = Cell.text("passed") if row["passed"] else Cell((reasons.told(row),), href, "failed")
    return (
        Cell.text(f"{row['block']}, {row['step']}, {row['attempt']}"),
        figure("offered_per_s", "1/s"),
        figure("achieved_per_s", "1/s"),
        figure("integrate_p99_s", "s"),
        figure("errors", "1"),
        figure("pushback", "1"),
        verdict,
    )


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
