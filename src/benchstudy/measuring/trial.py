"""What a family uses to run one trial: commands, services, folders and secrets on the target's hosts."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from benchstudy.hosts.agent import Command, RunningService, ServiceFailed
from benchstudy.hosts.commands import events_of
from benchstudy.hosts.line import HostClock
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost
from benchstudy.hosts.services import died, how_it_ended, no_address
from benchstudy.measuring.execution import TrialExecution as TrialExecution
from benchstudy.measuring.execution import ending, said_in
from benchstudy.measuring.neighbours import Neighbours
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.together import execute_together
from benchstudy.measuring.trialrecord import CommandRecord, ToolRecord
from benchstudy.model.causes import NO_RESULT, failure_of, ran_out_of_memory
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.family import ConfigT_co
from benchstudy.model.secret_forms import unfit
from benchstudy.model.services import Confinement, Limits, Service

T = TypeVar("T")


class TrialContext(Generic[ConfigT_co]):
    """One trial in progress. `files` is its folder on the controller."""

    def __init__(self, state: SessionState, uuid: str, files: Path, block: int):
        self._state = state
        self.uuid, self.files, self.block = uuid, files, block
        self.config = cast("ConfigT_co", state.plan.config)
        self.roles = state.plan.roles
        self.study, self.target, self.session = state.plan.study.study, state.plan.target, state.uuid
        self.commands: list[CommandRecord] = []
        self.notes: dict[str, Any] = {}
        self._used: set[RunningService] = set()
        self._neighbours = Neighbours(state.hosts)

    def execute(self, command: Command, role: str = "sut") -> TrialExecution:
        """Run one command under the supervisor on the role's host, and fetch everything that it left."""
        host = self._state.host(role)
        program = command.program or command.argv[0]
        tool = self._state.tool(role, program)
        self._state._secrets.update(command.secret_env.values())
        with self._neighbours.around(command.label, host.remote.name, command.measured) as observed:
            execution = host.execute(command)
            observed(execution.readings)
        into = self.files if command.label == "command" else self.files / command.label
        try:
            host.fetch(execution, into)
        finally:
            host.discard(execution)
        self._state.redact_files(into)  # before anybody quotes a part of them, which may hold the rest of a secret
        argv = [self._state.redact(argument) for argument in execution.argv]
        self._list(command.label, role, argv, tool, vars(execution))
        return TrialExecution(execution, into / "stdout", into / "stderr", into / "files", program)

    def execute_together(
        self, commands: Mapping[str, Command], label: str, stop_when: threading.Event | None = None
    ) -> list[TrialExecution]:
        """Run one command on the host of each role, all starting at one instant; see measuring/together.py.

        Their files go to `<trial>/<label>/1/`, `<trial>/<label>/2/`, …, in the order of `commands`. The times when each
        started and ended go to `<trial>/<label>/clients.json`. `stop_when` ends all of them.

        Raises TrialFailed for the first one that failed, with its host. The others are ended then.
        """
        return execute_together(self, commands, label, stop_when)

    def agent_argv(self, command: str, *args: str, role: str = "sut") -> list[str]:
        return self._state.host(role).argv(command, *args)

    def agent_call(self, command: str, *args: str, input: bytes = b"", role: str = "sut") -> Any:
        """Ask the agent on the host; the answer is JSON. Not part of the measurement."""
        return self._state.host(role).call(command, *args, input=input)

    def address(self, role: str = "sut") -> str:
        """The address at which the target's hosts reach servers of the role's host. Raises ServiceFailed if unknown."""
        host = self._state.host(role).remote.name
        address = self._state.address(role)
        if address is None:
            raise ServiceFailed(no_address(host))
        return address

    def clock(self, role: str = "sut") -> HostClock:
        """The wall clock of the role's host, read now."""
        return self._state.host(role).clock()

    def clock_offset_s(self, role: str = "sut") -> float:
        """The wall clock of the role's host minus this machine's, in seconds, read now."""
        return self.clock(role).offset_s

    def library(self, name: str, role: str = "sut") -> str:
        """The path on the host of a library shipped from here, such as "boto3"."""
        return self._state.library(name, role)

    def scratch(self, parent: str, role: str = "sut") -> str:
        """The session's own marked folder below `parent` on the host. It is removed at the session's end."""
        return self._state.scratch(parent, role)

    def service(self, name: str, client: str | None = None) -> RunningService:
        """The study's service `name`, which runs until the session ends; the one of this client if each has its own.

        `client`: a client's role. Raises TrialFailed if it does not start.
        """
        running = self._state.service(name, client)
        self._used |= running.with_needs()
        return running

    def hold(self, name: str, service: Service, secrets: Mapping[str, str], into: Path) -> RunningService:
        """Start a service of the family, which runs until the session ends. The study's services are ended after it.

        `secrets` are its `{{secret.NAME}}`; `name` must not be a service of the study. Raises ServiceFailed, and
        leaves its logs in `into` then.
        """
        running = self._state.hold(name, service, secrets, into)
        self._used.add(running)
        return running

    def require_services(self, symptom: Exception | None = None) -> None:
        """Raise ServiceFailed if a service that this trial used, and that runs for the session, has ended.

        This replaces what the trial raised, the `symptom`. The service may have ended for no reason of its own, as
        with its lease. Then the cause says so, and there is no result.
        """
        self._state.see_services()
        for running, death in self._state.ended.items():
            if running in self._used:
                record = death.record or {}
                words = "" if ran_out_of_memory(record) else f"the service {running.name} died during the trial: "
                failure = failure_of(record, running.name)
                failure = failure if failure.cause in NO_RESULT else death.failure
                raise ServiceFailed(f"{words}{death}", record, failure) from symptom

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
        """The study's service `name`, started afresh for this trial and ended with the `with` block.

        Its logs and supervisor.json go to `<trial>/<label>/`; afterwards `running.record` is the supervisor's record.
        Peak memory and CPU time are recorded even without limits. Services that it needs run for the whole session, or
        are among `beside`, the servers of the same trial.

        Args:
            limits, cpu_list, open_files: as in Command; `running.limits` says how they were applied.
            label: the server's name among the trial's commands and files.
            also: further services for its placeholders, by name: `{{server.bind}}` then means the server of this
                trial, whichever it is.

        Raises TrialFailed if the server does not start, if it died, or if it ran out of memory and had processes killed
        during the block. This replaces what the block raised, because a refused connection is then only a symptom.
        """
        confinement = Confinement(limits or Limits(), tuple(cpu_list) if cpu_list else None, open_files)
        folder = self.files / label
        try:
            running = self._state.start(name, confinement, folder, beside, also)
        except ServiceFailed as error:
            self._list_server(name, label, error.record)
            raise
        self._used |= running.with_needs()
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
        self._state.redact_files(folder)
        self._list_server(running.name, label, record)
        out_of_memory = ran_out_of_memory(record)
        if record["state"] == "stopped" and not out_of_memory:
            return
        cause, said = how_it_ended(record), said_in(folder / "stderr") or said_in(folder / "stdout")
        if not out_of_memory:
            cause = f"the server {running.name} died during the trial: {cause}{ending(said)}"
        raise TrialFailed(cause, died(record, running.name, said)) from symptom

    def _list_server(self, name: str, label: str, record: Mapping[str, Any] | None) -> None:
        if record is None or "started" not in record:
            return
        spec = self._state.described(name)
        tool = self._state.tool(spec.role, record.get("program") or spec.argv[0])
        defaults = {"finished": record["started"], "stdout_truncated": False, "stderr_truncated": False}
        ours = {
            # A server that ends when asked is fine, whereas the state "stopped" means that a command was cut off.
            "state": "ended" if record["state"] == "stopped" else record["state"],
            "clock_offset_s": self._state.host(spec.role).last_clock_offset_s,
            "events": events_of(record),
        }
        self._list(label, spec.role, spec.argv, tool, {**defaults, **record, **ours})

    def _list(self, label: str, role: str, argv: list[str], tool: ToolRecord, went: Mapping[str, Any]) -> None:
        """Add a command to the trial's record; of `went`, what the record has no field for is left out."""
        asked = {"label": label, "role": role, "host": self._state.host(role).remote.name, "argv": argv, "tool": tool}
        fields = {name: went.get(name) for name in CommandRecord.model_fields}
        self.commands.append(CommandRecord(**fields | asked))

    def tool_path(self, program: str, role: str = "sut") -> str:
        """The path of `program` on the role's host: provisioned, or on its PATH. Raises TrialFailed if missing."""
        return self._state.tool_path(program, role)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """The result of `make()`, called once per session. Later calls repeat its result or its failure."""
        return self._state.once(key, make)

    def secret(self, env_name: str) -> str:
        """A secret from the controller's environment. It is kept out of every file."""
        return self._state.secret(env_name)

    def keep_secret(self, value: str, what: str = "a secret of this trial") -> None:
        """Keep a value that became known during the trial, such as a login token, out of every file.

        Raises TrialFailed, which says `what`, for one that would be removed from figures, too.
        """
        if wrong := unfit(value):  # a server may answer anything
            raise TrialFailed(f"{what} {': '.join(wrong)}")
        self._state._secrets.add(value)

    def event(self, text: str) -> None:
        """Record an event in the session's record, and show it."""
        self._state.event(text)

    def keep_neighbours(self) -> None:
        """Write the activity of others on the hosts to the trial's files."""
        self._neighbours.keep(self.files)

    def note(self, **facts: Any) -> None:
        """Record what was verified about this trial: file system type, cache state, limits."""
        self.notes.update(facts)
