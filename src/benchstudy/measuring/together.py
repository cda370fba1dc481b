"""Runs commands on several hosts that start at one instant, such as clients of one server.

Each host's agent prepares its command and waits. The clocks of all hosts are compared with this machine's, and an
instant is set. Each host then starts by its own clock, and records when it really did.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from benchstudy.hosts.commands import Command, Gate, Together
from benchstudy.hosts.interrupts import interruptible
from benchstudy.hosts.line import HostClock
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost
from benchstudy.measuring.execution import TrialExecution
from benchstudy.measuring.trialrecord import CommandRecord
from benchstudy.model.clients import CLIENTS_FILE
from benchstudy.model.errors import TrialFailed
from benchstudy.model.files import as_json, write_atomically

# From the last prepared command to the start of all. Sending the instant to each host takes less.
_LEAD_S = 0.3
_ROUND_TRIPS = 5


class Trial(Protocol):
    """As measuring/trial.py has it."""

    files: Path
    roles: dict[str, str]
    commands: list[CommandRecord]

    def execute(self, command: Command, role: str = ...) -> TrialExecution: ...

    def clock(self, role: str = ...) -> HostClock: ...


def execute_together(
    trial: Trial, commands: Mapping[str, Command], label: str, stop_when: threading.Event | None = None
) -> list[TrialExecution]:
    """See TrialContext.execute_together."""
    before = {role: trial.clock(role) for role in commands}
    # The uncertainty of a clock is half the round trip.
    gate = Gate(len(commands), _LEAD_S + _ROUND_TRIPS * 2 * max(clock.uncertainty_s for clock in before.values()))
    ending = stop_when or threading.Event()
    known = len(trial.commands)
    with ThreadPoolExecutor(len(commands), thread_name_prefix=label) as threads:
        running: dict[str, Future[TrialExecution]] = {}
        for number, (role, command) in enumerate(commands.items(), 1):
            placed = replace(
                command, label=f"{label}/{number}", stop_when=ending, together=Together(gate, before[role].offset_s)
            )
            running[role] = threads.submit(_to_its_end, trial, role, number, len(commands), placed)
        try:
            with interruptible():
                done, others = wait(running.values(), return_when=FIRST_EXCEPTION)
        except BaseException:
            ending.set()
            raise
        if others:  # without the failed one, the others have no result either
            ending.set()
    trial.commands[known:] = sorted(trial.commands[known:], key=lambda c: int(c.label.rpartition("/")[2]))
    first = [future for future in running.values() if future in done]
    failed = [error for future in (*first, *others) if (error := future.exception()) is not None]
    if failed:
        # An unreachable host means that there is no result, whatever the others did.
        raise next((error for error in failed if isinstance(error, ConnectionFailed | ConnectionLost)), failed[0])
    found = {role: future.result() for role, future in running.items()}
    after = {role: trial.clock(role) for role in commands}
    document = moments(trial.roles, found, before, after)
    write_atomically(trial.files / label / CLIENTS_FILE, as_json(document))
    return list(found.values())


def _to_its_end(trial: Trial, role: str, number: int, clients: int, command: Command) -> TrialExecution:
    """Raises TrialFailed that names the client whose command failed."""
    try:
        done = trial.execute(command, role)
        if done.execution.state != "ended":
            done.require_success()
    except TrialFailed as error:
        host = trial.roles[role]
        raise TrialFailed(
            f"client {number} of {clients}, {role} on {host}: {error}", replace(error.failure, host=host)
        ) from error
    return done


def moments(
    roles: Mapping[str, str],
    found: Mapping[str, TrialExecution],
    before: Mapping[str, HostClock],
    after: Mapping[str, HostClock],
) -> dict[str, Any]:
    """When each client started and ended, in Unix seconds on this machine's clock.

    `before`, `after`: the clocks of the hosts. If a clock drifted meanwhile, its offset is the mean of both, and the
    drift adds to its uncertainty. `skew_s`: from the first start to the last.
    """
    clients: list[dict[str, Any]] = []
    for number, (role, done) in enumerate(found.items(), 1):
        at, again = before[role], after[role]
        offset_s = (at.offset_s + again.offset_s) / 2
        began, duration_s = done.execution.began, done.execution.duration_s
        if began is None or duration_s is None:
            raise TrialFailed(f"{role} on {roles[role]}: nothing says when its command began")
        start_s = began["at_s"] - offset_s
        clients.append(
            {
                "client": number,
                "role": role,
                "host": roles[role],
                "start_s": round(start_s, 6),
                "end_s": round(start_s + duration_s, 6),
                "late_s": round(began["at_s"] - began["asked_s"], 6),
                "offset_s": round(offset_s, 6),
                "uncertainty_s": round(
                    max(at.uncertainty_s, again.uncertainty_s) + abs(again.offset_s - at.offset_s) / 2, 6
                ),
            }
        )
    starts = [client["start_s"] for client in clients]
    return {"schema": 1, "skew_s": round(max(starts) - min(starts), 6), "clients": clients}
