"""Files to and from a host: streams over commands, resumed after a lost connection, compared by SHA-256.

The host needs only a shell, coreutils and tar, because this is how a bare host gets everything else. Both sides hash
while the data flows, each what it reads from or writes to its own files.
"""

import hashlib
import io
import os
import re
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from benchstudy.hosts.connection import Connection, RemoteProcess
from benchstudy.hosts.ssh_errors import (
    CommandEnded,
    CommandFailed,
    ConnectionLost,
    ContentRefused,
    RemoteError,
    TransferFailed,
)
from benchstudy.model.files import IMPOSSIBLE, keep_link

T = TypeVar("T")

BLOCK = 1 << 20
STALL_TIMEOUT_S = 60.0
MOST_FILES = 200_000  # in a tree copied from a host
_MOST_NAMED = 5
_LEASE = ".lease"  # the agent's, in the folder of a command whose supervisor was killed
# Attempts that moved nothing. Others do not count, or a bad line would end a long transfer.
MOST_FRUITLESS_ATTEMPTS = 3

# openssl and Python use the CPU's own SHA instructions; the code in coreutils is five times slower.
SHA256 = """
sha256() {
    if command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r
    elif command -v python3 >/dev/null 2>&1; then python3 -I -c '
import hashlib, sys
digest = hashlib.sha256()
while True:
    block = sys.stdin.buffer.read(1 << 18)
    if not block: break
    digest.update(block)
print(digest.hexdigest())'
    else sha256sum; fi
}
"""
# $1: file, $2: offset. The hash of the whole file is computed during the transfer and printed on stderr.
SEND_FILE = (
    SHA256
    + """
exec 3< "$1" && { sha256 < "$1" >&2 & } && if [ "$2" = 0 ]; then cat <&3; else tail -c "+$(($2 + 1))" <&3; fi && wait
"""
)
# $1: file, $2: the size that is already good. With Python the hash is computed while data arrives; without, at the
# end, which costs the host less CPU time than tee with its 8 KiB blocks.
RECEIVE_FILE = (
    SHA256
    + """
umask 077; truncate -s "$2" -- "$1" || exit 1
if command -v python3 >/dev/null 2>&1; then exec python3 -I -c '
import hashlib, sys
digest, block = hashlib.sha256(), bytearray(1 << 18)
view = memoryview(block)
with open(sys.argv[1], "r+b", buffering=0) as file, open(0, "rb", buffering=0) as arriving:
    for size in iter(lambda: file.readinto(block), 0):
        digest.update(view[:size])
    for size in iter(lambda: arriving.readinto(block), 0):
        digest.update(view[:size])
        written = 0
        while written < size:
            written += file.write(view[written:size])
print(digest.hexdigest())' "$1"; fi
cat >> "$1" && sha256 < "$1"
"""
)
# $1: file, $2: its right size, $3: mode, $4: destination.
PUBLISH = """
size=$(stat -c %s -- "$1") && if [ "$size" != "$2" ]; then echo "only $size of $2 bytes were written" >&2; exit 1; fi
chmod "$3" "$1" && mv -fT -- "$1" "$4"
"""
# $1: folder. The archive goes to the hash and to standard output, which must be a pipe to have a name.
SEND_TREE = (
    SHA256
    + """
{ { { tar -c -f - -C "$1" . || echo 'tar failed' >&2; } | tee /dev/fd/4 | sha256 >&2; } 4>&1; } | cat
"""
)
RECEIVE_TREE = (
    SHA256
    + """
mkdir -p -- "$1" && { { tee /dev/fd/4 | sha256 >&2; } 4>&1; } | {
    tar -x -f - -C "$1" --no-same-owner; status=$?; cat >/dev/null; exit $status
}
"""
)
# $1: process group, $2: a word of its command line, so that no other process is killed.
END_WRITER = """
case "$(tr '\\0' ' ' < "/proc/$1/cmdline")" in *"$2"*) kill -s KILL -- "-$1";; esac 2>/dev/null
"""


