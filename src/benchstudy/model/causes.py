"""Why a trial failed, as a value that programs ask for. The sentence beside it is for people, and decides nothing."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar


class Cause(StrEnum):
    OOM = "oom"  # the kernel killed it, or a process of it, for want of memory
    DISK_FULL = "disk-full"  # of the host: what it wrote is not all there
    TIMEOUT = "timeout"  # ended at its own timeout
    EXITED = "exited"  # with a status that says that it failed
    SIGNAL = "signal"  # ended by one that nobody of ours sent
    START_FAILED = "start-failed"
    SETUP_FAILED = "setup-failed"  # a step before the command
    NOT_READY = "not-ready"  # a service that was started and never answered, or somebody else did in its place
    SERVER_DIED = "server-died"  # during the trial
    SERVER_HUNG = "server-hung"
    DATA_LOST = "data-lost"  # what the system had accepted is not there any more
    LEASE_EXPIRED = "lease-expired"
    STOPPED = "stopped"
    LOST = "lost"  # the supervisor of a command went away
    HOST_RESTARTED = "host-restarted"
    CONNECTION = "connection"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"  # by the agent on the host
    PARSE = "parse"  # what a tool left cannot be read
    NOT_FOUND = "not-found"  # a figure that was to be in what a tool left
    UNEXPECTED = "unexpected"  # it ended as it should, and said something else than it should
    INTERNAL = "internal"  # a defect of ours
    TOLD = "told"  # in words only


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What happened, with its numbers as far as they are known.

    `name`: of the program or service. `duration_s`: until its end. `limit_bytes`, `peak_bytes`: of its memory.
    `killed`: how many of its processes the kernel killed. `said`: the tail of its output.
    """

    # As part of a record, which refuses what it does not know.
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    cause: Cause
    name: str | None = None
    exit_status: int | None = None
    signal: int | None = None
    duration_s: float | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    killed: int | None = None
    said: str | None = None

    def with_said(self, change: Callable[[str], str]) -> "Failure":
        """The same with what it said changed, such as without secrets."""
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
    """How a command ended that ended badly, of its supervisor's record."""
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
    """Whether the kernel killed the command of a supervisor's record, or a process of it, for want of memory."""
    return record.get("cause_kind") == Cause.OOM


# --- records of before schema 2 -----------------------------------------------------------------------------------

# What a sentence of an old record begins with, the first that matches; `name` and `said` are groups of some.
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
    """What a sentence of an old record says, without the numbers, which its commands have."""
    for pattern, cause in _SENTENCES:
        if match := re.match(pattern, sentence, re.DOTALL):
            parts = match.groupdict()
            return Failure(cause=cause, name=parts.get("name"), said=parts.get("said"))
    return Failure(cause=Cause.TOLD)


def translated(sentence: str, status: str, commands: Iterable[Mapping[str, Any]]) -> Failure:
    """The failure of a trial whose old record has a sentence alone. `commands`: as the record lists them."""
    told = cause_of(sentence)
    if told.cause is Cause.TOLD and status == "timeout":
        told = replace(told, cause=Cause.TIMEOUT)
    ended = next((command for command in commands if _is_meant(told, command)), None)
    if ended is None:
        return told
    return replace(failure_of(ended), cause=told.cause, name=told.name, said=told.said)


def _is_meant(told: Failure, command: Mapping[str, Any]) -> bool:
    """Whether it is this command that ended as the sentence says."""
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
