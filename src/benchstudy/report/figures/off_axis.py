"""Values that an axis has no place for: Vega would draw a zero on a logarithmic axis as the highest value."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.figures.axes import Axis

_MOST_NAMED = 4  # in a caption; the tables have all
_NOT_DRAWN, _CUT_OFF = "Not drawn, because the axis has no place for such values", "Cut off at the edge of the axis"

Named = Callable[[tuple[Any, ...]], str]


@dataclass(frozen=True)
class OffAxis:
    """Marks of one series at one place that an axis cannot draw as they are. `values`: the lowest and the highest."""

    of: str
    mark: str  # "point", "median", "interval", …
    count: int
    values: tuple[str, ...] = ()
    why: str = _NOT_DRAWN

    def __str__(self) -> str:
        values = f" ({', '.join(self.values)})" if self.values else ""
        marks = f"the {self.mark}" if self.count == 1 and self.mark != "point" else human.plural(self.count, self.mark)
        return f"{marks} of {self.of}{values}"


def _joined(key: tuple[Any, ...]) -> str:
    return " · ".join(map(str, key))


def has_place(axis: Axis, column: str) -> pl.Expr:
    """Whether the axis can draw the column's value. A missing value is no value without a place."""
    value = pl.col(column).cast(pl.Float64)
    return (value.is_finite() & (value > 0 if axis.log else True)).fill_null(True)


def off_axis(
    frame: pl.DataFrame, mark: str, axis: Axis, column: str, by: Sequence[str] = ("series",), named: Named = _joined
) -> list[OffAxis]:
    """The marks of a frame whose value in `column` has no place on the axis, one entry per combination of `by`."""
    found = []
    for key, rows in frame.filter(~has_place(axis, column)).group_by(by, maintain_order=True):
        values = sorted(rows[column])
        ends = dict.fromkeys(human.quantity(end, axis.unit) for end in (values[0], values[-1]))
        found.append(OffAxis(named(key), mark, rows.height, tuple(ends)))
    return found


def cut_off(
    frame: pl.DataFrame, axis: Axis, scale: alt.Scale, by: Sequence[str] = ("series",), named: Named = _joined
) -> tuple[pl.DataFrame, list[OffAxis]]:
    """Intervals (columns low and high) that end at the edges of an axis with this scale, and those that reach further.

    An interval without a part on the axis becomes null.
    """
    unbounded = (0.0 if axis.log else -math.inf, math.inf)
    low, high = scale.to_dict().get("domain", unbounded)
    visible = (pl.col("high") > low) & (pl.col("low") < high) if axis.log else pl.lit(True)
    beyond = frame.filter(visible & ((pl.col("low") < low) | (pl.col("high") > high)))
    groups = beyond.group_by(by, maintain_order=True)
    cut = [OffAxis(named(key), "interval", rows.height, why=_CUT_OFF) for key, rows in groups]
    return frame.with_columns(pl.when(visible).then(pl.col("low", "high").clip(low, high))), cut


def sentence(why: str, named: Sequence[str]) -> str:
    """What a figure does not show as it is, and why: "Not drawn, because every trial failed: a; b; and 3 more."."""
    return f"{why}: {human.listed(named, _MOST_NAMED, '; ')}." if named else ""


def told(panels: Iterable[tuple[str, Sequence[OffAxis]]]) -> str:
    """Sentences on the marks that panels lack, and on intervals that end at an edge. `panels`: title, marks."""
    found = grouped((one.why, f"{title}: {one}" if title else str(one)) for title, marks in panels for one in marks)
    return " ".join(sentence(why, found[why]) for why in (_NOT_DRAWN, _CUT_OFF) if why in found)
