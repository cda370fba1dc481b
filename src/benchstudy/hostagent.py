"""The controller's side of the agent on a host: put it there, run supervised commands, services and the host's lock."""

import base64
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from uuid import uuid4

from benchstudy.hosterrors import HostBusy, HostRefused, LockLost, ServiceFailed
from benchstudy.hostlock import HostLock
from benchstudy.hostservices import RunningService, start_service, stop_service
from benchstudy.remote import CommandFailed, ConnectionFailed, ConnectionLost, Remote, RemoteProcess
from benchstudy.services import Service

__all__ = [
    "Command",
    "Execution",
    "HostAgent",
    "HostBusy",
    "HostLock",
    "HostRefused",
    "LockLost",
    "RunningService",
    "ServiceFailed",
]

T = TypeVar("T")

MOST_ATTEMPTS = 5
FINAL_STATES = (
    "exited",
    "timeout",
    "lease-expired",
    "stopped",
    "start-failed",
    "setup-failed",
    "lost",
    "absent",
)

# Runs before there is an agent, on whatever Python the host has.
BOOTSTRAP = """
import hashlib, json, os, sys
work, agent = sys.argv[1:3]
problem = None
if sys.version_info < (3, 9):
    problem = "its Python is %d.%d; 3.9 or newer is needed" % sys.version_info[:2]
elif os.path.islink(work):
    problem = "the work folder %s is a symbolic link; give the real path as work_dir" % work
elif os.path.realpath(work) in ("/", os.path.realpath(os.path.expanduser("~"))):
    problem = "the work folder %s is the root folder or the home; give one below it as work_dir" % work
else:
    try:
        os.makedirs(work, 0o700, exist_ok=True)
        if os.stat(work).st_uid != os.geteuid():
            problem = "the work folder %s belongs to another user; give one of your own as work_dir" % work
        elif not os.access(work, os.W_OK | os.X_OK):
            problem = "the work folder %s is not writable" % work
    except OSError as error:
        problem = "the work folder %s cannot be made: %s" % (work, error.strerror)
digest = None
if problem is None and os.path.isdir(agent):
    found = hashlib.sha256()
    for name in sorted(n for n in os.listdir(agent) if n.endswith(".py")):
        with open(os.path.join(agent, name), "rb") as file:
            found.update(name.encode() + b"\\0" + file.read() + b"\\0")
    digest = found.hexdigest()
print(json.dumps({"problem": problem, "digest": digest}))
"""


