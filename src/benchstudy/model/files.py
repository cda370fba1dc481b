"""Writes files so that a crash leaves the old content or the new, and so that formats are the same everywhere."""

import errno
import fcntl
import gc
import glob
import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchstudy.model import machine

# No process takes this long to write a file, whatever the difference of two machines' clocks.
_LONG_AGO_S = 86_400
# What the operating system answers if a name, or two names beside each other, cannot be made.
IMPOSSIBLE = (errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR)
_LONGEST_NAME = 255  # bytes, on every file system of Linux

WHERE_LOCKS_HOLD = (
    "Put the project on a file system that keeps locks between machines: NFS 4, NFS 3 mounted without `nolock` and "
    "`local_lock`, CephFS, Lustre with `flock`, GPFS. Mounts of sshfs and object storage keep none"
)


def now() -> str:
    """The present time, UTC, in ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def as_json(value: Mapping[str, Any]) -> str:
    """`value` as indented JSON text with a newline at the end. What JSON does not know becomes a string."""
    return json.dumps(value, indent=2, default=str) + "\n"


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below, links not followed. Raises OSError for a folder that may not be read, which `rglob` skips."""

    def refuse(error: OSError) -> None:
        raise error

    return (Path(top, name) for top, _, names in os.walk(folder, onerror=refuse) for name in names)


def is_taken(folder: Path) -> bool:
    """Whether anything is at this path but an empty folder; a link that leads nowhere is something."""
    return os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir()))


def json_of(content: str | bytes) -> Any:
    """The content of a JSON text, whoever wrote it. Raises ValueError, also if it is nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Pauses the garbage collector while much lasting data is read, because it would scan all of it repeatedly."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def write_atomically(path: Path, text: str) -> None:
    """`path` holds either its old content or all of `text`, also after a crash."""
    with whole_or_nothing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def free_name(path: Path) -> Path:
    """`path`, or one beside it if that exists. A name that is too long is cut, and ends with its digest then."""
    name = os.fsencode(path.name)
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(name).hexdigest()[:12]
        path = path.with_name(f"{name[: _LONGEST_NAME - 20].decode(errors='ignore')}-{digest}")
    others = (path.with_name(f"{path.name}.{number}") for number in itertools.count(2))
    return next(free for free in itertools.chain([path], others) if not os.path.lexists(free))


def keep_link(path: Path, target: str) -> None:
    """Write a text beside `path`, `<name>.link`, that says where a link of this name led."""
    free_name(path.with_name(f"{path.name}.link")).write_bytes(os.fsencode(target))


def _runs(pid: int) -> bool:
    """Without psutil, because this module is also used where only Python is installed (hosts/loopback.py)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        pass
    return True


def _is_left(file: Path) -> bool:
    """Whether nobody writes it any more. Processes on other machines are not visible from here."""
    if (pid := machine.pid_here(file.suffix[1:])) is not None:
        return not _runs(pid)
    with suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime > _LONG_AGO_S
    return False


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to. It replaces `path` at the end, and is removed if that fails.

    Files that killed processes left behind are removed too.
    """
    for found in path.parent.glob(f".{glob.escape(path.name)}.{machine.ANY_PROCESS}"):
        if _is_left(found):
            found.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{machine.process()}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # the same trouble, or it never existed
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (temporary, str(temporary)):
            error.filename = str(path)  # what the user asked for
        raise


def disk_trouble(error: Exception) -> str | None:
    """What to do about files of this machine that cannot be written or read, in words; None for any other trouble."""
    if not isinstance(error, OSError) or error.errno is None:  # as Rust libraries and executed notebooks report it
        told = re.search(r"(?:\(os error |\[Errno )(\d+)[)\]](?:[^:\n]*: '?([^'\n]+))?", str(error))
        error = OSError(int(told[1]), os.strerror(int(told[1])), told[2]) if told else OSError()
    if isinstance(error, PermissionError) and not error.filename:  # of a process or a socket
        return None
    ways = {
        errno.EACCES: "give your user the right to read and write there",
        errno.EPERM: "give your user the right to read and write there",
        errno.ESTALE: "mount it again",
        errno.ENOSPC: "free some space there",
        errno.EDQUOT: "free some of your quota there",
        errno.EROFS: "mount it read-write",
        errno.EFBIG: "allow larger files (ulimit -f)",
        errno.EMFILE: "allow a process more open files (ulimit -n)",
        errno.ENFILE: "allow all processes together more open files (sysctl fs.file-max)",
        errno.EIO: "find out what is wrong with the disk (dmesg)",
    }
    if error.errno is None or error.errno not in ways:
        return None
    where = error.filename or Path.cwd()
    return (
        f"{where}: {error.strerror}: {ways[error.errno]}, and run the same command again: what was stored stays, and "
        "the rest continues from there"
    )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    # Not hashlib.file_digest: of a small file, its buffer takes longer than the sum, and most raw files are small.
    with path.open("rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def lock_if_free(descriptor: int) -> bool:
    """Take the file's lock if it is free, until the file is closed or the process ends. Returns whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keeps_locks(folder: Path) -> bool:
    """Whether a second lock on a file there is refused. Some file systems grant no locks, others grant all."""
    with TemporaryFile(dir=folder) as first, open(f"/proc/self/fd/{first.fileno()}", "r+b") as second:
        try:
            return lock_if_free(first.fileno()) and not lock_if_free(second.fileno())
        except OSError:
            return False


def fsync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
