"""`benchstudy verify`: compares every file on disk or in a crate with its stored SHA-256, and names what differs."""

import errno
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from benchstudy.measuring.checked import SUMS, Checked, Difference, How
from benchstudy.measuring.confirmed import check
from benchstudy.measuring.sealed import (
    compared,
    contradictions,
    discarded_in,
    index_in,
    sums_in,
    trial_of,
)
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError, plain_line
from benchstudy.model.files import files_below, json_of
from benchstudy.model.study import Study
from benchstudy.provenance.entities import METADATA, address

_CHUNK = 1 << 20
# The most that a zip file may expand to: raw files shrink to a tenth, not to a thousandth.
_MOST_TIMES, _AND_BYTES = 200, 1 << 30
_BEGIN = b"PK\x03\x04"
_AGAIN = "copy, download or pack it again"
# The largest file that is read at once, such as the list of sums.
_LONGEST_TEXT = 256 << 20
# data/raw/<study>/<target>/<family>: so many folders lead to a store.
_STORE = 5
# Raised for a damaged zip file. RuntimeError: encrypted, or compressed by an unknown method.
_OF_A_ZIP = (zipfile.BadZipFile, zlib.error, OSError, EOFError, LookupError, ValueError, RuntimeError, struct.error)


def check_study(root: Path, study: Study, *, read: bool = False) -> Checked:
    """Check the raw files of each trial and session of a study, and that everything in session.json exists.

    `read`: also read files that have not changed since they were last compared.
    """
    checked = Checked()
    for store in study.stores(root):
        checked += check(root, store, read=read)
    return checked


# -- a crate ----------------------------------------------------------------------


class BadCrate(BenchstudyError):
    """A file or folder that cannot be read as a crate, and `why`."""

    def __init__(self, path: Path, why: str):
        super().__init__(f"{path}: {why}")
        self.why = why


