"""Every system call that can fail, failed: a command is run once for each call that it makes on the project's files.

The N-th call fails as on a disk that is full, broken, over its quota or read-only, for once or from then on; a write
does its half before it fails; or the process is killed there. Afterwards nothing that was stored may be lost, altered,
half or twice, the command says in words what to do, and the same command again completes what is missing.

`make test-long` runs all of it; a sample is in the suite (test_injections.py).

    python tests/injections.py --phase import --only rename --seed 7
"""

import argparse
import ctypes
import errno
import hashlib
import importlib
import json
import os
import random
import re
import runpy
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from waiting import until

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent
MOST_S = 120
ARMED = "BENCHSTUDY_TEST_INJECTION"
_PRELOADED = "BENCHSTUDY_TEST_SHIM"

# As injections.c numbers them.
MODES = ONCE, LASTING, SHORT, KILL = ("once", "lasting", "short", "kill")
ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EIO")
# What fails from then on: w(rite) s(ync) r(ename) (mk)d(ir) c(reate) l(ink) u(nlink) t(runcate) (ch)m(od), o(pen) and
# i(nput) of what is there, x: close. A full disk can still be tidied up.
_LASTING = {"ENOSPC": "wsdclt", "EDQUOT": "wsdclt", "EROFS": "wsrdclutm", "EIO": "wsrdclutmoix"}
_READS = "oi"
_PLAN = struct.Struct("@1024s32sqqii1024s")

_TRIAL = re.compile(r"\d{4,}-[0-9a-f]{8}")
_DRAWN = re.compile(r"(?<=[-/.])[0-9a-f]{8}(?=[/.]|$)")


@dataclass(frozen=True)
class Injection:
    """`at`: of the calls on files of the project, the one that fails; `call` is what it was when they were counted."""

    at: int
    call: str
    error: str
    mode: str

    def __str__(self) -> str:
        return f"call {self.at} ({self.call}): {self.error if self.mode != KILL else ''} {self.mode}"


@dataclass(frozen=True)
class Ended:
    """How a command ended. `code` is negative for a signal, None where it did not end in time."""

    code: int | None
    said: str
    hit: str


@dataclass(frozen=True)
class Phase:
    """`command` is called in the project that `prepare` made, and ends as a script does.

    `finished`: what the same command may say, with a failing status, where nothing is left to do.
    `same`: files that are to have the same bytes as without any fault. `most`: injections at random; None for all.
    """

    name: str
    prepare: Callable[["Lab", Path], None]
    command: Callable[[], object]
    most: int | None = None
    finished: str | None = None
    same: Sequence[str] = ()
    patience_s: float = 0.0
    of_many: bool = False  # a command of several processes: one that is killed is not the command itself


# --- what is run --------------------------------------------------------------------------------------------------

SMALL = {
    "study": "small",
    "blocks": {"min": 6, "max": 7},
    "until": "99 %",
    "thresholds": {"lease": "2s", "reconnect": "2s"},
    "targets": {"near": {"roles": {"sut": "near"}}},
    "families": {"command": {"commands": [{"name": "sleep", "argv": ["sleep", "0.02"]}]}},
}
ARCHIVE = {
    "study": "archive",
    "hosts": {"gone": {"address": "nobody@192.0.2.1"}},
    "targets": {"machine": {"roles": {"sut": "gone"}}},
    "families": {"fio": {}},
}
STORE = Path("data/raw/small/near/command")
OUTPUTS = [TESTS / "data" / "fio" / f"fio-3.33-{name}.json" for name in ("page", "latency-plus", "fdatasync-plus")]


def script(name: str, **told: object) -> None:
    """A job of the workflow, as Snakemake calls it."""
    sys.argv = [name, *(word for key, value in told.items() for word in (f"--{key}", str(value)))]
    runpy.run_path(str(CHECKOUT / "workflow" / "scripts" / f"{name}.py"), run_name="__main__")


def benchstudy(*argv: object) -> int:
    from benchstudy.commands.cli import main

    return main([*map(str, argv), "--study", "config/study.yaml"])


def measure() -> None:
    """As the workflow does: it begins, the session is held, and then it is told whether it could be."""
    begin()
    script("measure_session", target="near", family="command", study="small", log="logs/measure.log")
    told = {"held": "data/held.txt"}
    script("confirm_sessions", **told, study="small")


