"""Readers of imported summaries of other generators: k6, hey, and Locust's table of requests. Pure.

Summaries have less than our own trials: no histogram, few percentiles, and no description of the load.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from benchstudy.families.shared.clients import Values
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_MS = 1e-3
_UNKNOWN = "latency: k6 has the times of refused connections, 0 s, among those of answers, so none are known"
_EXPORT = re.compile(r'\s*\{\s*"metrics"\s*:\s*\{')


@dataclass(frozen=True)
class Summary:
    """A summary. `values`: metric to value and unit. `percentiles`: percent to s. `told`: known levels.

    `run`: figures that no other run has, and that each kind of output of this run tells alike; empty if there are none.
    `problems`: what the tool itself says that failed, and what its figures leave out. `version` and `ended`, in UTC: of
    the tool and its run, if told.
    """

    values: Values
    percentiles: Mapping[float, float]
    told: Mapping[str, str]
    problems: Sequence[str] = ()
    version: str | None = None
    ended: datetime | None = None
    run: str = ""


def is_k6(text: str) -> bool:
    if text.lstrip().startswith("{") and '"http_reqs"' in text and ('"root_group"' in text or '"k6_version"' in text):
        return True
    return '"http_req_' in text and bool(_EXPORT.match(text))  # also one that was cut off


def is_hey(text: str) -> bool:
    return "Latency distribution:" in text and "Status code distribution:" in text and "Requests/sec:" in text


def is_locust(text: str) -> bool:
    return text.startswith("Type,Name,Request Count,Failure Count,")


@damaged("k6's summary lacks what k6 writes, or is truncated")
def parse_k6(text: str) -> Summary:
    """Parse the output of `--summary-export`, or of a `handleSummary` that writes its data, in either format of k6.

    Raises ParseError.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ParseError("something follows k6's summary in its file: give each a file of its own") from error
        raise
    if "results" in document:
        return _of_results(document)
    return of_metrics(document)


def _of_results(document: Mapping[str, Any]) -> Summary:
    """Parse the format of `--new-machine-readable-summary`, which has a duration, and neither rates nor thresholds."""
    if not document["version"].startswith("1."):
        raise ParseError(
            f"k6's summary has format {document['version']}, and only 1 is known: run k6 with "
            "--new-machine-readable-summary=false"
        )
    results, metadata, took = document["results"], document["metadata"], document["config"]["duration"]
    metrics = {metric["name"]: _of_either(metric["values"], took) for metric in results["metrics"]}
    requests, judged = metrics["http_reqs"]["count"], metrics.get("http_req_failed", {}).get("total")
    if judged not in (None, requests):
        raise ParseError(
            f"k6's summary: inconsistent: http_req_failed is of {judged} requests and http_reqs {requests}"
        )
    checks = (results.get("checks") or {}).get("results") or ()
    summary = of_metrics({"metrics": metrics, "root_group": {"checks": checks}}, is_whole=False)
    return replace(
        summary,
        problems=[*summary.problems, "threshold: this format of k6 does not say which failed"],
        version=metadata["k6_version"],
        ended=datetime.fromisoformat(metadata["generated_at"]).astimezone(UTC),
    )


def _of_either(values: Mapping[str, Any], took: float) -> dict[str, Any]:
    """Return the values of a metric under the names that they have in the older format. `took`: s."""
    named = {re.sub(r"^p([\d.]+)$", r"p(\1)", key): value for key, value in values.items() if value is not None}
    if "matches" in named:
        return {**named, "passes": named["matches"]}
    return {**named, "rate": named["count"] / took} if "count" in named else named


