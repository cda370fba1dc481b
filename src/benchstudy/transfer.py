"""Files to and from a host: streams over commands, resumed after a lost connection, compared by SHA-256.

On the host nothing is needed but a shell, coreutils and tar: this is how a bare host gets everything else.
"""

import hashlib
import secrets
import subprocess
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchstudy.ssh_errors import CommandFailed, ConnectionLost, TransferFailed

if TYPE_CHECKING:
    from benchstudy.remote import Remote, RemoteProcess

CHUNK = 1 << 20
STALL_TIMEOUT_S = 60.0
RECONNECT_S = 60.0
# Attempts that moved nothing; one that moved something does not count, or a bad line would end a long transfer.
MOST_FRUITLESS_ATTEMPTS = 3

# openssl and Python use the CPU's SHA instructions; coreutils' own code is five times slower.
SHA256 = """
sha256() {
    if command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r
    elif command -v python3 >/dev/null 2>&1; then python3 -I -c '
import hashlib, sys
digest = hashlib.sha256()
while block := sys.stdin.buffer.read(1 << 18): digest.update(block)
print(digest.hexdigest())'
    else sha256sum; fi
}
"""

# $1 part file, $2 offset. Cutting the part back to the offset drops what an ended attempt left unacknowledged.
PUT = 'set -e; umask 077; dd if=/dev/null of="$1" bs=1 seek="$2" 2>/dev/null; cat >> "$1"'

# $1 part, $2 destination, $3 mode, $4 expected digest
PUBLISH = SHA256 + (
    'set -e; set -- "$1" "$2" "$3" "$4" $(sha256 < "$1"); '
    '[ "$4" = "$5" ] || { echo "it arrived with SHA-256 $5" >&2; exit 65; }; chmod "$3" "$1"; mv -fT -- "$1" "$2"'
)

# $1 file, $2 offset. The hash is taken beside the transfer and comes on stderr, of the whole file.
GET = (
    SHA256
    + 'exec 3<"$1"; sha256 < "$1" >&2 & if [ "$2" = 0 ]; then cat <&3; else tail -c "+$(($2+1))" <&3; fi; wait'
)


@dataclass(frozen=True)
class Digest:
    """What a file held when it was moved."""

    sha256: str
    size: int


def put(remote: "Remote", local: Path, destination: str, mode: int) -> Digest:
    """See Remote.put."""
    destination = remote.expand(destination)
    part = f"{destination}.part-{secrets.token_hex(6)}"
    digest = _digest_of(local)
    size = local.stat().st_size

    def send_rest() -> None:
        offset = _size_or_zero(remote, part)
        with remote.open(["sh", "-c", PUT, "sh", part, str(offset)]) as process, open(local, "rb") as source:
            source.seek(offset)
            while block := source.read(CHUNK):
                process.write(block, STALL_TIMEOUT_S)
            process.close_stdin()
            _expect_success(remote, process, b"", destination)
        remote.run(["sh", "-c", PUBLISH, "sh", part, destination, f"{mode:o}", digest], timeout_s=None)

    try:
        _until_through(remote, send_rest, lambda: _size_or_zero(remote, part))
    except CommandFailed as error:
        raise TransferFailed(f"{remote.name}: {local} could not be put to {destination}: {error}") from error
    except BaseException:
        with suppress(ConnectionLost, CommandFailed):
            remote.run(["rm", "-f", "--", part], check=False)
        raise
    return Digest(digest, size)


