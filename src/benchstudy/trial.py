"""What a family gets to run one trial with: commands, services, folders and secrets on the target's hosts."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchstudy import shipping
from benchstudy.errors import BenchstudyError, TrialFailed
from benchstudy.families.base import FamilyConfig
from benchstudy.hostagent import Command, Execution, HostAgent, RunningService, ServiceFailed
from benchstudy.raw import CommandRecord, ToolRecord
from benchstudy.remote import Completed, Remote
from benchstudy.study import SessionPlan

T = TypeVar("T")

_REDACTED = "«redacted»"
_CAUSE_TAIL_BYTES = 600


@dataclass(frozen=True)
class HostConnection:
    """An open, locked host."""

    remote: Remote
    agent: HostAgent


@dataclass(frozen=True)
class TrialExecution:
    """A finished command whose files are here: `stdout`, `stderr`, and what it wrote in `files`."""

    execution: Execution
    stdout: Path
    stderr: Path
    files: Path

    def require_success(self) -> None:
        """Raises TrialFailed with the way the command ended and the tail of what it said."""
        e = self.execution
        if e.state == "exited" and e.exit_status == 0:
            return
        name = Path(e.argv[0]).name
        if e.state == "timeout":
            raise TrialFailed(f"{name} was ended at its timeout, after {e.duration_s:.0f} s")
        if e.state != "exited":
            raise TrialFailed(f"{name}: {e.state}{_said(self.stderr)}")
        how = f"was ended by signal {e.signal}" if e.signal else f"exited with status {e.exit_status}"
        raise TrialFailed(f"{name} {how}{_said(self.stderr) or _said(self.stdout)}")


def _said(path: Path) -> str:
    """The last words in a file, as an ending of a cause."""
    if not path.is_file() or not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _CAUSE_TAIL_BYTES))
        text = " / ".join(line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip())
    return f": {text}"


class SessionState:
    """What trials of one session share: hosts, services, things made once, secrets to keep out of files."""

    def __init__(
        self,
        uuid: str,
        plan: SessionPlan,
        hosts: Mapping[str, HostConnection],
        folder: Path,
        on_event: Callable[[str], None],
    ):
        self.uuid, self.plan, self.hosts, self.folder, self.event = uuid, plan, hosts, folder, on_event
        self._services: dict[str, RunningService | str] = {}
        self._made: dict[str, Any] = {}
        self._tools: dict[tuple[str, str], ToolRecord] = {}
        self._libraries: dict[tuple[str, str], str] = {}
        self._scratch: dict[tuple[str, str], str] = {}
        self._secrets: set[str] = set()

    def host(self, role: str) -> HostConnection:
        if role not in self.plan.roles:
            raise TrialFailed(f"target {self.plan.target} gives no host the role {role!r}; add it under targets")
        return self.hosts[self.plan.roles[role]]

    def service(self, name: str) -> RunningService:
        """Up and ready, started at its first use. One that could not start fails each trial with the same cause."""
        if name not in self._services:
            self._services[name] = self._start(name)
        running = self._services[name]
        if isinstance(running, str):
            raise TrialFailed(running)
        return running

    def _start(self, name: str) -> RunningService | str:
        spec = self.plan.config.services.get(name)
        if spec is None:
            return f"the study describes no service {name!r}"
        try:
            needed = {other: self.service(other) for other in spec.needs}
            libraries = {library: self.library(library, spec.role) for library in spec.libraries}
            running = self.host(spec.role).agent.start_service(self.uuid, name, spec, needed, libraries)
        except (ServiceFailed, TrialFailed) as error:
            return f"service {name}: {error}"
        self._secrets.update(running.secrets.values())
        return running

    def library(self, name: str, role: str) -> str:
        connection = self.host(role)
        key = (connection.remote.name, name)
        if key not in self._libraries:
            work_dir = connection.remote.expand(connection.remote.host.work_dir)
            self._libraries[key] = shipping.ship(connection.remote, work_dir, name)
        return self._libraries[key]

    def scratch(self, parent: str, role: str) -> str:
        connection = self.host(role)
        key = (connection.remote.name, parent)
        if key not in self._scratch:
            self._scratch[key] = connection.agent.scratch(self.uuid, parent)
        return self._scratch[key]

    def once(self, key: str, make: Callable[[], T]) -> T:
        if key not in self._made:
            try:
                self._made[key] = make()
            except TrialFailed as error:
                self._made[key] = error
        if isinstance(self._made[key], TrialFailed):
            raise TrialFailed(str(self._made[key]))
        return self._made[key]

    def tool(self, role: str, program: str) -> ToolRecord:
        """Which binary `program` is on the role's host; asked once a session."""
        connection = self.host(role)
        key = (connection.remote.name, program)
        if key not in self._tools:
            self._tools[key] = ToolRecord(name=Path(program).name, **connection.agent.tool(program))
        return self._tools[key]

    def secret(self, env_name: str) -> str:
        value = os.environ.get(env_name, "")
        if not value:
            raise TrialFailed(f"the environment variable {env_name} is not set where snakemake runs")
        self._secrets.add(value)
        return value

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _REDACTED)
        return text

    def redact_files(self, folder: Path) -> None:
        """A tool may print the key it was given; no raw file keeps it."""
        for path in (p for p in folder.rglob("*") if p.is_file()):
            content = path.read_bytes() if self._secrets else b""
            if any(secret.encode() in content for secret in self._secrets):
                for secret in self._secrets:
                    content = content.replace(secret.encode(), _REDACTED.encode())
                path.write_bytes(content)

    def close(self) -> None:
        """End services in the reverse order of their start, and keep their logs with the session."""
        for name, running in reversed(self._services.items()):
            if isinstance(running, str):
                continue
            agent = self.host(self.plan.config.services[name].role).agent
            try:
                agent.stop_service(running, self.folder / "services" / name)
            except BenchstudyError as error:  # the host's lease ends it
                self.event(f"service {name} could not be ended politely: {error}")
        self.redact_files(self.folder)


