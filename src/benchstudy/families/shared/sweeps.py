"""Shared code of pages about load tests: points of sweeps under rising load, and their table cells."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import polars as pl

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.results.results import Estimate, Results
from benchstudy.report.tables.tables import MISSING, Cell

# Makes the cell of a sweep's point.
Draw = Callable[[Any], Cell]


@dataclass(frozen=True)
class SweepPoint:
    """One case of a sweep: cases of one target that differ only in their load. `level`: its load, for readers."""

    target: str
    case: str
    level: str

    @property
    def key(self) -> tuple[str, str]:
        return self.target, self.case


P = TypeVar("P", bound=SweepPoint)


class SweepResults:
    """Results of a family, by sweep and point. `always`: the metric that every successful trial has."""

    always: ClassVar[str]

    def __init__(self, results: Results):
        self.results = results

    @cached_property
    def _notes(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        succeeded = self.results.counted.filter(pl.col("status") == "ok")
        rows = succeeded.select("target", "case", "verified").iter_rows()
        return grouped(((target, case), json.loads(verified or "{}")) for target, case, verified in rows)

    def notes(self, point: SweepPoint) -> list[dict[str, Any]]:
        """Facts about the load, one mapping per successful trial."""
        return self._notes.get(point.key, [])

    def estimate(self, metric: str, point: SweepPoint) -> Estimate | None:
        return self.results.estimate(metric, *point.key)

    def median(self, metric: str, point: SweepPoint) -> float | None:
        estimate = self.estimate(metric, point)
        return estimate.summary.median if estimate is not None else None

    def total(self, metric: str, point: SweepPoint) -> float:
        """The sum over all trials; 0 if there is none."""
        estimate = self.estimate(metric, point)
        return sum(estimate.values) if estimate is not None else 0.0

    def counted(self, metric: str, point: SweepPoint) -> float | None:
        """The sum over all successful trials; None if one of them did not count this, which is no zero."""
        estimate = self.estimate(metric, point)
        if estimate is None or len(estimate.values) < estimate.results - estimate.failed:
            return None
        return sum(estimate.values)

    def href(self, point: SweepPoint) -> str:
        """The link to the point's trials."""
        return cells.href(self.results, *point.key)

    def highest(self, metric: str, points: Iterable[P]) -> tuple[P, Estimate] | None:
        """The point with the largest median; None if no trial has the metric."""
        estimates = ((point, self.estimate(metric, point)) for point in points)
        known = [(point, e) for point, e in estimates if e is not None and e.summary.median is not None]
        return max(known, key=lambda pair: pair[1].summary.median or 0.0, default=None)

    def why_nothing(self, metric: str, points: Iterable[SweepPoint]) -> str:
        """The first reason for the failures of a sweep without any value."""
        estimates = (self.estimate(metric, point) for point in points)
        return next((e.failure for e in estimates if e is not None), "nothing was measured")

    def figure(self, metric: str, unit: str | None = None) -> Draw:
        """Cells with the median of a metric, its interval and n."""

        def draw(point: SweepPoint) -> Cell:
            estimate = self.estimate(metric, point)
            if estimate is not None and estimate.summary.median is None and estimate.failed:
                # A failed trial has no metric. Every row says so only if all trials of the case failed.
                gave = self.median(self.always, point) is not None
                return MISSING if gave else failed_cell(self.results, estimate)
            return median_cell(self.results, estimate, unit)

        return draw


def shares_cpus(note: Mapping[str, Any]) -> bool:
    """Whether server and generator had CPUs in common in a trial, by its note."""
    return bool((note.get("placement") or {}).get("shared"))


def rows_of(rows: Iterable[tuple[str, Draw]], points: Iterable[SweepPoint]) -> Iterator[tuple[Cell, ...]]:
    """Yield a row per heading, with one column per point. A row without any value is left out."""
    across = list(points)
    for heading, draw in rows:
        drawn = [draw(point) for point in across]
        if any(cell is not MISSING for cell in drawn):
            yield (Cell.text(heading), *drawn)


def median_cell(results: Results, estimate: Estimate | None, unit: str | None = None) -> Cell:
    """Return a cell with a median, its interval and n. `unit` replaces the unit of the metric."""
    if estimate is None or estimate.summary.median is None:
        return MISSING
    shown, summary = unit or estimate.unit, estimate.summary
    lines = (human.median(summary, shown), human.evidence(summary, shown))
    return Cell(lines, cells.href(results, estimate.target, estimate.case))


def failed_cell(results: Results, estimate: Estimate, marks: tuple[str, ...] = ()) -> Cell:
    """Return a cell that says why the trials of a case failed, or else why they gave no median."""
    why = " ".join(reason.words for reason, _ in estimate.causes)
    lines = tuple(cells.failures(estimate)) or (estimate.summary.note,)
    return Cell(lines, cells.href(results, estimate.target, estimate.case), "failed", why, marks)


def rate_cell(
    results: Results, estimate: Estimate, lines: Iterable[str], marks: tuple[str, ...], reservations: Iterable[str]
) -> Cell:
    """Return a cell with a median, `lines` below it, and why trials failed. `reservations`: more for its title."""
    failed = cells.failures(estimate)
    title = "; ".join([*(reason.words for reason, _ in estimate.causes), *reservations])
    shown = (human.median(estimate.summary, estimate.unit), *lines, *failed)
    href = cells.href(results, estimate.target, estimate.case)
    return Cell(shown, href, "number warning" if failed else "number", title, marks)
