"""The line to the agent on a host: deploy the agent, ask it quick questions, restore a lost connection.

What a session does with it is in `agent.py`.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from benchstudy.hosts.agent_files import BOOTSTRAP, agent_sources, digest, write_agent
from benchstudy.hosts.desk import HostDesk
from benchstudy.hosts.errors import AgentKilled, HostRefused, understood
from benchstudy.hosts.heartbeats import Heartbeats
from benchstudy.hosts.interrupts import pause
from benchstudy.hosts.remote import CommandFailed, ConnectionFailed, ConnectionLost, Remote
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.files import json_of
from benchstudy.model.host import Host

T = TypeVar("T")

MOST_ATTEMPTS = 5
_NO_SUCH_PROGRAM = 127
_FARTHEST_CLOCK_S = 1e10  # from this machine's clock: no host's clock is centuries off
_CLOCK_STEP_S = 1.0  # no clock drifts this far between two heartbeats


class HostClock(NamedTuple):
    """A host's wall clock minus this machine's, and the possible error: half of the fastest round trip."""

    offset_s: float
    uncertainty_s: float


class AgentLine:
    """One host's agent over one connection: deploy it, ask it, restore the connection. Thread-safe."""

    def __init__(
        self,
        remote: Remote,
        *,
        lease_s: float,
        reconnect_s: float,
        on_event: Callable[[str], None],
        lock_path: str | None = None,
        extensions: Sequence[Path] = (),
    ):
        """`extensions`: folders of modules that families run beside the agent's own; their commands are called as
        `module:function`. `lock_path`: the host's lock file; by default $BENCHSTUDY_HOST_LOCK here, then on the host,
        then a path in /tmp."""
        self.remote, self.lease_s, self.on_event = remote, lease_s, on_event
        remote.reconnect_s = reconnect_s
        # "" until the host has named it. It marks what a session starts.
        self.lock_path = lock_path or os.environ.get("BENCHSTUDY_HOST_LOCK", "")
        self._sources = agent_sources(tuple(extensions))
        self.sha256 = digest(self._sources)
        self.work_dir = remote.expand(remote.host.work_dir)
        self.directory = f"{self.work_dir}/agent-{self.sha256[:12]}"
        self.tools_dir = f"{self.work_dir}/tools/bin"  # where provisioning puts programs
        self.beat_s = min(10.0, lease_s / 4)
        self._best_clock: HostClock | None = None
        self._clocks: tuple[HostClock, float] | None = None  # the host's, and here wall minus monotonic
        self._reconnecting = threading.Lock()
        self._unreachable: ConnectionFailed | None = None
        self.generation = 0  # of the connection
        self._desk = HostDesk(remote, self.argv)

    @classmethod
    def deploy(cls, remote: Remote, **options: Any) -> Self:
        """The agent, deployed to the host unless this exact version is there. Options as for the constructor.

        Raises HostRefused: no Python 3.9, or the work folder is a link, the home, another user's, or not writable.
        """
        line = cls(remote, **options)
        if line._present() is None:
            line._put()
        return line

    def _present(self) -> str | None:
        argv = [self.remote.host.python, "-I", "-c", BOOTSTRAP, self.work_dir, self.directory]
        try:
            answer = json_of(self.remote.run(argv).stdout)
        except CommandFailed as error:
            python, status = self.remote.host.python, error.completed.exit_status
            other = f"name another as hosts.{self.remote.name}.python"
            if status == _NO_SUCH_PROGRAM:
                way = "provisioning installs it" if python == Host().python else "install it there"
                raise HostRefused(f"{self.remote.name}: there is no {python!r}; {way}, or {other}") from error
            raise HostRefused(f"{self.remote.name}: {python} cannot run there: {error}; fix it, or {other}") from error
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.keys() != {"problem", "digest"}:
            raise HostRefused(f"{self.remote.name}: {self.remote.host.python} there is not a Python")
        if answer["problem"]:
            raise HostRefused(f"{self.remote.name}: {answer['problem']}")
        if answer["digest"] not in (None, self.sha256):
            raise HostRefused(f"{self.remote.name}: {self.directory} was altered; remove that folder")
        return answer["digest"]

    def _put(self) -> None:
        with tempfile.TemporaryDirectory(prefix="benchstudy-agent-") as staging:
            write_agent(Path(staging), self._sources)
            self.remote.put_folder(Path(staging), self.directory)
        if self._present() is None:
            raise HostRefused(f"{self.remote.name}: {self.directory} could not be made")

    def argv(self, command: str, *args: str) -> list[str]:
        """The command line that runs an agent command on the host."""
        # -S: the agent needs only the standard library, and on some hosts searching other folders is slow.
        # utf8: whatever the host's locale, names and arguments keep their bytes.
        return [self.remote.host.python, "-I", "-S", "-X", "utf8", self.directory, command, *args]

    def call(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """Ask the agent something quick, unsupervised. Returns its answer, decoded from JSON.

        After a lost connection, or if it is killed, it is asked again. Raises HostRefused with the agent's error.
        """
        return self.retrying(lambda: self.ask(command, *args, input=input, timeout_s=timeout_s))

    def ask(self, command: str, *args: str, input: bytes = b"", timeout_s: float = 60.0) -> Any:
        """Like `call`, but asks only once. Also raises ConnectionLost and AgentKilled."""
        with understood(self.remote.name):
            done = self._desk.ask((command, *args), input, timeout_s, self.generation)
            killed = done.exit_status < 0
        if killed:
            raise AgentKilled(f"{self.remote.name}: the agent's {command} was killed (status {done.exit_status})")
        answer = None
        with suppress(ValueError):
            answer = json_of(done.stdout)
        if isinstance(answer, dict) and "error" in answer and done.exit_status != 0:
            raise self._refused(answer)
        if done.exit_status != 0 or not isinstance(answer, dict):
            said = done.stderr.decode(errors="replace").strip()[-2000:] or f"no JSON: {done.text[:200]!r}"
            raise HostRefused(f"{self.remote.name}: the agent's {command} ended with status {done.exit_status}: {said}")
        return answer

    def retrying(self, attempt: Callable[[], T]) -> T:
        """`attempt()`, repeated after a lost connection or a killed agent. Raises its error if that keeps happening."""
        for number in range(MOST_ATTEMPTS - 1):
            generation = self.generation
            try:
                return attempt()
            except ConnectionLost as error:
                self.reconnect(error, generation)
                pause(0.1 * 4**number)  # a host without a free process may have one in a moment
            except AgentKilled as error:
                self.on_event(f"{error}; it is asked again")
        return attempt()

    def reconnect(self, error: Exception, generation: int) -> None:
        """Restore the connection, trying for as long as the study allows, unless another thread did since `generation`.

        Raises a ConnectionFailed when that does not work.
        """
        with self._reconnecting:
            pause(0.0)  # lets an interrupt through that came while another thread was connecting
            if generation != self.generation:
                return
            if self._unreachable is not None:  # another thread already tried for that long
                raise self._unreachable
            self.on_event(f"{error}; reconnecting")
            begun = time.monotonic()
            try:
                self.remote.reconnect()
            except ConnectionFailed as final:
                self._unreachable = final
                raise
            self.generation += 1
            self.on_event(f"{self.remote.name}: connected again after {time.monotonic() - begun:.1f} s")

    @property
    def is_reconnecting(self) -> bool:
        """Whether a thread is restoring the connection."""
        return self._reconnecting.locked()

    # --- clock and messages ------------------------------------------------------------------------------------

    @property
    def last_clock_offset_s(self) -> float | None:
        """The host's wall clock minus this machine's, as measured by the heartbeats."""
        best = self._best_clock
        return best.offset_s if best else None

    def note_clock(self, beats: Heartbeats, answer: Mapping[str, Any]) -> HostClock:
        """Learn from an answer that came now; the fastest round trip is the most precise. Raises HostRefused.

        Returns the clock by this answer. Other threads may note and ask at the same time.
        """
        received = time.time()
        with understood(self.remote.name):
            sent = beats.sent(answer)
            clock = HostClock(answer["wall"] - (sent + received) / 2, (received - sent) / 2)
            if not abs(clock.offset_s) < _FARTHEST_CLOCK_S:
                raise ValueError(f"its clock is at {answer['wall']} s")
        self._tell_steps(clock)
        best = self._best_clock
        if best is None or clock.uncertainty_s <= best.uncertainty_s * 1.5:
            self._best_clock = clock
        return clock

    def _tell_steps(self, clock: HostClock) -> None:
        """Report a clock that was set during a session: it shifts figures of others, such as Prometheus's, in time."""
        here = time.time() - time.monotonic()
        if self._clocks is None:
            self._clocks = clock, here
        then, here_then = self._clocks
        its_s, own_s = clock.offset_s - then.offset_s, here - here_then
        if abs(its_s) <= _CLOCK_STEP_S + 2 * (clock.uncertainty_s + then.uncertainty_s):
            return
        self._clocks, self._best_clock = (clock, here), None
        whose, by_s = (self.remote.name, its_s) if abs(own_s) < _CLOCK_STEP_S else ("this machine", own_s)
        self.on_event(f"{whose}: its clock was set by {by_s:+.1f} s")

    def clock(self) -> HostClock:
        """The host's wall clock, asked now; asked again as by `call`."""
        return self.retrying(self._ask_clock)

    def _ask_clock(self) -> HostClock:
        beats, noted = Heartbeats(), []
        with self.remote.open(self.argv("clock")) as process:
            for _ in range(4):
                process.write_line(beats.question())
                line = process.read_line(30.0)
                if line == b"" and process.wait(1.0) == -1:
                    raise AgentKilled(f"{self.remote.name}: the agent's clock was killed")
                if not line:
                    raise HostRefused(f"{self.remote.name}: the agent does not report the time: {process.stderr_tail}")
                noted.append(self.note_clock(beats, self.message(line)))
        self._best_clock = min(noted, key=lambda clock: clock.uncertainty_s)
        return self._best_clock

    def message(self, line: bytes) -> dict:
        """One message. Raises ConnectionLost at the end of the output, HostRefused for an error of the agent."""
        if not line:
            raise ConnectionLost(f"{self.remote.name}: the agent's watcher ended")
        try:
            message = json_of(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise HostRefused(f"{self.remote.name}: this is not a message of the agent: {line[:200]!r}")
        if "error" in message:
            raise self._refused(message)
        return message

    def _refused(self, answer: Mapping[str, Any]) -> HostRefused:
        full = Failure(cause=Cause.DISK_FULL) if answer.get("disk_full") else None
        return HostRefused(f"{self.remote.name}: {answer['error']}", full)
