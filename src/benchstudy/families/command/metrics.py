"""What every command gives, whatever it prints: how long it took and what it used. A study declares the rest."""

from benchstudy.model.metrics import Metric, declare

_OF_RUNS = "of the process and of those children that it waited for; with `repeat` the median of the trial's runs"
_BYTES = "what it read and wrote by calls of the system, pipes and the page cache included (`/proc/PID/io`)"
_STORAGE = "of these, what was fetched from storage, and what was given to it to be written"

METRICS = declare(
    Metric(
        "wall_time",
        "s",
        "Wall time",
        "lower",
        "from before the process is spawned to its end; with `repeat` the median of the trial's runs",
        primary=True,
    ),
    Metric("user_time", "s", "User time", "lower", f"processor time in the program, {_OF_RUNS}"),
    Metric("system_time", "s", "System time", "lower", f"processor time in the kernel, {_OF_RUNS}"),
    Metric(
        "peak_memory",
        "B",
        "Peak memory",
        "lower",
        "resident, of the largest of its processes (`ru_maxrss`); absent where it is no more than what the process "
        "that spawns it has, which Linux counts in",
    ),
    Metric("minor_faults", "1", "Minor page faults", "lower", f"served from memory, {_OF_RUNS}"),
    Metric("major_faults", "1", "Major page faults", "lower", f"that waited for storage, {_OF_RUNS}"),
    Metric("voluntary_switches", "1", "Voluntary context switches", "lower", f"it waited for something, {_OF_RUNS}"),
    Metric("involuntary_switches", "1", "Involuntary context switches", "lower", f"others had their turn, {_OF_RUNS}"),
    Metric("bytes_read", "B", "Bytes read", None, _BYTES),
    Metric("bytes_written", "B", "Bytes written", None, _BYTES),
    Metric("storage_read", "B", "Read from storage", None, _STORAGE),
    Metric("storage_written", "B", "Written to storage", None, _STORAGE),
    Metric(
        "start_up",
        "s",
        "Start-up cost",
        None,
        "wall time of a program that does nothing, spawned in the same way just before (`true`; with a shell the shell "
        "alone), the median of ten. Nothing is subtracted",
    ),
    Metric("first_run", "s", "First run", None, "wall time of the first of several runs in the trial"),
    Metric("runs", "1", "Runs", None, "of the command in the trial, without warm-up"),
)
