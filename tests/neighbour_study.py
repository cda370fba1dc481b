"""A family whose trials run a command that works for a known share of the time, and neighbours that do the same."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from one_host import study_on
from sshd_hosts import SshdHost

from benchstudy.hosts.agent import Command
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import interference, paths
from benchstudy.model.family import Case, Family, FamilyConfig, Observation, Parsed
from benchstudy.model.metrics import Metric, declare
from benchstudy.model.services import Limits
from benchstudy.model.study import Study

_SPIN = """
import os, signal, sys, time

def spin(share, seconds):
    end, enough = time.monotonic() + seconds, time.process_time() + share * seconds / 2
    while time.monotonic() < end or time.process_time() < enough:  # a busy machine gives it less in that time
        begun = time.process_time()
        while time.process_time() - begun < 0.02 * share:
            pass
        time.sleep(0.02 * (1 - share))

"""
# A child does the work, and has ended before anybody looks.
_IN_A_CHILD = """
if sys.argv[3] == "nobody waits":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if child == 0:
    spin(float(sys.argv[1]), float(sys.argv[2]))
    os._exit(0)
try:
    os.waitpid(child, 0)
except ChildProcessError:
    pass
print(sys.argv[1])
"""


@contextmanager
def neighbour(share: float = 1.0) -> Iterator[None]:
    """A process of somebody else, for as long as the block lasts."""
    process = subprocess.Popen([sys.executable, "-S", "-c", f"{_SPIN}spin({share}, 60)"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


class SpinConfig(FamilyConfig):
    loads: list[str]
    seconds: float = 0.3
    nobody_waits: bool = False
    confined: bool = False
    prepares: bool = False


class Spin(Family):
    """`beside`: what happens around the command of each trial, or with `prepares`, around one that only prepares."""

    name, title, Config = "spin", "Spin", SpinConfig
    metrics: ClassVar = declare(Metric("duration", "s", "Duration", "lower", primary=True))
    beside: Callable[[], Any] | None = None

    def cases(self, config: SpinConfig) -> list[Case]:
        return [Case({"load": name}) for name in config.loads]

    def run(self, case, trial) -> None:
        config = trial.config
        waited = "nobody waits" if config.nobody_waits else ""
        argv = ["python3", "-S", "-c", _SPIN + _IN_A_CHILD, "0.5", str(config.seconds), waited]
        command = Command(argv, limits=Limits() if config.confined else None)
        with Spin.beside() if Spin.beside else nullcontext():
            first = replace(command, label="prepare", measured=False) if config.prepares else command
            trial.execute(first).require_success()
        if config.prepares:
            trial.execute(command).require_success()

    def parse(self, case_levels, files) -> Parsed:
        return Parsed([Observation("duration", float((files / "stdout").read_text()), "s")])


@dataclass
class Lab:
    """A host and a project folder, for sessions one after another."""

    root: Path
    host: SshdHost

    def study(self, spin: dict[str, Any] | None = None, **changes: Any) -> Study:
        families, changes = {"spin": {"loads": ["half"], **(spin or {})}}, {"blocks": 1, **changes}
        described = self.host.described(self.host.folder / "work")
        return study_on(described, families, study="s", target="t", name="h", **changes)

    def hold(self, spin: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        """Hold one session and return its index."""
        plan = self.study(spin, **changes).session("t", "spin")
        return json.loads(hold_session(self.root, plan).read_text())

    def tidy(self, **changes: Any) -> Path:
        output = self.root / "data" / "tidy" / "s" / "spin"
        tidy_family(self.root, [self.study(**changes).session("t", "spin")], output)
        return output

    @property
    def store(self) -> Path:
        return paths.family_raw(self.root, "s", "t", "spin")

    @property
    def trials(self) -> list[StoredTrial]:
        return TrialStore(self.store).trials()

    @property
    def document(self) -> dict[str, Any]:
        """What the only trial recorded about its hosts."""
        (trial,) = self.trials
        return json.loads((trial.folder / interference.FILE).read_text())

    @property
    def supervised(self) -> dict[str, Any]:
        (trial,) = self.trials
        return json.loads((trial.folder / "supervisor.json").read_text())
