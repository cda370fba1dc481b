"""Sessions that are killed at random moments and continued, for any length of time, on the same hosts.

Each worker has a host and a project. A round is a command as the workflow runs it: it begins, holds the missing part of
a session, and ends; or one of its processes is killed, here or on the host. Every few rounds, one command is left
alone. After that, nothing that was stored may be lost, altered, half there or there twice, and there may be no more
files, processes, connections, control groups, descriptors or memory than at one of the first stops. One process holds
the last sessions, and must not grow.

    python tests/soak.py --sessions 2000 --minutes 60 --seed 7
"""

import argparse
import ctypes
import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import injection_phases
import injections
import nothing_lost
from injected import as_program
from sshd_hosts import SshdHost
from waiting import until

_PR_SET_PDEATHSIG = 1
_MOST_S = 120
_STORE_OF = 40  # rounds: a session hashes what there is, so more rounds would take longer each time
_RESIDENT = 24  # sessions at the end, held by one process
_GROWN = 1.25  # of memory, below which it does not count as growing
_STUDY = {
    "thresholds": {"lease": "2s", "reconnect": "2s"},
    "targets": {"near": {"roles": {"sut": "near"}}},
    "families": {"command": {"commands": [{"name": n, "argv": ["sleep", "0.01"]} for n in ("one", "two")]}},
}


