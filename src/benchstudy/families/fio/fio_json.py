"""Parses fio's JSON and JSON+, versions 2.x and 3.x.

The formats differ in units: 2.x gives latencies in µs (`clat`) and, up to 2.20, totals in KiB; 3.x gives ns
(`clat_ns`) and bytes. JSON+ adds the histogram: until 2.19 by bin number, later by the middle of the bin.
With `--status-interval` fio writes several documents, each for the run so far; the last one is the result.
"""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchstudy.families.fio.fio_printed import GOES_ON_AFTER, INTERRUPTED, amount, same, seconds
from benchstudy.families.fio.fio_result import RANGE_S, Direction, FioJob, FioRun, Latency
from benchstudy.families.shared.clients import Bins
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

# A document starts on a new line, or in the middle of a note from another process of fio.
_DOCUMENT = re.compile(r'^\{|\{(?=\s*"fio version")', re.MULTILINE)
# Each power of two is divided into 64 equal bins; below 128 each value has its own bin (see fio's stat.h).
_BIN_BITS = 6
# Divisors, not factors: 128000 / 1e9 is the float nearest to 128 µs, 128000 * 1e-9 is not.
_LATENCY_UNITS = (("_ns", 1e9), ("", 1e6))
# fio's clock may have whole seconds only, and its first document comes after an interval of 1 s or more.
_SURELY_BEFORE_S = 0.5
# fio counts in 64 bits.
_LARGEST = 2.0**64
_SHORT, _MORE_THAN_ONCE = 0.9, 1.01
_RANGE_OF_OLD_S = 2.0**24 / 1e6  # of histograms in microseconds
_LAST_BIN = 1 - 2.0 ** -(_BIN_BITS + 1)  # where fio's last bin begins, as a share of the range that it ends
# Options that end a job when it has found what it looks for, and those that tell how much it does in place of `size`.
# fio takes the latter for a limit unless it is `time_based`, which the document may not tell.
_ENDS_WHEN_FOUND = frozenset({"steadystate", "ss", "latency_target"})
_OTHER_AMOUNT = frozenset({"io_size", "io_limit", "loops", "number_ios", "verify"})


@damaged("fio's JSON is damaged")
def parse_fio_json(text: str) -> FioRun:
    """Parse the run in fio's JSON output. Notes of fio before and after the document are ignored.

    Raises ParseError if the text is truncated, inconsistent or not fio's, or has several runs.
    """
    runs = [_run(document) for _, _, document in _documents(text)]
    later = next((run for run, before in zip(runs[1:], runs, strict=False) if not _goes_on(before, run)), None)
    if later is not None:
        raise ParseError(f"several runs of fio are in one text, of {len(runs)} documents: give each a file of its own")
    stopped = INTERRUPTED.search(text)
    return replace(runs[-1], interrupted=stopped[0].strip() if stopped else _cut_short(runs[-1]))


@damaged("fio's JSON is damaged")
def split_fio_json(text: str) -> list[str]:
    """Split the text into runs without leaving anything out; a run's documents stay together. Raises ParseError."""
    cuts = [0]
    for (_, end, before), (_, _, after) in pairwise(_documents(text)):
        if not _goes_on(_run(before), _run(after)):
            cuts.append(end)
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


