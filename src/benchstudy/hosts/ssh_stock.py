"""paramiko's transport as it is, with what a connection here asks of one. Part of the SSH door.

Uses what paramiko documents, so that it works with any version; `ssh_quick` says what that lacks.
"""

import select
import socket
import threading
from math import inf
from typing import Any

import paramiko

# Seconds without a byte from the host after which we ask for a sign of life, and after which we give it up.
PROBE_AFTER_S = 10.0
SILENCE_LIMIT_S = 30.0
# What the host may send us in one packet, and before we acknowledge it.
PACKET_FROM_HOST = 128 << 10
WINDOW_FROM_HOST = 8 << 20
# paramiko sends at most one packet at a time.
_PIECE = 32 << 10


class StockStream:
    """The channel of one command, with its three streams."""

    def __init__(self, channel: paramiko.Channel):
        self.channel = channel

    def expect_bulk(self, chunk: int) -> None:
        """From now on `worth_reading` may wait for about `chunk` bytes, or until nothing more comes for a moment."""

    def look(self) -> None:
        """To be called before looking at what is there: `wait` then waits for what comes after this."""

    def worth_reading(self) -> bool:
        """Whether there is enough on standard output."""
        return self.channel.recv_ready()

    def wait(self, timeout_s: float) -> bool:
        """Until something arrived, or all has ended; False when that took too long."""
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        return bool(poll.poll(None if timeout_s == inf else min(timeout_s, threading.TIMEOUT_MAX) * 1000))

    def send_some(self, data: memoryview, timeout_s: float | None) -> int:
        """Send as much of `data` as the host has room for; how much, 0 when the command has ended.

        Raises:
            TimeoutError: the host has no room.
        """
        self.channel.settimeout(timeout_s)
        try:
            return self.channel.send(bytes(data[:_PIECE]))
        except TimeoutError:
            raise
        except OSError:
            if self.channel.closed or self.channel.eof_sent:
                return 0
            raise

    def end_input(self) -> None:
        """Tell the command that nothing more will come."""
        self.channel.shutdown_write()


class StockTransport(paramiko.Transport):
    """Prefers AES-GCM; a host that fell silent is noticed by whoever waits for it only, or by the kernel."""

    stream_class: type[StockStream] = StockStream

    def __init__(self, sock: socket.socket | paramiko.Channel, **options: Any):
        super().__init__(sock, **options)
        security = self.get_security_options()
        # One pass does both encryption and integrity.
        fastest = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
        security.ciphers = [cipher for cipher in fastest if cipher in security.ciphers]

    @property
    def usable(self) -> bool:
        """Whether the connection stands, as far as anybody here noticed."""
        return self.is_active()

    def watch_for_silence(self) -> None:
        self.set_keepalive(int(PROBE_AFTER_S))

    def open_stream(self, timeout_s: float) -> StockStream:
        """A channel for one command, with room for large packets."""
        channel = self.open_channel(
            "session", window_size=WINDOW_FROM_HOST, max_packet_size=PACKET_FROM_HOST, timeout=timeout_s
        )
        channel.settimeout(timeout_s)
        return self.stream_class(channel)
