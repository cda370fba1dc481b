"""Raw files of a trial, read so that one which is missing or cut off is named."""

import codecs
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchstudy.model.parsing import ParseError
from benchstudy.model.parsing import damaged as damaged


def read_text(path: Path) -> str:
    """A tool's output, whatever bytes it wrote. Raises ParseError when there is none."""
    if not path.is_file():
        raise ParseError(f"the file {path.name} is missing")
    return text_of(path.read_bytes())


def text_of(content: bytes) -> str:
    """Text as tools and editors write it: UTF-8 with or without a mark in front, or UTF-16 with one (PowerShell)."""
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ParseError when there is none, or it is something else."""
    found = json_in(read_text(path), path.name)
    if not isinstance(found, dict):
        raise ParseError(f"{path.name} is no JSON object")
    return found


def json_in(text: str, name: str) -> Any:
    """What a JSON text of this name holds; NaN and Infinity are no JSON. Raises ParseError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{name} is truncated or no JSON: {error}") from error


def _refuse(constant: str) -> None:
    raise ParseError(f"{constant} is no number")


def read_facts(path: Path, needed: Collection[str]) -> dict[str, Any]:
    """What was found around a load, in schema 1. Raises ParseError also where one of the `needed` keys is missing."""
    facts = read_json(path)
    if facts.get("schema") != 1:
        raise ParseError(f"{path.name}: schema {facts.get('schema')!r}, and only 1 is known")
    missing = sorted({*needed} - facts.keys())
    if missing:
        raise ParseError(f"{path.name} lacks {', '.join(missing)}")
    return facts
