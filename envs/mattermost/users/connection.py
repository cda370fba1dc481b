"""The websocket that a user keeps open, on which the server sends events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gevent
import websocket

_HELLO = b'"hello"'
_POSTED = b'"posted"'
EVENT_NAME_WITHIN = 40  # bytes; an event begins with its name
_PATH = "/api/v4/websocket"
Delivered = Callable[[float], None]


class SocketBroken(Exception):
    """The server or something on the way to it ended the connection."""


class Socket:
    """An open, authenticated websocket. `on_event` is called with each event, `on_broken` when it ends by itself."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout_s: float,
        on_event: Callable[[bytes], None],
        on_broken: Callable[[str], None],
    ):
        """Connect, log in, and wait for the server's greeting. Raises SocketBroken."""
        self._on_event, self._on_broken = on_event, on_broken
        self._awaited: dict[bytes, tuple[float, Delivered]] = {}
        self._sequence = 0
        self._closing = False
        address = "ws" + url.removeprefix("http") + _PATH
        try:
            # Proxies of the environment must not come between a load host and the study's own server.
            self._ws = websocket.create_connection(address, timeout=timeout_s, http_no_proxy=["*"])
            self._send("authentication_challenge", {"token": token})
            self._await_greeting(timeout_s)
            self._ws.settimeout(None)
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise SocketBroken(f"{type(error).__name__}: {error}") from error
        self._reader = gevent.spawn(self._read)

    def _await_greeting(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while _HELLO not in (message := self._next())[:EVENT_NAME_WITHIN]:
            if time.monotonic() > deadline:
                raise ValueError("the server did not greet")
        self._on_event(message)

    def tell(self, action: str, data: dict[str, Any]) -> None:
        """Send the server a message, such as that the user is typing. Raises SocketBroken."""
        try:
            self._send(action, data)
        except (websocket.WebSocketException, OSError) as error:
            raise SocketBroken(f"{type(error).__name__}: {error}") from error

    def await_post(self, pending_id: str, delivered: Delivered) -> None:
        """Call `delivered` with the seconds from now until the server announces the post."""
        self._awaited[pending_id.encode()] = (time.perf_counter(), delivered)

    def overdue(self, timeout_s: float) -> int:
        """Stop waiting for posts that were not announced within `timeout_s`, and return their number."""
        now = time.perf_counter()
        late = [pending for pending, (since, _) in self._awaited.items() if now - since > timeout_s]
        for pending in late:
            del self._awaited[pending]
        return len(late)

    def close(self) -> None:
        self._closing = True
        with suppress(websocket.WebSocketException, OSError):  # the connection may be closed already
            self._ws.send_close()
        self._ws.shutdown()
        self._reader.kill(block=False)

    def _send(self, action: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        self._ws.send(json.dumps({"seq": self._sequence, "action": action, "data": data}))

    def _next(self) -> bytes:
        opcode, data = self._ws.recv_data()  # recv_data answers pings
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise websocket.WebSocketConnectionClosedException(
                f"closed by the server: {data[2:].decode('utf-8', 'replace')}"
            )
        return data

    def _read(self) -> None:
        try:
            while True:
                message = self._next()
                if b'"event"' not in message[:EVENT_NAME_WITHIN]:
                    continue  # the answer to a message of this user
                self._on_event(message)
                if self._awaited and _POSTED in message[:EVENT_NAME_WITHIN]:
                    self._tell_of_post(message)
        except (websocket.WebSocketException, OSError) as error:
            if not self._closing:
                self._ws.shutdown()
                self._on_broken(f"{type(error).__name__}: {error}")

    def _tell_of_post(self, message: bytes) -> None:
        for pending, (since, delivered) in list(self._awaited.items()):
            if pending in message:
                del self._awaited[pending]
                delivered(time.perf_counter() - since)
