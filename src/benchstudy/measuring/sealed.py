"""Seals folders of raw files with their SHA-256, and finds what differs from what was sealed."""

import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict

from benchstudy.measuring.checked import SUMS, Checked, Difference, How
from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import disk_trouble, free_name, fsync, json_of, keep_link, nothing_collected, sha256_of

RECORD = "trial.json"
DISCARDS = "discards"
LOOKS = "looks"
SESSIONS = "sessions"
# In a sealed folder that is only partly here: {name: size in bytes} of the files that only an archive has.
IN_ARCHIVE = "IN_ARCHIVE"

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
TRIAL_FOLDER = re.compile(r"\d{4,}-([0-9a-f]{8})")
_PLAIN = "".join(map(chr, range(32, 127))).replace("/", "").replace("%", "").replace("\\", "")

# Size in bytes, times of modification and of change in ns, inode. A list, because JSON has no tuples.
Stat = list[int]
# {folder in a store: {file in it: Stat}}. A sealed folder is "<case>/<trial>"; "" holds session.json.
Seen = Mapping[str, Mapping[str, Stat]]


# Dictionaries instead of models, because nothing is made of the tens of thousands of a large study.
class _Named(TypedDict):
    uuid: str


class _File(TypedDict):
    name: str
    sha256: str


class _Trial(_Named):
    path: str
    case: str
    block: int
    status: str
    files: list[_File]


class _Session(_Named):
    started: str


class _Stopping(TypedDict):
    looks: list[_Named]


class _Index(BaseModel):
    """The least that a session.json must contain to be used."""

    target: str
    family: str
    problem: str | None
    sessions: list[_Session]
    trials: list[_Trial]
    discarded: list[_Named]
    stopping: _Stopping | None = None


def trial_of(place: str) -> str | None:
    match = TRIAL_FOLDER.fullmatch(place.rpartition("/")[2])
    return match[1] if match else None


def place_of(case: str, block: int, uuid: str) -> str:
    """The folder of a trial in its store."""
    return f"{case}/{block:04d}-{uuid[:8]}"


# -- what exists ----------------------------------------------------------------------


@nothing_collected()
def look(store: Path) -> dict[str, dict[str, Stat]]:
    """Every file of a family's raw folder, unread. Hidden ones, which are locks or not yet committed, are left out."""
    seen: dict[str, dict[str, Stat]] = {}
    for group in _visible(store):
        if group.is_dir(follow_symlinks=False):
            for place in _visible(group.path):
                if place.is_dir(follow_symlinks=False):
                    seen[f"{group.name}/{place.name}"] = dict(_files(place.path))
                elif group.name == DISCARDS:
                    seen.setdefault(DISCARDS, {})[place.name] = _stat(place)
        elif group.name == paths.SESSION_INDEX:
            seen[""] = {group.name: _stat(group)}
    return seen


