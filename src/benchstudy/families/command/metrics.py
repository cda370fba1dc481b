"""The metrics of every command: its duration and resource usage. A study declares further metrics."""

from benchstudy.model.metrics import Metric, declare

_OF_RUNS = "of the process and the children that it waited for; with `repeat`, the median of the trial's runs"
_BYTES = "bytes read and written by system calls, including pipes and the page cache (`/proc/PID/io`)"
_STORAGE = "of these bytes, those fetched from storage, and those sent to it"

METRICS = declare(
    Metric(
        "wall_time",
        "s",
        "Wall time",
        "lower",
        "time from before the process is spawned to its end; with `repeat`, the median of the trial's runs",
        primary=True,
        tells="timed",
    ),
    Metric("user_time", "s", "User time", "lower", f"CPU time in user mode, {_OF_RUNS}"),
    Metric("system_time", "s", "System time", "lower", f"CPU time in the kernel, {_OF_RUNS}"),
    Metric(
        "peak_memory",
        "B",
        "Peak memory",
        "lower",
        "peak resident memory of its largest process (`ru_maxrss`); absent if it does not exceed the memory of the "
        "process that spawns it, which Linux includes",
    ),
    Metric("minor_faults", "1", "Minor page faults", "lower", f"page faults served from memory, {_OF_RUNS}"),
    Metric("major_faults", "1", "Major page faults", "lower", f"page faults that waited for storage, {_OF_RUNS}"),
    Metric(
        "voluntary_switches",
        "1",
        "Voluntary context switches",
        "lower",
        f"context switches in order to wait, {_OF_RUNS}",
    ),
    Metric("involuntary_switches", "1", "Involuntary context switches", "lower", f"preemptions, {_OF_RUNS}"),
    Metric("bytes_read", "B", "Bytes read", None, _BYTES),
    Metric("bytes_written", "B", "Bytes written", None, _BYTES),
    Metric("storage_read", "B", "Read from storage", None, _STORAGE),
    Metric("storage_written", "B", "Written to storage", None, _STORAGE),
    Metric(
        "start_up",
        "s",
        "Start-up cost",
        None,
        "wall time of a program that does nothing, spawned in the same way just before (`true`; with a shell, only the "
        "shell), as the median of ten runs. It is not subtracted from other times",
        tells="floor",
    ),
    Metric("first_run", "s", "First run", None, "wall time of the first of several runs in the trial", tells="timed"),
    Metric("runs", "1", "Runs", None, "number of runs of the command in the trial, without warm-up"),
)
