"""Everything of a study's reports as one file for upload; the same files give the same bytes."""

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchstudy.report.exhibits.exhibitfiles import HEADLINE
from benchstudy.report.overview import citing
from benchstudy.report.zips import chunks, write_zip

# The path below the project, and what is linked.
_RAW_LINK = re.compile(r'<a href="(?:\./)?(?:\.\./)+(data/raw/[^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


def write_bundle(folder: Path, pages: Sequence[str], archive: Path) -> None:
    """Packs the index of `folder`, `pages` with their notebooks, figures and tables into the zip file `archive`.

    Inside, everything lies in a folder called as `folder`, sorted by name. What else lies there stays out: a page
    of a family that the study no longer has is none of its reports.
    """
    names = {path: f"{folder.name}/{path.relative_to(folder).as_posix()}" for path in report_files(folder, pages)}
    # A part of the index, and no page.
    names = {path: name for path, name in names.items() if path.name != HEADLINE}
    files = sorted(names, key=lambda path: names[path])
    packed = ((names[path], _without_raw(path, folder.name) if path.suffix == ".html" else path) for path in files)
    write_zip(archive, ((name, _size(source), chunks(source)) for name, source in packed))


def _size(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _without_raw(page: Path, study: str) -> bytes:
    """The page as it is where no raw files lie beside the reports: it says where they are, and no link is dead."""
    text, links = _RAW_LINK.subn(r'<span title="\1">\2</span>', page.read_text(encoding="utf-8"))
    if not links:
        return text.encode()
    said = (
        f"This copy comes from {study}.zip, which has no raw files. They lie in the study's crate, {study}.crate.zip, "
        "below data/raw. There, and in the project, each name of a raw file is a link."
    )
    return text.replace("</header>", f'<p class="flag">{html.escape(said)}</p>\n</header>', 1).encode()


def report_files(folder: Path, pages: Sequence[str]) -> Iterator[Path]:
    """The index of a study's `folder` of reports, and the `pages` in it with all that belongs to them."""
    singles = [
        "index.html",
        *citing.FILES,
        *(f"{page}.html" for page in pages),
        *(f"notebooks/{page}.ipynb" for page in pages),
    ]
    yield from (folder / name for name in singles if (folder / name).is_file())
    for page in pages:
        # Snakemake leaves a hidden file in every folder that it made.
        yield from (path for path in (folder / page).rglob("[!.]*") if path.is_file())
