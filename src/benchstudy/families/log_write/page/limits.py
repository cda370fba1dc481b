"""Words for what limited a log: the only place where a Limit becomes text."""

from benchstudy.families.log_write.limits import How, Limit, LimitedBy
from benchstudy.report import human

NOTHING = "nothing"
# Who used a host's CPUs if none of the sampled processes did. A mounted file system has processes, too.
REST = "processes other than server, database and generator"
_RESOURCES = {
    LimitedBy.NOTHING: NOTHING,
    LimitedBy.GENERATOR_CPU: "generator CPU",
    LimitedBy.SERVER_CPU: "server CPU",
    LimitedBy.DATABASE_CPU: "database",
    LimitedBy.DATABASE_FSYNC: "database",
    LimitedBy.SERVER_FSYNC: "fsync",
    LimitedBy.DISK: "disk",
    LimitedBy.MEMORY: "memory",
    LimitedBy.DEATH: "server died",
    LimitedBy.NEIGHBOUR: "rest of the host",
    LimitedBy.UNKNOWN: "unknown",
}
_CPU = {
    LimitedBy.GENERATOR_CPU: "generator CPU (client-limited)",
    LimitedBy.SERVER_CPU: "server CPU",
    LimitedBy.DATABASE_CPU: "database: CPU",
}
_FSYNC = {
    LimitedBy.DATABASE_FSYNC: "database: waits for fsync",
    LimitedBy.SERVER_FSYNC: "fsync: the server waits for the disk",
}


def resource(limit: Limit) -> str:
    """Name the resource in one or two words."""
    return _RESOURCES[limit.by]


def told(limit: Limit) -> str:
    """Describe the limit in a sentence that begins with the name of the resource."""
    match limit.by:
        case LimitedBy.NOTHING if limit.rate_per_s is None:
            return "nothing: the log achieved the offered rate"
        case LimitedBy.NOTHING:
            return f"nothing: every rate up to {_rate(limit)} met the objective"
        case LimitedBy.MEMORY:
            return f"memory: {limit.died} at {_rate(limit)}"
        case LimitedBy.DEATH:
            return f"{limit.died} at {_rate(limit)}"
        case LimitedBy.DISK:
            what = f"disk: busy {human.percent(limit.share)} of the time"
        case LimitedBy.NEIGHBOUR:
            what = f"unknown: {REST} used {human.percent(limit.share)} of the host's CPUs, and all CPUs were busy"
        case LimitedBy.DATABASE_FSYNC | LimitedBy.SERVER_FSYNC:
            what = f"{_FSYNC[limit.by]} in {human.percent(limit.share)} of the samples"
        case LimitedBy.UNKNOWN:
            whose = f", and {REST} used {human.percent(limit.share or 0)} of the host's CPUs"
            had = whose if limit.share else ""
            what = f"unknown: no resource was exhausted{had}"
        case _:
            what = _CPU[limit.by] + _in_which_way(limit)
    return f"{what} ({_used(limit)})"


def _in_which_way(limit: Limit) -> str:
    if limit.how is How.IN_BURSTS:
        return f", in bursts: {human.number(limit.waiting)} of its threads were waiting for a CPU, on average"
    return ", on a host with all CPUs busy" if limit.how is How.HOST_FULL else ""


def _used(limit: Limit) -> str:
    shares = {"server": limit.server_cpu, "database": limit.database_cpu, "generator": limit.generator_cpu}
    shown = [f"{name} {human.percent(share)}" for name, share in shares.items() if share is not None]
    return ", ".join(
        [*shown, *([f"disk busy {human.percent(limit.disk_busy)}"] if limit.disk_busy is not None else [])]
    )


def _rate(limit: Limit) -> str:
    return human.quantity(limit.rate_per_s, "1/s")
