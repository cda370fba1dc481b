"""Fail every system call that can fail: a command runs once for each of its calls on the project's files.

The N-th call fails as on a disk that is full, broken, over its quota or read-only, either once or from then on. A write
writes half of its data before it fails. Or the process is killed there. Afterwards, nothing that was stored may be
lost, altered, half there or there twice, the command says what to do, and running it again completes what is missing.

`make test-long` runs all of it; the suite has a sample (test_injections.py).

    python tests/injections.py --phase import --only rename --seed 7
"""

import argparse
import errno
import hashlib
import importlib
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from injected import KILL, LASTING, LASTING_KINDS, ONCE, PRELOADED, READS, SHORT, Ended, Injection, errors_of, run, shim
from injection_phases import ARCHIVE, PHASES, SMALL, Lab, Phase, remove

from benchstudy.measuring.sealed import IN_ARCHIVE

_TRIAL = re.compile(r"\d{4,}-[0-9a-f]{8}")
_DRAWN = re.compile(r"(?<=[-/.])[0-9a-f]{8}(?=[/.]|$)")


# --- what must hold -----------------------------------------------------------------------------------------------


def sealed(root: Path, below: str = "data/raw/**") -> dict[str, dict[str, str]]:
    """What is stored: the SHA-256 of each file in each sealed folder."""
    found = {}
    for sums in sorted(root.glob(f"{below}/SHA256SUMS")):
        folder = sums.parent
        if not any(part.startswith(".partial") for part in folder.relative_to(root).parts):
            files = (path for path in folder.rglob("*") if path.is_file())
            # What was just being replaced comes back with the next command; it sorts before what is in its place.
            place = folder.with_name(folder.name.removeprefix(".replaced-")).relative_to(root)
            found[str(place)] = {str(path.relative_to(folder)): digest(path) for path in files}
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def broken(root: Path) -> Iterator[str]:
    """Trials that are visible to others but incomplete."""
    for folder in root.glob("data/raw/*/*/*/*/*"):
        if not _TRIAL.fullmatch(folder.name):
            continue
        try:
            sums = (folder / "SHA256SUMS").read_text().splitlines()
            listed = dict(line.split("  ", 1)[::-1] for line in sums)
            json.loads((folder / "trial.json").read_bytes())
            there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"SHA256SUMS"}
            if IN_ARCHIVE in there:
                elsewhere = json.loads((folder / IN_ARCHIVE).read_bytes())
                listed = {name: sha for name, sha in listed.items() if name not in elsewhere}
                there.remove(IN_ARCHIVE)
            if {name: digest(folder / name) for name in there} != listed:
                yield f"{folder.name} is accepted half"
        except (OSError, ValueError) as error:
            yield f"{folder.name} is accepted half: {error}"


def twice(root: Path) -> Iterator[str]:
    """Number of results per case and block, or per content."""
    gone = {path.stem for path in root.glob("data/raw/*/*/*/discards/*.json")}
    seen = Counter()
    for record in root.glob("data/raw/*/*/*/*/[!.]*-*/trial.json"):
        told = json.loads(record.read_bytes())
        if told["status"] == "aborted" or told["uuid"][:8] in gone:
            continue
        seen[told["case"], told["block"]] += 1
        if told["imported_from"]:
            seen[told["verified"]["source"]["sha256"]] += 1
    yield from (f"{what} is there {count} times" for what, count in seen.items() if count > 1)


# The record of what was seen of raw files is only written if the disk takes it; no message says so.
_NO_MATTER = re.compile(r"\.snakemake|src|\.benchstudy/studies/[^/]+/(confirmed|read)/")


def listing(root: Path) -> Counter[str]:
    """How often each file is there; random ids count as the same. Aborted trials are evidence, not results."""
    aborted = set()
    for record in root.glob("data/raw/*/*/*/*/[!.]*-*/trial.json"):
        if json.loads(record.read_bytes())["status"] == "aborted":
            aborted.add(record.parent)
    files = (path for path in root.rglob("*") if not path.is_dir() and not aborted.intersection(path.parents))
    names = (str(path.relative_to(root)) for path in files)
    return Counter(_DRAWN.sub("X", name) for name in names if not _NO_MATTER.match(name))


