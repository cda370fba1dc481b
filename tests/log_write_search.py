"""Capacity searches of real logs, held on a real host, and what they leave."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import log_write_study
import pytest
from conftest import CHECKOUT
from log_write_study import FAMILY
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.families.log_write.logbench import LogbenchResult, parse_logbench
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.provisioning.target import provision_target

# A rate at which leaves pile up on any machine: 10 000 are then in flight, which take some 320 MB of the server; at a
# tenth of that rate, 50 MB.
TOO_MUCH, LIMIT = 20_000, {"name": "1-core-192MiB", "cpus": 1, "memory": "192MiB"}
GENERATOR = {
    "name": "open",
    "tool": "logbench",
    "cpus": 1,
    "drain": "5s",
    "write_time": "500ms",
    "request_timeout": "5s",
    "proof_sample": 3,
}
# A bar so low that a busy machine passes it, unless the server dies.
SEARCH = {
    "window": "5s",
    "warm_up": "0s",
    "windows": 1,
    "min_achieved": 0.02,
    "max_errors": 0.99,
    "max_integrate_p99": "60s",
    "highest": f"{TOO_MUCH}/s",
}


def block(limits: list[dict[str, Any]], **search: Any) -> dict[str, Any]:
    return log_write_study.family(
        generators=[GENERATOR],
        rates=["search"],
        limits=limits,
        search={**SEARCH, **search},
        sweeps=[{"antispam": ["no"]}],
        timeout="200s",
    )


@dataclass(frozen=True)
class Searched:
    root: Path
    family: dict[str, Any]
    trial: StoredTrial

    @property
    def parsed(self) -> Any:
        return registry.get(FAMILY).parse(self.trial.record.levels, self.trial.folder)

    @property
    def values(self) -> dict[str, float]:
        assert self.trial.record.status == "ok", self.trial.record.cause
        return {one.metric: one.value for one in self.parsed.observations}

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.parsed.series["steps"])

    @property
    def labels(self) -> set[str]:
        return {command.label for command in self.trial.record.commands}

    def result(self, label: str) -> LogbenchResult:
        return parse_logbench((self.trial.folder / label / "files" / "result.json").read_text())


@dataclass(frozen=True)
class Host:
    """A real, provisioned host. `work`: its work folder; paths below it identify its programs."""

    described: dict[str, Any]
    work: Path
    results: pytest.TempPathFactory

    def search(self, family: dict[str, Any]) -> Searched:
        root = self.results.mktemp("search")
        (trial,) = log_write_study.hold(root, family, self.described)
        assert not list((self.work / "services").glob("*")), "a server of some start is left"
        return Searched(root, family, trial)

    def running(self) -> dict[int, str]:
        """Command lines of its programs, by pid."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.work) in words and "sshd" not in words.split()[0]:
                    found[int(folder.name)] = words
        return found


@contextmanager
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that has everything that the searches start."""
    folder = tmp_path_factory.mktemp("searches")
    with SshdHost(folder / "sshd") as sshd:
        work = folder / "work"
        described = sshd.described(work)
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.chdir(CHECKOUT)
            provision_target(log_write_study.study_of(block([LIMIT]), described), "bench", folder / "facts.json")
        made = Host(described, work, tmp_path_factory)
        yield made
        until(lambda: not made.running(), 20)  # the agent ends a moment after its connection
