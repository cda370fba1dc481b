"""One SSH connection: connect, run, open. Files go over it in `transfer`; both together are `remote.Remote`.

A command is a list of arguments and is quoted once, here; no study, file or host name can become shell code.
"""

import contextlib
import math
import random
import re
import shlex
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from benchstudy.hosts import loopback
from benchstudy.hosts.interrupts import asked, interruptible, pause
from benchstudy.hosts.lean_paramiko import paramiko
from benchstudy.hosts.ssh_config import Endpoint, resolve
from benchstudy.hosts.ssh_errors import (
    CommandEnded,
    CommandFailed,
    CommandTimeout,
    Completed,
    ConnectionFailed,
    ConnectionLost,
    ContentRefused,
    RemoteError,
    Unreachable,
    why,
)
from benchstudy.hosts.ssh_link import Link
from benchstudy.model import paths
from benchstudy.model.host import Host

# One read takes what arrived, up to about this much: large enough that Python's share of the work is small.
# Passing 256 KiB at a time between threads took a quarter of a transfer's time.
CHUNK = 2 << 20
LONGEST_LINE = 32 << 20  # of an answer; endless output must not fill this machine's memory
STDERR_KEPT = 64 << 10
# How long a process that was told to end may take before it is killed.
TERM_GRACE_S = 2.0
_END_S = 30.0  # and how much longer a loaded host may take to say so
# The first line of every command's output, so that it can be ended by its process id later.
PID_LINE = re.compile(rb"benchstudy-pid (\d{1,10})\n")
LAUNCHER = 'echo "benchstudy-pid $$"; exec "$@"'
# $1: process group, $2: tenths of a second between TERM and KILL.
END_GROUP = """exec 2>/dev/null
kill -s TERM -- "-$1" || exit 0
i=0
while kill -s 0 -- "-$1" && [ "$i" -lt "$2" ]; do sleep 0.1; i=$((i + 1)); done
kill -s KILL -- "-$1"
"""