def content(root: Path, patterns: Iterable[str]) -> dict[str, str]:
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return {str(path.relative_to(root)): digest(path) for path in found}


@dataclass
class Result:
    """The result of one injection. `how`: the command was killed, ended with a message, or went on to its end."""

    phase: str
    injection: Injection
    hit: str
    how: str
    said: str
    faults: list[str] = field(default_factory=list)


class Bench:
    """A prepared phase: `attempt` runs it with an injection and checks what is left."""

    def __init__(self, phase: Phase, lab: Lab, folder: Path):
        self.phase, self._lab, self._folder = phase, lab, folder
        self._prepared, self._root = folder / f"{phase.name}-prepared", folder / phase.name
        self._plan = folder / f"{phase.name}.plan"
        phase.prepare(lab, self._prepared)
        self._before = sealed(self._prepared)
        self._fresh()
        ended = self._run(None)
        assert ended.code == 0 or self._has_finished(ended), ended
        self.calls = Path(f"{self._plan}.trace").read_text(errors="replace").splitlines()
        self._whole, self._content = listing(self._root), content(self._root, phase.same)
        again = self._again()
        assert again.code == 0 or self._has_finished(again), again
        # A command that has nothing to do may leave more, such as an index that it removed before.
        self._whole_again = listing(self._root)
        problems = [*broken(self._root), *twice(self._root)]
        assert not problems, problems

    def injections(self) -> list[Injection]:
        """All injections that the calls of the phase allow."""
        found = []
        # Python and Snakemake start before that, and print a traceback if they cannot read themselves.
        first = next(n for n, line in enumerate(self.calls) if "Snakefile" in line) if self.phase.of_many else 0
        for number, line in enumerate(self.calls[first:], start=first + 1):
            kind, call = line.split(" ", 1)
            if kind in READS:
                found += [Injection(number, call, error, mode) for error in errors_of(kind) for mode in (ONCE, LASTING)]
                continue
            found += [Injection(number, call, error, ONCE) for error in errors_of(kind)]
            lasting = [error for error in errors_of(kind) if kind in LASTING_KINDS[error]]
            found += [Injection(number, call, error, LASTING) for error in lasting]
            found += [Injection(number, call, "ENOSPC", SHORT)] if kind == "w" else []
            found.append(Injection(number, call, "EIO", KILL))
        return found

    def attempt(self, injection: Injection) -> Result | None:
        """None if the command did not reach that call."""
        self._fresh()
        first = self._run(injection)
        if not first.hit:
            return None
        how = "killed" if injection.mode == KILL else "in words" if first.code else "went on"
        result = Result(self.phase.name, injection, first.hit, how, first.said)
        result.faults += self._lost()
        result.faults += broken(self._root)
        result.faults += self._ending(injection, first)
        again = self._again()
        if again.code and not self._has_finished(again):
            result.faults.append(f"the same command again ends with {again.code}")
            result.said += f"\n--- again:\n{again.said}"
        result.faults += [f"afterwards {what}" for what in (*self._lost(), *broken(self._root), *twice(self._root))]
        result.faults += self._left("afterwards ")
        return result

    def _ending(self, injection: Injection, first: Ended) -> Iterator[str]:
        if "Traceback (most recent call last)" in first.said or "Exception ignored" in first.said:
            yield "a traceback"
        if injection.mode == KILL:
            if first.code != -signal.SIGKILL and not (self.phase.of_many and first.code):
                yield f"was killed, and ended with {first.code}"
        elif first.code is None or first.code < 0:
            yield f"ended with {first.code}"
        elif first.code == 0 or self._has_finished(first):
            yield from self._left("ended well, and ")
        elif self._does_not_say(injection, first.said):
            yield "does not say what to do"

    def _does_not_say(self, injection: Injection, said: str) -> bool:
        """Whether the message says what is wrong and what to do. To restore an unreadable file takes other words."""
        reads = self.calls[injection.at - 1][0] in READS
        error = getattr(errno, injection.error)
        return (os.strerror(error) if reads else "run the same command again") not in said

    def _left(self, when: str) -> Iterator[str]:
        found, whole = listing(self._root), (self._whole, self._whole_again)
        more, fewer = found.keys() - whole[0].keys() - whole[1].keys(), min((each - found for each in whole), key=len)
        if more:
            yield f"{when}there is {', '.join(sorted(more)[:4])}"
        if fewer:
            yield f"{when}there is no {', '.join(sorted(fewer)[:4])}"
        differ = {name for name, sha in content(self._root, self.phase.same).items() if self._content.get(name) != sha}
        if differ:
            yield f"{when}{', '.join(sorted(differ)[:4])} is not what it was without the fault"

    def _lost(self) -> Iterator[str]:
        now = sealed(self._root)
        for place, files in self._before.items():
            # If a part of a trial is in an archive, the whole trial may be here by now.
            if {**now.get(place, {}), IN_ARCHIVE: ""} != {**now.get(place, {}), **files, IN_ARCHIVE: ""}:
                yield f"{place} was lost or altered"

    def _fresh(self) -> None:
        remove(self._root)
        shutil.copytree(self._prepared, self._root, symlinks=True)

    def _run(self, injection: Injection | None) -> Ended:
        return run(self._root, self.phase.command, injection, self._plan, of_many=self.phase.of_many)

    def _again(self) -> Ended:
        """Run the same command again, for as long as a host may still be locked by the killed one."""
        deadline = time.monotonic() + self.phase.patience_s
        while True:
            ended = self._run(None)
            if not ended.code or self._has_finished(ended) or time.monotonic() > deadline:
                return ended
            time.sleep(0.2)

    def _has_finished(self, ended: Ended) -> bool:
        return self.phase.finished is not None and self.phase.finished in ended.said


