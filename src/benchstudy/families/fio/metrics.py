"""The metrics of fio and of the small-files test."""

from collections.abc import Iterator

from benchstudy.families.fio.fio_result import MIN_OPERATIONS
from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_OPS = {"read": ("Reads", "Read"), "write": ("Writes", "Written"), "trim": ("Trims", "Trimmed")}
_KINDS = {"slat": "Submission latency", "clat": "Completion latency", "lat": "Latency"}
_MOMENTS = {"mean": "mean", "min": "minimum", "max": "maximum", "stddev": "standard deviation"}
_TIMES = "submission, completion and total latency; absent with `gtod_reduce`"
_PERCENTILES = (
    "as computed by fio: of `lat` if the job sets `lat_percentiles`, else of `clat`. A percentile is given only if the "
    "trial had enough operations for its two-sided 95 % interval: "
    + ", ".join(f"{needed} for p{percent:g}" for percent, needed in MIN_OPERATIONS.items())
)
_CPU = (
    "number of processors that all processes of fio kept busy, over the run time of the slowest one; with several "
    "clients, the highest"
)
_BUSY = (
    "share of a processor that each process of the busiest job used, or of the host's processors that all processes "
    "used, whichever is higher. With several clients, the share of the busiest job of all"
)
_SYNCS = (
    "fsync and fdatasync calls, if the job makes any. fio's plain text lacks their number, so it gives no `sync_ios` "
    "and no percentiles"
)
_TOTALS = {
    "ios": ("operations", "number of operations in the trial"),
    "short_ios": ("short operations", "number of operations that moved fewer bytes than requested"),
    "dropped_ios": ("dropped operations", "number of operations that fio dropped"),
}


def _latencies(prefix: str, title: str, moments: str, percentiles: str) -> Iterator[Metric]:
    for name, words in _MOMENTS.items():
        yield Metric(f"{prefix}_{name}", "s", f"{title}, {words}", "lower", moments)
    for percent in MIN_OPERATIONS:
        yield Metric(f"{prefix}_p{percent:g}", "s", f"{title}, p{percent:g}", "lower", percentiles)


METRICS = declare(
    *(
        Metric(
            f"{op}_iops",
            "1/s",
            f"{many} per second",
            "higher",
            "completed operations per second",
            primary=True,
            tells="storage",
        )
        for op, (many, _) in _OPS.items()
    ),
    *(
        Metric(
            f"{op}_bandwidth",
            "B/s",
            f"{op.capitalize()} bandwidth",
            "higher",
            "bytes per second",
            form_of=f"{op}_iops",
        )
        for op, (_, done) in _OPS.items()
    ),
    *(
        Metric(f"{op}_bytes", "B", f"Bytes {done.lower()}", None, "number of bytes in the trial")
        for op, (_, done) in _OPS.items()
    ),
    *(
        Metric(f"{op}_{name}", "1", f"{many}: {words}", None, meaning)
        for name, (words, meaning) in _TOTALS.items()
        for op, (many, _) in _OPS.items()
    ),
    *(
        Metric(f"{op}_runtime", "s", f"{many}: run time", None, "run time of the slowest process", tells="window")
        for op, (many, _) in _OPS.items()
    ),
    *sorted(
        (
            metric
            for op, (many, _) in _OPS.items()
            for kind, title in _KINDS.items()
            for metric in _latencies(f"{op}_{kind}", f"{title} of {many.lower()}", _TIMES, _PERCENTILES)
        ),
        key=lambda metric: metric.meaning == _PERCENTILES,
    ),
    Metric("sync_ios", "1", "Syncs", None, _SYNCS),
    *_latencies("sync_lat", "Latency of syncs", _SYNCS, _SYNCS),
    Metric("cpu_user", "1", "CPU, user", "lower", _CPU),
    Metric("cpu_system", "1", "CPU, system", "lower", _CPU),
    Metric("generator_cpu", "1", "CPU of the generator", None, _BUSY, tells="generator"),
    Metric(
        "io_errors",
        "1",
        "Errors",
        "lower",
        "errors after which fio continued (`continue_on_error`); any other error fails the trial",
    ),
    *(
        Metric(
            f"{op}_time",
            "s",
            f"1001 {op}s",
            "lower",
            "small files: time of the loop over 1001 files; bash prints it to the millisecond",
            primary=True,
        )
        for op in ("write", "read")
    ),
    *(
        Metric(f"{op}_{part}", "s", f"CPU, {part}, 1001 {op}s", "lower", "small files: CPU time, including children")
        for op in ("write", "read")
        for part in ("user", "system")
    ),
    *(
        Metric(
            f"{op}_time_per_file",
            "s",
            f"One {op}",
            "lower",
            "small files: `write_time`, `read_time` per file",
            form_of=f"{op}_time",
        )
        for op in ("write", "read")
    ),
    Metric("files", "1", "Files", None, "small files: number of files found afterwards; if not 1001, the trial fails"),
    *clients.METRICS,
)
