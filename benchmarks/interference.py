"""How often a neighbour on the host is detected during a trial, and how often one is reported that is not there.

    python benchmarks/interference.py [--families fio file_size] [--kinds cpu-25 writer] [--blocks 6] [--keep FOLDER]

Holds sessions of every family, as in the embedded study or else in the first of config/studies for this machine, in
the workflow as a user runs it. Meanwhile neighbours come and go at random, within trials and between them: 10, 25 and
50 % of a processor, a writer of 50 MB/s, a hog of memory bandwidth. Each neighbour records what it used, so it is known
for each window how much there was to detect.

The promise: a neighbour that uses 25 % of a processor all the time is detected in 95 % of the trials of half a second
or more, and at most 2 % of the trials without a neighbour are called disturbed. The latter needs a machine that nobody
else uses. For each kind, it also prints the figure that a reader would have believed next to that of the undisturbed
trials.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from benchstudy.jobs.tidy import tidy_family
from benchstudy.model import interference, paths, registry
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.studyfile import parse_study
from benchstudy.report.results.results import Results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import CHECKOUT, copy_project, use_common_tool_store

# Writes a line every 50 ms: wall clock, processor time so far, bytes written so far.
NEIGHBOUR = """
import os, sys, time
kind, folder = sys.argv[1:]
share = float(kind[4:]) / 100 if kind.startswith("cpu-") else 1.0
written, begun, block = 0, time.monotonic(), bytes(1 << 20)
path = os.path.join(folder, "written")
memory = memoryview(bytearray(256 << 20))
while True:
    print(time.time(), time.process_time(), written, flush=True)
    slot = time.monotonic() + 0.05
    if kind == "writer":
        with open(path, "r+b" if os.path.exists(path) else "wb") as file:
            file.seek(written % (256 << 20))
            while written < (time.monotonic() - begun) * 50e6:
                written += file.write(block)
            file.flush()
            os.fdatasync(file.fileno())
    while kind == "memory" and time.monotonic() < slot:
        memory[: 128 << 20] = memory[128 << 20 :]
    used = time.process_time()
    while kind.startswith("cpu-") and time.process_time() - used < 0.05 * share:
        pass
    time.sleep(max(0.0, slot - time.monotonic()))
"""
KINDS = ("cpu-10", "cpu-25", "cpu-50", "writer", "memory")
LONG_S, QUIET = 0.5, 0.002  # s of a window; processors below which a neighbour counts as absent
COVERED = 0.8  # of a neighbour's full share in the window; above this it was there all the time


@dataclass(frozen=True)
class Visit:
    """A neighbour's stay: wall-clock times, with processor seconds and bytes up to each."""

    kind: str
    moments: tuple[tuple[float, float, float], ...]

    def used(self, begin: float, end: float) -> tuple[float, float]:
        """Processor seconds and bytes between two times, by linear interpolation between its records."""
        cpu_s = written = 0.0
        for (t0, c0, w0), (t1, c1, w1) in pairwise(self.moments):
            inside = max(0.0, min(end, t1) - max(begin, t0)) / (t1 - t0) if t1 > t0 else 0.0
            cpu_s, written = cpu_s + inside * (c1 - c0), written + inside * (w1 - w0)
        return cpu_s, written


class Visitors(threading.Thread):
    """Neighbours of these kinds, one after another, with pauses."""

    def __init__(self, kinds: list[str], seed: int, longest_s: float):
        super().__init__(daemon=True)
        self.kinds, self.random, self.longest_s = kinds, random.Random(seed), longest_s
        self.over = threading.Event()
        self.visits: list[Visit] = []

    def run(self) -> None:
        while not self.over.is_set():
            kind = self.random.choice(self.kinds)
            with tempfile.TemporaryDirectory(prefix="benchstudy-neighbour-", dir="/var/tmp") as folder:
                argv = [sys.executable, "-S", "-c", NEIGHBOUR, kind, folder]
                with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
                    self.over.wait(self.random.uniform(1.0, self.longest_s))
                    process.send_signal(signal.SIGKILL)
                    said = process.stdout.read() if process.stdout else ""
            moments = [tuple(map(float, line.split())) for line in said.splitlines() if line.count(" ") == 2]
            self.visits.append(Visit(kind, tuple(moments)))
            self.over.wait(self.random.uniform(1.0, self.longest_s))


@dataclass(frozen=True)
class Seen:
    """A window of a trial: how much of which neighbour there was, and whether the trial was called disturbed."""

    family: str
    kind: str
    seconds: float
    cpus: float  # processors that the neighbour used
    rate: float  # bytes per second that it wrote
    others: float  # processors, according to the trial
    disturbed: bool


def windows(root: Path, study: str, family: str, visits: list[Visit]) -> Iterator[Seen]:
    policy = DisturbancePolicy()
    for path in paths.family_raw(root, study, "this-machine", family).glob(f"*/*/{interference.FILE}"):
        document = json.loads(path.read_text())
        spans = [
            (readings[0]["wall"], readings[-1]["wall"])
            for command in document["commands"]
            if command["measured"]
            for about in command["hosts"].values()
            if len(readings := about["readings"]) > 1
        ]
        begin, end = max(spans, key=lambda span: span[1] - span[0])
        used = [(visit.used(begin, end), visit.kind) for visit in visits]
        (cpu_s, written), kind = max(used, default=((0.0, 0.0), ""))
        (about,) = document["seen"].values()
        yield Seen(
            family, kind if sum(u[0] for u, _ in used) > QUIET * (end - begin) else "none", end - begin,
            cpu_s / (end - begin), written / (end - begin), about["others_cpu"],
            policy.disturbed(document["seen"]) is not None,
        )  # fmt: skip