def _documents(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Find each JSON document, with its start and end in the text."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    start = _DOCUMENT.search(text)
    if start is None:
        said = " / ".join(line.strip() for line in text.strip().splitlines()[-3:])
        raise ParseError(f"fio wrote no JSON document{f', only: {said[:400]}' if said else ' and nothing else either'}")
    while start is not None:
        try:
            document, end = json.JSONDecoder().raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            rest = text[error.pos :].strip()
            what = "is damaged" if len(rest) > 20 else "is truncated: it ends in the middle"
            raise ParseError(f"fio's JSON {what} (line {error.lineno}: {error.msg})") from error
        found.append((start.start(), end, document))
        start = _DOCUMENT.search(text, end)
    return found


def _run(document: Mapping[str, Any]) -> FioRun:
    version = document.get("fio version")
    if not isinstance(version, str):
        raise ParseError('this JSON is not an output of fio: the key "fio version" is missing')
    if "client_stats" in document:
        raise ParseError("this is an output of fio's client mode, which mixes hosts: run fio on each host instead")
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise ParseError("fio's output holds no job")
    common = document.get("global options") or {}
    # Versions before 2.14 do not write options. Rounding follows the digits of the JSON.
    step = 0.01 if version.startswith("fio-2") else 1e-6
    ended = document.get("timestamp_ms", 1000 * document.get("timestamp", 0)) / 1000
    return FioRun(
        version,
        _regrouped([_job(job, common, step) for job in jobs]),
        all_options=all("job options" in job for job in jobs),
        devices=[disk["name"] for disk in document.get("disk_util") or () if isinstance(disk, dict) and "name" in disk],
        ended=ended or None,
    )


def _goes_on(before: FioRun, after: FioRun) -> bool:
    """Whether the second document is a later one of the same run as the first (`--status-interval`).

    Each covers the run from its start, so the second one's start must precede the time at which the first was written.
    """
    if [(j.name, j.group, j.options) for j in before.jobs] != [(j.name, j.group, j.options) for j in after.jobs]:
        return False
    for earlier, later in zip(before.jobs, after.jobs, strict=True):
        for op, direction in earlier.directions.items():
            if op not in later.directions or later.directions[op].bytes < direction.bytes:
                return False
    if before.ended is None or after.ended is None:
        raise ParseError(
            "several documents of fio are in one text, and do not all say which was written when: split them"
        )
    return after.ended - after.runtime < before.ended - _SURELY_BEFORE_S


def _cut_short(run: FioRun) -> str | None:
    """Why a run that should loop over its file for a time ended early. fio says so only outside of the document."""
    for job in run.jobs:
        if job.options.keys() & (_ENDS_WHEN_FOUND if "time_based" in job.options else _ENDS_WHEN_FOUND | _OTHER_AMOUNT):
            continue
        asked, size = seconds(job.options.get("runtime", "")), amount(job.options.get("size", ""))
        ran = max((d.runtime for d in job.directions.values()), default=0.0)
        done = sum(d.bytes for d in job.directions.values())
        # A job that processed its file repeatedly was meant to run until its time was over.
        if asked and size and ran < _SHORT * asked and done > _MORE_THAN_ONCE * size * job.processes:
            return f"it ran for {ran:g} s of {asked:g} s"
    return None


def _number(values: Mapping[str, Any], key: str, where: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ParseError(f"{where}: {key} is {value!r} where fio writes a number")
    return value


def _part(values: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    part = values.get(key)
    if not isinstance(part, dict):
        raise ParseError(f"{where}: the part {key!r} is missing")
    return part


def _job(job: Any, common: Mapping[str, str], step: float) -> FioJob:
    if not isinstance(job, dict) or not isinstance(job.get("jobname"), str):
        raise ParseError("a job in fio's output has no name")
    name = job["jobname"]
    where = f"fio job {name}"
    if "mixed" in job:
        raise ParseError(f"{where}: unified_rw_reporting hides which operation is meant; run it without")
    directions = {}
    for op in ("read", "write", "trim"):
        values = job.get(op)
        if isinstance(values, dict) and (values.get("total_ios") or values.get("io_bytes")):
            directions[op] = _direction(values, f"{where}, {op}", step)
    options = {str(key): str(value) for key, value in {**common, **(job.get("job options") or {})}.items()}
    return FioJob(
        name=name,
        group=int(job.get("groupid", 0)),
        directions=directions,
        sync=_sync(job.get("sync"), f"{where}, sync"),
        cpu_user=_number(job, "usr_cpu", where) / 100,
        cpu_system=_number(job, "sys_cpu", where) / 100,
        io_errors=int(job.get("total_err", 0)),
        options=options,
        failed=_failed(job, where),
        summed_s=_number(job, "job_runtime", where) / 1000 if "job_runtime" in job else None,
    )


def _regrouped(jobs: Sequence[FioJob]) -> list[FioJob]:
    """The jobs with their numbers of processes. With group_reporting one job combines all of them; the option may have
    been given on the command line, which no document tells, but fewer jobs than `numjobs` do.
    """
    found = []
    for job in jobs:
        asked, alike = job.options.get("numjobs", "1"), sum((j.name, j.group) == (job.name, job.group) for j in jobs)
        several = int(asked) if asked.isascii() and asked.isdigit() else 1
        found.append(replace(job, processes=several if "group_reporting" in job.options or alike < several else 1))
    return found


def _failed(job: Mapping[str, Any], where: str) -> str | None:
    """The error of a job; None also if it continued after errors (`continue_on_error`), which are counted."""
    error = int(_number(job, "error", where))
    went_on = bool(job.get("total_err")) and job.get("first_error") == error and error in GOES_ON_AFTER
    return f"ended in error {error}: {os.strerror(error)}" if error and not went_on else None


def _direction(values: Mapping[str, Any], where: str, step: float) -> Direction:
    milliseconds = _number(values, "runtime", where)
    if not milliseconds:
        raise ParseError(f"{where}: I/O was done in a run time of 0 ms: too short for fio's clock")
    runtime = milliseconds / 1000
    # The change that added `io_kbytes` also turned `io_bytes` from KiB into bytes.
    unit = 1 if "io_kbytes" in values else 1024
    total = _number(values, "io_bytes", where) * unit
    # fio rounds these down, so each may be low by almost one unit; totals in KiB may be low by up to one, too.
    for key, size in (("bw", 1024), ("bw_bytes", 1)):
        if key in values:
            same(f"{where}: {key}", _number(values, key, where) * size, size, total / runtime, unit / runtime, "B/s")
    if "io_kbytes" in values:
        same(f"{where}: io_kbytes", _number(values, "io_kbytes", where) * 1024, 1024, total, 0, "B")
    if "total_ios" in values:
        ios = _number(values, "total_ios", where)
        same(f"{where}: iops", _number(values, "iops", where), step, ios / runtime, 0, "1/s")
    counts = {
        k: int(_number(values, k, where)) if k in values else None for k in ("total_ios", "short_ios", "drop_ios")
    }
    latencies = {kind: _latency(values, kind, where, counts["total_ios"]) for kind in ("slat", "clat", "lat")}
    return Direction(
        iops=_number(values, "iops", where),
        bandwidth=total / runtime,
        bytes=total,
        runtime=runtime,
        ios=counts["total_ios"],
        short_ios=counts["short_ios"],
        dropped_ios=counts["drop_ios"],
        latencies={kind: latency for kind, latency in latencies.items() if latency is not None},
    )


def _sync(values: Any, where: str) -> Latency | None:
    return _latency(values, "lat", where, None) if isinstance(values, dict) else None


def _latency(parent: Mapping[str, Any], kind: str, where: str, ios: int | None) -> Latency | None:
    """Parse a latency. None if fio did not measure it: its zeros must not become latencies of zero.

    `ios` stands in for the number of samples, which fio 2.x does not write.
    """
    found = [(f"{kind}{suffix}", unit) for suffix, unit in _LATENCY_UNITS if f"{kind}{suffix}" in parent]
    if not found:
        return None
    key, per_second = found[0]
    where = f"{where}, {kind}"
    values = _part(parent, key, where)
    highest = _number(values, "max", where)
    count = int(_number(values, "N", where)) if "N" in values else None
    if count == 0 or (count is None and highest == 0):
        return None
    bins = _bins(values.get("bins"), per_second, where)
    if count is not None and bins and (held := sum(number for *_, number in bins)) != count:
        raise ParseError(f"{where}: inconsistent: the histogram holds {held} of {count} samples")
    longest_s = highest / per_second
    percentiles = _percentiles(values.get("percentile"), per_second, f"{where}, percentile")
    end_s = RANGE_S if per_second == 1e9 else _RANGE_OF_OLD_S
    if longest_s >= end_s:
        # fio's last bin also holds what took longer than its range, and percentiles in it are that bin's middle.
        beyond_s = math.nextafter(longest_s, math.inf)
        bins = [(low, beyond_s if high == end_s else high, number) for low, high, number in bins]
        percentiles = {percent: s for percent, s in percentiles.items() if s < end_s * _LAST_BIN}
    return Latency(
        count=ios if count is None else count,
        min=_number(values, "min", where) / per_second,
        max=longest_s,
        mean=_number(values, "mean", where) / per_second,
        stddev=_number(values, "stddev", where) / per_second,
        percentiles=percentiles,
        bins=bins,
    )


def _percentiles(values: Any, per_second: float, where: str) -> dict[float, float]:
    """Parse percentiles. Keys look like "99.900000"; fio 2.x fills unused places with "0.00"."""
    if not isinstance(values, dict):
        return {}
    return {float(key): _number(values, key, where) / per_second for key in values if key != "0.00"}


def _bins(values: Any, per_second: float, where: str) -> Bins:
    if not isinstance(values, dict):
        return []
    by_number = "FIO_IO_U_PLAT_BITS" in values
    if by_number and values["FIO_IO_U_PLAT_BITS"] != _BIN_BITS:
        raise ParseError(f"{where}: a histogram with {values['FIO_IO_U_PLAT_BITS']} bits per bin is not known")
    bins = []
    for key, count in values.items():
        if key.isdecimal() and count:
            lower, width = _edges_of_number(int(key)) if by_number else _edges_of_value(int(key))
            bins.append((lower / per_second, (lower + width) / per_second, int(_number(values, key, where))))
    return bins


def _edges_of_value(value: int) -> tuple[int, int]:
    """Lower edge and width of the bin that holds `value`."""
    shift = max(0, value.bit_length() - 1 - _BIN_BITS)
    return value >> shift << shift, 1 << shift


def _edges_of_number(number: int) -> tuple[int, int]:
    """Lower edge and width of the bin with this number, in fio's numbering."""
    per_power = 1 << _BIN_BITS
    if number < 2 * per_power:
        return number, 1
    shift = (number >> _BIN_BITS) - 1
    return (per_power + number % per_power) << shift, 1 << shift
