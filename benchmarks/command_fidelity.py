"""Does the family command measure what hyperfine measures? Interleaved pairs of both, on the same commands.

    python benchmarks/command_fidelity.py [--pairs 20] [--output fidelity.json]

Each pair times the same command by `command_runs`, as it runs on a host, and by `hyperfine -N`, directly one after the
other in random order, both without a shell and with the same number of runs. The time of each side is its fastest run:
on a shared machine, the median run is one that had to wait. The ratio of median runs is printed as well. The commands
sleep for 1 ms, 10 ms, 100 ms and 1 s, because the time of a computing command would depend on other load.

From 10 ms on, the median of the pairs' ratios (command_runs over hyperfine) must be in 0.98–1.02; otherwise the exit
status is 1. Without hyperfine, a bare loop of `perf_counter` around `posix_spawn` and `waitpid` replaces it.
"""

import argparse
import atexit
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from scipy.stats import quantile_test

from benchstudy.hosts.line import agent_sources, write_agent
from benchstudy.model import registry

PROBE = Path(tempfile.mkdtemp(prefix="benchstudy-command-"))
atexit.register(shutil.rmtree, PROBE)
write_agent(PROBE, agent_sources(registry.get("command").extensions))
# Seconds that the command sleeps, and the runs of each side per pair.
WAITS = {"0.001": 40, "0.01": 30, "0.1": 10, "1": 3}
JUDGED_FROM_S, RATIO = 0.01, (0.98, 1.02)


@dataclass(frozen=True)
class Comparison:
    """The pairs of one command: medians of fastest runs in seconds, and the 95 % interval of the median ratio."""

    wait: str
    against: str
    pairs: int
    ours_s: float
    theirs_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    ratio_of_median_runs: float

    @property
    def holds(self) -> bool:
        return float(self.wait) < JUDGED_FROM_S or RATIO[0] <= self.ratio <= RATIO[1]

    def __str__(self) -> str:
        return (
            f"sleep {self.wait:>5}  n={self.pairs:<3} command_runs {self.ours_s * 1e3:9.3f} ms  {self.against} "
            f"{self.theirs_s * 1e3:9.3f} ms  ratio {self.ratio:.4f} [{self.ratio_low:.4f}, {self.ratio_high:.4f}]  "
            f"(of median runs {self.ratio_of_median_runs:.4f})  "
            f"{'holds' if self.holds else 'DOES NOT HOLD'}"
        )


def ours(argv: list[str], runs: int) -> list[float]:
    """Every run in seconds, as measured by the family's code for hosts."""
    spec = {
        "argv": argv, "empty": ["true"], "stdin": "", "prepare": [], "cleanup": [], "warm_up": {"runs": 1},
        "repeat": runs, "expect": [0], "discard": True, "max_bytes": 1 << 20, "collect": {}, "sizes": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", str(PROBE), "command_runs:main"]
        ran = subprocess.run(command, cwd=folder, input=json.dumps(spec).encode(), check=True, capture_output=True)
        answer = json.loads(ran.stdout)
    return [run["wall_ns"] / 1e9 for run in answer["runs"]]


def hyperfine(argv: list[str], runs: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "export.json"
        options = ["-N", "--warmup", "1", "--runs", str(max(runs, 2)), "--style", "none", "--export-json", str(export)]
        subprocess.run(["hyperfine", *options, " ".join(argv)], check=True, capture_output=True)
        return list(json.loads(export.read_text())["results"][0]["times"])


def bare(argv: list[str], runs: int) -> list[float]:
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        pid = os.posix_spawnp(argv[0], argv, os.environ)
        os.waitpid(pid, 0)
        times.append(time.perf_counter() - start)
    return times[1:]


def compare(wait: str, runs: int, pairs: int, rng: random.Random) -> Comparison:
    name = "hyperfine" if shutil.which("hyperfine") else "bare"
    measures = {"ours": ours, "theirs": hyperfine if name == "hyperfine" else bare}
    found: dict[str, list[list[float]]] = {side: [] for side in measures}
    for _ in range(pairs):
        for side in rng.sample(list(measures), k=2):
            found[side].append(measures[side](["sleep", wait], runs))
    both = list(zip(found["ours"], found["theirs"], strict=True))
    ratios = [min(mine) / min(its) for mine, its in both]
    interval = quantile_test(ratios, p=0.5).confidence_interval(0.95)
    fastest = [statistics.median(map(min, found[side])) for side in measures]
    of_medians = statistics.median(statistics.median(mine) / statistics.median(its) for mine, its in both)
    return Comparison(wait, name, pairs, *fastest, statistics.median(ratios), interval.low, interval.high, of_medians)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rng = random.Random(1)
    found = []
    for wait, runs in WAITS.items():
        found.append(compare(wait, runs, arguments.pairs, rng))
        print(found[-1], flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
