"""`benchstudy pdf`: all reports of a study as one document for paper."""

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import whole_or_nothing
from benchstudy.model.study import Study
from benchstudy.model.studyfile import load_study

# Any of them; margin boxes, in which page numbers and running heads stand, are known from 131 on.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ("--headless", "--disable-gpu", "--no-pdf-header-footer", "--generate-pdf-document-outline")
_TIMEOUT_S = 600


def add_command(commands: Any, study_help: str) -> None:
    """Adds it to argparse's subcommands."""
    pdf = commands.add_parser(
        "pdf", help="print all reports of a study into reports/<study>.pdf, with contents and page numbers"
    )
    pdf.add_argument("study", nargs="?", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=study_help)
    pdf.add_argument("--without-trials", action="store_true", help="leave out the list of each case's trials")
    pdf.set_defaults(command=_pdf)


def _pdf(arguments: argparse.Namespace) -> int:
    root = paths.project_root()
    pdf = print_study(root, load_study(arguments.study), trials=not arguments.without_trials)
    print(pdf.relative_to(root))
    return 0


def print_study(root: Path, study: Study, *, trials: bool = True) -> Path:
    """`reports/<study>.pdf`, of the pages that are there, with the lists of `trials` or without them.

    Raises BenchstudyError when there are none, or no browser that can print.
    """
    from benchstudy.report.overview import printed
    from benchstudy.report.study.studypages import STUDY_PAGES

    folder = paths.reports(root) / study.study
    if not (folder / "index.html").is_file():
        raise BenchstudyError(f"{folder}: no reports to print; make them first ({hints.snakemake()})")
    browser = _browser()
    pages = [*study.families, *STUDY_PAGES]
    title = study.title or study.study

    def made(numbers: Mapping[str, int]) -> bytes:
        text = printed.document(folder, pages, title, study.question, numbers, trials=trials)
        return _printed(browser, text)

    # On which page a section comes to lie is known when all of it was printed once.
    whole = made(printed.pages_of_anchors(made({})))
    target = folder.with_name(f"{study.study}.pdf")
    with whole_or_nothing(target) as temporary:
        temporary.write_bytes(whole)
    return target


def _browser() -> str:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise BenchstudyError(
            "no browser that prints pages: install Chromium (Debian and Ubuntu: apt-get install chromium) or Google "
            "Chrome, 131 or newer, on the PATH"
        )
    return found


def _printed(browser: str, text: str) -> bytes:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        page, pdf = Path(scratch, "report.html"), Path(scratch, "report.pdf")
        page.write_text(text, encoding="utf-8")
        # The sandbox needs an account that is not root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [browser, *_FLAGS, *sandbox, f"--user-data-dir={scratch}/profile", f"--print-to-pdf={pdf}"]
        try:
            done = subprocess.run(
                [*command, page.as_uri()], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise BenchstudyError(f"{browser}: not done after {_TIMEOUT_S} s of printing the reports") from error
        if done.returncode or not pdf.is_file():
            last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise BenchstudyError(f"{browser} printed no PDF (exit {done.returncode}): {last[0]}")
        return pdf.read_bytes()
