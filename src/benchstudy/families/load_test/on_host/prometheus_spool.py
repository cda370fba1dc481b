"""The file that answers of a Prometheus are kept in: gzip, a member a line, so that a cut-off end is cut at a line."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from prometheus_client import TooMuch

# A sample's value ends so. In a label a quotation mark before a bracket has a backslash before it.
_SAMPLE_END = re.compile(rb'[0-9fN]"\]')
_ANSWER = b',"answer":'


class Spool:
    """Lines appended to `path`; `lines` are the whole ones that are in it, of this run and of one that was ended."""

    def __init__(self, path: str):
        self.path = path
        self._file = open(path, "a+b")  # noqa: SIM115  the caller's `with`
        self.lines = _whole_lines(self._file)
        self.keep(len(self.lines))

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keep(self, lines: int) -> None:
        """Forget all after the first `lines` lines."""
        del self.lines[lines:]
        self._file.truncate(self.size)
        self._file.seek(0, os.SEEK_END)

    def add(self, head: dict, answer: bytes | None = None) -> None:
        with self.line(head, answer is not None) as line:
            if answer is not None:
                line.take(answer)

    @contextmanager
    def line(self, head: dict, with_answer: bool = True, most_bytes: int | None = None) -> Iterator[LineWriter]:
        """A line in the making; nothing of it stays when the block raises."""
        writer = LineWriter(self._file, head, with_answer, most_bytes)
        try:
            yield writer
        except BaseException:
            writer.drop()
            raise
        self.lines.append(writer.finish())

    @property
    def size(self) -> int:
        return self.lines[-1].end if self.lines else 0


class Line(NamedTuple):
    """What is before a line's answer, where the line ends in the file, and how many samples the answer holds."""

    head: dict
    end: int
    samples: int


class LineWriter:
    def __init__(self, file: BinaryIO, head: dict, with_answer: bool, most_bytes: int | None):
        self._file, self._head, self._with_answer, self._most = file, head, with_answer, most_bytes
        self._start = file.tell()
        self._open()

    def take(self, data: bytes) -> None:
        """A piece of the answer. Raises TooMuch when there is more than is wanted."""
        self._bytes += len(data)
        if self._most is not None and self._bytes > self._most:
            raise TooMuch(f"an answer has more than {self._most} bytes")
        self._count.add(data)
        # JSON has no line breaks inside of strings; between its parts they mean nothing.
        self._gzip.write(data.replace(b"\n", b" "))

    def again(self) -> None:
        """The answer comes once more from its beginning."""
        self.drop()
        self._open()

    def drop(self) -> None:
        self._gzip.close()
        self._file.truncate(self._start)
        self._file.seek(0, os.SEEK_END)

    def finish(self) -> Line:
        self._gzip.write(b"}\n" if self._with_answer else b"\n")
        self._gzip.close()
        self._file.flush()
        return Line(self._head, self._file.tell(), self._count.samples)

    def says(self, words: bytes) -> bool:
        """Whether the end of the answer holds the words."""
        return words in self._count.tail

    def _open(self) -> None:
        self._bytes, self._count = 0, _Count()
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._file, mtime=0)
        head = json.dumps(self._head, separators=(",", ":")).encode()
        self._gzip.write(head[:-1] + _ANSWER if self._with_answer else head)


class _Count:
    """Samples in an answer that comes in pieces, and its last bytes."""

    def __init__(self) -> None:
        self.samples, self.tail = 0, b""

    def add(self, data: bytes) -> None:
        self.samples += len(_SAMPLE_END.findall(self.tail[-2:] + data))
        self.tail = (self.tail + data)[-2048:]


def _whole_lines(file: BinaryIO) -> list[Line]:
    lines: list[Line] = []
    file.seek(0)
    position, rest = 0, b""
    unzip, text, count = zlib.decompressobj(31), b"", _Count()
    while True:
        data = rest or file.read(1 << 18)
        try:
            found = unzip.decompress(data)
        except zlib.error:
            return lines
        if not data:
            return lines
        rest = unzip.unused_data
        position += len(data) - len(rest)
        if len(text) < 1 << 16:
            text += found
        count.add(found)
        if unzip.eof:
            if not count.tail.endswith(b"\n"):
                return lines
            head, separator, _ = text.partition(_ANSWER)
            lines.append(Line(json.loads(head + b"}" if separator else text), position, count.samples))
            unzip, text, count = zlib.decompressobj(31), b"", _Count()
