"""Writes reproducible zip files: the same content gives the same bytes at any time and on any machine."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchstudy.model.files import whole_or_nothing

# The earliest date of the format, because the content does not depend on when a file was written.
_WRITTEN = (1980, 1, 1, 0, 0, 0)
_READABLE_BY_ALL = 0o100644 << 16
# The lower half is the MS-DOS attribute of a folder.
_FOLDER = 0o040755 << 16 | 0x10
_CHUNK = 1 << 20


def chunks(source: Path | bytes) -> Iterator[bytes]:
    """Yield the content of a file, or the bytes themselves, in pieces that fit into memory."""
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def write_zip(archive: Path, files: Iterable[tuple[str, int, Iterable[bytes]]]) -> None:
    """Pack `files` (name in the archive, size in bytes, content in pieces) into `archive`, in the given order.

    A name that ends with a slash is a folder; only empty folders need an entry. `archive` is replaced as a whole. If a
    content cannot be read completely, the previous archive stays.
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