class Soak:
    """One worker's results. `seen`: figures at each stop; `faults`: what should not be."""

    def __init__(self, folder: Path, rng: random.Random, host: SshdHost):
        self.folder, self.rng, self.host = folder, rng, host
        self.root, self.work = folder / "project", folder / "work"
        self.kills: Counter[str] = Counter()
        self.faults: list[str] = []
        self.stops: list[dict[str, int]] = []
        self.rounds = self.generation = self.blocks = self.edits = 0
        self.takes_s = 1.0  # s that the last command took that was left alone
        self.good: dict[str, int] = {}
        self._said = folder / "said"
        self._before: dict[str, dict[str, str]] = {}

    @property
    def study(self) -> str:
        return f"soak{self.generation}"

    def more(self) -> None:
        """Make the study ask for more."""
        if self.rounds >= self.generation * _STORE_OF:
            self.generation, self.blocks = self.generation + 1, 0
        self.blocks += self.rng.randint(1, 2)
        self.edits += 1
        hosts = {"near": self.host.described(self.work)}
        injection_phases.as_project(self.root, {**_STUDY, "study": self.study, "blocks": self.blocks, "hosts": hosts})
        self.good[self.study] = self.blocks * len(_STUDY["families"]["command"]["commands"])

    def round(self, *, alone: bool) -> None:
        self.rounds += 1
        begun, pid = time.monotonic(), self._fork(self._command)
        descriptor = os.pidfd_open(pid)
        killed = [] if alone else list(self._kill(pid, descriptor))
        if not select.select([descriptor], [], [], _MOST_S)[0]:
            self._fault(f"a command hangs after {killed}")
            os.kill(pid, signal.SIGKILL)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = self._said.read_text(errors="replace")
        if "Traceback (most recent call last)" in said or "internal error" in said:
            self._fault(f"after {killed}: {said[-1500:]}")
        if alone and code:
            self._fault(f"a command that was left alone ended with {code}: {said[-1500:]}")
        self._compare()
        if alone:
            self.takes_s = time.monotonic() - begun
        if code == 0:
            self.more()

    def _command(self) -> None:
        injection_phases.begin()
        told = {"study": self.study, "log": "logs/measure.log"}
        injection_phases.script("measure_session", target="near", family="command", **told)
        injection_phases.script("confirm_sessions", held="data/held.txt", study=self.study)

    def _fork(self, command: Callable[[], object]) -> int:
        """Start it as a separate job, so that a Ctrl-C reaches only this command."""
        if (pid := os.fork()) == 0:
            os.setsid()
            as_program(command, self.root, self._said)
        return pid

    def _kill(self, pid: int, descriptor: int) -> Iterator[str]:
        """Kill one or two of our processes at random moments, unless the command has ended before."""
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            if select.select([descriptor], [], [], self.rng.uniform(0.0, self.takes_s))[0]:
                return
            ours = {"job": [pid], "connection": self.host.session_pids()}
            for process in nothing_lost.running(str(self.work)):
                words = process.command.split()
                at = next((n for n, word in enumerate(words) if "/agent-" in word), None)
                if at is not None and words[at + 1 :]:
                    ours.setdefault(f"agent's {words[at + 1]}", []).append(process.pid)
            kind = self.rng.choice(sorted(kind for kind, pids in ours.items() if pids))
            how = self.rng.choice(["KILL", "KILL", "TERM", "INT"] if kind == "job" else ["KILL", "KILL", "TERM"])
            try:
                os.kill(self.rng.choice(ours[kind]), signal.Signals[f"SIG{how}"])
            except ProcessLookupError:
                continue
            self.kills[f"{kind} {how}"] += 1
            yield f"{kind} {how}"

    def _compare(self) -> None:
        """Compare what was stored of the study before with what is stored now."""
        now = injections.sealed(self.root, f"data/raw/{self.study}/**")
        lost = [place for place, files in self._before.items() if place in now and now[place] != files]
        lost += [place for place in self._before.keys() - now.keys() if f"/{self.study}/" in place]
        if lost:
            self._fault(f"lost or altered: {lost}")
        self._before = now

    def stop(self) -> None:
        """Finish everything, and then check it."""
        self.round(alone=True)
        try:
            until(lambda: not nothing_lost.left_on_host(self.work), 60)
        except AssertionError:
            self._fault(f"left on the host: {nothing_lost.left_on_host(self.work)}")
        good = dict(self.good)
        if good[self.study] and not (self.root / f"data/raw/{self.study}").exists():
            del good[self.study]
        for study, wanted in list(good.items())[-2:]:
            raw = self.root / "data/raw" / study
            told = json.loads((raw / "near/command/session.json").read_text())["trials"]
            # What is measured is killed, too, and such a trial is a result: its block has no good one.
            killed = sum(
                trial["status"] == "failed" and _was_killed(raw / "near/command" / trial["path"]) for trial in told
            )
            done = wanted - killed if study != self.study else self._measured(told)
            try:
                nothing_lost.nothing_lost(nothing_lost.seen(raw, self.work), good=done, lock=self.host.lock)
            except AssertionError as error:
                self._fault(f"{study}: {error}")
        for problem in injections.broken(self.root):
            self._fault(problem)
        self.stops.append(self._figures())

    def _measured(self, told: Iterable[dict[str, Any]]) -> int:
        """The number of good results among the trials of the study, which was already asked for more."""
        return len({(t["case"], t["block"]) for t in told if t["status"] == "ok"})

    def _figures(self) -> dict[str, int]:
        own, listener = Path("/proc/self"), Path(f"/proc/{self.host._process.pid}")
        outside = [p for p in self.root.rglob("*") if not p.is_dir() and not p.is_relative_to(self.root / "data/raw")]
        per_study = sum(f"/studies/{self.study[:4]}" in str(path) for path in outside)
        return {
            "files outside raw": len(outside) - per_study,
            "files per edit of a study": -(-per_study // self.edits),
            "files on the host": sum(1 for path in self.work.rglob("*") if not path.is_dir()),
            "files of TMPDIR": sum(1 for _ in Path(os.environ["TMPDIR"]).rglob("*")),
            "processes": len(list(nothing_lost.running(str(self.folder)))),
            "connections": sum(_is_on(line, self.host.port) for line in Path("/proc/net/tcp").read_text().splitlines()),
            "control groups": len(nothing_lost.groups_of(self.work)),
            "descriptors": len(os.listdir(own / "fd")) + len(os.listdir(listener / "fd")),
            "KiB of the listener": _resident_kib(listener),
            "KiB of this process": _resident_kib(own),
        }

    def _fault(self, text: str) -> None:
        self.faults.append(f"round {self.rounds}: {text}")
        print(f"  FAULT in {self.folder.name}, round {self.rounds}: {text}", flush=True)

    def resident(self) -> dict[str, list[int]]:
        """Figures of one process that holds session after session, at four times."""
        told = self.folder / "resident.json"
        pid = self._fork(lambda: self._hold(told))
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            self._fault(f"one process for {_RESIDENT} sessions: {self._said.read_text()[-1500:]}")
            return {}
        return json.loads(told.read_text())

    def _hold(self, told: Path) -> None:
        from benchstudy.measuring.session import hold_session
        from benchstudy.model.studyfile import load_study

        figures: dict[str, list[int]] = {"KiB": [], "descriptors": [], "threads": []}
        for number in range(1, _RESIDENT + 1):
            if number % (_RESIDENT // 4) == 1:
                self.generation, self.blocks = self.generation + 1, 0
            self.rounds = self.generation * _STORE_OF - 1
            self.more()
            hold_session(Path.cwd(), load_study(Path("config/study.yaml")).session("near", "command"))
            if number % (_RESIDENT // 4) == 0:
                figures["KiB"].append(_resident_kib(Path("/proc/self")))
                figures["descriptors"].append(len(os.listdir("/proc/self/fd")))
                with suppress(AssertionError):  # a thread of the last connection may just be ending
                    until(lambda: threading.active_count() == 1, 5)
                figures["threads"].append(threading.active_count())
        told.write_text(json.dumps(figures))


def _was_killed(trial: Path) -> bool:
    return json.loads((trial / "trial.json").read_text())["failure"]["cause"] == "signal"


def _is_on(line: str, port: int) -> bool:
    """Whether a line of /proc/net/tcp is an open connection with this port at either end."""
    words = line.split()
    return words[3] == "01" and f":{port:04X}" in (words[1][-5:], words[2][-5:])


def _resident_kib(process: Path) -> int:
    return int(next(line.split()[1] for line in (process / "status").read_text().splitlines() if "VmRSS" in line))


def growing(first: dict[str, int], last: dict[str, int]) -> list[str]:
    found = []
    for name, was in first.items():
        most = was * _GROWN if name.startswith("KiB") else was
        if last[name] > most:
            found.append(f"{name}: {was}, and {last[name]} at the end")
    return found


def work(number: int, told: argparse.Namespace, folder: Path) -> dict[str, Any]:
    rng = random.Random(f"{told.seed}/{number}")
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    (folder / "tmp").mkdir()
    with SshdHost(folder / "sshd") as host:
        soak = Soak(folder, rng, host)
        soak.more()
        soak.stop()
        share = told.sessions / told.workers
        while sessions_in(soak.root) < share and time.time() < told.until:
            for _ in range(told.between):
                soak.round(alone=rng.random() < 0.1)
            soak.stop()
            print(f"  worker {number}: {sessions_in(soak.root)} sessions, {sum(soak.kills.values())} kills", flush=True)
        resident = soak.resident()
        trials = sum(1 for _ in soak.root.glob("data/raw/*/*/*/*/*/trial.json"))
    grown = growing(soak.stops[min(1, len(soak.stops) - 1)], soak.stops[-1])
    grown += [f"one process: {name}: {values}" for name, values in resident.items() if values[-1] > values[0] * _GROWN]
    return {
        "rounds": soak.rounds,
        "sessions": sessions_in(soak.root),
        "trials": trials,
        "kills": soak.kills,
        "faults": soak.faults,
        "grown": grown,
        "first": soak.stops[min(1, len(soak.stops) - 1)],
        "last": soak.stops[-1],
        "resident": resident,
    }


def sessions_in(root: Path) -> int:
    return sum(1 for _ in root.glob("data/raw/*/*/*/sessions/*/session.json"))


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=2000, help="total of all workers (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="stop after this many minutes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="each has its own host (default: %(default)s)")
    parser.add_argument("--between", type=int, default=12, help="rounds between two stops (default: %(default)s)")
    told = parser.parse_args(list(arguments))
    told.until, begun = time.time() + 60 * told.minutes, time.monotonic()
    print(f"seed {told.seed}", flush=True)
    injections.warm_up()
    results = []
    folder = Path(tempfile.mkdtemp(prefix="benchstudy-soak-"))
    print(f"in {folder}, which stays if there are faults", flush=True)
    workers = {}
    for number in range(told.workers):
        own = folder / str(number)
        own.mkdir()
        if (pid := os.fork()) == 0:
            status = 1
            # So that its server ends with the process that started all of this.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            try:
                (own / "result.json").write_text(json.dumps(work(number, told, own)))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        workers[pid] = own / "result.json"
    for pid, result in workers.items():
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            raise SystemExit("a worker ended with an error")
        results.append(json.loads(result.read_text()))
    faults = [fault for result in results for fault in (*result["faults"], *result["grown"])]
    if not faults:
        injection_phases.remove(folder)
    kills = sum((Counter(result["kills"]) for result in results), Counter())
    for result in results:
        for name, figures in (
            ("first", result["first"]),
            ("last", result["last"]),
            ("one process", result["resident"]),
        ):
            print(f"  {name}: {', '.join(f'{key} {value}' for key, value in figures.items())}")
    print(f"  kills: {', '.join(f'{kind} {count}' for kind, count in sorted(kills.items()))}")
    print("\n".join(f"  {fault}" for fault in faults))
    sums = {name: sum(result[name] for result in results) for name in ("rounds", "sessions", "trials")}
    print(
        f"{sums['sessions']} sessions in {sums['rounds']} commands, {sums['trials']} trials, {kills.total()} kills, "
        f"{len(faults)} faults, {time.monotonic() - begun:.0f} s"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # to clean up servers and folders
    sys.exit(main(sys.argv[1:]))
