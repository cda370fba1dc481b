"""What limited a log in a window: a value with its numbers, of the samples beside the load. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from benchstudy.families.log_write.layout import DATABASE, GENERATOR, SERVER
from benchstudy.families.log_write.samples import Found
from benchstudy.model.criteria import BUSY_GENERATOR

_BUSY = 0.9  # of a processor or disk: nothing else waits for it without queueing
_HOST_FULL = 0.95
_FOREIGN = 0.3  # of a host's CPUs in the hands of others: nothing can be said
_DISTURBED = 0.1  # so much of them explains a stall that nothing else does
_IN_FSYNC = 0.6  # of the samples
_READY = 0.5  # threads that wait for a processor, on average: it is short, though idle between bursts


class LimitedBy(StrEnum):
    NOTHING = "nothing"  # what was offered was taken
    GENERATOR_CPU = "generator-cpu"
    SERVER_CPU = "server-cpu"
    DATABASE_CPU = "database-cpu"
    DATABASE_FSYNC = "database-fsync"
    SERVER_FSYNC = "server-fsync"
    DISK = "disk"
    MEMORY = "memory"
    DEATH = "death"  # of a server, at the lowest rate that failed
    NEIGHBOUR = "neighbour"  # other processes on a host whose CPUs all were busy
    UNKNOWN = "unknown"  # no resource was used up


class How(StrEnum):
    """In which way a resource was short, where it was not used up by the one process alone."""

    HOST_FULL = "host-full"  # all CPUs of the host were busy
    IN_BURSTS = "in-bursts"  # threads waited for a processor that was idle between


@dataclass(frozen=True)
class Limit:
    """`share`: of the samples in fsync, of the time the disk was busy, of the host's CPUs that neighbours had.

    `waiting`: threads that were ready and had no processor, on average. `rate_per_s`: of a search, the rate that was
    met last, or at which a server died. `died`: how, in words. `*_cpu`: the share of its processors that each used.
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

    @property
    def row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Limit":
        known = {field.name: row[field.name] for field in fields(cls)}
        how = known.pop("how")
        return cls(LimitedBy(known.pop("by")), how and How(how), **known)


COLUMNS = {field.name: "String" if field.name in ("by", "how", "died") else "Float64" for field in fields(Limit)}
_CPU_OF = {SERVER: LimitedBy.SERVER_CPU, GENERATOR: LimitedBy.GENERATOR_CPU, DATABASE: LimitedBy.DATABASE_CPU}
_FSYNC_OF = {DATABASE: LimitedBy.DATABASE_FSYNC, SERVER: LimitedBy.SERVER_FSYNC}
# From which share of its processors on each is at its end; the generator first, since it spoils all other answers.
_AT_ITS_END = {GENERATOR: BUSY_GENERATOR, SERVER: _BUSY, DATABASE: _BUSY}


def limited_by(found: Found, *, at_its_limit: bool) -> Limit:
    """Which resource the log, or its generator, had used up.

    `at_its_limit`: it did less than was asked for. Otherwise nothing was a limit.
    """
    if not at_its_limit:
        return Limit(LimitedBy.NOTHING)
    used = {name: shares.cpu or 0.0 for name, shares in found.processes.items()}
    numbers: dict[str, Any] = {f"{name}_cpu": share for name, share in used.items()}
    for name, end in _AT_ITS_END.items():
        if used.get(name, 0.0) >= end:
            return Limit(_CPU_OF[name], **numbers)
    foreign = {host: found.host_cpu[host] - found.own_cpu[host] for host in found.host_cpu}
    full = [host for host, share in found.host_cpu.items() if share >= _HOST_FULL]
    most = max((foreign[host] for host in full), default=0.0)
    if most > _FOREIGN:
        return Limit(LimitedBy.NEIGHBOUR, share=most, **numbers)
    if full and used:
        return Limit(_CPU_OF[max(used, key=lambda name: used[name])], How.HOST_FULL, **numbers)
    for name, by in _FSYNC_OF.items():
        share = (found.processes[name].fsync or 0.0) if name in found.processes else 0.0
        if share >= _IN_FSYNC:
            return Limit(by, share=share, **numbers)
    if (found.disk_busy or 0.0) >= _BUSY:
        return Limit(LimitedBy.DISK, share=found.disk_busy, **numbers)
    numbers["disk_busy"] = found.disk_busy
    most = max(foreign.values(), default=0.0)
    if most >= _DISTURBED:
        return Limit(LimitedBy.UNKNOWN, share=most, **numbers)
    waiting = {name: shares.cpu_wait or 0.0 for name, shares in found.processes.items()}
    name = max(waiting, key=lambda process: waiting[process], default=SERVER)
    if waiting.get(name, 0.0) >= _READY:
        return Limit(_CPU_OF[name], How.IN_BURSTS, waiting=waiting[name], **numbers)
    return Limit(LimitedBy.UNKNOWN, **numbers)
