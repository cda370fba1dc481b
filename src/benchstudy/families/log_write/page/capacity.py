"""Tables of capacity searches: the highest rate that met the objective, and the lowest that did not."""

from collections.abc import Iterator
from typing import Any

from benchstudy.families.log_write.page import reasons
from benchstudy.families.log_write.page.load import LogWrite, Point
from benchstudy.families.log_write.page.summary import bracket_width, inversion
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.tables.tables import MISSING, MOST_OF_TRIALS, Cell, Table, slug


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
