"""paramiko's transport, made quick for bulk data and mended where it waits for ever. Part of the SSH door.

Why not paramiko as it is: it spends its time on copies and system calls for packets of 32 KiB (a gigabyte costs 4 s
of Python, of which encryption is 0.1 s), its keepalive asks for no answer, and its reading thread can wait for itself
during a key exchange. Only the packets of AES-GCM are handled here; with any other cipher paramiko's own code runs.

This needs names of paramiko that it promises to nobody: `what_is_missing` knows all of them, and `ssh_transport` uses
paramiko as it is where one of them is not as it was. What it buys: docs/decisions/001-quick-ssh-packets.md.
"""

import collections
import inspect
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF, cMSG_GLOBAL_REQUEST
from paramiko.packet import NeedRekeyException, Packetizer

from benchstudy.hosts.ssh_stock import PROBE_AFTER_S, SILENCE_LIMIT_S, StockStream, StockTransport

GCM_TAG = 16
# OpenSSH refuses to send or take larger packets.
LARGEST_PACKET = 256 << 10
_CHANNEL_DATA = cMSG_CHANNEL_DATA[0]
# How much is encrypted before it is handed to the kernel in one call.
BATCH = 512 << 10


class EndOfInput:
    """The end of what a channel is sent."""

    def __init__(self, channel: paramiko.Channel):
        self.channel = channel

    def packets(self) -> Iterator[Sequence[bytes | memoryview]]:
        yield cMSG_CHANNEL_EOF, self.channel.remote_chanid.to_bytes(4, "big")


class DataBatch:
    """Data for a channel, to be sent as several packets at once."""

    def __init__(self, channel: paramiko.Channel, data: memoryview):
        self.channel, self.data = channel, data

    def packets(self) -> Iterator[Sequence[bytes | memoryview]]:
        most = self.channel.out_max_packet_size - 64
        prefix = cMSG_CHANNEL_DATA + self.channel.remote_chanid.to_bytes(4, "big")
        for start in range(0, len(self.data), most):
            part = self.data[start : start + most]
            yield prefix, len(part).to_bytes(4, "big"), part


