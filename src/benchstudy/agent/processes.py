"""Starts processes and finds all their descendants, however they hide."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress

import kernel

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(Exception):
    """The program could not be executed; the message says why."""


def become_subreaper() -> None:
    """Make every orphaned descendant, double-forked or not, a child of this process."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def daemonise(keep: tuple[int, ...] = ()) -> bool:
    """Leave the SSH connection: True in the daemon (own session, no standard streams), False in the caller.

    `keep`: file descriptors that the daemon needs. All others are closed, because an open one keeps the connection.
    """
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in keep:
            with suppress(OSError):  # the descriptor that the listing itself used
                os.close(fd)
    return True


def spawn(
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    streams: tuple[int, int, int],
    admit: Callable[[int], None] | None = None,
    terminal: bool = False,
) -> int:
    """Start `argv` in a new session; the kernel kills it if this process dies. Raises StartFailed.

    `admit`: called with the process number before the program is executed; if it raises, the process ends.
    `terminal`: the first of `streams` is a terminal, and becomes the session's controlling terminal.
    """
    parent = os.getpid()
    failure_read, failure_write = os.pipe()
    gate = os.pipe() if admit is not None else None
    pid = os.fork()
    if pid == 0:
        _become(argv, env, cwd, streams, parent, failure_write, gate, terminal)
    os.close(failure_write)
    if gate is not None and admit is not None:
        os.close(gate[0])
        try:
            admit(pid)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(failure_read)
            raise
        finally:
            os.close(gate[1])
    with open(failure_read, "rb") as failure:
        report = failure.read()
    if report:
        os.waitpid(pid, 0)
        (number,) = struct.unpack("i", report)
        raise StartFailed(f"cannot start {argv[0]!r}: {os.strerror(number)}")
    return pid


def _become(argv, env, cwd, streams, parent: int, failure: int, gate, terminal: bool) -> None:
    """What the child does between fork and exec; a failure goes to the parent as an errno."""
    try:
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above took effect
            os._exit(127)
        if gate is not None:
            os.close(gate[1])
            os.read(gate[0], 1)  # until the parent closes its end
        signal.set_wakeup_fd(-1)
        # Python ignores these two signals; a program expects the defaults.
        for number in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
            signal.SIGCHLD,
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGHUP,
        ):
            signal.signal(number, signal.SIG_DFL)
        copies = [os.dup(fd) for fd in streams]
        for target, copy in enumerate(copies):
            os.dup2(copy, target)
        if terminal:
            import fcntl  # every command would pay for this import, and few have a terminal
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # it is now /dev/tty
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(failure, struct.pack("i", error.errno or 0))
    except ValueError:
        os.write(failure, struct.pack("i", 22))
    finally:
        os._exit(127)


def parents() -> dict[int, int]:
    """Every process and its parent, as /proc says now."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError):  # ended in the meantime
                table[int(name)] = int(kernel.stat(int(name))[1])
    return table


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents before their children."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for process in found:
        found.extend(children.get(process, ()))
    return found


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def name_of(pid: int) -> str:
    return kernel.comm(pid).decode("utf-8", "replace") or "?"


def is_zombie(pid: int) -> bool:
    try:
        return kernel.stat(pid)[0] == b"Z"
    except (OSError, IndexError):
        return True


def send(pids: list[int], number: int) -> list[int]:
    """Signal each. Returns those we may not signal (another user's, as under sudo)."""
    refused = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(pid)
    return refused


DEFAULT_LOCK = "/tmp/benchstudy.lock"


def lock_path(given: str) -> str:
    """The host's lock file: the one the controller names, else the one in the host's environment, else the default."""
    return given or os.environ.get("BENCHSTUDY_HOST_LOCK", DEFAULT_LOCK)


def marks(uuid: str, session: str, lock: str) -> dict[str, str]:
    """The environment variables that mark every process started for a session, so that it can be found again."""
    return {"BENCHSTUDY_RUN": uuid, "BENCHSTUDY_SESSION": session, "BENCHSTUDY_LOCK": lock_mark(lock)}


def lock_mark(lock: str) -> str:
    """Identifies the file itself: in a container another file may have the same path."""
    try:
        info = os.stat(lock)
    except OSError:
        return lock
    return f"{lock}:{info.st_dev}:{info.st_ino}"


def marked(wanted: Callable[[dict[str, str]], bool]) -> list[int]:
    """The processes (of this user, unless root) whose marks satisfy `wanted`."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue  # gone, or not ours
        carried = dict(entry.split("=", 1) for entry in entries if entry.startswith("BENCHSTUDY_") and "=" in entry)
        if "BENCHSTUDY_RUN" in carried and wanted(carried):
            found.append(int(name))
    return found


def end(find: Callable[[], list[int]], grace_s: float = 3.0) -> list[str]:
    """Send TERM, and KILL after the grace period, until `find` finds nothing. Returns the names of what was ended."""
    found = find()
    names = [f"{name_of(pid)} ({pid})" for pid in found]
    send(found, signal.SIGTERM)
    patience = time.monotonic() + grace_s
    while found and time.monotonic() < patience + 10.0:
        time.sleep(0.05)
        found = [pid for pid in find() if not is_zombie(pid)]
        if time.monotonic() > patience:
            send(found, signal.SIGKILL)
    return names
