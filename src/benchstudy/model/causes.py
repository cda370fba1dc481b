"""Why a trial failed, as a value for programs. The sentence beside it is for people, and decides nothing."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar


class Cause(StrEnum):
    """Why a trial failed, as far as a machine can tell."""

    OOM = "oom"  # the kernel killed it or one of its processes: out of memory
    DISK_FULL = "disk-full"  # on the host: its output is incomplete
    TIMEOUT = "timeout"  # ended at its own timeout
    EXITED = "exited"  # with a status that means failure
    SIGNAL = "signal"  # ended by a signal that we did not send
    START_FAILED = "start-failed"
    SETUP_FAILED = "setup-failed"  # a step before the command
    NOT_READY = "not-ready"  # a service that started and never answered, or another process answered instead
    SERVER_DIED = "server-died"  # during the trial
    SERVER_HUNG = "server-hung"
    DATA_LOST = "data-lost"  # data that the system had accepted is gone
    LEASE_EXPIRED = "lease-expired"
    STOPPED = "stopped"
    LOST = "lost"  # the supervisor of a command is gone
    HOST_RESTARTED = "host-restarted"
    CONNECTION = "connection"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"  # by the agent on the host
    PARSE = "parse"  # a tool's output cannot be read
    NOT_FOUND = "not-found"  # a figure is missing from a tool's output
    UNEXPECTED = "unexpected"  # it ended normally, but its output is not as expected
    INTERNAL = "internal"  # a defect of ours
    TOLD = "told"  # in words only


# What ended it was not the tool's doing, so nothing is known about the trial.
NO_RESULT = {Cause.CONNECTION, Cause.LEASE_EXPIRED, Cause.LOST, Cause.HOST_RESTARTED}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What happened, with the numbers that are known.

    `name`: of the program or service. `host`: of one of several that load together whose it was, or of one that went
    away. `duration_s`: until its end. `limit_bytes`, `peak_bytes`: of its memory. `killed`: how many of its processes
    the kernel killed. `said`: the tail of its output.
    """

    # Part of a record, which refuses unknown keys.
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    cause: Cause
    name: str | None = None
    host: str | None = None
    exit_status: int | None = None
    signal: int | None = None
    duration_s: float | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    killed: int | None = None
    said: str | None = None

    def with_said(self, change: Callable[[str], str]) -> "Failure":
        """A copy with `said` changed, for example to remove secrets."""
        return replace(self, said=change(self.said)) if self.said else self


# How a command ended, by the state in its record; "exited" says more with its status.
_BY_STATE = {
    "timeout": Cause.TIMEOUT,
    "lease-expired": Cause.LEASE_EXPIRED,
    "stopped": Cause.STOPPED,
    "start-failed": Cause.START_FAILED,
    "setup-failed": Cause.SETUP_FAILED,
    "lost": Cause.LOST,
    "absent": Cause.LOST,
}


def failure_of(record: Mapping[str, Any], name: str | None = None, said: str | None = None) -> Failure:
    """The failure of a command, from its supervisor's record."""
    limits = record.get("limits") or {}
    if record.get("cause_kind"):
        cause = Cause(record["cause_kind"])
    elif record["state"] in _BY_STATE:
        cause = _BY_STATE[record["state"]]
    else:
        cause = Cause.SIGNAL if record.get("signal") else Cause.EXITED
    return Failure(
        cause=cause,
        name=name,
        exit_status=record.get("exit_status"),
        signal=record.get("signal"),
        duration_s=record.get("duration_s"),
        limit_bytes=(limits.get("effective") or {}).get("memory_bytes"),
        peak_bytes=limits.get("peak_memory_bytes"),
        killed=limits.get("oom_kills"),
        said=said or None,
    )


def ran_out_of_memory(record: Mapping[str, Any]) -> bool:
    """Whether the kernel killed the command of a supervisor's record, or one of its processes, when out of memory."""
    return record.get("cause_kind") == Cause.OOM


# --- records of before schema 2 -----------------------------------------------------------------------------------

# How a sentence of an old record begins; the first match counts. Some have the groups `name` and `said`.
_SENTENCES: tuple[tuple[str, Cause], ...] = (
    (r"(?:service \S+: )*OOM\b", Cause.OOM),
    (r"(?P<name>\S+) was ended at its timeout\b", Cause.TIMEOUT),
    (r"the server (?P<name>\S+) died during the trial: (?:it ended with [a-z]+ [a-z]* ?\d+)?(?:: (?P<said>.*))?",
     Cause.SERVER_DIED),
    (r"server (?:\S+ )?died\b", Cause.SERVER_DIED),
    (r"server hung\b", Cause.SERVER_HUNG),
    (r".*\blea(?:f|ves) (?:is|are) lost\b", Cause.DATA_LOST),
    (r"(?:service \S+: )*service (?P<name>\S+): (?:its memory limit of .*? was used up: )?"
     r"(?:it ended before it was ready|not ready within).*?(?:; the end of its log:\n(?P<said>.*))?$", Cause.NOT_READY),
    (r"(?P<name>\S+) exited with status \d+(?:: (?P<said>.*))?", Cause.EXITED),
    (r"(?P<name>\S+) was ended by signal \d+(?:: (?P<said>.*))?", Cause.SIGNAL),
    (r"(?P<name>\S+): start-failed\b", Cause.START_FAILED),
    (r"internal error: ", Cause.INTERNAL),
    (r"interrupted$", Cause.INTERRUPTED),
    (r"the host was restarted during the trial$", Cause.HOST_RESTARTED),
    (r"\S+: lease-expired\b", Cause.LEASE_EXPIRED),
    (r"\S+: stopped\b", Cause.STOPPED),
    (r"\S+: lost\b", Cause.LOST),
)  # fmt: skip


def cause_of(sentence: str) -> Failure:
    """The failure that a sentence of an old record describes, without the numbers, which its commands have."""
    for pattern, cause in _SENTENCES:
        if match := re.match(pattern, sentence, re.DOTALL):
            parts = match.groupdict()
            return Failure(cause=cause, name=parts.get("name"), said=parts.get("said"))
    return Failure(cause=Cause.TOLD)


def translated(sentence: str, status: str, commands: Iterable[Mapping[str, Any]]) -> Failure:
    """The failure of a trial whose old record has only a sentence. `commands`: as the record lists them."""
    told = cause_of(sentence)
    if told.cause is Cause.TOLD and status == "timeout":
        told = replace(told, cause=Cause.TIMEOUT)
    ended = next((command for command in commands if _is_meant(told, command)), None)
    if ended is None:
        return told
    return replace(failure_of(ended), cause=told.cause, name=told.name, said=told.said)


def _is_meant(told: Failure, command: Mapping[str, Any]) -> bool:
    """Whether this is the command that ended as the sentence says."""
    match told.cause:
        case Cause.OOM:
            return bool((command.get("limits") or {}).get("oom_kills"))
        case Cause.TIMEOUT:
            return command["state"] == "timeout"
        case Cause.SERVER_DIED | Cause.NOT_READY:
            # A server that was asked to end has ended, or was stopped before it was ready.
            return command["label"].startswith("server") and command["state"] != "ended"
        case Cause.EXITED | Cause.SIGNAL:
            return command["state"] == "exited" and bool(command["signal"] or command["exit_status"])
        case _:
            return False
