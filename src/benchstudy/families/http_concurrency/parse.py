"""What one trial of http_concurrency says: the generator's output, and what was found around the load. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchstudy.families.http_concurrency.ab import (
    AbResult,
    histogram_of_gnuplot,
    mean_between,
    parse_ab,
    parse_ab_percentiles,
)
from benchstudy.families.http_concurrency.command import AB_PERCENTILES, AB_REQUESTS, FACTS, LOAD
from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.k6 import K6Result, parse_k6_summary
from benchstudy.families.http_concurrency.latency import Latency
from benchstudy.families.http_concurrency.metrics import METRICS, PERCENTILES
from benchstudy.families.http_concurrency.scripts import K6_SUMMARY
from benchstudy.families.http_concurrency.summaries import (
    Summary,
    known,
    locust_rows,
    parse_hey,
    parse_k6,
    parse_locust,
)
from benchstudy.families.http_concurrency.wrk import WrkResult, parse_wrk
from benchstudy.families.shared.files import damaged, read_facts, read_json, read_text
from benchstudy.families.shared.levels import Rate
from benchstudy.model.criteria import BUSY_GENERATOR
from benchstudy.model.family import UNKNOWN, Observation, Parsed, ParseError

IMPORTED_AB, IMPORTED_K6, IMPORTED_HEY, IMPORTED_LOCUST = "ab.txt", "k6-export.json", "hey.txt", "locust_stats.csv"
PART = "part.json"  # which row of Locust's table an imported trial is
_KNOWN_FACTS = ("tool", "concurrency", "rate_per_s", "checks", "usage", "threads", "leaves", "left", "server")
# Of a generator's share of its CPUs: how far the most and the least that it can have been may lie apart.
_GENERATOR_CPU_BLUR = 0.15
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class LoadResult:
    """A generator's result in terms that all of them share. None: it does not say."""

    values: Mapping[str, tuple[float | None, str]]  # metric to value and unit
    percentiles: Rows
    histogram: Rows
    good: int
    duration: float
    problems: Sequence[str]
    load: float  # what the generator says it was set to: connections, or requests a second


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """The observations and series of a trial, measured or imported. Raises ParseError."""
    summary = imported_summary(files)
    if summary is not None:
        rows = [{"percent": percent, "latency_s": seconds} for percent, seconds in sorted(summary.percentiles.items())]
        return _parsed(levels, known(summary.values, METRICS), rows, [])
    if (files / IMPORTED_AB).is_file():
        found = _ab_result(parse_ab(read_text(files / IMPORTED_AB)), None, None)
        values = dict(found.values)
    else:
        facts = read_facts(files / FACTS, _KNOWN_FACTS)
        found = parse_load(facts["tool"], files / LOAD)
        supervised = read_json(files / LOAD / "supervisor.json")
        with damaged(f"{FACTS} or supervisor.json lacks what was found around the load"):
            _compare(levels, facts, found)
            values = {**found.values, **_around(facts, found, supervised)}
    return _parsed(levels, values, found.percentiles, found.histogram)


def _parsed(
    levels: Mapping[str, str], values: Mapping[str, tuple[float | None, str]], percentiles: Rows, histogram: Rows
) -> Parsed:
    both = {**values, **_little(levels, values)}
    return Parsed(
        [Observation(metric, float(value), unit) for metric, (value, unit) in both.items() if value is not None],
        {"percentiles": percentiles, "histogram": histogram},
    )


def imported_summary(files: Path) -> Summary | None:
    """Of another generator, as it was imported; None where the trial is none. Raises ParseError."""
    if (files / IMPORTED_K6).is_file():
        return parse_k6(read_text(files / IMPORTED_K6))
    if (files / IMPORTED_HEY).is_file():
        return parse_hey(read_text(files / IMPORTED_HEY))
    if (files / IMPORTED_LOCUST).is_file():
        rows, part = locust_rows(read_text(files / IMPORTED_LOCUST)), read_json(files / PART)
        return parse_locust(rows[part["row"]])
    return None


