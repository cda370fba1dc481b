"""Axes of figures: scales, ticks, and labels in the units that people use."""

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from benchstudy.model.rounding import significant
from benchstudy.report import human

# The room for names of rows, the width of a character, and the height of a line.
_NAME_PX, _SIGN_PX, _LINE_PX = 190, 5.7, 12
_SIGNS = int(_NAME_PX / _SIGN_PX)
_WIDE_SIGNS = 24  # as many fit of wide ones, too

_LABELS = {
    "B": "abs({v}) >= 1e9 ? format({v}/1e9,'~r')+' GB' : abs({v}) >= 1e6 ? format({v}/1e6,'~r')+' MB' : "
    "abs({v}) >= 1e3 ? format({v}/1e3,'~r')+' KB' : format({v},'~r')+' B'",
    "B/s": "abs({v}) >= 1e9 ? format({v}/1e9,'~r')+' GB/s' : abs({v}) >= 1e6 ? format({v}/1e6,'~r')+' MB/s' : "
    "format({v}/1e3,'~r')+' KB/s'",
    "time": "abs({v}) >= 120 || {v} == 60 ? format({v}/60,'~r')+' min' : format({v},'~r')+' s'",
    "s": "{v} == 0 ? '0' : abs({v}) >= 1 ? format({v},',~r')+' s' : abs({v}) >= 1e-3 ? format({v}*1e3,'~r')+' ms' : "
    "abs({v}) >= 1e-6 ? format({v}*1e6,'~r')+' µs' : format({v}*1e9,'~r')+' ns'",
    "1/s": "format({v},',~r')+'/s'",
    "%": "format({v},'.0%')",
    "percent": "format({v},',~r')+' %'",
    "1": "format({v},',~r')",
    "×": "format({v},',~r')+'×'",
}


@dataclass(frozen=True)
class Axis:
    """An axis. `unit` is the base unit of the values, and decides the labels. `values`, if given, fix the ticks."""

    title: str | list[str]  # or its lines
    unit: str
    log: bool = True
    values: Sequence[float] | None = None
    # Values of all panels that share the axis, because readers compare panels side by side.
    shared: Sequence[float] = ()
    # Whether a linear axis begins at zero. It does not if it shows only a small part of the range.
    from_zero: bool = True

    def named(self, key: tuple[str, float]) -> str:
        """A series at a value of this axis: "nginx at 1 MB"."""
        return f"{key[0]} at {human.level(human.quantity(key[1], self.unit))}"

    def encode(self, data: Sequence[float]) -> dict[str, Any]:
        """Vega-Lite's axis and scale for these values. Values that have no place on it (off_axis.py) are ignored."""
        drawn = [v for v in (*data, *self.shared) if math.isfinite(v) and (v > 0 or not self.log)]
        ticks = self.values or (log_ticks(min(drawn), max(drawn)) if self.log and drawn else None)
        label = _LABELS.get(self.unit, "format({v},'~r')").replace("{v}", "datum.value")
        axis: dict[str, Any] = {"title": self.title, "labelExpr": label, "labelOverlap": "greedy"}
        if ticks:
            axis["values"] = list(ticks)
        scale: dict[str, Any] = {"type": "log", "nice": False} if self.log else {"type": "linear", "zero": True}
        if not self.log and any(drawn):
            low, high = min([*drawn, *[0] * self.from_zero]), max([*drawn, *[0] * self.from_zero])
            room = 0.05 * (high - low or abs(high))
            ends = (low - room * (low != 0 or not self.from_zero), high + room * (high != 0 or not self.from_zero))
            scale["domain"] = [_of_room(end, room) for end in ends]
            scale["zero"] = self.from_zero
        if self.log and drawn:
            scale["domain"] = [significant(end) for end in (min(drawn) / 1.35, max(drawn) * 1.35)]
        return {"axis": alt.Axis(**axis), "scale": alt.Scale(**scale)}


def _of_room(end: float, room: float) -> float:
    """An end of a scale, rounded to a hundredth of the margin, because Vega reads ends aloud with all their digits."""
    return round(end, 2 - math.floor(math.log10(room)))


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks for a log axis: powers of ten, with 2 and 5 between them below 50 times, and nearly all below 2.5 times."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = (1, 2, 5) if high / low < 50 else (1,)
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8) if high / low < 2.5 else few
    return [float(f"{step}e{d}") for d in decades for step in steps if low / 1.35 <= step * 10.0**d <= high * 1.35]


def ratio_ticks(low: float, high: float) -> list[float]:
    """Ticks for an axis of ratios, with 1 among them.

    Close ratios get even steps. Otherwise, the more decades there are, the fewer ticks each has: six, then 1, 2, 5,
    then 1, 3, then powers of ten. There are four to nine ticks, so that labels fit.
    """
    decades = math.log10(high / low)
    if high / low > 4:
        of_span: tuple[tuple[float, tuple[float, ...]], ...] = (
            (1.0, (1, 1.5, 2, 3, 5, 7)), (2.4, (1, 2, 5)), (4.4, (1, 3)), (math.inf, (1,)),
        )  # fmt: skip
        steps = next(steps for most, steps in of_span if decades < most)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [tick for d in powers for step in steps if low <= (tick := float(f"{step}e{d}")) <= high]
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 6)
    return [round(i * step, 2) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axis_of_names(names: Sequence[str], place: str, **options: Any) -> alt.Axis:
    """An axis with the names of rows, on two lines each if one is too long: cut off, several might look the same.

    `place`: the Vega expression for a row's place among `names`.
    """
    lines: Sequence[str | list[str]] = names
    if max(map(len, names), default=0) * _SIGN_PX > _NAME_PX:
        lines = _told_apart(names, [_two_lines(name) for name in names])
        # Vega puts the first line beside the tick.
        options |= {"labelLineHeight": _LINE_PX, "labelOffset": -_LINE_PX / 2}
    return alt.Axis(title=None, grid=False, labelLimit=_NAME_PX, labelExpr=f"{json.dumps(lines)}[{place}]", **options)


def _told_apart(names: Sequence[str], lines: Sequence[list[str]]) -> list[list[str]]:
    """The lines of each name. Of names that would look the same, the second line shows where they differ."""
    alike: dict[tuple[str, ...], set[str]] = {}
    seen = [tuple(line[:_WIDE_SIGNS] for line in of_name) for of_name in lines]
    for name, shown in zip(names, seen, strict=True):
        alike.setdefault(shown, set()).add(name)
    return [
        _around(name, max(_first_difference(name, other) for other in others)) if others else of_name
        for name, of_name, shown in zip(names, lines, seen, strict=True)
        for others in [alike[shown] - {name}]
    ]


def _first_difference(name: str, other: str) -> int:
    places = (place for place, (sign, of_other) in enumerate(zip(name, other, strict=False)) if sign != of_other)
    return next(places, min(len(name), len(other)))


def _around(name: str, place: int) -> list[str]:
    """The beginning of a long name, and below it the part around a place."""
    room = _WIDE_SIGNS - 2
    start = max(room, min(place - room // 2, len(name) - room))
    end = start + room
    return [name[:room], "…" * (start > room) + name[start:end] + "…" * (end < len(name))]


def _two_lines(name: str) -> list[str]:
    """A name in two lines of similar length, if it has several words; a separator ends the first line."""
    together = name.replace(" · ", "\u00a0· ")
    most = min(len(name) * 5 // 8 + 1, _SIGNS)
    return textwrap.wrap(
        together, most, break_long_words=False, break_on_hyphens=False, max_lines=2, placeholder="\u00a0…"
    )
