"""Lints on scraped samples: counter resets, gaps, windows too short for their scrape interval, quantiles at the ends of
a histogram, and labels of one version only."""

from collections.abc import Iterator, Sized

from benchstudy.lints import words
from benchstudy.lints.model import Found, Group, Material, rule
from benchstudy.model import rounding

# Scrapes in a window: with fewer, one late or missing scrape moves every rate by several percent.
FEWEST_SCRAPES = 30
LEAST_SHARE = 0.01  # of all calls; a rarer label hardly moves the mean
_P99 = "_p99"


@rule(
    "counter-reset",
    "warning",
    why="A counter resets when its process restarts. Counts between the last sample and the restart are lost, and the "
    "process starts again with empty caches.",
    action="Find out why the process restarted, and measure the window again.",
)
def counter_reset(material: Material) -> Found:
    yield from _counted(material, "resets", "counter reset", "within the window")


@rule(
    "scrape-gap",
    "warning",
    why="Nothing is known about what happened in a gap: a rate over it is a mean, and a stall within it is invisible.",
    action="Reserve processor time for Prometheus, scrape fewer series, and measure the window again.",
)
def scrape_gap(material: Material) -> Found:
    yield from _counted(material, "gaps", "gap", "in the samples of the window")


@rule(
    "short-window",
    "warning",
    why="Rates are differences between scrapes. With few scrapes in a window, each of them determines a large part of "
    "every figure, and the quantile of a rare call rests on a few calls.",
    action="Measure for longer, or scrape more often.",
)
def short_window(material: Material) -> Found:
    found: dict[str, tuple[float, float]] = {}
    for group in material.groups:
        window, interval = group.value("window"), group.value("scrape_interval")
        if window and interval and window / interval < FEWEST_SCRAPES:
            found[group.where] = (window, interval)
    for where, (window, interval) in found.items():
        yield (
            where,
            (
                f"{words.time(window)} scraped every {words.time(interval)}: {round(window / interval)} "
                f"scrapes; at least {FEWEST_SCRAPES} are needed"
            ),
        )


@rule(
    "histogram-end",
    "warning",
    why="Below the first edge of a histogram, and above the last, a quantile has only one bound. Interpolated figures "
    "there only reflect the formula, and changes within the bucket are invisible.",
    action="Print the bucket, do not compare the figure, and measure with buckets that cover the calls.",
)
def histogram_end(material: Material) -> Found:
    for group in material.groups:
        for name, figure in group.figures.items():
            if not name.endswith(_P99) or f"{name}_low" not in group.figures or figure.value is None:
                continue
            # Of single trials: the median of two edges is neither trial's.
            own = [sample for sample in material.own(group) if name in sample.figures]
            lowest = [sample for sample in own if not sample.value(f"{name}_low")]
            above = [s for s in own if s.value(f"{name}_low") and s.value(f"{name}_high") is None]
            what = f"{name.removesuffix(_P99).replace('_', ' ')}: the p99 lies"
            if lowest:
                edge = max(sample.value(f"{name}_high") or 0.0 for sample in lowest)
                below = f"{what} in the lowest bucket, below {words.time(edge or figure.value)}"
                yield group.where, below + _share(lowest, own)
            if above:
                edge = min(sample.value(f"{name}_low") or 0.0 for sample in above)
                past = f"{what} above the last edge of the histogram, {words.time(edge)}"
                yield group.where, past + _share(above, own)


def _share(some: Sized, own: Sized) -> str:
    return "" if len(some) == len(own) else f", in {len(some)} of {words.plural(len(own), 'trial')}"


@rule(
    "one-sided-label",
    "note",
    why="A mean over all calls changes with the mix of calls, even if none of them got slower or faster. A label that "
    "left has no time in the new version; read as zero, it becomes an improvement of 100 %.",
    action="Compare like for like, with the calls of the base, and name the labels that entered and left.",
)
def one_sided_label(material: Material) -> Found:
    """Labels with at least 1 % of the calls of their group that only one of two versions called."""
    for place, base, new in _neighbours(material):
        for kind, labels in material.labels.get(base.where, {}).items():
            others = material.labels.get(new.where, {}).get(kind, {})
            for state, own, its in (("left", labels, others), ("entered", others, labels)):
                total = sum(own.values())
                gone = {
                    label: count
                    for label, count in own.items()
                    if not its.get(label) and count >= LEAST_SHARE * total > 0
                }
                for label, count in gone.items():
                    yield place, f"{label} {state}: {rounding.percent(round(count / total, 3))} of the {kind} calls"


def _counted(material: Material, metric: str, what: str, where: str) -> Found:
    """Groups whose samples have faults of this kind, with their number."""
    for group in material.samples:
        count = group.value(metric)
        if count:
            yield group.where, f"{words.plural(int(count), what)} {where}"


def _neighbours(material: Material) -> Iterator[tuple[str, Group, Group]]:
    """Pairs of cases that differ in their version only, the first version against each other one, with a name."""
    if not material.labels:
        return
    for _, groups in material.by(lambda group: group.but("version")):
        versions = [group for group in groups if "version" in group.levels]
        for other in versions[1:]:
            both = f"{versions[0].levels['version']} → {other.levels['version']}"
            yield Group("", {**dict(other.but("version")), "version": both}, {}).where, versions[0], other