def note_trial(files: Path) -> Mapping[str, Any]:
    """Raises ParseError."""
    facts = read_facts(files / FACTS, _KNOWN_FACTS)
    return {"problems": list(parse_load(facts["tool"], files / LOAD).problems)}


def parse_load(tool: str, folder: Path) -> LoadResult:
    """What a generator left in the folder of its command. Raises ParseError."""
    if tool == "ab":
        # First: with no answer at all ab writes no other file.
        result = parse_ab(read_text(folder / "stdout"), read_text(folder / "stderr"))
        percentiles = parse_ab_percentiles(read_text(folder / "files" / AB_PERCENTILES))
        return _ab_result(result, percentiles, folder / "files" / AB_REQUESTS)
    if tool == "wrk":
        return _wrk_result(parse_wrk(read_text(folder / "stdout")))
    if tool == "k6":
        return _k6_result(parse_k6_summary(read_text(folder / "files" / K6_SUMMARY)))
    raise ParseError(f"{FACTS}: {tool!r} is no generator that this version knows")


def _ab_result(result: AbResult, percentiles: list[tuple[float, float]] | None, requests: Path | None) -> LoadResult:
    errors, total = result.errors(), result.times["total"]
    known = dict(percentiles) if percentiles else {float(p): seconds for p, seconds in result.percentiles.items()}
    values: dict[str, tuple[float | None, str]] = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.complete, "1"),
        **_errors(errors),
        "duration": (result.duration, "s"),
        "latency_mean": (_ab_mean(total.mean, percentiles, result.latency_resolution), "s"),
        "latency_sd": (total.sd, "s"),
        "latency_min": (known.get(0.0, total.min), "s"),
        "latency_max": (known.get(100.0, total.max), "s"),
        **{f"latency_p{percent}": (known.get(float(percent)), "s") for percent in PERCENTILES},
        "transfer_rate": (result.transfer_rate, "B/s"),
        "keepalive_requests": (result.keepalive_requests, "1"),
        "document_length": (result.document_length, "B"),
    }
    for phase in ("connect", "processing", "waiting"):
        times = result.times[phase]
        values |= {f"{phase}_{name}": (getattr(times, name), "s") for name in ("mean", "sd", "median", "max")}
    histogram: Rows = []
    if requests is not None:
        if not requests.is_file():
            raise ParseError(f"the file {requests.name} is missing")
        # A request that broke off has no row.
        expected = None if errors.connect else result.complete
        histogram = histogram_of_gnuplot(requests, expected=expected).to_dicts()
    rows = [{"percent": percent, "latency_s": seconds} for percent, seconds in sorted(known.items())]
    problems = result.problems(percentiles=percentiles)
    return LoadResult(values, rows, histogram, result.good, result.duration, problems, result.concurrency)


def _ab_mean(printed: float, percentiles: list[tuple[float, float]] | None, resolution: float) -> float:
    """ab prints the mean in whole milliseconds. The percentiles of -e, in microseconds, say more about small ones."""
    if percentiles is None:
        return printed
    middle = sum(mean_between(percentiles)) / 2
    return min(max(middle, printed - resolution / 2), printed + resolution / 2)


def _wrk_result(result: WrkResult) -> LoadResult:
    latency = result.latency
    values = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.requests, "1"),
        **_errors(result.errors),
        "duration": (result.duration, "s"),
        **_latencies(latency),
        "transfer_rate": (result.transfer_rate, "B/s"),
    }
    return LoadResult(values, *_rows(latency), result.good, result.duration, result.problems(), result.connections)


def _k6_result(result: K6Result) -> LoadResult:
    latency = result.latency
    values = {
        "throughput": (result.throughput, "1/s"),
        "offered": (result.offered, "1/s"),
        "requests": (result.requests, "1"),
        **_errors(result.errors),
        "dropped": (result.dropped, "1"),
        "duration": (result.duration, "s"),
        **_latencies(latency),
        "connect_mean": (result.connect_mean, "s"),
        "connect_max": (result.connect_max, "s"),
        "waiting_mean": (result.waiting_mean, "s"),
        "waiting_max": (result.waiting_max, "s"),
        "transfer_rate": (result.read / result.duration, "B/s"),
    }
    return LoadResult(values, *_rows(latency), result.good, result.duration, result.problems(), result.rate)


