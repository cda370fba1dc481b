"""What a family gets to run one trial with: commands, services, folders and secrets on the target's hosts."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from benchstudy import shipping
from benchstudy.errors import BenchstudyError, TrialFailed
from benchstudy.families.base import FamilyConfig
from benchstudy.hostagent import Command, Execution, HostAgent, RunningService, ServiceFailed
from benchstudy.hostservices import how_it_ended, no_address
from benchstudy.raw import CommandRecord, ToolRecord
from benchstudy.remote import Completed, ConnectionFailed, ConnectionLost, Remote
from benchstudy.services import Confinement, Limits, Service
from benchstudy.study import SessionPlan

T = TypeVar("T")

_REDACTED = "«redacted»"
_CAUSE_TAIL_BYTES = 600
_LOOPBACK = "127.0.0.1"
_CHECK_TIMEOUT_S = 120.0
# Servers lie where the path of a user who is not root does not lead.
_FIND_PROGRAM = 'PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; command -v -- "$1"'


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
        if e.cause and e.cause.startswith("OOM:"):
            raise TrialFailed(e.cause)
        if e.state == "exited" and e.exit_status == 0:
            return
        name = Path(e.argv[0]).name
        if e.state == "timeout":
            raise TrialFailed(f"{name} was ended at its timeout, after {e.duration_s:.0f} s")
        if e.state != "exited":
            raise TrialFailed(f"{name}: {e.state}{f': {e.cause}' if e.cause else ''}{_said(self.stderr)}")
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
        self._tool_paths: dict[tuple[str, str], str] = {}
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
        try:
            return self.start(name)
        except TrialFailed as error:
            return str(error)

    def start(
        self,
        name: str,
        confinement: Confinement | None = None,
        into: Path | None = None,
        beside: Sequence[RunningService] = (),
        also: Mapping[str, RunningService] | None = None,
    ) -> RunningService:
        """A fresh instance of a service of the study, with what it needs; the caller ends it. Raises TrialFailed.

        What it needs and is among `beside` is taken from there; the rest is up for the session. `also`: by the name
        that its placeholders have for them, services of which the study cannot say beforehand which they are.
        """
        spec = self.described(name)
        try:
            given = {running.name: running for running in beside}
            needed = {other: given.get(other) or self.service(other) for other in spec.needs}
            needed |= also or {}
            libraries = {library: self.library(library, spec.role) for library in spec.libraries}
            secrets = {secret: token_hex(16) for secret in spec.secrets}
            secrets |= {secret: self.secret(variable) for secret, variable in spec.secret_env.items()}
            self._secrets.update(secrets.values())
            return self.host(spec.role).agent.start_service(
                self.uuid,
                name,
                spec,
                needed,
                libraries,
                confinement=confinement,
                bind=self.address(spec.role),
                secrets=secrets,
                into=into,
            )
        except ServiceFailed as error:
            # What a table's cell shows first is what happened, not to whom.
            text = str(error) if str(error).startswith("OOM:") else f"service {name}: {error}"
            raise ServiceFailed(text, error.record) from error
        except TrialFailed as error:
            raise TrialFailed(f"service {name}: {error}") from error

    def hold(self, name: str, service: Service, secrets: Mapping[str, str], into: Path) -> RunningService:
        self._secrets.update(secrets.values())
        agent = self.host(service.role).agent
        self._services[name] = running = agent.start_service(self.uuid, name, service, secrets=secrets, into=into)
        return running

    def described(self, name: str) -> Service:
        if name not in self.plan.config.services:
            raise TrialFailed(f"the study describes no service {name!r}")
        return self.plan.config.services[name]

    def address(self, role: str) -> str | None:
        """Where the target's hosts reach servers of the role's host; None when the study does not say it."""
        host = self.host(role).remote.host
        return _LOOPBACK if len(self.plan.hosts) == 1 else host.service_address

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

    def tool_path(self, program: str, role: str) -> str:
        connection = self.host(role)
        key = (connection.remote.name, program)
        if key not in self._tool_paths:
            provisioned = f"{connection.agent.tools_dir}/{program}"
            if connection.remote.run(["test", "-x", provisioned], check=False).exit_status == 0:
                self._tool_paths[key] = provisioned
            else:
                found = connection.remote.run(["sh", "-c", _FIND_PROGRAM, "sh", program], check=False).text.strip()
                if not found.startswith("/"):
                    raise TrialFailed(
                        f"{program} is missing on {connection.remote.name}: provisioning puts it into "
                        f"{connection.agent.tools_dir}, or install it there so that it is found on the PATH"
                    )
                self._tool_paths[key] = found
        return self._tool_paths[key]

    def secret(self, env_name: str) -> str:
        value = os.environ.get(env_name, "")
        if not value:
            raise TrialFailed(f"the environment variable {env_name} is not set where snakemake runs")
        self._secrets.add(value)
        return value

    def redact(self, text: str) -> str:
        for form in self._secret_forms():
            text = text.replace(form, _REDACTED)
        return text

    def redact_files(self, folder: Path) -> None:
        """A tool may print the key it was given; no raw file keeps it."""
        forms = [form.encode() for form in self._secret_forms()]
        for path in (p for p in folder.rglob("*") if p.is_file()):
            content = path.read_bytes() if forms else b""
            if any(form in content for form in forms):
                for form in forms:
                    content = content.replace(form, _REDACTED.encode())
                path.write_bytes(content)

    def _secret_forms(self) -> list[str]:
        """Each secret as it is and as JSON writes it, longest first: one may be a part of another."""
        in_json = {json.dumps(s, ensure_ascii=ascii_only)[1:-1] for s in self._secrets for ascii_only in (True, False)}
        return sorted(self._secrets | in_json, key=len, reverse=True)

    def close(self) -> None:
        """End services in the reverse order of their start, and keep their logs with the session."""
        for name, running in reversed(self._services.items()):
            if isinstance(running, str):
                continue
            try:
                running.agent.stop_service(running, self.folder / "services" / name)
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
                argv=[self._state.redact(argument) for argument in execution.argv],
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

    def address(self, role: str = "sut") -> str:
        """Where the target's hosts reach servers of the role's host. Raises ServiceFailed with the fix when unknown."""
        host = self._state.host(role).remote.name
        address = self._state.address(role)
        if address is None:
            raise ServiceFailed(no_address(host))
        return address

    def clock_offset_s(self, role: str = "sut") -> float:
        """The wall clock of the role's host minus this machine's, asked now."""
        return self._state.host(role).agent.clock_offset_s()

    def library(self, name: str, role: str = "sut") -> str:
        """Where on the host something shipped from here lies, such as "boto3"."""
        return self._state.library(name, role)

    def scratch(self, parent: str, role: str = "sut") -> str:
        """The session's own marked folder below `parent` on the host; removed at the session's end."""
        return self._state.scratch(parent, role)

    def service(self, name: str) -> RunningService:
        return self._state.service(name)

    def hold(self, name: str, service: Service, secrets: Mapping[str, str], into: Path) -> RunningService:
        """Start a service of the family's own, which stays until the session ends; the study's are ended after it.

        `secrets` are its `{{secret.NAME}}`; `name` is none of the study's. Raises ServiceFailed; then its logs are in
        `into`.
        """
        return self._state.hold(name, service, secrets, into)

    @contextmanager
    def server(
        self,
        name: str,
        *,
        limits: Limits | None = None,
        cpu_list: Sequence[int] | None = None,
        open_files: int | None = None,
        label: str = "server",
        beside: Sequence[RunningService] = (),
        also: Mapping[str, RunningService] | None = None,
    ) -> Iterator[RunningService]:
        """The study's service `name`, started afresh for this trial and ended with the block.

        Its logs and supervisor.json come to `<trial>/<label>/`; afterwards `running.record` is the supervisor's record.
        Without limits, its peak memory and CPU time are still accounted for. What it needs is up for the session,
        or one of `beside`, servers of the same trial.

        Args:
            limits, cpu_list, open_files: as in Command; what became of them is in `running.limits`.
            label: of the server among the trial's commands and files.
            also: what its placeholders may speak of besides its needs, by the name they have for it: `{{server.bind}}`
                is then whatever server this trial has.

        Raises TrialFailed when it does not come up, and when it died or had processes killed for want of memory
        during the block, which replaces what the block raised: a refused connection is then only the symptom.
        """
        confinement = Confinement(limits or Limits(), tuple(cpu_list) if cpu_list else None, open_files)
        folder = self.files / label
        try:
            running = self._state.start(name, confinement, folder, beside, also)
        except ServiceFailed as error:
            self._list_server(name, label, error.record)
            raise
        try:
            yield running
        except (ConnectionFailed, ConnectionLost, KeyboardInterrupt, SystemExit):
            with suppress(BenchstudyError):  # the lease ends it
                running.agent.stop_service(running)
            raise
        except Exception as symptom:
            self._end_server(running, label, folder, symptom)
            raise
        else:
            self._end_server(running, label, folder, None)

    def _end_server(self, running: RunningService, label: str, folder: Path, symptom: Exception | None) -> None:
        running.agent.stop_service(running, folder)
        self._list_server(running.name, label, running.record)
        died = running.record["state"] != "stopped"
        cause = how_it_ended(running.record)
        if died and not cause.startswith("OOM:"):
            said = _said(folder / "stderr") or _said(folder / "stdout")
            cause = f"the server {running.name} died during the trial: {cause}{said}"
        if died or cause.startswith("OOM:"):
            raise TrialFailed(cause) from symptom

    def _list_server(self, name: str, label: str, record: Mapping[str, Any] | None) -> None:
        if record is None or "started" not in record:
            return
        spec = self._state.described(name)
        connection = self._state.host(spec.role)
        # Asked to end, it did what it should; a command that says "stopped" was cut off.
        state = "ended" if record["state"] == "stopped" else record["state"]
        defaults = {"finished": record["started"], "stdout_truncated": False, "stderr_truncated": False}
        self.commands.append(
            CommandRecord(
                label=label,
                role=spec.role,
                host=connection.remote.name,
                argv=spec.argv,
                tool=self._state.tool(spec.role, record.get("program") or spec.argv[0]),
                state=state,
                clock_offset_s=connection.agent.last_clock_offset_s,
                events=[f"{e['at']} {e['event']}: {e['detail']}" for e in record.get("events", ())],
                **{
                    key: record.get(key, defaults.get(key))
                    for key in _FROM_EXECUTION
                    if key not in ("state", "clock_offset_s", "events")
                },
            )
        )

    def tool_path(self, program: str, role: str = "sut") -> str:
        """Where `program` is on the role's host: as provisioned, else on its path. Raises TrialFailed when nowhere."""
        return self._state.tool_path(program, role)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """`make()` at the first call in this session, its result (or failure) at every other."""
        return self._state.once(key, make)

    def secret(self, env_name: str) -> str:
        """A secret from the controller's environment; it is kept out of every file."""
        return self._state.secret(env_name)

    def keep_secret(self, value: str) -> None:
        """Keep out of every file what became known during the trial, such as the token that a login gave."""
        self._state._secrets.add(value)

    def event(self, text: str) -> None:
        """Something that happened, for the session's record and whoever watches it."""
        self._state.event(text)

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
    "limits",
)


