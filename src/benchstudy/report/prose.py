"""Finds numbers that were typed into the prose of a notebook, where they do not change with the results."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import json_of

# Quoted parts: code, and the targets of links.
_QUOTED = re.compile(r"```.*?```|`[^`\n]*`|(?<=\])\([^)\s]*\)|<https?://[^>]*>", re.DOTALL)
# The level of every interval is a constant of the method (criteria.LEVEL).
_LEVEL = re.compile(r"\b95[  ]?%")
# Digits that belong to a word, such as p50, S3, v10.0 or x86-64, name something.
_NUMBER = re.compile(r"(?<![\w.,/-])[+−-]?\d[\d.,]*(?:[  ]?(?:%|[µmn]?s\b|[kKMGT]?i?B(?:/s)?\b|/s\b|times\b|×))?")


class Typed(NamedTuple):
    """A number in the prose of a notebook's cell, with the words around it."""

    cell: str
    number: str
    sentence: str


def typed_numbers(notebook: dict[str, Any]) -> list[Typed]:
    """Every number in the Markdown cells of a notebook (as parsed JSON), outside code, links and "95 %"."""
    found = []
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        text = "".join(cell["source"])
        # Blanked instead of removed, so that offsets in the text stay the same.
        prose = _LEVEL.sub(_blank, _QUOTED.sub(_blank, text))
        for match in _NUMBER.finditer(prose):
            around = text[max(0, match.start() - 40) : match.end() + 40].replace("\n", " ")
            found.append(Typed(cell.get("id", str(index)), match[0].rstrip(".,"), around.strip()))
    return found


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def read(notebook: Path) -> list[Typed]:
    """`typed_numbers` of a file. Raises BenchstudyError if it is not a notebook."""
    try:
        return typed_numbers(json_of(notebook.read_text(encoding="utf-8")))
    except IsADirectoryError as error:
        raise BenchstudyError(f"{notebook}: a folder: name the notebooks in it, such as {notebook}/*.ipynb") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BenchstudyError(f"{notebook}: not a notebook: {error}") from error
