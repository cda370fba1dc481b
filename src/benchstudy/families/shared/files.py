"""Raw files of a trial, read so that one which is missing or cut off is named."""

import json
from pathlib import Path
from typing import Any

from benchstudy.model.family import ParseError


def read_text(path: Path) -> str:
    """A tool's output, whatever bytes it wrote. Raises ParseError when there is none."""
    if not path.is_file():
        raise ParseError(f"the file {path.name} is missing")
    return path.read_bytes().decode(errors="replace")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ParseError when there is none, or it is something else."""
    text = read_text(path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ParseError(f"{path.name} is truncated or no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ParseError(f"{path.name} is no JSON object")
    return found