def _errors(errors: Errors) -> dict[str, tuple[float | None, str]]:
    return {
        "errors": (errors.total, "1"),
        "errors_status": (errors.status, "1"),
        "errors_length": (errors.length + errors.text, "1"),  # what came was not what was expected
        "errors_timeout": (errors.timeout, "1"),
        "errors_connect": (errors.connect, "1"),
    }


def _latencies(latency: Latency | None) -> dict[str, tuple[float | None, str]]:
    if latency is None:
        return {}
    known = {name: (getattr(latency, name), "s") for name in ("mean", "sd", "min", "max")}
    return {
        **{f"latency_{name}": value for name, value in known.items()},
        **{f"latency_p{percent}": (latency.percentile(float(percent)), "s") for percent in PERCENTILES},
    }


def _rows(latency: Latency | None) -> tuple[Rows, Rows]:
    return ([], []) if latency is None else (latency.percentile_rows(), latency.histogram_rows())


def _compare(levels: Mapping[str, str], facts: Mapping[str, Any], found: LoadResult) -> None:
    """Raises ParseError when the files are of another case, or when the server did not do what it was asked for."""
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
                "the others came from a cache, so this is no measurement of the work; raise the endpoint's walk.last"
            )


def _around(
    facts: Mapping[str, Any], found: LoadResult, supervised: Mapping[str, Any]
) -> dict[str, tuple[float | None, str]]:
    """What generator and server used, and what the server answers with."""
    values: dict[str, tuple[float | None, str]] = {}
    values["generator_cpu"] = (_generator_cpu(supervised, found.duration, facts["threads"]), "1")
    server = facts["server"] or {}
    before, after = facts["usage"]["before"], facts["usage"]["after"]
    cpus = (server.get("effective") or {}).get("cpus")
    if cpus and found.duration:
        spent = [now[name] for now in (before, after) for name in ("cpu_user_s", "cpu_system_s")]
        if None not in spent:
            values["server_cpu"] = ((sum(spent[2:]) - sum(spent[:2])) / (found.duration * len(cpus)), "1")
    values["server_peak_memory"] = (server.get("peak_memory_bytes"), "B")
    if found.values.get("document_length", (None, ""))[0] is None:
        values["document_length"] = (facts["checks"]["before"]["length"], "B")
    return values


def _generator_cpu(supervised: Mapping[str, Any], load_s: float, threads: int) -> float | None:
    """Share of its CPUs that the generator used while it made load; None where that cannot be told.

    Known is what it used in all its life. Counted over the load alone that is the most it can be; the least is without
    what its CPUs could do before and after, when it read scripts, prepared connections and wrote files. Only where
    these two are far apart, and one of them would make it the limit, nothing is told: k6 prepares for a third of a
    second, and yet the most that it can have used mostly shows that it had room.
    """
    user_s, system_s, life_s = (supervised.get(name) for name in ("cpu_user_s", "cpu_system_s", "duration_s"))
    if user_s is None or system_s is None or life_s is None or not load_s:
        return None
    most, blur = (user_s + system_s) / (load_s * threads), (life_s - load_s) / load_s
    is_either = most - blur < BUSY_GENERATOR <= most
    return None if blur > _GENERATOR_CPU_BLUR and is_either else min(1.0, most)


def _little(
    levels: Mapping[str, str], values: Mapping[str, tuple[float | None, str]]
) -> dict[str, tuple[float | None, str]]:
    """Requests under way on average: answered a second × mean latency. In a closed loop as many as connections."""
    mean, duration, requests = (values.get(name, (None, ""))[0] for name in ("latency_mean", "duration", "requests"))
    if mean is None or not duration or requests is None:
        return {}
    measured = requests / duration * mean
    found: dict[str, tuple[float | None, str]] = {"concurrency_measured": (measured, "1")}
    if levels.get("concurrency", UNKNOWN) != UNKNOWN:
        asked = int(levels["concurrency"])
        found["little_error"] = (abs(asked - measured) / asked, "1")
    return found