class RemoteProcess:
    """A running command with pipes on its three streams. Close it; leaving a `with` block does."""

    def __init__(self, remote: "Connection", argv: Sequence[str]):
        self.argv = tuple(argv)
        # On the host, where it is also its process group; None until the host has reported it.
        self.pid: int | None = None
        self._remote = remote
        self._stdout = bytearray()
        self._stderr = bytearray()
        command = shlex.join(["sh", "-c", LAUNCHER, "sh", *_checked(argv)])
        with remote._lost_if_broken():
            transport = remote._transport()
            self._transport = transport
            try:
                self.channel = transport.open_for_command(remote.connect_timeout_s)
            except paramiko.ChannelException as error:  # a new connection would soon be at the same limit
                raise RemoteError(
                    f"{self.name}: its SSH server refuses a further session on one connection ({why(error)}): "
                    "if its sshd_config sets MaxSessions, set it to 10, which is the default"
                ) from error
            self._arrived = threading.Event()
            for arriving in (self.channel.in_buffer, self.channel.in_stderr_buffer):
                arriving.set_event(self._arrived)
            self.channel.exec_command(_for_any_shell(f"exec {command}"))

    def __enter__(self) -> "RemoteProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes | memoryview, timeout_s: float | None = 60.0) -> None:
        """Write all of `data` to its standard input.

        Raises:
            CommandEnded: it no longer reads.
            ConnectionLost: also when it accepts nothing for `timeout_s`.
        """
        view = memoryview(data)
        with self._remote._lost_if_broken():
            while view:
                # Nobody reads what is sent to an ended command, although the host may close its channel a moment later.
                ended = self.channel.exit_status_ready()
                sent = 0 if ended else self._transport.send_some(self.channel, view, timeout_s)
                if sent == 0:
                    self._raise_if_lost()
                    raise CommandEnded(f"{self.name}: `{_shown(self.argv)}` ended before it read all its input")
                view = view[sent:]

    def write_line(self, line: bytes) -> None:
        """Write to a command that may have ended: the next read gets its last output or end. Raises ConnectionLost."""
        with contextlib.suppress(CommandEnded):
            self.write(line + b"\n")

    def close_stdin(self) -> None:
        with self._remote._lost_if_broken():
            self._transport.end_input(self.channel)

    def read(self, timeout_s: float | None) -> tuple[bytes, bytes] | None:
        """What is available on (stdout, stderr), after waiting for some; two empty ones at the end, None on timeout."""
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # The state before the buffers: what arrives in between is then seen in the next round and not lost.
            ended = self.channel.eof_received or self.channel.closed
            with self._remote._lost_if_broken():  # taking data also tells the host that there is room for more
                out = self.channel.recv(CHUNK) if self.channel.recv_ready() else b""
                err = self.channel.recv_stderr(CHUNK) if self.channel.recv_stderr_ready() else b""
            if out and self.pid is None:
                out = self._take_pid(out)
            if out or err:
                return out, err
            if ended and not (self.channel.recv_ready() or self.channel.recv_stderr_ready()):
                out = bytes(self._stdout) if self.pid is None else b""
                self._stdout.clear()
                return out, b""
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            with interruptible():
                self._arrived.wait(min(left_s, threading.TIMEOUT_MAX))

    def read_line(self, timeout_s: float | None) -> bytes | None:
        """The next line of standard output, with its newline; b"" at the end; None when none came in time.

        Raises:
            ConnectionLost: also when the connection ended in the middle of the output.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            line, newline, rest = self._lines().partition(b"\n")
            if newline:
                self._stdout = bytearray(rest)
                return bytes(line + newline)
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            out = self.read_output(left_s)
            if out is None:
                return None
            if not out:
                left, self._stdout = bytes(self._stdout), bytearray()
                return left
            self._stdout += out
            self._refuse_endless()

    def read_output(self, timeout_s: float | None) -> bytes | None:
        """What is available on standard output, as is; b"" at the end; None when nothing came in time.

        Standard error is kept for `stderr_tail`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            got = self.read(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if got is None:
                return None
            self._stderr += got[1]
            del self._stderr[:-STDERR_KEPT]
            if got[0]:
                return got[0]
            if not got[1]:
                self.wait(TERM_GRACE_S)
                return b""

    @property
    def name(self) -> str:
        return self._remote.name

    @property
    def stderr_tail(self) -> str:
        """The end of what read_line and read_output found on standard error."""
        return self._stderr.decode(errors="replace")

    def wait(self, timeout_s: float | None) -> int | None:
        """The exit status, once both streams have ended; -1 for a signal; None on timeout. Raises ConnectionLost."""
        with interruptible():
            ended = self.channel.status_event.wait(timeout_s)
        if not ended:
            return None
        if self.channel.exit_status == -1:
            self._raise_if_lost()
        return self.channel.exit_status

    def _raise_if_lost(self) -> None:
        """A closed channel means that the command ended, or that the connection ended, whose thread will stop."""
        self._transport.join(0.2)
        if not self._transport.usable:
            raise ConnectionLost(f"{self.name}: the connection was lost while `{_shown(self.argv)}` was running")

    def kill(self) -> None:
        """End its whole process group: TERM, then KILL after TERM_GRACE_S."""
        if self.pid is not None:
            argv = ["sh", "-c", END_GROUP, "sh", str(self.pid), str(int(TERM_GRACE_S * 10))]
            with self._remote.open(argv) as ending:
                ending.read_output(TERM_GRACE_S + _END_S)  # if not even this ends, the lease will end everything

    def close(self) -> None:
        # A lost connection needs no close, and a caller that closes after an error already has that error.
        with contextlib.suppress(ConnectionLost), self._remote._lost_if_broken():
            self.channel.close()

    def _lines(self) -> bytearray:
        return self._stdout if self.pid is not None else bytearray()

    def _refuse_endless(self) -> None:
        if len(self._stdout) > LONGEST_LINE:
            self.close()
            raise ContentRefused(f"{self.name}: `{_shown(self.argv)}` wrote a line of more than {LONGEST_LINE} bytes")

    def _take_pid(self, out: bytes) -> bytes:
        """Remove the launcher's line, and what a chatty shell start-up file wrote before it."""
        self._stdout += out
        self._refuse_endless()
        told = PID_LINE.search(self._stdout)
        if told is None:
            return b""
        self.pid = int(told[1])
        rest = bytes(self._stdout[told.end() :])
        self._stdout.clear()
        return rest


class Connection:
    """One SSH connection to one host; a context manager. Its methods may be called from several threads.

    `reconnect_s`: how long to try to get a lost connection back; a study says it to the host's agent.
    """

    reconnect_s = 60.0

    def __init__(self, name: str, host: Host, *, connect_timeout_s: float = 15.0, loopback_state: Path | None = None):
        self.name, self.host = name, host
        self.connect_timeout_s = connect_timeout_s
        self._loopback_state = loopback_state
        self._resources = contextlib.ExitStack()
        self._lock = threading.RLock()
        self._endpoint: Endpoint | None = None
        self._link: Link | None = None
        self._home: str | None = None

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Self:
        """Connect, unless already connected.

        Raises:
            HostKeyUnknown, HostKeyChanged: before anything is sent to authenticate.
            AuthenticationFailed, Unreachable
        """
        with self._lock:
            if self._link is None or not self._link.alive:
                self._drop_link()
                if self._endpoint is None:
                    self._endpoint = self._find_endpoint()
                self._link = Link(self.name, self._endpoint, self.connect_timeout_s)
        return self

    def close(self) -> None:
        with self._lock:
            self._drop_link()
            self._endpoint = None
            self._resources.close()

    def reconnect(self) -> Self:
        """Connect again, trying for `reconnect_s`. Does nothing if another thread already did.

        Raises, with the `host`:
            Unreachable: when the time is over, or after an interrupt.
            HostKeyChanged, HostKeyUnknown, AuthenticationFailed: at once, since waiting would not help.
        """
        deadline = time.monotonic() + self.reconnect_s
        pause_s = 0.1
        while True:
            try:
                return self.connect()
            except ConnectionFailed as error:
                error.host = self.name
                left_s = deadline - time.monotonic()
                if not isinstance(error, Unreachable) or left_s <= 0 or asked():
                    raise
            # Jitter, so that many controllers of one rebooted host do not come back in step.
            pause(min(left_s, pause_s * random.uniform(0.5, 1.0)))
            pause_s = min(5.0, pause_s * 2)

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        timeout_s: float | None = 60.0,
        check: bool = True,
        max_output_bytes: int = 64 << 20,
    ) -> Completed:
        """Run a command to its end.

        Raises:
            CommandFailed: exit status other than 0 (with `check`), more than `max_output_bytes` on one stream, or the
                login shell ran nothing.
            CommandTimeout: it was ended after `timeout_s`.
            ConnectionLost
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        streams = {"stdout": bytearray(), "stderr": bytearray()}

        with RemoteProcess(self, argv) as process:
            feeder = threading.Thread(target=_feed, args=(process, input), daemon=True)
            feeder.start()
            while True:
                got = process.read(None if deadline is None else max(0.0, deadline - time.monotonic()))
                if got is None:
                    process.kill()
                    raise CommandTimeout(f"{self.name}: `{_shown(argv)}` was ended after {timeout_s:g} s")
                if got == (b"", b""):
                    break
                for (stream, held), new in zip(streams.items(), got, strict=True):
                    held += new
                    if len(held) > max_output_bytes:
                        process.kill()
                        del held[max_output_bytes:]
                        raise CommandFailed(
                            f"{self.name}: `{_shown(argv)}` was ended: it wrote more than {max_output_bytes} bytes "
                            f"to {stream}; let it write into a file instead",
                            Completed(-1, *map(bytes, streams.values())),
                        )
            status = process.wait(None if deadline is None else max(1.0, deadline - time.monotonic()))
            if status is None:
                process.kill()
                raise CommandTimeout(f"{self.name}: `{_shown(argv)}` was ended after {timeout_s:g} s")
        completed = Completed(status, *map(bytes, streams.values()))
        if process.pid is None and status >= 0:  # whatever its status, it answers nothing
            tail = completed.stderr.decode(errors="replace").strip()[-2000:] or "no message"
            raise CommandFailed(
                f"{self.name}: no command can be run there; does the user's login shell run commands? Its start-up "
                f"files, such as ~/.bashrc, must not end or replace it (it ended with status {status}: {tail})",
                completed,
            )
        if check and status != 0:
            tail = completed.stderr.decode(errors="replace").strip()[-2000:] or "no message"
            raise CommandFailed(f"{self.name}: `{_shown(argv)}` ended with status {status}: {tail}", completed)
        return completed

    def open(self, argv: Sequence[str]) -> RemoteProcess:
        """Start a command and talk with it. Raises ConnectionLost."""
        return RemoteProcess(self, argv)

    @property
    def home(self) -> str:
        """The user's home on the host. Raises CommandFailed if no command can run there."""
        if self._home is None:
            self._home = self.run(["sh", "-c", 'printf %s "$HOME"']).text
        return self._home

    def expand(self, path: str) -> str:
        """`~` and `~/x` made absolute; other paths unchanged."""
        if path == "~" or path.startswith("~/"):
            return self.home.rstrip("/") + path[1:]
        return path

    def _find_endpoint(self) -> Endpoint:
        if not self.host.loopback:
            return resolve(self.name, self.host)
        state = self._loopback_state or paths.loopback_state(paths.project_root())
        found = self._resources.enter_context(loopback.running(state))
        return Endpoint(
            hostname=found.address,
            port=found.port,
            user=found.user,
            identity_files=(found.identity_file,),
            identities_only=True,
            known_hosts=(found.known_hosts,),
            host_key_alias=found.host_key_alias,
        )

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _transport(self):
        link = self._link
        if link is None or not link.alive:
            raise ConnectionLost(f"{self.name}: there is no connection")
        return link.transport

    @contextlib.contextmanager
    def _lost_if_broken(self):
        """paramiko reports a lost connection in five ways; callers need one."""
        try:
            yield
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise ConnectionLost(f"{self.name}: the connection was lost: {why(error)}") from error


def _feed(process: RemoteProcess, data: bytes) -> None:
    """Write standard input while the output is read: a command may write before it has read everything."""
    # A command may end without reading all of its input; a lost connection shows at the output.
    with contextlib.suppress(ConnectionLost, CommandEnded):
        if data:
            process.write(data, None)
        process.close_stdin()


def _checked(argv: Sequence[str]) -> list[str]:
    if isinstance(argv, str) or not argv:
        raise ValueError(f"a command is a list of arguments, not {argv!r}")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"{argument!r} cannot be an argument of a command")
    return list(argv)


def _for_any_shell(command: str) -> str:
    """The command for any login shell: between quotes, csh refuses newlines and `!`, and fish changes backslashes."""
    if not re.search(r"[\n!\\]", command):
        return command
    encoded = re.sub(r"[\n!\\']", lambda found: f"\\0{ord(found[0]):03o}", command)
    return f"""exec sh -c 'eval "$(printf %b "$1")"' sh '{encoded}'"""


def _shown(argv: Sequence[str]) -> str:
    """A command in the form shown in one-line messages."""
    text = shlex.join(argv).replace("\n", "\\n")
    return text if len(text) <= 200 else text[:200] + "…"
