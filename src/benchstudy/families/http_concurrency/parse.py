"""Parser of one trial of http_concurrency: the generator's output, and the facts about the load. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchstudy.families.http_concurrency.ab import parse_ab
from benchstudy.families.http_concurrency.command import FACTS, LOAD
from benchstudy.families.http_concurrency.k6_points import parse_k6_points
from benchstudy.families.http_concurrency.load_result import LoadResult, ab_load, requests_under_way
from benchstudy.families.http_concurrency.metrics import METRICS
from benchstudy.families.http_concurrency.several import Loads, one_load, several_loads
from benchstudy.families.http_concurrency.summaries import (
    Summary,
    known,
    locust_rows,
    parse_hey,
    parse_k6,
    parse_locust,
)
from benchstudy.families.http_concurrency.wrk_printed import parse_wrk_printed
from benchstudy.families.shared.clients import SERIES, Bins, Values, combined, value_of
from benchstudy.families.shared.files import damaged, read_facts, read_json, read_text
from benchstudy.families.shared.levels import Rate
from benchstudy.model.criteria import BUSY_GENERATOR, LITTLE
from benchstudy.model.family import UNKNOWN, Observation, Parsed, ParseError

IMPORTED_AB, IMPORTED_K6, IMPORTED_HEY, IMPORTED_LOCUST = "ab.txt", "k6-export.json", "hey.txt", "locust_stats.csv"
IMPORTED_WRK, IMPORTED_K6_POINTS = "wrk.txt", "k6-points.json"
PART = "part.json"  # the row of Locust's table that an imported trial comes from
_KNOWN_FACTS = ("tool", "concurrency", "rate_per_s", "checks", "usage", "threads", "leaves", "left", "server")
# The largest allowed difference between the bounds of a generator's CPU share.
_GENERATOR_CPU_BLUR = 0.15


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """Parse the observations and series of a trial, measured or imported. Raises ParseError."""
    summary = imported_summary(files)
    if summary is not None:
        return _parsed(levels, known(summary.values, METRICS), sorted(summary.percentiles.items()), [])
    if (files / IMPORTED_AB).is_file():
        found = ab_load(parse_ab(read_text(files / IMPORTED_AB)), None, None)
        return _parsed(levels, found.values, found.percentiles, found.histogram, found.in_flight_blur)
    facts = read_facts(files / FACTS, _KNOWN_FACTS)
    loads = _loads(facts, files)
    found = loads.together
    with damaged(f"{FACTS} or supervisor.json lacks what was found around the load"):
        _compare(levels, facts, found)
        used = [
            {"generator_cpu": (_generator_cpu(read_json(folder / "supervisor.json"), load, threads), "1")}
            for load, folder, threads in zip(loads.each, loads.folders, _threads(facts), strict=True)
        ]
        values = {**found.values, **combined(used, most=("generator_cpu",)), **_around(facts, found)}
        values |= _achieved(found)
    parsed = _parsed(levels, values, found.percentiles, found.histogram, found.in_flight_blur)
    if loads.clients is None:
        return parsed
    each = [{**load.values, **cpu} for load, cpu in zip(loads.each, used, strict=True)]
    return Parsed(parsed.observations, {**parsed.series, SERIES: loads.clients.rows(each)})


def _loads(facts: Mapping[str, Any], files: Path) -> Loads:
    read = several_loads if "clients" in facts else one_load
    return read(facts["tool"], files / LOAD)


def _threads(facts: Mapping[str, Any]) -> list[int]:
    """The number of threads of each client's generator."""
    return [client["threads"] for client in facts.get("clients", [facts])]


def _parsed(
    levels: Mapping[str, str],
    values: Values,
    percentiles: Sequence[tuple[float, float]],
    histogram: Bins,
    in_flight_blur: float = 0.0,
) -> Parsed:
    last = _little(levels, values, in_flight_blur)
    both = {**{name: value for name, value in values.items() if name not in last}, **last}
    return Parsed(
        [Observation(metric, float(value), unit) for metric, (value, unit) in both.items() if value is not None],
        {
            "percentiles": [{"percent": percent, "latency_s": seconds} for percent, seconds in percentiles],
            "histogram": [{"low_s": low, "high_s": high, "count": count} for low, high, count in histogram],
        },
    )


_SUMMARIES = {
    IMPORTED_K6: parse_k6,
    IMPORTED_K6_POINTS: parse_k6_points,
    IMPORTED_HEY: parse_hey,
    IMPORTED_WRK: parse_wrk_printed,
}


def imported_summary(files: Path) -> Summary | None:
    """Read the imported summary of another generator; None if the trial has none. Raises ParseError."""
    for name, parser in _SUMMARIES.items():
        if (files / name).is_file():
            return parser(read_text(files / name))
    if (files / IMPORTED_LOCUST).is_file():
        rows, part = locust_rows(read_text(files / IMPORTED_LOCUST)), read_json(files / PART)
        return parse_locust(rows[part["row"]])
    return None


