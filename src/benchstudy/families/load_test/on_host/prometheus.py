"""Fetches all samples that a report needs from a Prometheus, once, and keeps the answers as they came.

It asks for raw samples, not rates: `metric{…}[5m]` of each metric at the end of each page of time. If the server says
that a page is too much, pages get shorter, and then hold fewer series. docs/prometheus.md describes the file.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from dataclasses import dataclass

import wire
from prometheus_client import Client, TooMuch
from prometheus_spool import Spool

_SCHEMA = 1
_MOST_ANSWER_BYTES = 16 << 20  # per page, so that the memory of a reader does not depend on the number of series
_LEAST_INTERVALS = 10  # shorter pages would read the same blocks again and again, so fewer series are asked for instead
_AHEAD_S = 30.0  # the fetch waits for a window that ends within this time
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:./-]*")  # with what OpenTelemetry's names have, for Prometheus 3
_PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")  # what stands without quotation marks in any version's queries
_SELECTOR = re.compile(r"\s*\{(.*?),?\s*\}\s*", re.DOTALL)


def fetch(arguments: list[str]) -> int:
    """`prometheus-fetch`: first stdin line {"url", "start_s", "end_s": Unix s on the server's clock, "margin_s": before
    the start, "scrape_interval_s", "select": "{…}" or null, "select_host": of node_*, null: as `select`,
    "metrics": {"system": […], "host": […]}, "credentials": "bearer", "basic" or null,
    "into": a file, "partial": where it grows; a run that finds its own there goes on, "page_s",
    "most_answer_bytes": of a page, "patience_s", "ca_file"}.

    Prints a summary. Exit status 1, with the cause and its mending on stderr, when something cannot be fetched.
    """
    try:
        wire.emit(_fetch(wire.read_spec(wire.Lines())))
    except wire.AgentError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _client(arguments: list[str]) -> Client:
    return Client(arguments[0], arguments[1] if len(arguments) > 1 else None)


def clock(arguments: list[str]) -> None:
    """`prometheus:clock URL [CREDENTIALS]`: {"offset_s": its clock minus this host's, "uncertainty_s", "now_s",
    "asked_wall_s"}.
    """
    wire.emit(_client(arguments).clock()[0])


def targets(arguments: list[str]) -> None:
    """`prometheus:targets URL [CREDENTIALS]`: {"targets": [{"job", "instance", "health", "last_error",
    "last_scrape_s": how long the last one took}]}.
    """
    client = _client(arguments)
    content, _ = client.json("/api/v1/targets", state="active")
    with client.understood("/api/v1/targets"):
        found = [
            {
                "job": target["labels"].get("job"),
                "instance": target["labels"].get("instance"),
                "health": target["health"],
                "last_error": target.get("lastError", ""),
                "last_scrape_s": target.get("lastScrapeDuration"),
            }
            for target in content["data"]["activeTargets"]
        ]
    wire.emit({"targets": found})


def _fetch(spec: dict) -> dict:
    begin_ms, end_ms = (round(1000 * moment) for moment in (spec["start_s"] - spec.get("margin_s", 0.0), spec["end_s"]))
    if begin_ms >= end_ms:
        raise wire.AgentError(f"the window ends at {spec['end_s']} s, before it begins at {spec['start_s']} s")
    wanted = _wanted(spec)
    select = {"system": _inside(spec.get("select")), "host": _inside(spec.get("select_host") or spec.get("select"))}
    into = spec.get("into") or "metrics.ndjson.gz"
    partial = spec.get("partial") or into + ".partial"
    client = Client(spec["url"], spec.get("credentials"), spec.get("patience_s", 30.0), spec.get("ca_file"))
    now, answer = client.clock()
    _wait_for(client, spec["end_s"] + (spec.get("scrape_interval_s") or 1.0), now["now_s"])
    with Spool(partial) as spool:
        resumed = _resume(spool, _header(spec, client.url, wanted))
        spool.add({"kind": "clock", **now}, answer)
        fetcher = _Fetcher(client, spool, begin_ms, end_ms, spec)
        if not resumed:
            fetcher.circumstances()
        for kind, metrics in wanted.items():
            for metric in metrics:
                fetcher.metric(metric, select[kind])
        totals = fetcher.totals()
        spool.add({"kind": "end", **totals})
        size = spool.size
    client.close()
    shutil.move(partial, into)
    measured = {name: now[name] for name in ("offset_s", "uncertainty_s", "asked_wall_s")}
    return {"file": into, "bytes": size, **totals, "version": fetcher.version, "clock": measured, "resumed": resumed}


def _wanted(spec: dict) -> dict[str, list[str]]:
    """Metric names by kind, each once: a metric that is fetched twice would be counted twice."""
    wanted: dict[str, list[str]] = {"system": [], "host": []}
    known: set[str] = set()
    for kind, names in wanted.items():
        for name in spec["metrics"][kind]:
            if not _METRIC.fullmatch(name):
                raise wire.AgentError(f"metrics: {name!r} is not a name of a metric")
            if name not in known:
                names.append(name)
            known.add(name)
    return wanted


def _inside(select: str | None) -> str:
    """The matchers of a selector, without its braces."""
    match = _SELECTOR.fullmatch(select or "{}")
    if match is None:
        raise wire.AgentError(f'select: {select!r} is not a selector; write {{name="value", other=~"pattern"}}')
    return match[1].strip()


def _header(spec: dict, url: str, wanted: dict) -> dict:
    head = {"kind": "header", "schema": _SCHEMA, "url": url, "margin_s": spec.get("margin_s", 0.0)}
    head.update((name, spec.get(name)) for name in ("start_s", "end_s", "scrape_interval_s", "select", "select_host"))
    return {**head, "metrics": wanted, "fetched": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _resume(spool: Spool, header: dict) -> bool:
    """Return whether the file already begins with this header, so that it continues; else write the header."""
    if not spool.lines:
        spool.add(header)
        return False
    found = spool.lines[0].head
    if {**found, "fetched": None} != {**header, "fetched": None}:
        raise wire.AgentError(
            f"{spool.path} is the beginning of something else ({found.get('url')}, {found.get('start_s')} to "
            f"{found.get('end_s')}); remove it, or name another file"
        )
    # A stretch of time that was fetched in parts is kept as a whole or not at all.
    lines = len(spool.lines)
    while spool.lines[lines - 1].head["kind"] == "end" or not spool.lines[lines - 1].head.get("whole", True):
        lines -= 1
    spool.keep(lines)
    return True


def _wait_for(client: Client, moment_s: float, now_s: float) -> None:
    """Wait until the server has scraped the end of the window."""
    while now_s < moment_s:
        if moment_s - now_s > _AHEAD_S:
            raise wire.AgentError(
                f"the window ends {moment_s - now_s:.0f} s in the future, by the clock of Prometheus at {client.url}"
            )
        time.sleep(min(moment_s - now_s, 1.0))
        now_s = client.clock()[0]["now_s"]


@dataclass(frozen=True)
class _Group:
    """Series of a metric that are fetched together."""

    matchers: str
    series: list[dict]

    def halves(self, metric: str, said: str) -> list[_Group]:
        """Split the group in two by the label with the most values. Raises AgentError if there is only one series."""
        values: dict[str, set[str]] = {}
        for labels in self.series:
            for name in labels:
                values.setdefault(name, set())
        for name, found in values.items():
            found.update(labels.get(name, "") for labels in self.series)
        label = max(sorted(values), key=lambda name: len(values[name]))
        known = sorted(values[label])
        if len(known) < 2:
            raise wire.AgentError(
                f"{metric}: the server refuses even one series over the shortest time ({said}); raise its limits, "
                "such as --query.max-samples and --query.timeout"
            )
        middle = len(known) // 2
        return [self._part(label, part) for part in (known[:middle], known[middle:])]

    def _part(self, label: str, values: list[str]) -> _Group:
        # A missing label matches like an empty one.
        pattern = json.dumps("|".join(re.escape(value) for value in values), ensure_ascii=False)
        name = label if _PLAIN.fullmatch(label) else json.dumps(label, ensure_ascii=False)
        series = [labels for labels in self.series if labels.get(label, "") in values]
        return _Group(", ".join(filter(None, (self.matchers, f"{name}=~{pattern}"))), series)


class _Smaller(Exception):
    """The server refused a page as too much. `group`: number of the group; `said`: the server's words."""

    def __init__(self, group: int, said: str):
        super().__init__(said)
        self.group, self.said = group, said


