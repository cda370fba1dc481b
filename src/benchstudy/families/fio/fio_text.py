"""Parses fio's plain-text output ("normal"), versions 2.x and 3.x.

Its figures are rounded for people, so they are recomputed from exact totals if it prints those: operations per second
are `issued` / run time. In 2.x "KB" is 1024 bytes (fio's kb_base), which 3.x spells KiB.
Figures that it prints twice must agree within their digits.
"""

import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import pairwise

from benchstudy.families.fio.fio_printed import GOES_ON_AFTER, INTERRUPTED, same
from benchstudy.families.fio.fio_result import Direction, FioJob, FioRun, Latency
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

# Leading blanks must not match line breaks, or the time for a file of empty lines grows with the square of its size.
_VERSION = re.compile(r"^[^\S\n]*(fio-\d+\.\S+)[^\S\n]*$", re.MULTILINE)
# Before the version a transcript may have the command, and fio prints the jobs as it understood them.
_COMMAND = re.compile(r"^[ \t\r`$#>]*((?:\S*/)?fio\s+-[^\n`]*)`?[^\S\n]*$", re.MULTILINE)
_HEADER = re.compile(
    r"^[^\S\n]*(?P<name>\S.*): \(g=\d+\): rw=(?P<rw>[^,]+), bs=(?P<bs>.+?), ioengine=(?P<engine>[^,]+), "
    r"iodepth=(?P<depth>\d+)[^\S\n]*$",
    re.MULTILINE,
)
_BLOCKS = re.compile(r"(?:\([RWT]\) )?(?P<least>[\d.]{1,20}\w{0,5})-(?P<most>[\d.]{1,20}\w{0,5})")
_JOB = re.compile(
    r"^(?P<name>.+): \(groupid=(?P<group>\d+), jobs=(?P<jobs>\d+)\): "
    r"err=\s*(?P<error>\d+)(?:\s*\((?P<detail>.*)\))?: pid=(?P<pid>\d+)(?:: (?P<when>.+))?"
)
_RATES_2 = re.compile(
    r"^(?P<op>\w+)\s*: io=\s*(?P<io>[^,]+), bw=\s*(?P<bw>[^,]+)/s, "
    r"iops=\s*(?P<iops>[^,]+), runt=\s*(?P<ms>\d+)msec"
)
_RATES_3 = re.compile(
    r"^(?P<op>\w+): IOPS=(?P<iops>[^,]+), BW=(?P<bw>\S+)/s \((?P<bw10>[^)]*)/s\)\((?P<io>[^/]+)/(?P<ms>\d+)msec\)"
)
_GROUP = re.compile(r"^Run status group (\d+)")
_GROUP_TOTAL = re.compile(r"^(?P<op>READ|WRITE|TRIM): (?:.*, )?io=(?P<io>[^,\s]+).*?(?:run=\d+-|maxt=)(?P<ms>\d+)msec")
_DISK = re.compile(r"^[^\S\n]*(\S+): ios=\d+/\d+", re.MULTILINE)
_ERRORS = re.compile(r"^errors\s*: total=(\d+), first_error=(\d+)")
_LATENCY = re.compile(
    r"^(?P<kind>slat|clat|lat|sync) \((?P<unit>[num]sec)\)\s*: min=\s*(?P<min>[^\s,]+)\s*, "
    r"max=\s*(?P<max>[^\s,]+)\s*, avg=\s*(?P<avg>[^\s,]+)\s*, stdev=\s*(?P<stdev>\S+)"
)
_PERCENTILES = re.compile(r"^(?P<kind>slat|clat|lat|sync) percentiles \((?P<unit>[num]sec)\):")
_PERCENTILE = re.compile(r"(\d+\.\d+)th=\[\s*(\d+)\]")
_CPU = re.compile(r"^cpu\s*: usr=([\d.]+)%, sys=([\d.]+)%")
_ISSUED = re.compile(r"^issued\b.*?total=(?P<total>\S+?),? short=(?P<short>\S+?),? drop(?:ped)?=(?P<dropped>\S+)")
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kKMGTP]?)(?P<binary>i?)(?P<unit>B|bit)?")
_PER_SECOND = {"nsec": 1e9, "usec": 1e6, "msec": 1e3}
_POWER = {prefix: power for power, prefix in enumerate(["", "K", "M", "G", "T", "P"])}
_OPS = ("read", "write", "trim")
_ALIASES = {"readwrite": "rw", "blocksize": "bs"}