def seal() -> None:
    """What a session does here for the trials that are missing, with the files of one that was measured on a host."""
    from benchstudy.jobs.job import job
    from benchstudy.measuring.raw import TrialStore
    from benchstudy.measuring.session import missing_trials, write_index
    from benchstudy.measuring.sessionrecord import SessionRecord

    sys.argv = ["seal", "--study", "small", "--log", "logs/measure.log"]
    with job() as (_, study, _):
        plan = study.session("near", "command")
        store = TrialStore(STORE.absolute())
        with store.exclusive():
            trials = store.trials()
            if missing := missing_trials(plan, store, trials, print):
                record = SessionRecord(store.folder, str(uuid4()), plan, "instrument")
                record.begin({"near": {}})
                for scheduled in missing:
                    partial = store.begin(scheduled.case.id, scheduled.block)
                    for file in trials[0].files:
                        if file.name != "trial.json":
                            (partial.folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                            (partial.folder / file.name).write_bytes((trials[0].folder / file.name).read_bytes())
                    told = {"uuid": partial.uuid, "block": scheduled.block, "position": scheduled.position}
                    trials.append(partial.commit(trials[0].record.model_copy(update=told)))
                    record.save()
                record.end({"near": {}})
            write_index(plan, store, trials, None)


def begin() -> None:
    from benchstudy.jobs.running import begin as begin_command
    from benchstudy.model.errors import BenchstudyError
    from benchstudy.model.study import parse_study

    try:
        declared = yaml.safe_load(Path("config/study.yaml").read_text())
        begin_command(parse_study(declared), declared, [("tidy_family", {})], print)
    except (BenchstudyError, OSError) as error:  # of ours, OSErrors are those of the first line alone
        sys.exit(str(error))


def tidy() -> None:
    script("tidy_family", family="command", tables="data/tidy/small/command", study="small", log="logs/tidy.log")


def page() -> None:
    own = "reports/small"
    script(
        "make_page",
        **{"page": "command", "notebook": CHECKOUT / "notebooks" / "command.ipynb"},
        **{"tables": "data/tidy/small/command", "trace": "logs/command.ipynb"},
        **{"executed": f"{own}/notebooks/command.ipynb", "exports": f"{own}/command", "html": f"{own}/command.html"},
        **{"study": "small", "log": "logs/page.log"},
    )


def overview() -> None:
    script("build_index", study="small", log="logs/index.log")


def crate() -> None:
    script("build_crate", crate="reports/small.crate.zip", study="small", log="logs/crate.log")


def workflow() -> None:
    """The whole command, in whose processes the shim is armed as they start."""
    os.environ["LD_PRELOAD"] = os.environ[_PRELOADED]
    os.environ["PYTHONPATH"] = "src"
    argv = ["snakemake", "--cores", "2", "measure", "--configfile", "config/study.yaml"]
    os.execvp(argv[0], argv)


def discard() -> int:
    return benchstudy("discard", "--case", "command=sleep", "--why", "it was hot")


# --- what it begins with ------------------------------------------------------------------------------------------


class Lab:
    """Makes what phases begin with, each once; `folder` is for all that it needs. `close` ends its host."""

    def __init__(self, folder: Path):
        from sshd_hosts import SshdHost

        self.folder = folder
        lock = {"BENCHSTUDY_HOST_LOCK": str(folder / "host.lock")}
        self.host = SshdHost(folder / "sshd", environment=lock)
        self.host.start()

    def close(self) -> None:
        self.host.stop()

    def run(self, root: Path, command: Callable[[], object]) -> str:
        """The command without a fault; what it said."""
        ended = run(root, command, None, self.folder / "plan")
        assert ended.code == 0, ended
        return ended.said

    def small(self, root: Path, **changes: object) -> None:
        """A project with the study, of which nothing was measured."""
        host = self.host.host.model_dump(exclude_none=True, exclude_defaults=True)
        study = {**SMALL, "hosts": {"near": host | {"work_dir": str(self.folder / "work")}}, **changes}
        as_project(root, study)

    def measured(self, root: Path) -> None:
        """The same, when it was measured; made once, so that its trials are the same ones everywhere."""
        made = self.folder / "measured"
        if not made.exists():
            self.small(made)
            self.run(made, measure)
        shutil.copytree(made, root)

    def interrupted(self, root: Path) -> None:
        """The same, when its controller was killed in a further session before the look was taken."""
        self.measured(root)
        store = root / STORE
        (store / "session.json").unlink()
        remove(store / "looks")
        (session,) = (store / "sessions").iterdir()
        shutil.copytree(session, store / "sessions" / ".partial-01234567")
        for path in (store / "sessions" / ".partial-01234567", store / "sessions" / ".partial-01234567/session.json"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        record = store / "sessions" / ".partial-01234567" / "session.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"uuid": "01234567-abcd"}))
        (record.parent / "SHA256SUMS").unlink()
        case = next(store.glob("*=*"))
        (case / ".partial-89abcdef" / "files").mkdir(parents=True)
        (case / ".partial-89abcdef" / "stdout").write_text("half of it")

    def one_more_block(self, root: Path) -> None:
        """A study with one block measured that asks for two."""
        self.small(root, blocks=1, until=None)
        self.run(root, measure)
        self.small(root, blocks=2, until=None)

    def tidied(self, root: Path) -> None:
        made = self.folder / "tidied"
        if not made.exists():
            self.measured(made)
            self.run(made, tidy)
        shutil.copytree(made, root)

    def paged(self, root: Path) -> None:
        made = self.folder / "paged"
        if not made.exists():
            self.tidied(made)
            self.run(made, page)
        shutil.copytree(made, root)

    def reported(self, root: Path) -> None:
        made = self.folder / "reported"
        if not made.exists():
            self.paged(made)
            self.run(made, overview)
        shutil.copytree(made, root)

    def project(self, root: Path) -> None:
        """A whole project whose study asks for one more block than was measured."""
        from conftest import copy_project

        copy_project(root)
        self.small(root, blocks=1, until=None)
        self.run(root, workflow)
        self.small(root, blocks=2, until=None)

    def archive(self, root: Path) -> None:
        """A study with one output imported."""
        as_project(root, ARCHIVE)
        self.run(root, lambda: benchstudy("import", OUTPUTS[0]))


def as_project(root: Path, study: Mapping[str, object]) -> None:
    from benchstudy.model import paths

    study = {key: value for key, value in study.items() if value is not None}
    for folder in ("workflow", "config", "logs", "data", "reports"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "workflow" / "Snakefile").touch()
    (root / "config" / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    declared = paths.declared_study(root, str(study["study"]))
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(json.dumps(study))


PHASES = {
    phase.name: phase
    for phase in (
        Phase("seal", Lab.one_more_block, seal),
        Phase("session", Lab.one_more_block, measure, 120, patience_s=15),
        Phase("adopt", Lab.interrupted, measure, 400),
        Phase("begin", Lab.measured, begin, 250),
        Phase(
            "import",
            Lab.archive,
            lambda: benchstudy("import", *OUTPUTS),
            finished="holds the same content already",
        ),
        Phase("discard", Lab.measured, discard, finished="is discarded already"),
        Phase("tidy", Lab.measured, tidy, 300, same=["data/tidy/**/*.parquet"]),
        Phase("page", Lab.tidied, page, 60, same=["reports/**/*"]),
        Phase("overview", Lab.paged, overview, 60, same=["reports/**/*"]),
        Phase("crate", Lab.reported, crate, 60, same=["reports/*.crate.zip"]),
        Phase("workflow", Lab.project, workflow, 24, patience_s=30, of_many=True),
    )
}


# --- a command with one fault -------------------------------------------------------------------------------------


def shim(folder: Path) -> Path:
    """injections.c, compiled."""
    made = folder / "injections.so"
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", made, TESTS / "injections.c", "-ldl"], check=True)
    return made


def run(root: Path, command: Callable[[], object], injection: Injection | None, plan: Path) -> Ended:
    """`command` in a fork, in the folder `root`. Without an injection its calls are listed in `plan`'s neighbour."""
    at, error, mode = (0, 0, 0) if injection is None else (injection.at, injection.error, injection.mode)
    number = getattr(errno, error) if error else 0
    lasting = _LASTING.get(str(error), "").encode()
    plan.write_bytes(_PLAN.pack(os.fsencode(root), lasting, 0, at, number, MODES.index(mode) if mode else 0, b""))
    trace, said = Path(f"{plan}.trace"), Path(f"{plan}.said")
    trace.unlink(missing_ok=True)
    if injection is None:
        trace.touch()
    pid = os.fork()
    if pid == 0:
        _work(root, command, plan, said)
    descriptor = os.pidfd_open(pid)
    in_time = bool(select.select([descriptor], [], [], MOST_S)[0])
    os.close(descriptor)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if command is workflow:
        until(lambda: not working_in(root), MOST_S)  # what it started ends by itself
    hit = _PLAN.unpack(plan.read_bytes())[-1].split(b"\0")[0].decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status) if in_time else None, said.read_text(errors="replace"), hit)


def working_in(root: Path) -> bool:
    """Whether a process has its place in this folder."""
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if Path(os.readlink(place)).is_relative_to(root):
                return True
        except OSError:  # it has just ended
            continue
    return False


def _work(root: Path, command: Callable[[], object], plan: Path, said: Path) -> None:
    """Does not return."""
    status = 1
    try:
        streams = [os.open(os.devnull, os.O_RDONLY), *[os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)] * 2]
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(root)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # What is read-only is so for root too, once it has no capability.
        if os.geteuid() == 0 and ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()):
            os._exit(125)
        os.environ[ARMED] = str(plan)
        if command is not workflow and ctypes.CDLL(os.environ[_PRELOADED]).inject_arm(os.fsencode(plan)):
            os._exit(125)
        status = int(command() or 0)  # type: ignore[call-overload]
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


