"""`benchstudy archive verify`: checks every object in a manifest, by asking the server or by reading it."""

from dataclasses import dataclass, field
from typing import IO, cast

from benchstudy.archive.bucket import Bucket, DamagedObject, side_by_side
from benchstudy.archive.manifests import SESSIONS, Entry, read_all
from benchstudy.archive.push import Advance


class _Nowhere:
    def write(self, piece: bytes) -> int:
        return len(piece)

    def seek(self, place: int) -> int:
        return place

    def truncate(self) -> int:
        return 0


@dataclass
class Verified:
    """`untold`: objects for which the server gives no SHA-256, so only their sizes were compared."""

    archive: str
    read: bool
    manifests: int = 0
    objects: int = 0
    bytes: int = 0
    untold: int = 0
    differences: list[str] = field(default_factory=list)


def verify_archive(bucket: Bucket, advance: Advance, *, read: bool = False) -> Verified:
    """`read`: fetch and hash everything. Raises ArchiveError, also for a damaged manifest."""
    bucket.require()
    told = Verified(bucket.url, read)
    manifests = read_all(bucket, bucket.objects(SESSIONS))
    packs = {entry.object: entry for manifest in manifests.values() for entry in manifest.sealed.values()}
    told.manifests, told.objects = len(manifests), len(packs)
    told.bytes = sum(entry.size for entry in packs.values())

    def check(item: tuple[str, Entry]) -> tuple[bool, str]:
        return _check(bucket, *item, read=read)

    for done, (was_told, difference) in enumerate(side_by_side(check, packs.items()), start=1):
        advance("objects", done, len(packs))
        told.untold += not was_told
        told.differences += [difference] if difference else []
    told.differences.sort()
    return told


def _check(bucket: Bucket, name: str, entry: Entry, *, read: bool) -> tuple[bool, str]:
    """Whether the object's SHA-256 is known, and what is wrong with the object."""
    stored = bucket.told(name)
    if stored is None:
        return True, f"{bucket.url}/{name}: missing"
    if difference := entry.difference(stored, bucket.url):
        return True, difference
    sha256 = stored.sha256
    if read:
        try:
            sha256 = bucket.get(name, cast(IO[bytes], _Nowhere()), entry.size)
        except DamagedObject as error:
            return True, str(error)
    altered = sha256 not in (None, entry.pack)
    return sha256 is not None, f"{bucket.url}/{name}: altered: its SHA-256 differs" if altered else ""
