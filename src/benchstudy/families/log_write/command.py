"""The command lines of the generators that write to a log, and of the watcher."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchstudy.families.log_write.config import LogGenerator
from benchstudy.families.log_write.layout import LOAD, RESULT, WATCH
from benchstudy.hosts.agent import Command
from benchstudy.model.clients import part_of

SCREEN = (40, 120)  # rows and columns of the hammer's terminal; only its screen has its figures
Cpus = tuple[int, ...] | None
_POLL_INTERVAL_S = 0.02
_SPARE_FILES = 256  # besides a generator's connections: polls, tiles, output
_WATCH_LONGER_S = 3.0  # longer than the hammer writes, so that its last leaves are integrated


@dataclass(frozen=True)
class Target:
    """One log as a generator sees it. `key`: the text of the public key."""

    read_url: str
    write_urls: Sequence[str]
    key: str


@dataclass(frozen=True)
class Load:
    """One run of a generator against a log. `rate_per_s`: the offered rate. `under_way`: the most writes in flight."""

    generator: LogGenerator
    target: Target
    rate_per_s: float
    under_way: int
    duplicate_share: float
    warm_up_s: float
    duration_s: float
    cool_down_s: float  # load after the window, so that the log is busy while it integrates the last leaves

    def part(self, client: int, clients: int) -> "Load":
        """The part of one of several clients, numbered from 1."""
        return replace(self, rate_per_s=self.rate_per_s / clients, under_way=part_of(self.under_way, client, clients))

    @property
    def total_s(self) -> float:
        return self.warm_up_s + self.duration_s + self.cool_down_s

    def write(self, program: str, label: str, cpus: Cpus, timeout_s: float) -> Command:
        """Build the command of logbench as the open loop."""
        config = {
            **_read_config(self.target),
            "write_urls": list(self.target.write_urls),
            "rate_per_s": self.rate_per_s,
            "warm_up_s": self.warm_up_s,
            "duration_s": self.duration_s,
            "cool_down_s": self.cool_down_s,
            "max_in_flight": self.under_way,
            "duplicate_share": self.duplicate_share,
            "leaf_bytes": self.generator.leaf_bytes,
            "timeout_s": self.generator.request_timeout,
            "drain_s": self.generator.drain,
            "proof_sample": self.generator.proof_sample,
        }
        return self._logbench(program, "write", config, label, cpus, timeout_s)

    def watch(self, program: str, timeout_s: float) -> Command:
        """Build the command of logbench beside the hammer: it watches checkpoints, and proves leaves."""
        config = {
            **_read_config(self.target),
            "duration_s": self.total_s + _WATCH_LONGER_S,
            "drain_s": self.generator.drain,
            "proof_sample": self.generator.proof_sample,
        }
        return self._logbench(program, "watch", config, WATCH, None, timeout_s)

    def _logbench(
        self, program: str, verb: str, config: dict[str, Any], label: str, cpus: Cpus, timeout_s: float
    ) -> Command:
        return Command(
            [program, verb, "--config", "/dev/stdin", "--out", RESULT],
            stdin=json.dumps(config, indent=1).encode(),
            timeout_s=timeout_s,
            label=label,
            cpu_list=cpus,
            open_files=self.under_way + _SPARE_FILES,
        )

    def hammer(self, program: str, cpus: Cpus) -> Command:
        """Build the command of the hammer on a terminal, where it never ends by itself: its timeout ends it."""
        argv = [
            program,
            "--show_ui=true",
            "-v=1",
            "--stderrthreshold=INFO",  # otherwise its log covers the figures on the screen
            f"--log_public_key={self.target.key}",
            f"--log_url={self.target.read_url}",
            *(f"--write_log_url={url}" for url in self.target.write_urls),
            "--max_read_ops=0",
            f"--num_writers={self.under_way}",
            f"--max_write_ops={self.rate_per_s:.0f}",
            f"--dup_chance={self.duplicate_share:g}",
            f"--leaf_min_size={self.generator.leaf_bytes}",
        ]
        return Command(
            argv,
            terminal=SCREEN,
            timeout_s=self.total_s,
            label=LOAD,
            cpu_list=cpus,
            open_files=self.under_way + _SPARE_FILES,
        )


def _read_config(target: Target) -> dict[str, Any]:
    return {"read_url": target.read_url, "public_key": target.key, "poll_interval_s": _POLL_INTERVAL_S}
