"""Files written so that a crash leaves the old content or the new, and what is written the same way everywhere."""

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """`path` holds either its old content or all of `text`, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def sha256_of(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock_if_free(descriptor: int) -> bool:
    """Whether nobody else holds the file's lock; then it is ours until the file is closed or the process ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
