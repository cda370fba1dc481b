"""Rules about summaries of samples: what no sample can have, and what a single value caused."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache

from benchstudy.lints import words
from benchstudy.lints.model import Found, Group, Material, rule
from benchstudy.model import rounding
from benchstudy.statistics.modes import two_modes

_SUFFIXES = {"mean": ("mean", "avg"), "sd": ("sd", "stddev"), "median": ("p50", "median")}
# Generators print latencies to the millisecond, and nothing records how each metric of a trial was rounded.
_MEASURED_RESOLUTION = 1e-3
_PERCENTILE = re.compile(r"(?:.+_)?p(?:9\d(?:\.\d+)?)")
_RANK = re.compile(r"(?P<stem>(?:.+_)?)(?:p(?P<percent>\d\d?(?:\.\d+)?|100)|(?P<name>min|median|max|mean|avg))")
_PERCENT = re.compile(r"(?:^|_)p[\d.]+$")
_RANKS = {"min": 0.0, "median": 50.0, "max": 100.0}
_TWO_DIGITS = 1.05  # some tools round percentiles to two digits
_NEVER_NEGATIVE = ("s", "B", "B/s", "1/s")
# What a figure is called that may be negative. An interval of a difference may also begin below zero.
_SIGNED = re.compile(
    r"(?i)(?<![a-z])(?:change|diff|delta|offset|skew|drift|gain|loss|lost|saved|saving|low\b|interval|overhead|slope|trend|lag|"
    r"margin|error|residual|bias|improve|regress|speed|reduc|faster|slower|less|more|fewer|\+|Δ)"
)
# The lowest bucket edge that common client libraries use by default.
_LOWEST_EDGES = (0.005,)
_AT_EDGE = 3
_TIGHT = 5.0  # the factor by which a spread falls without its one outlier
_AGREEING = 1.5  # ratio of the sample sizes that two cells of a series imply


@rule(
    "impossible-mean-median",
    "error",
    why="The mean and the median of one sample lie at most one standard deviation apart. Where they do not, the three "
    "figures come from different samples, or one was mistyped.",
    action="Go back to the raw samples and print all three from the same ones.",
)
def impossible_mean_median(material: Material) -> Found:
    for group in material.samples:
        for prefix, mean, sd, median in _triples(group):
            measured = _MEASURED_RESOLUTION if group.figures[mean].unit == "s" else 0.0
            slack = 1.5 * max(group.figures[mean].resolution, measured if material.kind == "measured" else 0.0)
            average, deviation, middle = (group.figures[name].value or 0.0 for name in (mean, sd, median))
            distance = abs(average - middle)
            if distance > deviation + slack and deviation >= 0:
                printed = [
                    group.figures[name].printed or f"{group.figures[name].value:g}" for name in (mean, sd, median)
                ]
                said = f"{prefix}mean {printed[0]} (±{printed[1].removeprefix('±')}) and median {printed[2]} lie "
                apart = f"{rounding.few(distance / deviation)} standard deviations apart" if deviation else "apart"
                yield group.where, f"{said}{apart}; within one sample it is at most one"


@rule(
    "quantiles-out-of-order",
    "error",
    why="In one sample, no percentile lies below a lower one, and the mean lies between the least and the most. The "
    "figures come from different samples, or one was mistyped.",
    action="Go back to the raw samples and print all of them from the same ones.",
    of="published",  # parsers refuse such outputs
)
def quantiles_out_of_order(material: Material) -> Found:
    for group in material.samples:
        for stem, pairs in _pairs(tuple(group.figures)):
            wrong = ((low, high) for low, high in pairs if _out_of_order(group, low, high))
            if (found := next(wrong, None)) is not None:
                low, high = (f"{name.removeprefix(stem)} ({group.figures[name].printed})" for name in found)
                yield group.where, f"{stem.rstrip('_').replace('_', ' ')}{': ' if stem else ''}{low} lies above {high}"


@rule(
    "negative-figure",
    "error",
    why="No time, size, rate or deviation is below zero. Its sign was mistyped, or it is a difference.",
    action="Correct the sign, or name the statistic as what it is, such as mean_difference.",
    of="published",  # parsers refuse such outputs
)
def negative_figure(material: Material) -> Found:
    for group in material.groups:
        around = (group.section, *group.levels, *group.levels.values())
        for name, figure in group.figures.items():
            deviation = name.rpartition("_")[2] in _SUFFIXES["sd"]
            signed = _SIGNED.search(" ".join((*around, name, figure.printed)))
            never = deviation or (figure.unit in _NEVER_NEGATIVE and not signed)
            if never and (figure.value or 0.0) < 0:
                yield f"{group.where}, {name.replace('_', ' ')}", f"“{figure.printed}” is below zero"


@rule(
    "single-outlier",
    "warning",
    why="If one value is far from the others, it decides the mean and the deviation. It is usually the first one, "
    "with cold caches or a new connection. Mean and deviation then show neither the other values nor how often this "
    "happens.",
    action="Show the samples; measure the cold and the warm case separately, each several times.",
)
def single_outlier(material: Material) -> Found:
    if material.kind == "measured":
        yield from _outliers_in_values(material)
        return
    for series, groups in material.by(lambda group: (group.section, group.but("size"))):
        fitting = [(group, *fit) for group in groups if (fit := _one_outlier(group)) is not None]
        sizes = [k for _, k, _ in fitting]
        if len(fitting) < 2 or max(sizes) > _AGREEING * min(sizes):
            continue
        implied = ", ".join(
            f"{group.levels.get('size', group.where)}: {words.time(outlier)}"
            + (f" ({words.rate(size / outlier)})" if (size := size_of(group)) else "")
            for group, _, outlier in fitting
        )
        section, levels = series
        where = ", ".join(
            [section, *(level for _, level in levels), *(g.levels.get("size", "") for g, _, _ in fitting)]
        )
        what = (
            f"mean, deviation and median fit n ≈ {min(sizes):.0f}–{max(sizes):.0f} values: all but one are near "
            f"the median, and one is {implied}"
        )
        yield where, what


def _one_outlier(group: Group) -> tuple[float, float] | None:
    """(size of sample, the outlier) if all but one value are the median: then (sd / (mean - median))² is the size."""
    mean, sd, median = (group.value(name) for name in ("mean", "sd", "p50"))
    if mean is None or sd is None or median is None or sd <= mean or mean <= median:
        return None
    size = (sd / (mean - median)) ** 2
    return (size, median + size * (mean - median)) if 3 <= size <= 100 else None


def _outliers_in_values(material: Material) -> Iterator[tuple[str, str]]:
    for group in material.groups:
        figure = next((group.figures[name] for name in material.headlines if name in group.figures), None)
        values = sorted(figure.values) if figure else []
        if figure is None or len(values) < 5:
            continue
        for lone, others in ((values[-1], values[:-1]), (values[0], values[1:])):
            spread, without = _sd(values), _sd(others)
            typical = others[len(others) // 2]
            far = max(lone, typical) > 3 * min(lone, typical) > 0
            if far and spread > _TIGHT * without:
                say = words.of_unit(figure.unit)
                what = (
                    f"one of {len(values)} trials gave {say(lone)}, the others {say(others[0])} to "
                    f"{say(others[-1])}; "
                    f"without it the standard deviation falls from {say(spread)} to {say(without)}"
                )
                yield group.where, what


def _sd(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


@rule(
    "two-modes",
    "warning",
    why="The median of two groups describes at most one of them, and one more trial may move it to the other.",
    action="Find out what separates them (a cold start, a cache, a neighbour, the order), then make it a factor or "
    "remove it. Until then, print both.",
    of="measured",
)
def two_groups(material: Material) -> Found:
    for group in material.groups:
        for name in material.headlines:
            modes = two_modes(group.figures[name].values) if name in group.figures else None
            if modes is not None:
                say = words.of_unit(group.figures[name].unit)
                parts = f"{modes.low_n} trials near {say(modes.low)}, {modes.high_n} near {say(modes.high)}"
                yield group.where, f"{name.replace('_', ' ')}: {parts}"


@rule(
    "lowest-bucket",
    "warning",
    why="A quantile of a histogram that falls into its lowest bucket is only known to lie below that bucket's edge. "
    "Equal figures do not mean equal times, and a change within the bucket is invisible.",
    action="Print “< edge”, or measure with finer buckets; do not compare two of them.",
    # Generators that print whole milliseconds hit the edge by chance, and no family reads such histograms.
    of="published",
)
def lowest_bucket(material: Material) -> Found:
    for version, groups in material.by(lambda group: group.levels.get("version", "")):
        seconds = [
            (figure.value, name)
            for group in groups
            for name, figure in group.figures.items()
            if _PERCENTILE.fullmatch(name) and figure.unit == "s" and figure.value
        ]
        lowest = min((value for value, _ in seconds), default=None)
        names = [name for value, name in seconds if value == lowest]
        if lowest in _LOWEST_EDGES and (count := len(names)) >= _AT_EDGE:
            what = (
                f"{count} figures of {_named(names)} are exactly {words.time(lowest)}, and none is lower: that is "
                "the edge of the lowest bucket"
            )
            yield str(version) or "all", what


def _named(statistics: list[str]) -> str:
    """ "p99" of one kind, "p95 and p99" of several."""
    return " and ".join(sorted({name.rpartition("_")[2] for name in statistics}))


def _triples(group: Group) -> Iterator[tuple[str, str, str, str]]:
    """(prefix for a sentence, names of mean, deviation and median) of each sample that a group summarises."""
    for name, stem in _means(tuple(group.figures)):
        sd, median = (
            next((stem + s for s in _SUFFIXES[what] if _known(group, stem + s)), None) for what in ("sd", "median")
        )
        if sd and median and _known(group, name):
            yield f"{stem.removesuffix('_')}: " if stem else "", name, sd, median


@lru_cache
def _pairs(names: tuple[str, ...]) -> list[tuple[str, list[tuple[str, str]]]]:
    """By stem, pairs of names of which the first never lies above the second."""
    found: dict[str, list[tuple[str, float | None]]] = {}
    for name in names:
        if match := _RANK.fullmatch(name):
            rank = float(match["percent"]) if match["percent"] else _RANKS.get(match["name"])
            found.setdefault(match["stem"], []).append((name, rank))
    return [
        (stem, [(a, b) for a, low in ranked for b, high in ranked if _rises(low, high)])
        for stem, ranked in found.items()
    ]


def _rises(low: float | None, high: float | None) -> bool:
    """Of two ranks; that of a mean is None: it lies between the extremes."""
    if low is None or high is None:
        return low == 0.0 or high == 100.0
    return low < high


def _out_of_order(group: Group, below: str, above: str) -> bool:
    low, high = group.figures[below], group.figures[above]
    # Some call the rate that 99 % exceed its p99.
    turned = low.unit.endswith("/s") and any(_PERCENT.search(name) for name in (below, above))
    if (
        turned
        or low.unit != high.unit
        or low.value is None
        or high.value is None
        or {low.relation, high.relation} != {"="}
    ):
        return False
    return low.value > high.value + (_TWO_DIGITS - 1) * abs(high.value) + 0.5 * (low.resolution + high.resolution)


@lru_cache  # the trials of a family have the same figures
def _means(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The names of means, each also without its suffix."""
    return [(n, n.removesuffix(s)) for n in names for s in _SUFFIXES["mean"] if n == s or n.endswith(f"_{s}")]


def _known(group: Group, name: str) -> bool:
    return name in group.figures and group.figures[name].value is not None


def size_of(group: Group) -> int | None:
    """Bytes of the level `size`; None without one."""
    from benchstudy.model.units import Size

    try:
        return Size(group.levels["size"]).bytes
    except (KeyError, ValueError):
        return None
