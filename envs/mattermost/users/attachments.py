"""Files that users attach to posts: a screenshot, a small picture, a film and a log. All loads use the same bytes."""

from __future__ import annotations

import random
import struct
import zlib

from .wording import sentence

_SCREEN, _SMALL = (1280, 720), (320, 240)
_LINE_PX, _TEXT_PX, _MARGIN_PX = 24, 12, 80
_INK = 0.35  # share of the pixels of a line of text
_LOG_LINES = 50
_FILM_BYTES = 432_000


def _picture(width: int, height: int) -> bytes:
    """Make a PNG like a screenshot: flat areas and fine text. The server makes a preview and a thumbnail of it."""
    chance = random.Random(width)
    rows = bytearray()
    for y in range(height):
        row = bytearray(b"\xf6\xf7\xf9" * width)
        if y % _LINE_PX < _TEXT_PX:
            for x in range(_MARGIN_PX, width - _MARGIN_PX):
                if chance.random() < _INK:
                    row[3 * x : 3 * x + 3] = bytes((chance.randrange(90),) * 3)
        rows += b"\0" + row
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _log() -> bytes:
    chance = random.Random(_LOG_LINES)
    return "".join(f"{number:06d} {sentence(chance)}\n" for number in range(_LOG_LINES)).encode()


# (name, content, media type)
FILES: tuple[tuple[str, bytes, str], ...] = (
    ("screenshot.png", _picture(*_SCREEN), "image/png"),
    ("drawing.png", _picture(*_SMALL), "image/png"),
    ("clip.mp4", random.Random(_FILM_BYTES).randbytes(_FILM_BYTES), "video/mp4"),  # its content does not matter
    ("server.log", _log(), "text/plain"),
)
