"""Nothing lost: what must hold after any fault, and what sessions leave behind on a host.

A test calls `seen` after the fault, runs the same command again to its end, and calls `nothing_lost`.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waiting import runs, until

from benchstudy.measuring import confirmed
from benchstudy.measuring.checked import SUMS

# Prefixes of the control groups and scratch folders that the agent makes.
OURS = "benchstudy-"


@dataclass(frozen=True)
class Seen:
    """What existed after a fault: a study's folder in data/raw, and the work folders of its hosts."""

    raw: Path
    works: tuple[Path, ...]
    files: dict[Path, str]  # of sealed trials, by SHA-256
    groups: list[Path]

    @property
    def trials(self) -> set[Path]:
        return {path.parent for path in self.files if path.name == SUMS}


def seen(raw: Path, *works: Path) -> Seen:
    sums = raw.glob("*/*/*=*/[!.]*/" + SUMS)
    files = {path: _sha256(path) for trial in sums for path in trial.parent.rglob("*") if path.is_file()}
    return Seen(raw, works, files, [group for work in works for group in groups_of(work)])


def nothing_lost(
    before: Seen,
    *,
    good: int,
    lock: Path | None = None,
    scratch: Path | None = None,
    page: Path | None = None,
    says: str = "",
) -> None:
    """Fail unless the following holds, now that the same command has run again:

    - Every file of every trial that was sealed before is there, byte for byte, and all of raw is as it was sealed.
    - Each case has one good trial in each block, `good` in all: none is lost, there twice, or measured again.
    - Nothing in raw is half-written, and hosts have no process, mount, process group, folder or lock (`lock`: its file)
      of ours, nor a folder of ours in `scratch`, where trials had theirs.
    - The report's `page` says what happened, in the words `says`.

    A test without a page checks no report; one whose trials run without limits has no groups to look for.
    """
    after = seen(before.raw)
    lost = [str(path) for path, digest in before.files.items() if after.files.get(path) != digest]
    assert not lost, f"lost or altered: {lost}"
    done = []
    for index in before.raw.glob("*/*/session.json"):
        store = index.parent
        assert not (found := confirmed.check(before.raw.parents[2], store, read=True).lines), found
        assert not (half := [*store.glob(".partial*"), *store.glob("*/.partial*")]), half
        told = json.loads(index.read_text())
        discarded = {entry["uuid"] for entry in told["discarded"]}
        good_ones = [t for t in told["trials"] if t["status"] == "ok" and t["uuid"] not in discarded]
        done += [(store, trial["case"], trial["block"]) for trial in good_ones]
    assert len(done) == len(set(done)), "a case has two good trials in one block"
    assert len(done) == good, f"{len(done)} good trials"

    def is_clean() -> bool:
        # The keeper of a session whose lease expired removes its folders while the next session already works.
        folders = [] if scratch is None else list(scratch.glob(f"{OURS}*"))
        return not any(map(left_on_host, before.works)) and not any(map(Path.exists, before.groups)) and not folders

    until(is_clean, 60)
    if lock is not None:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: some process holds the lock
    if page is not None:
        assert says in page.read_text()


def left_on_host(work: Path) -> list[str]:
    """What sessions have in a host's work folder and run from it: folders, mounts, processes."""
    folders = [str(path) for kind in ("runs", "services", "sessions") for path in (work / kind).glob("*")]
    return [*folders, *mounts_below(work), *processes(str(work))]


def processes(*words: str) -> list[str]:
    """Processes with all of these words in their command, environment or working directory: "process PID: command"."""
    return list(map(str, running(*words)))


@dataclass(frozen=True)
class Process:
    pid: int
    command: str
    traces: str  # command, environment and working directory, with \0 between words

    def __str__(self) -> str:
        return f"process {self.pid}: {self.command}"


def running(*words: str) -> Iterator[Process]:
    """Processes with all of these words in their traces, except this process and its parent."""
    own = {os.getpid(), os.getppid()}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            command = _bytes(f"/proc/{pid}/cmdline")
            place = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
            traces = os.fsdecode(b"\0".join([command, _bytes(f"/proc/{pid}/environ"), place]))
            found = pid not in own and all(word in traces for word in words) and runs(pid)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended meanwhile, or belongs to another user
        if found:
            yield Process(pid, os.fsdecode(command).replace("\0", " "), traces)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:  # half of the time that pathlib takes
        return file.read()


def mounts_below(folder: Path | str) -> list[str]:
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [f"mount {fields[1]} ({fields[2]})" for fields in mounts if fields[1].startswith(str(folder))]


def groups_of(work: Path) -> list[Path]:
    """The control groups of everything that runs now on the host with this work folder."""
    uuids = {folder.name for kind in ("runs", "services") for folder in (work / kind).glob("*")}
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if " cgroup" in line]
    groups = [group for point in points for group in Path(point).rglob(f"{OURS}*")]
    return [group for group in groups if group.name.removeprefix(OURS) in uuids]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
