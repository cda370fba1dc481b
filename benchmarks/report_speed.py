"""How long a study's reports take, from raw files to all pages, and how this grows with the number of trials.

python benchmarks/report_speed.py [TRIALS] [--times 10] [--cores 2] [--raw PROJECT] [--keep FOLDER]

Trials are copies of those that `make report` has measured in this checkout or in PROJECT, block for block. They go
through the store's own code into a scratch copy of this project with PROJECT's study, where nothing is measured. It
prints wall and processor time of `snakemake --cores 2 report` from raw files only, of the same command once more, and
after an edit of a notebook, and the largest pages. It repeats this with `--times` as many trials, and prints the ratio.

The exit status is 1 if a promise does not hold, or if a family of the study was not measured there, because its page
would be missing from the sum. Raw files of 10 000 trials of five families take 1 GB while it runs.
"""

import argparse
import math
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sessionindex import write_index
from benchstudy.model.grouping import grouped
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import load_study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import CHECKOUT, Project, copy_project
from cost import Cost, cost_of, scratch

# Seconds for this many trials, bytes of the largest page at any number of trials, and growth: ten times the trials may
# take twelve times the time.
PROMISED_S, PROMISED_TRIALS, PROMISED_BYTES, PROMISED_GROWTH = 40, 1_000, 3_000_000, 1.2
# Seconds of the command when there is nothing to do, at any number of trials up to 10 000.
PROMISED_AGAIN_S = 3
# Seconds after an edit of one notebook, at 1 000 trials.
PROMISED_EDITED_S = 12