@dataclass(frozen=True)
class Digest:
    """The digest and size of a file when it was transferred."""

    sha256: str
    size: int


def put(remote: Connection, local: Path, destination: str, mode: int = 0o644) -> Digest:
    """Copy a file to the host, completely or not at all; resumes after a lost connection."""
    destination = remote.expand(destination)
    part = f"{destination}.part-{secrets.token_hex(6)}"
    writers: list[RemoteProcess] = []
    offset = 0
    with open(local, "rb") as file, ThreadPoolExecutor(1) as hasher:

        def send_rest() -> Digest:
            nonlocal offset
            if writers:
                offset = _written_so_far(remote, writers, part)
            digest, size = hashlib.sha256(), 0
            with remote.open(["sh", "-c", RECEIVE_FILE, "sh", part, str(offset)]) as process:
                writers.append(process)
                file.seek(0)
                with suppress(CommandEnded):  # the result says why it ended
                    for block in _blocks(file):
                        hashing = hasher.submit(digest.update, block)
                        # What was sent before the connection was lost is only hashed again.
                        process.write(block[max(0, offset - size) :], STALL_TIMEOUT_S)
                        size += len(block)
                        hashing.result()
                    process.close_stdin()
                there = _result(process, destination)
            _compare(f"{remote.name}: {destination}", digest.hexdigest(), there)
            return Digest(digest.hexdigest(), size)

        try:
            sent = _until_through(remote, send_rest, lambda: offset)
            remote.run(["sh", "-c", PUBLISH, "sh", part, str(sent.size), f"{mode:o}", destination])
            return sent
        except BaseException as error:
            with suppress(RemoteError):
                remote.run(["rm", "-f", "--", part], check=False)
            if isinstance(error, CommandFailed):
                raise TransferFailed(f"{remote.name}: {local} could not be put to {destination}: {error}") from error
            raise


def get(remote: Connection, source: str, local: Path) -> Digest:
    """Copy a file from the host, completely or not at all; resumes after a lost connection."""
    source = remote.expand(source)
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(f".{local.name}.part-{secrets.token_hex(6)}")
    digest = hashlib.sha256()
    try:
        with open(part, "wb", buffering=0) as file, ThreadPoolExecutor(1) as hasher:

            def receive_rest() -> str:
                with remote.open(["sh", "-c", SEND_FILE, "sh", source, str(file.tell())]) as process:
                    for data in _output(process):
                        hashing = hasher.submit(digest.update, data)
                        _write_all(file, data)
                        hashing.result()
                    return _result(process, source, stream="stderr")

            there = _until_through(remote, receive_rest, file.tell)
            size = file.tell()
        _compare(f"{remote.name}: {source}", digest.hexdigest(), there)
        part.replace(local)
    finally:
        part.unlink(missing_ok=True)
    return Digest(digest.hexdigest(), size)


def put_tree(remote: Connection, local: Path, destination: str) -> None:
    """Copy the contents of the folder `local` into the folder `destination`, which is made if necessary."""
    destination = remote.expand(destination)

    def send() -> None:
        argv = ["tar", "-c", "-f", "-", "-C", str(local), "--owner=0", "--group=0", "--numeric-owner", "."]
        digest = hashlib.sha256()
        with (
            remote.open(["sh", "-c", RECEIVE_TREE, "sh", destination]) as process,
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tar,
        ):
            assert tar.stdout is not None and tar.stderr is not None, "both are pipes"
            try:
                for block in _blocks(tar.stdout):
                    digest.update(block)
                    process.write(block, STALL_TIMEOUT_S)
                message = tar.stderr.read().decode(errors="replace").strip()
                if tar.wait() != 0:
                    raise TransferFailed(f"{local}: tar cannot read it: {message}")
                process.close_stdin()
            except CommandEnded:  # the result says why it ended
                tar.kill()
            except BaseException:
                tar.kill()
                raise
            there = _result(process, destination, stream="stderr")
        _compare(f"{remote.name}: {destination}", digest.hexdigest(), there)

    if not local.is_dir():
        raise TransferFailed(f"{local} is not a folder")
    _until_through(remote, send, lambda: 0)


