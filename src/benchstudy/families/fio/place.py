"""Where a trial's files lie on the host, and why nothing can be measured somewhere."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.fio.config import Directory
from benchstudy.families.shared.folders import wrong_file_system

LOAD = "load"  # the folder of what several clients left
FILE = "{file}"  # stands in a case's argv for the file, whose folder is known only on the host


def unusable(directory: Directory, info: Mapping[str, Any], needed: int, path: str | None = None) -> str | None:
    """Why nothing can be measured there, or None."""
    path = path or directory.path
    if not info["exists"]:
        return f"{path} does not exist: mount or make it first"
    if not info["is_dir"]:
        return f"{path} is not a directory"
    if wrong := wrong_file_system(info, directory.expect_fs):
        return f"{path} {wrong}"
    if not info["writable"]:
        return f"{path} cannot be written to by the user of this host"
    if info["free_bytes"] < needed:
        free = info["free_bytes"]
        return f"{path} has {free} bytes free, but the test needs {needed}: free some, or lower the size"
    return None