class GcmPackets(Packetizer):
    """Packets of AES-GCM in few system calls and copies; notices a host that fell silent."""

    # The life of a key is left to OpenSSH, whose limit for AES is 2^32 blocks (64 GiB); this is for other servers.
    REKEY_BYTES = 1 << 35
    REKEY_PACKETS = 1 << 30
    _trigger_rekey: Callable[[], None]  # paramiko's own; its type stubs leave it out

    def __init__(self, sock):
        super().__init__(sock)
        self._sock = sock
        self._out: Any = None  # cryptography's AESGCM
        self._in: Any = None
        self._out_iv = self._in_iv = (b"", 0)
        self._sent = self._received = 0
        self._send_lock = threading.Lock()
        self._out_buffer = bytearray(BATCH + LARGEST_PACKET)
        self._in_buffer = memoryview(bytearray(4 * LARGEST_PACKET))
        self._start = self._end = 0
        self._heard = time.monotonic()
        self._asked = 0.0
        self.ask_for_sign_of_life = None
        # Nothing could be sent. The thread that reads may notice much later, or never.
        self.broken = False
        # Channel number (4 bytes) to the Chunks that take its data, or None for paramiko's own way.
        self.chunks_of: Callable[[bytes], Chunks | None] = lambda number: None

    def set_outbound_cipher(self, block_engine: Any, *args: Any, **kwargs: Any) -> None:
        super().set_outbound_cipher(block_engine, *args, **kwargs)
        aead, iv_out = kwargs.get("aead", False), kwargs.get("iv_out", b"")
        self._out, self._out_iv, self._sent = (block_engine, _split_iv(iv_out), 0) if aead else (None, (b"", 0), 0)

    def set_inbound_cipher(self, block_engine: Any, *args: Any, **kwargs: Any) -> None:
        super().set_inbound_cipher(block_engine, *args, **kwargs)
        aead, iv_in = kwargs.get("aead", False), kwargs.get("iv_in", b"")
        if not aead and self._start != self._end:
            raise paramiko.SSHException("the host changed to another cipher in the middle of its data")
        self._in, self._in_iv, self._received = (block_engine, _split_iv(iv_in), 0) if aead else (None, (b"", 0), 0)

    def send_message(self, data):
        """A paramiko.Message, a DataBatch or an EndOfInput."""
        packets = [(data.asbytes(),)] if isinstance(data, paramiko.Message) else data.packets()
        if self._out is None:
            for packet in packets:
                super().send_message(paramiko.Message(b"".join(packet)))
            return
        with self._send_lock:
            filled = 0
            for packet in packets:
                filled += self._seal(packet, filled)
                if filled >= BATCH:
                    self.write_all(memoryview(self._out_buffer)[:filled])
                    self._sent, filled = self._sent + filled, 0
            self.write_all(memoryview(self._out_buffer)[:filled])
            self._sent += filled
        if self._sent > self.REKEY_BYTES and not self.need_rekey():
            self._trigger_rekey()

    def _seal(self, payload: Sequence[bytes | memoryview], at: int) -> int:
        """Encrypt one packet into the buffer; its size there. Layout: RFC 4253 section 6, RFC 5647 section 7.3."""
        size = sum(map(len, payload))
        padding = 4 + -(size + 5) % 16
        length = size + 1 + padding
        end = at + 4 + length + GCM_TAG
        if end > len(self._out_buffer):
            self._out_buffer.extend(bytes(end - len(self._out_buffer)))
        view = memoryview(self._out_buffer)
        view[at : at + 4] = length.to_bytes(4, "big")
        plain = b"".join((padding.to_bytes(1, "big"), *payload, os.urandom(padding)))
        fixed, counter = self._out_iv
        self._out_iv = (fixed, (counter + 1) & 0xFFFFFFFFFFFFFFFF)
        self._out.encrypt_into(fixed + counter.to_bytes(8, "big"), plain, view[at : at + 4], view[at + 4 : end])
        return end - at

    def write_all(self, out):
        """As paramiko's, but not for ever: a host that takes nothing for SILENCE_LIMIT_S is gone."""
        deadline = time.monotonic() + SILENCE_LIMIT_S
        view = memoryview(out)
        while view:
            try:
                sent = self._sock.send(view)
            except TimeoutError:
                sent = 0
            except OSError as error:
                self.broken = True
                raise EOFError(str(error)) from error
            if sent:
                view = view[sent:]
                deadline = time.monotonic() + SILENCE_LIMIT_S
            elif self.closed or time.monotonic() > deadline:
                self.broken = True
                raise EOFError("the host takes no data")

    def read_message(self):
        """(type, Message); only the transport's own thread calls it.

        Data for a channel that takes chunks is handed on here: paramiko's own way takes longer than decrypting.
        """
        while self._in is not None:
            plain = self._open_packet()
            chunks = self.chunks_of(plain[2:6]) if plain[1] == _CHANNEL_DATA else None
            if chunks is None:
                message = paramiko.Message(plain[2 : len(plain) - plain[0]])
                message.seqno = 0
                return plain[1], message
            chunks.feed(memoryview(plain)[10 : 10 + int.from_bytes(plain[6:10], "big")])
        return super().read_message()

    def _open_packet(self) -> bytes:
        """The next packet, decrypted: a byte with the length of the padding, the payload, the padding."""
        self._fill(4, may_rekey=True)
        length = int.from_bytes(self._in_buffer[self._start : self._start + 4], "big")
        if not 16 <= length <= LARGEST_PACKET:
            raise paramiko.SSHException(f"the host sent a packet of {length} bytes")
        self._fill(4 + length + GCM_TAG)
        body = self._start + 4
        fixed, counter = self._in_iv
        self._in_iv = (fixed, (counter + 1) & 0xFFFFFFFFFFFFFFFF)
        plain = self._in.decrypt(
            fixed + counter.to_bytes(8, "big"),
            self._in_buffer[body : body + length + GCM_TAG],
            self._in_buffer[self._start : body],
        )
        self._start = body + length + GCM_TAG
        self._received += length
        if self._received > self.REKEY_BYTES and not self.need_rekey():
            self._trigger_rekey()
        return plain

    def _fill(self, wanted: int, may_rekey: bool = False) -> None:
        """Have at least `wanted` bytes of the packet that begins at `_start`."""
        have = self._end - self._start
        if have >= wanted:
            return
        if self._start + LARGEST_PACKET + 4 + GCM_TAG > len(self._in_buffer):
            self._in_buffer[:have] = bytes(self._in_buffer[self._start : self._end])
            self._start, self._end = 0, have
        while self._end - self._start < wanted:
            try:
                self._end += self._receive(self._in_buffer[self._end :])
                self._heard = time.monotonic()
            except TimeoutError:
                if self.closed:
                    raise EOFError from None
                if may_rekey and self._end == self._start and self.need_rekey():
                    raise NeedRekeyException from None
                self._check_keepalive()

    def _receive(self, room: memoryview) -> int:
        if hasattr(self._sock, "recv_into"):
            size = self._sock.recv_into(room)
        else:  # a channel through a jump host, or a proxy command
            data = self._sock.recv(len(room))
            size = len(data)
            room[:size] = data
        if size == 0:
            raise EOFError("the host closed the connection")
        return size

    def read_all(self, n, check_rekey=False):
        data = super().read_all(n, check_rekey)
        self._heard = time.monotonic()
        return data

    def _check_keepalive(self):
        """Called every 0.1 s in which nothing arrived."""
        now = time.monotonic()
        silent_s = now - self._heard
        if silent_s > SILENCE_LIMIT_S:
            raise EOFError(f"silent for {SILENCE_LIMIT_S:.0f} s")
        if self.ask_for_sign_of_life and silent_s > PROBE_AFTER_S and now - self._asked > PROBE_AFTER_S:
            self._asked = now
            self.ask_for_sign_of_life()


