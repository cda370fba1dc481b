"""Parses ab (ApacheBench): its report, and its files of -e (percentiles) and -g (requests).

ab rounds latencies to whole milliseconds, and a kilobyte has 1024 bytes.
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from benchstudy.families.http_concurrency.ab_result import AbResult, Times, options
from benchstudy.families.shared.clients import Bins
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_PHASES = {"Connect": "connect", "Processing": "processing", "Waiting": "waiting", "Total": "total"}
_VERSION = re.compile(r"^This is ApacheBench, Version (?P<version>\S+)", re.M)
# The command may be in backquotes, as on a page, or after a shell's prompt.
_COMMAND = re.compile(r"^[ \t\r`$#>]*((?:\S*/)?ab\s+-[^\n`]*)`?", re.M)
_FIELD = re.compile(r"^(?P<name>[A-Z][A-Za-z/0-9 -]+?):[ \t]*+(?P<value>(?:.*\S)?)[ \t]*+$")
_FAILURES = re.compile(r"^\s+\(Connect: (\d+), (?:Receive: (\d+), )?Length: (\d+), Exceptions: (\d+)\)\s*$")
_TIMES = re.compile(r"^(Connect|Processing|Waiting|Total):((?:\s+-?\d+(?:\.\d+)?){3,5})\s*$")
_PERCENTILE = re.compile(r"^\s*(?P<percent>\d+)%\s+<?(?P<ms>-?\d+)>?")
_GAVE_UP = re.compile(r"^Total of (\d+) requests completed", re.M)
_SAID = re.compile(r"^(?:ab|apr_\w+|SSL \w+|[\w/.-]*ab): .+$|^.+\(\d{2,6}\)\s*$|^Test aborted after .+$", re.M)


def recognise_ab(text: str) -> bool:
    """Whether the text contains a report of ab, whole or damaged."""
    if _VERSION.search(text):
        return True
    return all(re.search(rf"^{name}:", text, re.M) for name in ("Document Path", "Concurrency Level"))


@damaged("ab's report is damaged")
def parse_ab(text: str, stderr: str = "") -> AbResult:
    """Parse the report in a text, which may have a command, notes or other text before and after the report.

    `stderr` is only read for ab's reason if there is no report. Raises ParseError if the report is truncated, if ab
    gave up, or if the text has no report or two of them.
    """
    if not recognise_ab(text):
        raise ParseError(f"ab left no report; {_reason(text, stderr)}")
    begins = re.findall(r"^Document Path:", text, re.M)
    if len(begins) > 1:
        raise ParseError(f"{len(begins)} reports of ab are in one text: give each a file of its own")
    if not begins:
        raise ParseError(f"ab ended before its report; {_reason(text, stderr)}")
    return _Report(text, stderr).result()


def split_ab(text: str) -> list[str]:
    """Split the text into reports without leaving anything out, each with the command before it."""
    reports = len(re.findall(r"^Document Path:", text, re.M))
    starts = [match.start() for match in _VERSION.finditer(text)]
    if len(starts) != reports:  # a transcript may lack ab's first lines
        starts = [match.start() for match in re.finditer(r"^Server Software:", text, re.M)]
    if len(starts) != reports:
        return [text]
    cuts = [0]
    for before, start in pairwise(starts):
        command = _COMMAND.search(text, before, start)
        cuts.append(command.start() if command and command.start() > before else start)
    return [text[begin:end] for begin, end in pairwise([*cuts, len(text)])]


def _reason(text: str, stderr: str) -> str:
    said = [match[0].strip() for source in (stderr, text) for match in _SAID.finditer(source)]
    done = _GAVE_UP.search(text)
    after = f" after {done[1]} requests" if done else ""
    return f"it said{after}: {'; '.join(dict.fromkeys(said))}" if said else f"it gives no reason{after}"


class _Report:
    """Parses the lines of one report, by name."""

    def __init__(self, text: str, stderr: str):
        self._text, self._stderr = text, stderr
        self._fields: dict[str, list[str]] = {}
        self._failures: tuple[int, ...] = (0, 0, 0, 0)
        self._times: dict[str, Times] = {}
        self._percentiles: dict[int, float] = {}
        lines = iter(text.splitlines())
        for line in lines:
            if match := _FAILURES.match(line):
                self._failures = tuple(int(_finite(n or "0")) for n in match.groups())
            elif match := _TIMES.match(line):
                self._times[_PHASES[match[1]]] = self._row(match[1], match[2])
            elif line.startswith("Percentage of the requests"):
                self._read_percentiles(lines)
            elif match := _FIELD.match(line):
                # Notes may begin like a line of ab. Of those after the report, the first value of a name decides.
                if match["name"] == "Server Software" and "Document Path" not in self._fields:
                    self._fields.clear()
                self._fields.setdefault(match["name"], []).append(match["value"])

    def result(self) -> AbResult:
        complete, duration = self._count("Complete requests"), self._number("Time taken for tests")
        found = _COMMAND.search(self._text)
        command = found[1].strip() if found else None
        self._require_whole(complete, command)
        version = _VERSION.search(self._text)
        length = self._value("Document Length")
        per_request = self._fields.get("Time per request", [])
        optional = self._optional
        kept, kib_per_s = optional("Keep-Alive requests"), optional("Transfer rate")
        return AbResult(
            version=version["version"] if version else None,
            command=command,
            server_software=self._value("Server Software"),
            hostname=self._value("Server Hostname"),
            port=self._count("Server Port"),
            tls=self._fields.get("SSL/TLS Protocol", [None])[0],
            path=self._value("Document Path"),
            document_length=None if length == "Variable" else self._count("Document Length"),
            concurrency=self._count("Concurrency Level"),
            duration=duration,
            complete=complete,
            failed=self._count("Failed requests"),
            failed_connect=self._failures[0],
            failed_receive=self._failures[1],
            failed_length=self._failures[2],
            failed_exceptions=self._failures[3],
            write_errors=int(optional("Write errors") or 0),
            non_2xx=int(optional("Non-2xx responses") or 0),
            keepalive_requests=None if kept is None else int(kept),
            transferred=self._count("Total transferred"),
            html_transferred=self._count("HTML transferred"),
            requests_per_second=optional("Requests per second"),
            time_per_request=_leading(per_request[0]) / 1000 if per_request else None,
            time_per_request_across=_leading(per_request[1]) / 1000 if len(per_request) > 1 else None,
            transfer_rate=None if kib_per_s is None else kib_per_s * 1024,
            times=self._times,
            percentiles=self._percentiles,
        )

    def _require_whole(self, complete: int, command: str | None) -> None:
        """Raise ParseError if the tables at the report's end are missing. ab prints none if it completed nothing."""
        if not complete:
            raise ParseError(f"ab completed no request; {_reason(self._text, self._stderr)}")
        missing = []
        if "Requests per second" in self._fields and len(self._fields.get("Time per request", [])) != 2:
            missing.append("its time per request")
        missing += [f"the row {row} of its times" for row, name in _PHASES.items() if name not in self._times]
        # Unless -d is given, ab prints percentiles if there are two requests or more; the longest comes last.
        switched_off = command is not None and "d" in options(command) and not self._percentiles
        if complete > 1 and 100 not in self._percentiles and not switched_off:
            missing.append("the end of its percentiles")
        if missing:
            without = "percentiles" in missing[0] and command is None and not self._percentiles
            hint = "; if ab ran with -d, put its command on the line before the report" if without else ""
            reason = _reason(self._text, self._stderr)
            raise ParseError(f"ab's report is truncated: {missing[0]} is missing; {reason}{hint}")

    def _row(self, name: str, numbers: str) -> Times:
        ms = [_finite(number) / 1000 for number in numbers.split()]
        if len(ms) == 5:
            return Times(*ms)
        if len(ms) == 3:
            return Times(ms[0], ms[1], None, None, ms[2])
        raise ParseError(f"ab's report is truncated: the row {name} of its times has {len(ms)} numbers instead of 5")

    def _read_percentiles(self, lines: Iterator[str]) -> None:
        for line in lines:
            match = _PERCENTILE.match(line)
            if match is None:
                return
            percent = int(match["percent"])
            if percent == 100 and "(longest request)" not in line:
                return
            self._percentiles[percent] = _finite(match["ms"]) / 1000

    def _value(self, name: str) -> str:
        values = self._fields.get(name)
        if values is None:
            raise ParseError(f"ab's report is truncated: it has no {name!r}; {_reason(self._text, self._stderr)}")
        return values[0]

    def _number(self, name: str) -> float:
        return _leading(self._value(name))

    def _count(self, name: str) -> int:
        number = self._number(name)
        if number != int(number):
            raise ParseError(f"ab's {name!r} is not a whole number: {self._value(name)!r}")
        return int(number)

    def _optional(self, name: str) -> float | None:
        return self._number(name) if name in self._fields else None


