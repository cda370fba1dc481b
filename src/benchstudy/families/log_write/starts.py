"""The logs of one trial, one after the other: a search goes on with a fresh one when a server died at a rate."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from benchstudy.families.log_write.log import Log, Wanted, fresh_log
from benchstudy.families.log_write.sampling import sampled
from benchstudy.hosts.services import died, how_it_ended
from benchstudy.model.causes import Cause, Failure, ran_out_of_memory
from benchstudy.model.errors import TrialFailed

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext


class ServerDied(TrialFailed):
    """A server of the log does not run any more, hangs, or the kernel killed a process of it for want of memory."""

    cause = Cause.SERVER_DIED


@dataclass(frozen=True)
class Death:
    """How the servers of a log ended: in a sentence, with the last words of one, and as a value."""

    how: str
    said: str
    cause: Cause


class Starts:
    """A context: the log that is up, with samples of its processes beside it.

    What a server and its samples left is kept for every start, in folders of its own: `server`, `server-start-2`, ….
    A fresh log and not the same one, because what a killed server left behind would be part of what is measured next.
    """

    def __init__(self, wanted: Wanted, trial: "TrialContext", program: str):
        """`program`: of the generator, which the samples follow."""
        self._wanted, self._trial, self._program = wanted, trial, program
        self._stack = ExitStack()
        self._logs: list[Log] = []
        self._died: dict[int, Death] = {}

    def __enter__(self) -> "Starts":
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def _start(self) -> None:
        number, trial, wanted = len(self._logs) + 1, self._trial, self._wanted
        suffix = f"-start-{number}" if number > 1 else ""
        with ExitStack() as stack:
            log = stack.enter_context(fresh_log(wanted, trial, suffix))
            parts = (log.servers, log.databases, self._program, wanted.load_role, log.directory, suffix)
            stack.enter_context(sampled(trial, *parts))
            self._stack = stack.pop_all()
        self._logs.append(log)

    @property
    def number(self) -> int:
        """Of the last start, from 1 on."""
        return len(self._logs)

    @property
    def log(self) -> Log:
        """The log of the last start; it may be down."""
        return self._logs[-1]

    @property
    def is_up(self) -> bool:
        return self.number not in self._died

    @property
    def deaths(self) -> int:
        return len(self._died)

    def ensure_up(self) -> None:
        """Start a fresh log when the last one is down. Raises TrialFailed when it does not come up."""
        if not self.is_up:
            self._start()

    def check(self) -> None:
        """Raises ServerDied when a server of the log died or lost a process."""
        try:
            self.log.check()
        except TrialFailed as error:
            raise ServerDied(str(error)) from error
        for server in self.log.servers:
            if server.usage().get("oom_kills"):
                failure = Failure(cause=Cause.OOM, name=server.name)
                raise ServerDied("OOM: the kernel killed a process of the server", failure)

    def end(self, symptom: ServerDied) -> Death:
        """Take down what is left of a log that died."""
        how = said = str(symptom)
        try:
            with self._stack:
                raise symptom
        except TrialFailed as told:
            said = str(told)
        self._stack = ExitStack()
        cause = symptom.failure.cause
        ended = [(server, server.record) for server in self.log.servers if server.record and _died(server.record)]
        if ended:
            server, record = ended[0]
            cause = died(record, server.name).cause
            ends = "; ".join(dict.fromkeys(how_it_ended(record) for _, record in ended))
            how = ends if cause is Cause.OOM else f"server died: {ends}"
        self._died[self.number] = death = Death(how, said, cause)
        return death

    def described(self) -> list[dict[str, Any]]:
        """Of each start: what its servers used, and how they died, None if they did not. Once all have ended."""
        used = [[dict((server.record or {}).get("limits") or {}) for server in log.servers] for log in self._logs]
        deaths = [self._died.get(number) for number in range(1, len(used) + 1)]
        return [
            {"servers": servers, "died": death and death.how, "cause": death and death.cause}
            for servers, death in zip(used, deaths, strict=True)
        ]


def _died(record: Mapping[str, Any]) -> bool:
    return record["state"] != "stopped" or ran_out_of_memory(record)
