"""Whether raw files are still what was sealed, without reading those that nobody touched.

Every command that measures, lists or reports asks this. What is remembered of a store is size, times and inode of each
file when it was compared with its SHA-256, in the way version control does; a file is read again only when one of these
differs. What is remembered may be deleted at any time. `benchstudy verify --read` and crates read every file.
"""

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchstudy.measuring.sealed import (
    GONE,
    IN_ARCHIVE,
    SUMS,
    Checked,
    Seen,
    Stat,
    against_index,
    check_folder,
    discarded_in,
    in_archive,
    look,
    read_index,
    trial_of,
)
from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import disk_trouble, nothing_collected, whole_or_nothing

_CHANGED = 2  # where a Stat has the time of the last change
_MOST_NAMED = 40


class RawAltered(BenchstudyError):
    """Raw files are not what was sealed."""


def doubtful(root: Path, stores: Iterable[Path]) -> list[str]:
    """Files and folders that are new, gone, or not as they were when they were compared last. Writes nothing.

    `stores`: the raw folders of families. Names are paths from `root`.
    """
    found = []
    for store in stores:
        name, seen = store.relative_to(root).as_posix(), look(store)
        before = known(store, seen, discarded=True)
        for place in sorted(seen.keys() | before.keys()):
            now, then = seen.get(place, {}), before.get(place, {})
            if now != then:
                changed = (file for file in now.keys() | then.keys() if now.get(file) != then.get(file))
                found += [Path(name, place, file).as_posix() for file in changed]
    return sorted(found)


def confirm(root: Path, stores: Iterable[Path]) -> None:
    """Compare what is doubtful, and remember what is as it was sealed. Raises RawAltered that names the files.

    A discarded trial is not compared: no figure rests on it.
    """
    differences: dict[str, list[str]] = {}
    for store in stores:
        name, seen = store.relative_to(root).as_posix(), look(store)
        found = _compared(root, store, seen, known(store, seen, discarded=True), aside=discarded_in(seen))
        differences |= {f"{name}/{place}": lines for place, lines in found.differences.items()}
    if differences:
        raise RawAltered(_refusal(differences))


def check(root: Path, store: Path, *, read: bool = False) -> Checked:
    """All of a family's raw folder, discarded trials too. `read`: every file, whatever is known of it."""
    seen = look(store)
    try:
        found = _compared(root, store, seen, {} if read else known(store, seen))
    except OSError as error:  # of session.json: without it nothing can be said of what is listed
        return Checked(differences=[disk_trouble(error) or str(error)])
    checked = Checked(differences=[line for _, lines in sorted(found.differences.items()) for line in lines])
    for place, files in seen.items():
        if "/" in place:
            checked.in_archive += len(in_archive(store / place)) if IN_ARCHIVE in files else 0
            checked.files += found.files.get(place, len(files) - len({SUMS, IN_ARCHIVE} & files.keys()))
    if not found.readable:
        index = (store / paths.SESSION_INDEX).relative_to(root)
        checked.differences.append(f"{index}: is damaged; {hints.snakemake()} makes it again")
    return checked


# -- what is remembered ----------------------------------------------------------------------


def known(store: Path, seen: Seen, *, discarded: bool = False) -> Seen:
    """What was compared, as it was then. `discarded`: with trials that nobody had to compare and nobody has to."""
    before = recall(store, paths.CONFIRMED)
    not_compared, aside = discarded_in(before), discarded_in(seen)
    never = not_compared - aside if discarded else not_compared | aside
    return {place: files for place, files in before.items() if trial_of(place) not in never} if never else before


@nothing_collected()
def recall(store: Path, what: str) -> dict[str, Any]:
    """What is remembered of a store, by folder in it; {} when that is spoilt, or nothing."""
    path = paths.remembered(store, what)
    try:
        digest, _, content = path.read_bytes().partition(b"\n") if path else (b"", b"", b"")
    except OSError:
        return {}
    return orjson.loads(content) if digest == _digest(content) else {}


