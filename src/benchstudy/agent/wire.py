"""How the agent talks to the controller: one JSON object per line, over stdin and stdout."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator


class AgentError(Exception):
    """An error that a person can understand and fix; it reaches the controller as `{"error": text}`."""


def emit(message: object) -> None:
    """Write one line at once. If the reader is gone, as is usual for a watcher, raises OSError."""
    data = json.dumps(message).encode() + b"\n"
    sys.stdout.flush()
    while data:
        data = data[os.write(1, data) :]


@contextmanager
def understood(said: str) -> Iterator[None]:
    """Raises AgentError, beginning with `said`, if the answer of another program does not have the expected form."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise AgentError(f"{said}: {type(error).__name__}: {str(error)[:200]}") from error


def document(text: str | bytes) -> dict | None:
    """The JSON object in a text that anybody may have written; None if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def message(line: bytes) -> dict:
    """A line from the controller as a message. Raises AgentError if it is not one."""
    found = document(line)
    if found is None:
        raise AgentError(f"this is not a message of the controller: {line[:200]!r}")
    return found


class Lines:
    """Lines of a file descriptor that is also polled.

    poll() does not see a line that came together with an earlier one: ask for `waiting` before.
    """

    def __init__(self, fd: int = 0):
        self.fd = fd
        self._pending = b""
        self.ended = False

    def next(self) -> bytes | None:
        """Block for a line, without its newline; None at the end of input. An incomplete last line is dropped."""
        while b"\n" not in self._pending and not self.ended:
            self._read()
        return self._take()

    @property
    def waiting(self) -> bool:
        return b"\n" in self._pending

    def available(self) -> list[bytes]:
        """The complete lines that arrived; call it after poll() said "readable", or if there are `waiting` ones."""
        if not self.waiting:
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