def _split_iv(iv: bytes) -> tuple[bytes, int]:
    return iv[:4], int.from_bytes(iv[4:], "big")


class Chunks(BufferedPipe):
    """A channel's incoming data as it came; paramiko's own pipe copies each byte three times more."""

    _lock: threading.Lock  # paramiko's own; its type stubs leave it out

    def __init__(self):
        super().__init__()
        self._chunks: collections.deque[bytes | memoryview] = collections.deque()
        self._held = 0
        # A reader of bulk data sets this higher: waking it for every packet costs more than the packet.
        self.worth_waking = 1

    def feed(self, data):
        with self._lock:
            self._chunks.append(data)
            self._held += len(data)
            if self._event is not None and self._held >= self.worth_waking:
                self._event.set()

    def set_event(self, event):
        with self._lock:
            self._event = event
            event.set()

    def read_ready(self):
        return bool(self._chunks)

    def read(self, nbytes, timeout=None):
        """What is there, about `nbytes` at most (a chunk is not cut), without waiting."""
        with self._lock:
            taken, size = [], 0
            while self._chunks and size < nbytes:
                taken.append(self._chunks.popleft())
                size += len(taken[-1])
            self._held -= size
        return b"".join(taken)

    def __len__(self):
        return self._held


class QuickStream(StockStream):
    """The channel of one command: large pieces both ways, few wake-ups."""

    def __init__(self, channel: paramiko.Channel):
        super().__init__(channel)
        self._transport: Any = channel.get_transport()
        self._arrived = threading.Event()
        self._patience_s = math.inf
        self._stdout, self._stderr = Chunks(), Chunks()
        for chunks in (self._stdout, self._stderr):
            chunks.set_event(self._arrived)
        # Nothing can have come yet: no command runs.
        channel.in_buffer, channel.in_stderr_buffer = self._stdout, self._stderr

    def expect_bulk(self, chunk: int) -> None:
        self._stdout.worth_waking = chunk
        self._patience_s = 0.2

    def look(self) -> None:
        self._arrived.clear()

    def worth_reading(self) -> bool:
        return len(self._stdout) >= self._stdout.worth_waking

    def wait(self, timeout_s: float) -> bool:
        return self._arrived.wait(min(timeout_s, self._patience_s, threading.TIMEOUT_MAX))

    def send_some(self, data: memoryview, timeout_s: float | None) -> int:
        channel = self.channel
        with channel.lock:
            room = channel.out_buffer_cv.wait_for(
                lambda: channel.out_window_size > 0 or channel.closed or channel.eof_sent, timeout_s
            )
            if not room:
                raise TimeoutError("the host takes no data")
            if channel.closed or channel.eof_sent:
                return 0
            size = min(len(data), channel.out_window_size)
            channel.out_window_size -= size
        self._transport._send_user_message(DataBatch(channel, data[:size]))
        return size

    def end_input(self) -> None:
        channel = self.channel
        with channel.lock:
            if channel.eof_sent or channel.closed:
                return
            channel.eof_sent = True
        self._transport._send_user_message(EndOfInput(channel))


if TYPE_CHECKING:

    class _Transport(StockTransport):
        """The private names of paramiko.Transport that are used here, which its type stubs leave out."""

        _channels: Any

        def _send_message(self, data: Any) -> None: ...
        def _send_user_message(self, data: Any) -> None: ...
        def _parse_newkeys(self, m: paramiko.Message) -> None: ...

else:
    _Transport = StockTransport