@dataclass(frozen=True)
class Run:
    """One study.

    Its trials, wall and processor seconds of the first report, seconds with nothing to do and after an edit of a
    notebook, and bytes of its pages by name.
    """

    trials: int
    seconds: float
    busy_s: float
    again_s: float
    edited_s: float
    pages: dict[str, int]

    @property
    def largest(self) -> tuple[str, int]:
        return max(self.pages.items(), key=lambda page: page[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "trials", nargs="?", type=int, default=1_000, help="copy at least this many (default: %(default)s)"
    )
    parser.add_argument(
        "--times",
        type=int,
        default=10,
        help="size of the larger study as a multiple; 0 for none (default: %(default)s)",
    )
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--raw", type=Path, default=CHECKOUT, help="the project whose trials are copied")
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    missing = families_without_trials(arguments.raw)
    runs = [run(arguments, arguments.trials)]
    if arguments.times:
        runs.append(run(arguments, arguments.trials * arguments.times))
    broken = [f"no trial of {name} in {arguments.raw}: its page is not in these figures" for name in missing]
    broken += broken_promises(runs)
    print("\n".join(f"BROKEN PROMISE: {text}" for text in broken) or "all promises hold")
    sys.exit(bool(broken))


def broken_promises(runs: list[Run]) -> list[str]:
    """The promises that do not hold, in sentences. Prints how the larger study compares with the first."""
    first, *larger = runs
    found = []
    if first.seconds > PROMISED_S and first.trials <= 1.1 * PROMISED_TRIALS:
        found.append(f"{first.trials} trials took {first.seconds:.1f} s, more than {PROMISED_S} s")
    if first.edited_s > PROMISED_EDITED_S and first.trials <= 1.1 * PROMISED_TRIALS:
        found.append(f"an edited notebook took {first.edited_s:.1f} s, more than {PROMISED_EDITED_S} s")
    for each in larger:
        times, ratio = each.trials / first.trials, each.seconds / first.seconds
        most = PROMISED_GROWTH * times
        print(
            f"{times:.1f} times the trials: {ratio:.1f} times the time (promised: at most {most:.1f}), "
            f"{each.busy_s / first.busy_s:.1f} times the processor time"
        )
        if ratio > most:
            found.append(f"{times:.1f} times the trials took {ratio:.1f} times the time, more than {most:.1f}")
    for each in runs:
        if each.again_s > PROMISED_AGAIN_S:
            found.append(
                f"{each.trials} trials with nothing to do took {each.again_s:.1f} s, more than {PROMISED_AGAIN_S} s"
            )
        name, size = each.largest
        if size > PROMISED_BYTES:
            found.append(
                f"{name} of {each.trials} trials is {size / 1e6:.2f} MB, more than {PROMISED_BYTES / 1e6:g} MB"
            )
    return found


def run(arguments: argparse.Namespace, trials: int) -> Run:
    """Make the study and its reports."""
    with scratch(arguments.keep, f"trials-{trials}") as root:
        project = copy_project(root)
        made = fill(project, arguments.raw, trials)
        first = report(project, arguments.cores)
        print(f"{made} trials: {first} (promised for 1 000: {PROMISED_S} s)")
        again = min(report(project, arguments.cores).wall_s for _ in range(3))
        print(f"  nothing to do, best of three: {again:.1f} s (promised: {PROMISED_AGAIN_S} s)")
        notebook = root / "notebooks" / "file_size.ipynb"
        notebook.write_text(notebook.read_text().replace("## The answer", "## An answer"))
        edited = report(project, arguments.cores).wall_s
        reports = root / "reports"
        pages = {path.relative_to(reports).as_posix(): path.stat().st_size for path in reports.rglob("*.html")}
        print(f"  after an edit of a notebook: {edited:.1f} s (promised for 1 000: {PROMISED_EDITED_S} s)")
        print(f"  {len(pages)} pages, the largest:")
        for name, size in sorted(pages.items(), key=lambda page: -page[1])[:8]:
            print(f"  {size / 1e6:.2f} MB {name}", flush=True)
        return Run(made, first.wall_s, first.busy_s, again, edited, pages)


def fill(project: Project, source: Path, trials: int) -> int:
    """Give the project a study of at least `trials` trials; returns how many there are."""
    declared = study_of(source)
    every = {plan: _stored(source, plan) for plan in load_study(declared).sessions()}
    stored = {plan: by_case for plan, by_case in every.items() if by_case}
    cases = sum(len(by_case) for by_case in stored.values())
    if not cases:
        sys.exit(f"{source}: no trial of its study; run `make report` there first")
    blocks = math.ceil(trials / cases)
    study = yaml.safe_load(declared.read_text()) | {"measure": False, "blocks": blocks}
    # A family that was not measured there would have an empty page, and the others would get larger shares.
    measured = {plan.family_name for plan in stored}
    if missing := [name for name in study["families"] if name not in measured]:
        for name in missing:
            del study["families"][name]
        # They may name a family that is left out.
        study = {key: value for key, value in study.items() if key not in ("ceilings", "acknowledge")}
    os.fsync = lambda descriptor: None  # surviving a power failure does not matter here
    for plan in load_study(project.write_study(study, "config.yaml")).sessions():
        of_family = next(found for p, found in stored.items() if p.family_name == plan.family_name)
        _multiply(project.root, source, plan, of_family, blocks)
    return cases * blocks


def study_of(project: Path) -> Path:
    return project / "config" / "config.yaml"


def families_without_trials(source: Path) -> list[str]:
    plans = load_study(study_of(source)).sessions()
    return [plan.family_name for plan in plans if not any(plan.raw(source).glob("*/*/trial.json"))]


def _stored(source: Path, plan: SessionPlan) -> dict:
    """A family's trials by case, in the order of their blocks."""
    return grouped((trial.record.case, trial) for trial in TrialStore(plan.raw(source)).trials())


def _multiply(root: Path, source: Path, plan: SessionPlan, stored: dict, blocks: int) -> None:
    store = TrialStore(plan.raw(root))
    shutil.copytree(plan.raw(source) / "sessions", store.folder / "sessions")
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


def report(project: Project, cores: int) -> Cost:
    """The command, as a user runs it."""
    return cost_of(["snakemake", "--cores", str(cores), "report"], project.root, project.environment)


if __name__ == "__main__":
    main()
