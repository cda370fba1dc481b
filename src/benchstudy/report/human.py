"""Prints values with the units that people use. The package computes in s, B, B/s and 1/s; only pages scale.

`model/rounding.py` rounds every figure of a page: an estimate and its interval to the same digits.
"""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from benchstudy.model import rounding
from benchstudy.model.clients import CLIENTS
from benchstudy.statistics.comparisons import ALPHA, Share
from benchstudy.statistics.modes import Modes
from benchstudy.statistics.stats import Summary

_PLACE = re.compile(r" from /\S+")
_SCALES: dict[str, list[tuple[float, str]]] = {
    # Below 0.1 ms in microseconds: "0.05 ms" would leave a single digit of a warm read.
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    "B": [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")],
    "B/s": [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")],
    "1/s": [(1.0, "/s")],
    "1": [(1.0, "")],
    "%": [(0.01, "%")],  # of a share
    "percent": [(1.0, "%")],
}

_ALL_DIGITS = 17  # of a float
# A rate as a level, alone or inside a case's id: "500-per-s", "backend=posix,rate=500-per-s".
_RATE_LEVEL = re.compile(r"(^|=)(\d+)((?:\.\d+)?)-per-(s|min)(?![^,])")


@dataclass(frozen=True)
class Scale:
    """A unit and its factor. All figures of one cell share it, so that they are easy to compare."""

    factor: float
    unit: str

    def text(self, value: float, to: int = rounding.MOST) -> str:
        """A value in the base unit, as text in this unit, with at most `to` digits."""
        return self.beside(self.number(value, to))

    def number(self, value: float, to: int = rounding.MOST) -> str:
        """The number of `text`, without the unit."""
        return rounding.shown(value / self.factor, to, trim=self.counts)

    def interval(self, low: float, high: float, estimate: float) -> str:
        """An interval in this unit, rounded together with its estimate. All are in the base unit."""
        low, high, estimate = (value / self.factor for value in (low, high, estimate))
        return rounding.interval(low, high, estimate, self.beside(""), trim=self.counts)

    def beside(self, number: str) -> str:
        """A number with this unit: "0.57 ms", "33,415/s"."""
        return f"{number}{'' if self.unit in ('', '/s') else ' '}{self.unit}"

    def plus_minus(self, value: float, spread: float, finest: float = 0.0) -> tuple[str, str]:
        """The numbers of a value and its ±, which end at the same digit: 1.2034 and 0.0512 are "1.20" and "0.05".

        The larger one has three digits, or as many more as leave the smaller one its first digit, but no digit below
        `finest`, the resolution of what was measured.
        """
        found = [value / self.factor, spread / self.factor]
        if not all(map(math.isfinite, found)):
            return rounding.shown(found[0]), rounding.shown(found[1])
        ends = [
            to - 1 - math.floor(math.log10(abs(rounding.significant(number, to))))
            for number, to in zip(sorted(found, key=abs), (1, rounding.MOST), strict=True)
            if number
        ]
        decimals = max(ends, default=0)
        if finest:
            decimals = min(decimals, -math.floor(math.log10(finest / self.factor)))
        texts = [f"{round(number, decimals):,.{max(0, decimals)}f}" if number else "0" for number in found]
        while self.counts and decimals > 0 and all(text.endswith("0") for text in texts if text != "0"):
            decimals -= 1
            texts = [text if text == "0" else text[:-1].rstrip(".") for text in texts]
        return texts[0], texts[1]

    @property
    def counts(self) -> bool:
        """Whether values in this unit are usually whole numbers, which are printed without trailing zeros."""
        return self.unit in ("", "%", "/s") or self.unit.endswith("B")


def scale(value: float, unit: str) -> Scale:
    """The unit that suits `value`, given in the base unit `unit`; an unknown unit is kept as it is."""
    known = _SCALES.get(unit, [(1.0, unit)])
    magnitude = abs(value)
    if not magnitude:
        return Scale(*next((pair for pair in known if pair[0] == 1), known[-1]))
    for factor, name in known:
        if magnitude >= (factor * 0.1 if name == "ms" else factor):
            return Scale(factor, name)
    return Scale(*known[-1])


def quantity(value: float | None, unit: str) -> str:
    """`value` with a suitable unit: 0.00057 s is "0.57 ms", 33415 1/s is "33,415/s". A missing value is a dash."""
    if value is None or not math.isfinite(value):
        return "–" if value is None else str(value)
    return scale(value, unit).text(value)


def beyond(value: float, bound: float, unit: str) -> str:
    """`value` with as many digits as tell it from a `bound` that it missed, even if narrowly: "98.997 %" of 99 %."""
    found = scale(value, unit)
    to = next((n for n in range(rounding.MOST, _ALL_DIGITS) if found.text(value, n) != found.text(bound, n)), None)
    return found.text(value, to or rounding.MOST)


def from_to(base: float, new: float, unit: str) -> str:
    """Two values to compare, in one unit, that of the larger: "0.294 ms → 0.0922 ms"."""
    found = scale(max(base, new, key=abs), unit)
    return f"{found.text(base)} → {found.text(new)}"


def median(summary: Summary, unit: str) -> str:
    """The median, rounded to the digits of its interval. The summary must have one."""
    assert summary.median is not None, "a summary without estimates has no cell"
    return estimate(summary.median, summary.interval_low, summary.interval_high, unit)[0]


def interval(summary: Summary, unit: str) -> str:
    """The 95 % interval of a summary, which must have one: "0.52–0.71 ms"."""
    assert summary.median is not None and summary.interval_low is not None and summary.interval_high is not None
    found = scale(summary.median or summary.interval_high, unit)
    return found.interval(summary.interval_low, summary.interval_high, summary.median)


def percent(share: float | None) -> str:
    """A share or a relative difference: "7.50 %", "5 %". A missing value is a dash."""
    return quantity(share, "%")


def page_cell(summary: Summary, unit: str) -> str:
    """The published storage page's format, without an interval: mean (±standard deviation, p50: median)."""
    mean, spread = _mean_and_spread(summary, unit)
    return f"{mean} ({spread}{', ' if spread else ''}p50: {median(summary, unit)})"


def mean_cell(summary: Summary, unit: str) -> str:
    """The same format without the median: mean (±standard deviation)."""
    mean, spread = _mean_and_spread(summary, unit)
    return f"{mean} ({spread})" if spread else mean


def _mean_and_spread(summary: Summary, unit: str) -> tuple[str, str]:
    assert summary.mean is not None, "a summary without estimates has no cell"
    if summary.sd is None:
        return quantity(summary.mean, unit), ""
    found = scale(max(summary.mean, summary.sd, key=abs), unit)
    mean, spread = map(found.beside, found.plus_minus(summary.mean, summary.sd))
    return mean, f"±{spread}"


def plus_minus(value: float, spread: float, unit: str, finest: float = 0.0) -> str:
    """A value and its ±, in one unit and to the same digit, none below `finest`: "1.20 ± 0.05 s"."""
    found = scale(max(value, spread, key=abs), unit)
    return found.beside(" ± ".join(found.plus_minus(value, spread, finest)))


def duration(seconds: float) -> str:
    """A duration: "8 s", "1 min 50 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    large, small = (divmod(whole, 60), ("min", "s")) if whole < 3600 else (divmod(round(whole / 60), 60), ("h", "min"))
    return f"{large[0]} {small[0]}" + (f" {large[1]} {small[1]}" if large[1] else "")


def value_range(values: Sequence[float], unit: str) -> str:
    """The lowest and the highest value: "0–3 %", or "0 %" if they are equal."""
    found = scale(max(values, key=abs), unit)
    low, high = found.number(min(values)), found.number(max(values))
    return found.beside(high if low == high else rounding.span(low, high))


def evidence(summary: Summary, unit: str) -> str:
    """The evidence for a cell: n, the 95 % interval of the median or why there is none, and two modes if found."""
    n = f"n = {summary.n}" + (f", {summary.disturbed} disturbed" if summary.disturbed else "")
    modes = f"; {two_modes(summary.modes, unit)}" if summary.modes is not None else ""
    if summary.interval_low is None:
        return f"{n}: too small for an interval{modes}"
    return f"{n}, 95 %: {interval(summary, unit)}{modes}"


def two_modes(modes: Modes, unit: str) -> str:
    """The two groups of values: "two modes: 2 near 3.05 ms, 4 near 202 ms"."""
    low, high = (quantity(value, unit) for value in (modes.low, modes.high))
    return f"two modes: {modes.low_n} near {low}, {modes.high_n} near {high}"


def level_of(factor: str, text: str) -> str:
    """A level with its factor, for places that do not name the factor: "2 clients", "no antispam"."""
    if text in ("yes", "no"):
        return f"{'no ' if text == 'no' else ''}{factor.replace('_', ' ')}"
    # A study's own factor `clients` may have other levels: "few", or "unknown" of an imported output.
    return plural(int(text), "client") if factor == CLIENTS and text.isdecimal() else level(text)


def level(text: str) -> str:
    """A level or a case id for the reader: "1000-per-s", the form for names of folders, becomes "1,000/s"."""
    # Commas separate the levels of an id, so numbers in an id have none.
    return _RATE_LEVEL.sub(lambda m: f"{m[1]}{m[2] if m[1] else f'{int(m[2]):,}'}{m[3]}/{m[4]}", text)


def tool(name: str, version: str | None) -> str:
    """A tool's name and version, each once and without its path on the host: "locust 2.46.0 (Python 3.11.2)"."""
    said = _PLACE.sub("", version or "version unknown")
    return said if said.lower().startswith(name.lower()) else f"{name} {said}"


plural, listed, verb = rounding.plural, rounding.listed, rounding.verb


def shortened(text: str, characters: int) -> str:
    """`text` in at most so many characters, cut after a whole word and marked with " …"."""
    return textwrap.shorten(text, characters, placeholder=" …", break_on_hyphens=False)


def shortened_within(text: str, characters: int) -> str:
    """`text` in at most so many characters, without words of its middle.

    A cause begins with what happened, and ends with the last words of the program.
    """
    words = " ".join(text.split())
    if len(words) <= characters:
        return words
    begin = shortened(words, characters * 2 // 3)
    room = characters - len(begin) - 1
    _, _, end = words[-room - 1 :].partition(" ")  # after a whole word
    return f"{begin} {end}".rstrip()


def first_sentences(text: str, characters: int) -> str:
    """The first sentences of `text` that fit into so many characters; a longer one alone is `shortened`."""
    end = len(text) if len(text) <= characters else text.rfind(". ", 0, characters) + 1
    return text[:end] if end else shortened(text, characters)


def ratio(value: float, low: float | None = None, high: float | None = None) -> tuple[str, ...]:
    """A ratio and, if given, its 95 % interval: ("1.02×", "95 %: 0.984–1.06×")."""
    if low is None or high is None:
        return (times(value),)
    return times(value, rounding.digits(low, high)), f"95 %: {rounding.interval(low, high, value, '×')}"


def times(ratio: float, to: int = rounding.MOST) -> str:
    """ "1.02×", "0.0123×", "1,240×"."""
    return f"{rounding.shown(ratio, to)}×"


def p_value(p: float) -> str:
    """A p value: "0.03", "< 0.001". One that is too large for a verdict, however narrowly, does not look like 0.05."""
    if p < 0.001:
        return "< 0.001"
    shown = rounding.few(p)
    return beyond(p, ALPHA, "1") if p > ALPHA and shown == rounding.few(ALPHA) else shown


def number(value: float | None) -> str:
    """A value without a unit. A missing value is a dash."""
    return quantity(value, "1")


def estimate(value: float, low: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """An estimate and its 95 % interval, if it has one, rounded together: ("1,990/s", "95 %: 1,940–2,010/s")."""
    found = scale(value or high or 0.0, unit)
    if low is None or high is None:
        return found.text(value), ""
    to = rounding.digits(low / found.factor, high / found.factor)
    return found.text(value, to), f"95 %: {found.interval(low, high, value)}"


def share(found: Share) -> str:
    """The share of a count, rounded to the digits of its interval."""
    return (
        rounding.shown(100 * found.count / found.n, rounding.digits(100 * found.low, 100 * found.high), trim=True)
        + " %"
    )


def change(relative: float, to: int = rounding.MOST) -> str:
    """A relative difference with its sign: 0.019 is "+1.9 %"."""
    size = rounding.shown(abs(relative) / 0.01, to, trim=True)
    return f"{'' if size == '0' else '+' if relative > 0 else '−'}{size} %"


def noun(title: str) -> str:
    """A metric's title for use within a sentence: "time of one file", but "QPS", "CPU, user", "P99 latency", "I/O"."""
    first = title.partition(" ")[0]
    is_a_sign = len(first) == 1 or any(c.isupper() or c.isdigit() for c in first[1:])
    return title if is_a_sign else title[:1].lower() + title[1:]
