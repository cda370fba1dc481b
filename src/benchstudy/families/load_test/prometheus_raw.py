"""Reads the file that the agent's `prometheus-fetch` writes, and cuts windows out of it.

Only one answer at a time is in memory, whatever the duration. docs/prometheus.md describes the file.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchstudy.model.family import ParseError

_RELEASE = re.compile(r"v?(\d+)\.(\d+)")
_ANSWER = b',"answer":'
_SCHEMA = 1


class RawLine(NamedTuple):
    """`head`: the fields before the answer, see the docs; `answer`: the server's bytes; `text`: the whole line."""

    head: dict[str, Any]
    answer: bytes | None
    text: bytes


class Dialect(NamedTuple):
    """Differences between the computations of Prometheus' releases.

    `left_open`: whether `[1m]` excludes a sample of exactly a minute ago (since 3.0). `half_first`: whether a series
    that begins within a window is extrapolated backwards by half an interval at most, and not to the moment at which
    it would have been zero (since 2.51).
    """

    left_open: bool = False
    half_first: bool = False


@dataclass(frozen=True)
class Section:
    """A window that was fetched.

    `clock`: {"offset_s": the server's minus the querying host's, "uncertainty_s", "asked_wall_s"}, None if unknown.
    `metrics`: maps names to numbers of series, 0 for a metric that the server did not have in the window.
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
        """The server's dialect; that of the oldest release if the server does not report its version."""
        found = _RELEASE.match(self.version or "")
        if not found:
            return Dialect()
        release = (int(found[1]), int(found[2]))
        return Dialect(left_open=release >= (3, 0), half_first=release >= (2, 51))


def raw_lines(path: Path) -> Iterator[RawLine]:
    """Iterate over the lines of a file. Raises ParseError if it is damaged, truncated, or another kind of file."""
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
        raise ParseError(f"{path.name} is not an export of Prometheus data as `prometheus-fetch` writes it")
    if not ended:
        raise ParseError(f"{path.name} is cut off: it does not say that all was fetched")


def sections(path: Path) -> list[Section]:
    """List the windows that a file holds. Raises ParseError."""
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
    """Copy the part of an export that a window needs, unchanged, from the first fetch that holds the whole window.

    margin_s: extra time before the start to copy, as far as the export has it.
    Raises ParseError if no fetch holds the whole window.
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
