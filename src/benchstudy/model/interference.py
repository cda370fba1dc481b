"""What others did on the hosts of a trial, from the counters that the agent read before and after its commands.

What others did decides whether a trial is disturbed, never what it measured. The shares are stored with the trial when
it is measured (`seen`) and stay decisive: a later version of this module plans no measurement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from benchstudy.model.metrics import Metric, declare

FILE = "interference.json"
# What this module raises for counters in a form that no known kernel writes.
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

METRICS = declare(
    Metric(
        "others_cpu",
        "1",
        "Processors used by others",
        "lower",
        "processors that were busy, minus our own use and that of the controller and the kernel",
    ),
    Metric("steal", "1", "Processors stolen", "lower", "processors that the hypervisor gave to other machines"),
    Metric("ours_cpu", "1", "Processors used by us", None, "commands, servers, agent and SSH, even if they ended"),
    Metric("controller_cpu", "1", "Processors used by the controller", None, "0 if it runs on another machine"),
    Metric("kernel_cpu", "1", "Processors used by the kernel", None, "the kernel's threads and interrupts, for anyone"),
    Metric("run_queue", "1", "Run queue", "lower", "tasks that run or wait to run, ours too; mean of the readings"),
    Metric("pressure_cpu", "1", "CPU pressure", "lower", "share of the time in which some task waited, ours too"),
    Metric("pressure_io", "1", "I/O pressure", "lower", "share of the time in which some task waited, ours too"),
    Metric("pressure_memory", "1", "Memory pressure", "lower", "share of the time in which some task waited, ours too"),
    Metric(
        "others_disk", "1", "Disk's time for others", "lower", "busy share, times the share of bytes that were not ours"
    ),
    Metric("others_disk_read", "B/s", "Disk reads of others", "lower", "what disks read, minus what we read"),
    Metric(
        "others_disk_write",
        "B/s",
        "Disk writes of others",
        "lower",
        "lower bound: what disks wrote, minus our writes, writes that were already pending, and journals",
    ),
    Metric("host_network", "B/s", "Host's network traffic", None, "traffic of its network cards, ours too"),
    Metric(
        "others_network", "B/s", "Network traffic of others", "lower", "lower bound: minus traffic with other hosts"
    ),
    Metric("memory_taken", "B", "Memory taken", "lower", "how far available memory fell, ours too"),
    Metric("swapped", "B/s", "Swapped", "lower", "in and out, ours too"),
    Metric("clock_rate", "1/s", "Clock of processor 0", None, "the lowest of the readings"),
    Metric("throttled", "1", "Throttled for heat", "lower", "how many times"),
)
# Shares that are compared with a study's limit: of the host's CPUs, and of its disks' time.
# A journal writes blocks of its own for each flush: up to this much of what disks wrote beyond ours may be ours.
_JOURNAL_OF_A_FLUSH = 32 << 10
_BUSY_WRAPS_S = 2**32 / 1000  # 50 days: the kernel counts a disk's busy time in 32 bits of milliseconds

Reading = Mapping[str, Any]


@dataclass(frozen=True)
class Window:
    """What one host saw while a command ran. `shares` are lower bounds, beyond the error of the counters.

    `peak`: for a window with readings inside it, the most CPUs that others used between two of them, and the wall clock
    when that began.
    """

    seconds: float
    values: Mapping[str, float]
    shares: Mapping[str, float]
    busiest: Sequence[Mapping[str, Any]]
    peak: tuple[float, float] | None = None

    @property
    def worst(self) -> tuple[str, float]:
        """The largest share and its name: (name, share of 1). ("", 0.0) if there are no shares."""
        return max(self.shares.items(), key=lambda found: found[1], default=("", 0.0))


def windows(document: Mapping[str, Any]) -> dict[str, Window]:
    """By host: the most disturbed window of a trial, of two the longer. `document`: its file `FILE`.

    Commands that only prepared, warmed up or fetched results do not count: they measured nothing.
    """
    found: dict[str, Window] = {}
    for command in (command for command in document["commands"] if command.get("measured", True)):
        for host, about in command["hosts"].items():
            if len(about["readings"]) < 2:
                continue
            others = {name: other for name, other in command["hosts"].items() if name != host}
            same_kernel = [
                other["readings"]
                for other in others.values()
                if about["boot_id"] and other["boot_id"] == about["boot_id"]
            ]
            seen = window(about["readings"], about["controller"], same_kernel, [o["readings"] for o in others.values()])
            rank = (seen.worst[1], seen.seconds)
            if host not in found or rank > (found[host].worst[1], found[host].seconds):
                found[host] = seen
    return found


def window(
    readings: Sequence[Reading],
    controller: Sequence[Mapping[str, Any]] | None = None,
    same_kernel: Iterable[Sequence[Reading]] = (),
    others: Iterable[Sequence[Reading]] = (),
) -> Window:
    """The window between the first and the last of `readings`.

    Args:
        controller: what the controller itself had used before and after, if it runs on this host: "cpu_s", and
            "read_bytes" and "write_bytes" if known; "pids" of its processes.
        same_kernel: of other hosts of the target that are also this machine: our work there is no neighbour here.
        others: of all other hosts of the target: the trial's own traffic is with these.
    """
    same_kernel = list(same_kernel)
    first, last = readings[0], readings[-1]
    seconds, cpus = last["monotonic"] - first["monotonic"], last["cpus"]
    # A host that shares the kernel may have been read first, and so show earlier use.
    ours_s = sum(_grown("ours_s", r[0], r[-1]) for r in (readings, *same_kernel) if len(r) > 1)
    ours_elsewhere_s = ours_s - _grown("ours_s", first, last)
    own_s = _grown("cpu_s", *controller) if controller else 0.0
    kernel_s, steal_s = _grown("kernel_s", first, last), _grown("steal_s", first, last)
    # Ticks may miss what runs between them, and time to leave idle belongs to nobody: take the smaller of the two.
    awake_s = seconds * cpus - _grown("idle_s", first, last) - steal_s
    unexplained_s = min(awake_s, _grown("busy_s", first, last)) - ours_s - own_s - kernel_s
    seen_s = _grown("others_s", first, last) - own_s - ours_elsewhere_s
    resolution_s = max(first["resolution_s"], last["resolution_s"])
    at_least_s = max(seen_s, unexplained_s - resolution_s, 0.0)
    values = {
        "others_cpu": max(seen_s, unexplained_s, 0.0) / seconds,
        "steal": steal_s / seconds,
        "ours_cpu": ours_s / seconds,
        "controller_cpu": own_s / seconds,
        "kernel_cpu": kernel_s / seconds,
        **_further(readings, seconds),
        **_network(readings, others, seconds),
    }
    shares = {"others_cpu": at_least_s / seconds / cpus, "steal": max(0.0, steal_s - resolution_s) / seconds / cpus}
    disk = _disk(first, last, seconds, controller)
    values |= disk
    if "others_disk" in disk:
        shares["others_disk"] = disk["others_disk"]
    steps = pairwise(_filled(readings)) if len(readings) > 2 else ()
    # For the controller, and for us on another host, only the total is known.
    known = (own_s + ours_elsewhere_s) / seconds
    peak = max(((max(0.0, window(s).values["others_cpu"] - known), s[0]["wall"]) for s in steps), default=None)
    shares = {name: min(1.0, share) for name, share in shares.items()}
    no_neighbours = {pid for known in (*(controller or ()), *(r[-1] for r in same_kernel)) for pid in _pids(known)}
    busiest = [found for found in last.get("busiest", ()) if found["pid"] not in no_neighbours]
    return Window(seconds, values, shares, busiest, peak)


def _filled(readings: Sequence[Reading]) -> list[Reading]:
    """Readings within a window skip others and kernel threads, which are assumed to be steady between its ends."""
    first, last = readings[0], readings[-1]

    def at(name: str, reading: Reading) -> float:
        share = (reading["monotonic"] - first["monotonic"]) / (last["monotonic"] - first["monotonic"])
        return reading[name] if reading[name] is not None else first[name] + share * (last[name] - first[name])

    return [{**reading, **{name: at(name, reading) for name in ("kernel_s", "others_s")}} for reading in readings]


def _pids(known: Mapping[str, Any]) -> Sequence[int]:
    return known.get("ours_pids", known.get("pids", ()))


def _grown(name: str, first: Reading, last: Reading) -> float:
    return max(0.0, last[name] - first[name])


def _further(readings: Sequence[Reading], seconds: float) -> dict[str, float]:
    first, last = readings[0], readings[-1]
    found: dict[str, float | None] = {
        f"pressure_{kind}": _between(first["pressure"][kind], last["pressure"][kind], seconds)
        for kind in first["pressure"]
    }
    running = [r["running"] for r in readings if r["running"] is not None]
    found["run_queue"] = sum(running) / len(running) if running else None
    available = [r["available_bytes"] for r in readings if r["available_bytes"] is not None]
    found["memory_taken"] = max(0.0, available[0] - min(available)) if available else None
    found["swapped"] = _between(first["swapped_bytes"], last["swapped_bytes"], seconds)
    rates = [r["clock_hz"] for r in readings if r["clock_hz"] is not None]
    found["clock_rate"] = min(rates) if rates else None
    found["throttled"] = _between(first["throttled"], last["throttled"], 1.0)
    return {name: value for name, value in found.items() if value is not None}


def _network(readings: Sequence[Reading], others: Iterable[Sequence[Reading]], seconds: float) -> dict[str, float]:
    """Traffic between hosts of the target passes a card of each; what a host has beyond that is not ours.

    A store or a Prometheus outside of the target counts as others, so network traffic disturbs no trial.
    """
    traffic = _traffic(readings)
    if traffic is None:
        return {}
    elsewhere = sum(_traffic(each) or 0.0 for each in others if len(each) > 1)
    return {"host_network": traffic / seconds, "others_network": max(0.0, traffic - elsewhere) / seconds}


def _traffic(readings: Sequence[Reading]) -> float | None:
    """Bytes in and out by all network cards; None without a card."""
    first, last = (reading["interfaces"] for reading in (readings[0], readings[-1]))
    ways = [_grown(way, at_first, last[name]) for name, at_first in first.items() if name in last for way in at_first]
    return sum(ways) if ways else None


def _between(first: float | None, last: float | None, seconds: float) -> float | None:
    return None if first is None or last is None else max(0.0, last - first) / seconds


def disk_busy_s(first: Mapping[str, Any], last: Mapping[str, Any]) -> float:
    """For how long a disk was busy between two readings of it."""
    grown_s = last["busy_s"] - first["busy_s"]
    # A counter that falls by less than half of its range began anew.
    return max(0.0, grown_s + _BUSY_WRAPS_S if grown_s < -_BUSY_WRAPS_S / 2 else grown_s)


def _disk(
    first: Reading, last: Reading, seconds: float, controller: Sequence[Mapping[str, Any]] | None
) -> dict[str, float]:
    """Of all disks together. Nothing if our own part is unknown, as for another user's server."""
    names = [name for name in first["disks"] if name in last["disks"]]
    if not names or first["ours_io"] is None or last["ours_io"] is None:
        return {}

    def grown(field: str) -> float:
        return sum(_grown(field, first["disks"][name], last["disks"][name]) for name in names)

    if any(last["disks"][name]["flushes"] is None for name in names):
        return {}
    ours = {way: _grown(way, first["ours_io"], last["ours_io"]) for way in ("read_bytes", "write_bytes")}
    if controller and all("read_bytes" in one for one in controller):
        ours = {way: of_hosts + _grown(way, *controller) for way, of_hosts in ours.items()}
    read = max(0.0, grown("read_bytes") - ours["read_bytes"])
    due = first["dirty_bytes"] + _JOURNAL_OF_A_FLUSH * grown("flushes")
    written = max(0.0, grown("written_bytes") - ours["write_bytes"] - due)
    total = grown("read_bytes") + grown("written_bytes")
    busy = max(disk_busy_s(first["disks"][name], last["disks"][name]) for name in names) / seconds
    return {
        "others_disk_read": read / seconds,
        "others_disk_write": written / seconds,
        "others_disk": min(1.0, busy) * (read + written) / total if total else 0.0,
    }


