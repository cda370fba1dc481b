"""How the agent talks with the controller: one JSON object a line, over stdin and stdout."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator


class AgentError(Exception):
    """Something a person can understand and mend; it reaches the controller as `{"error": text}`."""


def emit(message: object) -> None:
    """Write one line at once. A reader that is gone is the watcher's everyday end, seen by its caller as OSError."""
    data = json.dumps(message).encode() + b"\n"
    sys.stdout.flush()
    while data:
        data = data[os.write(1, data) :]


@contextmanager
def understood(said: str) -> Iterator[None]:
    """Raises AgentError, of what is `said`, where an answer is not as those who are asked give it."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise AgentError(f"{said}: {type(error).__name__}: {str(error)[:200]}") from error


def document(text: str | bytes) -> dict | None:
    """The JSON object in a text that anybody may have written; None where there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def message(line: bytes) -> dict:
    """What the controller says in a line. Raises AgentError when it is none of its messages."""
    found = document(line)
    if found is None:
        raise AgentError(f"this is no message of the controller: {line[:200]!r}")
    return found


class Lines:
    """Lines of a file descriptor that is also waited on with poll(), so nothing may hide in a buffer unseen."""

    def __init__(self, fd: int = 0):
        self.fd = fd
        self._pending = b""
        self.ended = False

    def next(self) -> bytes | None:
        """Block for a line, without its end; None at the end of input. Half a line before the end is no line."""
        while b"\n" not in self._pending and not self.ended:
            self._read()
        return self._take()

    def available(self) -> list[bytes]:
        """After poll() said "readable": the whole lines that came."""
        self._read()
        lines = []
        while (line := self._take()) is not None:
            lines.append(line)
        return lines

    def _read(self) -> None:
        data = os.read(self.fd, 1 << 18)
        self.ended = not data
        self._pending += data

    def _take(self) -> bytes | None:
        line, end, rest = self._pending.partition(b"\n")
        if not end:
            return None
        self._pending = rest
        return line


def read_spec(lines: Lines) -> dict:
    """The first line of stdin, JSON. Raises AgentError when the connection ended before it was whole."""
    line = lines.next()
    if line is None:
        raise AgentError("the input ended before the specification was complete")
    return message(line)