class HostCheck:
    """What a family looks at a host with, for `benchstudy check`. Nothing is measured and nothing is left behind."""

    def __init__(self, connection: HostConnection, roles: Iterable[str], target_roles: Iterable[str] = ()):
        """`roles` are the host's own, `target_roles` all of the target's."""
        self._connection = connection
        self.name = connection.remote.name
        self.roles = tuple(roles)
        self.target_roles = tuple(target_roles) or self.roles
        self.findings: list[tuple[bool, str, str]] = []

    def run(self, argv: Sequence[str], check: bool = False) -> Completed:
        return self._connection.remote.run(argv, check=check)

    def agent_call(self, command: str, *args: str, input: bytes = b"") -> Any:
        """A quick question to the agent on the host. Raises HostRefused."""
        return self._connection.agent.call(command, *args, input=input, timeout_s=_CHECK_TIMEOUT_S)

    def library(self, name: str) -> str:
        """Where something shipped from here lies; it stays for the session. Raises TrialFailed."""
        return shipping.ship(self._connection.remote, self._connection.agent.work_dir, name)

    def which(self, tool: str) -> str | None:
        """Where a program is: as provisioned, else on the path."""
        agent = self._connection.agent
        places = (f"{agent.tools_dir}/{tool}", tool, f"/usr/sbin/{tool}")
        found = (agent.tool(place).get("path") for place in places)
        return next((path for path in found if path), None)

    def path_info(self, path: str) -> dict[str, Any]:
        return self._connection.agent.call("path-info", self._connection.remote.expand(path))

    def program(self, program: str, what: str) -> None:
        """Report whether `program`, as a service's argv begins or a tool is called, is there."""
        program = program.removeprefix("{{tools}}/")
        if "{{" in program:
            return  # known only while the session is held
        found = self.which(program)
        if found:
            self.ok(f"{what}: {found}")
        else:
            self.problem(f"{what}: {program} is missing", "`snakemake provision`, or install it on the PATH")

    def variable(self, name: str, what: str = "") -> bool:
        """Whether the controller's environment has the variable; reports it when it has not. `what` needs it."""
        if not os.environ.get(name):
            self.problem(
                f"{what}: {name} is not set" if what else f"{name} is not set", f"export {name} where snakemake runs"
            )
        return bool(os.environ.get(name))

    def ok(self, text: str) -> None:
        self.findings.append((True, text, ""))

    def problem(self, text: str, fix: str) -> None:
        self.findings.append((False, text, fix))
