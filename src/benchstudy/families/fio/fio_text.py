"""fio's plain-text output ("normal"), versions 2.x and 3.x.

It is rounded for people, so what can be is recomputed from the exact totals it also prints: operations a
second are `issued` / run time. In 2.x "KB" is 1024 bytes (fio's kb_base), in 3.x it is spelt KiB.
"""

import re
from dataclasses import dataclass, field

from benchstudy.families.fio.fio_result import Direction, FioJob, FioRun, Latency
from benchstudy.model.family import ParseError

_VERSION = re.compile(r"^\s*(fio-\d+\.\S+)\s*$", re.MULTILINE)
_JOB = re.compile(
    r"^(?P<name>.+): \(groupid=(?P<group>\d+), jobs=\d+\): "
    r"err=\s*(?P<error>\d+)(?:\s*\((?P<detail>.*)\))?: pid="
)
_RATES_2 = re.compile(
    r"^(?P<op>\w+)\s*: io=\s*(?P<io>[^,]+), bw=\s*(?P<bw>[^,]+)/s, "
    r"iops=\s*(?P<iops>[^,]+), runt=\s*(?P<ms>\d+)msec"
)
_RATES_3 = re.compile(
    r"^(?P<op>\w+): IOPS=(?P<iops>[^,]+), BW=(?P<bw>\S+)/s \([^)]*\)\((?P<io>[^/]+)/(?P<ms>\d+)msec\)"
)
_LATENCY = re.compile(
    r"^(?P<kind>slat|clat|lat|sync) \((?P<unit>[num]sec)\)\s*: min=\s*(?P<min>[^\s,]+)\s*, "
    r"max=\s*(?P<max>[^\s,]+)\s*, avg=\s*(?P<avg>[^\s,]+)\s*, stdev=\s*(?P<stdev>\S+)"
)
_PERCENTILES = re.compile(r"^(?P<kind>slat|clat|lat|sync) percentiles \((?P<unit>[num]sec)\):")
_PERCENTILE = re.compile(r"(\d+\.\d+)th=\[\s*(\d+)\]")
_CPU = re.compile(r"^cpu\s*: usr=([\d.]+)%, sys=([\d.]+)%")
_ISSUED = re.compile(
    r"^issued\b.*?total=(?P<total>[^ ]+), short=(?P<short>[^ ]+), drop(?:ped)?=(?P<dropped>[^ ]+)"
    r"|^issued\b.*?total=(?P<total3>\S+) short=(?P<short3>\S+) dropped=(?P<dropped3>\S+)"
)
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kKMGTP]?)(?P<binary>i?)(?P<unit>B|bit)?")
_PER_SECOND = {"nsec": 1e9, "usec": 1e6, "msec": 1e3}
_POWER = {prefix: power for power, prefix in enumerate(["", "K", "M", "G", "T", "P"])}
_OPS = ("read", "write", "trim")


@dataclass
class _Pending:
    """A job of which not every line was seen yet."""

    name: str
    group: int
    rates: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)  # iops, B/s, B, s
    # By direction, or "sync", and kind: seconds.
    moments: dict[tuple[str, str], tuple[float, float, float, float]] = field(default_factory=dict)
    percentiles: dict[tuple[str, str], dict[float, float]] = field(default_factory=dict)
    cpu: tuple[float, float] | None = None
    issued: dict[str, dict[str, int]] = field(default_factory=dict)
    op: str = ""


def parse_fio_text(text: str) -> FioRun:
    """The run in a plain-text output. Raises ParseError when it is cut off, not fio's, or a job failed."""
    version = _VERSION.search(text)
    if version is None:
        raise ParseError("this text is not an output of fio: no line such as fio-3.33")
    jobs: list[_Pending] = []
    complete = False
    reading: tuple[str, str, float] | None = None  # the percentiles that continue on this line
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("|") and reading and jobs:
            found = jobs[-1].percentiles.setdefault(reading[:2], {})
            found.update({float(p): float(v) / reading[2] for p, v in _PERCENTILE.findall(line)})
            continue
        reading = None
        if match := _JOB.match(line):
            if int(match["error"]):
                raise ParseError(f"fio job {match['name']} ended in error {match['error']}: {match['detail'] or line}")
            jobs.append(_Pending(match["name"], int(match["group"])))
        elif line.startswith("Run status group"):
            complete = True
        elif jobs and not complete:
            reading = _read(line, jobs[-1], pow2=version[1].startswith("fio-2"))
    if not complete or any(not job.issued for job in jobs):
        raise ParseError("fio's text output is truncated: its summary (Run status group …) is missing")
    if not jobs:
        raise ParseError("fio's text output holds no job")
    return FioRun(version[1], [_finished(job) for job in jobs])


