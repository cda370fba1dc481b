"""Exported tables in LaTeX's class `article` on A4 paper, with its own margins, in one or two columns."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

NEEDS_TEX = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="tables are looked at by LaTeX: apt-get install texlive-latex-recommended"
)


def overfull(folder: Path, columns: int = 1) -> Mapping[str, list[str]]:
    """LaTeX's complaints about the .tex files below `folder`, by file name: boxes too wide or high, errors."""
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.tex")}
    assert texts, "nothing was exported"
    needed = sorted({line for text in texts.values() for line in re.findall(r"^% (\\usepackage.*)", text)})
    body = []
    for number, text in enumerate(texts.values()):
        columned = "\\twocolumn" if columns == 2 and "{longtable}" not in text else "\\onecolumn"
        body.append(f"{columned}\\typeout{{FILE {number}}}\n{text}\n\\clearpage")
    parts = [
        r"\documentclass[a4paper%s]{article}" % (",twocolumn" if columns == 2 else ""),
        *needed,
        r"\begin{document}",
        *body,
        r"\end{document}",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "all.tex").write_text("\n".join(parts), encoding="utf-8")
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "all.tex"], cwd=scratch, capture_output=True)
        log = Path(scratch, "all.log").read_text(encoding="utf-8", errors="replace")
    found: dict[str, list[str]] = {}
    names = list(texts)
    for number, of_file in re.findall(r"^FILE (\d+)$(.*?)(?=^FILE |\Z)", log, re.MULTILINE | re.DOTALL):
        complaints = re.findall(r"^(?:Overfull|!|LaTeX Warning: Float too large).*", of_file, re.MULTILINE)
        if complaints:
            found[names[int(number)]] = complaints
    assert found or done.returncode == 0, log[-2000:]
    return found
