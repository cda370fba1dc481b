"""What a printed figure says: its precision, and the values that its text can mean."""

import re
from collections.abc import Iterator

_NUMBER = r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"
_AFTER = r"\s*[\[(]?([A-Za-zµμ%]*)"  # the unit or word behind a number
_TIMES = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_SIZE = re.compile(r"([kKMGTP]?)i?(?:[Bb]|[Bb]ytes?|[Bb]its?|[Bb]ps)")
_BOUND = re.compile(r"[<>≤≥~≈]")
# A column may be in another unit than its cells say: in minutes, hours, days or weeks, in bits, in binary thousands.
_LONGER = (60.0, 3600.0, 86400.0, 604800.0)
_LARGER = (8.0, *(1024.0**power for power in range(1, 6)))
_OTHER_UNITS = {"s": _LONGER, "1/s": _LONGER, "B": _LARGER, "B/s": _LARGER}


def last_digit(printed: str) -> float:
    """The size of the last printed digit of a time or number, in the base unit: 0.00001 for "0.57 ms"."""
    number = re.search(r"\d[\d,]*(?:\.(\d+))?\s*([^\d\s]*)", printed)
    if not number:
        return 0.0
    factor = {"ms": 1e-3, "msec": 1e-3, "µs": 1e-6, "us": 1e-6}.get(number[2], 1.0)
    return factor * 10.0 ** -len(number[1] or "")


def contradicts(value: float, unit: str, printed: str) -> bool:
    """Whether no reading of a printed text gives this value in the base unit, whatever its sign and rounding.

    A bound, and a text without a number or of several, has no reading that could be told. "1m30.5s" has one.
    """
    numbers, words = re.findall(_NUMBER, printed), re.findall(_NUMBER + _AFTER, printed)
    if _BOUND.search(printed):
        return False
    if unit == "s" and len(numbers) > 1 and all(word in _TIMES for word in words):
        parts = [(*next(_read(number)), _TIMES[word]) for number, word in zip(numbers, words, strict=True)]
        return not _same(value, sum(number * s for number, _, s in parts), parts[-1][1] * parts[-1][2])
    return len(numbers) == 1 and not any(
        _same(value, number * factor, digit * factor)
        for number, digit in _read(numbers[0])
        for factor in _factors(unit, words[0])
    )


def _factors(unit: str, word: str) -> tuple[float, ...]:
    """The factors that turn a number, with this word behind it, into the base unit."""
    if unit == "1" and word == "%":
        return (0.01,)
    if unit == "s" and word in _TIMES and word != "m":  # also short for milli
        return (_TIMES[word],)
    if unit in ("B", "B/s") and (size := _SIZE.fullmatch(word)):
        power = " KMGTP".index(size[1].upper() or " ")
        return tuple(base**power * part for base in (1000.0, 1024.0) for part in (1.0, 1 / 8))
    others = _OTHER_UNITS.get(unit, ())
    return tuple(other * 10.0**power for other in (1.0, *others, *(1 / o for o in others)) for power in range(-15, 16))


def _read(number: str) -> Iterator[tuple[float, float]]:
    """The values of a number and the size of its last digit; a comma may be one of thousands or of decimals."""
    digits, _, exponent = number.lower().partition("e")
    scale = 10.0 ** min(int(exponent or 0), 300)
    for text in dict.fromkeys(
        (digits.replace(",", ""), digits.replace(".", "").replace(",", ".") if "," in digits else digits)
    ):
        if text.count(".") <= 1:
            yield float(text) * scale, 10.0 ** -len(text.partition(".")[2]) * scale


def _same(value: float, number: float, digit: float) -> bool:
    return abs(abs(value) - number) <= 0.5 * digit + 1e-9 * number