# --- all injections -------------------------------------------------------------------------------------------------


def chosen(bench: Bench, told: argparse.Namespace) -> list[Injection]:
    """The requested injections: in the order of their calls, or a random choice if the phase has too many."""
    found = [injection for injection in bench.injections() if told.only in str(injection)]
    most = min(filter(None, (told.most, bench.phase.most)), default=None)
    if most is None or len(found) <= most:
        return found
    rng = random.Random(f"{told.seed}/{bench.phase.name}")
    return sorted(rng.sample(found, most), key=lambda injection: injection.at)


def work(number: int, told: argparse.Namespace, folder: Path, say: int) -> None:
    """One worker's share; each result is a line of JSON."""
    lab = Lab(folder)
    with os.fdopen(say, "w") as out:
        try:
            for name in told.phase or PHASES:
                bench = Bench(PHASES[name], lab, folder)
                mine = chosen(bench, told)[number :: told.workers]
                planned = {"phase": name, "calls": len(bench.calls), "planned": len(mine)}
                print(json.dumps(planned), file=out, flush=True)
                for injection in mine:
                    if time.time() > told.until:
                        break
                    result = bench.attempt(injection)
                    print(json.dumps(result and asdict(result)), file=out, flush=True)
        finally:
            lab.close()


def run_all(told: argparse.Namespace, folder: Path) -> list[dict]:
    """Results of all workers, as they arrive."""
    reading = []
    for number in range(told.workers):
        own, (read, write) = folder / f"{number}", os.pipe()
        own.mkdir()
        if os.fork() == 0:
            try:
                work(number, told, own, write)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(write)
        reading.append(os.fdopen(read, "rb"))
    results, planned, done, shown = [], 0, 0, time.monotonic()
    while reading:
        for pipe in select.select(reading, [], [])[0]:
            line = pipe.readline()
            if not line:
                reading.remove(pipe)
                if os.waitstatus_to_exitcode(os.wait()[1]):
                    raise SystemExit("a worker ended with an error")
                continue
            result = json.loads(line)
            if result and "planned" in result:
                planned += result["planned"]
                print(f"{result['phase']}: {result['calls']} calls, {result['planned']} injections", flush=True)
                continue
            done += 1
            results += [result] if result else []
            if result and result["faults"]:
                print(
                    f"  {result['phase']}: {Injection(**result['injection'])}: {'; '.join(result['faults'])}",
                    flush=True,
                )
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                faults = sum(bool(each["faults"]) for each in results)
                print(f"  {done} of {planned} so far, {faults} with faults", flush=True)
    return results


