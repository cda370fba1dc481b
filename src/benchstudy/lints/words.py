"""How findings print figures. Studies that only name lints should not pay for importing `report.human`."""

from collections.abc import Callable

from benchstudy.model import rounding


def of_unit(unit: str) -> Callable[[float], str]:
    """The function that prints figures of a base unit."""
    return {"s": time, "B": size, "B/s": rate, "1/s": per_second, "percent": percent}.get(unit, number)


def size(in_bytes: float) -> str:
    return _scaled(in_bytes, (("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)))


def rate(bytes_per_second: float) -> str:
    return f"{size(bytes_per_second)}/s"


def per_second(value: float) -> str:
    return f"{number(value)}/s"


def percent(value: float) -> str:
    return f"{number(value)} %"


def time(seconds: float) -> str:
    return _scaled(seconds, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)))


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else rounding.shown(value)


plural = rounding.plural


def _scaled(value: float, units: tuple[tuple[str, float], ...]) -> str:
    name, factor = next((u for u in units if abs(value) >= u[1]), units[-1])
    return f"{rounding.shown(value / factor, trim=True)} {name}"
