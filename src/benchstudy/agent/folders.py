"""Marked folders: the only folders that are ever deleted.

A folder of ours holds a file `.benchstudy`, a JSON object with `uuid`, `session`, `kind`, `lock` and `host`, because
hosts may share the folder in which it lies. If a process is killed as it makes or removes one, the folder has no
marker, or an empty one, and nothing else. Then only its name tells that it is ours.
"""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import contextmanager, suppress

import wire

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = ".benchstudy"
_UUID = 36  # characters
_YOUNG_S = 3600.0
SCRATCH = "benchstudy-"  # prefix of our folders that lie among those of others


def create(path: str, uuid: str, session: str, kind: str, lock: str = "") -> None:
    """Make `path`, which must not exist, with its marker in it. Raises OSError, such as FileExistsError."""
    os.mkdir(path, 0o700)
    place = os.path.join(path, MARKER)
    marker = json.dumps({"uuid": uuid, "session": session, "kind": kind, "lock": lock, "host": host()})
    try:
        with open(place, "x", encoding="ascii") as file:
            file.write(marker)
    except OSError as error:  # a folder with half a marker would stay for ever
        with suppress(OSError):
            os.unlink(place)
        with suppress(OSError):
            os.rmdir(path)
        raise OSError(error.errno, error.strerror, place) from error


def host() -> str:
    return os.uname().nodename


def uuid_of_scratch(path: str) -> str:
    return os.path.basename(path)[len(SCRATCH) :]


def register_scratch(entry: str, path: str, owner: str, mount: str) -> None:
    """Write the file `entry`, whole and on the disk: without it nobody would know of the folder after a power cut."""
    unfinished = f"{os.path.dirname(entry)}.new"
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write("\0".join((path, owner, mount)))
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, entry)


def registered_scratch(entry: str) -> tuple[str, int, str]:
    """Path, owner and mount point of the scratch folder that `entry` registers. Without an owner, it is our user."""
    with open(entry, encoding="utf-8") as file:
        path, owner, mount = (*file.read().split("\0"), "", "")[:3]
    return path, int(owner or os.geteuid()), mount


def marker_of(path: str, owner: int | None = None) -> dict | None:
    """What the marker of the real folder `path` says; None if it is not one that we made, or is not `owner`'s.

    `owner`: our own user by default. Another, if the file system maps users, as NFS does with root.
    """
    try:
        with _opened(path) as folder:
            return _marker_in(folder, _owner(owner))
    except (OSError, wire.AgentError):
        return None


def _owner(given: int | None) -> int:
    return os.geteuid() if given is None else given


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor of the real folder `path`, which stays that folder when another takes its name."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise wire.AgentError(f"{path!r} is a symbolic link or not a folder") from error
    try:
        yield folder
    finally:
        os.close(folder)


def _marker_in(folder: int, owner: int) -> dict | None:
    """What the marker of an open folder says; None if the folder and its marker are not those of the user `owner`."""
    try:
        fd = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, encoding="utf-8") as file:
            if not os.fstat(folder).st_uid == os.fstat(fd).st_uid == owner:
                return None
            marker = wire.document(file.read(4096)) or {}
    except (OSError, ValueError):
        return None
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


def _check_removable(path: str, folder: int, uuid: str, owner: int) -> None:
    """Raise AgentError unless the open folder, which was found at `path`, is that of `owner` and marked with `uuid`."""
    if os.fstat(folder).st_uid != owner:
        raise wire.AgentError(f"{path!r} is not removed: it belongs to another user")
    marker = _marker_in(folder, owner)
    if marker is None:
        raise wire.AgentError(f"{path!r} is not removed: it has no {MARKER} marker of ours")
    if marker["uuid"] != uuid:
        raise wire.AgentError(f"{path!r} is not removed: its marker has the UUID {marker['uuid']}, not {uuid}")
    mounts = mounts_below(path)
    if mounts:
        raise wire.AgentError(f"{path!r} is not removed: {mounts[0]!r} is a mount point")


