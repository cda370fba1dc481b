"""The one SSH door: connect, run, open, put_tree, get_tree. Nothing outside it and its parts imports paramiko."""

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

_SYNC = 'sync -f -- "$1" 2> /dev/null || sync'  # of this file system alone, where sync knows how
_SYNC_S = 600.0  # a slow disk with much to write


class Remote(Connection):
    """One SSH connection to one host, with transfer of folders in both directions; a context manager. Thread-safe."""

    put_tree = transfer.put_tree
    get_tree = transfer.get_tree

    def put_folder(self, local: Path, remote: str) -> None:
        """Copy the folder `local`. It gets the name `remote` once it is complete, unless another session was faster.

        Complete on the disk: after a power cut, a file system may have kept the name of a file and lost its content.
        """
        arriving = f"{remote}.part-{token_hex(4)}"
        try:
            self.put_tree(local, arriving)
            self.run(["sh", "-c", _SYNC, "sh", arriving], timeout_s=_SYNC_S)
            arrived = self.run(["mv", "-T", "--", arriving, remote], check=False).exit_status == 0
        except BaseException:
            with suppress(RemoteError):
                self.run(["rm", "-rf", "--", arriving], check=False)
            raise
        if not arrived:
            self.run(["rm", "-rf", "--", arriving])

    def is_root(self) -> bool:
        return self.run(["id", "-u"]).text.strip() == "0"

    def sudo_refused(self) -> str:
        """Why the user may not run any command with password-less sudo; "" if they may. Asked as pyinfra calls it."""
        done = self.run(["sudo", "-H", "-n", "sh", "-c", "true"], check=False)
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.exit_status}"]
        return said[-1] if done.exit_status else ""

    def remove_left_parts(self, parent: str) -> list[str]:
        """Remove what `put_folder` of killed controllers left in the folder `parent` of the host. Returns the paths.

        Only what nobody has written to for a day: hosts may share the folder, so a live writer may be on another one.
        """
        argv = ["find", parent, "-maxdepth", "1", "-type", "d", "-name", f"*.part-{'[0-9a-f]' * 8}", "-mtime", "+0"]
        argv += ["-prune", "-exec", "rm", "-rf", "--", "{}", ";", "-print"]
        return self.run(argv, timeout_s=600.0, check=False).text.splitlines()
