"""What a family gets to run one trial with: commands, services, folders and secrets on the target's hosts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from benchstudy.hosts.agent import Command, Execution, RunningService, ServiceFailed
from benchstudy.hosts.commands import events_of
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost
from benchstudy.hosts.services import died, how_it_ended, no_address
from benchstudy.measuring.neighbours import Neighbours
from benchstudy.measuring.raw import CommandRecord
from benchstudy.measuring.state import SessionState
from benchstudy.model.causes import Cause, failure_of, ran_out_of_memory
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.family import ConfigT_co
from benchstudy.model.services import Confinement, Limits, Service

T = TypeVar("T")
_CAUSE_TAIL_BYTES = 600
# What the supervisor found: however the command ended, and whatever it said.
_SAYS_IT_ALL = {Cause.OOM, Cause.DISK_FULL}


@dataclass(frozen=True)
class TrialExecution:
    """A finished command whose files are here: `stdout`, `stderr`, and what it wrote in `files`.

    `program`: what it was about, by the name that its failures get.
    """

    execution: Execution
    stdout: Path
    stderr: Path
    files: Path
    program: str

    def require_success(self) -> None:
        """Raises TrialFailed with the way the command ended and the tail of what it said."""
        e = self.execution
        if e.state == "exited" and e.exit_status == 0 and e.cause_kind not in _SAYS_IT_ALL:
            return
        name = Path(self.program).name
        said = _said(self.stderr) or (_said(self.stdout) if e.state == "exited" else "")
        failure = failure_of(vars(e), name, said)
        if failure.cause in _SAYS_IT_ALL:
            raise TrialFailed(f"{name}: {e.cause}" if failure.cause is Cause.DISK_FULL else e.cause or "", failure)
        if e.state == "timeout":
            raise TrialFailed(f"{name} was ended at its timeout, after {e.duration_s:.0f} s", failure)
        if e.state != "exited":
            raise TrialFailed(f"{name}: {e.state}{f': {e.cause}' if e.cause else ''}{_ending(said)}", failure)
        how = f"was ended by signal {e.signal}" if e.signal else f"exited with status {e.exit_status}"
        raise TrialFailed(f"{name} {how}{_ending(said)}", failure)


def _ending(said: str) -> str:
    return f": {said}" if said else ""


def _said(path: Path) -> str:
    """The last words in a file."""
    if not path.is_file() or not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _CAUSE_TAIL_BYTES))
        return " / ".join(line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip())


class TrialContext(Generic[ConfigT_co]):
    """One trial in the making. `files` is its folder here, on the controller."""

    def __init__(self, state: SessionState, uuid: str, files: Path, block: int):
        self._state = state
        self.uuid, self.files, self.block = uuid, files, block
        self.config = cast("ConfigT_co", state.plan.config)
        self.roles = state.plan.roles
        self.study, self.target, self.session = state.plan.study.study, state.plan.target, state.uuid
        self.commands: list[CommandRecord] = []
        self.notes: dict[str, Any] = {}
        self._neighbours = Neighbours(state.uuid, state.hosts)

    def execute(self, command: Command, role: str = "sut") -> TrialExecution:
        """Run one command under the supervisor on the role's host and fetch everything it left."""
        connection = self._state.host(role)
        agent = connection.agent
        program = command.program or command.argv[0]
        tool = self._state.tool(role, program)
        self._state._secrets.update(command.secret_env.values())
        with self._neighbours.around(command.label, connection.remote.name, command.measured) as observed:
            execution = agent.execute(self._state.uuid, command)
            observed(execution.readings)
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
                **{name: getattr(execution, name) for name in _AS_IT_WENT},
            )
        )
        return TrialExecution(execution, into / "stdout", into / "stderr", into / "files", program)

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
                running.stop()
            raise
        except Exception as symptom:
            self._end_server(running, label, folder, symptom)
            raise
        else:
            self._end_server(running, label, folder, None)

    def _end_server(self, running: RunningService, label: str, folder: Path, symptom: Exception | None) -> None:
        record = running.stop(folder)
        self._list_server(running.name, label, record)
        out_of_memory = ran_out_of_memory(record)
        if record["state"] == "stopped" and not out_of_memory:
            return
        cause, said = how_it_ended(record), _said(folder / "stderr") or _said(folder / "stdout")
        if not out_of_memory:
            cause = f"the server {running.name} died during the trial: {cause}{_ending(said)}"
        raise TrialFailed(cause, died(record, running.name, said)) from symptom

    def _list_server(self, name: str, label: str, record: Mapping[str, Any] | None) -> None:
        if record is None or "started" not in record:
            return
        spec = self._state.described(name)
        connection = self._state.host(spec.role)
        defaults = {"finished": record["started"], "stdout_truncated": False, "stderr_truncated": False}
        went = {key: record.get(key, defaults.get(key)) for key in _AS_IT_WENT} | {
            # Asked to end, it did what it should; a command that says "stopped" was cut off.
            "state": "ended" if record["state"] == "stopped" else record["state"],
            "clock_offset_s": connection.agent.last_clock_offset_s,
            "events": events_of(record),
        }
        self.commands.append(
            CommandRecord(
                label=label,
                role=spec.role,
                host=connection.remote.name,
                argv=spec.argv,
                tool=self._state.tool(spec.role, record.get("program") or spec.argv[0]),
                **went,
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

    def keep_neighbours(self) -> None:
        """Write what others did on the hosts meanwhile into the trial's files."""
        self._neighbours.keep(self.files)

    def note(self, **facts: Any) -> None:
        """What was verified about this trial: file system type, cache state, limits."""
        self.notes.update(facts)


# What a record has of how a command went; the rest is what was asked for.
_AS_IT_WENT = CommandRecord.model_fields.keys() - {"label", "role", "host", "argv", "tool"}
