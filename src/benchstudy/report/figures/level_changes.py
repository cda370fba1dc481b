"""Change points in the lines of a chart, for its marks and its caption. Annotation only; no verdict uses them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from benchstudy.model.criteria import MARGIN
from benchstudy.report import human
from benchstudy.statistics import change_points
from benchstudy.statistics.change_points import Change, Changes

NO_VERDICT = "annotation only; no verdict uses it"
SMALLEST = MARGIN  # the default margin of verdicts: smaller changes are of no interest, and clutter a chart
MOST_MARKED = 3  # per panel: more would overlap
_MOST_TOLD = 4


class Line(NamedTuple):
    """One line of a chart."""

    series: str
    line: str  # such as a percentile; "" if each series has one line


class LevelChanges(NamedTuple):
    """The change points of every line of a chart. `unit` is the base unit of its values; times are in s."""

    by_line: Mapping[Line, Changes]
    unit: str

    @property
    def marks(self) -> list[tuple[Line, Change]]:
        """All changes of level, the largest first."""
        found = [(line, change) for line, made in self.by_line.items() for change in made.found]
        return sorted(found, key=lambda mark: -_size(mark[1]))

    @property
    def several(self) -> bool:
        """Whether the chart has several lines."""
        return len(self.by_line) > 1

    def label(self, line: Line, change: Change) -> str:
        """The label of a mark in the chart: "v10 p99 +38 % at 41 s"."""
        named = _named(line) if self.several else ""
        return f"{named} {self.by_how_much(change)} at {moment(change.at)}".strip()

    def by_how_much(self, change: Change) -> str:
        """The size of a change: "+38 %", "2.4×" if it more than doubles, or its ends if it has no relative size."""
        if change.relative is None:
            return self.ends(change)
        if change.after > 2 * change.before > 0:
            return human.times(change.after / change.before)
        return human.change(change.relative)

    def ends(self, change: Change) -> str:
        """The levels before and after: "from 2.1 ms to 2.9 ms"."""
        return f"from {human.quantity(change.before, self.unit)} to {human.quantity(change.after, self.unit)}"


def find(lines: pl.DataFrame, begin_s: float, end_s: float, unit: str, memory_s: float = 0.0) -> LevelChanges:
    """Find changes of 5 % or more in each line between two times.

    `lines`: series, line, x (s), y in `unit`. `memory_s`: the window in s that each y covers, such as that of a rate.
    """
    inside = lines.filter(pl.col("x").is_between(begin_s, end_s)).drop_nulls("y").sort("x", maintain_order=True)
    return LevelChanges(
        {
            Line(*key): _large(change_points.find(part["x"].to_list(), part["y"].to_list(), memory_s))
            for key, part in inside.group_by(["series", "line"], maintain_order=True)
        },
        unit,
    )


def caption(found: Mapping[str, LevelChanges], where: str) -> str:
    """A sentence on the change points in the charts of a figure, which are given by title. `where`: "the window"."""
    every = [made for changes in found.values() for made in changes.by_line.values()]
    told = [made for made in every if made.steady is not None]
    if not told:
        reasons = _reasons(every)
        return f"Change points of {where}: cannot be determined ({'; '.join(reasons)})." if reasons else ""
    said = []
    for title, changes in found.items():
        for line, made in changes.by_line.items():
            named = f"{title}{f', {_named(line)}' if changes.several else ''}"
            if made.drift is not None:
                said.append(f"{named}: drifts {changes.ends(made.drift)}")
        marks = changes.marks
        for line, change in marks[:1]:
            rest = f", and {len(marks) - 1} more" if len(marks) > 1 else ""
            said.append(f"{title}: {changes.label(line, change)} ({changes.ends(change)}){rest}")
    said, more = said[:_MOST_TOLD], max(0, len(said) - _MOST_TOLD)
    steady = sum(bool(made.steady) for made in told)
    text = f"Change points of {where} (PELT, changes from {100 * SMALLEST:g} %; {NO_VERDICT}): "
    text += f"{steady} of {human.plural(len(told), 'line')} steady"
    text += f"; {'; '.join(said)}" if said else ""
    text += f"; and {human.plural(more, 'more chart')}" if more else ""
    silent = len(every) - len(told)
    text += f"; {silent} cannot be determined: too few samples, or dependent ones" if silent else ""
    return f"{text}."


def _reasons(unknown: Sequence[Changes]) -> list[str]:
    """Why nothing can be said, in one reason for all lines with too few samples: "4 to 5 samples; 30 are needed"."""
    few = sorted((made.n, made.why) for made in unknown if made.n < change_points.FEWEST_SAMPLES)
    said = [f"{few[0][0]} to {few[-1][1]}" if few[0] != few[-1] else few[0][1]] if few else []
    return [*said, *sorted({made.why for made in unknown if made.n >= change_points.FEWEST_SAMPLES})]


def moment(seconds: float) -> str:
    """A time on the axis: "41 s", "2 min 5 s"."""
    sign, whole = ("−" if seconds < 0 else ""), abs(seconds)
    return f"{sign}{round(whole, 1):g} s" if whole < 120 else f"{sign}{int(whole // 60)} min {whole % 60:.0f} s"


def _named(line: Line) -> str:
    return " ".join(filter(None, line))


def _large(made: Changes) -> Changes:
    found = tuple(change for change in made.found if _size(change) >= math.log1p(SMALLEST))
    drift = made.drift if made.drift is not None and _size(made.drift) >= math.log1p(SMALLEST) else None
    return replace(made, found=found, drift=drift)


def _size(change: Change) -> float:
    if change.before == change.after:  # also both zero, as of counts that are seldom anything else
        return 0.0
    relative = change.relative
    return math.inf if relative is None else abs(math.log1p(relative))