def note_trial(files: Path) -> Mapping[str, Any]:
    """Return notes about a trial: the problems in the generator's output. Raises ParseError."""
    facts = read_facts(files / FACTS, _KNOWN_FACTS)
    return {"problems": list(_loads(facts, files).together.problems)}


def _compare(levels: Mapping[str, str], facts: Mapping[str, Any], found: LoadResult) -> None:
    """Raise ParseError if the files belong to another case, or if a cache answered instead of the server."""
    if "rate" in levels:
        asked, stated, unit = Rate.of_level(levels["rate"]).per_s, facts["rate_per_s"], "a second"
    else:
        asked, stated, unit = int(levels["concurrency"]), facts["concurrency"], "at once"
    for who, load in ((FACTS, stated), (facts["tool"], found.load)):
        if load is None or abs(load - asked) > 1e-6 * asked:
            raise ParseError(f"measured at {load} {unit} according to {who}, and the case says {asked:g}")
    if facts["leaves"]:
        made = facts["left"]["after"] - facts["left"]["before"]
        if made < found.good:
            raise ParseError(
                f"{found.good} requests were answered and the server left {made} new files ({facts['leaves']}): "
                "the others came from a cache, so the trial does not measure the work; raise the endpoint's walk.last"
            )


def _around(facts: Mapping[str, Any], found: LoadResult) -> Values:
    """The resources that the server used, and the length of its responses."""
    values: Values = {}
    server = facts["server"] or {}
    before, after = facts["usage"]["before"], facts["usage"]["after"]
    cpus = (server.get("effective") or {}).get("cpus")
    if cpus and found.duration:
        spent = [now[name] for now in (before, after) for name in ("cpu_user_s", "cpu_system_s")]
        if None not in spent:
            used = (sum(spent[2:]) - sum(spent[:2])) / len(cpus)
            # A server whose last responses are late is idle afterwards, or still busy.
            values["server_cpu"] = (max(used / found.duration, min(1.0, used / found.sending_s)), "1")
    values["server_peak_memory"] = (server.get("peak_memory_bytes"), "B")
    if value_of(found.values, "document_length") is None:
        values["document_length"] = (facts["checks"]["before"]["length"], "B")
    return values


def _achieved(found: LoadResult) -> Values:
    """The share of the offered rate that an open loop achieved.

    Requests in flight at the end count, up to those of a stable server by Little's law, if their responses came later.
    """
    offered, throughput, mean = (
        value_of(found.values, name) or 0.0 for name in ("offered", "throughput", "latency_mean")
    )
    if not offered:
        return {}
    in_flight = min(found.good / found.sending_s - throughput, offered * mean / found.sending_s)
    # One of those in flight may be the request that k6 sends at the very end, in excess of the rate.
    return {"achieved_share": (min(1.0, (throughput + in_flight) / offered), "1")}


def _generator_cpu(supervised: Mapping[str, Any], load: LoadResult, threads: int) -> float | None:
    """Return the share of its CPUs that the generator used while it sent; None if it is unknown.

    Known is the CPU time of the whole process. Divided by the time of sending, it is an upper bound. The lower bound
    is a mean until the last response, and excludes what the CPUs could do before and after the load, when the
    generator read scripts, prepared connections and wrote files. The result is None only if the bounds are far apart
    and leave open whether the generator was the limit. k6 prepares for a third of a second, but its upper bound mostly
    shows that it had room.
    """
    user_s, system_s, life_s = (supervised.get(name) for name in ("cpu_user_s", "cpu_system_s", "duration_s"))
    if user_s is None or system_s is None or life_s is None or not load.duration:
        return None
    used_s = (user_s + system_s) / threads
    most, least = used_s / load.sending_s, (used_s - (life_s - load.duration)) / load.duration
    is_either = least < BUSY_GENERATOR <= most
    return None if most - least > _GENERATOR_CPU_BLUR and is_either else min(1.0, most)


def _little(levels: Mapping[str, str], values: Values, blur: float) -> Values:
    """The mean number of requests in flight, which equals the number of connections in a closed loop.

    Only a deviation that rounding cannot explain counts. Where rounding may hide one that matters, none is told.
    """
    measured = requests_under_way(values)
    if measured is None:
        return {}
    found: Values = {"concurrency_measured": (measured, "1")}
    if levels.get("concurrency", UNKNOWN) != UNKNOWN:
        asked = int(levels["concurrency"])
        error = max(0.0, abs(asked - measured) - blur) / asked
        if error > LITTLE or blur <= LITTLE * asked:
            found["little_error"] = (error, "1")
    return found
