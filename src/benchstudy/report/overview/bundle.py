"""Packs all reports of a study into one file for upload; the same files give the same bytes."""

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchstudy.report.exhibits.exhibitfiles import HEADLINE
from benchstudy.report.overview import citing
from benchstudy.report.zips import chunks, write_zip

# Groups: the path below the project, and the text of the link.
_RAW_LINK = re.compile(r'<a href="(?:\./)?(?:\.\./)+(data/raw/[^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


def write_bundle(folder: Path, pages: Sequence[str], archive: Path) -> None:
    """Pack the index of `folder` and the `pages` with their notebooks, figures and tables into the zip file `archive`.

    In the archive, all files are in a folder with the name of `folder`, sorted by name. Other files in `folder` are
    left out, because a page of a family that the study no longer has is not one of its reports.
    """
    names = {path: f"{folder.name}/{path.relative_to(folder).as_posix()}" for path in report_files(folder, pages)}
    # This file is a part of the index, not a page.
    names = {path: name for path, name in names.items() if path.name != HEADLINE}
    files = sorted(names, key=lambda path: names[path])
    packed = ((names[path], _without_raw(path, folder.name) if path.suffix == ".html" else path) for path in files)
    write_zip(archive, ((name, _size(source), chunks(source)) for name, source in packed))


def _size(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _without_raw(page: Path, study: str) -> bytes:
    """The page for a place without raw files: it says where they are, and their names are no longer links."""
    text, links = _RAW_LINK.subn(r'<span title="\1">\2</span>', page.read_text(encoding="utf-8"))
    if not links:
        return text.encode()
    said = (
        f"This copy comes from {study}.zip, which has no raw files. They are in the study's crate, {study}.crate.zip, "
        "below data/raw. There, and in the project, the name of each raw file is a link."
    )
    return text.replace("</header>", f'<p class="downloads">{html.escape(said)}</p>\n</header>', 1).encode()


def report_files(folder: Path, pages: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the index in a study's `folder` of reports, and all files that belong to its `pages`."""
    singles = [
        "index.html",
        *citing.FILES,
        *(f"{page}.html" for page in pages),
        *(f"notebooks/{page}.ipynb" for page in pages),
    ]
    yield from (folder / name for name in singles if (folder / name).is_file())
    for page in pages:
        # Snakemake leaves a hidden file in every folder that it creates.
        yield from (path for path in (folder / page).rglob("[!.]*") if path.is_file())
