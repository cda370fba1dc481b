"""Rules about generated load: what limited it, what was requested, and what a figure averages over."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from benchstudy.lints import words
from benchstudy.lints.model import Found, Group, Material, rule
from benchstudy.model import rounding
from benchstudy.model.criteria import ACHIEVED, BUSY_GENERATOR, BUSY_WRITERS

# A plateau: from one concurrency on, over this many levels and this many times the connections, throughput is flat.
FLAT, FLAT_LEVELS, FLAT_SPAN = 1.10, 4, 10
# Two plateaus this close to each other under different limits do not come from the limits.
SAME_PLATEAU = 1.10


def plateau(sweep: Sequence[tuple[int, float]]) -> int | None:
    """The lowest concurrency above which throughput is flat over several levels and a factor of ten, or None."""
    for index, (first, _) in enumerate(sweep):
        rest = [value for _, value in sweep[index:]]
        if len(rest) < FLAT_LEVELS or sweep[-1][0] < FLAT_SPAN * first:
            return None
        if max(rest) / min(rest) <= FLAT:
            return first
    return None


@rule(
    "offered-above-achieved",
    "warning",
    why="The system did not sustain the offered rate: it was overloaded, it refused requests, or the generator did not "
    "send all that was due. The times of such a run depend on how long it lasted.",
    action="Lower the offered rate until at least 99 % of it is achieved, and report the bracket of what passed and "
    "failed.",
)
def offered_above_achieved(material: Material) -> Found:
    for group in material.groups:
        if group.levels.get("rate") == "search":
            continue  # it asks for too much on purpose, and reports where "too much" begins
        offered = group.value("max_rate", "offered")
        achieved = group.value("qps", "achieved", "throughput")
        share = group.value("achieved_share")
        if share is None and offered and achieved is not None:
            share = achieved / offered
        if share is not None and share < ACHIEVED:
            said = (
                f"{words.number(offered)}/s offered, {words.number(achieved)}/s achieved"
                if offered and achieved
                else ""
            )
            yield group.where, f"{said + ': ' if said else ''}{rounding.percent(share)} of the offered rate achieved"


@rule(
    "client-limited",
    "warning",
    why="If the generator is the limit, its capacity is mistaken for the system's, and faster systems look the same.",
    action="Measure the generator on a server that does nothing, and give it at least twice what the system needs.",
)
def client_limited(material: Material) -> Found:
    for group in material.groups:
        rate, wait, workers = group.value("qps"), group.value("queue_avg"), group.value("workers")
        if rate and wait and workers and rate * wait >= BUSY_WRITERS * workers:
            what = (
                f"{words.number(rate)}/s × {words.time(wait)} in queue need {words.number(rate * wait)} waiting "
                f"writers, and there were {words.number(workers)}: their number limited the rate"
            )
            yield group.where, what
        busy = group.value("generator_cpu")
        user, system = group.value("cpu_user"), group.value("cpu_system")
        if busy is None and user is not None and system is not None:
            busy = user + system
        if busy is not None and busy >= BUSY_GENERATOR and not _is_null(group):
            yield group.where, f"the generator used {rounding.percent(busy)} of its CPUs"
    # Grouped by everything but the limits, each of which has its own section in a published table.
    flat: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for group, _, _, values in _plateaus(material):
        if "limits" in group.levels:
            middle = sorted(values)[len(values) // 2]
            flat.setdefault(group.but("limits", "concurrency"), {})[group.levels["limits"]] = middle
    for levels, by_limits in flat.items():
        for (few, low), (many, high) in combinations(by_limits.items(), 2):
            if max(low, high) <= SAME_PLATEAU * min(low, high):
                yield (
                    ", ".join([*(level for _, level in levels), few, many]),
                    f"flat at {words.number(low)}/s under {few} and at {words.number(high)}/s under {many}: "
                    "neither limit determines the throughput",
                )


@rule(
    "saturated-from-the-start",
    "warning",
    why="Once throughput no longer grows with the number of connections, additional connections only wait. All rows "
    "from saturation on repeat one measurement, and the sweep does not show how the system reaches saturation.",
    action="Begin below saturation, or offer rates in an open loop. Above saturation, read latency, not throughput.",
)
def saturated_from_the_start(material: Material) -> Found:
    for group, levels, start, values in _plateaus(material):
        if start in levels[:2]:
            what = (
                f"from {start} connections on, {'the first' if start == levels[0] else 'the second'} of "
                f"{len(levels)} levels, throughput stays between {words.number(min(values))} and "
                f"{words.number(max(values))}/s"
            )
            yield Group(group.section, dict(group.but("concurrency")), {}).where, what


@rule(
    "declared-against-used",
    "error",
    why="A reader who repeats the printed command measures something other than what is reported.",
    action="Print the command that was run, and generate it and the figures from the same record.",
)
def declared_against_used(material: Material) -> Found:
    for group in material.groups:
        for name, asked in group.figures.items():
            used = group.figures.get(name.removeprefix("command_"))
            if name.startswith("command_") and used is not None and asked.value != used.value:
                what = name.removeprefix("command_")
                yield group.where, f"{what}: the command says {asked.printed}, the report says {used.printed}"


def _plateaus(material: Material) -> Iterator[tuple[Group, list[int], int, list[float]]]:
    """Sweeps over concurrency with a plateau: the first group, all levels, the plateau's lowest one and its values."""
    for _, groups in material.by(lambda group: (group.section, group.but("concurrency"))):
        points = [(int(g.levels["concurrency"]), g.value("throughput")) for g in groups if _is_point(g)]
        sweep = sorted((n, value) for n, value in points if value)
        start = plateau(sweep)
        if start is not None:
            yield groups[0], sorted(n for n, _ in points), start, [value for n, value in sweep if n >= start]


def _is_null(group: Group) -> bool:
    """A null server, which should be as fast as the generator."""
    return group.levels.get("endpoint") == "null"


def _is_point(group: Group) -> bool:
    return not _is_null(group) and group.levels.get("concurrency", "").isdigit() and "throughput" in group.figures
