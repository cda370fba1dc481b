"""Sampling of processes and disk during a load, in threads; samples.py reads the samples."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING

from benchstudy.families.log_write.layout import DATABASE, GENERATOR, INTERVAL_S, SAMPLES, SERVER
from benchstudy.families.log_write.log import Log
from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import Command
from benchstudy.model.errors import BenchstudyError

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext


@dataclass
class _Watched:
    """What is sampled on one host. `may_use`: the number of CPUs that a process may use, where only this host knows."""

    role: str
    services: dict[str, list[str]] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    may_use: dict[str, int] = field(default_factory=dict)
    disk: str | None = None


@contextmanager
def sampled(trial: "TrialContext", log: Log, programs: Mapping[str, str], suffix: str = "") -> Iterator[None]:
    """Sample each participating host while the block runs, into `<trial>/samples-<host><suffix>/stdout`.

    `programs`: the path of the generator, by the role of its host. If sampling fails, the trial gets a note, and does
    not fail.
    """
    watched: dict[str, _Watched] = {}

    def on(role: str) -> _Watched:
        return watched.setdefault(trial.roles[role], _Watched(role))

    for name, members in ((SERVER, log.servers), (DATABASE, log.databases)):
        for running in members:
            role = trial.config.services[running.name].role
            on(role).services.setdefault(name, []).append(running.folder)
    for role, program in programs.items():
        on(role).programs[GENERATOR] = program
        on(role).may_use[GENERATOR] = log.placements[role].usable
    on(trial.config.services[log.servers[0].name].role).disk = log.directory
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
            "may_use": self.what.may_use,
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
        interrupts.join(self, 30.0)

    def _failed(self, why: str) -> None:
        self.trial.note(**{f"samples_of_{self.host}": f"not taken: {why}"})
