"""The metrics of the family log_write."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_INTERVAL = (
    "95 % interval of a stationary block bootstrap over the window's publish steps, if there are at least ten; within "
    "the trial only"
)
_LEAVES = (
    'number of leaves due in the window. Pushback (500 "antispam pushback", 503) is not an error. `dropped`: not sent, '
    "because the limit of leaves in flight was reached"
)
_TIMES = {
    "queue": (
        "Time in queue",
        "time from when the leaf was due until POST was answered; leaves that timed out count as slower than all "
        "others",
    ),
    "integrate": (
        "Time to integrate",
        "time from when the leaf was due until a verified checkpoint that covers it was seen (polled every 20 ms); "
        "accepted leaves that no checkpoint covered count as slower than all others",
    ),
}
_CPU = "CPU used in the window, as a share of what each process may use"
_PASS = (
    "of a capacity search: the highest rate that met the objective. The other metrics of such a trial are measured at "
    "this rate"
)
_FAIL = "of a capacity search: the lowest rate that did not meet the objective"
_BOTH = "mean over all screens with a full window, and the same figure from our checkpoints: the two must agree"
_SCREEN = "another figure of the last screen"

METRICS = declare(
    Metric(
        "qps",
        "1/s",
        "QPS",
        "higher",
        "growth rate of the tree between the first and the last checkpoint inside the window: over whole publish "
        "steps, and over the time at either edge of the window if the log published nothing there for several steps",
        primary=True,
    ),
    Metric(
        "publish_steps", "1", "Publish steps", None, "steps that `qps` covers; 0 without two checkpoints in the window"
    ),
    Metric("integrate_p50", "s", "Time to integrate, p50", "lower", _TIMES["integrate"][1], primary=True),
    *(
        Metric(f"{which}_{name}", "s", f"{title}, {name}", "lower", meaning)
        for which, (title, meaning) in reversed(_TIMES.items())
        for name in ("p50", "p90", "p99", "mean", "max")
        if (which, name) != ("integrate", "p50")
    ),
    Metric("capacity_pass", "1/s", "Capacity", "higher", _PASS, primary=True, tells="capacity"),
    Metric("capacity_fail", "1/s", "Lowest rate that failed", "higher", _FAIL, tells="bracket"),
    Metric("qps_low", "1/s", "QPS, lower bound", None, _INTERVAL),
    Metric("qps_high", "1/s", "QPS, upper bound", None, _INTERVAL),
    Metric(
        "offered",
        "1/s",
        "Offered rate",
        None,
        "rate of leaves that were sent; for the hammer, the rate that was requested",
        tells="offered",
    ),
    Metric(
        "achieved_share",
        "1",
        "Achieved",
        "higher",
        "`qps` divided by the offered rate of new leaves. Duplicates that the log recognised are not new. "
        "The conformance servers remember the latest leaves even without antispam. The hammer has this share only if "
        "there are no duplicates",
    ),
    Metric("accepted", "1", "Accepted", None, _LEAVES),
    Metric("duplicates", "1", "Duplicates", None, _LEAVES),
    Metric("pushback", "1", "Pushback", None, _LEAVES),
    Metric("errors", "1", "Errors", None, _LEAVES),
    Metric("dropped", "1", "Not sent", None, _LEAVES),
    Metric("tree_size", "1", "Tree size", None, "size of the tree in the last verified checkpoint"),
    Metric("server_cpu", "1", "Server CPU", None, _CPU),
    Metric("generator_cpu", "1", "Generator CPU", None, _CPU, tells="generator"),
    Metric("database_cpu", "1", "Database CPU", None, _CPU),
    Metric(
        "server_peak_memory",
        "B",
        "Peak server memory",
        "lower",
        "peak memory of all servers' control groups, including page cache. It is the resident memory in the window if "
        "there are no control groups, or if servers were killed later in a search, at another rate",
    ),
    Metric(
        "disk_write", "B/s", "Disk writes", None, "rate of bytes that all processes write to the disk of `directory`"
    ),
    Metric("disk_busy", "1", "Disk busy", None, "share of the time in which the disk of `directory` was busy"),
    Metric("proofs_asked", "1", "Proofs requested", None, "inclusion proofs of accepted leaves, requested or verified"),
    Metric("proofs_proved", "1", "Proofs verified", None, "inclusion proofs of accepted leaves, requested or verified"),
    Metric("hammer_qps", "1/s", "QPS on the hammer's screen", "higher", '"Δ qps over 30s" of the last screen'),
    Metric("hammer_qps_mean", "1/s", "QPS, mean of the hammer's screens", "higher", _BOTH),
    Metric("qps_of_hammer_window", "1/s", "QPS, checkpoints over the same windows", "higher", _BOTH),
    Metric("hammer_write_max", "1/s", "Write rate offered by the hammer", None, _SCREEN),
    Metric("hammer_read_max", "1/s", "Read rate offered by the hammer", None, _SCREEN),
    Metric("hammer_oversupply", "1", "Write oversupply", None, _SCREEN),
    Metric("hammer_read_oversupply", "1", "Read oversupply", None, _SCREEN),
    Metric("hammer_writers", "1", "Writers", None, _SCREEN),
    Metric("hammer_read_workers", "1", "Readers", None, _SCREEN),
    Metric("hammer_tree_size", "1", "Tree size on the screen", None, _SCREEN),
    Metric("hammer_window", "s", "Window of the screen", None, _SCREEN),
    *(
        Metric(
            f"hammer_{which}_{name}",
            "s",
            f"{title} on the screen, {name}",
            None,
            "figure of the last screen, taken over **tick means**, not over single leaves",
        )
        for which, (title, _) in _TIMES.items()
        for name in ("min", "avg", "max")
    ),
    *clients.METRICS,
)
