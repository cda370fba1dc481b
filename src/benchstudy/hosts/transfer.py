"""Folders to and from a host: streams over commands, begun again after a lost connection, compared by SHA-256.

The host needs only a shell, coreutils and tar, because this is how a bare host gets everything else. Both sides hash
while the data flows, each what it reads from or writes to its own files.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from benchstudy.hosts.connection import Connection, RemoteProcess
from benchstudy.hosts.ssh_errors import CommandEnded, ConnectionLost, ContentRefused, TransferFailed
from benchstudy.model.files import IMPOSSIBLE, keep_link

BLOCK = 1 << 20
STALL_TIMEOUT_S = 60.0
MOST_FILES, MOST_BYTES = 200_000, 16 << 30  # in a tree copied from a host
_HEADERS = 1 << 30  # bytes of an archive that are no content
_LONGEST_HEADER = 16 << 10  # bytes, such as a name; the library keeps it in memory
_SLOWEST, FIRST_S = 1 << 10, 600.0  # bytes per second, and when they are first asked for
_MOST_NAMED = 5
_DIGEST = re.compile(r"^([0-9a-f]{64})\b", re.MULTILINE)
_LEASE = ".lease"  # the agent's, in the folder of a command whose supervisor was killed
MOST_RECONNECTS = 3  # in one transfer

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
# $1: folder, then what of it. The archive goes to the hash and to standard output, which must be a pipe to have a name.
SEND_TREE = (
    SHA256
    + """
folder=$1; shift
{ { { tar -c -f - -C "$folder" -- "$@" || echo 'tar failed' >&2; } | tee /dev/fd/4 | sha256 >&2; } 4>&1; } | cat
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
                while block := tar.stdout.read(BLOCK):
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
            there = _result(process, destination)
        _compare(f"{remote.name}: {destination}", digest.hexdigest(), there)

    if not local.is_dir():
        raise TransferFailed(f"{local} is not a folder")
    _until_through(remote, send)


def get_tree(remote: Connection, source: str, local: Path, names: Sequence[str] = (".",)) -> None:
    """Copy the contents of the folder `source`, or only `names` of it, into the folder `local`, made if necessary."""
    source = remote.expand(source)
    local.mkdir(parents=True, exist_ok=True)

    def receive() -> None:
        links: list[tarfile.TarInfo] = []
        with remote.open(["sh", "-c", SEND_TREE, "sh", source, *names]) as process:
            stream = _OutputStream(process)
            with io.BufferedReader(stream, BLOCK) as buffered:
                try:
                    with tarfile.open(fileobj=buffered, mode="r|", tarinfo=_Member) as archive:
                        links = _extract(archive, local)
                except (tarfile.TarError, RecursionError):
                    # If tar failed on the host, the reason follows below; a truncated stream is not an archive.
                    stream.damaged = True
                while buffered.read(BLOCK):
                    pass
                there = _result(process, source)
                _compare(f"{remote.name}: {source}", stream.digest.hexdigest(), there)
                if stream.damaged:
                    raise TransferFailed(f"{remote.name}: {source}: what tar sent is not an archive")
                said, failed, _ = process.stderr_tail.partition("\ntar failed\n")
                if failed:  # it leaves out what it cannot read, and ends the archive as if that did not exist
                    named = " / ".join(said.splitlines()[:_MOST_NAMED])
                    raise ContentRefused(f"{remote.name}: {source}: not all of it can be copied: {named}")
        _make_links(links, local)

    _until_through(remote, receive)


def _extract(archive: tarfile.TarFile, into: Path) -> list[tarfile.TarInfo]:
    """Write plain files and folders. Returns the links that stay inside `into`; anything else is refused.

    Not extractall(filter="data"): Debian 12's Python has no filters yet, and it takes twice as long for small files.
    """
    folder = os.fspath(into)
    links: list[tarfile.TarInfo] = []
    total = 0
    for number, member in enumerate(archive):
        name = member.name
        if number == MOST_FILES:
            raise ContentRefused(f"not copied from the host: more than {MOST_FILES} files in one folder")
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise ContentRefused(f"{name!r} is not copied from the host: its name leads out of the folder")
        total += member.size
        _require_small(total)
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


def _require_small(size: int) -> None:
    if size > MOST_BYTES:
        raise ContentRefused(
            f"not copied from the host: more than {MOST_BYTES} bytes in one folder; remove what a trial does not need "
            "before it ends"
        )


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
    with open(target, "wb") as file:
        shutil.copyfileobj(content, file, BLOCK)


class _Member(tarfile.TarInfo):
    """A member of an archive from a host. What would fill memory, or has holes and would fill the disk, is refused.

    The tar of an honest host writes holes out.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if not self.isreg() and self.size > _LONGEST_HEADER:
            raise ContentRefused(f"not copied from the host: a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]  # the stubs leave it out

    def _refuse_holes(self, *_: object) -> NoReturn:
        raise ContentRefused("not copied from the host: a file with holes")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_holes


class _OutputStream(io.RawIOBase):
    """A remote process's standard output as a file, hashed while it is read; its standard error is kept."""

    def __init__(self, process: RemoteProcess):
        self.digest = hashlib.sha256()
        self.damaged = False
        self._received = 0
        self._chunks = _output(process)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target) -> int:
        if not self._left:
            chunk = next(self._chunks, b"")
            self._received += len(chunk)
            _require_small(self._received - _HEADERS)
            self.digest.update(chunk)
            self._left = memoryview(chunk)
        size = min(len(target), len(self._left))
        target[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _until_through(remote: Connection, attempt: Callable[[], None]) -> None:
    """Call `attempt`, which begins the transfer again, until it ends without a lost connection."""
    for _ in range(MOST_RECONNECTS):
        try:
            return attempt()
        except ConnectionLost:
            remote.reconnect()
    return attempt()


def _output(process: RemoteProcess) -> Iterator[bytes]:
    """Standard output, piece by piece. Standard error is kept in the process."""
    begun, received = time.monotonic(), 0
    while (got := process.read_output(STALL_TIMEOUT_S)) != b"":
        if got is None:
            raise ConnectionLost(f"{process.name}: nothing arrived for {STALL_TIMEOUT_S:.0f} s")
        received += len(got)
        so_far_s = time.monotonic() - begun
        if so_far_s > FIRST_S and received < _SLOWEST * so_far_s:
            raise TransferFailed(
                f"{process.name}: only {received} bytes arrived in {so_far_s:.0f} s; the copy was ended"
            )
        yield got


def _result(process: RemoteProcess, what: str) -> str:
    """The digest that a script printed last on stderr. Raises TransferFailed with its output if it failed."""
    for _ in _output(process):
        pass
    said = process.stderr_tail
    status = process.wait(STALL_TIMEOUT_S)
    found = _DIGEST.findall(said)
    if status != 0 or not found:
        lines = [line for line in said.splitlines() if line.strip() and not _DIGEST.match(line)]
        named = " / ".join(lines[:_MOST_NAMED]) + (" / …" if len(lines) > _MOST_NAMED else "")
        raise TransferFailed(f"{process.name}: {what}: {named or f'ended with status {status}'}")
    return found[-1]


def _compare(where: str, here: str, there: str) -> None:
    if here != there:
        raise TransferFailed(
            f"{where}: SHA-256 is {here} here and {there} there: did something write to it during the transfer?"
        )
