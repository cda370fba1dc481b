"""What a study of very many trials costs if nothing is measured: adopt, list, verify, tables, one more block.

    python benchmarks/scale.py [TRIALS …] [--targets N] [--pages] [--keep FOLDER]
    python benchmarks/scale.py --fleet [TARGETS …] [--keep FOLDER]

Trials are copies of the captured ones in tests/data/store-b9a61cf, put through the store's own code into a scratch
project: six cases of `fio`, with as many blocks as needed. Each command is a process of its own, as users start it. It
prints wall and processor seconds of all its processes and their peak memory (cost.py), and for two or more numbers the
exponent: 1 means in proportion to the number. `--pages` also makes all pages, before and after that block. `--fleet`
has five families on each target, some 100 trials: planned, adopted, and from raw to all pages. Its trials share their
files on disk, so none of them is read from disk twice.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import Project, copy_project, use_common_tool_store
from cost import Cost, cost_of, scratch
from many_trials import FAMILY, FIO, STUDY, ManyTrials

_FAMILIES = ("file_size", "fio", "http_concurrency", "log_write", "load_test")

_HOLD = "from benchstudy.measuring.session import hold_session\nfor plan in plans: hold_session(root, plan)"
# Cases that were captured only once, as a failure, have no trial here; a session would measure them.
_INDEX = (
    "from benchstudy.measuring.raw import TrialStore\nfrom benchstudy.measuring.sessionindex import write_index\n"
    "for plan in plans:\n    store = TrialStore(plan.raw(root))\n"
    "    write_index(plan, store, store.trials(), problem=None)"
)
_TIDY = f"from benchstudy.jobs.tidy import tidy_family\ntidy_family(root, plans, root / 'data/tidy/{STUDY}/{FAMILY}')"
_REPORT = ("snakemake", "--cores", "2", "report")
_LOAD = (
    "from pathlib import Path\nfrom benchstudy.model.studyfile import load_study\n"
    "root = Path.cwd(); plans = load_study(root / 'config/config.yaml').sessions()\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--targets", type=int, default=1, help="targets that share the trials")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    parser.add_argument("--fleet", action="store_true", help="the numbers count targets, not trials")
    parser.add_argument("--push", action="store_true", help="with --fleet: push to a local S3 server, and verify")
    asked = parser.parse_args()
    seen: dict[str, list[tuple[int, float]]] = {}
    for number in asked.trials:
        with scratch(asked.keep, f"trials-{number}") as root:
            scale = Fleet(root, number) if asked.fleet else Scale(root, number, asked.targets)
            for what, cost in scale.run(push=asked.push) if asked.fleet else scale.run(pages=asked.pages):
                print(f"  {what}: {cost}", flush=True)
                seen.setdefault(what, []).append((scale.trials, cost.busy_s))
    for what, points in seen.items():
        if len(points) > 1:
            (few, first), (many, last) = points[0], points[-1]
            print(f"{what}: exponent of processor time {math.log(last / first) / math.log(many / few):.2f}")


class Scale:
    """A project whose study is completely measured."""

    is_linked = False

    def __init__(
        self, root: Path, trials: int, targets: int, most_blocks: Mapping[str, int | None] = FIO, blocks: int = 0
    ):  # fmt: skip
        self.project: Project = copy_project(root)
        (root / "config" / "config.yaml").unlink()
        self._study = ManyTrials(root, targets, most_blocks)
        self._study.is_linked = self.is_linked
        os.fsync = lambda descriptor: None  # surviving a power failure does not matter here
        began = time.monotonic()
        self._study.add(blocks or math.ceil(trials / targets / self._study.cases))
        print(f"{self.trials} trials on {targets} targets generated in {time.monotonic() - began:.0f} s", flush=True)

    @property
    def trials(self) -> int:
        return self._study.trials

    def run(self, *, pages: bool) -> Iterator[tuple[str, Cost]]:
        """Name and cost of each command."""
        yield "adopt, nothing known", self._python(_HOLD)
        yield "adopt", self._python(_HOLD)
        yield "benchstudy cases", self._command("benchstudy", "cases")
        # A session wrote its index anew, so it is compared once with the sums of every trial.
        self._command("benchstudy", "verify")
        yield "benchstudy verify", self._command("benchstudy", "verify")
        yield "verify --read", self._command("benchstudy", "verify", "--read")
        yield "tidy of everything", self._python(_TIDY)
        yield "tidy again", self._python(_TIDY)
        if pages:
            yield "all pages", self._command(*_REPORT)
        self._study.add(1)
        yield "adopt of one more block", self._python(_HOLD)
        if pages:
            yield "tables and all pages of one more block", self._command(*_REPORT)
        else:
            yield "tidy of one more block", self._python(_TIDY)

    def _python(self, code: str) -> Cost:
        return self._command(sys.executable, "-c", _LOAD + code)

    def _command(self, *argv: str, **variables: str) -> Cost:
        return cost_of(argv, self.project.root, self.project.environment | variables)


class Fleet(Scale):
    """Five families on `targets` targets: four blocks, and one block of the family that takes longest to read."""

    is_linked = True

    def __init__(self, root: Path, targets: int):
        super().__init__(root, 0, targets, {**dict.fromkeys(_FAMILIES), "load_test": 1}, blocks=4)

    def run(self, *, push: bool) -> Iterator[tuple[str, Cost]]:
        """Name and cost of each command."""
        yield "adopt, nothing known", self._python(_INDEX)
        yield "planning", self._command("snakemake", "-n", "report")
        yield "raw to all pages", self._command(*_REPORT)
        yield "all pages again", self._command(*_REPORT)
        pages = sorted((page.stat().st_size, page.name) for page in self.project.root.glob("reports/**/*.html"))
        print(f"  {len(pages)} pages, the largest {pages[-1][1]} of {pages[-1][0] / 1e6:.2f} MB", flush=True)
        if push:
            yield from self._archive()

    def _archive(self) -> Iterator[tuple[str, Cost]]:
        from s3_server import ACCESS, SECRET, VersityServer

        use_common_tool_store()
        # rclone's server takes longer per object the more there are in one folder.
        server = VersityServer(self.project.root / "s3")
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        where = ("s3://data/benchmark", "--endpoint-url", server.url)
        try:
            yield "push", self._command("benchstudy", "push", *where, **keys)
            yield "push again", self._command("benchstudy", "push", *where, **keys)
            yield "archive verify", self._command("benchstudy", "archive", "verify", *where, **keys)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