def _visible(folder: Path | str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []


def _files(folder: Path | str, below: str = "") -> Iterator[tuple[str, Stat]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{below}{entry.name}/")
            else:
                yield f"{below}{entry.name}", _stat(entry)


def _stat(entry: "os.DirEntry[str]") -> Stat:
    found = entry.stat(follow_symlinks=False)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def has_trials(store: Path) -> bool:
    """Whether a family's raw folder has a sealed trial."""
    return any(trial_of(sums.parent.name) for sums in store.glob(f"*/*/{SUMS}"))


def seal(folder: Path, *, durable: bool = True) -> None:
    """Hash every file below `folder` into SHA256SUMS and make it read-only. `durable`: fsync all of it."""
    (folder / SUMS).unlink(missing_ok=True)  # left by a killed sealing, it would list itself
    _make_plain(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    sums = "".join(f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / SUMS).write_text(sums, encoding="utf-8")
    if durable:
        for path in (*files, folder / SUMS, *(p for p in folder.rglob("*") if p.is_dir()), folder):
            fsync(path)
    protect(folder)


def protect(folder: Path) -> None:
    """Make a folder and everything in it read-only."""
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder before the folder
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)


def make_writable(folder: Path) -> None:
    """Make a folder that is not committed writable again, even if parts of it are read-only."""
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(stat.S_IRWXU)


def _make_plain(folder: Path) -> None:
    """Convert what a tool left to a form that sums can list. A link becomes a copy of its target, or a text with the
    target's name if the target lies outside. Bytes of a name that cannot stand in a line are written like %0A. So is a
    backslash, which no crate can have in a name: programs that unpack one may take it for a slash.
    """
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder before the folder
        if path.is_symlink():
            target, named = Path(os.path.realpath(path)), os.readlink(path)
            path.unlink()
            if target.is_file() and target.is_relative_to(folder.resolve()):
                shutil.copyfile(target, path)
            else:
                keep_link(path, named)
        elif not path.is_file() and not path.is_dir():  # a pipe or a socket has no content
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if not path.name.isprintable() or "\\" in path.name:
            path.rename(free_name(path.with_name(quote(os.fsencode(path.name), safe=_PLAIN))))


# -- against what was stored ----------------------------------------------------------------------


def check_folder(name: str, folder: Path, files: Iterable[str] | None = None, unread: Iterable[str] = ()) -> Checked:
    """Compare a sealed folder with its sums. Also names files that were never sealed, because they look like evidence.

    `name`: what differences begin with. `files`: all files in the folder (default: list them). `unread`: those of them
    that are known to be unchanged.
    """
    found = set(dict(_files(folder)) if files is None else files)
    if SUMS not in found:
        return Checked(differences=[Difference(name.rstrip("/"), How.NO_SUMS)])
    sums = _sums_of(folder)
    skipped = set(unread) & found & sums.keys()
    elsewhere = in_archive(folder) if IN_ARCHIVE in found - sums.keys() else {}
    listed = {file: digest for file, digest in sums.items() if file not in skipped and file not in elsewhere}
    ours = {SUMS, IN_ARCHIVE} if elsewhere else {SUMS}
    checked = compared(name, listed, found - skipped - ours, lambda file: _sha256(folder / file))
    checked.files += len(skipped)
    checked.in_archive = len(elsewhere)
    return checked


def in_archive(folder: Path) -> dict[str, int]:
    """Files of a sealed folder that are only in an archive, with their sizes in bytes."""
    found = _json(folder / IN_ARCHIVE)
    return found if isinstance(found, dict) else {}


def against_index(
    root: Path, store: Path, index: Mapping[str, Any] | None, seen: Seen, places: Iterable[str] | None = None
) -> Iterator[tuple[str, Difference]]:
    """(folder, difference) for each contradiction between session.json and the folders beside it; nothing without one.

    `places`: the folders to compare (default: all).
    """
    if index is None:
        return
    at = store.relative_to(root).as_posix()
    way = f"; remove {at}/session.json and run {hints.snakemake()}, which lists it"
    yield from contradictions(at, index, seen, lambda name: _content(f"{store}/{name}"), places, way)


def contradictions(
    at: str,
    index: Mapping[str, Any],
    seen: Mapping[str, Collection[str]],
    read: Callable[[str], bytes],
    places: Iterable[str] | None = None,
    way: str = "",
) -> Iterator[tuple[str, Difference]]:
    """As `against_index`, for raw files that need not be on disk: (folder, difference).

    SHA256SUMS lies beside what it lists and could have been altered with it, so session.json repeats each sum.
    `at`: the store's name in differences. `seen`: names of files by folder. `read` gives the content of a file in the
    store. `way`: what to do if something is not listed.
    """
    asked = None if places is None else set(places)
    trials = {entry["path"]: entry for entry in index["trials"]}
    sessions = {f"{SESSIONS}/{entry['uuid'][:8]}": entry for entry in index["sessions"]}
    looks = {f"{LOOKS}/{entry['uuid'][:8]}" for entry in (index.get("stopping") or {}).get("looks", ())}
    what = dict.fromkeys(trials, "trial") | dict.fromkeys(sessions, "session") | dict.fromkeys(looks, "look")
    for place in sorted(what if asked is None else what.keys() & asked):
        if SUMS not in seen.get(place, ()):
            yield place, Difference(f"{at}/{place}", How.GONE, what[place])
        elif place in trials:
            entry = trials[place]
            # A copy of a trial would count a second time.
            if place != (stored_as := place_of(entry["case"], entry["block"], entry["uuid"])):
                yield place, Difference(f"{at}/{place}", How.MOVED, stored_as)
            listed = {file["name"]: file["sha256"] for file in entry["files"]}
            stored = sums_in(read(f"{place}/{SUMS}").decode(errors="replace"))
            for name in sorted(name for name in listed.keys() | stored.keys() if listed.get(name) != stored.get(name)):
                yield place, Difference(f"{at}/{place}/{name}", How.SUMS_DISAGREE, f"{SUMS} and session.json")
        elif place in sessions and _parsed(read(f"{place}/{paths.SESSION_INDEX}")) != sessions[place]:
            yield place, Difference(f"{at}/{place}/session.json", How.RECORDS_DISAGREE, f"{at}/session.json")
    discarded, stored_at = discarded_in(seen), {entry["uuid"]: place for place, entry in trials.items()}
    for place in sorted(seen if asked is None else seen.keys() & asked):
        trial = trial_of(place)
        # A damaged trial is no longer listed once it is discarded.
        if trial and trial not in discarded and place not in trials and SUMS in seen[place]:
            original = stored_at.get(_uuid_in(read, f"{place}/{RECORD}"))
            unlisted = Difference(f"{at}/{place}", How.UNLISTED, advice=way)
            yield place, Difference(f"{at}/{place}", How.MOVED, original) if original else unlisted
    if asked is None or DISCARDS in asked:
        yield from ((DISCARDS, difference) for difference in _discards(at, index, seen, read, way))


def discarded_in(seen: Mapping[str, Collection[str]]) -> set[str]:
    """Short ids of trials."""
    return {Path(file).stem for file in seen.get(DISCARDS, ())}


def _uuid_in(read: Callable[[str], bytes], record: str) -> str:
    try:
        found = _parsed(read(record))
    except (FileNotFoundError, NotADirectoryError):
        found = None
    return str(found.get("uuid")) if isinstance(found, dict) else ""


def _discards(
    at: str, index: Mapping[str, Any], seen: Mapping[str, Collection[str]], read: Callable[[str], bytes], way: str
) -> Iterator[Difference]:
    listed = {f"{entry['uuid'][:8]}.json": entry for entry in index["discarded"]}
    found = seen.get(DISCARDS, ())
    for file in sorted({*listed, *found}):
        if file not in found:
            yield Difference(f"{at}/{DISCARDS}/{file}", How.MISSING)
        elif file not in listed:
            yield Difference(f"{at}/{DISCARDS}/{file}", How.UNLISTED_DISCARD, advice=way)
        elif _parsed(read(f"{DISCARDS}/{file}")) != listed[file]:
            yield Difference(f"{at}/{DISCARDS}/{file}", How.RECORDS_DISAGREE, f"{at}/session.json")


@nothing_collected()
def read_index(path: Path) -> dict[str, Any] | None:
    """The content of a session.json; None if it is missing or damaged, because it can be made again at any time.

    Raises OSError if the file cannot be read now: it may be intact, so it must not be replaced.
    """
    return _checked_index(_json(path))


@nothing_collected()
def index_in(content: bytes) -> dict[str, Any] | None:
    """As `read_index`, of what was read."""
    return _checked_index(_parsed(content))


def _checked_index(found: Any) -> dict[str, Any] | None:
    try:
        _Index.model_validate(found, strict=True)
    except ValidationError:
        return None
    return cast(dict[str, Any], found)


def _json(path: Path) -> Any:
    """The content of a file; None if it is missing or damaged. Raises OSError if it cannot be read now."""
    try:
        return _parsed(_content(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _content(path: Path | str) -> bytes:
    """Raises OSError if the file cannot be read now, which is no damage."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        error.filename = error.filename or str(path)  # a failed read does not name the file
        raise


def _parsed(content: bytes) -> Any:
    """The JSON in a file; None if it is damaged."""
    try:
        return _json_of(content)
    except ValueError:
        return None


def _json_of(content: bytes) -> Any:
    """As `json_of`, which takes twice the time, but reads names of files that are no Unicode."""
    try:
        return from_json(content, cache_strings="keys")
    except ValueError:
        return json_of(content)


def compared(place: str, listed: Mapping[str, str], found: Iterable[str], digest: Callable[[str], str]) -> Checked:
    """Compare listed files with existing ones. `digest` reads an existing file."""
    found, checked = set(found), Checked()
    for name in sorted(listed.keys() | found):
        if name not in found:
            checked.differences.append(Difference(f"{place}{name}", How.MISSING))
        elif name not in listed:
            checked.differences.append(Difference(f"{place}{name}", How.ADDED))
        else:
            checked.files += 1
            try:
                same = digest(name) == listed[name]
            except (BenchstudyError, OSError) as error:
                said = disk_trouble(error) or str(error)
                checked.differences.append(Difference(f"{place}{name}", How.UNREAD, said))
                continue
            if not same:
                checked.differences.append(Difference(f"{place}{name}", How.ALTERED))
    return checked


def sums_in(text: str) -> dict[str, str]:
    """Name to SHA-256, from the format of `sha256sum`. An invalid line becomes a name, so that it is a difference."""
    matches = ((line, _LINE.fullmatch(line)) for line in text.splitlines())
    return {match[2] if match else line: match[1] if match else "" for line, match in matches}


def _sums_of(folder: Path | str) -> dict[str, str]:
    with open(f"{folder}/{SUMS}", encoding="utf-8", errors="replace") as file:  # a third of the time that pathlib takes
        return sums_in(file.read())


def _sha256(path: Path) -> str:
    if path.is_symlink():
        raise BenchstudyError("a link instead of a file")
    return sha256_of(path)
