"""fio's JSON and JSON+, versions 2.x and 3.x.

The formats differ in units: 2.x gives latencies in µs (`clat`) and, up to 2.20, totals in KiB; 3.x gives ns
(`clat_ns`) and bytes. JSON+ adds the histogram: until 2.19 by bin number, later by the middle of the bin.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from benchstudy.families.fio.fio_result import Bin, Direction, FioJob, FioRun, Latency
from benchstudy.model.family import ParseError

_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
# A power of two is cut into 64 equal bins, and below 128 each value has its own (see fio's stat.h).
_BIN_BITS = 6
# Divisors, not factors: 128000 / 1e9 is the float nearest to 128 µs, 128000 * 1e-9 is not.
_LATENCY_UNITS = (("_ns", 1e9), ("", 1e6))


def parse_fio_json(text: str) -> FioRun:
    """The run in fio's JSON output; fio's own notes before and after the document are passed over.

    Raises ParseError for a document that is truncated, inconsistent or not fio's, and a job that failed.
    """
    document = _document(text)
    version = document.get("fio version")
    if not isinstance(version, str):
        raise ParseError('this JSON is not an output of fio: the key "fio version" is missing')
    if "client_stats" in document:
        raise ParseError("this is an output of fio's client mode, which mixes hosts: run fio on each host instead")
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise ParseError("fio's output holds no job")
    return FioRun(version, [_job(job) for job in jobs])


def _document(text: str) -> dict[str, Any]:
    start = _DOCUMENT.search(text)
    if start is None:
        said = " / ".join(line.strip() for line in text.strip().splitlines()[-3:])
        raise ParseError(f"fio wrote no JSON document{f', only: {said[:400]}' if said else ' and nothing else either'}")
    try:
        document, _ = json.JSONDecoder().raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        rest = text[error.pos :].strip()
        what = "is damaged" if len(rest) > 20 else "is truncated: it ends in the middle"
        raise ParseError(f"fio's JSON {what} (line {error.lineno}: {error.msg})") from error
    return document


def _number(values: Mapping[str, Any], key: str, where: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0:
        raise ParseError(f"{where}: {key} is {value!r} where fio writes a number")
    return value


def _part(values: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    part = values.get(key)
    if not isinstance(part, dict):
        raise ParseError(f"{where}: the part {key!r} is missing")
    return part


def _job(job: Any) -> FioJob:
    if not isinstance(job, dict) or not isinstance(job.get("jobname"), str):
        raise ParseError("a job in fio's output has no name")
    name = job["jobname"]
    where = f"fio job {name}"
    error = int(_number(job, "error", where))
    if error:
        raise ParseError(f"{where} ended in error {error}: {os.strerror(error)}")
    if "mixed" in job:
        raise ParseError(f"{where}: unified_rw_reporting hides which operation is meant; run it without")
    directions = {}
    for op in ("read", "write", "trim"):
        values = job.get(op)
        if isinstance(values, dict) and (values.get("total_ios") or values.get("io_bytes")):
            directions[op] = _direction(values, f"{where}, {op}")
    return FioJob(
        name=name,
        group=int(job.get("groupid", 0)),
        directions=directions,
        sync=_sync(job.get("sync"), f"{where}, sync"),
        cpu_user=_number(job, "usr_cpu", where) / 100,
        cpu_system=_number(job, "sys_cpu", where) / 100,
        io_errors=int(job.get("total_err", 0)),
    )


def _direction(values: Mapping[str, Any], where: str) -> Direction:
    runtime = _number(values, "runtime", where) / 1000
    if not runtime:
        raise ParseError(f"{where}: I/O was done in a run time of 0 ms: too short for fio's clock")
    # `io_kbytes` came in the same change that turned `io_bytes` from KiB into bytes.
    total = _number(values, "io_bytes", where) * (1 if "io_kbytes" in values else 1024)
    kib_per_s = _number(values, "bw", where)
    if abs(total / runtime / 1024 - kib_per_s) > 2 + 0.01 * kib_per_s:
        raise ParseError(
            f"{where}: inconsistent: {total:.0f} B in {runtime:g} s is not the bandwidth given, {kib_per_s:g} KiB/s"
        )
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
    """None when fio did not measure it: it then writes zeros, which must not become latencies of zero.

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
    return Latency(
        count=ios if count is None else count,
        min=_number(values, "min", where) / per_second,
        max=highest / per_second,
        mean=_number(values, "mean", where) / per_second,
        stddev=_number(values, "stddev", where) / per_second,
        percentiles=_percentiles(values.get("percentile"), per_second),
        bins=_bins(values.get("bins"), per_second, where),
    )


def _percentiles(values: Any, per_second: float) -> dict[float, float]:
    """Keys come as "99.900000"; "0.00" fills the unused places of fio 2.x."""
    if not isinstance(values, dict):
        return {}
    return {float(key): value / per_second for key, value in values.items() if key != "0.00"}


def _bins(values: Any, per_second: float, where: str) -> list[Bin]:
    if not isinstance(values, dict):
        return []
    by_number = "FIO_IO_U_PLAT_BITS" in values
    if by_number and values["FIO_IO_U_PLAT_BITS"] != _BIN_BITS:
        raise ParseError(f"{where}: a histogram with {values['FIO_IO_U_PLAT_BITS']} bits a bin is not known")
    bins = []
    for key, count in values.items():
        if key.isdecimal() and count:
            lower, width = _edges_of_number(int(key)) if by_number else _edges_of_value(int(key))
            bins.append(Bin(lower / per_second, (lower + width) / per_second, int(count)))
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
