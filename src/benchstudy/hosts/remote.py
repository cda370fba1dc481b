"""The one SSH door: connect, run, open, put, get. Nothing outside it and its parts imports paramiko."""

from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from benchstudy.hosts import transfer
from benchstudy.hosts.connection import Connection, RemoteProcess  # noqa: F401  others import it from here
from benchstudy.hosts.ssh_errors import (  # noqa: F401  others import it from here
    AuthenticationFailed,
    CommandEnded,
    CommandFailed,
    CommandTimeout,
    Completed,
    ConnectionFailed,
    ConnectionLost,
    ContentRefused,
    HostKeyChanged,
    HostKeyUnknown,
    RemoteError,
    TransferFailed,
    Unreachable,
)
from benchstudy.hosts.transfer import Digest


class Remote(Connection):
    """One SSH connection to one host, with file transfer in both directions; a context manager. Thread-safe."""

    def put(self, local: Path, remote: str, mode: int = 0o644) -> Digest:
        """Copy a file to the host, completely or not at all; resumes after a lost connection."""
        return transfer.put(self, local, remote, mode)

    def get(self, remote: str, local: Path) -> Digest:
        """Copy a file from the host, completely or not at all; resumes after a lost connection."""
        return transfer.get(self, remote, local)

    def put_tree(self, local: Path, remote: str) -> None:
        """Copy the contents of the folder `local` into the folder `remote`, which is made if necessary."""
        transfer.put_tree(self, local, remote)

    def put_folder(self, local: Path, remote: str) -> None:
        """Copy the folder `local`. It gets the name `remote` once it is complete, unless another session was faster."""
        arriving = f"{remote}.part-{token_hex(4)}"
        try:
            self.put_tree(local, arriving)
            arrived = self.run(["mv", "-T", "--", arriving, remote], check=False).exit_status == 0
        except BaseException:
            with suppress(RemoteError):
                self.run(["rm", "-rf", "--", arriving], check=False)
            raise
        if not arrived:
            self.run(["rm", "-rf", "--", arriving])

    def remove_left_parts(self, parent: str) -> list[str]:
        """Remove what `put_folder` of killed controllers left in the folder `parent` of the host. Returns the paths.

        Only what nobody has written to for a day: hosts may share the folder, so a live writer may be on another one.
        """
        argv = ["find", parent, "-maxdepth", "1", "-type", "d", "-name", f"*.part-{'[0-9a-f]' * 8}", "-mtime", "+0"]
        argv += ["-prune", "-exec", "rm", "-rf", "--", "{}", ";", "-print"]
        return self.run(argv, timeout_s=600.0, check=False).text.splitlines()

    def get_tree(self, remote: str, local: Path) -> None:
        """Copy the contents of the folder `remote` into the folder `local`, which is made if necessary."""
        transfer.get_tree(self, remote, local)
