"""Manifests list what belongs to a session. Each is written last, named by its content, and never replaced. All
manifests of a session count together, because raw files are append-only: no push can undo another one.
"""

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from benchstudy.archive.bucket import LARGEST, ArchiveError, Bucket, DamagedObject, Stored, side_by_side
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.raw import NOT_HELD
from benchstudy.model.files import sha256_of
from benchstudy.model.study import SessionPlan

SEALED, SESSIONS = "sealed/", "sessions/"
_LARGEST = 256 << 20  # bytes of a manifest, which is held in memory: ten thousand trials take a few million

# A manifest that claims more could have a server send without an end.
Bytes = Annotated[int, Field(ge=0, le=LARGEST)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# A folder in a family's raw folder, such as "size=1MB/0001-3f2a91bc": neither part is hidden or leads outside.
Place = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*/[^./\\\x00-\x1f][^/\\\x00-\x1f]*$")
]
DiscardFile = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}\.json$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """A sealed folder: its object, and the SHA-256 of its SHA256SUMS.

    `rest`: files that no table needs, with their sizes. If there are any, the first `head` bytes hold the others.
    """

    pack: Sha256
    size: Bytes
    sums: Sha256
    head: Bytes
    rest: dict[str, Bytes] = {}

    @property
    def object(self) -> str:
        """The name of the pack's object in the archive."""
        return f"{SEALED}{self.pack}.tar"

    def difference(self, stored: Stored, url: str) -> str:
        """What is wrong with the size of its object in the archive `url`; "" if nothing is."""
        return "" if stored.size == self.size else f"{url}/{self.object}: has {stored.size} B there, not {self.size}"

    def is_in(self, folder: Path) -> bool:
        """Whether a folder's SHA256SUMS is the one that was packed. Its files are not read."""
        return (folder / SUMS).is_file() and sha256_of(folder / SUMS) == self.sums

    def require_in(self, folder: Path) -> None:
        """Raises ArchiveError for a folder with another SHA256SUMS."""
        if not self.is_in(folder):
            raise ArchiveError(
                f"{folder}: its {SUMS} differs from the one pushed as {self.object}: it was altered after it was "
                "sealed. Move the folder away, and fetch it again with `benchstudy pull`"
            )


class Manifest(_Strict):
    """`problem`: why the session could not be held, or None. `discards`: text by file."""

    format: Literal[1] = 1
    study: str
    target: str
    family: str
    problem: str | None
    sealed: dict[Place, Entry]
    discards: dict[DiscardFile, str]

    @property
    def content(self) -> bytes:
        """The same bytes for the same folders, so that a push without changes writes nothing."""
        return (json.dumps(self.model_dump(), sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()

    @property
    def object(self) -> str:
        """The manifest's name in the archive, which contains the SHA-256 of its content."""
        return f"{_folder(self.study, self.target, self.family)}{hashlib.sha256(self.content).hexdigest()}.json"


@dataclass(frozen=True)
class History:
    """All manifests of a session, by name, oldest first."""

    manifests: dict[str, Manifest]

    @property
    def sealed(self) -> dict[str, Entry]:
        """Every folder in any manifest. Raises ArchiveError if two manifests disagree on one."""
        found: dict[str, Entry] = {}
        for manifest in self.manifests.values():
            for place, entry in manifest.sealed.items():
                if found.setdefault(place, entry).sums != entry.sums:
                    raise ArchiveError(
                        f"{manifest.study}, {manifest.family} on {manifest.target}: {place} was pushed with two "
                        f"contents, {found[place].object} and {entry.object}: one was altered after it was sealed"
                    )
        return found

    @property
    def discards(self) -> dict[str, str]:
        """If two discard the same trial, the first."""
        last_first = reversed(list(self.manifests.values()))
        return {name: text for manifest in last_first for name, text in manifest.discards.items()}

    @property
    def problem(self) -> str | None:
        """The problem in the last manifest with all discards: no other can tell whether they were measured again."""
        knowing = [each for each in self.manifests.values() if each.discards.keys() == self.discards.keys()]
        return knowing[-1].problem if knowing else NOT_HELD


def history_of(bucket: Bucket, plan: SessionPlan) -> History:
    """Raises ArchiveError for a manifest that cannot be read, or belongs to another session."""
    folder = _folder(plan.study.study, plan.target, plan.family_name)
    found = read_all(bucket, bucket.objects(folder))
    for name, manifest in found.items():
        if not manifest.object.startswith(folder):
            raise ArchiveError(f"{bucket.url}/{name}: belongs to another session")
    return History(found)


def read_all(bucket: Bucket, listed: dict[str, Stored]) -> dict[str, Manifest]:
    """Manifests by their names, oldest first. Raises ArchiveError."""
    names = [name for name, _ in sorted(listed.items(), key=lambda item: (item[1].when, item[0]))]
    found = dict(side_by_side(lambda name: (name, _read(bucket, name, listed[name].size)), names))
    return {name: found[name] for name in names}


def _read(bucket: Bucket, name: str, size: int) -> Manifest:
    if size > _LARGEST:
        raise ArchiveError(f"{bucket.url}/{name}: has {size} B; no manifest is larger than {_LARGEST} B")
    file = io.BytesIO()
    try:
        digest = bucket.get(name, file, size)
    except DamagedObject as error:
        raise ArchiveError(str(error)) from None
    if not name.endswith(f"/{digest}.json"):
        raise ArchiveError(f"{bucket.url}/{name}: damaged: its SHA-256 does not match its name; restore it")
    try:
        return Manifest.model_validate_json(file.getvalue())
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors())
        raise ArchiveError(
            f"{bucket.url}/{name}: not a manifest that this version of benchstudy can read ({fields})"
        ) from None


def _folder(study: str, target: str, family: str) -> str:
    return f"{SESSIONS}{study}/{target}/{family}/"
