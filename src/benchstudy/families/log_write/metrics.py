"""What a trial of log_write gives."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_INTERVAL = (
    "95 % of a stationary block bootstrap over the window's publish steps, from ten steps on; within the trial only"
)
_LEAVES = (
    'of leaves due in the window. Pushback (500 "antispam pushback", 503) is no error; `dropped` were never begun, '
    "since as many as allowed were under way"
)
_TIMES = {
    "queue": ("In queue", "until POST was answered, from when the leaf was due"),
    "integrate": (
        "To integrate",
        "until a verified checkpoint that covers it was seen (polled every 20 ms), from when it was due",
    ),
}
_CPU = "share of what each may use, in the window"
_CAPACITY = (
    "of a search: the highest rate that kept the objective, the lowest that did not. The other metrics of such a trial "
    "are those at the highest pass"
)
_BOTH = "mean of all screens with a whole window, and our checkpoints by the same rule: they must agree"
_SCREEN = "what else the last screen shows"

METRICS = declare(
    Metric(
        "qps",
        "1/s",
        "QPS",
        "higher",
        "growth of the tree between the first and the last checkpoint inside the window: whole publish steps",
        primary=True,
    ),
    Metric("publish_steps", "1", "Publish steps", None, "that `qps` is over; 0 where no two checkpoints lie inside"),
    Metric("integrate_p50", "s", "To integrate, p50", "lower", _TIMES["integrate"][1], primary=True),
    *(
        Metric(f"{which}_{name}", "s", f"{title}, {name}", "lower", meaning)
        for which, (title, meaning) in reversed(_TIMES.items())
        for name in ("p50", "p90", "p99", "mean", "max")
        if (which, name) != ("integrate", "p50")
    ),
    Metric("capacity_pass", "1/s", "Capacity", "higher", _CAPACITY, primary=True, tells="capacity"),
    Metric("capacity_fail", "1/s", "Lowest rate that failed", "higher", _CAPACITY, tells="bracket"),
    Metric("qps_low", "1/s", "QPS, low", None, _INTERVAL),
    Metric("qps_high", "1/s", "QPS, high", None, _INTERVAL),
    Metric(
        "offered",
        "1/s",
        "Offered a second",
        None,
        "leaves really begun; of the hammer: what it was asked for",
        tells="offered",
    ),
    Metric(
        "achieved_share",
        "1",
        "Achieved",
        "higher",
        "`qps` over the asked rate, of leaves that are new: duplicates that the log recognised are none. "
        "The conformance servers remember the latest leaves without antispam as well. Of the hammer without duplicates "
        "only",
    ),
    Metric("accepted", "1", "Accepted", None, _LEAVES),
    Metric("duplicates", "1", "Duplicates", None, _LEAVES),
    Metric("pushback", "1", "Pushback", None, _LEAVES),
    Metric("errors", "1", "Errors", None, _LEAVES),
    Metric("dropped", "1", "Not begun", None, _LEAVES),
    Metric("tree_size", "1", "Size of the tree", None, "of the last verified checkpoint"),
    Metric("server_cpu", "1", "CPU of the server", None, _CPU),
    Metric("generator_cpu", "1", "CPU of the generator", None, _CPU, tells="generator"),
    Metric("database_cpu", "1", "CPU of the database", None, _CPU),
    Metric(
        "server_peak_memory",
        "B",
        "Peak memory of the server",
        "lower",
        "of all servers' control groups, page cache included; resident memory in the window where there are none, and "
        "in a search where they were killed later, at another rate",
    ),
    Metric("disk_write", "B/s", "Written to the disk", None, "of the disk below `directory`, whoever wrote"),
    Metric("disk_busy", "1", "Disk busy", None, "of the disk below `directory`, whoever wrote"),
    Metric("proofs_asked", "1", "Proofs asked for", None, "inclusion proofs of accepted leaves"),
    Metric("proofs_proved", "1", "Proofs that hold", None, "inclusion proofs of accepted leaves"),
    Metric("hammer_qps", "1/s", "QPS on the hammer's screen", "higher", 'the last screen\'s "Δ qps over 30s"'),
    Metric("hammer_qps_mean", "1/s", "QPS of the hammer's screens", "higher", _BOTH),
    Metric("qps_of_hammer_window", "1/s", "QPS over the hammer's windows", "higher", _BOTH),
    Metric("hammer_write_max", "1/s", "Offered by the hammer", None, _SCREEN),
    Metric("hammer_read_max", "1/s", "Reads offered by the hammer", None, _SCREEN),
    Metric("hammer_oversupply", "1", "Oversupply of writes", None, _SCREEN),
    Metric("hammer_read_oversupply", "1", "Oversupply of reads", None, _SCREEN),
    Metric("hammer_writers", "1", "Writers", None, _SCREEN),
    Metric("hammer_read_workers", "1", "Readers", None, _SCREEN),
    Metric("hammer_tree_size", "1", "Size of the tree on the screen", None, _SCREEN),
    Metric("hammer_window", "s", "Window of the screen", None, _SCREEN),
    *(
        Metric(
            f"hammer_{which}_{name}",
            "s",
            f"{title} on the screen, {name}",
            None,
            "of the last screen: **of means of ticks**, not of leaves",
        )
        for which, (title, _) in _TIMES.items()
        for name in ("min", "avg", "max")
    ),
    *clients.METRICS,
)
