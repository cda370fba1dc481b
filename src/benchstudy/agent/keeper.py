"""The keeper holds the host's lock for a session, under a lease, and removes the session's leftovers at its end.

The lock is a flock on one file for the whole host, so the kernel releases it even if the keeper is killed. The file
names its owner, with a count of heartbeats, so a rival can see whether the owner is alive. The keeper's lease is
longer than the supervisors', and it waits for them: nobody can get the lock while an orphan is still running.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import stat
import time
from contextlib import suppress

import exposure
import folders
import lease
import processes
import record
import sweeper
import watcher
import wire
from accounts import Accounts

_MARGIN_S = 1.0  # by which the keeper's lease exceeds the supervisors'
_UNKNOWN_OWNER_S = 10.0  # how long to wait for a lock whose holder does not identify itself
_AFTER_LEASE_S = 90.0  # ending processes, cleanup steps and removing folders may take this long after the lease
_LONGEST_LEASE_S = 86400.0  # the longest to believe: anybody may have written the file
_SIZE = 4096  # of the text in the lock file, so that each write replaces the whole previous text


def open_lock(path: str) -> int:
    """A descriptor of the lock file, which every user of the host may lock.

    Without O_CREAT first: in a sticky folder such as /tmp, fs.protected_regular refuses it for another's file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    for _ in range(5):
        try:
            fd = os.open(path, flags)
        except FileNotFoundError:
            mask = os.umask(0)  # with a mode that is changed later, a killed process would shut out other users
            try:
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            except OSError as error:
                raise wire.AgentError(f"cannot make the lock file {path}: {error.strerror}") from error
            finally:
                os.umask(mask)
        except OSError as error:
            raise wire.AgentError(f"cannot open the lock file {path}: {error.strerror}; remove it") from error
        info = os.fstat(fd)
        # It is written to. Under another name it might be a file that somebody wants destroyed.
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            os.close(fd)
            raise wire.AgentError(f"{path} is not a regular file, or has further hard links; remove it")
        return fd
    raise wire.AgentError(f"the lock file {path} keeps appearing and disappearing; somebody else uses this path")


def lock(arguments: list[str]) -> None:
    """`lock SESSION_DIR`: take the host's lock, start its keeper, then serve heartbeats as `hold` does.

    First stdin line: {"session", "owner": {…}, "lease_s", "beat_s", "lock"}. Prints {"state": "waiting", "owner",
    "seconds_left"} while a silent owner's lease runs out, then {"state": "held"}, or {"state": "busy", "owner"}.
    """
    (folder,) = arguments
    lines = wire.Lines()
    spec = wire.read_spec(lines)
    path = processes.lock_path(spec["lock"])
    fd = _acquire(path, lines)
    if fd is None:
        return
    try:
        _write(fd, b"")  # its keeper could tell nobody that there is no space
    except OSError as error:
        where = f"free space on the file system of {os.path.dirname(path)}"
        raise wire.AgentError(f"cannot write the lock file {path}: {error.strerror}; {where}") from error
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        folders.create(folder, spec["session"], spec["session"], "session", path)
    except FileExistsError as error:
        why = "another host of this target uses the same work folder; give each its own work_dir"
        raise wire.AgentError(f"{folder} exists: {why}") from error
    os.mkdir(os.path.join(folder, "scratch"))
    accounts = Accounts(folder)
    accounts.open()
    held = lease.Lease(folder, spec["lease_s"] + _MARGIN_S)
    if processes.daemonise(keep=(held.fd, fd)):
        try:
            accounts.join(os.getpid())
            _Keeper(folder, spec, path, fd, held).keep()
        finally:
            os._exit(0)
    held.close()
    os.close(fd)
    _hold(folder, lines)


