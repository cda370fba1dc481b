"""What a trial of fio or of the small-files test gives."""

from collections.abc import Iterator

from benchstudy.families.fio.fio_result import MIN_OPERATIONS
from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_OPS = {"read": ("Reads", "Read"), "write": ("Writes", "Written"), "trim": ("Trims", "Trimmed")}
_KINDS = {"slat": "Submission latency", "clat": "Completion latency", "lat": "Latency"}
_MOMENTS = {"mean": "mean", "min": "least", "max": "most", "stddev": "standard deviation"}
_TIMES = "submission, completion and total latency; absent under `gtod_reduce`"
_PERCENTILES = (
    "as fio computed them: of `lat` when the job says `lat_percentiles`, else of `clat`. A percentile is given only if "
    "the trial had enough operations for a two-sided 95 % interval of it: "
    + ", ".join(f"{needed} for p{percent:g}" for percent, needed in MIN_OPERATIONS.items())
)
_CPU = "share of one core that fio used; of several clients the highest"
_SYNCS = (
    "fsync and fdatasync calls, when the job makes any. Plain text does not tell their number, so it gives no "
    "`sync_ios` and no percentiles"
)
_TOTALS = {
    "ios": ("operations", "operations of the trial"),
    "short_ios": ("short operations", "of them, those that moved fewer bytes than asked"),
    "dropped_ios": ("dropped operations", "of them, those that fio dropped"),
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
            f"{many} a second",
            "higher",
            "completed operations per second",
            primary=True,
            tells="storage",
        )
        for op, (many, _) in _OPS.items()
    ),
    *(
        Metric(f"{op}_bandwidth", "B/s", f"{op.capitalize()} bandwidth", "higher", "bytes of them per second")
        for op, (_, done) in _OPS.items()
    ),
    *(
        Metric(f"{op}_bytes", "B", f"Bytes {done.lower()}", None, "total of the trial")
        for op, (_, done) in _OPS.items()
    ),
    *(
        Metric(f"{op}_{name}", "1", f"{many}: {words}", None, meaning)
        for name, (words, meaning) in _TOTALS.items()
        for op, (many, _) in _OPS.items()
    ),
    *(
        Metric(f"{op}_runtime", "s", f"{many}: run time", None, "of the slowest of its processes", tells="window")
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
    Metric("cpu_user", "1", "CPU, user", "lower", _CPU, tells="generator"),
    Metric("cpu_system", "1", "CPU, system", "lower", _CPU, tells="generator"),
    Metric(
        "io_errors",
        "1",
        "Errors",
        "lower",
        "errors fio went on after (`continue_on_error`); any other error fails the trial",
    ),
    *(
        Metric(
            f"{op}_time",
            "s",
            f"1001 {op}s",
            "lower",
            "small files: the whole loop over 1001 of them; bash prints it to the millisecond",
            primary=True,
        )
        for op in ("write", "read")
    ),
    *(
        Metric(f"{op}_{part}", "s", f"CPU, {part}, of 1001 {op}s", "lower", "small files: CPU time, children included")
        for op in ("write", "read")
        for part in ("user", "system")
    ),
    *(
        Metric(f"{op}_time_per_file", "s", f"One {op}", "lower", "small files: `write_time`, `read_time` over 1001")
        for op in ("write", "read")
    ),
    Metric("files", "1", "Files", None, "small files: found afterwards; always 1001, or the trial failed"),
    *clients.METRICS,
)