class TrialContext:
    """One trial in the making. `files` is its folder here, on the controller."""

    def __init__(self, state: SessionState, uuid: str, files: Path, block: int):
        self._state = state
        self.uuid, self.files, self.block = uuid, files, block
        self.config: FamilyConfig = state.plan.config
        self.roles = state.plan.roles
        self.study, self.target, self.session = state.plan.study.study, state.plan.target, state.uuid
        self.commands: list[CommandRecord] = []
        self.notes: dict[str, Any] = {}

    def execute(self, command: Command, role: str = "sut") -> TrialExecution:
        """Run one command under the supervisor on the role's host and fetch everything it left."""
        connection = self._state.host(role)
        agent = connection.agent
        tool = self._state.tool(role, command.argv[0])
        self._state._secrets.update(command.secret_env.values())
        execution = agent.execute(self._state.uuid, command)
        into = self.files if command.label == "command" else self.files / command.label
        try:
            agent.fetch(execution, into)
        finally:
            agent.discard(execution)
        self.commands.append(
            CommandRecord(
                label=command.label,
                role=role,
                host=connection.remote.name,
                argv=list(execution.argv),
                tool=tool,
                **{name: getattr(execution, name) for name in _FROM_EXECUTION},
            )
        )
        return TrialExecution(execution, into / "stdout", into / "stderr", into / "files")

    def agent_argv(self, command: str, *args: str, role: str = "sut") -> list[str]:
        return self._state.host(role).agent.argv(command, *args)

    def agent_call(self, command: str, *args: str, input: bytes = b"", role: str = "sut") -> Any:
        """A quick question to the host, answered in JSON; not part of what is measured."""
        return self._state.host(role).agent.call(command, *args, input=input)

    def library(self, name: str, role: str = "sut") -> str:
        """Where on the host something shipped from here lies, such as "boto3"."""
        return self._state.library(name, role)

    def scratch(self, parent: str, role: str = "sut") -> str:
        """The session's own marked folder below `parent` on the host; removed at the session's end."""
        return self._state.scratch(parent, role)

    def service(self, name: str) -> RunningService:
        return self._state.service(name)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """`make()` at the first call in this session, its result (or failure) at every other."""
        return self._state.once(key, make)

    def secret(self, env_name: str) -> str:
        """A secret from the controller's environment; it is kept out of every file."""
        return self._state.secret(env_name)

    def note(self, **facts: Any) -> None:
        """What was verified about this trial: file system type, cache state, limits."""
        self.notes.update(facts)


_FROM_EXECUTION = (
    "state",
    "exit_status",
    "signal",
    "started",
    "finished",
    "duration_s",
    "stdout_truncated",
    "stderr_truncated",
    "boot_id",
    "load_before",
    "load_after",
    "clock_offset_s",
    "events",
)


class HostCheck:
    """What a family looks at a host with, for `benchstudy check`. Nothing is measured and nothing is left behind."""

    def __init__(self, connection: HostConnection, roles: Iterable[str]):
        self._connection = connection
        self.name = connection.remote.name
        self.roles = tuple(roles)
        self.findings: list[tuple[bool, str, str]] = []

    def run(self, argv: Sequence[str], check: bool = False) -> Completed:
        return self._connection.remote.run(argv, check=check)

    def which(self, tool: str) -> str | None:
        return self._connection.agent.tool(tool).get("path")

    def path_info(self, path: str) -> dict[str, Any]:
        return self._connection.agent.call("path-info", self._connection.remote.expand(path))

    def ok(self, text: str) -> None:
        self.findings.append((True, text, ""))

    def problem(self, text: str, fix: str) -> None:
        self.findings.append((False, text, fix))
