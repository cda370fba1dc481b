"""Zip files that are the same bytes whenever and wherever the same content is packed."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchstudy.model.files import whole_or_nothing

# The earliest that the format knows: when a file was written says nothing about what is in it.
_WRITTEN = (1980, 1, 1, 0, 0, 0)
_READABLE_BY_ALL = 0o100644 << 16
# And MS-DOS's own mark of a folder, in the lower half.
_FOLDER = 0o040755 << 16 | 0x10
_CHUNK = 1 << 20


def chunks(source: Path | bytes) -> Iterator[bytes]:
    """The content of a file, or the bytes themselves, in pieces that fit into memory."""
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def write_zip(archive: Path, files: Iterable[tuple[str, int, Iterable[bytes]]]) -> None:
    """Packs `files` (name inside, size in bytes, content in pieces), in their order, into `archive`.

    A name that ends with a slash is a folder's, which needs one only where it is to be there without its files.
    `archive` appears whole or not at all; what was there stays when a content cannot be read to its end.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with whole_or_nothing(archive) as temporary, zipfile.ZipFile(temporary, "w") as out:
        for name, size, content in files:
            entry = zipfile.ZipInfo(name, _WRITTEN)
            entry.create_system = 3
            if entry.is_dir():
                entry.external_attr = _FOLDER
                out.writestr(entry, b"")
                continue
            entry.external_attr = _READABLE_BY_ALL
            entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, size
            with out.open(entry, "w") as member:
                for chunk in content:
                    member.write(chunk)
