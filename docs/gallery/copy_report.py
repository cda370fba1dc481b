"""Copies a study's packed report into the gallery, after `make report`: python docs/gallery/copy_report.py STUDY

The gallery stays small: executed notebooks, files of figures, and tables as reStructuredText and LaTeX are left out, and
links to them become text. The script that draws figures, which each page has inside, is one file here for all pages.
The home folder becomes `~`.
"""

import hashlib
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

GALLERY = Path(__file__).parent
LEFT_OUT = (".ipynb", ".svg", ".png", ".pdf", ".rst", ".tex")
LINK = re.compile(rf'<a [^>]*href="[^"#:]*(?:{"|".join(map(re.escape, LEFT_OUT))})"[^>]*>(.*?)</a>', re.DOTALL)
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
LONG = 500_000  # characters; no other script of a page has as many


def copy(study: str) -> None:
    """Replace the study's report in the gallery by the packed one."""
    report = GALLERY / study / "report"
    shutil.rmtree(report, ignore_errors=True)
    with zipfile.ZipFile(GALLERY.parents[1] / "reports" / f"{study}.zip") as packed:
        packed.extractall(report)
    for path in [path for path in report.rglob("*") if path.is_file()]:
        if path.suffix in LEFT_OUT:
            path.unlink()
        else:
            text = path.read_text().replace(str(Path.home()), "~")
            path.write_text(as_in_gallery(text, path.parent) if path.suffix == ".html" else text)
    for folder in [path for path in report.rglob("*") if path.is_dir() and not any(path.iterdir())]:
        folder.rmdir()


def as_in_gallery(page: str, folder: Path) -> str:
    """A page without links to what is left out, and with the common script. `folder`: where the page will be."""
    page = LINK.sub(r"\1", page)
    for script in [found for found in SCRIPT.findall(page) if len(found) > LONG]:
        common = GALLERY / f"figures-{hashlib.sha256(script.encode()).hexdigest()[:8]}.js"
        common.write_text(script)
        page = page.replace(f"<script>{script}</script>", f'<script src="{os.path.relpath(common, folder)}"></script>')
    return page


if __name__ == "__main__":
    copy(*sys.argv[1:])