def remember(store: Path, what: str, content: Mapping[str, Any]) -> None:
    """In the place of what was remembered. Nothing rests on it, so no disk that takes no more is in the way of it."""
    if path := paths.remembered(store, what):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_or_nothing(path) as temporary:
                temporary.write_bytes(b"%b\n%b" % (_digest(written := orjson.dumps(content)), written))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


class Moment:
    """When looking begins: a file that changes from here on gets a time that is not before this one."""

    def __init__(self, store: Path):
        self._began = 0
        path = paths.remembered(store, paths.CONFIRMED)
        if path and store.is_dir():
            with suppress(OSError):  # nothing can be remembered there either
                path.parent.mkdir(parents=True, exist_ok=True)
                self._began = clock_ns(path.parent)

    def certain(self, files: Mapping[str, Stat]) -> dict[str, Stat]:
        """Those that nobody can have changed since without another time."""
        return {file: stat for file, stat in files.items() if stat[_CHANGED] < self._began}


def clock_ns(folder: Path) -> int:
    """The time of a file made now. Times of files are coarser than clocks, and may be those of another machine."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_ctime_ns


# -- the comparison ----------------------------------------------------------------------


@dataclass
class _Found:
    """By folder: differences, and how many files were compared where that was asked. `readable`: session.json."""

    differences: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    readable: bool = True


def _compared(root: Path, store: Path, seen: Seen, before: Seen, *, aside: Collection[str] = ()) -> _Found:
    """What is not in `before` as it is `seen`, against its sums; what is as it was sealed is remembered.

    `aside`: short ids of trials that are left out.
    """
    moment, found = Moment(store), _Found()
    changed = {place for place in seen.keys() | before.keys() if seen.get(place) != before.get(place)}
    for place in sorted(changed & seen.keys()):
        if "/" in place and trial_of(place) not in aside:
            at = f"{(store / place).relative_to(root)}/"
            checked = check_place(at, store / place, seen[place], before.get(place, {}))
            found.files[place] = checked.files
            if checked.differences:
                found.differences[place] = checked.differences
    if changed:
        wrong = set(found.differences)
        for place, line in against_index(root, store, seen, None if "" in changed else changed):
            if place not in wrong and trial_of(place) not in aside:
                found.differences.setdefault(place, []).append(line)
        found.readable = "" not in changed & seen.keys() or read_index(store / paths.SESSION_INDEX) is not None
        sure = {place: moment.certain(files) for place, files in seen.items() if place not in found.differences}
        # What is gone is asked for again as long as session.json lists it.
        if not found.readable or found.differences.keys() - seen.keys():
            sure.pop("", None)
        if sure != before:
            remember(store, paths.CONFIRMED, sure)
    return found


def check_place(name: str, folder: Path, files: Mapping[str, Stat], then: Mapping[str, Stat]) -> Checked:
    """A sealed folder, without those of its `files` that are now what they were `then`, when they were compared."""
    # What is listed there may be listed otherwise than when the others were compared.
    same = then if SUMS in files and then.get(SUMS) == files[SUMS] else {}
    return check_folder(name, folder, files, {file for file, stat in files.items() if same.get(file) == stat})


def _refusal(differences: Mapping[str, list[str]]) -> str:
    lines = [line for found in differences.values() for line in found]
    more = [f"and {len(lines) - _MOST_NAMED} more"] if len(lines) > _MOST_NAMED else []
    told = "\n  ".join(
        ["raw files are not what was stored, so no report is made of them:", *lines[:_MOST_NAMED], *more]
    )
    told += "\nRestore from a copy what was altered or is missing, and take away what was added."
    gone = {place for place, found in differences.items() if GONE in found[0]}
    trials = [trial for place in differences.keys() - gone if (trial := trial_of(place))]
    if trials:
        told += f"\nOr have it measured again: `benchstudy discard {' '.join(sorted(trials)[:_MOST_NAMED])} --why …`"
    if gone:
        told += f"\nOr, for a folder that is lost, remove session.json: {hints.snakemake()} then lists what there is."
    return told
