"""The file that the agent's `prometheus-fetch` writes: its lines, what it holds, one window of it, and its samples.

Only one answer at a time is in memory, whatever the duration. docs/prometheus.md describes the file.
"""

import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from benchstudy.model.family import ParseError

_RELEASE = re.compile(r"v?(\d+)\.(\d+)")
_ANSWER = b',"answer":'
_SCHEMA = 1
_PARTS = (b'"result":[', b'{"metric":', b'"values":[[')


class RawLine(NamedTuple):
    """`head`: what stands before the answer, see docs; `answer`: as the server gave it; `text`: the whole line."""

    head: dict[str, Any]
    answer: bytes | None
    text: bytes


class Series(NamedTuple):
    """Samples of one series: times in ms, ascending, and values, both (n,). `key`: its labels as JSON text."""

    key: bytes
    times_ms: np.ndarray
    values: np.ndarray

    @property
    def labels(self) -> dict[str, str]:
        return orjson.loads(self.key)


class Page(NamedTuple):
    """Samples of a metric with start < time <= end, ms; some of its series, or all."""

    metric: str
    start_ms: int
    end_ms: int
    series: list[Series]


class Dialect(NamedTuple):
    """What Prometheus' releases compute differently.

    `left_open`: whether `[1m]` leaves out a sample of exactly a minute ago (from 3.0 on). `half_first`: whether a
    series that begins within a window is drawn out by half an interval at most, and not as far as to where it would
    have been zero (from 2.51 on).
    """

    left_open: bool = False
    half_first: bool = False


@dataclass(frozen=True)
class Section:
    """One window that was fetched.

    `clock`: {"offset_s": the server's minus the asking host's, "uncertainty_s", "asked_wall_s"}, None when unknown.
    `metrics`: name to its number of series, 0 for one that the server did not have in the window.
    """

    url: str
    start_s: float
    end_s: float
    margin_s: float
    scrape_interval_s: float | None
    select: str | None
    version: str | None = None
    clock: Mapping[str, float] | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    samples: int = 0
    problems: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, count in self.metrics.items() if not count))

    def holds(self, start_s: float, end_s: float) -> bool:
        return self.start_s - 1e-3 <= start_s and end_s <= self.end_s + 1e-3

    @property
    def dialect(self) -> Dialect:
        """That of the server; of one that does not tell its version, as of the oldest."""
        found = _RELEASE.match(self.version or "")
        release = (int(found[1]), int(found[2])) if found else (0, 0)
        return Dialect(left_open=release >= (3, 0), half_first=release >= (2, 51))


def raw_lines(path: Path) -> Iterator[RawLine]:
    """Raises ParseError when the file is damaged, cut off, or another kind of file."""
    known = ended = False
    try:
        with gzip.open(path, "rb") as file:
            for text in file:
                head, separator, rest = text.partition(_ANSWER)
                line = RawLine(orjson.loads(head + b"}" if separator else text), rest[:-2] if separator else None, text)
                kind = line.head.get("kind") if isinstance(line.head, dict) else None
                if kind == "header":
                    if line.head.get("schema") != _SCHEMA:
                        raise ParseError(f"{path.name}: schema {line.head.get('schema')!r}; only {_SCHEMA} is known")
                    if known and not ended:
                        raise ParseError(f"{path.name}: another window begins where the one before is cut off")
                elif not known:
                    break
                known, ended = True, kind == "end"
                yield line
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(f"{path.name} is truncated or damaged: {error}") from error
    except FileNotFoundError:
        raise ParseError(f"the file {path.name} is missing") from None
    if not known:
        raise ParseError(f"{path.name} is no export of Prometheus data as `prometheus-fetch` writes it")
    if not ended:
        raise ParseError(f"{path.name} is cut off: it does not say that all was fetched")


def sections(path: Path) -> list[Section]:
    """What a file holds, window by window. Raises ParseError."""
    found: list[dict[str, Any]] = []
    for head, _, _ in raw_lines(path):
        kind = head["kind"]
        if kind == "header":
            names = ("url", "start_s", "end_s", "margin_s", "scrape_interval_s", "select")
            found.append({name: head[name] for name in names} | {"metrics": {}})
        elif kind == "clock":
            found[-1]["clock"] = {name: head[name] for name in ("offset_s", "uncertainty_s", "asked_wall_s")}
        elif kind == "buildinfo":
            found[-1]["version"] = head["version"]
        elif kind == "series":
            found[-1]["metrics"][head["metric"]] = head["count"]
        elif kind == "end":
            found[-1] |= {"samples": head["samples"], "problems": tuple(head["problems"])}
    return [Section(**section) for section in found]


def cut(path: Path, start_s: float, end_s: float, into: Path, margin_s: float = 0.0) -> Section:
    """Copy of an export only what a window needs, as the answers stand there: of the first fetch that holds it all.

    margin_s: what to take before the start too, as far as it is there.
    Raises ParseError when none holds the whole window.
    """
    held = sections(path)
    number = next((n for n, part in enumerate(held) if part.holds(start_s, end_s)), None)
    if number is None:
        ranges = ", ".join(f"{part.start_s:.0f} to {part.end_s:.0f}" for part in held)
        raise ParseError(f"{path.name} does not hold the window {start_s:.0f} to {end_s:.0f} (Unix s), but {ranges}")
    margin_s = min(margin_s, held[number].margin_s + start_s - held[number].start_s)
    at = -1
    kept = 0
    with into.open("wb") as out:
        for head, _, text in raw_lines(path):
            kind = head["kind"]
            at += kind == "header"
            if at != number:
                continue
            if kind == "header":
                text = orjson.dumps(head | {"start_s": start_s, "end_s": end_s, "margin_s": margin_s}) + b"\n"
            elif kind == "end":
                text = orjson.dumps(head | {"pages": kept, "cut_from_pages": head["pages"]}) + b"\n"
            elif kind == "page":
                if head["end_s"] < start_s - margin_s or head["start_s"] > end_s:
                    continue
                kept += 1
            out.write(gzip.compress(text, 6, mtime=0))
    return sections(into)[0]


def pages(path: Path, metrics: Collection[str] | None = None) -> Iterator[Page]:
    """The samples, in the file's order: metric by metric, forward in time. Raises ParseError."""
    for head, answer, _ in raw_lines(path):
        if head["kind"] == "page" and (metrics is None or head["metric"] in metrics):
            try:
                series = read_matrix(answer or b"")
            except (ValueError, KeyError, TypeError) as error:
                raise ParseError(f"{path.name}: the answer to {head['query']}: {error}") from error
            yield Page(head["metric"], round(1000 * head["start_s"]), round(1000 * head["end_s"]), series)


def read_matrix(answer: bytes) -> list[Series]:
    """The series in an answer to a range selector. Raises ValueError for what is none."""
    if b'"histograms":' in answer:
        raise ValueError("it has native histograms, which are not read; expose classic buckets as well")
    found = _cut_matrix(answer)
    return _decoded_matrix(answer) if found is None else found


def _cut_matrix(answer: bytes) -> list[Series] | None:
    """As Prometheus writes it, all numbers are read in one go, seven million a second; None: it is written otherwise.

    None of the separators can stand within a JSON string, where a quotation mark has a backslash before it.
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
        raise ValueError(f"it is no matrix but {content['status']}, {data.get('resultType')}")
    return [
        Series(
            orjson.dumps(row["metric"], option=orjson.OPT_SORT_KEYS),
            np.array([round(1000 * time) for time, _ in row["values"]], dtype=np.int64),
            np.array([float(value) for _, value in row["values"]]),
        )
        for row in data["result"]
    ]
