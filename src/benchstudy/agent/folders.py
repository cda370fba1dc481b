"""Marked folders: the only folders that are ever deleted.

A folder of ours holds a file `.benchstudy`, a JSON object with `uuid`, `session`, `kind` and `lock`. If a process is
killed as it makes or removes one, the folder has no marker. Then it is empty, and only its name tells that it is ours.
"""

from __future__ import annotations

import json
import os
import stat

import wire

MARKER = ".benchstudy"
_UUID = 36  # characters
SCRATCH = "benchstudy-"  # prefix of our folders that lie among those of others


def create(path: str, uuid: str, session: str, kind: str, lock: str = "") -> None:
    """Make `path`, which must not exist, with its marker in it. Raises FileExistsError."""
    os.mkdir(path, 0o700)
    marker = {"uuid": uuid, "session": session, "kind": kind, "lock": lock}
    with open(os.path.join(path, MARKER), "x", encoding="ascii") as file:
        json.dump(marker, file)


def uuid_of_scratch(path: str) -> str:
    return os.path.basename(path)[len(SCRATCH) :]


def marker_of(path: str) -> dict | None:
    """What the marker of the real folder `path` says; None when it is not one of ours."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fd = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, encoding="utf-8") as file:
            marker = wire.document(file.read(4096)) or {}
    except (OSError, ValueError):
        return None
    finally:
        os.close(folder)
    return marker if all(isinstance(marker.get(name), str) for name in ("uuid", "session", "kind")) else None


def listing(parent: str) -> list[tuple[str, dict]]:
    """The marked folders directly below `parent`, each with its marker."""
    try:
        names = sorted(os.listdir(parent))
    except FileNotFoundError:
        return []
    found = [(os.path.join(parent, name), marker_of(os.path.join(parent, name))) for name in names]
    return [(path, marker) for path, marker in found if marker is not None]


def mounts() -> list[dict[str, str]]:
    """{"source", "point", "type", "options"} of every mount that this process sees, the latest last."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        fields = [[unescape(field) for field in line.split(" ")] for line in file]
    return [{"source": f[0], "point": f[1], "type": f[2], "options": f[3]} for f in fields]


def mount_points() -> list[str]:
    return [mount["point"] for mount in mounts()]


def is_within(path: str, folder: str) -> bool:
    """Whether a real path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_of(path: str) -> dict[str, str] | None:
    """The mount that holds a real path: a file system mounted later over the same path hides it."""
    inside = [mount for mount in mounts() if is_within(path, mount["point"])]
    return max(reversed(inside), key=lambda mount: len(mount["point"]), default=None)


def unescape(field: str) -> str:
    """The kernel writes spaces and backslashes in mount tables as three octal digits."""
    parts = field.split("\\")
    return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:])


def mounts_below(path: str) -> list[str]:
    """Mount points inside `path` or at it, deepest first, in the order in which they can be unmounted."""
    real = os.path.realpath(path)
    return sorted((point for point in mount_points() if is_within(point, real)), key=len, reverse=True)


def check_removable(path: str, uuid: str) -> None:
    """Raise AgentError unless `path` is a real folder of ours, marked with `uuid`."""
    if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
        raise wire.AgentError(f"{path!r} is not removed: it must be an absolute path without '..'")
    if path == "/" or os.path.realpath(path) == os.path.realpath(os.path.expanduser("~")):
        raise wire.AgentError(f"{path!r} is not removed: it is the root folder or a home")
    try:
        info = os.lstat(path)
    except OSError as error:
        raise wire.AgentError(f"{path!r} is not removed: {error.strerror}") from error
    if not stat.S_ISDIR(info.st_mode):
        raise wire.AgentError(f"{path!r} is not removed: it is a symbolic link or not a folder")
    marker = marker_of(path)
    if marker is None:
        raise wire.AgentError(f"{path!r} is not removed: it has no {MARKER} marker of ours")
    if marker["uuid"] != uuid:
        raise wire.AgentError(f"{path!r} is not removed: its marker has the UUID {marker['uuid']}, not {uuid}")
    mounts = mounts_below(path)
    if mounts:
        raise wire.AgentError(f"{path!r} is not removed: {mounts[0]!r} is a mount point")


def remove_unmarked(parent: str) -> list[str]:
    """Remove the empty folders directly below `parent` that have a UUID as their name. Returns their paths."""
    names = os.listdir(parent) if os.path.isdir(parent) else []
    ours = [os.path.join(parent, name) for name in names if len(name) == _UUID and name.count("-") == 4]
    return [path for path in ours if _removed_if_empty(path)]


def _removed_if_empty(path: str) -> bool:
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def remove(path: str, uuid: str) -> None:
    """Delete the marked folder `path`. The marker goes last, so an interrupted removal can be repeated."""
    if os.path.basename(path).endswith(uuid) and _removed_if_empty(path):
        return
    check_removable(path, uuid)
    for entry in list(os.scandir(path)):
        if entry.name == MARKER:
            continue
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(entry.path)
        else:
            os.unlink(entry.path)
    os.unlink(os.path.join(path, MARKER))
    os.rmdir(path)


def _remove_tree(path: str) -> None:
    """Like shutil.rmtree, which takes longer to import than everything else at the end of a trial."""
    try:
        _remove_below(path)
    except OSError:
        # Tools leave read-only folders behind (Go's module cache does); only root can delete these as they are.
        os.chmod(path, 0o700)
        for _, inner, _, descriptor in os.fwalk(path):
            for name in inner:
                if not stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=descriptor)
        _remove_below(path)
    os.rmdir(path)


def _remove_below(path: str) -> None:
    # By descriptor, so that a folder replaced by a link meanwhile leads nowhere.
    for _, inner, files, descriptor in os.fwalk(path, topdown=False):
        for name in files:
            os.unlink(name, dir_fd=descriptor)
        for name in inner:
            try:
                os.rmdir(name, dir_fd=descriptor)
            except NotADirectoryError:  # a link to a folder
                os.unlink(name, dir_fd=descriptor)


def remove_command(arguments: list[str]) -> None:
    """`remove UUID PATH`: delete the folder, which must be marked with UUID; a missing folder is fine."""
    uuid, path = arguments
    there = os.path.lexists(path)
    if there:
        remove(path, uuid)
    wire.emit({"removed": [path] if there else []})