def print_table(results: Sequence[Mapping]) -> None:
    """Counts by phase and call, and the kinds of faults with an example of each."""
    rows: dict[tuple[str, str, str], Counter] = {}
    for result in results:
        injection = result["injection"]
        error = KILL if injection["mode"] == KILL else injection["error"]
        row = rows.setdefault((result["phase"], result["hit"].split()[0], error), Counter())
        row.update([result["how"], "all", *(["faults"] if result["faults"] else [])])
    head = f"{'phase':10} {'call':16} {'error':8}"
    print(f"\n{head} {'injections':>10} {'message':>9} {'went on':>8} {'killed':>7} {'faults':>7}")
    for (phase, call, error), row in sorted(rows.items()):
        counts = f"{row['all']:10d} {row['in words']:9d} {row['went on']:8d} {row['killed']:7d} {row['faults']:7d}"
        print(f"{phase:10} {call:16} {error:8} {counts}")
    kinds: dict[str, list[Mapping]] = {}
    for result in results:
        for fault in result["faults"]:
            kinds.setdefault(f"{result['phase']}: {re.sub(r'[0-9a-f]{8}|[0-9]+', '#', fault)}", []).append(result)
    for kind, found in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        example = found[0]
        print(f"\n{len(found):6d}  {kind}\n        {Injection(**example['injection'])}: {example['how']}")
        print("\n".join(f"        | {line}" for line in example["said"].splitlines()[-30:]))


def warm_up() -> None:
    """Import and compute once what every injection needs. Start no threads here: forks would lack them."""
    from benchstudy.measuring.instrument import instrument_sha256

    for module in (*_LIBRARIES, *(f"benchstudy.{module}" for module in _OURS)):
        importlib.import_module(module)
    for family in (*SMALL["families"], *ARCHIVE["families"]):
        instrument_sha256(family)


_LIBRARIES = (
    *("altair", "boto3.session", "IPython.core.interactiveshell", "nbconvert", "papermill.engines", "polars"),
    *("scipy.stats", "vl_convert"),
)
_OURS = (
    *("commands.cli", "commands.importing", "measuring.session", "families.command.run", "families.command.parse"),
    *("jobs.running", "jobs.tidy", "jobs.notebooks", "jobs.cellrunner", "report.page", "provenance.crate"),
    *("provenance.reproduce", "archive.pull", "archive.push"),
)


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phase", action="append", choices=PHASES, help="can be repeated; default: all phases")
    parser.add_argument("--only", default="", help="only calls whose name, path, error or mode contains this text")
    parser.add_argument("--most", type=int, help="at most this many random injections per phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after this many minutes")
    told = parser.parse_args(list(arguments))
    told.until = time.time() + 60 * told.minutes
    begun = time.monotonic()
    warm_up()
    with tempfile.TemporaryDirectory(prefix="benchstudy-inject-") as folder:
        results = run_all(told, Path(folder))
        remove(Path(folder))
        Path(folder).mkdir()
    print_table(results)
    faults = sum(bool(result["faults"]) for result in results)
    print(f"\n{len(results)} injections, {faults} with faults, {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


def under_shim(*options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """This program in a process that has the shim; `how` is passed to subprocess.run."""
    with tempfile.TemporaryDirectory(prefix="benchstudy-shim-") as folder:
        made = str(shim(Path(folder)))
        environment = {**os.environ, PRELOADED: made, "LD_PRELOAD": made}
        return subprocess.run([sys.executable, __file__, *options], env=environment, **how)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # to clean up servers and folders
    if PRELOADED not in os.environ:
        sys.exit(under_shim(*sys.argv[1:]).returncode)
    del os.environ["LD_PRELOAD"]  # it is in this process already, and servers do not need it
    sys.exit(main(sys.argv[1:]))
