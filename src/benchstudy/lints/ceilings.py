"""Rules about rates that the declared hardware cannot reach."""

from fnmatch import fnmatchcase

from benchstudy.lints import words
from benchstudy.lints.model import Ceiling, Figure, Found, Group, Material, rule
from benchstudy.lints.summaries import size_of
from benchstudy.model import rounding
from benchstudy.model.criteria import CACHED

_SLACK = 1.05  # ceilings are round figures
# What a study declares as memory must not be mistaken for a disk.
_DECLARED_AS_MEMORY = {"read": ("cache", "warm"), "write": ("sync", "none")}


@rule(
    "cache-speed-reads",
    "error",
    why="A read faster than the device can deliver came from memory. It shows the speed of the page cache, which is "
    "the same for every backend, and says nothing about a first read.",
    action="Empty the caches before each read and verify that the device was read; publish warm reads under that name.",
)
def cache_speed_reads(material: Material) -> Found:
    yield from _above(material, "read", "reads")


@rule(
    "unsynced-writes",
    "error",
    why="A write faster than the device can take ended in memory, before anything was stored: a power failure would "
    "lose it. The rest of the work happens later and slows down whatever runs then.",
    action="Stop the clock after fsync, and publish unsynced writes separately and under that name.",
)
def unsynced_writes(material: Material) -> Found:
    yield from _above(material, "write", "writes")


@rule(
    "low-ceiling",
    "note",
    why="The storage counters show that every byte came from storage, so storage is faster than the measured ceiling. "
    "Such a ceiling cannot show which other figures are impossible.",
    action="Measure the ceiling with larger requests, with more of them in flight, or on a quiet machine; or declare "
    "the rate of its data sheet.",
)
def low_ceiling(material: Material) -> Found:
    yield from _above(material, "read", "reads", all_from_storage=True)


def _above(material: Material, op: str, noun: str, *, all_from_storage: bool = False) -> Found:
    """Figures above a ceiling: those that tell of the ceiling, because storage gave every byte, or all others."""
    for group in material.groups:
        factor, memory = _DECLARED_AS_MEMORY[op]
        if group.levels.get(factor) == memory:
            continue
        ceiling = next((c for c in material.ceilings if c.op == op and _holds_for(c, group)), None)
        found = _rate(group, op)
        if ceiling is not None and found is not None and found[0] > _SLACK * ceiling.rate:
            rate, said = found
            if (op == "read" and ceiling.measured and _all_from_storage(group)) == all_from_storage:
                times = rounding.few(rate / ceiling.rate)
                what = f"{said}{noun} at {words.rate(rate)}, {times} times the maximum possible: {ceiling.source}"
                yield group.where, what


def _all_from_storage(group: Group) -> bool:
    """Whether counters say that every byte came from storage. Then the cases that measured the ceiling fell short."""
    size = size_of(group)
    return size is not None and group.fetched is not None and group.fetched >= CACHED * size


def _holds_for(ceiling: Ceiling, group: Group) -> bool:
    case = ",".join(f"{factor}={level}" for factor, level in group.levels.items() if factor != "target")
    return all(group.levels.get(f) == level for f, level in ceiling.levels.items()) and fnmatchcase(case, ceiling.where)


def _rate(group: Group, op: str) -> tuple[float, str] | None:
    """Bytes per second of an operation, from the typical time if there is one; and how a sentence about it begins."""
    bandwidth = group.figures.get(f"{op}_bandwidth")
    if bandwidth is not None and bandwidth.value:
        return bandwidth.value, ""
    if group.levels.get("op") != op:
        return None
    rate = group.figures.get("throughput") or group.figures.get("bandwidth")
    if rate is not None and rate.value and rate.unit == "B/s":
        return rate.value, ""
    size = size_of(group)
    seconds = next((f for name in ("p50", "duration", "mean") if (f := group.figures.get(name))), None)
    if size is None or seconds is None or not seconds.value:
        return None
    return size / seconds.value, f"{group.levels['size']} in {_said(seconds)} means "


def _said(figure: Figure) -> str:
    return figure.printed or words.time(figure.value or 0.0)
