"""What pages of load tests have in common: the points of sweeps under rising load, and cells about them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.results.results import Estimate, Results
from benchstudy.report.tables.tables import MISSING, Cell

# One figure of a point of a sweep.
Draw = Callable[[Any, Any], Cell]


class Sweep(Protocol):
    """Cases of one target that differ in their load alone."""

    @property
    def target(self) -> str: ...


class Point(Protocol):
    """One of these cases."""

    @property
    def case(self) -> str: ...


P = TypeVar("P", bound=Point)


class SweepResults:
    """Results of a family, asked by sweep and point."""

    def __init__(self, results: Results):
        self.results = results

    def estimate(self, metric: str, sweep: Sweep, point: Point) -> Estimate | None:
        return self.results.estimate(metric, sweep.target, point.case)

    def median(self, metric: str, sweep: Sweep, point: Point) -> float | None:
        estimate = self.estimate(metric, sweep, point)
        return estimate.summary.median if estimate is not None else None

    def total(self, metric: str, sweep: Sweep, point: Point) -> float:
        """Of all trials together."""
        estimate = self.estimate(metric, sweep, point)
        return sum(estimate.values) if estimate is not None else 0.0

    def href(self, sweep: Sweep, point: Point) -> str:
        """The link to the point's trials."""
        return cells.href(self.results, sweep.target, point.case)

    def highest(self, metric: str, sweep: Sweep, points: Iterable[P]) -> tuple[P, Estimate] | None:
        """The point with the largest median; None when no trial gave any."""
        estimates = ((point, self.estimate(metric, sweep, point)) for point in points)
        known = [(point, e) for point, e in estimates if e is not None and e.summary.median is not None]
        return max(known, key=lambda pair: pair[1].summary.median or 0.0, default=None)

    def why_nothing(self, metric: str, sweep: Sweep, points: Iterable[Point]) -> str:
        """Of a sweep without any value, the first reason that its trials have."""
        estimates = (self.estimate(metric, sweep, point) for point in points)
        return next((e.failure for e in estimates if e is not None), "nothing was measured")

    def figure(self, metric: str, unit: str | None = None, *, always: str) -> Draw:
        """The median of a metric with what stands behind it. `always`: the metric that each trial gives."""

        def draw(sweep: Sweep, point: Point) -> Cell:
            estimate = self.estimate(metric, sweep, point)
            if estimate is not None and estimate.summary.median is None and estimate.failed:
                # A failed trial has no metric at all: only where it is the whole case does every row say so.
                return MISSING if self.median(always, sweep, point) is not None else failed_cell(self.results, estimate)
            return median_cell(self.results, estimate, unit)

        return draw


def rows_of(rows: Iterable[tuple[str, Draw]], sweep: Sweep, points: Iterable[Point]) -> Iterator[tuple[Cell, ...]]:
    """A row a heading and figure, a column a point; a figure that no point has is left out."""
    across = list(points)
    for heading, draw in rows:
        drawn = [draw(sweep, point) for point in across]
        if any(cell is not MISSING for cell in drawn):
            yield (Cell.text(heading), *drawn)


def median_cell(results: Results, estimate: Estimate | None, unit: str | None = None) -> Cell:
    """A median and how sure it is; `unit` replaces the metric's own."""
    if estimate is None or estimate.summary.median is None:
        return MISSING
    shown, summary = unit or estimate.unit, estimate.summary
    lines = (human.median(summary, shown), human.evidence(summary, shown))
    return Cell(lines, cells.href(results, estimate.target, estimate.case))


def failed_cell(results: Results, estimate: Estimate) -> Cell:
    """Why the trials of a case failed."""
    why = " ".join(reason.words for reason, _ in estimate.causes)
    return Cell(tuple(cells.failures(estimate)), cells.href(results, estimate.target, estimate.case), "failed", why)
