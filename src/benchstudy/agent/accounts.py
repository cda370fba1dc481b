"""Which processes belong to a session: those registered in its accounts, and all their descendants.

Supervisors register, and so do the keeper and the desk with its SSH connection. A process that ends leaves its times
with the process that waited for it, and the last of these writes them to the books, so none is lost between readings.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
from contextlib import suppress

import kernel
import record
import wire

_ENDED = "ended"
_SIZE = 1024  # of its text, always written whole and over the same blocks: a full disk cannot empty it


class Accounts:
    """Which processes belong to a session: a folder of the session, with one file per registered process.

    Without a session's folder, as for a command under no lock, only the reader itself counts.
    """

    def __init__(self, session_dir: str):
        self.folder = os.path.join(session_dir, "accounts")
        self._entries: dict[str, dict] = {}  # never written twice

    def join(self, pid: int, run_folder: str = "", alone: bool = False) -> None:
        """Count `pid` as ours, with its descendants unless `alone`. `run_folder`: of the command that it supervises."""
        place, unfinished = (os.path.join(self.folder, name) for name in (str(pid), f".{pid}"))
        with suppress(OSError, IndexError):
            if os.path.exists(place):
                return
            started = kernel.stat(pid)[19]
            with open(unfinished, "w", encoding="ascii") as file:
                json.dump({"started": int(started), "run": run_folder, "alone": alone}, file)
            os.rename(unfinished, place)

    def leave(self) -> None:
        """Record what this process, and those it waited for, used; called before it ends."""
        mine = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        used = {"cpu_s": sum(r.ru_utime + r.ru_stime for r in mine), **(kernel.io(os.getpid()) or {})}
        with suppress(OSError, ValueError), open(os.path.join(self.folder, _ENDED), "r+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a process that leaves must be counted exactly once
            before = json.load(file)
            _write(file, {name: before.get(name, 0) + used.get(name, 0) for name in {*before, *used}})
            os.unlink(os.path.join(self.folder, str(os.getpid())))

    def open(self) -> None:
        """Make the books of a new session."""
        os.mkdir(self.folder, 0o700)
        with open(os.path.join(self.folder, _ENDED), "x", encoding="ascii") as file:
            _write(file, {})

    def roots(self) -> tuple[dict, dict]:
        """The live ones, by pid, and what the ended ones used."""
        try:
            fd = kernel.kept(os.path.join(self.folder, _ENDED))
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                ended = json.loads(os.pread(fd, 4096, 0))
                names = [name for name in os.listdir(self.folder) if name.isdigit()]
                self._entries = {name: self._entries.get(name) or self._entry(name) for name in names}
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)
            return {int(name): entry for name, entry in self._entries.items()}, ended
        except (OSError, ValueError):
            return {}, {}

    def _entry(self, name: str) -> dict:
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return json.load(file)


def _write(file, used: dict) -> None:
    os.pwrite(file.fileno(), json.dumps(used).encode("ascii").ljust(_SIZE), 0)


def of_run(run_folder: str, session: str) -> Accounts:
    """The accounts of the session that a command or service belongs to."""
    return Accounts(os.path.join(os.path.dirname(os.path.dirname(run_folder)), "sessions", session))


def join(arguments: list[str]) -> None:
    """`join-accounts SESSION_DIR`, asked at the desk: {"boot_id"} of the host that the readings describe.

    Counts the desk as ours, with the SSH connection that it came over and everything else this connection started.
    """
    accounts, above, servers = Accounts(arguments[0]), os.getppid(), []
    accounts.join(above)
    with suppress(OSError, IndexError, ValueError):
        while (above := int(kernel.stat(above)[1])) > 1:
            if kernel.comm(above).startswith(kernel.SSH_SERVERS):
                servers.append(above)
    for number, pid in enumerate(servers):
        # The next process up also listens for other users' connections.
        accounts.join(pid, alone=number > 0)
    wire.emit({"boot_id": record.boot_id()})