class Crate:
    """A crate to read from: a zip file, or the folder that it was unpacked into.

    Raises BadCrate if it is not a crate of benchstudy, would fill a disk, or has a name that leads out of it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._zip = None
        if path.is_dir():
            self.names = frozenset(
                p.relative_to(path).as_posix() for p in files_below(path) if p.is_file() and not p.is_symlink()
            )
        elif path.is_file():
            try:
                self._zip = zipfile.ZipFile(path)
            except _OF_A_ZIP as error:
                unread = error if isinstance(error, OSError) else error.__context__
                # zipfile says that an unreadable file is no zip file. It seeks to places that a damaged one lacks.
                if isinstance(unread, OSError) and unread.errno != errno.EINVAL:
                    raise unread from None
                if zipfile.is_zipfile(path):
                    raise BadCrate(path, f"a damaged zip file: {error}; {_AGAIN}") from error
                if not path.stat().st_size:
                    raise BadCrate(path, f"is empty; {_AGAIN}") from None
                if begins_as_zip(path):
                    size = f"{path.stat().st_size:,} B"
                    raise BadCrate(
                        path, f"is not whole: it begins as a zip file, and its end is missing after {size}; {_AGAIN}"
                    ) from None
                raise BadCrate(path, "not a crate: neither a zip file nor a folder") from None
            self.names = frozenset(_members(path, self._zip))
        else:
            what = "neither a zip file nor a folder" if path.exists() else "no such file"
            raise BadCrate(path, f"not a crate: {what}")
        if not {SUMS, METADATA} <= self.names:
            raise BadCrate(path, f"not a crate of benchstudy: it needs {METADATA} and {SUMS} at its top")
        self.sums = sums_in(self.read(SUMS).decode(errors="replace"))

    def __enter__(self) -> "Crate":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._zip:
            self._zip.close()

    def pieces(self, name: str) -> Iterator[bytes]:
        """A file's content, in pieces. Raises BadCrate if the zip file is damaged there."""
        try:
            yield from self._pieces(name)
        except BenchstudyError as error:
            raise BadCrate(self.path, f"{name}: {error}") from error

    def _pieces(self, name: str) -> Iterator[bytes]:
        """The same, with an error that does not name the file."""
        try:
            with self._zip.open(name) if self._zip else (self.path / name).open("rb") as file:
                while piece := file.read(_CHUNK):
                    yield piece
        except _OF_A_ZIP as error:
            raise BenchstudyError(f"cannot be read: {error}") from error

    def size(self, name: str) -> int:
        """The unpacked size in bytes."""
        return self._zip.getinfo(name).file_size if self._zip else (self.path / name).stat().st_size

    def read(self, name: str) -> bytes:
        """The content of a small file in the crate. Raises BadCrate if it is too large for a text."""
        if name in self.names and self.size(name) > _LONGEST_TEXT:
            raise BadCrate(self.path, f"{name}: {self.size(name):,} bytes are too many for this file")
        return b"".join(self.pieces(name))

    def check(self) -> Checked:
        """Compare every file with SHA256SUMS, and SHA256SUMS with everything else that lists the crate's content."""
        listed = self.sums
        # Using an unpacked crate may add files: an environment, tables, reports. Raw files must have no additions.
        ours = (lambda name: True) if self._zip else (lambda name: name in listed or name.startswith("data/raw/"))
        found = {name for name in self.names if name != SUMS and ours(name)}
        checked = compared("", listed, found, self._sha256)
        if any(difference.name == METADATA for difference in checked.differences):
            return checked
        checked.differences += self._against_description()
        checked.differences += self._against_trials()
        checked.differences += self._against_indexes(checked.differences)
        return checked

    def _sha256(self, name: str) -> str:
        digest = hashlib.sha256()
        for piece in self._pieces(name):
            digest.update(piece)
        return digest.hexdigest()

    def _against_description(self) -> Iterator[Difference]:
        """Compare with ro-crate-metadata.json, which holds the sum of each file that it describes."""
        try:
            graph = json_of(self.read(METADATA))["@graph"]
            described = {entity["@id"]: entity["sha256"] for entity in graph if entity.get("@type") == "File"}
            identifiers = sorted(described)
        except (ValueError, KeyError, TypeError, AttributeError):
            yield Difference(METADATA, How.NO_DESCRIPTION)
            return
        sums = {address(name): (name, digest) for name, digest in self.sums.items()}
        for identifier in identifiers:
            name, digest = sums.get(identifier, (identifier, None))
            if described[identifier] != digest:
                yield Difference(name, How.SUMS_DISAGREE, f"{SUMS} and {METADATA}")

    def _against_trials(self) -> Iterator[Difference]:
        """Compare with the sums that each trial got when it was measured."""
        for name in sorted(self.sums):
            folder, slash, last = name.rpartition("/")
            if not (slash and last == SUMS and name in self.names):
                continue
            try:
                listed = sums_in(self.read(name).decode(errors="replace"))
            except BenchstudyError:  # it is damaged, and named as such
                continue
            for inner, digest in listed.items():
                if self.sums.get(f"{folder}/{inner}") != digest:
                    lists = f"{SUMS} of the crate and {SUMS} of the folder"
                    yield Difference(f"{folder}/{inner}", How.SUMS_DISAGREE, lists)

    def _against_indexes(self, named: Iterable[Difference]) -> Iterator[Difference]:
        """Compare with each session.json, so that no trial was added, left out or renamed together with its sums.

        `named`: differences so far. A folder that has one is left out.
        """
        wrong = {difference.name for difference in named}
        wrong |= {"/".join(name.split("/")[: _STORE + 2]) for name in wrong}
        for at, seen in self._stores().items():
            index_file = f"{at}/{paths.SESSION_INDEX}"
            if index_file in wrong:
                continue

            def read(name: str, at: str = at) -> bytes:
                return b"" if f"{at}/{name}" in wrong else self.read(f"{at}/{name}")

            index = index_in(read(paths.SESSION_INDEX)) if index_file in self.names else None
            if index is None:
                yield Difference(index_file, How.NO_INDEX)
                continue
            # A crate leaves a trial out that was damaged and is discarded.
            left_out = discarded_in(seen)
            for place, difference in contradictions(at, index, seen, read):
                if f"{at}/{place}" not in wrong and (place in seen or trial_of(place) not in left_out):
                    yield difference

    def _stores(self) -> dict[str, dict[str, list[str]]]:
        """Names of raw files by store and folder in it, as `sealed.look` finds them on a disk."""
        stores: dict[str, dict[str, list[str]]] = {}
        for name in sorted(self.sums.keys() & self.names):
            parts = name.split("/")
            if name.startswith("data/raw/") and len(parts) > _STORE:
                # A sealed folder is two levels deep; a discard is a file one level deep.
                depth = min(_STORE + 2, len(parts) - 1)
                folders = stores.setdefault("/".join(parts[:_STORE]), {})
                folders.setdefault("/".join(parts[_STORE:depth]), []).append("/".join(parts[depth:]))
        return stores


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[str]:
    """The names in a zip file from an untrusted source."""
    unpacked, packed = sum(entry.file_size for entry in archive.infolist()), path.stat().st_size
    if unpacked > _MOST_TIMES * packed + _AND_BYTES:
        raise BadCrate(path, f"its {packed:,} bytes would become {unpacked:,}; not opened")
    seen: set[str] = set()
    for entry in archive.infolist():
        name = entry.filename
        if entry.is_dir():
            continue
        parts = PurePosixPath(name).parts
        is_link = (entry.external_attr >> 16) & 0o170000 == 0o120000
        # Two spellings of one name would be one file once they are unpacked.
        is_plain = plain_line(name) == name == "/".join(parts)
        if name.startswith("/") or ".." in parts or "\\" in name or not is_plain or is_link or name in seen:
            raise BadCrate(path, f"{name!r} is a link, occurs twice, or would lead out of it; not opened")
        seen.add(name)
        yield name
    last = map(PurePosixPath, {name.rpartition("/")[0] for name in seen})
    folders = {parent.as_posix() for folder in last for parent in (folder, *folder.parents)}
    for name in sorted(seen & folders):
        raise BadCrate(path, f"{name!r} is both a file and a folder; not opened")


def begins_as_zip(path: Path) -> bool:
    """Whether a file begins as a zip file does, also if it was cut off."""
    with path.open("rb") as file:
        beginning = file.read(len(_BEGIN))
    return bool(beginning) and _BEGIN.startswith(beginning)


def check_crate(path: Path) -> Checked:
    """Check every file of a crate, packed or unpacked. Raises BadCrate if it is not a crate."""
    with Crate(path) as crate:
        return crate.check()
