"""Checks that tables are as they were made. Tables are derived from raw files, so a damaged one is made again."""

import json
from pathlib import Path

from benchstudy.model.files import write_atomically

_MADE = ".made.json"


def remember(folder: Path) -> None:
    """Remember the state of a folder's tables after all of them were made."""
    write_atomically(folder / _MADE, json.dumps(_state_of(folder)))


def are_whole(folder: Path) -> bool:
    """Whether the tables are as they were made; True if there are none yet. Reads no table."""
    try:
        return not folder.exists() or json.loads((folder / _MADE).read_bytes()) == _state_of(folder)
    except (OSError, ValueError):
        return False


def _state_of(folder: Path) -> dict[str, list[int]]:
    """Size and time of each table."""
    found = {path.name: path.stat() for path in sorted(folder.glob("*.parquet"))}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items()}
