"""Reader of k6's points (`--out json`): a line of JSON per value. They become what k6's summary has. Pure."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from benchstudy.families.http_concurrency.imported_levels import level_of, levels_of_url
from benchstudy.families.http_concurrency.metrics import PERCENTILES
from benchstudy.families.http_concurrency.summaries import Summary, of_metrics, run_of
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_FIRST = re.compile(r'\s*\{(?=[^\n]*"metric":")(?=[^\n]*"type":"(?:Metric|Point)")')
_COUNTS, _TIMES = ("http_reqs", "iterations", "dropped_iterations", "data_received"), ("connecting", "waiting")
_TRENDS = ("http_req_duration", *(f"http_req_{phase}" for phase in _TIMES), "iteration_duration")
_OF_TIMES = ("latency", "connect", "waiting")  # names of metrics begin so
_OF_ANSWERS = {name for name in _TRENDS if name.startswith("http_req_")}
_USED = "|".join((*_COUNTS, *_TRENDS, "http_req_failed", "vus_max", "checks"))
_TIMED_OUT = ("1050", "1211")  # codes of k6
_READ = re.compile(rf'^.*"metric":"(?:{_USED})".*$', re.M)


def is_k6_points(text: str) -> bool:
    return bool(_FIRST.match(text))


@damaged("k6's points lack what k6 writes, or are truncated")
def parse_k6_points(text: str) -> Summary:
    """Parse the output of `--out json`. Raises ParseError if it is truncated, or not of one run with requests."""
    json.loads(text[text.rstrip().rfind("\n") + 1 :])
    points, thresholds = _points(text)
    requests = points["http_reqs"]
    if not requests:
        raise ParseError("k6's points have no HTTP request")
    for name in ("http_req_duration", "http_req_failed"):
        # A script can tell k6 not to judge responses.
        if (name in points or name == "http_req_duration") and len(points[name]) != len(requests):
            raise ParseError(
                f"k6's points: inconsistent: {len(points[name])} of {name} and {len(requests)} of http_reqs; "
                "the file is not whole"
            )
    began, ended = _span(points)
    values = {name: [point["value"] for point in each] for name, each in points.items()}
    took = (ended - began).total_seconds()
    times = values["http_req_duration"]
    run = run_of(len(requests), sum(values.get("data_received", ())), min(times), max(times))
    broken = sum(_is_broken(point["tags"]) for point in points["http_req_duration"])
    for name in _OF_ANSWERS & points.keys():
        answered = [point["value"] for point in points[name] if not _is_broken(point["tags"])]
        values[name] = answered or values[name]
    metrics: dict[str, Any] = {
        name: {"count": sum(values[name]), "rate": sum(values[name]) / took} for name in _COUNTS if name in values
    }
    metrics |= {name: _trend(values[name]) for name in _TRENDS if name in values}
    if "http_req_failed" in values:
        metrics["http_req_failed"] = {"passes": sum(values["http_req_failed"])}
    if "vus_max" in values:
        metrics["vus_max"] = {"max": max(values["vus_max"])}
    document = {"metrics": metrics, "root_group": {"checks": [*_checks(points["checks"])]}}
    summary = of_metrics(document, is_whole=False, of_answers=True)
    unjudged = ["threshold: this output of k6 does not say which failed"] if thresholds else []
    told = {**summary.told, **_told([point["tags"] for point in requests])}
    found = {**summary.values, "errors_connect": (broken, "1")} if broken else summary.values
    if broken == len(requests):
        found = {name: value for name, value in found.items() if not name.startswith(_OF_TIMES)}
    percentiles = summary.percentiles if broken < len(requests) else {}
    problems = [*summary.problems, *unjudged]
    return replace(summary, values=found, percentiles=percentiles, told=told, problems=problems, ended=ended, run=run)


def _is_broken(tags: Mapping[str, str]) -> bool:
    """Whether a connection was refused or broke: k6 times those, too, a refused one with 0 ms."""
    return tags.get("status") == "0" and tags.get("error_code") not in _TIMED_OUT


def _points(text: str) -> tuple[Mapping[str, list[Mapping[str, Any]]], bool]:
    """Return the points by metric, and whether one has thresholds."""
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    declared: set[str] = set()
    thresholds = False
    for match in _READ.finditer(text):
        line = json.loads(match[0])
        if line["type"] == "Point":
            found[line["metric"]].append(line["data"])
        elif line["metric"] in declared:
            raise ParseError("points of several runs of k6 are in one text: give each run a file of its own")
        else:
            declared.add(line["metric"])
            thresholds |= bool(line["data"].get("thresholds"))
    return found, thresholds


def _span(points: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[datetime, datetime]:
    """Return when the first iteration or request began, and when the last one ended."""
    began, ended = [], []
    for name in ("http_req_duration", "iteration_duration"):
        for point in points.get(name, ()):
            ended.append(datetime.fromisoformat(point["time"]).astimezone(UTC))
            began.append(ended[-1] - timedelta(milliseconds=point["value"]))
    return min(began), max(ended)


def _trend(ms: Sequence[float]) -> dict[str, float]:
    shown = dict(zip(PERCENTILES, np.percentile(ms, PERCENTILES), strict=True))
    extremes = {"min": min(ms), "avg": sum(ms) / len(ms), "med": float(np.median(ms)), "max": max(ms)}
    return extremes | {f"p({percent})": float(value) for percent, value in shown.items() if percent != 50}


def _checks(points: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    counted = Counter((point["tags"]["check"], bool(point["value"])) for point in points)
    for name in dict.fromkeys(name for name, _ in counted):
        yield {"name": name, "passes": counted[name, True], "fails": counted[name, False]}


def _told(tags: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the levels that all requests share."""
    if any("url" not in one for one in tags):  # a run may leave out tags
        return {}
    different = {(one["url"], one["method"]) for one in tags}
    first, *others = [levels_of_url(url) | {"method": level_of(method)} for url, method in different]
    return {name: level for name, level in first.items() if all(other[name] == level for other in others)}
