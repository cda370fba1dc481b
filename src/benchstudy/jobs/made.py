"""Whether files are as a job made them. Tables, pages and crates can be made again, so damaged ones are."""

import json
from collections.abc import Iterable
from pathlib import Path

from benchstudy.model.files import json_of, sha256_of, write_atomically

State = dict[str, tuple[int, int, str]]  # by name: size in bytes, time in ns, SHA-256


def state(files: Iterable[Path], below: Path) -> State:
    """How `files`, which lie in the folder `below`, are now."""
    return {str(path.relative_to(below)): _state_of(path) for path in sorted(files)}


def remember(record: Path, state: State) -> None:
    """Called by a job: what it has written, or what it began to read and has made something of."""
    record.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(state))


def disown(record: Path) -> None:
    """Have it made again, whatever its files look like."""
    remember(record, {})


def altered(record: Path, below: Path) -> list[Path]:
    """The files that are not as they were made: removed, cut off or edited. Writes nothing.

    A file is only read if its time is another one, because copies and git leave its content alone. Files that somebody
    added do not count. Without a record there is nothing to compare with: nothing was made, or an earlier version made
    it. A damaged record is itself named.
    """
    try:
        state = json_of(record.read_bytes())
        if not state:
            return [record]
        return [below / name for name, made in state.items() if not _is_same(below / name, *made)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, AttributeError):
        return [record]


def _state_of(path: Path) -> tuple[int, int, str]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, sha256_of(path)


def _is_same(path: Path, size: int, time_ns: int, sha256: str) -> bool:
    try:
        stat = path.stat()
        return stat.st_size == size and (stat.st_mtime_ns == time_ns or sha256_of(path) == sha256)
    except OSError:
        return False
