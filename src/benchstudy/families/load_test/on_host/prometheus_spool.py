"""Stores answers of a Prometheus in a gzip file, one member per line, so that a truncated file can be cut at a line."""

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

# The end of a sample's value. In a label, the quotation mark before a bracket is escaped.
_SAMPLE_END = re.compile(rb'[0-9fN]"\]')
_ANSWER = b',"answer":'


class Spool:
    """Appends lines to `path`. `lines` are its complete lines, from this run and from an interrupted one."""

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
        """Remove everything after the first `lines` lines."""
        del self.lines[lines:]
        self._file.truncate(self.size)
        self._file.seek(0, os.SEEK_END)

    def add(self, head: dict, answer: bytes | None = None) -> None:
        with self.line(head, answer is not None) as line:
            if answer is not None:
                line.take(answer)

    @contextmanager
    def line(self, head: dict, with_answer: bool = True, most_bytes: int | None = None) -> Iterator[LineWriter]:
        """Write a line in a block. If the block raises, nothing of the line stays."""
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
    """The part of a line before its answer, where the line ends in the file, and the answer's number of samples."""

    head: dict
    end: int
    samples: int


class LineWriter:
    def __init__(self, file: BinaryIO, head: dict, with_answer: bool, most_bytes: int | None):
        self._file, self._head, self._with_answer, self._most = file, head, with_answer, most_bytes
        self._start = file.tell()
        self._open()

    def take(self, data: bytes) -> None:
        """Append a piece of the answer. Raises TooMuch if the answer exceeds the limit."""
        self._bytes += len(data)
        if self._most is not None and self._bytes > self._most:
            raise TooMuch(f"an answer has more than {self._most} bytes")
        self._count.add(data)
        # JSON strings contain no line breaks, and between the parts of JSON they mean nothing.
        self._gzip.write(data.replace(b"\n", b" "))

    def again(self) -> None:
        """Restart the answer from its beginning."""
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
        """Whether the end of the answer contains the words."""
        return words in self._count.tail

    def _open(self) -> None:
        self._bytes, self._count = 0, _Count()
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._file, mtime=0)
        head = json.dumps(self._head, separators=(",", ":")).encode()
        self._gzip.write(head[:-1] + _ANSWER if self._with_answer else head)


class _Count:
    """Counts the samples in an answer that arrives in pieces, and keeps its last bytes."""

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
