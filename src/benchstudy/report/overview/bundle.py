"""Everything of a study's reports as one file for upload; the same files give the same bytes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchstudy.report.zips import chunks, write_zip


def write_bundle(folder: Path, pages: Sequence[str], archive: Path) -> None:
    """Packs the index of `folder`, `pages` with their notebooks, figures and tables into the zip file `archive`.

    Inside, everything lies in a folder called as `folder`, sorted by name. What else lies there stays out: a page
    of a family that the study no longer has is none of its reports.
    """
    names = {path: f"{folder.name}/{path.relative_to(folder).as_posix()}" for path in report_files(folder, pages)}
    files = sorted(names, key=lambda path: names[path])
    write_zip(archive, ((names[path], path.stat().st_size, chunks(path)) for path in files))


def report_files(folder: Path, pages: Sequence[str]) -> Iterator[Path]:
    """The index of a study's `folder` of reports, and the `pages` in it with all that belongs to them."""
    singles = ["index.html", *(f"{page}.html" for page in pages), *(f"notebooks/{page}.ipynb" for page in pages)]
    yield from (folder / name for name in singles if (folder / name).is_file())
    for page in pages:
        # Snakemake leaves a hidden file in every folder that it made.
        yield from (path for path in (folder / page).rglob("[!.]*") if path.is_file())
