"""What a study of very many trials costs where nothing is measured: adopt, list, verify, tables, one more block.

    python benchmarks/scale.py [TRIALS …] [--targets N] [--pages] [--keep FOLDER]

Trials are copies of the captured ones of `fio` in tests/data/store-b9a61cf, put through the store's own door into a
scratch project: six cases, as many blocks as it takes. Each command is a process of its own, as a user starts it.
Printed are wall and processor seconds and peak memory, and of two numbers of trials or more the exponent: 1 is in
proportion to their number. `--pages` makes the page of all of them too, with Snakemake.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import Project, copy_project
from many_trials import FAMILY, STUDY, ManyTrials

_HOLD = "from benchstudy.measuring.session import hold_session\nfor plan in plans: hold_session(root, plan)"
_TIDY = f"from benchstudy.jobs.tidy import tidy_family\ntidy_family(root, plans, root / 'data/tidy/{STUDY}/{FAMILY}')"
_LOAD = (
    "from pathlib import Path\nfrom benchstudy.model.study import load_study\n"
    "root = Path.cwd(); plans = load_study(root / 'config/config.yaml').sessions()\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--targets", type=int, default=1, help="among which they are shared out")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder to work in, which stays")
    asked = parser.parse_args()
    seen: dict[str, list[tuple[int, float]]] = {}
    for trials in asked.trials:
        with _folder(asked.keep, trials) as root:
            scale = Scale(root, trials, asked.targets)
            for what, seconds in scale.run(pages=asked.pages):
                seen.setdefault(what, []).append((scale.trials, seconds))
    for what, points in seen.items():
        if len(points) > 1:
            (few, first), (many, last) = points[0], points[-1]
            print(f"{what}: exponent {math.log(last / first) / math.log(many / few):.2f} of processor time")


class Scale:
    """A project whose study was measured to its end."""

    def __init__(self, root: Path, trials: int, targets: int):
        self.project: Project = copy_project(root)
        (root / "config" / "config.yaml").unlink()
        self._study = ManyTrials(root, targets)
        os.fsync = lambda descriptor: None  # what a power failure would spare is of no interest here
        began = time.monotonic()
        self._study.add(math.ceil(trials / targets / self._study.cases))
        print(f"{self.trials} trials of {targets} targets generated in {time.monotonic() - began:.0f} s", flush=True)

    @property
    def trials(self) -> int:
        return self._study.trials

    def run(self, *, pages: bool) -> Iterator[tuple[str, float]]:
        """Name and processor seconds of each command."""
        yield "adopt, nothing known", self._python("adopt, nothing known", _HOLD)
        yield "adopt", self._python("adopt", _HOLD)
        yield "benchstudy cases", self._command("benchstudy cases", "benchstudy", "cases")
        # A session wrote its index anew, which has to be compared with the sums of every trial once.
        self._command("benchstudy verify, a new index", "benchstudy", "verify")
        yield "benchstudy verify", self._command("benchstudy verify", "benchstudy", "verify")
        yield "verify --read", self._command("verify --read", "benchstudy", "verify", "--read")
        yield "tidy of everything", self._python("tidy of everything", _TIDY)
        yield "tidy again", self._python("tidy again", _TIDY)
        self._study.add(1)
        yield "adopt of one more block", self._python("adopt of one more block", _HOLD)
        yield "tidy of one more block", self._python("tidy of one more block", _TIDY)
        if pages:
            page = ("snakemake", "--cores", "2", f"reports/{STUDY}/{FAMILY}.html")
            yield "page", self._command("page", *page)

    def _python(self, what: str, code: str) -> float:
        return self._command(what, sys.executable, "-c", _LOAD + code)

    def _command(self, what: str, *argv: str) -> float:
        began = time.monotonic()
        with tempfile.TemporaryFile() as said:
            started = subprocess.Popen(
                argv, cwd=self.project.root, env=self.project.environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            _, status, used = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(status)
            if started.returncode:
                said.seek(0)
                sys.exit(f"{what}: exit status {started.returncode}\n{said.read()[-2000:].decode()}")
        busy_s = used.ru_utime + used.ru_stime
        print(
            f"  {what}: {time.monotonic() - began:.2f} s, {busy_s:.2f} s of processor, {used.ru_maxrss / 1024:.0f} MiB",
            flush=True,
        )
        return busy_s


@contextmanager
def _folder(keep: Path | None, trials: int) -> Iterator[Path]:
    if keep is not None:
        yield (keep / f"trials-{trials}").resolve()
        return
    with tempfile.TemporaryDirectory(prefix="benchstudy-scale-") as scratch:
        yield Path(scratch, "project").resolve()
        subprocess.run(["chmod", "-R", "u+w", scratch], check=True)  # trials are read-only, folders included


if __name__ == "__main__":
    main()
