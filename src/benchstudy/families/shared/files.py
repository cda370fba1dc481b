"""Readers of raw files of a trial, which name a missing or truncated file in their error."""

import codecs
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchstudy.model.parsing import ParseError
from benchstudy.model.parsing import as_number as as_number
from benchstudy.model.parsing import damaged as damaged


def read_text(path: Path) -> str:
    """Read the output of a tool as text, whatever its bytes. Raises ParseError if the file is missing."""
    if not path.is_file():
        raise ParseError(f"the file {path.name} is missing")
    return text_of(path.read_bytes())


def text_of(content: bytes) -> str:
    """Decode text as tools and editors write it: UTF-8 with or without a BOM, or UTF-16 with a BOM (PowerShell)."""
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. NaN and Infinity are not JSON. Raises ParseError if the file is missing or is no object."""
    text = read_text(path)
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{path.name} is truncated or not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ParseError(f"{path.name} is not a JSON object")
    return found


def _refuse(constant: str) -> None:
    raise ParseError(f"{constant} is not a number")


def read_facts(path: Path, needed: Collection[str]) -> dict[str, Any]:
    """Read the facts about a load, in schema 1. Raises ParseError, also if one of the `needed` keys is missing."""
    facts = read_json(path)
    if facts.get("schema") != 1:
        raise ParseError(f"{path.name}: schema {facts.get('schema')!r}, but only 1 is known")
    missing = sorted({*needed} - facts.keys())
    if missing:
        raise ParseError(f"{path.name} lacks {', '.join(missing)}")
    return facts
