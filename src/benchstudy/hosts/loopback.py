"""This machine as a real SSH host: an OpenSSH sshd of the project's own on 127.0.0.1.

It has its own host key, its own user key and a free high port. The key is pinned under an alias, so nothing of the
user's own SSH set-up is read or changed. Several processes share one sshd: each holds a shared lock, and the last one
stops it.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import lock_if_free, write_atomically

ADDRESS = "127.0.0.1"
HOST_KEY_ALIAS = "benchstudy-loopback"
READY_TIMEOUT_S = 10.0


class LoopbackFailed(BenchstudyError):
    """This machine could not be made an SSH host; the message says what is missing."""


@dataclass(frozen=True)
class LoopbackAddress:
    """All that a connection needs."""

    address: str
    port: int
    user: str
    identity_file: Path
    known_hosts: Path
    host_key_alias: str


def parameters(state: Path) -> LoopbackAddress:
    """Where the sshd of `state` listens. Raises LoopbackFailed if it never ran."""
    state = state.resolve()
    try:
        port = int((state / "port").read_text())
    except (FileNotFoundError, ValueError) as error:
        raise LoopbackFailed(f"{state}: no sshd was started here yet") from error
    user = pwd.getpwuid(os.getuid()).pw_name
    return LoopbackAddress(ADDRESS, port, user, state / "user_key", state / "known_hosts", HOST_KEY_ALIAS)


@contextlib.contextmanager
def running(state: Path) -> Iterator[LoopbackAddress]:
    """Keep this machine's sshd running; it stops when the last holder, in any process, releases it.

    Raises:
        LoopbackFailed: there is no sshd program, or it does not start; the message has its output.
    """
    state = state.resolve()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    state.chmod(0o700)
    with open(state / "users.lock", "a") as users:
        with _exclusive(state / "change.lock"):
            _ensure_keys(state)
            _ensure_sshd(state)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield parameters(state)
        finally:
            with _exclusive(state / "change.lock"):
                # A killed process holds no lock, so the number of users cannot be wrong.
                if lock_if_free(users.fileno()):
                    _stop_sshd(state)


@contextlib.contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    with open(file, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ensure_keys(state: Path) -> None:
    for name in ("host_key", "user_key"):
        pair = (state / name, state / f"{name}.pub")
        # ssh-keygen leaves an empty file if the disk is full.
        if not all(file.is_file() and file.stat().st_size for file in pair):
            for leftover in pair:
                leftover.unlink(missing_ok=True)
            made = ["-t", "ed25519", "-N", "", "-C", "benchstudy"]
            _run([_program("ssh-keygen"), "-q", *made, "-f", str(state / name)])
    host_key = (state / "host_key.pub").read_text().split()
    # Other users of the sshd may read both at this moment.
    write_atomically(state / "known_hosts", f"{HOST_KEY_ALIAS} {host_key[0]} {host_key[1]}\n")
    write_atomically(state / "authorized_keys", (state / "user_key.pub").read_text())


def _ensure_sshd(state: Path) -> None:
    if running_sshd(state) is not None and _answers(parameters(state).port):
        return
    _stop_sshd(state)
    sshd = _program("sshd")
    if os.getuid() == 0:
        # Debian's sshd needs its privilege separation folder, which its service unit would make.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = _usable_port(state)
    settings = (
        f"Port {port}",
        f"ListenAddress {ADDRESS}",
        f'HostKey "{state}/host_key"',
        f'PidFile "{state}/sshd.pid"',
        f'AuthorizedKeysFile "{str(state).replace("%", "%%")}/authorized_keys"',  # sshd fills in %h and the like here
        # The project may lie in a folder that others can write to; the state folder itself is 0700.
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        f"AllowUsers {pwd.getpwuid(os.getuid()).pw_name}",
        # A login shell started by sshd reads ~/.bashrc only at the first shell level. What a user has
        # there would slow down every command, and make this host differ from user to user.
        "SetEnv SHLVL=1",
        "UseDNS no",
        "MaxSessions 100",
        "MaxStartups 100",
        "Subsystem sftp internal-sftp",
    )
    (state / "sshd_config").write_text("".join(f"{line}\n" for line in settings))
    (state / "sshd.pid").unlink(missing_ok=True)
    log = state / "sshd.log"
    log.unlink(missing_ok=True)
    _run([sshd, "-f", str(state / "sshd_config"), "-E", str(log)])
    deadline = time.monotonic() + READY_TIMEOUT_S
    # sshd goes to the background before it listens, so its port is probed, and its pid file shows that it is ours.
    while not (running_sshd(state) and _answers(port)):
        if time.monotonic() > deadline:
            raise LoopbackFailed(f"sshd did not start on {ADDRESS} port {port}: {_tail(log)}")
        time.sleep(0.005)


def _usable_port(state: Path) -> int:
    """The previous port if it is free, else any free one, so that addresses stay the same from run to run."""
    candidates = [0]
    with contextlib.suppress(LoopbackFailed):
        candidates.insert(0, parameters(state).port)
    for candidate in candidates:
        with socket.socket() as probe:
            # Like sshd: an earlier sshd's connections in TIME_WAIT do not occupy the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, candidate))
            except OSError:
                continue
            port = probe.getsockname()[1]
        (state / "port").write_text(f"{port}\n")
        return port
    raise LoopbackFailed(f"no free port on {ADDRESS}")


def running_sshd(state: Path) -> int | None:
    """The pid of the running sshd that was started for `state`, however it was left running."""
    try:
        pid = int((state / "sshd.pid").read_text())
        argv = Path(f"/proc/{pid}/cmdline").read_bytes()
        owner = Path(f"/proc/{pid}").stat().st_uid
    except (OSError, ValueError):
        return None
    # The system reuses pids: only a process that names our own configuration is ours. sshd rewrites its
    # title to one string, in which the arguments stay readable.
    config = os.fsencode(state / "sshd_config")
    is_ours = b"sshd" in argv and (config in argv or _in_title(config) in argv)
    return pid if is_ours and owner == os.getuid() else None


def _in_title(path: bytes) -> bytes:
    """A path as sshd writes it into its title: `\\303\\274` for each byte of "ü"."""
    return b"".join(bytes([b]) if 0x20 <= b < 0x7F else b"\\%03o" % b for b in path)


def _stop_sshd(state: Path) -> None:
    """Stop the listener; connections that are still open end on their own."""
    pid = running_sshd(state)
    if pid is None:
        return
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while running_sshd(state) is not None:
            if time.monotonic() > deadline:
                raise LoopbackFailed(f"the sshd with pid {pid} does not stop")
            time.sleep(0.005)
    finally:
        os.close(process)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((ADDRESS, port), timeout=1.0):
            return True
    except OSError:
        return False


def _program(name: str) -> str:
    # sshd lives in /usr/sbin, which is not on every user's PATH.
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise LoopbackFailed(
            f"there is no {name} on this machine: install the package openssh-server "
            "(Debian, Ubuntu: apt-get install openssh-server; Fedora: dnf install openssh-server)"
        )
    return found


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
    if done.returncode:
        raise LoopbackFailed(
            f"{' '.join(argv)} failed: {done.stderr.strip() or done.stdout.strip() or done.returncode}"
        )


def _tail(file: Path) -> str:
    return file.read_text(errors="replace")[-2000:].strip() if file.is_file() else "it left no log"