@dataclass(frozen=True)
class Command:
    """What to run on a host. `secret_env` and `stdin` stay in memory there; `env` and `argv` are recorded.

    `max_output_bytes`: of each of stdout and stderr; what is beyond is dropped and marked as truncated.
    `grace_s`: between TERM and KILL when it must end.
    `cleanup`: commands run afterwards, however the command ended.
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


@dataclass(frozen=True)
class Execution:
    """How a command ended.

    `state`: exited, timeout, lease-expired, stopped, start-failed or lost (the supervisor died, or the host restarted).
    `exit_status` and `signal`: of the command itself; both None when it did not start or is unknown.
    `duration_s`: on the host's monotonic clock. `clock_offset_s`: host's wall clock minus this machine's.
    `clock_step_s`: how far the host's wall clock was set while the command ran. `started`, `finished`: host's, UTC.
    `oom_kills`: processes the kernel killed for want of memory meanwhile, anywhere on the host.
    `run_dir`: on the host: `stdout`, `stderr`, `supervisor.json` and `files/`, where the command ran.
    """

    uuid: str
    argv: tuple[str, ...]
    state: str
    cause: str | None
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
    clock_step_s: float | None
    oom_kills: int | None
    max_rss_bytes: int | None
    cpu_user_s: float | None
    cpu_system_s: float | None
    survivors: tuple[str, ...]
    events: list[str]
    run_dir: str


class HostAgent:
    """One host's agent over one connection. Make it with `deploy`; its methods may be called from several threads."""

    def __init__(
        self,
        remote: Remote,
        *,
        lease_s: float,
        reconnect_s: float,
        on_event: Callable[[str], None],
        lock_path: str | None = None,
    ):
        """`lock_path`: the host's lock file; $BENCHSTUDY_HOST_LOCK here, then on the host, then a path in /tmp."""
        self.remote, self.lease_s, self.reconnect_s, self.on_event = remote, lease_s, reconnect_s, on_event
        self.lock_path = lock_path or os.environ.get("BENCHSTUDY_HOST_LOCK", "")
        self.sha256 = agent_sha256()
        self.work_dir = remote.expand(remote.host.work_dir)
        self.directory = f"{self.work_dir}/agent-{self.sha256[:12]}"
        self.beat_s = min(10.0, lease_s / 4)
        self._offset: tuple[float, float] | None = None  # (round trip, offset), the best so far
        self._lock: HostLock | None = None
        self._reconnecting = threading.Lock()
        self._unreachable: ConnectionFailed | None = None
        self.generation = 0  # of the connection

    @classmethod
    def deploy(cls, remote: Remote, **options: Any) -> "HostAgent":
        """The agent, put on the host unless this very version is there. Options as for the constructor.

        Raises HostRefused: no Python 3.9, or a work folder that is a link, the home, another user's, or not writable.
        """
        agent = cls(remote, **options)
        if agent._present() is None:
            agent._put()
        return agent

    def _present(self) -> str | None:
        argv = [self.remote.host.python, "-I", "-c", BOOTSTRAP, self.work_dir, self.directory]
        try:
            answer = json.loads(self.remote.run(argv).text)
        except CommandFailed as error:
            python, status = self.remote.host.python, error.completed.exit_status
            if status in (126, 127):
                raise HostRefused(
                    f"{self.remote.name}: there is no {python!r}; provisioning installs it, or name another as "
                    f"hosts.{self.remote.name}.python"
                ) from error
            raise HostRefused(f"{self.remote.name}: {python} does not work: {error}") from error
        if answer["problem"]:
            raise HostRefused(f"{self.remote.name}: {answer['problem']}")
        if answer["digest"] not in (None, self.sha256):
            raise HostRefused(f"{self.remote.name}: {self.directory} was altered; remove that folder")
        return answer["digest"]

    def _put(self) -> None:
        arriving = f"{self.directory}.part-{token_hex(4)}"
        with tempfile.TemporaryDirectory(prefix="benchstudy-agent-") as staging:
            for name, content in _sources().items():
                Path(staging, name).write_bytes(content)
            self.remote.put_tree(Path(staging), arriving)
        # It gets its name only when all of it has arrived; another session may have been faster.
        moved = self.remote.run(["mv", "-T", "--", arriving, self.directory], check=False)
        if moved.exit_status != 0:
            self.remote.run(["rm", "-rf", "--", arriving])
        if self._present() is None:
            raise HostRefused(f"{self.remote.name}: {self.directory} could not be made")

    def argv(self, command: str, *args: str) -> list[str]:
        """The command line that runs an agent command on the host."""
        return [self.remote.host.python, "-I", self.directory, command, *args]

    def call(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """Ask the agent something quick, unsupervised; its answer from JSON. It may be asked twice after a lost connection.

        Raises HostRefused with what the agent says is wrong.
        """
        return self.retrying(lambda: self.ask(command, *args, input=input, timeout_s=timeout_s))

    def ask(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """As `call`, but asked once. Raises also ConnectionLost."""
        done = self.remote.run(self.argv(command, *args), input=input, timeout_s=timeout_s, check=False)
        answer = None
        with suppress(ValueError):
            answer = json.loads(done.stdout)
        if isinstance(answer, dict) and "error" in answer and done.exit_status != 0:
            raise HostRefused(f"{self.remote.name}: {answer['error']}")
        if done.exit_status != 0 or answer is None:
            said = done.stderr.decode(errors="replace").strip()[-2000:] or f"no JSON: {done.text[:200]!r}"
            raise HostRefused(f"{self.remote.name}: the agent's {command} ended with status {done.exit_status}: {said}")
        return answer

    def retrying(self, attempt: Callable[[], T]) -> T:
        """`attempt()`, done again after a lost connection. Raises ConnectionLost when that goes on happening."""
        for _ in range(MOST_ATTEMPTS - 1):
            generation = self.generation
            try:
                return attempt()
            except ConnectionLost as error:
                self.reconnect(error, generation)
        return attempt()

    def reconnect(self, error: Exception, generation: int) -> None:
        """Get the connection back, as long as the study allows, unless another thread did since `generation`.

        Raises a ConnectionFailed when that does not work.
        """
        with self._reconnecting:
            if generation != self.generation:
                return
            if self._unreachable is not None:  # another thread tried for as long as one may
                raise self._unreachable
            self.on_event(f"{error}; reconnecting")
            begun = time.monotonic()
            try:
                self.remote.reconnect(self.reconnect_s)
            except ConnectionFailed as final:
                self._unreachable = final
                raise
            self.generation += 1
            self.on_event(f"{self.remote.name}: connected again after {time.monotonic() - begun:.1f} s")

    # --- lock and clock --------------------------------------------------------------------------------------

    def lock(self, session: str, owner: Mapping[str, Any]) -> HostLock:
        """The host for this session alone; a context manager, see HostLock. Raises HostBusy, HostRefused."""
        self._lock = HostLock(self, session, owner)
        return self._lock

    @property
    def held_lock_path(self) -> str:
        """Where on the host the lock is that this session holds; what it starts is marked with it."""
        return self._lock.path if self._lock else self.lock_path

    def note_clock(self, sent: float, received: float, host_wall: float) -> None:
        """Learn from one question and answer; the quickest one told most about the clock."""
        round_trip, offset = received - sent, host_wall - (sent + received) / 2
        if self._offset is None or round_trip <= self._offset[0] * 1.5:
            self._offset = (round_trip, offset)

    def clock_offset_s(self) -> float:
        """The host's wall clock minus this machine's, asked now."""
        self._offset = None
        with self.remote.open(self.argv("clock")) as process:
            for number in range(4):
                sent = time.time()
                process.write_line(json.dumps({"beat": number}).encode())
                line = process.read_line(30.0)
                if not line:
                    raise HostRefused(f"{self.remote.name}: the agent does not tell the time: {process.stderr_tail}")
                self.note_clock(sent, time.time(), json.loads(line)["wall"])
        return self._offset[1]

    # --- commands --------------------------------------------------------------------------------------------

    def execute(self, session: str, command: Command) -> Execution:
        """Run a command under the supervisor to its end, through dropped connections. Its files stay on the host.

        Raises:
            HostRefused: the agent could not even start a supervisor.
            LockLost: the session does not hold the host any more.
            ConnectionFailed: the host could not be reached again in time; what runs there ends with its lease.
        """
        if self._lock is not None:
            self._lock.check()
        uuid = str(uuid4())
        run_dir = f"{self.work_dir}/runs/{uuid}"
        spec = {
            "uuid": uuid,
            "session": session,
            "lock": self.held_lock_path,
            "lease_s": self.lease_s,
            "label": command.label,
            "argv": [str(argument) for argument in command.argv],
            "env": dict(command.env),
            "secret_env": dict(command.secret_env),
            "stdin": base64.b64encode(command.stdin).decode(),
            "timeout_s": command.timeout_s,
            "grace_s": command.grace_s,
            "max_output_bytes": command.max_output_bytes,
            "cleanup": [list(argv) for argv in command.cleanup],
        }
        return self._execution(run_dir, spec, self._supervised(run_dir, json.dumps(spec).encode()))

    def _supervised(self, run_dir: str, spec: bytes) -> dict:
        """The final record of the run."""
        accepted = False
        fruitless = 0
        while True:
            generation = self.generation
            try:
                with self.remote.open(self.argv("watch" if accepted else "run", run_dir)) as process:
                    for message in self._messages(process, None if accepted else spec):
                        if message["state"] in FINAL_STATES:
                            return message
                        accepted, fruitless = True, 0
            except ConnectionLost as error:
                fruitless += 1
                if fruitless == MOST_ATTEMPTS:
                    raise
                self.reconnect(error, generation)

    def _messages(self, process: RemoteProcess, spec: bytes | None) -> Iterator[dict]:
        """What the watcher says, heartbeats sent in between."""
        try:
            if spec is not None:
                process.write_line(spec)
            sent = 0.0
            next_beat = time.monotonic()
            while True:
                line = process.read_line(max(0.0, next_beat - time.monotonic()))
                if line is None:
                    sent, next_beat = time.time(), time.monotonic() + self.beat_s
                    process.write_line(b'{"beat": 0}')
                    continue
                message = self.parse_line(process, line)
                if "beat" in message:
                    self.note_clock(sent, time.time(), message["wall"])
                else:
                    yield message
        except ConnectionLost:
            self._raise_if_agent_failed(process)
            raise
        except (KeyboardInterrupt, SystemExit):
            self._stop(process)
            raise

    def _raise_if_agent_failed(self, process: RemoteProcess) -> None:
        """An agent that ended on an error breaks the conversation just as a broken connection does."""
        with suppress(ConnectionLost):
            status = process.wait(1.0)
            if status not in (None, 0, -1):
                said = b"".join(err for _, err in iter(lambda: process.read(1.0) or (b"", b""), (b"", b"")))
                text = (process.stderr_tail + said.decode(errors="replace")).strip()[-2000:]
                raise HostRefused(f"{self.remote.name}: the agent ended with status {status}: {text}")

    def parse_line(self, process: RemoteProcess, line: bytes) -> dict:
        """One message. Raises ConnectionLost at the end of the output, HostRefused for an error of the agent."""
        if not line:
            raise ConnectionLost(f"{self.remote.name}: the agent's watcher ended")
        message = json.loads(line)
        if "error" in message:
            raise HostRefused(f"{self.remote.name}: {message['error']}")
        return message

    def _stop(self, process: RemoteProcess) -> None:
        """End the command now, not only at the end of its lease."""
        with suppress(ConnectionLost, HostRefused):
            process.write_line(b'{"stop": true}')
            deadline = time.monotonic() + 20.0
            while (left_s := deadline - time.monotonic()) > 0:
                line = process.read_line(left_s)
                if line is None or self.parse_line(process, line).get("state") in FINAL_STATES:
                    return

    def _execution(self, run_dir: str, spec: Mapping[str, Any], record: Mapping[str, Any]) -> Execution:
        state = "lost" if record["state"] == "absent" else record["state"]
        events = [f"{e['at']} {e['event']}: {e['detail']}" for e in record.get("events", ())]
        unknown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return Execution(
            uuid=spec["uuid"],
            argv=tuple(spec["argv"]),
            state=state,
            cause=record.get("cause"),
            started=record.get("started", unknown),
            finished=record.get("finished", unknown),
            stdout_truncated=record.get("stdout_truncated", False),
            stderr_truncated=record.get("stderr_truncated", False),
            clock_offset_s=self._offset[1] if self._offset else None,
            survivors=tuple(record.get("survivors", ())),
            events=events,
            run_dir=run_dir,
            **{name: record.get(name) for name in _AS_RECORDED},
        )

    def fetch(self, execution: Execution, into: Path) -> None:
        """Bring `stdout`, `stderr`, `supervisor.json` and `files/` of an execution into the folder `into`."""
        self.retrying(lambda: self.remote.get_tree(execution.run_dir, into))
        (into / ".benchstudy").unlink(missing_ok=True)

    def discard(self, execution: Execution) -> None:
        """Remove the execution's folder from the host; once is enough."""
        self.call("remove", execution.uuid, execution.run_dir)

    # --- services, folders, facts ----------------------------------------------------------------------------

    def start_service(
        self,
        session: str,
        name: str,
        service: Service,
        needed: Mapping[str, RunningService] | None = None,
        libraries: Mapping[str, str] | None = None,
    ) -> RunningService:
        """Start a service and wait until it is ready and proven to be ours. The lock's heartbeat keeps it alive.

        Raises ServiceFailed with the tail of its log.
        """
        return start_service(self, session, name, service, needed or {}, libraries or {})

    def stop_service(self, running: RunningService, into: Path | None = None) -> None:
        """End a service, bring its logs into the folder `into`, and remove its folder."""
        stop_service(self, running, into)

    def service_status(self, running: RunningService) -> dict[str, Any]:
        """{"state": "running" while it lives, "cause", "log": the tail}"""
        return self.call("service-status", running.folder)

    def scratch(self, session: str, parent: str) -> str:
        """The session's own folder below `parent`; it goes when the lock does, or when the lease is over."""
        return self.call("scratch", f"{self.work_dir}/sessions/{session}", self.remote.expand(parent))["path"]

    def sweep(self) -> dict[str, list[str]]:
        """End and remove what earlier sessions left: {"ended", "removed", "kept"}. Only while holding the lock."""
        if self._lock is None:
            raise HostRefused(f"{self.remote.name}: sweeping needs the host's lock")
        self._lock.check()
        swept = self.call("sweep", self.work_dir, self._lock.session, self._lock.path, timeout_s=600.0)
        for what in ("ended", "removed"):
            if swept[what]:
                self.on_event(f"{self.remote.name}: {what} what an earlier session left: {', '.join(swept[what])}")
        return swept

    def facts(self, tools: Sequence[str] = ()) -> dict[str, Any]:
        """The host's environment (agent/facts.py), with `clock.offset_s` against this machine; unknown facts are None."""
        found = self.call("facts", *tools)
        found["clock"]["offset_s"] = self.clock_offset_s()
        return found

    def tool(self, program: str) -> dict[str, str | None]:
        """{"path", "version", "sha256"} of a program on the host, None for what is unknown."""
        return self.call("tool", program)


_AS_RECORDED = (
    "exit_status",
    "signal",
    "duration_s",
    "boot_id",
    "load_before",
    "load_after",
    "clock_step_s",
    "oom_kills",
    "max_rss_bytes",
    "cpu_user_s",
    "cpu_system_s",
)


@cache
def _sources() -> dict[str, bytes]:
    """The agent's files, read once: what is put must be what was hashed, even if somebody edits them meanwhile."""
    return {path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "agent").glob("*.py"))}


@cache
def agent_sha256() -> str:
    """Of the agent's code: the instrument that measures on the host."""
    digest = hashlib.sha256()
    for name, content in _sources().items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()
