"""Raw files of a trial, read so that one which is missing or cut off is named."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
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


def read_facts(path: Path, needed: Collection[str]) -> dict[str, Any]:
    """What was found around a load, in schema 1. Raises ParseError also where one of the `needed` keys is missing."""
    facts = read_json(path)
    if facts.get("schema") != 1:
        raise ParseError(f"{path.name}: schema {facts.get('schema')!r}, and only 1 is known")
    missing = sorted({*needed} - facts.keys())
    if missing:
        raise ParseError(f"{path.name} lacks {', '.join(missing)}")
    return facts


@contextmanager
def damaged(said: str) -> Iterator[None]:
    """Raises what a document lacks, or has in another form than it should, as a ParseError of what is `said`."""
    try:
        yield
    except ParseError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ParseError(f"{said}: {error!r}") from error