def _leading(value: str) -> float:
    """The number at the beginning of a value: "5845.90 [#/sec] (mean)"."""
    match = re.match(r"-?\d+(?:\.\d+)?", value)
    if match is None:
        raise ParseError(f"ab's report is truncated or damaged: {value!r} does not begin with a number")
    return _finite(match[0])


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ParseError(f"ab's report is damaged: it has a number of {len(number)} digits")
    return value


@damaged("ab's percentiles are damaged")
def parse_ab_percentiles(csv: str) -> list[tuple[float, float]]:
    """Parse the file of -e: (percent, seconds) for 0 to 100, exact to 1 µs. Raises ParseError if it is truncated."""
    lines = csv.splitlines()
    if not lines or lines[0] != "Percentage served,Time in ms":
        raise ParseError("this is not a file of ab -e: its first line is not 'Percentage served,Time in ms'")
    rows = []
    for line in lines[1:]:
        match = re.fullmatch(r"(\d+),(\d+\.\d{3})", line)
        if match is None:
            raise ParseError(f"ab's file of percentiles (-e) is truncated or damaged at {line!r}")
        rows.append((float(match[1]), float(match[2]) / 1000))
    if [percent for percent, _ in rows] != [float(percent) for percent in range(101)]:
        raise ParseError(f"ab's file of percentiles (-e) is truncated: {len(rows)} of 101 lines")
    return rows


