"""Base units as people read them. Inside the package everything stays in s, B, B/s, 1/s; only a page scales."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchstudy.statistics.stats import Summary

_PLACE = re.compile(r" from /\S+")
_SCALES: dict[str, list[tuple[float, str]]] = {
    # From 0.1 ms downwards microseconds: "0.05 ms" would leave a single digit of a warm read.
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
    "B": [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")],
    "B/s": [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")],
    "1/s": [(1.0, "/s")],
    "1": [(1.0, "")],
    "%": [(0.01, "%")],
}

_FINEST = 4
# A rate as a level, alone or inside a case's id: "500-per-s", "backend=posix,rate=500-per-s".
_RATE_LEVEL = re.compile(r"(^|=)(\d+)((?:\.\d+)?)-per-(s|min)(?![^,])")


@dataclass(frozen=True)
class Scale:
    """One human unit, kept for all figures of one cell so that they can be compared at a glance."""

    factor: float
    unit: str

    def text(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".strip() if self.unit != "/s" else f"{self.number(value)}/s"

    def number(self, value: float) -> str:
        scaled = value / self.factor
        if self.unit in ("", "%") or (self.unit.endswith("B") and scaled == round(scaled)):
            return f"{scaled:,.0f}" if scaled == round(scaled) else f"{scaled:,.2f}"
        return f"{scaled:,.0f}" if self.unit in ("/s", "B") and abs(scaled) >= 100 else f"{scaled:,.2f}"


def scale(value: float, unit: str) -> Scale:
    """The unit that suits `value`, given in the base unit `unit`; an unknown unit is kept as it is."""
    known = _SCALES.get(unit, [(1.0, unit)])
    magnitude = abs(value)
    for factor, name in known:
        if magnitude >= (factor * 0.1 if name == "ms" else factor):
            return Scale(factor, name)
    return Scale(*known[-1])


def quantity(value: float | None, unit: str) -> str:
    """`value` with its human unit: 0.00057 s is "0.57 ms", 33415 1/s is "33,415/s"; a missing value is a dash."""
    if value is None or not math.isfinite(value):
        return "–" if value is None else str(value)
    return scale(value, unit).text(value)


def brief(value: float, unit: str) -> str:
    """`value` with three significant digits, for an answer that is read and not computed with: "250 ms"."""
    found = scale(value, unit)
    scaled = float(f"{value / found.factor:.3g}")
    digits = max(0, 2 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    return f"{scaled:,.{digits}f}{'' if found.unit == '/s' else ' '}{found.unit}".strip()


def page_cell(summary: Summary, unit: str) -> str:
    """The storage page's own format: mean (±standard deviation, p50: median)."""
    assert summary.mean is not None and summary.median is not None, "a summary without estimates has no cell"
    unit_of_cell = scale(summary.mean, unit)
    spread = f"±{unit_of_cell.text(summary.sd)}, " if summary.sd is not None else ""
    return f"{unit_of_cell.text(summary.mean)} ({spread}p50: {unit_of_cell.text(summary.median)})"


def median_cell(summary: Summary, unit: str) -> str:
    """The median alone, for rates: a mean of rates would favour the fast trials."""
    assert summary.median is not None, "a summary without estimates has no cell"
    return quantity(summary.median, unit)


def value_range(values: Sequence[float], unit: str) -> str:
    """The lowest and the highest of some values: "0–3 %", or "0 %" when they are the same."""
    found = scale(max(values, key=abs), unit)
    low, high = found.number(min(values)), found.text(max(values))
    return high if low == found.number(max(values)) else f"{low}–{high}"


def evidence(summary: Summary, unit: str) -> str:
    """How much stands behind a cell: n and the 95 % interval of the median, or why there is none."""
    n = f"n = {summary.n}" + (f", {summary.disturbed} disturbed" if summary.disturbed else "")
    if summary.interval_low is None:
        return f"{n}: too small for an interval"
    return f"{n}, {interval(summary, unit)}"


def level(text: str) -> str:
    """A level, or a case's id, for a reader: "1000-per-s", which a folder can be called, is "1,000/s"."""
    # In an id commas part the levels, so that none may stand in a number.
    return _RATE_LEVEL.sub(lambda m: f"{m[1]}{m[2] if m[1] else f'{int(m[2]):,}'}{m[3]}/{m[4]}", text)


def tool(name: str, version: str | None) -> str:
    """Name and version once each, without where on a host it lies: "locust 2.46.0 (Python 3.11.2)"."""
    said = _PLACE.sub("", version or "version unknown")
    return said if said.lower().startswith(name.lower()) else f"{name} {said}"


def plural(count: int, noun: str) -> str:
    """`count` with its noun: "1 trial", "1,200 trials"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def interval(summary: Summary, unit: str) -> str:
    """The 95 % interval of a summary that has one: "95 %: 0.52–0.71 ms"."""
    assert summary.interval_low is not None and summary.interval_high is not None, "this summary has no interval"
    unit_of_cell = scale(summary.median or summary.interval_high, unit)
    low, high = (end / unit_of_cell.factor for end in (summary.interval_low, summary.interval_high))
    if unit_of_cell.unit in ("", "%", "B") and low == round(low) and high == round(high):
        ends = f"{low:,.0f}–{high:,.0f}"
    else:
        ends = f"{_end(low, high)}–{_end(high, high)}"
    return f"95 %: {ends}{'' if unit_of_cell.unit == '/s' else ' '}{unit_of_cell.unit}".rstrip()


def _end(value: float, largest: float) -> str:
    """An end of an interval: no finer than three digits of the larger end, with two of its own where it is small."""
    if not value:
        return "0"
    enough = min(2, 2 - math.floor(math.log10(abs(largest)))) if largest else 2
    own = 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(enough, own, 0), _FINEST)}f}"


def times(ratio: float) -> str:
    """Two decimals, or three significant digits: "1.02×", "0.0123×", "1,240×"."""
    if not math.isfinite(ratio) or ratio == 0:
        return "∞" if ratio else "0×"
    digits = max(0, 2 - math.floor(math.log10(ratio)))
    return f"{ratio:,.{digits}f}×"
