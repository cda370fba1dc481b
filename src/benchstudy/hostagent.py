"""The controller's side of the agent on a host: put it there, run supervised commands, services and the host's lock."""

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from benchstudy.hostcommands import Command, Execution, SupervisedRun
from benchstudy.hostdesk import HostDesk
from benchstudy.hosterrors import HostBusy, HostRefused, LockLost, ServiceFailed
from benchstudy.hostlock import HostLock
from benchstudy.hostservices import RunningService, start_service, stop_service
from benchstudy.remote import CommandFailed, ConnectionFailed, ConnectionLost, Remote
from benchstudy.services import Confinement, Service

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
        self.tools_dir = f"{self.work_dir}/tools/bin"  # where provisioning puts programs
        self.beat_s = min(10.0, lease_s / 4)
        self._offset: tuple[float, float] | None = None  # (round trip, offset), the best so far
        self._lock: HostLock | None = None
        self._reconnecting = threading.Lock()
        self._unreachable: ConnectionFailed | None = None
        self.generation = 0  # of the connection
        self._desk = HostDesk(self)

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
        # -S: the agent needs the standard library only, and some hosts take long to look through everything else.
        return [self.remote.host.python, "-I", "-S", self.directory, command, *args]

    def call(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """Ask the agent something quick, unsupervised; its answer from JSON.

        After a lost connection it is asked again. Raises HostRefused with what the agent says is wrong.
        """
        return self.retrying(lambda: self.ask(command, *args, input=input, timeout_s=timeout_s))

    def ask(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """As `call`, but asked once. Raises also ConnectionLost."""
        done = self._desk.ask((command, *args), input, timeout_s)
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
    def last_clock_offset_s(self) -> float | None:
        """The host's wall clock minus this machine's, as the heartbeats told it."""
        return self._offset[1] if self._offset else None

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
        execution = SupervisedRun(self, session, command).to_its_end()
        if self._lock is not None:
            # Whoever got the lock may have ended the command, or measured beside it.
            self._lock.check()
        return execution

    def message(self, line: bytes) -> dict:
        """One message. Raises ConnectionLost at the end of the output, HostRefused for an error of the agent."""
        if not line:
            raise ConnectionLost(f"{self.remote.name}: the agent's watcher ended")
        message = json.loads(line)
        if "error" in message:
            raise HostRefused(f"{self.remote.name}: {message['error']}")
        return message

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
        *,
        confinement: Confinement | None = None,
        bind: str | None = "127.0.0.1",
        secrets: Mapping[str, str] | None = None,
        into: Path | None = None,
    ) -> RunningService:
        """Start a service and wait until it is ready and proven to be ours. The lock's heartbeat keeps it alive.

        Args:
            confinement: what the server itself is held to; its setup steps are free.
            bind: what `{{bind}}` stands for; None refuses a service that says it.
            secrets: those that the caller knows already; the others are made up.
            into: a folder here that gets its logs should it not come up.

        Raises ServiceFailed with the tail of its log; "OOM: …" when the kernel killed it at its memory limit.
        """
        return start_service(
            self,
            session,
            name,
            service,
            needed or {},
            libraries or {},
            confinement=confinement or Confinement(),
            bind=bind,
            secrets=secrets or {},
            into=into,
        )

    def stop_service(self, running: RunningService, into: Path | None = None) -> None:
        """End a service, bring its logs into the folder `into`, and remove its folder; sets `running.record`."""
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
        """The host's environment (agent/facts.py), with `clock.offset_s` to this machine; the unknown is None."""
        found = self.call("facts", *tools)
        found["clock"]["offset_s"] = self.clock_offset_s()
        return found

    def tool(self, program: str) -> dict[str, str | None]:
        """{"path", "version", "sha256"} of a program on the host, None for what is unknown."""
        return self.call("tool", program)


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
