"""The files that a page writes for its study's overview, beside its figures and tables."""

from pathlib import Path
from typing import Any

from benchstudy.model import hints
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import json_of

# Notes by kind and name; the figure to show; the short answers.
NOTES, HEADLINE, ANSWER = "overview.json", "headline.html", "answer.json"


class DamagedExport(BenchstudyError):
    """A file that the job of `page` wrote cannot be read."""

    def __init__(self, path: Path, page: str):
        super().__init__(f"{path}: cut off or damaged; the next {hints.snakemake()} makes the page {page!r} again")
        self.page = page


def read(path: Path, page: str) -> Any:
    """The content of a JSON file that the job of `page` wrote. Raises DamagedExport."""
    try:
        return json_of(path.read_bytes())
    except ValueError as error:
        raise DamagedExport(path, page) from error