# --- what must hold -----------------------------------------------------------------------------------------------


def sealed(root: Path) -> dict[str, dict[str, str]]:
    """What is stored: SHA-256 of each file of each sealed folder."""
    found = {}
    for sums in root.glob("data/raw/**/SHA256SUMS"):
        folder = sums.parent
        if not any(part.startswith(".partial") for part in folder.relative_to(root).parts):
            files = (path for path in folder.rglob("*") if path.is_file())
            found[str(folder.relative_to(root))] = {str(path.relative_to(folder)): digest(path) for path in files}
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def broken(root: Path) -> Iterator[str]:
    """Trials that others can see, and that are half."""
    for folder in root.glob("data/raw/*/*/*/*/*"):
        if not _TRIAL.fullmatch(folder.name):
            continue
        try:
            sums = (folder / "SHA256SUMS").read_text().splitlines()
            listed = dict(line.split("  ", 1)[::-1] for line in sums)
            json.loads((folder / "trial.json").read_bytes())
            there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"SHA256SUMS"}
            if {name: digest(folder / name) for name in there} != listed:
                yield f"{folder.name} is accepted half"
        except (OSError, ValueError) as error:
            yield f"{folder.name} is accepted half: {error}"


def twice(root: Path) -> Iterator[str]:
    """Results of one case in one block, or of one content."""
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


