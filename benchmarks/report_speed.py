"""How long a study's reports take, from raw files to all pages, and how that grows with the number of trials.

python benchmarks/report_speed.py [TRIALS] [--times 10] [--cores 2] [--keep FOLDER]

Trials are copies of those that `make report` has measured in this checkout, block for block, put through the store's
own door into a scratch copy of the project; the study there does not measure. Printed: wall and processor time of
`snakemake --cores 2 report` from nothing but raw files, of the same command once more, after an edit of a notebook, and
the size of the largest page. The same with `--times` as many trials, and the ratio of the two.
"""

import argparse
import ctypes
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import yaml

from benchstudy import paths
from benchstudy.raw import TrialStore
from benchstudy.session import write_index
from benchstudy.study import SessionPlan, load_study

CHECKOUT = Path(__file__).resolve().parents[1]
STUDY = CHECKOUT / "config" / "config.yaml"
_SUBREAPER = 36  # of prctl: what loses its parent becomes this process's child
PROMISED_S, PROMISED_BYTES, PROMISED_RATIO = 60, 3_000_000, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", nargs="?", type=int, default=1_000, help="at least so many (default: %(default)s)")
    parser.add_argument("--times", type=int, default=10, help="the larger study; 0: none (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--raw", type=Path, default=CHECKOUT, help="the project whose trials are copied")
    parser.add_argument("--keep", type=Path, help="a folder to work in, which stays")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    first = run(arguments, arguments.trials)
    if arguments.times:
        larger = run(arguments, arguments.trials * arguments.times)
        ratio = larger / first
        print(f"{arguments.times} times the trials: {ratio:.1f} times the time (promised: at most {PROMISED_RATIO})")


def run(arguments: argparse.Namespace, trials: int) -> float:
    """Makes the study and reports it; returns the seconds of the first run."""
    with folder(arguments.keep, trials) as root:
        made = make_project(root, arguments.raw, trials)
        seconds, busy = report(root, arguments.cores)
        print(f"{made} trials: {seconds:.1f} s, {busy:.1f} s of processor time (promised for 1 000: {PROMISED_S} s)")
        again, _ = report(root, arguments.cores)
        notebook = root / "notebooks" / "file_size.ipynb"
        notebook.write_text(notebook.read_text().replace("## The answer", "## An answer"))
        edited, _ = report(root, arguments.cores)
        pages = sorted((root / "reports").rglob("*.html"), key=lambda page: page.stat().st_size)
        size = f"{pages[-1].stat().st_size / 1e6:.2f} MB ({pages[-1].name})"
        print(f"  again: {again:.1f} s; after an edit of a notebook: {edited:.1f} s; largest page {size}", flush=True)
        return seconds


@contextmanager
def folder(keep: Path | None, trials: int) -> Iterator[Path]:
    if keep is not None:
        path = keep / f"trials-{trials}"
        path.mkdir(parents=True)
        yield path.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="benchstudy-speed-") as scratch:
            yield Path(scratch).resolve()
            # Trials are read-only, folders included.
            subprocess.run(["chmod", "-R", "u+w", scratch], check=True)


def make_project(root: Path, source: Path, trials: int) -> int:
    """A copy of the project with a study of at least so many trials; returns how many there are."""
    for name in ("workflow", "notebooks", "config", "envs", "src", "data/published"):
        shutil.copytree(CHECKOUT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    measured = load_study(STUDY)
    every = {plan: _stored(source, plan) for plan in measured.sessions()}
    stored = {plan: by_case for plan, by_case in every.items() if by_case}
    cases = sum(len(by_case) for by_case in stored.values())
    if not cases:
        sys.exit(f"{source}: no trial of study {measured.study}; run `make report` there first")
    blocks = math.ceil(trials / cases)
    declared = yaml.safe_load(STUDY.read_text()) | {"measure": False, "blocks": blocks}
    # A family that was not measured there would make its page of nothing, and each of the others' share larger.
    measured_families = {plan.family_name for plan in stored}
    declared["families"] = {name: f for name, f in declared["families"].items() if name in measured_families}
    (root / "config" / "config.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    os.fsync = lambda descriptor: None  # what a power failure would spare is of no interest here
    for plan in load_study(root / "config" / "config.yaml").sessions():
        of_family = next(found for p, found in stored.items() if p.family_name == plan.family_name)
        _multiply(root, source, plan, of_family, blocks)
    return cases * blocks


def _stored(source: Path, plan: SessionPlan) -> dict:
    """A family's trials by case, in the order of their blocks."""
    store = TrialStore(paths.family_raw(source, plan.study.study, plan.target, plan.family_name))
    found: dict = {}
    for trial in store.trials():
        found.setdefault(trial.record.case, []).append(trial)
    return found


def _multiply(root: Path, source: Path, plan: SessionPlan, stored: dict, blocks: int) -> None:
    store = TrialStore(paths.family_raw(root, plan.study.study, plan.target, plan.family_name))
    sessions = paths.family_raw(source, plan.study.study, plan.target, plan.family_name) / "sessions"
    shutil.copytree(sessions, store.folder / "sessions")
    made = []
    for block in range(1, blocks + 1):
        for position, (case, trials) in enumerate(stored.items(), start=1):
            original = trials[(block - 1) % len(trials)]
            partial = store.begin(case, block)
            for file in original.files:
                if file.name != "trial.json":
                    target = partial.folder / file.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(original.folder / file.name, target)
            changes = {"uuid": partial.uuid, "block": block, "position": position}
            made.append(partial.commit(original.record.model_copy(update=changes)))
    write_index(plan, store, made, None)


def report(root: Path, cores: int) -> tuple[float, float]:
    """Wall and processor seconds of the command, as a user types it."""
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        ["snakemake", "--cores", str(cores), "report"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "PATH": search},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - started
    _wait_for_the_rest()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{root}: the report failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    (root / f"report-{uuid4().hex[:8]}.log").write_text(done.stderr)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _wait_for_the_rest() -> None:
    """For what outlives the command by a moment, whose processor time counts too."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
