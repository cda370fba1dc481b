"""paramiko's transport, with its endless waits fixed. Part of the SSH door.

paramiko's own keepalive does not ask for an answer, so it never notices a host that fell silent. And in a key exchange
the thread that must read the host's part may wait for itself for 30 s and then drop the connection.
docs/decisions/001-mended-ssh-transport.md says what else was tried.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from benchstudy.hosts.lean_paramiko import paramiko
from benchstudy.hosts.ssh_errors import ConnectionFailed

# Seconds without a byte from the host before we ask for a sign of life, and before we give up.
PROBE_AFTER_S = 10.0
SILENCE_LIMIT_S = 30.0
# How much the host may send in one packet, and before we acknowledge it.
PACKET_FROM_HOST = 128 << 10
WINDOW_FROM_HOST = 8 << 20
# How much is read from the kernel in one call; paramiko itself needs two calls per packet.
READ_AHEAD = 256 << 10
# paramiko sends at most one packet at a time.
PIECE = 32 << 10
# For paramiko 4, which pip and pipx install; 5 has dropped SHA-1 signatures (CVE-2026-44405).
_BY_SHA1 = {
    **{keys: ["ssh-rsa", "ssh-rsa-cert-v01@openssh.com"] for keys in ("keys", "pubkeys")},
    "kex": [f"diffie-hellman-group{which}-sha1" for which in ("-exchange", "1", "14")],
}


class Line:
    """The connected socket of a transport. It reads ahead, and ends when the host stops sending or accepting data."""

    def __init__(self, sock: socket.socket | paramiko.Channel):
        self._sock = sock
        self._ahead = memoryview(b"")
        self._heard = self._asked = time.monotonic()
        self.ask_for_sign_of_life: Callable[[], object] | None = None
        # Sending failed. The reading thread may notice much later, or never.
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recv(self, size: int) -> bytes:
        if not self._ahead:
            try:
                self._ahead = memoryview(self._sock.recv(READ_AHEAD))
            except TimeoutError:  # paramiko waits for 0.1 s at a time
                self._on_silence()
                raise
            self._heard = time.monotonic()
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return bytes(data)

    def send(self, data: bytes) -> int:
        begun = time.monotonic()
        while True:
            try:
                return self._sock.send(data)
            except TimeoutError:
                if time.monotonic() - begun > SILENCE_LIMIT_S:
                    self.broken = True
                    raise EOFError(f"the host accepted nothing for {SILENCE_LIMIT_S:.0f} s") from None
            except (OSError, EOFError):
                self.broken = True
                raise

    def _on_silence(self) -> None:
        now = time.monotonic()
        # This process may have been stopped meanwhile, so the host must have had time to answer a question.
        had_time = self.ask_for_sign_of_life is None or self._heard < self._asked < now - PROBE_AFTER_S
        if now - self._heard > SILENCE_LIMIT_S and had_time:
            raise EOFError(f"the host was silent for {SILENCE_LIMIT_S:.0f} s")
        if self.ask_for_sign_of_life and min(now - self._heard, now - self._asked) > PROBE_AFTER_S:
            self._asked = now
            self.ask_for_sign_of_life()


class Channels(paramiko.transport.ChannelMap):
    """The channels of a transport, whose values only the end of a connection asks for, before it closes them.

    A channel has no transport yet while it is being made. If a connection ends just then, paramiko's reading thread
    would trip over it, and never say that the connection ended. Whoever is making the channel then asks whether the
    connection is up, so it may be left out.
    """

    def __init__(self, line: Line):
        super().__init__()
        self._line = line

    def values(self) -> list[paramiko.Channel]:
        self._line.broken = True  # before anybody learns from a closed channel that something ended
        return [channel for channel in super().values() if channel.transport is not None]


class Transport(paramiko.Transport):
    """One SSH connection. Messages sent during a key exchange are queued, and their senders do not wait.

    paramiko makes each sender wait instead, including the reading thread (for the answer to a channel's close or to a
    request), which then waits for what only it could read. And queued messages may overtake that answer, or be
    overtaken: to a server, data for a closed channel is a protocol violation, and it ends the connection.
    """

    def __init__(self, sock: socket.socket | paramiko.Channel):
        self._line = Line(sock)
        # Its manual asks for a "socket-like object".
        super().__init__(self._line, disabled_algorithms=_BY_SHA1)  # type: ignore[arg-type]
        self._channels = Channels(self._line)
        self._waiting: deque[tuple[paramiko.Channel | None, paramiko.Message]] = deque()
        self._sender = threading.local()  # `channel`: the one this thread is sending for
        security = self.get_security_options()
        # AES-GCM first: one pass does both encryption and integrity.
        fastest = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
        security.ciphers = [cipher for cipher in fastest if cipher in security.ciphers]

    def allow(self, algorithms: Mapping[str, Sequence[str]]) -> None:
        """Allow only these, in this order, by paramiko's names. Raises ConnectionFailed if none is supported."""
        security = self.get_security_options()
        for kind in ("ciphers", "digests", "kex"):
            if kind in algorithms:
                known = [name for name in algorithms[kind] if name in getattr(security, kind)]
                if not known:
                    raise ConnectionFailed(
                        f"of {', '.join(algorithms[kind])} benchstudy supports none; it supports "
                        f"{', '.join(getattr(security, kind))}: allow one of them in your ssh configuration"
                    )
                setattr(security, kind, known)

    @property
    def usable(self) -> bool:
        """Whether the connection is up, as far as we have noticed."""
        return self.is_active() and not self._line.broken

    def watch_for_silence(self) -> None:
        """From now on probe a silent host. Before, whoever connects has a timeout of its own."""
        self._line.ask_for_sign_of_life = self._ask_for_sign_of_life

    def open_for_command(self, timeout_s: float) -> paramiko.Channel:
        """A channel with room for large packets, whose sends may take `timeout_s`.

        A silent host ends the connection before this stops to wait.
        """
        try:
            channel = self.open_channel(
                "session",
                window_size=WINDOW_FROM_HOST,
                max_packet_size=PACKET_FROM_HOST,
                timeout=2 * SILENCE_LIMIT_S,
            )
        except paramiko.ChannelException:
            raise
        except paramiko.SSHException:
            self._line.broken = True  # a reconnect would keep it, and nobody would close what the host opens later
            raise
        channel.settimeout(timeout_s)
        return channel

    def send_some(self, channel: paramiko.Channel, data: memoryview, timeout_s: float | None) -> int:
        """Send as much of `data` as the host has room for. Returns how much; 0 when the command has ended.

        Raises TimeoutError: the host has no room.
        """
        channel.settimeout(timeout_s)
        try:
            with self._sending_for(channel):
                return channel.send(bytes(data[:PIECE]))
        except TimeoutError:
            raise
        except OSError:
            if channel.closed or channel.eof_sent:
                return 0
            raise

    def end_input(self, channel: paramiko.Channel) -> None:
        """Tell the command that nothing more will come."""
        with self._sending_for(channel):
            channel.shutdown_write()

    @contextmanager
    def _sending_for(self, channel: paramiko.Channel) -> Iterator[None]:
        """Messages from this thread belong to the channel, and are dropped if it is closed while they wait."""
        self._sender.channel = channel
        try:
            yield
        finally:
            self._sender.channel = None

    def _ask_for_sign_of_life(self) -> None:
        def ask() -> None:
            with suppress(paramiko.SSHException, EOFError, OSError):  # whoever waits for the host gets the error
                self.global_request("keepalive@openssh.com", wait=True)

        # In a separate thread, because the calling one must read the answer. Even "unknown request" will do.
        threading.Thread(target=ask, daemon=True).start()

    def get_exception(self) -> Exception | None:
        """What ended the connection, for paramiko, which raises it in whoever waits: always one of its usual errors."""
        error = super().get_exception()
        if error is None or isinstance(error, (paramiko.SSHException, EOFError, OSError)):
            return error
        return paramiko.SSHException(f"{type(error).__name__}: {error}")  # such as a packet that was altered on its way

    def _send_user_message(self, data: paramiko.Message) -> None:
        """Raises EOFError after the end of the connection: its sender would wait for an answer for ever."""
        with self.clear_to_send_lock:
            if not self.usable:
                raise EOFError("the connection has ended")
            self._waiting.append((getattr(self._sender, "channel", None), data))
            if self.clear_to_send.is_set():
                self._send_waiting()

    def _parse_newkeys(self, m: paramiko.Message) -> None:
        super()._parse_newkeys(m)  # type: ignore[misc]  # the stubs leave it out
        with self.clear_to_send_lock:
            self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting:
            channel, message = self._waiting.popleft()
            # Its channel may have been closed while it waited. The lock is held, so no close is sent in between.
            if self.is_active() and not (channel is not None and channel.closed):
                self._send_message(message)  # type: ignore[attr-defined]  # the stubs leave it out