def remove_unmarked(parent: str) -> list[str]:
    """Remove the folders directly below `parent` with a UUID as their name that are ours, but not marked as such.

    Returns their paths.
    """
    names = os.listdir(parent) if os.path.isdir(parent) else []
    ours = [os.path.join(parent, name) for name in names if len(name) == _UUID and name.count("-") == 4]
    return [path for path in ours if _removed_if_empty(path) or _removed_if_marker_was_lost(path)]


def _removed_if_empty(path: str) -> bool:
    """Remove a folder in which nothing is, or only an empty marker. Returns whether it is gone."""
    with suppress(OSError, wire.AgentError):
        with _opened(path) as folder:
            if os.listdir(folder) == [MARKER] and os.stat(MARKER, dir_fd=folder, follow_symlinks=False).st_size == 0:
                os.unlink(MARKER, dir_fd=folder)
        os.rmdir(path)
        return True
    return False


def _removed_if_marker_was_lost(path: str) -> bool:
    """Remove a folder whose marker a power cut emptied, as file systems may do. Returns whether it is gone.

    Not a young one: between making and marking a folder, its marker is empty, too.
    """
    with suppress(OSError, wire.AgentError):
        with _opened(path) as folder:
            marker = os.stat(MARKER, dir_fd=folder, follow_symlinks=False)
            ours = os.fstat(folder).st_uid == marker.st_uid == os.geteuid()
            young = time.time() - marker.st_mtime < _YOUNG_S
            if not stat.S_ISREG(marker.st_mode) or marker.st_size or not ours or young or mounts_below(path):
                return False
            _empty(folder)
            os.unlink(MARKER, dir_fd=folder)
        os.rmdir(path)
        return True
    return False


def remove(path: str, uuid: str, owner: int | None = None) -> None:
    """Delete the marked folder `path`. Raises AgentError if it is not ours; `owner` as for `marker_of`.

    The marker goes last, so an interrupted removal can be repeated, even if it still goes on, as after a lost
    connection. All goes by descriptor: if another user replaces the folder by a link meanwhile, the link leads nowhere.
    """
    named = os.path.basename(path).endswith(uuid)
    if named and _removed_if_empty(path):
        return
    if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
        raise wire.AgentError(f"{path!r} is not removed: it must be an absolute path without '..'")
    if path == "/" or os.path.realpath(path) == os.path.realpath(os.path.expanduser("~")):
        raise wire.AgentError(f"{path!r} is not removed: it is the root folder or a home")
    try:
        with _opened(path) as folder:
            _check_removable(path, folder, uuid, _owner(owner))
            _empty(folder)
            os.unlink(MARKER, dir_fd=folder)
        os.rmdir(path)
    except (FileNotFoundError, wire.AgentError):  # what the other removal has removed is not there, the marker included
        if not (named and _removed_if_empty(path)) and os.path.lexists(path):
            raise


def _empty(folder: int) -> None:
    """Like shutil.rmtree, which takes longer to import than everything else at the end of a trial."""
    try:
        _remove_below(folder)
    except OSError:
        # Tools leave read-only folders behind (Go's module cache does); only root can delete these as they are.
        for _, inner, _, descriptor in os.fwalk(".", dir_fd=folder):
            for name in inner:
                if not stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=descriptor)
        _remove_below(folder)


def _remove_below(folder: int) -> None:
    for path, inner, files, descriptor in os.fwalk(".", topdown=False, dir_fd=folder):
        for name in files:
            if (path, name) != (".", MARKER):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
        for name in inner:
            with suppress(FileNotFoundError):
                try:
                    os.rmdir(name, dir_fd=descriptor)
                except NotADirectoryError:  # a link to a folder
                    os.unlink(name, dir_fd=descriptor)


def remove_command(arguments: list[str]) -> None:
    """`remove UUID PATH [OWNER]`: delete OWNER's folder, which must be marked with UUID; a missing folder is fine."""
    uuid, path, *owner = arguments
    there = os.path.lexists(path)
    if there:
        remove(path, uuid, *map(int, owner))
    wire.emit({"removed": [path] if there else []})