# What is remembered of raw files is written where the disk takes it; nobody is told.
_NO_MATTER = re.compile(r"\.snakemake|src|\.benchstudy/studies/[^/]+/(confirmed|read)/")


def listing(root: Path) -> Counter[str]:
    """How often each file is there; ids that are drawn are all the same. Aborted trials are evidence and no result."""
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
    """Of one injection. `how`: it was killed, it said it in words, or it went on to its end."""

    phase: str
    injection: Injection
    hit: str
    how: str
    said: str
    faults: list[str] = field(default_factory=list)


class Bench:
    """A phase, prepared: `attempt` runs it with an injection and judges what is left."""

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
        # What the command leaves when there is nothing to do may be more: such as an index that it removed before.
        self._whole_again = listing(self._root)
        problems = [*broken(self._root), *twice(self._root)]
        assert not problems, problems

    def injections(self) -> list[Injection]:
        """All that the calls of the phase can meet."""
        found = []
        for number, line in enumerate(self.calls, start=1):
            kind, call = line.split(" ", 1)
            if kind in _READS:
                found += [Injection(number, call, "EIO", mode) for mode in (ONCE, LASTING)]
                continue
            found += [Injection(number, call, error, ONCE) for error in ERRORS]
            found += [Injection(number, call, error, LASTING) for error in ERRORS if kind in _LASTING[error]]
            found += [Injection(number, call, "ENOSPC", SHORT)] if kind == "w" else []
            found.append(Injection(number, call, "EIO", KILL))
        return found

    def attempt(self, injection: Injection) -> Result | None:
        """None where the command did not come to that call."""
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
        """What is wrong and what to do; a file that cannot be read may have to be restored, which takes other words."""
        reads = self.calls[injection.at - 1][0] in _READS
        return (os.strerror(errno.EIO) if reads else "run the same command again") not in said

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
        yield from (f"{place} was lost or altered" for place, files in self._before.items() if now.get(place) != files)

    def _fresh(self) -> None:
        remove(self._root)
        shutil.copytree(self._prepared, self._root, symlinks=True)

    def _run(self, injection: Injection | None) -> Ended:
        return run(self._root, self.phase.command, injection, self._plan)

    def _again(self) -> Ended:
        """The same command, for as long as a host may still be held for the one that was killed."""
        deadline = time.monotonic() + self.phase.patience_s
        while True:
            ended = self._run(None)
            if not ended.code or self._has_finished(ended) or time.monotonic() > deadline:
                return ended
            time.sleep(0.2)

    def _has_finished(self, ended: Ended) -> bool:
        return self.phase.finished is not None and self.phase.finished in ended.said


