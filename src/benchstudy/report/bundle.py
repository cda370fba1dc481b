"""Everything of a study's reports as one file for upload; the same files give the same bytes."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# The earliest that the format knows: when a file was written says nothing about what is in it.
_WRITTEN = (1980, 1, 1, 0, 0, 0)
_READABLE_BY_ALL = 0o100644 << 16


def write_bundle(folder: Path, pages: Sequence[str], archive: Path) -> None:
    """Packs the index of `folder`, `pages` with their notebooks, figures and tables into the zip file `archive`.

    Inside, everything lies in a folder called as `folder`, sorted by name. What else lies there stays out: a page
    of a family that the study no longer has is none of its reports.
    """
    with zipfile.ZipFile(archive, "w") as out:
        for path in sorted(set(_files(folder, pages)), key=lambda path: path.relative_to(folder).as_posix()):
            entry = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", _WRITTEN)
            entry.external_attr, entry.create_system = _READABLE_BY_ALL, 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes())


def _files(folder: Path, pages: Sequence[str]) -> Iterator[Path]:
    singles = ["index.html", *(f"{page}.html" for page in pages), *(f"notebooks/{page}.ipynb" for page in pages)]
    yield from (folder / name for name in singles if (folder / name).is_file())
    for page in pages:
        yield from (path for path in (folder / page).rglob("*") if path.is_file())
