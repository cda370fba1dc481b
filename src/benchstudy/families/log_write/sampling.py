"""Sampling of processes and disk during a load, in threads; samples.py reads the samples."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING

from benchstudy.families.log_write.layout import DATABASE, GENERATOR, INTERVAL_S, SAMPLES, SERVER
from benchstudy.hosts.agent import Command
from benchstudy.model.errors import BenchstudyError

if TYPE_CHECKING:
    from benchstudy.hosts.agent import RunningService
    from benchstudy.measuring.trial import TrialContext


@dataclass
class _Watched:
    """What is sampled on one host."""

    role: str
    services: dict[str, list[str]] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    disk: str | None = None


@contextmanager
def sampled(
    trial: "TrialContext",
    servers: Sequence["RunningService"],
    databases: Sequence["RunningService"],
    program: str,
    load_role: str,
    disk: str | None,
    suffix: str = "",
) -> Iterator[None]:
    """Sample each participating host while the block runs, into `<trial>/samples-<host><suffix>/stdout`.

    `program`: the path of the generator. `disk`: a folder on the first server's host. If sampling fails, the trial gets
    a note, and does not fail.
    """
    watched: dict[str, _Watched] = {}

    def on(role: str) -> _Watched:
        return watched.setdefault(trial.roles[role], _Watched(role))

    for name, members in ((SERVER, servers), (DATABASE, databases)):
        for running in members:
            role = trial.config.services[running.name].role
            on(role).services.setdefault(name, []).append(running.folder)
    on(load_role).programs[GENERATOR] = program
    on(trial.config.services[servers[0].name].role).disk = disk
    samplers = [_Sampler(trial, host, what, suffix) for host, what in watched.items()]
    for sampler in samplers:
        sampler.start()
    try:
        yield
    finally:
        for sampler in samplers:
            sampler.end()


class _Sampler(Thread):
    def __init__(self, trial: "TrialContext", host: str, what: _Watched, suffix: str):
        super().__init__(name=f"samples of {host}", daemon=True)
        self.trial, self.host, self.what, self.suffix = trial, host, what, suffix
        self.until = f"{trial.scratch('/tmp', what.role)}/samples-{trial.uuid}{suffix}"

    def run(self) -> None:
        spec = {
            "interval_s": INTERVAL_S,
            "until": self.until,
            "most_s": self.trial.config.timeout,
            "services": self.what.services,
            "programs": self.what.programs,
            "disk": self.what.disk,
        }
        command = Command(
            self.trial.agent_argv("log_samples:sample", role=self.what.role),
            stdin=json.dumps(spec).encode() + b"\n",
            timeout_s=self.trial.config.timeout + 60.0,
            max_output_bytes=64 << 20,
            label=f"{SAMPLES}-{self.host}{self.suffix}",
        )
        try:
            done = self.trial.execute(command, self.what.role)
            if done.execution.exit_status != 0:
                self._failed(done.stderr.read_text(errors="replace")[-300:] or done.execution.state)
        except BenchstudyError as error:
            self._failed(str(error))

    def end(self) -> None:
        try:
            self.trial.agent_call("log_samples:end", self.until, role=self.what.role)
        except BenchstudyError as error:
            self._failed(str(error))  # sampling ends with the session's lease at the latest
        self.join(timeout=30.0)

    def _failed(self, why: str) -> None:
        self.trial.note(**{f"samples_of_{self.host}": f"not taken: {why}"})