def get(remote: "Remote", source: str, local: Path) -> Digest:
    """See Remote.get."""
    source = remote.expand(source)
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(f".{local.name}.part-{secrets.token_hex(6)}")
    digest = hashlib.sha256()
    errors = bytearray()

    def receive_rest() -> None:
        errors.clear()
        with remote.open(["sh", "-c", GET, "sh", source, str(file.tell())]) as process:
            while (got := process.read(STALL_TIMEOUT_S)) != (b"", b""):
                if got is None:
                    raise ConnectionLost(f"{remote.name}: {source} stalled for {STALL_TIMEOUT_S:.0f} s")
                file.write(got[0])
                digest.update(got[0])
                errors.extend(got[1])
            _expect_success(remote, process, errors, source)

    try:
        with open(part, "wb") as file:
            _until_through(remote, receive_rest, file.tell)
            size = file.tell()
        there = errors.split()[:1]
        if there != [digest.hexdigest().encode()]:
            raise TransferFailed(
                f"{remote.name}: {source} did not arrive as it is there (SHA-256 {digest.hexdigest()} here, "
                f"{errors.decode(errors='replace').strip()} there); is something writing to it?"
            )
        part.replace(local)
    finally:
        part.unlink(missing_ok=True)
    return Digest(digest.hexdigest(), size)


def put_tree(remote: "Remote", local: Path, destination: str) -> None:
    """See Remote.put_tree."""
    destination = remote.expand(destination)
    unpack = ["sh", "-c", 'mkdir -p -- "$1" && exec tar -x -f - -C "$1" --no-same-owner', "sh", destination]
    argv = ["tar", "-c", "-f", "-", "-C", str(local), "--owner=0", "--group=0", "."]
    with remote.open(unpack) as process, subprocess.Popen(argv, stdout=subprocess.PIPE) as tar:
        while block := tar.stdout.read(CHUNK):
            process.write(block, STALL_TIMEOUT_S)
        process.close_stdin()
        _expect_success(remote, process, b"", destination)
    if tar.returncode:
        raise TransferFailed(f"{local}: tar ended with status {tar.returncode}")


def get_tree(remote: "Remote", source: str, local: Path) -> None:
    """See Remote.get_tree."""
    source = remote.expand(source)
    local.mkdir(parents=True, exist_ok=True)
    with remote.open(["tar", "-c", "-f", "-", "-C", source, "."]) as process:
        stream = _Reader(process)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            archive.extractall(local, filter="data")
        stream.drain()
        _expect_success(remote, process, stream.errors, source)


class _Reader:
    """A process's standard output as a file."""

    def __init__(self, process):
        self._process = process
        self._held = bytearray()
        self._ended = False
        self.errors = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._held) < size and not self._ended:
            got = self._process.read(STALL_TIMEOUT_S)
            if got is None:
                raise ConnectionLost(f"the host sent nothing for {STALL_TIMEOUT_S:.0f} s")
            self._held += got[0]
            self.errors += got[1]
            self._ended = got == (b"", b"")
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def drain(self) -> None:
        while self.read(CHUNK):
            self._held.clear()


def _until_through(remote: "Remote", attempt, progress) -> None:
    """Call `attempt` until no lost connection ends it, reconnecting in between.

    Args:
        attempt: continues the transfer from where it stands.
        progress: bytes that arrived so far.
    """
    fruitless, before = 0, 0
    while True:
        try:
            return attempt()
        except ConnectionLost:
            remote.reconnect(RECONNECT_S)
            after = progress()
            fruitless = 0 if after > before else fruitless + 1
            before = after
            if fruitless == MOST_FRUITLESS_ATTEMPTS:
                raise


def _digest_of(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size_or_zero(remote: "Remote", path: str) -> int:
    answer = remote.run(["stat", "-c", "%s", "--", path], check=False)
    return int(answer.text) if answer.exit_status == 0 else 0


def _expect_success(remote: "Remote", process: "RemoteProcess", errors: bytes, where: str) -> None:
    while (got := process.read(STALL_TIMEOUT_S)) not in (None, (b"", b"")):
        errors = bytes(errors) + got[1]
    status = process.wait(STALL_TIMEOUT_S)
    if status != 0:
        message = bytes(errors).decode(errors="replace").strip()[-2000:]
        raise TransferFailed(f"{remote.name}: {where}: {message or f'ended with status {status}'}")