@damaged("ab's list of requests is damaged")
def histogram_of_gnuplot(path: Path, *, expected: int | None = None) -> Bins:
    """Read the file of -g (plain or gzip) as counts of total times, in ascending order.

    ab rounds times to the nearest millisecond, so a bin extends half a millisecond to both sides of the printed value,
    and the first one begins at 0. `expected`: required number of rows. Raises ParseError if the file is truncated or
    not of -g.
    """
    import polars as pl  # imported here, because measuring sessions load this module, too

    header = "starttime\tseconds\tctime\tdtime\tttime\twait"
    try:
        types = {"ttime": pl.Int64, "wait": pl.Int64}
        scanned = pl.scan_csv(path, separator="\t", quote_char=None, schema_overrides=types)
        if "\t".join(scanned.collect_schema().names()) != header:
            raise ParseError(f"{path.name} is not a file of ab -g: its first line is not {header!r}")
        # A truncated line lacks its last columns, which polars reads as null.
        rows = pl.len().cast(pl.Int64).alias("count")
        counts = scanned.group_by("ttime").agg(rows, pl.col("wait").null_count()).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ParseError(f"{path.name} cannot be read as a file of ab -g: {error}") from error
    found = counts["count"].sum()
    if counts["ttime"].null_count() or counts["wait"].sum():
        raise ParseError(f"{path.name} is truncated: a line of ab -g lacks its last columns")
    if not found or (expected is not None and found != expected):
        raise ParseError(f"{path.name} is truncated: {found} requests" + (f" of {expected}" if expected else ""))
    middle = pl.col("ttime").cast(pl.Float64)
    low, high = ((middle - 0.5) / 1000).clip(lower_bound=0.0).alias("low_s"), ((middle + 0.5) / 1000).alias("high_s")
    return counts.sort("ttime").select(low, high, "count").rows()