@dataclass(frozen=True)
class _Figure:
    """A printed number, and the step of its last digit in the same unit."""

    value: float
    step: float


@dataclass
class _Pending:
    """A job whose lines are not all read yet."""

    name: str
    group: int
    pid: int
    processes: int
    when: str | None
    error: tuple[int, str]
    rates: dict[str, tuple[_Figure, _Figure, _Figure, float]] = field(default_factory=dict)  # iops, B/s, B, s
    # by direction (or "sync") and kind: s
    latencies: dict[tuple[str, str], Latency] = field(default_factory=dict)  # without percentiles
    percentiles: dict[tuple[str, str], dict[float, float]] = field(default_factory=dict)
    cpu: tuple[float, float] | None = None
    issued: dict[str, dict[str, int]] = field(default_factory=dict)
    errors: tuple[int, int] = (0, 0)  # their number, and the first one's code
    op: str = ""


@dataclass
class _Report:
    """fio's output for all jobs. With `--status-interval` fio repeats it, each time for the run so far."""

    jobs: list[_Pending] = field(default_factory=list)
    totals: dict[tuple[int, str], tuple[_Figure, float]] = field(default_factory=dict)  # by group and op: B, s
    groups: list[int] = field(default_factory=list)


@damaged("fio's text output is damaged")
def parse_fio_text(text: str) -> FioRun:
    """Parse the run in a plain-text output.

    Raises ParseError if it is truncated, inconsistent, not fio's, or has several runs.
    """
    versions = _VERSION.findall(text)
    if not versions:
        raise ParseError("this text is not an output of fio: no line such as fio-3.33")
    if len(versions) > 1:
        raise ParseError(f"{len(versions)} runs of fio are in one text: give each a file of its own")
    pow2 = versions[0].startswith("fio-2")
    reports = _reports(text, pow2=pow2)
    last = reports[-1]
    if not last.jobs and not last.groups:
        raise ParseError("fio's text output is truncated: its summary (Run status group …) is missing")
    if not last.jobs:
        raise ParseError("fio's text output holds no job")
    if set(last.groups) != {job.group for job in last.jobs} or any(not job.issued for job in last.jobs):
        raise ParseError("fio's text output is truncated: its summary (Run status group …) is missing")
    if any([job.pid for job in report.jobs] != [job.pid for job in last.jobs] for report in reports):
        raise ParseError("reports of several runs of fio are in one text: give each a file of its own")
    found = _COMMAND.search(text)
    command = found[1].strip() if found else None
    of_command = _options_of(command) if command and len({job.name for job in last.jobs}) == 1 else None
    jobs = [_finished(job, of_command or _options(text, job.name)) for job in last.jobs]
    _check_totals(last)
    stopped = INTERRUPTED.search(text)
    return FioRun(
        versions[0],
        jobs,
        all_options=of_command is not None,
        devices=list(dict.fromkeys(_DISK.findall(text))),
        ended_as_printed=last.jobs[-1].when,
        command=command,
        interrupted=stopped[0].strip() if stopped else None,
    )


def split_fio_text(text: str) -> list[str]:
    """Split the text into runs without leaving anything out, each with what fio prints before its version."""
    begins = [0]
    ended = 0
    for version in _VERSION.finditer(text):
        if ended:
            first = min(
                (m.start() for p in (_COMMAND, _HEADER) if (m := p.search(text, ended, version.end()))), default=0
            )
            begins.append(first or version.start())
        ended = version.end()
    return [text[start:end] for start, end in pairwise([*begins, len(text)])]