class QuickTransport(_Transport):
    """Never blocks its own reading thread while keys are exchanged, and notices a host that fell silent.

    In a key exchange paramiko holds every message back until the new keys are there. Some messages are sent by the
    very thread that must read the host's part of the exchange (the answer to a channel's close, a keepalive): it then
    waits for itself until 30 s are over. Such messages are put aside here and sent when the keys are there.
    """

    stream_class = QuickStream
    packetizer: GcmPackets

    def __init__(self, sock: socket.socket | paramiko.Channel):
        super().__init__(sock, packetizer_class=GcmPackets)
        self._put_aside: list[paramiko.Message | DataBatch | EndOfInput] = []
        self.packetizer.chunks_of = self._chunks_of

    @property
    def usable(self) -> bool:
        return self.is_active() and not self.packetizer.broken

    def watch_for_silence(self) -> None:
        self.packetizer.ask_for_sign_of_life = self._ask_for_sign_of_life

    def _send_message(self, data):
        # While a message waited for new keys its channel may have been closed; to a server, data for a closed channel
        # is a breach of the protocol, and it ends the connection.
        if isinstance(data, DataBatch | EndOfInput) and data.channel.closed:
            return
        super()._send_message(data)

    def _chunks_of(self, number: bytes) -> Chunks | None:
        # Around a key exchange paramiko wants to see every packet.
        if self.in_kex or self.packetizer.need_rekey():
            return None
        channel = self._channels.get(int.from_bytes(number, "big"))
        return channel.in_buffer if channel is not None and isinstance(channel.in_buffer, Chunks) else None

    def _ask_for_sign_of_life(self) -> None:
        message = paramiko.Message()
        message.add_byte(cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)  # an answer is wanted, even if it is "unknown request"
        self._send_user_message(message)

    def _send_user_message(self, data):
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._put_aside.append(data)
        else:
            super()._send_user_message(data)

    def _parse_newkeys(self, m):
        super()._parse_newkeys(m)
        waiting, self._put_aside = self._put_aside, []
        for message in waiting:
            super()._send_user_message(message)


# What is replaced or called here, and with which parameters paramiko itself calls it.
_METHODS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (Packetizer, "send_message", ("data",)),
    (Packetizer, "read_message", ()),
    (Packetizer, "write_all", ("out",)),
    (Packetizer, "read_all", ("n", "check_rekey")),
    (Packetizer, "need_rekey", ()),
    (Packetizer, "_trigger_rekey", ()),
    (Packetizer, "_check_keepalive", ()),
    (paramiko.Transport, "_send_message", ("data",)),
    (paramiko.Transport, "_send_user_message", ("data",)),
    (paramiko.Transport, "_parse_newkeys", ("m",)),
    (BufferedPipe, "feed", ("data",)),
    (BufferedPipe, "read", ("nbytes", "timeout")),
    (BufferedPipe, "read_ready", ()),
    (BufferedPipe, "set_event", ("event",)),
)
_CIPHERS = (("set_outbound_cipher", "iv_out"), ("set_inbound_cipher", "iv_in"))
_CHANNEL: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("in_buffer", BufferedPipe),
    ("in_stderr_buffer", BufferedPipe),
    ("lock", type(threading.Lock())),
    ("out_buffer_cv", threading.Condition),
    ("out_window_size", int),
    ("out_max_packet_size", int),
    ("remote_chanid", int),
    ("eof_sent", int),
    ("closed", int),
)


def what_is_missing() -> str | None:
    """The first name of paramiko that is needed here and gone or of another shape; None when all is as it was."""
    for owner, name, parameters in _METHODS:
        if _parameters(owner, name) != list(parameters):
            return f"{owner.__name__}.{name}"
    for name, iv in _CIPHERS:
        if not {"aead", iv} <= set(_parameters(Packetizer, name) or ()):
            return f"Packetizer.{name}"
    if not isinstance(getattr(Packetizer, "closed", None), property):
        return "Packetizer.closed"
    pipe, channel = BufferedPipe(), paramiko.Channel(0)
    if not {"_lock", "_event"} <= set(vars(pipe)):
        return "BufferedPipe"
    for name, kind in _CHANNEL:
        if not isinstance(getattr(channel, name, None), kind):
            return f"Channel.{name}"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = paramiko.Transport(ours)
        for name, kind in (("packetizer", Packetizer), ("clear_to_send", threading.Event), ("in_kex", int)):
            if not isinstance(getattr(transport, name, None), kind):
                return f"Transport.{name}"
        if "get" not in dir(vars(transport).get("_channels")):
            return "Transport._channels"
    return None


def _parameters(owner: type, name: str) -> list[str] | None:
    function = getattr(owner, name, None)
    return list(inspect.signature(function).parameters)[1:] if callable(function) else None
