"""Files written so that a crash leaves the old content or the new, and what is written the same way everywhere."""

import errno
import fcntl
import gc
import glob
import hashlib
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

# No process takes so long to write a file, whatever the clocks of two machines say.
_LONG_AGO_S = 86_400

WHERE_LOCKS_HOLD = (
    "Put the project on a file system that keeps locks between machines: NFS 4, NFS 3 mounted without `nolock` and "
    "`local_lock`, CephFS, Lustre with `flock`, GPFS. What sshfs and object storage mount keeps none"
)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"


def json_of(content: str | bytes) -> Any:
    """What a JSON text holds, whoever wrote it. Raises ValueError, also where it is nested deeper than can be read."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


@contextmanager
def nothing_collected() -> Iterator[None]:
    """While much is read that stays: Python would look through all of it again and again for what is gone."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def write_atomically(path: Path, text: str) -> None:
    """`path` holds either its old content or all of `text`, also after a crash."""
    with whole_or_nothing(path) as temporary, temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _runs(pid: int) -> bool:
    """Asked without psutil: whoever has Python alone uses this module, too (hosts/loopback.py)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def _is_left(file: Path) -> bool:
    """Whether nobody writes it any more. Of other machines, nobody here knows what runs there."""
    if (pid := machine.pid_here(file.suffix[1:])) is not None:
        return not _runs(pid)
    with suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime > _LONG_AGO_S
    return False


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to: it takes the place of `path` at the end, and is gone when that fails.

    What processes that were killed left of theirs goes too.
    """
    for found in path.parent.glob(f".{glob.escape(path.name)}.{machine.ANY_PROCESS}"):
        if _is_left(found):
            found.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{machine.process()}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # the same trouble, or it was never there
            temporary.unlink()
        raise


def disk_trouble(error: Exception) -> str | None:
    """What to do about a disk of this machine that takes no more, in words; None for any other trouble."""
    if not isinstance(error, OSError) or error.errno is None:  # as libraries in Rust and executed notebooks say it
        number = re.search(r"(?:\(os error |\[Errno )(\d+)[)\]]", str(error))
        error = OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError()
    ways = {
        errno.ENOSPC: "free some space there",
        errno.EDQUOT: "free some of your quota there",
        errno.EROFS: "mount it so that it can be written",
        errno.EIO: "look what is wrong with the disk (dmesg)",
    }
    if error.errno is None or error.errno not in ways:
        return None
    where = error.filename or Path.cwd()
    return (
        f"{where}: {error.strerror}: {ways[error.errno]}, and run the same command again: what was stored stays, and "
        "the rest goes on from there"
    )


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


def keeps_locks(folder: Path) -> bool:
    """Whether a lock on a file there is refused to whoever comes second. Some file systems grant none, others all."""
    with TemporaryFile(dir=folder) as first, open(f"/proc/self/fd/{first.fileno()}", "r+b") as second:
        try:
            return lock_if_free(first.fileno()) and not lock_if_free(second.fileno())
        except OSError:
            return False


def fsync(path: Path) -> None:
    """Have a file or folder reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