def _reports(text: str, *, pow2: bool) -> list[_Report]:
    reports = [_Report()]
    reading: tuple[str, str, float] | None = None  # what percentiles on this line belong to
    for raw in text.splitlines():
        line = raw.strip()
        report = reports[-1]
        if line.startswith("|") and reading and report.jobs:
            found = report.jobs[-1].percentiles.setdefault(reading[:2], {})
            found.update({float(p): float(v) / reading[2] for p, v in _PERCENTILE.findall(line)})
            continue
        reading = None
        if match := _JOB.match(line):
            if report.groups:
                reports.append(report := _Report())
            error = int(match["error"]), match["detail"] or line
            processes = int(match["jobs"])
            report.jobs.append(
                _Pending(match["name"], int(match["group"]), int(match["pid"]), processes, match["when"], error)
            )
        elif match := _GROUP.match(line):
            report.groups.append(int(match[1]))
        elif report.groups and (match := _GROUP_TOTAL.match(line)):
            total = _bytes(match["io"], pow2), int(match["ms"]) / 1000
            report.totals[report.groups[-1], match["op"].lower()] = total
        elif report.jobs and not report.groups:
            reading = _read(line, report.jobs[-1], pow2=pow2)
    return reports


def _options(text: str, name: str) -> dict[str, str]:
    """The options of a job as fio prints them before it. Block sizes are of reads, writes and trims."""
    for match in _HEADER.finditer(text):
        if match["name"].strip() == name:
            sizes = {size for m in _BLOCKS.finditer(match["bs"]) for size in (m["least"], m["most"])}
            bs = f"{_bytes(min(sizes), pow2=True).value:.0f}" if len(sizes) == 1 else match["bs"]
            return {"rw": match["rw"], "bs": bs, "ioengine": match["engine"], "iodepth": match["depth"]}
    return {}


def _options_of(command: str) -> dict[str, str] | None:
    """The options of a command line; None if it has a job file, which is not available."""
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        return None
    found = {}
    while words:
        name, equals, value = words.pop(0).removeprefix("--").partition("=")
        if not re.fullmatch(r"[a-z_0-9-]+", name):
            return None
        if not equals and words and not words[0].startswith("-"):
            value, equals = words.pop(0), "="
        found[_ALIASES.get(name, name)] = value if equals else "1"
    return found


def _check_totals(report: _Report) -> None:
    """Raise ParseError if a group's totals do not match those of its jobs."""
    for (group, op), (total, runtime) in report.totals.items():
        parts = [job.rates[op] for job in report.jobs if job.group == group and op in job.rates]
        where = f"fio's group {group}, {op}"
        if not parts:
            raise ParseError(f"{where}: the group has a total and no job of it has its line {op!r}: lines are missing")
        blur = sum(part[2].step for part in parts)
        same(f"{where}: io", total.value, total.step, sum(part[2].value for part in parts), blur, "B")
        same(f"{where}: run time", runtime, 0.001, max(part[3] for part in parts), 0, "s")


def _read(line: str, job: _Pending, *, pow2: bool) -> tuple[str, str, float] | None:
    """Take in one line of a job; return what the percentiles on the next lines belong to."""
    if match := _RATES_2.match(line) or _RATES_3.match(line):
        if match["op"] not in _OPS:
            raise ParseError(f"fio job {job.name}: {match['op']!r} hides which operation is meant")
        job.op = match["op"]
        if job.op in job.rates:
            raise ParseError(f"fio job {job.name}: it has two lines {job.op!r}")
        bandwidth, total = _bytes(match["bw"], pow2), _bytes(match["io"], pow2)
        if match.groupdict().get("bw10"):
            again = _bytes(match["bw10"], pow2)
            where = f"fio job {job.name}, {job.op}: bandwidth"
            same(where, bandwidth.value, bandwidth.step, again.value, again.step, "B/s")
        job.rates[job.op] = (_plain(match["iops"]), bandwidth, total, int(match["ms"]) / 1000)
    elif line.startswith("fsync/"):
        job.op = "sync"
    elif match := _LATENCY.match(line):
        per_second = _PER_SECOND[match["unit"]]
        least, most, mean, stddev = (_plain(match[name]).value / per_second for name in ("min", "max", "avg", "stdev"))
        if (job.op, match["kind"]) in job.latencies:
            raise ParseError(
                f"fio job {job.name}: two lines {match['kind']!r} follow its line {job.op!r}: that of another "
                "operation is missing before the second"
            )
        job.latencies[job.op, match["kind"]] = Latency(None, least, most, mean, stddev)
    elif match := _PERCENTILES.match(line):
        return job.op, match["kind"], _PER_SECOND[match["unit"]]
    elif match := _CPU.match(line):
        job.cpu = float(match[1]) / 100, float(match[2]) / 100
    elif match := _ERRORS.match(line):
        job.errors = int(match[1]), int(match[2])
    elif match := _ISSUED.match(line):
        for name in ("total", "short", "dropped"):
            # "r=196249/w=65895/d=0" in 2.x, "196249,65895,0,0" in 3.x
            numbers = [int(n) for n in re.findall(r"\d+", match[name])]
            job.issued[name] = dict(zip(_OPS, numbers, strict=False))
    return None