def remove(folder: Path) -> None:
    """Whatever its permissions."""
    if folder.exists():
        for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
            path.chmod(0o755)
        shutil.rmtree(folder)


# --- all of them --------------------------------------------------------------------------------------------------


def chosen(bench: Bench, told: argparse.Namespace) -> list[Injection]:
    """Those that are asked for: in the order of their calls, at random where the phase has more than it takes."""
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
    """Results of all workers, as they come."""
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
    """By phase and call; kinds of faults with an example of each."""
    rows: dict[tuple[str, str, str], Counter] = {}
    for result in results:
        injection = result["injection"]
        error = KILL if injection["mode"] == KILL else injection["error"]
        row = rows.setdefault((result["phase"], result["hit"].split()[0], error), Counter())
        row.update([result["how"], "all", *(["faults"] if result["faults"] else [])])
    head = f"{'phase':10} {'call':16} {'error':8}"
    print(f"\n{head} {'injections':>10} {'in words':>9} {'went on':>8} {'killed':>7} {'faults':>7}")
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
    """Import and compute once what every injection would. Nothing that starts a thread: forks would be without it."""
    from benchstudy.measuring.instrument import instrument_sha256

    for module in (*_LIBRARIES, *(f"benchstudy.{module}" for module in _OURS)):
        importlib.import_module(module)
    for family in (*SMALL["families"], *ARCHIVE["families"]):
        instrument_sha256(family)


_LIBRARIES = (
    *("altair", "IPython.core.interactiveshell", "nbconvert", "papermill.engines", "polars", "scipy.stats"),
    "vl_convert",
)
_OURS = (
    *("commands.cli", "commands.importing", "measuring.session", "families.command.run", "families.command.parse"),
    *("jobs.running", "jobs.tidy", "jobs.notebooks", "jobs.cellrunner", "report.page", "provenance.crate"),
)


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phase", action="append", choices=PHASES, help="may be repeated; all when left out")
    parser.add_argument("--only", default="", help="calls whose name, path, error or mode holds this")
    parser.add_argument("--most", type=int, help="so many injections of each phase, at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="and no longer than this")
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
    """This program in a process that has the shim; `how` is for subprocess.run."""
    with tempfile.TemporaryDirectory(prefix="benchstudy-shim-") as folder:
        made = str(shim(Path(folder)))
        environment = {**os.environ, _PRELOADED: made, "LD_PRELOAD": made}
        return subprocess.run([sys.executable, __file__, *options], env=environment, **how)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that servers and folders go
    if _PRELOADED not in os.environ:
        sys.exit(under_shim(*sys.argv[1:]).returncode)
    del os.environ["LD_PRELOAD"]  # it is in this process, and servers need none
    sys.exit(main(sys.argv[1:]))
