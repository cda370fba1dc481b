"""The place of a trial's files on the host, and checks of directories."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.fio.config import Directory
from benchstudy.families.shared.folders import wrong_file_system

LOAD = "load"  # the folder with the outputs of several clients
FILE = "{file}"  # placeholder for the file in a case's argv, because its folder is known only on the host


def unusable(directory: Directory, info: Mapping[str, Any], needed: int, path: str | None = None) -> str | None:
    """Return why a directory cannot be measured, or None. `info`: the agent's path-info. `needed`: free bytes."""
    path = path or directory.path
    if not info["exists"]:
        return f"{path} does not exist: mount or create it first"
    if not info["is_dir"]:
        return f"{path} is not a directory"
    if wrong := wrong_file_system(info, directory.expect_fs):
        return f"{path} {wrong}"
    if not info["writable"]:
        return f"{path} is not writable for the user of this host"
    if info["refusal"]:
        return f"{path} {info['refusal']}"
    if info["free_bytes"] < needed:
        free = info["free_bytes"]
        return f"{path} has {free} bytes free, but the test needs {needed}: free some, or lower the size"
    return None
