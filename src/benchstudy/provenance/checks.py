"""`benchstudy verify`: every file against the SHA-256 stored with it, on disk and in a crate; what differs is named."""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from benchstudy.measuring.raw import SUMS
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import sha256_of
from benchstudy.model.study import Study
from benchstudy.provenance.entities import METADATA, address

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_CHUNK = 1 << 20


@dataclass
class Checked:
    """`files` were compared; `differences` says what is not as it was stored, one line a file."""

    files: int = 0
    differences: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Checked") -> "Checked":
        self.files += other.files
        self.differences += other.differences
        return self


# -- on disk ----------------------------------------------------------------------


def check_study(root: Path, study: Study) -> Checked:
    """The raw files of a study: those of each trial and session, and whether all that session.json lists are there."""
    checked = Checked()
    for plan in study.sessions():
        checked += _check_family(root, paths.family_raw(root, study.study, plan.target, plan.family_name))
    return checked


def _check_family(root: Path, folder: Path) -> Checked:
    checked = Checked()
    sealed = {sums.parent for sums in folder.glob(f"*/[!.]*/{SUMS}") if not sums.parent.parent.name.startswith(".")}
    for place in sorted(sealed):
        checked += _check_sealed(root, place)
    for case in sorted(path for path in folder.glob("[!.]*") if path.is_dir() and path.name != "discards"):
        unsealed = (path for path in case.glob("[!.]*") if path.is_dir() and path not in sealed)
        checked.differences += [f"{path.relative_to(root)}: its {SUMS} is missing" for path in sorted(unsealed)]
    index = folder / paths.SESSION_INDEX
    if index.is_file():
        checked.differences += _against_index(root, folder, json.loads(index.read_bytes()))
    return checked


def _check_sealed(root: Path, folder: Path) -> Checked:
    """One trial or session. Files that nobody sealed are named as well: they look like evidence and are none."""
    sums = _sums((folder / SUMS).read_text(encoding="utf-8", errors="replace"))
    found = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }
    found.pop(SUMS)
    place = folder.relative_to(root)
    return _compared(f"{place}/", sums, found.keys(), lambda name: _sha256(found[name]))


def _against_index(root: Path, folder: Path, index: Mapping[str, Any]) -> Iterator[str]:
    """SHA256SUMS lies beside what it lists, and could have been altered with it: session.json holds each sum again."""
    for entry in index["trials"]:
        sums = folder / entry["path"] / SUMS
        if not sums.is_file():
            yield f"{sums.parent.relative_to(root)}: session.json lists this trial, and its folder is gone"
            continue
        listed = {file["name"]: file["sha256"] for file in entry["files"]}
        stored = _sums(sums.read_text(encoding="utf-8", errors="replace"))
        for name in sorted(name for name in listed.keys() | stored.keys() if listed.get(name) != stored.get(name)):
            yield f"{sums.parent.relative_to(root)}/{name}: {SUMS} and session.json do not agree on it"


# -- a crate ----------------------------------------------------------------------


