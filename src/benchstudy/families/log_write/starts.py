"""The successive logs of one trial: a search continues with a fresh log after a server died at a rate."""

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
    """A server of the log ended or hangs, or the kernel killed one of its processes for lack of memory."""

    cause = Cause.SERVER_DIED


@dataclass(frozen=True)
class Death:
    """How the servers of a log ended: as a sentence, as the last message of one of them, and as a value."""

    how: str
    said: str
    cause: Cause


class Starts:
    """A context manager that keeps a log running, and samples its processes.

    Every start has its own folders for files of servers and samples: `server`, `server-start-2`, …. Each start is a
    fresh log, because the remains of a killed server would affect the next measurement.
    """

    def __init__(self, wanted: Wanted, trial: "TrialContext", programs: Mapping[str, str]):
        """`programs`: the path of the generator, which is sampled, too, by the role of its host."""
        self._wanted, self._trial, self._programs = wanted, trial, programs
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
        number, trial = len(self._logs) + 1, self._trial
        suffix = f"-start-{number}" if number > 1 else ""
        with ExitStack() as stack:
            log = stack.enter_context(fresh_log(self._wanted, trial, suffix))
            stack.enter_context(sampled(trial, log, self._programs, suffix))
            self._stack = stack.pop_all()
        self._logs.append(log)

    @property
    def number(self) -> int:
        """The number of the last start, from 1."""
        return len(self._logs)

    @property
    def log(self) -> Log:
        """The log of the last start, which may be down."""
        return self._logs[-1]

    @property
    def is_up(self) -> bool:
        return self.number not in self._died

    @property
    def deaths(self) -> int:
        return len(self._died)

    def ensure_up(self) -> None:
        """Start a fresh log if the last one is down. Raises TrialFailed if it does not start."""
        if not self.is_up:
            self._start()

    def check(self) -> None:
        """Raise ServerDied if a server of the log died or lost a process."""
        try:
            self.log.check()
        except TrialFailed as error:
            raise ServerDied(str(error)) from error
        for server in self.log.servers:
            if server.usage().get("oom_kills"):
                failure = Failure(cause=Cause.OOM, name=server.name)
                raise ServerDied("OOM: the kernel killed a process of the server", failure)

    def end(self, symptom: ServerDied) -> Death:
        """Stop the rest of a log that died, and return how it died."""
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
        """Describe each start: resources of its servers, and how they died, or None. Call this after all have ended."""
        used = [[dict((server.record or {}).get("limits") or {}) for server in log.servers] for log in self._logs]
        deaths = [self._died.get(number) for number in range(1, len(used) + 1)]
        return [
            {"servers": servers, "died": death and death.how, "cause": death and death.cause}
            for servers, death in zip(used, deaths, strict=True)
        ]


def _died(record: Mapping[str, Any]) -> bool:
    return record["state"] != "stopped" or ran_out_of_memory(record)
