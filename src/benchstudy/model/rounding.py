"""How a number is rounded for a reader: two or three significant digits, and an estimate as its interval is.

Rounding to a number of significant digits never turns the order of two values round. So an estimate that is rounded to
as many as the ends of its interval cannot leave it in print. Files keep full figures.
"""

import math

MOST, FEWEST = 3, 2
# With two digits an interval must still be so many steps wide; a narrower one needs the third.
_STEPS = 10


def digits(low: float | None = None, high: float | None = None) -> int:
    """How many significant digits suit an interval; the most without one."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or low == high:
        return MOST
    step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high)))) - FEWEST + 1)
    return FEWEST if high - low >= _STEPS * step else MOST


def shown(value: float, to: int = MOST, *, trim: bool = False) -> str:
    """`value` with `to` significant digits: "0.570", "1,990". Never an exponent, nor a zero with a sign.

    `trim`: without zeros at the end of its decimals, as counts and shares are said: "5", "0.1".
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
    """What is an aside in a sentence: two digits, "1.1", "12", "0.45"."""
    return shown(value, FEWEST, trim=True)


def percent(share: float) -> str:
    """ "99.4 %" of 0.994."""
    return f"{shown(100 * share, trim=True)} %"


def significant(value: float, to: int = MOST) -> float:
    """`value` as a number of so many significant digits, such as for a drawing, whose texts must not have fifteen."""
    return float(f"{value:.{to - 1}e}")


def interval(low: float, high: float, estimate: float, unit: str = "", *, trim: bool = False) -> str:
    """The ends as `shown` says them, with the digits of the estimate beside them: "1,940–2,010/s".

    An interval so narrow that three digits do not tell its ends apart is said by its reach: "±0.02 %".
    """
    to = digits(low, high)
    ends = [shown(end, to, trim=trim) for end in (low, high)]
    if ends[0] == ends[1] and low < high and estimate:
        reach = max(high - estimate, estimate - low) / abs(estimate)
        # Upwards: a reach that is rounded downwards would leave an end out.
        step = 10.0 ** (math.floor(math.log10(reach * 100)) - FEWEST + 1)
        return f"±{shown(math.ceil(reach * 100 / step) * step, FEWEST)} %"
    return f"{'–'.join(ends)}{unit}"