def _finished(job: _Pending, options: dict[str, str]) -> FioJob:
    where = f"fio job {job.name}"
    for op, issued in job.issued["total"].items():
        if issued and op not in job.rates:
            raise ParseError(f"{where}: {issued} operations of {op!r} were issued, and its line {op!r} is missing")
    directions = {}
    for op, (iops, bandwidth, total, runtime) in job.rates.items():
        ios = job.issued["total"].get(op)
        if not runtime:
            raise ParseError(f"{where}, {op}: I/O was done in a run time of 0 ms: too short for fio's clock")
        derived = total.value / runtime
        same(f"{where}, {op}: bandwidth", bandwidth.value, bandwidth.step, derived, total.step / runtime, "B/s")
        if ios:
            same(f"{where}, {op}: iops", iops.value, iops.step, ios / runtime, 0, "1/s")
        directions[op] = Direction(
            iops=ios / runtime if ios else iops.value,
            bandwidth=bandwidth.value,
            bytes=total.value,
            runtime=runtime,
            ios=ios,
            short_ios=job.issued["short"].get(op),
            dropped_ios=job.issued["dropped"].get(op),
            latencies={
                kind: _latency(job, op, kind, ios) for kind in ("slat", "clat", "lat") if (op, kind) in job.latencies
            },
        )
    number, detail = job.error
    went_on = job.errors[0] > 0 and job.errors[1] == number and number in GOES_ON_AFTER
    return FioJob(
        name=job.name,
        group=job.group,
        directions=directions,
        sync=_latency(job, "sync", "sync", None) if ("sync", "sync") in job.latencies else None,
        cpu_user=job.cpu[0] if job.cpu else None,
        cpu_system=job.cpu[1] if job.cpu else None,
        io_errors=job.errors[0],
        processes=job.processes,
        options=options,
        failed=f"ended in error {number}: {detail}" if number and not went_on else None,
    )


def _latency(job: _Pending, op: str, kind: str, ios: int | None) -> Latency:
    return replace(job.latencies[op, kind], count=ios, percentiles=job.percentiles.get((op, kind), {}))


def _plain(text: str) -> _Figure:
    """Parse a number with fio's decimal prefix: "66.2k", "2765.9k"."""
    return _figure(text, "a number", pow2=False)


def _bytes(text: str, pow2: bool) -> _Figure:
    """Parse bytes of "784996KB" (2.x: binary) or "11.9MiB", "95.4Mibit" (3.x)."""
    return _figure(text, "an amount of data", pow2=pow2)


def _figure(text: str, what: str, *, pow2: bool) -> _Figure:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ParseError(f"{text!r} is not {what} as fio writes it")
    scale = (1024 if pow2 or match["binary"] else 1000) ** _POWER[match["prefix"].upper()]
    scale /= 8 if match["unit"] == "bit" else 1
    return _Figure(float(match["number"]) * scale, 10.0 ** -len(match["number"].partition(".")[2]) * scale)
