"""Folders on hosts in which families measure."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from benchstudy.model.clients import LOAD, generates_load

# Types of file systems, as a list or as one string.
FileSystems = Annotated[
    list[str],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value or [], json_schema_input_type=str | list[str] | None
    ),
]


def misplaced(folder: str, name: str, role: str, *, by_clients: bool) -> str | None:
    """Return why a folder's service `name` does not run where the folder is measured, with the fix, or None."""
    if by_clients and role != LOAD:
        return (
            f"{folder}: its service {name} runs on {role} only: write `role: {LOAD}` in it, so that each load host "
            "starts its own, or mount it on each load host and give the path"
        )
    if not by_clients and generates_load(role):
        return f"{folder}: its service {name} runs on load hosts, and the folder is measured on sut: set `clients`"
    return None


def wrong_file_system(info: Mapping[str, Any], expected: Collection[str]) -> str | None:
    """Return why a folder is on the wrong file system, or None. `info`: the agent's path-info. [] accepts any type."""
    if not expected or info["fs_type"] in expected:
        return None
    return (
        f"is on a {info['fs_type']} file system (mounted at {info['mount_point']}), and the study expects "
        f"{' or '.join(expected)}: is the mount missing?"
    )
