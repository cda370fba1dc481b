"""The parser of file_size, for the probe's JSON document with every operation of a trial."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchstudy.families.file_size.answer import LOAD, read_answer
from benchstudy.families.shared.clients import SERIES as CLIENT_SERIES
from benchstudy.families.shared.clients import Clients, Spans, busy_s, combined, read_clients
from benchstudy.families.shared.files import as_number, damaged
from benchstudy.model.clients import CLIENTS, CLIENTS_FILE
from benchstudy.model.criteria import OVERLAP
from benchstudy.model.family import Observation, Parsed, ParseError
from benchstudy.model.rounding import percent, shown
from benchstudy.model.units import Size

PARTS = ("open", "transfer", "sync", "close")
SERIES = (
    "duration_s",
    *(f"{part}_s" for part in PARTS),
    "first_byte_s",
    "source_s",
    "cached_before",
    "device_read_bytes",
    "attempts",
)


@damaged("the answer of the file-size probe is damaged")
def parse_answer(path: Path, size_bytes: int) -> Parsed:
    """Parse the answer of a successful trial whose case has `size_bytes`.

    Raises ParseError if the answer is truncated, lacks operations, or belongs to another case.
    """
    answer = read_answer(path)
    operations = answer["operations"]
    expected = answer["request"]["operations"]
    if "problem" in answer or len(operations) != expected:
        raise ParseError(f"{len(operations)} of {expected} operations: {answer.get('problem', 'the rest is missing')}")
    if answer["request"]["size"] != size_bytes:
        raise ParseError(f"measured {answer['request']['size']} bytes, but the case has {size_bytes}")
    rows = [_row(index, operation) for index, operation in enumerate(operations)]
    if any(row["duration_s"] <= 0 for row in rows):
        raise ParseError("an operation took no time: the clock of the host is broken")
    series: dict[str, Sequence[Mapping[str, Any]]] = {"operations": rows}
    if answer["request"]["kind"] == "s3":
        series["errors"] = [
            {name: error[name] for name in ("operation", "attempt", "kind", "status", "duration_s")}
            for error in answer["errors"]
        ]
    return Parsed(_observations(answer, rows), series)


def _row(index: int, operation: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the series; columns that do not apply are null."""
    row: dict[str, Any] = {"operation": index, **dict.fromkeys(SERIES)}
    for name, value in operation.items():
        seconds = f"{name.removesuffix('_ns')}_s"
        if name.endswith("_ns") and seconds in row:
            row[seconds] = None if value is None else as_number(value, name) / 1e9
        elif name in row:
            row[name] = value
    if row["duration_s"] is None:
        row["duration_s"] = sum(operation[f"{part}_ns"] for part in PARTS) / 1e9
    return row


