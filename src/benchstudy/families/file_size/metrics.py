"""The metrics of the family file_size."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

_PARTS = {"open": "Open time", "transfer": "Transfer time", "sync": "Sync time", "close": "Close time"}

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
        "bytes of all operations divided by the sum of their durations (a harmonic mean). Several clients: bytes of "
        "all clients divided by the time in which at least one of them was busy with an operation; in trials of "
        "earlier versions, by the sum of durations of the slowest client",
        form_of="duration",
    ),
    Metric(
        "client_overlap",
        "1",
        "Client overlap",
        "higher",
        "several clients: the time in which all clients were busy with an operation, as a share of the time in which "
        "at least one was; absent in trials of earlier versions",
    ),
    *(
        Metric(
            name, "s", title, "lower", "paths: mean of this part of `duration`; `sync` is 0 if the case does not sync"
        )
        for name, title in _PARTS.items()
    ),
    Metric(
        "first_byte",
        "s",
        "Time to the first byte",
        "lower",
        "S3 reads: mean time until the headers of the response arrived; absent with `max_concurrency` above 1",
    ),
    Metric(
        "source",
        "s",
        "Time to generate the data",
        None,
        "S3 writes: mean part of `duration` that was spent on generating data, summed over threads; it is included in "
        "`duration`",
    ),
    Metric("operations", "1", "Operations", None, "number of operations measured in the trial"),
    Metric(
        "cached_before",
        "1",
        "In page cache before the read",
        None,
        "reads of paths: share of the file in the page cache before the first read, for the worst operation",
        tells="cache",
    ),
    Metric(
        "device_read",
        "B",
        "Fetched from storage per read",
        None,
        "reads of paths: mean bytes that the process caused to be read from storage; absent if not counted",
        tells="storage",
    ),
    Metric("attempts", "1", "Attempts", None, "S3: number of attempts, of which `operations` succeeded"),
    Metric("errors", "1", "Failed attempts", "lower", "S3: number of attempts that failed"),
    *clients.METRICS,
)