def seen(document: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether a trial is disturbed, as stored with it: by host, the shares and who was busiest."""
    return {
        host: {
            "shares": {name: round(share, 4) for name, share in found.shares.items()},
            "others_cpu": round(found.values["others_cpu"], 4),
            "cpus": _cpus(document, host),
            "seconds": round(found.seconds, 3),
            "busiest": _names(found),
            "peak_cpu": found.peak and round(found.peak[0], 4),
            "peak_at": found.peak and _moment(found.peak[1]),
        }
        for host, found in windows(document).items()
    }


def _moment(unix_s: float) -> str:
    try:
        return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
    except OSError as error:  # beyond all calendars
        raise ValueError(f"{unix_s:g} s is not a time") from error


_WORTH_NAMING, _MOST_NAMED = 0.02, 3  # CPUs; names


def _names(found: Window) -> list[str]:
    worth = (b["name"] for b in found.busiest if b["cpu_s"] / found.seconds > _WORTH_NAMING)
    return list(dict.fromkeys(worth))[:_MOST_NAMED]


def _cpus(document: Mapping[str, Any], host: str) -> int:
    return next(c["hosts"][host]["readings"][-1]["cpus"] for c in document["commands"] if host in c["hosts"])


_TOLD = ("others_cpu", "cpus", "busiest", "peak_cpu", "peak_at")


@dataclass(frozen=True)
class Disturbance:
    """One trial's worst: `what` on `host` took `share` of it, above the limit or not. `peak_at` is ISO 8601.

    `limit`: the one that the table applied, which may be another one than when the trial was measured.
    """

    host: str
    what: str
    share: float
    others_cpu: float
    cpus: int
    busiest: tuple[str, ...]
    peak_cpu: float | None = None
    peak_at: str | None = None
    limit: float | None = None

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> "Disturbance":
        """A disturbance from its JSON."""
        return cls(**{**written, "busiest": tuple(written["busiest"])})


def worst(kept: Mapping[str, Any] | None) -> Disturbance | None:
    """The worst of what was `seen`; None if nothing is known, as for a trial of an earlier version."""
    found = [
        Disturbance.read({"host": host, "what": what, "share": share, **{n: about[n] for n in _TOLD if n in about}})
        for host, about in (kept or {}).items()
        for what, share in about["shares"].items()
    ]
    return max(found, key=lambda d: d.share, default=None)