def _observations(answer: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[Observation]:
    def mean(column: str) -> float | None:
        values = [row[column] for row in rows if row[column] is not None]
        return sum(values) / len(values) if len(values) == len(rows) else None

    total_s = sum(row["duration_s"] for row in rows)
    found = [
        Observation("duration", mean("duration_s"), "s"),
        Observation("throughput", answer["request"]["size"] * len(rows) / total_s, "B/s"),
        Observation("operations", float(len(rows)), "1"),
    ]
    found += [Observation(part, mean(f"{part}_s"), "s") for part in (*PARTS, "first_byte", "source")]
    found.append(Observation("device_read", mean("device_read_bytes"), "B"))
    shares = [row["cached_before"] for row in rows if row["cached_before"] is not None]
    if shares:
        worst = min(shares) if answer["request"]["cache"] == "warm" else max(shares)
        found.append(Observation("cached_before", worst, "1"))
    if answer["request"]["kind"] == "s3":
        # Preparation and verification are retried, too, but belong to no operation.
        failed = [error for error in answer["errors"] if error["operation"] is not None]
        found.append(Observation("errors", float(len(failed)), "1"))
        found.append(Observation("attempts", float(sum(row["attempts"] for row in rows)), "1"))
    return [observation for observation in found if observation.value is not None]


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """Parse the answers of one trial. Raises ParseError."""
    size_bytes = Size(levels["size"]).bytes
    if CLIENTS not in levels:
        return parse_answer(files / "stdout", size_bytes)
    clients = read_clients(files / LOAD)
    each = [parse_answer(folder / "stdout", size_bytes) for folder in clients.folders]
    return _together(each, clients, size_bytes, warm=levels.get("cache") == "warm")


def note_trial(files: Path) -> Mapping[str, Any]:
    """Note problems with the times of several clients, and attempts that no duration includes. Raises ParseError."""
    if not (files / LOAD / CLIENTS_FILE).is_file():
        problems = [*_failed_attempts(files)]
        return {"problems": problems} if problems else {}
    clients = read_clients(files / LOAD)
    each = zip(clients.all, clients.folders, strict=True)
    failed = [f"client {one.number} on {one.host}: {said}" for one, at in each for said in _failed_attempts(at)]
    return {"problems": [*failed, *clients.problems(clients.spans), *_apart(clients)]}


def _apart(clients: Clients) -> list[str]:
    """The problem of clients that were rarely at work at the same time. [] without it."""
    each = _operations(clients)
    if each is None:
        return []
    one_s, all_s = busy_s(each)
    if all_s >= OVERLAP * one_s:
        return []
    return [
        f"overlap: all clients were at an operation in {percent(all_s / one_s)} of the {shown(one_s)} s in which at "
        "least one was, so their throughput is that of fewer clients: choose larger files"
    ]


@damaged("the answer of the file-size probe is damaged")
def _operations(clients: Clients) -> list[Spans] | None:
    """When each client was at an operation, on one clock. None in trials of earlier versions, which do not say it."""
    each = [read_answer(folder / "stdout")["operations"] for folder in clients.folders]
    if not all("began_ns" in operation for operations in each for operation in operations):
        return None
    # Fractions of a second would lose digits beside the seconds since 1970.
    zero_ns = int(clients.all[0].start_s * 1e9)
    found: list[Spans] = []
    for client, operations in zip(clients.all, each, strict=True):
        began_ns = [as_number(operation["began_ns"], "began_ns") for operation in operations]
        begins_s = [(at_ns - zero_ns) / 1e9 - client.offset_s for at_ns in began_ns]
        lasts_s = [_row(0, operation)["duration_s"] for operation in operations]
        found.append([(begin_s, begin_s + s) for begin_s, s in zip(begins_s, lasts_s, strict=True)])
    return found


@damaged("the answer of the file-size probe is damaged")
def _failed_attempts(folder: Path) -> list[str]:
    """The problem of a trial in which attempts failed: a slow service may look fast without them. [] without any."""
    answer = read_answer(folder / "stdout")
    failed_s = [error["duration_s"] for error in answer.get("errors", ()) if error["operation"] is not None]
    if not failed_s:
        return []
    made = sum(operation["attempts"] for operation in answer["operations"])
    return [
        f"attempts: {len(failed_s)} of {made} failed, after {shown(sum(failed_s))} s in all. Durations and throughput "
        "include neither these nor the pauses after them"
    ]


def _together(each: Sequence[Parsed], clients: Clients, size_bytes: int, warm: bool) -> Parsed:
    """Combine clients: sum counts, average times over all operations, keep the worst proof of the cache.

    The throughput is that of all bytes in the time in which a client was at an operation. If that is not known, as in
    trials of earlier versions, it is the time that the slowest client needed.
    """
    values = [{o.metric: (o.value, o.unit) for o in one.observations} for one in each]
    counts = [len(one.series["operations"]) for one in each]
    worst = {"least" if warm else "most": ("cached_before",)}
    found = combined(
        values,
        summed=("operations", "attempts", "errors"),
        means=("duration", *PARTS, "first_byte", "source", "device_read"),
        counts=counts,
        **worst,
    )
    series: dict[str, list[Mapping[str, Any]]] = {}
    for one, first in zip(each, accumulate(counts, initial=0), strict=False):
        for name, rows in one.series.items():
            for row in rows:
                # Each client numbers its operations from 0.
                number = None if row["operation"] is None else row["operation"] + first
                series.setdefault(name, []).append({**row, "operation": number})
    needed_s = max(sum(row["duration_s"] for row in one.series["operations"]) for one in each)
    operations = _operations(clients)
    if operations is not None:
        needed_s, all_s = busy_s(operations)
        found["client_overlap"] = (all_s / needed_s, "1")
    found["throughput"] = (size_bytes * sum(counts) / needed_s, "B/s")
    observed = {**found, **clients.values(spans=clients.spans)}
    observations = [Observation(metric, value, unit) for metric, (value, unit) in observed.items()]
    return Parsed(observations, {**series, CLIENT_SERIES: clients.rows(values)})
