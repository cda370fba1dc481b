"""One supervised command on a host, seen from the controller: started once, watched through dropped connections."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import uuid4

from benchstudy.hosts.errors import HostRefused, understood
from benchstudy.hosts.heartbeats import Heartbeats
from benchstudy.hosts.line import AgentLine
from benchstudy.hosts.remote import ConnectionLost, RemoteProcess
from benchstudy.model.services import Confinement, Limits

FINAL_STATES = ("exited", "timeout", "lease-expired", "stopped", "start-failed", "setup-failed", "lost", "absent")
_MOST_FRUITLESS_ATTEMPTS = 5
_MOST_SHORT_ATTEMPTS = 50  # consecutive, each over before a heartbeat: the host keeps failing in the same way
_STOP_SEEN_S = 0.5  # how often `stop_when` is checked
_GATE_SEEN_S = 0.02  # how often to check whether all are prepared


class Gate:
    """Where prepared commands on several hosts wait for each other, to begin at the same instant.

    `lead_s`: from the arrival of the last one to that instant, so that every host learns of it in time.
    """

    def __init__(self, parties: int, lead_s: float):
        self._missing, self._lead_s = parties, lead_s
        self._lock = threading.Lock()
        self.opens_at: float | None = None  # on this machine's wall clock, once all have arrived

    def arrive(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing == 0:
                self.opens_at = time.time() + self._lead_s


@dataclass(frozen=True)
class Together:
    """One command's place at a gate. `offset_s`: its host's wall clock minus this machine's."""

    gate: Gate
    offset_s: float


