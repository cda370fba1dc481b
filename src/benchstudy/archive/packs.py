"""Packs a sealed folder into one object: an uncompressed tar, named by its SHA-256, with the same bytes on any machine.

Files that every reader needs come first, so a reader can fetch only the beginning of an object.
"""

import hashlib
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from benchstudy.archive.bucket import DamagedObject, digest_of
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.sealed import RECORD
from benchstudy.measuring.storedtrials import verify
from benchstudy.model import interference, paths
from benchstudy.model.files import IMPOSSIBLE

_FIRST = (SUMS, RECORD, paths.SESSION_INDEX, interference.FILE)
_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Pack:
    """`head`: length in bytes of the part that every reader needs. `rest`: what follows, as {name: size in bytes}."""

    sha256: str
    size: int
    head: int
    rest: Mapping[str, int]


def pack(folder: Path, into: IO[bytes]) -> Pack:
    """Write a sealed folder to a readable file. Raises CorruptTrial if the folder is not what was sealed.

    Order, times, owners and modes are fixed, and nothing is compressed, so the bytes depend on no library version.
    """
    head, rest = 0, dict[str, int]()
    for name in sorted([SUMS, *(file.name for file in verify(folder))], key=lambda name: (name not in _FIRST, name)):
        member = tarfile.TarInfo(name)
        member.size, member.mode = (folder / name).stat().st_size, 0o444
        into.write(member.tobuf(tarfile.PAX_FORMAT))
        with (folder / name).open("rb") as file:
            shutil.copyfileobj(file, into)
        into.write(bytes(-into.tell() % _BLOCK))
        if name in _FIRST:
            head = into.tell()
        else:
            rest[name] = member.size
    into.write(bytes(2 * _BLOCK))
    return Pack(size=into.tell(), sha256=digest_of(into, hashlib.sha256()).hex(), head=head, rest=rest)


def unpack(packed: IO[bytes], into: Path, name: str) -> None:
    """Extract a pack, or its beginning, into a folder. `name`: of the object. Raises DamagedObject.

    Does not check whether the files are what was sealed.
    """
    try:
        with tarfile.open(fileobj=packed, mode="r:") as members:
            for member in members:
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or member.name.startswith("/") or ".." in parts:
                    raise DamagedObject(f"{name}: {member.name!r} is not a file, or would lead out of its folder")
                if member.issparse():  # `pack` makes none
                    raise DamagedObject(f"{name}: {member.name!r} has holes, which could fill the disk")
                content, target = members.extractfile(member), into / member.name
                assert content is not None, "a plain file has content"
                target.parent.mkdir(parents=True, exist_ok=True)
                with content, target.open("xb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in IMPOSSIBLE:
            raise
        raise DamagedObject(f"{name}: not a packed trial: {error}") from error