def of_metrics(document: Mapping[str, Any], *, is_whole: bool = True, of_answers: bool = False) -> Summary:
    """`is_whole`: the phases of requests cannot be missing. The newer format has them only if asked to. `of_answers`:
    no time is of a connection that was refused or broke.
    """
    found = document["metrics"]
    metrics = {name: metric.get("values", metric) for name, metric in found.items()}
    counts = {name: metrics[name] for name in ("http_reqs", "iterations", "data_received") if name in metrics}
    durations = {name: one["count"] / one["rate"] for name, one in counts.items() if one["rate"]}
    took, requests = durations["http_reqs"], metrics["http_reqs"]["count"]
    times = metrics["http_req_duration"]
    shown = {"med": 50.0} | {key: float(key[2:-1]) for key in times if re.fullmatch(r"p\([\d.]+\)", key)}
    percentiles = {percent: times[key] * _MS for key, percent in shown.items() if key in times}
    failed = metrics.get("http_req_failed", {}).get("passes")
    sources = {"connect": "http_req_connecting", "waiting": "http_req_waiting"}
    phases = {phase: metrics[name] for phase, name in sources.items() if is_whole or name in metrics}
    least, mean, most = (times[key] * _MS for key in ("min", "avg", "max"))
    # Only a request without an answer takes no time at all. Nothing tells the times of the others apart.
    refused = bool(failed) and least == 0 and not of_answers
    if refused:
        percentiles, phases = {}, {}
    told = {"vus": f"{metrics['vus_max']['max']:g}"} if "vus_max" in metrics else {}
    dropped = metrics.get("dropped_iterations", {}).get("count")
    for name, duration in durations.items():
        # k6 divides each by the same duration.
        if abs(duration - took) > 1e-6 * took:
            raise ParseError(f"k6's summary: inconsistent: {name} is of {duration:g} s and http_reqs of {took:g} s")
    values = _values(requests, failed, took, None if refused else (least, mean, most), percentiles)
    values |= {f"{phase}_{end}": (one[key] * _MS, "s") for phase, one in phases.items() for end, key in _ENDS.items()}
    if "data_received" in counts:
        values["transfer_rate"] = (counts["data_received"]["count"] / took, "B/s")
    problems = [*_failed_thresholds(found), *_failed_checks(document.get("root_group") or {})]
    if failed and not of_answers:
        problems.append(_UNKNOWN if refused else _timed(failed, requests, "k6"))
    run = run_of(requests, metrics.get("data_received", {}).get("count"), times["min"], times["max"])
    return Summary(values | {"dropped": (dropped, "1")}, percentiles, told, problems, run=run)


def run_of(requests: float, received: float | None, least_ms: float, most_ms: float) -> str:
    """Tell a run of k6 by its counts and extremes, which are times in nanoseconds. Empty if no time is above zero."""
    return repr((int(requests), int(received or 0), float(least_ms), float(most_ms))) if most_ms else ""


def _timed(failed: int, requests: int, tool: str) -> str:
    return (
        f"latency: {failed} of {requests} requests failed, and {tool} times those, too: a connection that was refused "
        "takes about 0 s"
    )


def _failed_thresholds(metrics: Mapping[str, Any]) -> Iterator[str]:
    """The export has `true` where a threshold failed, and handleSummary gets `{"ok": false}`."""
    for name, metric in metrics.items():
        for threshold, told in (metric.get("thresholds") or {}).items():
            if not told["ok"] if isinstance(told, Mapping) else told:
                yield f"threshold: {name}: {threshold} failed"


def _failed_checks(group: Mapping[str, Any]) -> Iterator[str]:
    checks, groups = (_listed(group.get(kind) or ()) for kind in ("checks", "groups"))
    for check in checks:
        if check["fails"]:
            yield f"check: {check['name']!r} failed {check['fails']} of {check['passes'] + check['fails']} times"
    for one in groups:
        yield from _failed_checks(one)


