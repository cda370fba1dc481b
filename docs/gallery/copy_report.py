"""Copies a study's packed report into the gallery, after `make report`: python docs/gallery/copy_report.py STUDY

The gallery stays small: executed notebooks, PDF and PNG files of figures, and tables as reStructuredText are left out, and
links to them become text. The home folder becomes `~`.
"""

import re
import shutil
import sys
import zipfile
from pathlib import Path

GALLERY = Path(__file__).parent
LEFT_OUT = (".ipynb", ".png", ".pdf", ".rst")
LINK = re.compile(rf'<a [^>]*href="[^"#:]*(?:{"|".join(map(re.escape, LEFT_OUT))})"[^>]*>(.*?)</a>', re.DOTALL)


def copy(study: str) -> None:
    report = GALLERY / study / "report"
    shutil.rmtree(report, ignore_errors=True)
    with zipfile.ZipFile(GALLERY.parents[1] / "reports" / f"{study}.zip") as packed:
        packed.extractall(report)
    for path in [path for path in report.rglob("*") if path.is_file()]:
        if path.suffix in LEFT_OUT:
            path.unlink()
        else:
            text = path.read_text().replace(str(Path.home()), "~")
            path.write_text(LINK.sub(r"\1", text) if path.suffix == ".html" else text)
    for folder in [path for path in report.rglob("*") if path.is_dir() and not any(path.iterdir())]:
        folder.rmdir()


if __name__ == "__main__":
    copy(*sys.argv[1:])