def full(kind: str, seen: Seen) -> bool:
    """Whether the neighbour was there during the whole window."""
    if kind == "writer":
        return seen.rate >= COVERED * 50e6
    return seen.cpus >= COVERED * (float(kind[4:]) / 100 if kind.startswith("cpu-") else 0.5)


def believed(root: Path, study: str, family: str) -> Iterator[str]:
    """Medians of all trials next to those of the undisturbed ones, where they differ most."""
    results = Results(root / "data" / "tidy" / study / family, study=study, family=family)
    lines = []
    for metric in results.primary_metrics:
        for (target, case), trials in results.by_case(metric).items():
            quiet = [value for trial, value, _ in trials if trial not in results.disturbed]
            every = [value for _, value, _ in trials]
            if quiet and len(quiet) < len(every) and statistics.median(quiet):
                ratio = statistics.median(every) / statistics.median(quiet)
                name = f"{results.case_name(target, case)}, {metric}"
                told = f"median {statistics.median(every):.4g} of all {len(every)} trials, "
                told += f"{statistics.median(quiet):.4g} of the {len(quiet)} undisturbed ones"
                lines.append((abs(ratio - 1), f"{name}: {told} ({100 * (ratio - 1):+.1f} %)"))
    yield from (text for _, text in sorted(lines, reverse=True)[:3])


def rate(found: list[Seen]) -> str:
    return f"{sum(s.disturbed for s in found)} of {len(found)}" if found else "–"


def study_of(family: str) -> dict[str, Any]:
    """The first shipped study that measures the family on this very machine."""
    config = CHECKOUT / "config"
    studies = (yaml.safe_load(f.read_text()) for f in (config / "config.yaml", *sorted(config.glob("studies/*.yaml"))))
    return next(s for s in studies if family in s["families"] and any(h.get("loopback") for h in s["hosts"].values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=registry.names(), choices=registry.names())
    parser.add_argument(
        "--kinds", nargs="*", default=list(KINDS), choices=KINDS, help="kinds of neighbours; empty: false alarms only"
    )
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument(
        "--longest", type=float, default=8.0, help="longest stay of a neighbour, and longest pause, in s"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the project with all raw data in this folder")
    options = parser.parse_args()
    use_common_tool_store()
    found: list[Seen] = []
    with tempfile.TemporaryDirectory(prefix="benchstudy-interference-") as folder:
        os.environ["BENCHSTUDY_HOST_LOCK"] = f"{folder}/host.lock"
        project = copy_project((options.keep or Path(folder)) / "project")
        for family in options.families:
            shipped = study_of(family)
            families = {family: shipped["families"][family] | {"blocks": options.blocks}}
            targets = {"this-machine": next(iter(shipped["targets"].values()))}
            study = shipped | {"study": f"beside-{family}", "families": families, "targets": targets}
            study |= {"ceilings": [], "acknowledge": []}
            config = project.write_study(study, f"{family}.yaml")
            project.snakemake("provision", "--configfile", config, timeout_s=3600)
            visitors = Visitors(options.kinds, options.seed, options.longest)
            if options.kinds:
                visitors.start()
            try:
                project.snakemake("measure", "--configfile", config, timeout_s=3600)
            finally:
                visitors.over.set()
                if options.kinds:
                    visitors.join()
            (project.root / f"visits-{family}.json").write_text(
                json.dumps([asdict(visit) for visit in visitors.visits])
            )
            plan = parse_study(study).session("this-machine", family)
            tidy_family(project.root, [plan], project.root / "data" / "tidy" / study["study"] / family)
            found += windows(project.root, study["study"], family, visitors.visits)
            for text in believed(project.root, study["study"], family):
                print(f"{family}: {text}")
    by_family: dict[str, list[Seen]] = defaultdict(list)
    for seen in found:
        by_family[seen.family].append(seen)
    print(f"{'disturbed':<20}" + "".join(f"{kind:>14}" for kind in ("none", *options.kinds)))
    for family, trials in by_family.items():
        long = [seen for seen in trials if seen.seconds >= LONG_S]
        cells = [rate([seen for seen in trials if seen.kind == "none"])]
        cells += [rate([seen for seen in long if seen.kind == kind and full(kind, seen)]) for kind in options.kinds]
        print(f"{family:<20}" + "".join(f"{cell:>14}" for cell in cells))
    off = [seen.others - seen.cpus for seen in found if seen.seconds >= LONG_S]
    if off:
        low, middle, high = statistics.quantiles(off, n=4) if len(off) > 1 else off * 3
        print(f"others_cpu minus the neighbour's own count: median {middle:+.3f}, quartiles {low:+.3f} to {high:+.3f}")


if __name__ == "__main__":
    main()