def _listed(found: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """The export has groups and checks by name, and handleSummary gets lists."""
    return list(found.values() if isinstance(found, Mapping) else found)


_ENDS = {"mean": "avg", "max": "max"}


@damaged("hey's summary is damaged")
def parse_hey(text: str) -> Summary:
    """Parse hey's summary. Raises ParseError."""
    if text.count("Summary:") > 1:
        raise ParseError("several summaries of hey are in one text: give each a file of its own")
    took, most, least, mean, rate = (
        _field(text, name) for name in ("Total", "Slowest", "Fastest", "Average", "Requests/sec")
    )
    answers = {int(status): int(n) for status, n in re.findall(r"^[^\S\n]+\[(\d{3})\]\s+(\d+) responses", text, re.M)}
    broken = sum(int(n) for n in re.findall(r"^[^\S\n]+\[(\d+)\]\t(?!\d+ responses)", text, re.M))
    requests = sum(answers.values()) + broken
    # The duration has four decimals.
    if not took or abs(requests / took - rate) > 1e-4 + rate * 1e-4 / took:
        raise ParseError(
            f"hey's summary: inconsistent: {requests} requests in {took:g} s are not {rate:g} requests/sec"
        )
    wrong = sum(n for status, n in answers.items() if not 200 <= status < 300)
    percentiles = {float(p): float(s) for p, s in re.findall(r"^[^\S\n]+(\d+)% in ([\d.]+) secs", text, re.M)}
    # Without a response, hey prints a mean of NaN between extremes of zero.
    if math.isnan(mean) == bool(answers):
        raise ParseError(f"hey's summary: inconsistent: the mean of {sum(answers.values())} responses is {mean:g} s")
    values = _values(requests, wrong + broken, took, (least, mean, most) if answers else None, percentiles)
    values |= {"errors_status": (wrong, "1"), "errors_connect": (broken, "1")}
    untimed = f"connection: {broken} of {requests} requests got no response, and hey does not time them, however long"
    return Summary(values, percentiles, {"requests": str(requests)}, [untimed] if broken else [])


def _field(text: str, name: str) -> float:
    number = r"[\d.]+|NaN" if name == "Average" else r"[\d.]+"
    match = re.search(rf"^[^\S\n]+{re.escape(name)}:\s+({number})", text, re.M)
    if match is None:
        raise ParseError(f"hey's summary is truncated: it has no {name!r}")
    return float(match[1])


@damaged("Locust's table is damaged")
def locust_rows(text: str) -> list[dict[str, str]]:
    """Read `…_stats.csv`: one row per kind of request that was sent, without the total. Raises ParseError."""
    if len(re.findall(r"^Type,Name,Request Count,", text, re.M)) > 1:
        raise ParseError("several tables of Locust are in one text: give each a file of its own")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["Name"] != "Aggregated"]
    if any(None in row.values() for row in rows):
        raise ParseError("Locust's table is truncated: its last line lacks columns")
    return [row for row in rows if int(row["Request Count"])]


@damaged("Locust's table lacks what Locust writes")
def parse_locust(row: Mapping[str, str]) -> Summary:
    """Parse one row of the table. Raises ParseError."""
    requests, failed = int(row["Request Count"]), int(row["Failure Count"])
    took = requests / float(row["Requests/s"])
    least, mean, most = (float(row[f"{name} Response Time"]) * _MS for name in ("Min", "Average", "Max"))
    shown = ((key, row[key]) for key in row if re.fullmatch(r"[\d.]+%", key) and key != "100%")
    percentiles = {float(key[:-1]): float(value) * _MS for key, value in shown}
    again = failed / took
    printed = float(row["Failures/s"])
    if abs(again - printed) > 1e-6 * max(again, printed):
        said = f"{failed} failures in {took:g} s are not {printed:g} per second"
        raise ParseError(f"Locust's table: inconsistent: {said}")
    values = _values(requests, failed, took, (least, mean, most), percentiles)
    return Summary(values, percentiles, {}, [_timed(failed, requests, "Locust")] if failed else [])


def _values(
    requests: int,
    failed: int | None,
    took: float,
    times: tuple[float, float, float] | None,
    percentiles: Mapping[float, float],
) -> Values:
    """Return the metrics of a summary. `times`: minimum, mean and maximum in s; None if there was no response.

    Raises ParseError for a wrong order.
    """
    values = counted(requests, failed, took)
    if times is None:
        return values
    least, mean, most = times
    rising: Sequence[float] = [least, *(percentiles[p] for p in sorted(percentiles)), most]
    # Some are printed in whole milliseconds, and Locust's percentiles in two digits.
    if any(above < below * 0.9 - 1e-3 for below, above in pairwise(rising)) or mean > most:
        raise ParseError("the latencies of the summary do not rise from the least over the percentiles to the most")
    values |= {"latency_min": (least, "s"), "latency_mean": (mean, "s"), "latency_max": (most, "s")}
    return values | {f"latency_p{percent:g}": (seconds, "s") for percent, seconds in percentiles.items()}


def counted(requests: int, failed: int | None, took: float) -> Values:
    """Return the metrics of counts in a time in s."""
    return {
        "requests": (requests, "1"),
        "errors": (failed, "1"),
        "throughput": (None if failed is None else (requests - failed) / took, "1/s"),
        "duration": (took, "s"),
    }


def known(values: Values, metrics: Mapping[str, Any]) -> Values:
    """Return the values that are metrics of the family. Tools report different percentiles."""
    return {name: value for name, value in values.items() if name in metrics}