def _acquire(path: str, lines: wire.Lines) -> int | None:
    """The descriptor that holds the lock; None when an owner is alive or the controller disconnected."""
    rival = None
    poller = select.poll()
    poller.register(lines.fd, select.POLLIN)
    while True:
        fd = open_lock(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, fd):
                return fd
        except BlockingIOError:
            rival = rival or _Rival()
            verdict = rival.judge(_read_owner(fd), path, fd)
            if verdict:
                wire.emit(verdict)
                if verdict["state"] == "busy":
                    return None
        os.close(fd)
        if poller.poll(200):
            lines.available()
            if lines.ended:
                return None


def _is_still(path: str, fd: int) -> bool:
    """Whether the locked file is the one others will find: a cleaner of /tmp may have removed it in between."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _write(fd: int, text: bytes) -> None:
    os.pwrite(fd, text[:_SIZE].ljust(_SIZE), 0)


def _read_owner(fd: int) -> dict:
    return wire.document(os.pread(fd, _SIZE, 0)) or {}


def holder(fd: int) -> str:
    """Which process has the lock, and which user runs it: any user of the host may lock a file in /tmp."""
    inode = os.fstat(fd).st_ino
    try:
        with open("/proc/locks", encoding="ascii") as file:
            # 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF
            found = [line.split() for line in file if ":" + str(inode) + " " in line and "->" not in line]
        pid = int(found[0][4])
        return "process %d of user %d" % (pid, os.stat("/proc/%d" % pid).st_uid)
    except (OSError, ValueError, IndexError):
        return "a process that is not visible from here"


class _Rival:
    """Watches who holds the lock, and tells a live owner from a silent one."""

    def __init__(self):
        self.since = time.monotonic()
        self.first: tuple | None = None
        self.told_at = -1e9

    def judge(self, held: dict, path: str, fd: int) -> dict | None:
        """A message for the controller, or None while there is nothing to say yet."""
        now = time.monotonic()
        try:
            seen = (held["session"], int(held["beats"]))
            # No beat came while we watched. What the file says of the last one may have been written by anybody.
            silent_s = max(now - self.since, now - float(held["last_beat"]))
            lease_s, beat_s = (min(_LONGEST_LEASE_S, float(held[name])) for name in ("lease_s", "beat_s"))
            owner = dict(held["owner"])
        except (KeyError, OverflowError, TypeError, ValueError):
            if now - self.since > _UNKNOWN_OWNER_S:
                return {"state": "busy", "owner": {}, "why": f"{holder(fd)} holds {path} without saying why"}
            return None
        self.first = self.first or seen
        if seen != self.first:
            return {"state": "busy", "owner": owner}
        if silent_s > lease_s + _AFTER_LEASE_S:
            return {
                "state": "busy",
                "owner": owner,
                "why": "its lease has expired, but its keeper does not release the lock",
            }
        if silent_s > 2 * beat_s + 1.0 and now - self.told_at > 10.0:
            self.told_at = now
            return {"state": "waiting", "owner": owner, "seconds_left": max(0.0, lease_s - silent_s)}
        return None


def hold(arguments: list[str]) -> None:
    """`hold SESSION_DIR`: serve heartbeats again after a dropped connection.

    Prints {"state": "released"} when the session has ended, and {"state": "left"} when its keeper is killed meanwhile.
    """
    _hold(arguments[0], wire.Lines())


def _hold(folder: str, lines: wire.Lines) -> None:
    renewal = watcher.attach(folder)
    if renewal is None:
        wire.emit({"state": "released", "boot_id": record.boot_id()})
        return
    lock = (folders.marker_of(folder) or {}).get("lock")
    wire.emit({"state": "held", "lock": lock, "boot_id": record.boot_id()})
    watcher.serve(renewal, lines)
    if not lines.ended:
        # The keeper removes the folder last, unless it is killed.
        wire.emit({"state": "released" if folders.marker_of(folder) is None else "left"})


def end(arguments: list[str]) -> None:
    """`end-session SESSION_DIR`: end a session whose keeper was killed, as it would have done itself.

    Prints {"left": whether the folder is still there}. If another session has the lock by now, it sweeps.
    """
    (folder,) = arguments
    marker = folders.marker_of(folder)
    if marker is not None:
        path = marker["lock"]
        with os.fdopen(open_lock(path), "r+b", buffering=0) as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file.fileno()):
                sweeper.end_session(_work_dir(folder), marker["session"], path)
                file.truncate(0)
    wire.emit({"left": folders.marker_of(folder) is not None})


def _work_dir(folder: str) -> str:
    return os.path.dirname(os.path.dirname(folder))


class _Keeper:
    def __init__(self, folder: str, spec: dict, path: str, fd: int, held: lease.Lease):
        self.folder, self.path, self.fd, self.lease = folder, path, fd, held
        self.session = spec["session"]
        self.work_dir = _work_dir(folder)
        self.text = {
            "owner": spec["owner"],
            "session": spec["session"],
            "lease_s": held.lease_s,
            "beat_s": spec["beat_s"],
            "boot_id": record.boot_id(),
        }

    def keep(self) -> None:
        """Hold the lock until release or lease expiry, then end and remove what the session left."""
        poller = select.poll()
        poller.register(self.lease.fd, select.POLLIN)
        try:
            # Once the file is gone, another session could lock a new one, and two loads would run at once.
            while self.lease.remaining_s > 0 and not self.lease.stop_asked and _is_still(self.path, self.fd):
                self._publish()
                if poller.poll(max(0.0, self.lease.remaining_s) * 1000 + 1):
                    self.lease.read()
                    self._renew_services()
            sweeper.end_session(self.work_dir, self.session, self.path)
        finally:
            os.ftruncate(self.fd, 0)

    def _publish(self) -> None:
        content = {**self.text, "beats": self.lease.beats, "last_beat": self.lease.last_beat}
        try:
            _write(self.fd, json.dumps(content).encode())
        except OSError as error:
            # Rivals see no heartbeat and wait, but cannot get the lock.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def _renew_services(self) -> None:
        """Services have no watcher of their own, so the session's heartbeat renews their leases."""
        if self.lease.stop_asked:
            return
        for path, marker in folders.listing(os.path.join(self.work_dir, "services")):
            if marker["session"] == self.session:
                lease.beat_once(path)


