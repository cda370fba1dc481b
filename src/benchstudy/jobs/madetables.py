"""Whether tables are still what was made. Raw files decide and tables are derived: a damaged one is made again."""

import json
from pathlib import Path

from benchstudy.model.files import write_atomically

_MADE = ".made.json"


def remember(folder: Path) -> None:
    """What the tables of a folder are like now that all of them were made."""
    write_atomically(folder / _MADE, json.dumps(_state_of(folder)))


def are_whole(folder: Path) -> bool:
    """Whether they are as they were made; True where there are none yet. None of them is read."""
    try:
        return not folder.exists() or json.loads((folder / _MADE).read_bytes()) == _state_of(folder)
    except (OSError, ValueError):
        return False


def _state_of(folder: Path) -> dict[str, list[int]]:
    """Size and time of each."""
    found = {path.name: path.stat() for path in sorted(folder.glob("*.parquet"))}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items()}