def _read(line: str, job: _Pending, *, pow2: bool) -> tuple[str, str, float] | None:
    """Take in one line of a job; returns what the percentiles on the lines after it belong to."""
    if match := _RATES_2.match(line) or _RATES_3.match(line):
        if match["op"] not in _OPS:
            raise ParseError(f"fio job {job.name}: {match['op']!r} hides which operation is meant")
        job.op = match["op"]
        bandwidth, total = _bytes(match["bw"], pow2), _bytes(match["io"], pow2)
        job.rates[job.op] = (_plain(match["iops"]), bandwidth, total, int(match["ms"]) / 1000)
    elif line.startswith("fsync/"):
        job.op = "sync"
    elif match := _LATENCY.match(line):
        per_second = _PER_SECOND[match["unit"]]
        values = [_plain(match[name]) / per_second for name in ("min", "max", "avg", "stdev")]
        job.moments[job.op, match["kind"]] = (values[0], values[1], values[2], values[3])
    elif match := _PERCENTILES.match(line):
        return job.op, match["kind"], _PER_SECOND[match["unit"]]
    elif match := _CPU.match(line):
        job.cpu = float(match[1]) / 100, float(match[2]) / 100
    elif match := _ISSUED.match(line):
        for name in ("total", "short", "dropped"):
            # "r=196249/w=65895/d=0" in 2.x, "196249,65895,0,0" in 3.x
            numbers = [int(n) for n in re.findall(r"\d+", match[name] or match[f"{name}3"])]
            job.issued[name] = dict(zip(_OPS, numbers, strict=False))
    return None


def _finished(job: _Pending) -> FioJob:
    directions = {}
    for op, (iops, bandwidth, total, runtime) in job.rates.items():
        ios = job.issued["total"].get(op)
        directions[op] = Direction(
            iops=ios / runtime if ios and runtime else iops,
            bandwidth=bandwidth,
            bytes=total,
            runtime=runtime,
            ios=ios,
            short_ios=job.issued["short"].get(op),
            dropped_ios=job.issued["dropped"].get(op),
            latencies={
                kind: _latency(job, op, kind, ios) for kind in ("slat", "clat", "lat") if (op, kind) in job.moments
            },
        )
    return FioJob(
        name=job.name,
        group=job.group,
        directions=directions,
        sync=_latency(job, "sync", "sync", None) if ("sync", "sync") in job.moments else None,
        cpu_user=job.cpu[0] if job.cpu else None,
        cpu_system=job.cpu[1] if job.cpu else None,
        io_errors=0,
    )


def _latency(job: _Pending, op: str, kind: str, ios: int | None) -> Latency:
    lowest, highest, mean, stddev = job.moments[op, kind]
    return Latency(ios, lowest, highest, mean, stddev, job.percentiles.get((op, kind), {}))


def _plain(text: str) -> float:
    """A number with fio's decimal prefix: "66.2k", "2765.9k"."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ParseError(f"{text!r} is not a number as fio writes it")
    return float(match["number"]) * 1000 ** _POWER[match["prefix"].upper()]


def _bytes(text: str, pow2: bool) -> float:
    """Bytes of "784996KB" (2.x: binary) or "11.9MiB", "95.4Mibit" (3.x)."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ParseError(f"{text!r} is not an amount of data as fio writes it")
    base = 1024 if pow2 or match["binary"] else 1000
    return float(match["number"]) * base ** _POWER[match["prefix"].upper()] / (8 if match["unit"] == "bit" else 1)