class Crate:
    """A crate to read from: a zip file, or the folder it was unpacked into.

    Raises BenchstudyError for what is no crate of benchstudy, or holds a name that would lead out of it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._zip = None
        if path.is_dir():
            self.names = frozenset(
                p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file() and not p.is_symlink()
            )
        elif zipfile.is_zipfile(path):
            self._zip = zipfile.ZipFile(path)
            self.names = frozenset(_members(path, self._zip))
        else:
            what = "neither a zip file nor a folder" if path.exists() else "there is no such file"
            raise BenchstudyError(f"{path}: no crate: {what}")
        if not {SUMS, METADATA} <= self.names:
            raise BenchstudyError(f"{path}: no crate of benchstudy: it needs {METADATA} and {SUMS} at its top")
        self.sums = _sums(self.read(SUMS).decode(errors="replace"))

    def __enter__(self) -> "Crate":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._zip:
            self._zip.close()

    def pieces(self, name: str) -> Iterator[bytes]:
        """A file's content. Raises BenchstudyError when the zip itself is damaged there."""
        try:
            with self._zip.open(name) if self._zip else (self.path / name).open("rb") as file:
                while piece := file.read(_CHUNK):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, RuntimeError) as error:
            raise BenchstudyError(f"{name}: cannot be read: {error}") from error

    def size(self, name: str) -> int:
        """In bytes, unpacked."""
        return self._zip.getinfo(name).file_size if self._zip else (self.path / name).stat().st_size

    def read(self, name: str) -> bytes:
        return b"".join(self.pieces(name))

    def check(self) -> Checked:
        """Every file against SHA256SUMS, and SHA256SUMS against what else says what the crate holds."""
        listed = self.sums
        # In a folder there may be what using it has left: an environment, tables, reports. Among raw files nothing may.
        ours = (lambda name: True) if self._zip else (lambda name: name in listed or name.startswith("data/raw/"))
        found = {name for name in self.names if name != SUMS and ours(name)}
        checked = _compared("", listed, found, self._sha256)
        if any(line.startswith(f"{METADATA}:") for line in checked.differences):
            return checked
        checked.differences += self._against_description()
        checked.differences += self._against_trials()
        return checked

    def _sha256(self, name: str) -> str:
        return _digest(self.pieces(name))

    def _against_description(self) -> Iterator[str]:
        """ro-crate-metadata.json holds the sum of each file that it describes."""
        try:
            graph = json.loads(self.read(METADATA))["@graph"]
            described = {entity["@id"]: entity["sha256"] for entity in graph if entity.get("@type") == "File"}
        except (ValueError, KeyError, TypeError, AttributeError):
            yield f"{METADATA}: is not the description of a crate"
            return
        sums = {address(name): (name, digest) for name, digest in self.sums.items()}
        for identifier in sorted(described):
            name, digest = sums.get(identifier, (identifier, None))
            if described[identifier] != digest:
                yield f"{name}: {SUMS} and {METADATA} do not agree on it"

    def _against_trials(self) -> Iterator[str]:
        """Each trial has sums of its own, as they were stored when it was measured."""
        for name in sorted(self.sums):
            folder, slash, last = name.rpartition("/")
            if not (slash and last == SUMS and name in self.names):
                continue
            for inner, digest in _sums(self.read(name).decode(errors="replace")).items():
                if self.sums.get(f"{folder}/{inner}") != digest:
                    yield f"{folder}/{inner}: {SUMS} of the crate and that of its folder do not agree on it"


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[str]:
    """Names in a zip file that was made by somebody else."""
    seen: set[str] = set()
    for entry in archive.infolist():
        name = entry.filename
        if entry.is_dir():
            continue
        parts = PurePosixPath(name).parts
        is_link = (entry.external_attr >> 16) & 0o170000 == 0o120000
        if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or is_link or name in seen:
            raise BenchstudyError(
                f"{path}: {name!r} is a link, stands there twice, or would lead out of it; not opened"
            )
        seen.add(name)
        yield name


def check_crate(path: Path) -> Checked:
    """Every file of a crate, packed or unpacked. Raises BenchstudyError for what is none."""
    with Crate(path) as crate:
        return crate.check()


# -- both ----------------------------------------------------------------------


def _compared(place: str, listed: Mapping[str, str], found: Iterable[str], digest: Callable[[str], str]) -> Checked:
    """What is listed against what there is. `digest` reads a file that exists."""
    found, checked = set(found), Checked()
    for name in sorted(listed.keys() | found):
        if name not in found:
            checked.differences.append(f"{place}{name}: missing")
        elif name not in listed:
            checked.differences.append(f"{place}{name}: was added; {SUMS} does not list it")
        else:
            checked.files += 1
            try:
                same = digest(name) == listed[name]
            except (BenchstudyError, OSError) as error:
                checked.differences.append(f"{place}{name}: {error}")
                continue
            if not same:
                checked.differences.append(f"{place}{name}: altered: its SHA-256 is not the one in {SUMS}")
    return checked


def _sums(text: str) -> dict[str, str]:
    """Name to SHA-256, as `sha256sum` writes them. A line that is none is a difference under its own name."""
    matches = ((line, _LINE.fullmatch(line)) for line in text.splitlines())
    return {match[2] if match else line: match[1] if match else "" for line, match in matches}


def _digest(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    if path.is_symlink():
        raise BenchstudyError("a link in the place of a file")
    return sha256_of(path)