def scratch(arguments: list[str]) -> None:
    """`scratch SESSION_DIR PARENT`: this session's marked folder below PARENT, made at the first call.

    It is registered with the keeper before it is made, so that it cannot be forgotten. Its name is random, because in a
    folder such as /tmp another user could have made a folder of a predictable name.
    """
    session_dir, parent = arguments
    marker = folders.marker_of(session_dir)
    if marker is None:
        raise wire.AgentError("the session does not hold this host's lock, or has lost it")
    session = marker["session"]
    if not os.path.isabs(parent) or ".." in parent.split("/"):
        raise wire.AgentError(f"{parent!r} must be an absolute path without '..'")
    parent = os.path.realpath(parent)  # a user may name a mount by a symbolic link
    entry = os.path.join(session_dir, "scratch", record.safe_name(parent))
    mount = (folders.mount_of(parent) or {"point": "/"})["point"]
    try:
        if not os.path.exists(entry):
            folders.register_scratch(entry, os.path.join(parent, folders.SCRATCH + os.urandom(16).hex()), "", mount)
    except OSError as error:
        raise wire.AgentError(f"cannot register a folder in {parent}: {error}") from error
    path, owner, _ = folders.registered_scratch(entry)
    try:
        refusal = exposure.refusal(parent)
        if refusal:
            raise wire.AgentError(f"{parent} {refusal}")
        folders.create(path, folders.uuid_of_scratch(path), session, "scratch", marker["lock"])
        owner = os.lstat(path).st_uid
        if owner != os.geteuid():
            folders.register_scratch(entry, path, str(owner), mount)
    except FileExistsError as error:  # made by an earlier call
        if (folders.marker_of(path, owner) or {}).get("uuid") != folders.uuid_of_scratch(path):
            raise wire.AgentError(f"{path} exists and is not ours") from error
    except OSError as error:
        os.unlink(entry)
        raise wire.AgentError(f"cannot make a folder in {parent}: {error.strerror}") from error
    wire.emit({"path": path})
