"""A family whose trials run a command that uses a known share of a processor, and neighbours of a known size."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sshd_hosts import SshdHost

from benchstudy.hosts.agent import Command
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.raw import StoredTrial, TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.model import interference, paths
from benchstudy.model.family import Case, Family, FamilyConfig, Observation, Parsed
from benchstudy.model.metrics import Metric, declare
from benchstudy.model.study import Study, parse_study

# Works for its share of each 20 ms, in a child that ends before it does.
SPIN = """
import os, sys, time
share, seconds = float(sys.argv[1]), float(sys.argv[2])
end = time.monotonic() + seconds
child = os.fork()
if child == 0:
    while time.monotonic() < end:
        begun = time.process_time()
        while time.process_time() - begun < 0.02 * share:
            pass
        time.sleep(0.02 * (1 - share))
    os._exit(0)
os.waitpid(child, 0)
print(share)
"""


@contextmanager
def neighbour(share: float = 1.0, seconds: float = 60.0) -> Iterator[None]:
    """Somebody else's process, for as long as the block lasts."""
    process = subprocess.Popen([sys.executable, "-S", "-c", SPIN.replace("child = os.fork()", "child = 0"),
                                str(share), str(seconds)], stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


class SpinConfig(FamilyConfig):
    loads: dict[str, float]
    seconds: float = 0.5


class Spin(Family):
    """`beside`: what a test does around the command of a case in a block, as often as that is measured."""

    name, title, Config = "spin", "Spin", SpinConfig
    metrics: ClassVar = declare(Metric("duration", "s", "Duration", "lower", primary=True))
    beside: Callable[[str, int], Any] | None = None

    def cases(self, config: SpinConfig) -> list[Case]:
        return [Case({"load": name}) for name in config.loads]

    def run(self, case, trial) -> None:
        name = case.levels["load"]
        argv = ["python3", "-S", "-c", SPIN, str(trial.config.loads[name]), str(trial.config.seconds)]
        if Spin.beside is None:
            trial.execute(Command(argv)).require_success()
            return
        with Spin.beside(name, trial.block):
            trial.execute(Command(argv)).require_success()

    def parse(self, case_levels, files) -> Parsed:
        return Parsed([Observation("duration", float((files / "stdout").read_text()), "s")])


@dataclass
class Lab:
    root: Path
    host: SshdHost
    study_name: str = "s"
    loads: dict[str, float] = field(default_factory=lambda: {"half": 0.5})

    def study(self, **changes: Any) -> Study:
        described = self.host.host.model_dump(exclude_none=True) | {"work_dir": str(self.host.folder / "work")}
        return parse_study(
            {
                "study": self.study_name,
                "blocks": 1,
                "hosts": {"h": described},
                "targets": {"t": {"roles": {"sut": "h"}}},
                "families": {"spin": {"loads": self.loads}},
                **changes,
            }
        )

    def hold(self, **changes: Any) -> dict[str, Any]:
        """One session; returns its index."""
        return json.loads(hold_session(self.root, self.study(**changes).session("t", "spin")).read_text())

    def tidy(self, **changes: Any) -> Path:
        output = self.root / "data" / "tidy" / self.study_name / "spin"
        tidy_family(self.root, [self.study(**changes).session("t", "spin")], output)
        return output

    @property
    def trials(self) -> list[StoredTrial]:
        return TrialStore(paths.family_raw(self.root, self.study_name, "t", "spin")).trials()

    @property
    def document(self) -> dict[str, Any]:
        (trial,) = self.trials
        return json.loads((trial.folder / interference.FILE).read_text())
