"""Sizes and durations as people write them. Inside the package everything is bytes and seconds.

"100MB" is decimal (as the seed pages use it) and "100MiB" is binary; they are never mixed up. A text keeps the unit it
was written with, so that a table shows what the study says.
"""

import difflib
import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer, ValidationInfo, WithJsonSchema

_SIZE_UNITS = {
    "B": 1,
    **{f"{p}B": 1000**i for i, p in enumerate("kMGTP", start=1)},
    "KB": 1000,  # the storage page writes 100KB and means the decimal unit
    **{f"{p}iB": 1024**i for i, p in enumerate("KMGTP", start=1)},
}
_DURATION_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOST = 1e18  # bytes or seconds, so that results of calculations stay finite
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")

# The same as patterns for JSON Schema, which match anywhere in a text unless anchored.
SIZE_PATTERN = rf"^\s*\d+(\.\d+)?\s*({'|'.join(_SIZE_UNITS)})\s*$"
BYTE_RATE_PATTERN = SIZE_PATTERN.removesuffix("$") + r"/s\s*$"
DURATION_PATTERN = rf"^\s*\d+(\.\d+)?\s*({'|'.join(_DURATION_UNITS)})\s*$"
PERCENT_PATTERN = r"^\s*\d+(\.\d+)?\s*%\s*$"
PROPER_PERCENT_PATTERN = r"^\s*(?!0+(\.0+)?\s*%)\d{1,2}(\.\d+)?\s*%\s*$"  # above 0, below 100
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*")


def _parse(value: Any, units: dict[str, float], what: str, example: str) -> float | Fraction:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        known = ", ".join(units)
        raise ValueError(f"{value!r} is not a {what}: write a number and a unit, such as {example} (units: {known})")
    if not float(match[1]) * units[match[2]] < _MOST:
        raise ValueError(f"{value!r}: no {what} is that large")
    return Fraction(match[1]) * units[match[2]]  # exact for sizes: the float 4.1 times 1e9 is no whole number


class Size(str):
    """A size as written in the study; `bytes` is its value in bytes."""

    bytes: int

    def __new__(cls, text: str) -> "Size":
        value = _parse(text, _SIZE_UNITS, "size", '"100MB" (decimal) or "100MiB" (binary)')
        if value != int(value):
            raise ValueError(f"{text!r} is not a whole number of bytes")
        self = super().__new__(cls, re.sub(r"\s", "", text))
        self.bytes = int(value)
        return self


def parse_duration(value: Any) -> float:
    """Seconds in "30s", "5min", "250ms" and the like; a bare number is refused, because it hides its unit."""
    return float(_parse(value, _DURATION_UNITS, "duration", '"30s" or "5min"'))


def parse_percent(value: Any) -> float | None:
    """0.025 of "2.5 %"; None for anything in another form."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else None


# Bits, as networks count.
_BITS = {"bit": 1 / 8, **{f"{p}bit": 1000**i / 8 for i, p in enumerate("kMGT", start=1)}}
_BASES: dict[str, tuple[float, str]] = {
    "1": (1.0, "1"),
    "%": (1.0, "percent"),  # as printed: readers of a table would take 0.994 for 0.994 %
    **{unit: (factor, "s") for unit, factor in {"ns": 1e-9, **_DURATION_UNITS}.items()},
    **{unit: (float(factor), "B") for unit, factor in (_SIZE_UNITS | _BITS).items()},
    **{f"{unit}/s": (float(factor), "B/s") for unit, factor in (_SIZE_UNITS | _BITS).items()},
    **{f"1/{unit}": (1 / factor, "1/s") for unit, factor in _DURATION_UNITS.items()},
}
BASE_UNITS = tuple(dict.fromkeys(base for _, base in _BASES.values()))


def known_units() -> list[str]:
    """Every unit that `base_of` knows."""
    return list(_BASES)


def base_of(unit: str) -> tuple[float, str]:
    """The factor from this unit to its base unit, and the base unit: "ms" gives (0.001, "s").

    Raises ValueError for an unknown unit.
    """
    if unit not in _BASES:
        close = difflib.get_close_matches(unit, _BASES, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        raise ValueError(
            f"{unit!r} is an unknown unit: {hint}known: 1 (count, ratio or score), %, ns to d, B to PiB, bit to Tbit, "
            "each of these sizes with /s, and 1/s, 1/min"
        )
    return _BASES[unit]


def _size(value: Any) -> Size:
    if isinstance(value, Size):
        return value
    if not isinstance(value, str):
        raise ValueError(f'{value!r} has no unit: write "100MB" (decimal) or "100MiB" (binary)')
    return Size(value)


def _some_bytes(size: Size) -> Size:
    if not size.bytes:
        raise ValueError("give a size above zero")
    return size


SizeField = Annotated[
    InstanceOf[Size],
    BeforeValidator(_size),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["100MB", "64MiB"]}),
]
PositiveSizeField = Annotated[SizeField, AfterValidator(_some_bytes)]
# The written form in a study of what is a number inside.
DurationText = Annotated[str, Field(pattern=DURATION_PATTERN, examples=["30s", "5min"])]
PercentText = Annotated[str, Field(pattern=PERCENT_PATTERN, examples=["2.5 %"])]
ProperShare = (
    Annotated[str, Field(pattern=PROPER_PERCENT_PATTERN, examples=["5 %"])] | Annotated[float, Field(gt=0, lt=1)]
)
# The validation context of a study that a person wrote: code and stored studies have durations as seconds.
WRITTEN = {"written": True}


def _duration(value: Any, told: ValidationInfo) -> float:
    if told.context != WRITTEN and isinstance(value, float) and 0 <= value < _MOST:
        return value
    return parse_duration(value)


def _above_zero(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("give a time above zero")
    return seconds


def _count_or_duration(value: Any, told: ValidationInfo) -> int | float:
    if type(value) is not int:
        return _duration(value, told)
    if value < 0:
        raise ValueError(f"{value}: give 0 or more")
    return value


DurationField = Annotated[float, BeforeValidator(_duration, json_schema_input_type=DurationText)]
# A number of runs or requests is an int, a time in seconds a float.
CountOrDurationField = Annotated[
    int | float, BeforeValidator(_count_or_duration, json_schema_input_type=int | DurationText)
]
TimeoutField = Annotated[DurationField, AfterValidator(_above_zero)]
