"""The precision with which a figure was printed."""

import re


def last_digit(printed: str) -> float:
    """The size of the last printed digit of a time or number, in the base unit: 0.00001 for "0.57 ms"."""
    number = re.search(r"\d[\d,]*(?:\.(\d+))?\s*([^\d\s]*)", printed)
    if not number:
        return 0.0
    factor = {"ms": 1e-3, "msec": 1e-3, "µs": 1e-6, "us": 1e-6}.get(number[2], 1.0)
    return factor * 10.0 ** -len(number[1] or "")
