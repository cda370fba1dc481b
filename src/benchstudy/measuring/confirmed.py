"""Checks that raw files are what was sealed, without reading unchanged files.

Every command that measures, lists or reports runs this check. Like version control, it remembers size, times and inode
of each file as they were when the file was compared with its SHA-256. It reads a file again only if one of these
differs. You may delete the remembered values at any time. `benchstudy verify --read` and crates read every file.
"""

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from benchstudy.measuring.checked import SUMS, Checked, Difference, How
from benchstudy.measuring.sealed import (
    IN_ARCHIVE,
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
from benchstudy.model.rounding import plural

_CHANGED = 2  # index of the time of change in a Stat
_MOST_NAMED = 40
_NO_FIGURE = "; its trial is discarded, and no figure uses it: restore it from a copy, or leave it as it is"


class RawAltered(BenchstudyError):
    """Raw files are not what was sealed."""


def doubtful(root: Path, stores: Iterable[Path]) -> list[str]:
    """Files and folders that are new, missing, or changed since they were last compared. Writes nothing.

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
    """Compare doubtful files, and remember those that are as sealed. Raises RawAltered with the names of the others.

    Discarded trials are not compared, because no figure uses them.
    """
    differences: dict[str, list[Difference]] = {}
    for store in stores:
        name, seen = store.relative_to(root).as_posix(), look(store)
        found = _compared(root, store, seen, known(store, seen, discarded=True), aside=discarded_in(seen))
        differences |= {f"{name}/{place}": wrong for place, wrong in found.differences.items()}
    if differences:
        raise RawAltered(_refusal(differences))


def require_none_lost(root: Path, store: Path, fetched: Collection[str] = ()) -> None:
    """Called before a discard or a pull removes session.json, which alone tells that a folder was lost.

    `fetched`: folders that the pull brings back. Raises RawAltered.

    Damaged folders are no matter, because a discard may be the remedy; nor are discarded trials: no figure uses them.
    """
    seen, index = look(store), read_index(store / paths.SESSION_INDEX)
    aside = discarded_in(seen)
    gone = {
        f"{store.relative_to(root).as_posix()}/{place}": [difference]
        for place, difference in against_index(root, store, index, seen)
        if difference.how is How.GONE and place not in {*seen, *fetched} and trial_of(place) not in aside
    }
    if gone:
        raise RawAltered(_refusal(gone))


def check(root: Path, store: Path, *, read: bool = False) -> Checked:
    """Check a family's whole raw folder, including discarded trials. `read`: read every file, even if unchanged."""
    seen = look(store)
    try:
        found = _compared(root, store, seen, {} if read else known(store, seen))
    except OSError as error:  # session.json cannot be read, so nothing can be compared with it
        return Checked(differences=[Difference("", How.UNREAD, disk_trouble(error) or str(error))])
    aside = discarded_in(seen)
    checked = Checked(
        differences=[
            replace(difference, advice=difference.advice + _NO_FIGURE) if trial_of(place) in aside else difference
            for place, differences in sorted(found.differences.items())
            for difference in differences
        ]
    )
    for place, files in seen.items():
        if "/" in place:
            checked.in_archive += len(in_archive(store / place)) if IN_ARCHIVE in files else 0
            checked.files += found.files.get(place, len(files) - len({SUMS, IN_ARCHIVE} & files.keys()))
    if not found.readable:
        index = (store / paths.SESSION_INDEX).relative_to(root).as_posix()
        way = f"; {hints.snakemake()} makes it again"
        checked.differences.append(Difference(index, How.INDEX_DAMAGED, advice=way))
    return checked


# -- what is remembered ----------------------------------------------------------------------


def known(store: Path, seen: Seen, *, discarded: bool = False) -> Seen:
    """Files that were compared, as they were then. `discarded`: include discarded trials, which need no comparison."""
    before = recall(store, paths.CONFIRMED)
    not_compared, aside = discarded_in(before), discarded_in(seen)
    never = not_compared - aside if discarded else not_compared | aside
    return {place: files for place, files in before.items() if trial_of(place) not in never} if never else before


@nothing_collected()
def recall(store: Path, what: str) -> dict[str, Any]:
    """What is remembered of a store, by folder in it; {} if that is missing or damaged."""
    path = paths.remembered(store, what)
    try:
        digest, _, content = path.read_bytes().partition(b"\n") if path else (b"", b"", b"")
    except OSError:
        return {}
    return orjson.loads(content) if digest == _digest(content) else {}


def remember(store: Path, what: str, content: Mapping[str, Any]) -> None:
    """Replace what was remembered. Failing is harmless, so errors such as a full disk are ignored."""
    if path := paths.remembered(store, what):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_or_nothing(path) as temporary:
                temporary.write_bytes(b"%b\n%b" % (_digest(written := orjson.dumps(content)), written))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


class Moment:
    """The start of a check: a file that changes later gets a time that is not earlier than this."""

    def __init__(self, store: Path):
        self._began = 0
        path = paths.remembered(store, paths.CONFIRMED)
        if path and store.is_dir():
            with suppress(OSError):  # then nothing can be remembered there either
                path.parent.mkdir(parents=True, exist_ok=True)
                self._began = clock_ns(path.parent)

    def certain(self, files: Mapping[str, Stat]) -> dict[str, Stat]:
        """Files that cannot have changed since without a different time."""
        return {file: stat for file, stat in files.items() if stat[_CHANGED] < self._began}


def clock_ns(folder: Path) -> int:
    """The time of a file made now. File times are coarser than clocks, and may come from another machine."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_ctime_ns


# -- the comparison ----------------------------------------------------------------------


@dataclass
class _Found:
    """By folder: differences, and how many files were compared if requested. `readable`: whether session.json is."""

    differences: dict[str, list[Difference]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    readable: bool = True


def _compared(root: Path, store: Path, seen: Seen, before: Seen, *, aside: Collection[str] = ()) -> _Found:
    """Compare files that are not `seen` as they were `before` with their sums, and remember those that are as sealed.

    `aside`: short ids of trials to leave out.
    """
    moment, found = Moment(store), _Found()
    if lost := _lost(root, store, seen):
        found.differences[""] = [lost]
        return found  # what is remembered stays: it alone says that something was here
    changed = {place for place in seen.keys() | before.keys() if seen.get(place) != before.get(place)}
    for place in sorted(changed & seen.keys()):
        if "/" in place and trial_of(place) not in aside:
            at = f"{(store / place).relative_to(root)}/"
            checked = check_place(at, store / place, seen[place], before.get(place, {}))
            found.files[place] = checked.files
            if checked.differences:
                found.differences[place] = checked.differences
    if changed:
        wrong, index = set(found.differences), read_index(store / paths.SESSION_INDEX)
        for place, difference in against_index(root, store, index, seen, None if "" in changed else changed):
            if place not in wrong and trial_of(place) not in aside:
                found.differences.setdefault(place, []).append(difference)
        found.readable = "" not in changed & seen.keys() or index is not None
        sure = {place: moment.certain(files) for place, files in seen.items() if place not in found.differences}
        # A missing file is checked again as long as session.json lists it.
        if not found.readable or found.differences.keys() - seen.keys():
            sure.pop("", None)
        if sure != before:
            remember(store, paths.CONFIRMED, sure)
    return found


def _lost(root: Path, store: Path, seen: Seen) -> Difference | None:
    """A whole store that was here and is not, such as on a disk that is not mounted. Its session.json went with it, so
    nothing else would stop a command from measuring all of it again.
    """
    had = 0 if seen else sum(trial_of(place) is not None for place in recall(store, paths.CONFIRMED))
    memory = paths.remembered(store, paths.CONFIRMED)
    if not had or memory is None:
        return None
    way = f"; if you removed it to measure everything again, remove {memory.relative_to(root)}, too"
    return Difference(store.relative_to(root).as_posix(), How.LOST, plural(had, "trial"), way)


def check_place(name: str, folder: Path, files: Mapping[str, Stat], then: Mapping[str, Stat]) -> Checked:
    """Check a sealed folder, except for those of its `files` that are as they were `then`, when they were compared."""
    # The list may have changed since the others were compared.
    same = then if SUMS in files and then.get(SUMS) == files[SUMS] else {}
    return check_folder(name, folder, files, {file for file, stat in files.items() if same.get(file) == stat})


def _refusal(differences: Mapping[str, list[Difference]]) -> str:
    lines = [str(difference) for found in differences.values() for difference in found]
    more = [f"and {len(lines) - _MOST_NAMED} more"] if len(lines) > _MOST_NAMED else []
    told = "\n  ".join(
        ["raw files are not what was stored, so no report is made from them:", *lines[:_MOST_NAMED], *more]
    )
    told += "\nRestore altered and missing files from a copy, and remove added files."
    gone = {place for place, found in differences.items() if found[0].how is How.GONE}
    copies = {place for place, found in differences.items() if found[0].how is How.MOVED}
    trials = [trial for place in differences.keys() - gone - copies if (trial := trial_of(place))]
    if trials:
        told += f"\nOr measure the trial again: `benchstudy discard {' '.join(sorted(trials)[:_MOST_NAMED])} --why …`"
    if gone:
        told += f"\nIf a folder is lost, you can remove session.json: {hints.snakemake()} then lists what exists."
    return told
