"""Trials of load_test from samples that a test says: the file that `prometheus-fetch` would write, and the facts."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchstudy.families.load_test.parse import FACTS, METRICS, parse_trial

Samples = Sequence[tuple[float, float]]
Series = Sequence[tuple[Mapping[str, str], Samples]]


def every(interval_s: float, start_s: float, values: Sequence[float]) -> Samples:
    return [(start_s + n * interval_s, value) for n, value in enumerate(values)]


def write_trial(
    folder: Path,
    metrics: Mapping[str, Series],
    window: tuple[float, float],
    steady: tuple[float, float] | None = None,
    *,
    version: str | None = "2.42.0",
    width_s: float = 60.0,
    borders: Sequence[float] = (),
    names: Mapping[str, str] | None = None,
    **facts: Any,
) -> Path:
    """`borders`: where pages end, besides at the end of the window."""
    path = folder / METRICS
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = list(_lines(metrics, window, version, borders))
    path.write_bytes(b"".join(gzip.compress(line) for line in lines))
    spans = {"window": window, "steady": steady or window}
    told = {name: {"start_s": start_s, "end_s": end_s} for name, (start_s, end_s) in spans.items()}
    told |= {"schema": 1, "phases": [], "scrape_interval_s": 10.0, "rate_window_s": width_s, "metrics": names}
    (folder / FACTS).write_text(json.dumps({**told, **facts}))
    return folder


def _lines(
    metrics: Mapping[str, Series], window: tuple[float, float], version: str | None, borders: Sequence[float]
) -> Iterator[bytes]:
    start_s, end_s = window
    span = {"start_s": start_s, "end_s": end_s, "margin_s": 60.0}
    yield _line({"kind": "header", "schema": 1, "url": "http://p", **span, "scrape_interval_s": None, "select": None})
    if version is not None:
        yield _line({"kind": "buildinfo", "version": version}, {})
    ends = [start_s - 60.0, *sorted(borders), end_s]
    for metric, series in metrics.items():
        yield _line({"kind": "series", "metric": metric, "count": len(series)}, [])
        for begin, end in pairwise(ends):
            # A page of Prometheus 2 has the samples on both of its borders.
            matrix = [
                {"metric": {"__name__": metric, **labels}, "values": values}
                for labels, samples in series
                if (values := [[at, repr(float(value))] for at, value in samples if begin <= at <= end])
            ]
            head = {"kind": "page", "metric": metric, "query": metric, "start_s": begin, "end_s": end, "whole": True}
            yield _line(head, {"status": "success", "data": {"resultType": "matrix", "result": matrix}})
    yield _line({"kind": "end", "pages": 0, "series": 0, "samples": 0, "missing": [], "problems": []})


def _line(head: Mapping[str, Any], answer: Any = None) -> bytes:
    """The answer stands last, as it came."""
    return (
        json.dumps(dict(head) if answer is None else {**head, "answer": answer}, separators=(",", ":")).encode() + b"\n"
    )


def figures(folder: Path) -> tuple[dict[str, float], dict[str, list[dict[str, Any]]]]:
    """(observations by metric, series)."""
    found = parse_trial({}, folder)
    return {observation.metric: observation.value for observation in found.observations}, found.series