def get_tree(remote: Connection, source: str, local: Path) -> None:
    """Copy the contents of the folder `source` into the folder `local`, which is made if necessary."""
    source = remote.expand(source)
    local.mkdir(parents=True, exist_ok=True)

    def receive() -> None:
        links: list[tarfile.TarInfo] = []
        with remote.open(["sh", "-c", SEND_TREE, "sh", source]) as process:
            stream = _OutputStream(process)
            with io.BufferedReader(stream, BLOCK) as buffered:
                try:
                    with tarfile.open(fileobj=buffered, mode="r|") as archive:
                        links = _extract(archive, local)
                except tarfile.ReadError:
                    # If tar failed on the host, the reason follows below; a truncated stream is not an archive.
                    stream.damaged = True
                while buffered.read(BLOCK):
                    pass
                there = _result(process, source, stream="stderr")
                _compare(f"{remote.name}: {source}", stream.digest.hexdigest(), there)
                if stream.damaged:
                    raise TransferFailed(f"{remote.name}: {source}: what tar sent is not an archive")
                said, failed, _ = process.stderr_tail.partition("\ntar failed\n")
                if failed:  # it leaves out what it cannot read, and ends the archive as if that did not exist
                    named = " / ".join(said.splitlines()[:_MOST_NAMED])
                    raise ContentRefused(f"{remote.name}: {source}: not all of it can be copied: {named}")
        _make_links(links, local)

    _until_through(remote, receive, lambda: 0)


def _extract(archive: tarfile.TarFile, into: Path) -> list[tarfile.TarInfo]:
    """Write plain files and folders. Returns the links that stay inside `into`; anything else is refused.

    Not extractall(filter="data"): Debian 12's Python has no filters yet, and it takes twice as long for small files.
    """
    folder = os.fspath(into)
    links: list[tarfile.TarInfo] = []
    for number, member in enumerate(archive):
        name = member.name
        if number == MOST_FILES:
            raise ContentRefused(f"not copied from the host: more than {MOST_FILES} files in one folder")
        if name.startswith("/") or ".." in name.split("/"):
            raise ContentRefused(f"{name!r} is not copied from the host: its name leads out of the folder")
        with _refused_if_impossible(name):
            if member.isreg():
                content = archive.extractfile(member)
                assert content is not None, "a plain file has content"
                _write_file(f"{folder}/{name}", member.mode & 0o755 | 0o600, content)
            elif member.isdir():
                os.makedirs(f"{folder}/{name}", exist_ok=True)
            elif member.issym() or member.islnk():
                links.append(member)
            elif member.isfifo() and name.rpartition("/")[2] == _LEASE:
                continue
            else:
                raise ContentRefused(f"{name!r} is not copied from the host: it is neither a file, a folder nor a link")
    return links