@dataclass(frozen=True)
class Command:
    """What to run on a host. `secret_env` and `stdin` stay in memory there; `env` and `argv` are recorded.

    `max_output_bytes`: of each of stdout and stderr; the rest is dropped and marked as truncated.
    `grace_s`: the time between TERM and KILL when it must end.
    `cleanup`: commands run afterwards, however the command ended.
    `limits`: what it and all its descendants may use; `Limits()` limits nothing and accounts for memory and CPU time.
    `cpu_list`: the CPUs it runs on, such as those that a server beside it does not use.
    `open_files`: how many it must be able to open at once; the state is start-failed when the host cannot give them.
    `terminal`: (rows, columns) of a terminal that is its stdin, stdout and /dev/tty, with TERM=xterm-256color unless
        `env` says another; `stdout` then is what was drawn, byte for byte. stderr stays apart, so that messages do not
        spoil the screen. Nobody types, so `stdin` cannot be given as well.
    `stop_when`: once it is set, here, the command is told to end. Its state is then "ended", which can be a result.
    `program`: for the record of tools, the program of interest, if `argv` only runs it.
    `together`: once prepared, it waits for all others of its gate and begins with them.
    `measured`: a trial's figures come from it, so others on the host may disturb them. Commands that only prepare, warm
        up or fetch results are not measured.

    Raises ValueError for a terminal of an impossible size, or with `stdin`.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout_s: float = 600.0
    grace_s: float = 5.0
    max_output_bytes: int = 16 << 20
    label: str = "command"
    cleanup: Sequence[Sequence[str]] = ()
    limits: Limits | None = None
    cpu_list: tuple[int, ...] | None = None
    open_files: int | None = None
    terminal: tuple[int, int] | None = None
    stop_when: threading.Event | None = None
    program: str | None = None
    together: Together | None = None
    measured: bool = True

    def __post_init__(self) -> None:
        if self.terminal is None:
            return
        if len(self.terminal) != 2 or not all(0 < length < 1 << 16 for length in self.terminal):
            raise ValueError(f"terminal: {self.terminal!r} must be rows and columns, each from 1 to 65535")
        if self.stdin:
            raise ValueError("terminal: stdin cannot be given as well, because the terminal would echo it into stdout")


@dataclass(frozen=True)
class Execution:
    """How a command ended.

    `state`: exited, timeout, lease-expired, stopped, start-failed or lost (the supervisor died, or the host restarted),
        or ended: it was still running when its `stop_when` was set.
    `cause`: why, in a sentence, if the state does not say it all; `cause_kind`: as a Cause, if there is one.
    `exit_status` and `signal`: of the command itself; both None when it did not start or they are unknown.
    `duration_s`: on the host's monotonic clock. `clock_offset_s`: host's wall clock minus this machine's.
    `started`, `finished`: host's, UTC.
    `began`: of one that began together with others: {"asked_s", "at_s"} in Unix seconds on the host's wall clock.
    `limits`: how it was confined, None when nothing was asked: {"kind": "cgroup-v1", "asked": {"cpus", "memory_bytes",
        "cpu_list", "open_files"}, "effective": {"cpus": [0], "memory_bytes": N or None, "open_files": N},
        "peak_memory_bytes", "oom_kills", "cpu_user_s", "cpu_system_s"}; the last four None when unknown.
    `readings`: of what the whole host did: before, during and after the command; see agent/interference.py.
    `run_dir`: on the host: `stdout`, `stderr`, `supervisor.json` and `files/`, where the command ran.
    """

    uuid: str
    argv: tuple[str, ...]
    state: str
    cause: str | None
    cause_kind: str | None
    exit_status: int | None
    signal: int | None
    duration_s: float | None
    started: str
    finished: str
    stdout_truncated: bool
    stderr_truncated: bool
    boot_id: str | None
    load_before: float | None
    load_after: float | None
    clock_offset_s: float | None
    began: Mapping[str, float] | None
    limits: Mapping[str, Any] | None
    readings: Sequence[Mapping[str, Any]] | None
    events: list[str]
    run_dir: str


class SupervisedRun:
    """One command in progress; `to_its_end` returns how it went."""

    def __init__(self, agent: AgentLine, session: str, command: Command):
        self._agent = agent
        self.uuid = str(uuid4())
        self.run_dir = f"{agent.work_dir}/runs/{self.uuid}"
        self._stop_when = command.stop_when
        self._told_to_stop = False
        self._together = command.together
        self._asked = self._is_prepared = self._told_to_start = False
        self._beats = Heartbeats()
        self._spec = {
            "uuid": self.uuid,
            "session": session,
            "lock": agent.lock_path,
            "lease_s": agent.lease_s,
            "label": command.label,
            "argv": [str(argument) for argument in command.argv],
            "env": dict(command.env),
            "secret_env": dict(command.secret_env),
            "stdin": base64.b64encode(command.stdin).decode(),
            "terminal": list(command.terminal) if command.terminal else None,
            "timeout_s": command.timeout_s,
            "grace_s": command.grace_s,
            "max_output_bytes": command.max_output_bytes,
            "cleanup": [list(argv) for argv in command.cleanup],
            "readings": True,
            **({"together": True} if command.together else {}),
            **Confinement(command.limits, command.cpu_list, command.open_files).spec(),
        }

    def to_its_end(self) -> Execution:
        """Start it and wait. Raises as HostAgent.execute does."""
        with understood(self._agent.remote.name):
            return self._execution(self._final_record())

    def _final_record(self) -> dict:
        accepted = False
        fruitless = short = 0
        while True:
            generation, begun = self._agent.generation, time.monotonic()
            try:
                with self._agent.remote.open(self._agent.argv("watch" if accepted else "run", self.run_dir)) as process:
                    for message in self._messages(process, first=not accepted):
                        if message["state"] in FINAL_STATES:
                            return message
                        accepted, fruitless = True, 0
            except ConnectionLost as error:
                fruitless += 1
                short = short + 1 if time.monotonic() - begun < self._agent.beat_s else 0
                if fruitless == _MOST_FRUITLESS_ATTEMPTS or short == _MOST_SHORT_ATTEMPTS:
                    raise
                self._agent.reconnect(error, generation)

    def _messages(self, process: RemoteProcess, first: bool) -> Iterator[dict]:
        """The watcher's messages, with heartbeats sent in between."""
        self._asked = self._told_to_start = False  # even if a lost connection was told
        try:
            if first:
                process.write_line(json.dumps(self._spec).encode())
            told = False
            next_beat = time.monotonic()
            while True:
                wait_s = max(0.0, next_beat - time.monotonic())
                if self._together is not None and not self._told_to_start:
                    wait_s = min(wait_s, _GATE_SEEN_S)
                line = process.read_line(wait_s if self._stop_when is None else min(wait_s, _STOP_SEEN_S))
                if line is None and not told and self._stop_when is not None and self._stop_when.is_set():
                    process.write_line(b'{"stop": true}')
                    told = self._told_to_stop = True
                if line is None and self._together is not None and not (self._told_to_start or self._asked or told):
                    self._wait_at_the_gate(process, self._together)
                elif line is None and time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + self._agent.beat_s
                    process.write_line(self._beats.question())
                if line is None:
                    continue
                message = self._agent.message(line)
                if "beat" in message:
                    self._agent.note_clock(self._beats, message)
                    self._asked = False
                    if message.get("prepared") and not self._is_prepared and self._together is not None:
                        self._is_prepared = True
                        self._together.gate.arrive()
                else:
                    yield message
        except ConnectionLost:
            self._raise_if_agent_failed(process)
            raise
        except (KeyboardInterrupt, SystemExit):
            self._stop(process)
            raise

    def _wait_at_the_gate(self, process: RemoteProcess, place: Together) -> None:
        """Ask whether the host has prepared it, or tell the host when to begin it."""
        opens_at = place.gate.opens_at
        if opens_at is not None:
            process.write_line(json.dumps({"start_at": opens_at + place.offset_s}).encode())
            self._told_to_start = True
        else:
            process.write_line(self._beats.question(prepared=True))
            self._asked = True

    def _raise_if_agent_failed(self, process: RemoteProcess) -> None:
        """An agent that ended with an error looks like a broken connection."""
        with suppress(ConnectionLost):
            status = process.wait(1.0)
            if status not in (None, 0, -1):
                said = b"".join(err for _, err in iter(lambda: process.read(1.0) or (b"", b""), (b"", b"")))
                text = (process.stderr_tail + said.decode(errors="replace")).strip()[-2000:]
                raise HostRefused(f"{self._agent.remote.name}: the agent ended with status {status}: {text}")

    def _stop(self, process: RemoteProcess) -> None:
        """End the command now instead of at the end of its lease."""
        with suppress(ConnectionLost, HostRefused):
            process.write_line(b'{"stop": true}')
            deadline = time.monotonic() + 20.0
            while (left_s := deadline - time.monotonic()) > 0:
                line = process.read_line(left_s)
                if line is None or self._agent.message(line).get("state") in FINAL_STATES:
                    return

    def _execution(self, record: Mapping[str, Any]) -> Execution:
        state = "lost" if record["state"] == "absent" else record["state"]
        if state == "stopped" and self._told_to_stop:
            state = "ended"
        unknown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        defaults = {"started": unknown, "finished": unknown, "stdout_truncated": False, "stderr_truncated": False}
        ours = {
            "uuid": self.uuid,
            "argv": tuple(self._spec["argv"]),
            "state": state,
            "clock_offset_s": self._agent.last_clock_offset_s,
            "events": events_of(record),
            "run_dir": self.run_dir,
        }
        return Execution(**{f.name: record.get(f.name, defaults.get(f.name)) for f in fields(Execution)} | ours)


def events_of(record: Mapping[str, Any]) -> list[str]:
    """What a supervisor noted, one line per event."""
    return [f"{e['at']} {e['event']}: {e['detail']}" for e in record.get("events", ())]
