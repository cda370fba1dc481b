"""What a trial of file_size gives."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_PARTS = {"open": "Opening", "transfer": "Transfer", "sync": "Syncing", "close": "Closing"}

METRICS = declare(
    Metric(
        "duration",
        "s",
        "Time of one file",
        "lower",
        "mean time of one operation: open + transfer + sync + close; S3: the whole call",
        primary=True,
    ),
    Metric(
        "throughput",
        "B/s",
        "Throughput",
        "higher",
        "bytes of all operations over the sum of their durations (a harmonic mean); of several clients the sum of each",
    ),
    *(
        Metric(
            name,
            "s",
            title,
            "lower",
            "paths: means of the parts of `duration`; `sync` is 0 where none is asked for",
        )
        for name, title in _PARTS.items()
    ),
    Metric(
        "first_byte",
        "s",
        "Time to the first byte",
        "lower",
        "S3 reads: mean time until the response's headers were there; absent with `max_concurrency` above 1",
    ),
    Metric(
        "source",
        "s",
        "Time to make the data",
        None,
        "S3 writes: mean time spent inside `duration` making the data to send, a sum over threads; not subtracted",
    ),
    Metric("operations", "1", "Operations", None, "operations measured in the trial"),
    Metric(
        "cached_before",
        "1",
        "In page cache before",
        None,
        "reads of paths: share of the file in the page cache before the first read: the worst operation's",
        tells="cache",
    ),
    Metric(
        "device_read",
        "B",
        "Fetched from storage for one read",
        None,
        "reads of paths: mean bytes the kernel says this process caused to be read from storage; absent if not told",
        tells="storage",
    ),
    Metric("attempts", "1", "Attempts", None, "S3: attempts made, of which `operations` succeeded"),
    Metric("errors", "1", "Failed attempts", "lower", "S3: attempts that failed"),
    *clients.METRICS,
)