class _Fetcher:
    """Fetches one file, or the part that is still missing."""

    def __init__(self, client: Client, spool: Spool, begin_ms: int, end_ms: int, spec: dict):
        self._client, self._spool, self._begin_ms, self._end_ms = client, spool, begin_ms, end_ms
        self._page_ms = round(1000 * spec.get("page_s", 300.0))
        interval_ms = round(1000 * (spec.get("scrape_interval_s") or 1.0))
        self._least_ms = min(self._page_ms, _LEAST_INTERVALS * interval_ms)
        self._most_bytes = spec.get("most_answer_bytes", _MOST_ANSWER_BYTES)
        heads = [line.head for line in spool.lines]
        self._reached = {head["metric"]: round(1000 * head["end_s"]) for head in heads if head["kind"] == "page"}
        self._series = {head["metric"]: head["count"] for head in heads if head["kind"] == "series"}
        self._problems: list[str] = []
        self.version = next((head["version"] for head in heads if head["kind"] == "buildinfo"), None)

    def circumstances(self) -> None:
        """Record the server's version and targets; not every server that answers queries reports them."""
        for kind, path in (("buildinfo", "/api/v1/status/buildinfo"), ("targets", "/api/v1/targets")):
            head = {"kind": kind}
            try:
                content, answer = self._client.json(path)
                if kind == "buildinfo":
                    with self._client.understood(path):
                        head["version"] = self.version = content["data"].get("version")
            except wire.AgentError as error:
                self._problems.append(f"no {kind}: {error}")
                continue
            self._spool.add(head, answer)

    def metric(self, name: str, matchers: str) -> None:
        at_ms = self._reached.get(name, self._begin_ms)
        if at_ms >= self._end_ms:
            return
        groups, page_ms = [_Group(matchers, self._list(name, matchers))], self._page_ms
        while at_ms < self._end_ms and groups[0].series:
            until_ms = min(at_ms + page_ms, self._end_ms)
            try:
                self._stretch(name, groups, at_ms, until_ms)
            except _Smaller as smaller:
                if until_ms - at_ms > self._least_ms:
                    page_ms = max(self._least_ms, (until_ms - at_ms) // 2)
                else:
                    number = smaller.group
                    groups[number : number + 1] = groups[number].halves(name, smaller.said)
            else:
                at_ms = until_ms

    def totals(self) -> dict:
        pages = [line for line in self._spool.lines if line.head["kind"] == "page"]
        return {
            "pages": len(pages),
            "series": sum(self._series.values()),
            "samples": sum(line.samples for line in pages),
            "missing": sorted(name for name, count in self._series.items() if not count),
            "problems": self._problems,
        }

    def _list(self, name: str, matchers: str) -> list[dict]:
        match = _selector(name, matchers)
        times = {"start": _moment(self._begin_ms), "end": _moment(self._end_ms)}
        content, answer = self._client.json("/api/v1/series", **{"match[]": match, **times})
        with self._client.understood("/api/v1/series"):
            series = [dict(labels) for labels in content["data"]]
        if name not in self._series:
            self._spool.add({"kind": "series", "metric": name, "match": match, "count": len(series)}, answer)
            self._series[name] = len(series)
        return series

    def _stretch(self, name: str, groups: list[_Group], at_ms: int, until_ms: int) -> None:
        """Fetch all series of a metric between two moments. Raises _Smaller, and then keeps nothing of them."""
        lines = len(self._spool.lines)
        for number, group in enumerate(groups):
            try:
                self._page(name, group.matchers, at_ms, until_ms, whole=group is groups[-1])
            except TooMuch as error:
                self._spool.keep(lines)
                raise _Smaller(number, str(error)) from None

    def _page(self, name: str, matchers: str, at_ms: int, until_ms: int, whole: bool) -> None:
        query = f"{_selector(name, matchers)}[{until_ms - at_ms}ms]"
        head = {"kind": "page", "metric": name, "query": query, "start_s": at_ms / 1000, "end_s": until_ms / 1000}
        parameters = {"query": query, "time": _moment(until_ms)}
        with self._spool.line({**head, "whole": whole}, most_bytes=self._most_bytes) as line:
            self._client.stream("/api/v1/query", parameters, line.take, line.again)
            if line.says(b'"warnings":'):
                self._problems.append(f"the server warns about its answer to {query}")


def _selector(metric: str, matchers: str) -> str:
    """A selector. Names with other characters than letters, digits, _ and : are quoted, as Prometheus 3 allows."""
    if _PLAIN.fullmatch(metric):
        return f"{metric}{{{matchers}}}"
    return "{" + ", ".join(filter(None, (json.dumps(metric), matchers))) + "}"


def _moment(ms: int) -> str:
    return f"{ms / 1000:.3f}"