def _make_links(links: Sequence[tarfile.TarInfo], into: Path) -> None:
    """Make links as a sealed trial has them: a file, or a text with the name of what is no file, such as a folder.

    A symbolic link is never made, so no name of the archive, or of a later one, can lead through one.
    """
    for link in sorted(links, key=tarfile.TarInfo.issym):  # a symbolic link may name what is a hard link here
        # A hard link names its file relative to the archive's root, a symbolic one relative to itself.
        start = "" if link.islnk() else os.path.dirname(link.name)
        target = os.path.normpath(os.path.join(start, link.linkname))
        if os.path.isabs(target) or target.split("/")[0] == "..":
            raise ContentRefused(f"{link.name!r} is not copied from the host: it links to {link.linkname!r}, outside")
        path, file = into / link.name, into / target
        # Behind the name of a link, ".." does not lead back to where the name stands.
        follows = file.is_file() and ".." not in link.linkname.lstrip("./").split("/")
        with _refused_if_impossible(link.name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # from an earlier copy
            if follows:
                try:
                    os.link(file, path)
                except OSError:  # this file system has no hard links, or no more of this file
                    shutil.copyfile(file, path)
            else:
                keep_link(path, link.linkname)


@contextmanager
def _refused_if_impossible(name: str) -> Iterator[None]:
    """Raises ContentRefused if a name of an archive cannot be made beside its other names."""
    try:
        yield
    except OSError as error:
        if error.errno not in IMPOSSIBLE:
            raise
        raise ContentRefused(f"{name!r} is not copied from the host: {error.strerror}") from error


def _write_file(path: str, mode: int, content: IO[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        target = os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)
        target = os.open(path, flags, mode)
    with open(target, "wb", buffering=0) as file:
        while block := content.read(BLOCK):
            _write_all(file, block)


class _OutputStream(io.RawIOBase):
    """A remote process's standard output as a file, hashed while it is read; its standard error is kept."""

    def __init__(self, process: RemoteProcess):
        self.digest = hashlib.sha256()
        self.damaged = False
        self._chunks = _output(process)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target) -> int:
        if not self._left:
            chunk = next(self._chunks, b"")
            self.digest.update(chunk)
            self._left = memoryview(chunk)
        size = min(len(target), len(self._left))
        target[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _until_through(remote: Connection, attempt: Callable[[], T], progress: Callable[[], int]) -> T:
    """Call `attempt` until it ends without a lost connection, reconnecting in between.

    Args:
        attempt: resumes the transfer.
        progress: bytes known to have arrived.
    """
    fruitless, before = 0, 0
    while True:
        try:
            return attempt()
        except ConnectionLost:
            if fruitless == MOST_FRUITLESS_ATTEMPTS:
                raise
            remote.reconnect()
        after = progress()
        fruitless = 0 if after > before else fruitless + 1
        before = after


def _written_so_far(remote: Connection, writers: list[RemoteProcess], part: str) -> int:
    """Bytes in the part file on the host, after ending those that wrote it over a lost connection."""
    for writer in writers:
        if writer.pid is not None:
            remote.run(["sh", "-c", END_WRITER, "sh", str(writer.pid), part], check=False)
    writers.clear()
    answer = remote.run(["stat", "-c", "%s", "--", part], check=False)
    return int(answer.text) if answer.exit_status == 0 else 0


def _output(process: RemoteProcess) -> Iterator[bytes]:
    """Standard output, piece by piece. Standard error is kept in the process."""
    while (got := process.read_output(STALL_TIMEOUT_S)) != b"":
        if got is None:
            raise ConnectionLost(f"{process.name}: nothing arrived for {STALL_TIMEOUT_S:.0f} s")
        yield got


def _result(process: RemoteProcess, what: str, stream: str = "stdout") -> str:
    """The digest that a script printed last. Raises TransferFailed with its output if it failed."""
    output = b"".join(_output(process))
    said = process.stderr_tail
    status = process.wait(STALL_TIMEOUT_S)
    found = re.findall(r"^([0-9a-f]{64})\b", said if stream == "stderr" else output.decode(), re.MULTILINE)
    if status != 0 or not found:
        raise TransferFailed(f"{process.name}: {what}: {said.strip() or f'ended with status {status}'}")
    return found[-1]


def _compare(where: str, here: str, there: str) -> None:
    if here != there:
        raise TransferFailed(
            f"{where}: SHA-256 is {here} here and {there} there: did something write to it during the transfer?"
        )


def _blocks(file: IO[bytes]) -> Iterator[memoryview]:
    while block := file.read(BLOCK):
        yield memoryview(block)


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
