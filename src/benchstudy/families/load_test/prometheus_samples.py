"""Reads the samples in a file that the agent's `prometheus-fetch` wrote, one answer at a time."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from benchstudy.families.load_test.prometheus_raw import raw_lines
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_LATEST_S = 1e12  # Unix time, later than any clock shows
_PARTS = (b'"result":[', b'{"metric":', b'"values":[[')


class Series(NamedTuple):
    """Samples of one series: ascending times in ms, and values, both (n,). `key`: its labels as JSON text."""

    key: bytes
    times_ms: np.ndarray
    values: np.ndarray

    @property
    def labels(self) -> dict[str, str]:
        return orjson.loads(self.key)


class Page(NamedTuple):
    """Samples with start < time <= end, in ms, of some or all series of a metric."""

    metric: str
    start_ms: int
    end_ms: int
    series: list[Series]


def pages(path: Path, metrics: Collection[str] | None = None) -> Iterator[Page]:
    """Iterate over the samples in the file's order: by metric, then forward in time. Raises ParseError."""
    for head, answer, _ in raw_lines(path):
        if head["kind"] == "page" and (metrics is None or head["metric"] in metrics):
            try:
                series = read_matrix(answer or b"")
            except ParseError as error:
                raise ParseError(f"{path.name}: the answer to {head['query']}: {error}") from error
            yield Page(head["metric"], round(1000 * head["start_s"]), round(1000 * head["end_s"]), series)


@damaged("the answer of Prometheus is damaged")
def read_matrix(answer: bytes) -> list[Series]:
    """Parse the series in an answer to a range selector. Raises ParseError if it is not one."""
    if b'"histograms":' in answer:
        raise ValueError("it has native histograms, which are not read; expose classic buckets as well")
    found = _cut_matrix(answer)
    if found is None:
        found = _decoded_matrix(answer)
    if not _is_in_order([series.times_ms for series in found if len(series.times_ms)]):
        raise ParseError("samples of a series are not in order of time")
    return found


def _is_in_order(times: Sequence[np.ndarray]) -> bool:
    """Whether the times of each series rise. All series at once, because most have few samples."""
    if not times:
        return True
    rises = np.diff(np.concatenate(times)) > 0
    begins = np.cumsum([len(of_series) for of_series in times[:-1]], dtype=int)
    rises[begins - 1] = True  # from one series to the next
    return bool(rises.all())


def _cut_matrix(answer: bytes) -> list[Series] | None:
    """Parse all numbers of an answer in one pass, seven million per second; None if Prometheus formats it differently.

    No separator can occur in a JSON string, because quotation marks in strings are escaped.
    """
    result, metric, values = _PARTS
    _, found, text = answer.partition(result)
    if not found:
        return None
    before, *pieces = text.split(values)
    keys: list[bytes] = []
    chunks: list[bytes] = []
    for piece in pieces:
        start = before.find(metric)
        if start < 0 or not before.endswith(b"},"):
            return None
        keys.append(before[start + len(metric) : -1])
        chunk, _, before = piece.partition(b"]]")
        chunks.append(chunk)
    if metric in before:
        return None
    counts = [chunk.count(b'"') // 2 for chunk in chunks]
    if not counts:
        return [] if before.startswith(b"]") else None
    numbers = np.fromstring(b",".join(chunks).translate(None, b'[]"'), sep=",")
    if len(numbers) != 2 * sum(counts):
        return None
    if not (np.abs(numbers[0::2]) < _LATEST_S).all():  # also catches NaN, which would become an arbitrary integer
        raise ParseError("a sample has no time")
    times = np.rint(numbers[0::2] * 1000).astype(np.int64)
    levels = numbers[1::2]
    ends = np.cumsum(counts).tolist()
    return [
        Series(key, times[end - count : end], levels[end - count : end])
        for key, count, end in zip(keys, counts, ends, strict=True)
    ]


def _decoded_matrix(answer: bytes) -> list[Series]:
    content = orjson.loads(answer)
    data = content["data"]
    if content["status"] != "success" or data["resultType"] != "matrix":
        raise ValueError(f"it is not a matrix but {content['status']}, {data.get('resultType')}")
    return [
        Series(
            orjson.dumps(row["metric"], option=orjson.OPT_SORT_KEYS),
            np.array([round(1000 * time) for time, _ in row["values"]], dtype=np.int64),
            np.array([float(value) for _, value in row["values"]]),
        )
        for row in data["result"]
    ]
