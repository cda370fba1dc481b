"""Rounds numbers for readers: to two or three significant digits, and an estimate like its interval.

Rounding to a number of significant digits never reverses the order of two values. So an estimate rounded to as many
digits as the ends of its interval cannot leave the interval in print. Files keep full precision. `plural` and `listed`
put counts into words.
"""

import math
from collections.abc import Sequence

MOST, FEWEST = 3, 2
# With two digits an interval must still be this many steps wide; a narrower one needs the third.
_STEPS = 10


def digits(low: float | None = None, high: float | None = None) -> int:
    """How many significant digits suit an interval; the maximum without one."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or low == high:
        return MOST
    step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high)))) - FEWEST + 1)
    return FEWEST if high - low >= _STEPS * step else MOST


def shown(value: float, to: int = MOST, *, trim: bool = False) -> str:
    """`value` with `to` significant digits: "0.570", "1,990". Never an exponent, nor a signed zero.

    `trim`: without trailing zeros, for counts and shares: "5", "0.1".
    """
    if not math.isfinite(value):
        return str(value).replace("inf", "∞")
    rounded = significant(value, to)
    if not rounded:
        return "0"
    decimals = max(0, to - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if trim and decimals else text


def few(value: float) -> str:
    """A minor figure in a sentence, with two digits: "1.1", "12", "0.45"."""
    return shown(value, FEWEST, trim=True)


def percent(share: float) -> str:
    """ "99.4 %" of 0.994."""
    return f"{shown(100 * share, trim=True)} %"


def significant(value: float, to: int = MOST) -> float:
    """`value` rounded to this many significant digits, for example for a drawing, whose texts must not have fifteen."""
    return float(f"{value:.{to - 1}e}")


def interval(low: float, high: float, estimate: float, unit: str = "", *, trim: bool = False) -> str:
    """The ends in the form of `shown`, with as many digits as the estimate beside them: "1,940–2,010/s".

    An interval whose ends are equal at three digits is given by its reach: "±0.02 %".
    """
    to = digits(low, high)
    ends = [shown(end, to, trim=trim) for end in (low, high)]
    if ends[0] == ends[1] and low < high and estimate:
        reach = max(high - estimate, estimate - low) / abs(estimate)
        # Rounded up: a reach rounded down would exclude an end.
        step = 10.0 ** (math.floor(math.log10(reach * 100)) - FEWEST + 1)
        return f"±{shown(math.ceil(reach * 100 / step) * step, FEWEST)} %"
    return f"{span(*ends)}{unit}"


def span(low: str, high: str) -> str:
    """From one number to another, as texts: "3–5", but "-5 to -3"."""
    return f"{low} to {high}" if low.startswith("-") else f"{low}–{high}"


def plural(count: int, noun: str) -> str:
    """`count` with its noun: "1 trial", "1,200 trials"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def verb(count: int, total: int, singular: str, plural: str) -> str:
    """The verb after "1 of 6 trials" or "0 of 1 trial", which is singular, or after "2 of 6 trials"."""
    return singular if 1 in (count, total) else plural


def listed(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first `most` of them, and the number of others: "a, b and 3 more"; "a; b; and 3 more" between semicolons."""
    more = len(names) - most
    before = " " if separator == ", " else separator
    return separator.join(names[:most]) + (f"{before}and {more:,} more" if more > 0 else "")
