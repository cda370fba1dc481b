"""What limited a log in a window: a value with its numbers, from samples during the load. Pure."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from benchstudy.families.log_write.layout import DATABASE, GENERATOR, SERVER
from benchstudy.families.log_write.samples import Found
from benchstudy.model.criteria import BUSY_GENERATOR

_BUSY = 0.9  # share of a processor or disk from which on work queues for it
_HOST_FULL = 0.95
_FOREIGN = 0.3  # share of a host's CPUs that others use, from which on nothing can be concluded
_DISTURBED = 0.1  # share of the CPUs that others use, which may explain a stall
_IN_FSYNC = 0.6  # share of the samples
_READY = 0.5  # mean number of threads that wait for a processor: it is overloaded in bursts, and idle between them


class LimitedBy(StrEnum):
    NOTHING = "nothing"  # the log achieved the offered rate
    GENERATOR_CPU = "generator-cpu"
    SERVER_CPU = "server-cpu"
    DATABASE_CPU = "database-cpu"
    DATABASE_FSYNC = "database-fsync"
    SERVER_FSYNC = "server-fsync"
    DISK = "disk"
    MEMORY = "memory"
    DEATH = "death"  # of a server, at the lowest rate that failed
    NEIGHBOUR = "neighbour"  # other processes on a host with all CPUs busy
    UNKNOWN = "unknown"  # no resource was exhausted


class How(StrEnum):
    """How a resource was the limit, if the process alone did not exhaust it."""

    HOST_FULL = "host-full"  # all CPUs of the host were busy
    IN_BURSTS = "in-bursts"  # threads waited for a processor that was idle between bursts


@dataclass(frozen=True)
class Limit:
    """What limited the log, with its numbers.

    `share`: of the samples in fsync, of the time the disk was busy, or of the host's CPUs that other processes used.
    `waiting`: mean number of threads that waited for a CPU. `rate_per_s`: for a search, the highest rate that passed,
    or the rate at which a server died. `died`: how it died, in words. `*_cpu`: the share of its CPUs that each process
    used.
    """

    by: LimitedBy
    how: How | None = None
    share: float | None = None
    waiting: float | None = None
    rate_per_s: float | None = None
    died: str | None = None
    server_cpu: float | None = None
    database_cpu: float | None = None
    generator_cpu: float | None = None
    disk_busy: float | None = None


# Reads a row of the table `limits`.
limit_of = TypeAdapter(Limit).validate_python
COLUMNS = {field.name: "String" if field.name in ("by", "how", "died") else "Float64" for field in fields(Limit)}
_CPU_OF = {SERVER: LimitedBy.SERVER_CPU, GENERATOR: LimitedBy.GENERATOR_CPU, DATABASE: LimitedBy.DATABASE_CPU}
_FSYNC_OF = {DATABASE: LimitedBy.DATABASE_FSYNC, SERVER: LimitedBy.SERVER_FSYNC}
# The share of its CPUs from which on each process is at its limit. The generator comes first: it hides other limits.
_AT_ITS_END = {GENERATOR: BUSY_GENERATOR, SERVER: _BUSY, DATABASE: _BUSY}


def limited_by(found: Found, *, at_its_limit: bool) -> Limit:
    """Return the resource that the log, or its generator, exhausted.

    `at_its_limit`: the log did not achieve the offered rate. Otherwise there was no limit.
    """
    if not at_its_limit:
        return Limit(LimitedBy.NOTHING)
    used = {name: shares.cpu or 0.0 for name, shares in found.processes.items()}
    numbers: dict[str, Any] = {f"{name}_cpu": share for name, share in used.items()}
    for name, end in _AT_ITS_END.items():
        if _reaches(used.get(name), end):
            return Limit(_CPU_OF[name], **numbers)
    foreign = {host: found.host_cpu[host] - found.own_cpu[host] for host in found.host_cpu}
    full = [host for host, share in found.host_cpu.items() if share >= _HOST_FULL]
    most = max((foreign[host] for host in full), default=None)
    if _reaches(most, _FOREIGN):
        return Limit(LimitedBy.NEIGHBOUR, share=most, **numbers)
    if full and used:
        return Limit(_CPU_OF[max(used, key=lambda name: used[name])], How.HOST_FULL, **numbers)
    for name, by in _FSYNC_OF.items():
        share = found.processes[name].fsync if name in found.processes else None
        if _reaches(share, _IN_FSYNC):
            return Limit(by, share=share, **numbers)
    if _reaches(found.disk_busy, _BUSY):
        return Limit(LimitedBy.DISK, share=found.disk_busy, **numbers)
    numbers["disk_busy"] = found.disk_busy
    most = max(foreign.values(), default=None)
    if _reaches(most, _DISTURBED):
        return Limit(LimitedBy.UNKNOWN, share=most, **numbers)
    waiting = {name: shares.cpu_wait for name, shares in found.processes.items() if shares.cpu_wait is not None}
    name = max(waiting, key=lambda process: waiting[process], default=SERVER)
    if _reaches(waiting.get(name), _READY):
        return Limit(_CPU_OF[name], How.IN_BURSTS, waiting=waiting[name], **numbers)
    return Limit(LimitedBy.UNKNOWN, **numbers)


def _reaches(value: float | None, threshold: float) -> bool:
    """Whether a value reaches the threshold; an unknown one does not."""
    return value is not None and value >= threshold
