"""Histograms of times with HdrHistogram's buckets, and its open log format, which all its tools read.

Values are whole µs with two significant digits: a bucket is at most 1/128 as wide as its values. All histograms share
their buckets, so those of workers, seconds and trials merge exactly.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_HALF, _HALF_BITS = 128, 7  # buckets per power of two
_DIGITS = 2
_LARGEST_US = 3_600_000_000
_COOKIE, _COMPRESSED_COOKIE = 0x1C849313, 0x1C849314  # of encoding V2
_PAYLOAD = struct.Struct(">iiiiqqd")
_OUTER = struct.Struct(">ii")
_SECONDS_TO_US = 1e6
Counts = dict[int, int]  # maps a bucket's index to its number of values


def index_of(seconds: float) -> int:
    """The bucket that holds a time in s. Times above an hour count as an hour."""
    value = min(max(round(seconds * _SECONDS_TO_US), 0), _LARGEST_US)
    shift = max(value.bit_length() - _HALF_BITS - 1, 0)
    return (shift << _HALF_BITS) + (value >> shift)


def edges_of(index: int) -> tuple[float, float]:
    """(low, high) of a bucket in s: it holds low <= time < high."""
    shift = max((index >> _HALF_BITS) - 1, 0)
    inner = index - (shift << _HALF_BITS)
    return (inner << shift) / _SECONDS_TO_US, ((inner + 1) << shift) / _SECONDS_TO_US


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """The middle, in s, of the bucket that holds the quantile (nearest rank); None without values."""
    total = sum(counts.values())
    seen = 0
    for index in sorted(counts):
        seen += counts[index]
        # 1e-9 allows for rounding.
        if seen and seen >= share * total - 1e-9:
            return sum(edges_of(index)) / 2
    return None


# --- the log format ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One histogram of a log: its tag, start (s since the log's start), duration in s, and counts."""

    tag: str
    start_s: float
    length_s: float
    counts: Counts


def log_head(start_unix_s: float, comment: str) -> str:
    """The first lines of a log whose times count from `start_unix_s`."""
    return (
        f"#[{comment}]\n"
        "#[Histogram log format version 1.3]\n"
        f"#[StartTime: {start_unix_s:.3f} (seconds since epoch)]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    )


def log_line(line: Line) -> str:
    """Format a line. `line.tag` must contain no commas or white space. The maximum is in ms, as usual in these logs."""
    largest_ms = edges_of(max(line.counts))[1] * 1e3 if line.counts else 0.0
    return f"Tag={line.tag},{line.start_s:.3f},{line.length_s:.3f},{largest_ms:.3f},{encode(line.counts)}\n"


def read_log(lines: Iterable[str]) -> Iterator[Line]:
    """Read the histograms of a log. Raises ValueError for anything else, such as a truncated line."""
    for number, text in enumerate(lines, 1):
        if not text.strip() or text.startswith(("#", '"')):
            continue
        parts = text.rstrip("\n").split(",")
        tag = parts.pop(0).removeprefix("Tag=") if text.startswith("Tag=") else ""
        try:
            start_s, length_s, _, encoded = parts
            yield Line(tag, float(start_s), float(length_s), decode(encoded))
        except (ValueError, struct.error, zlib.error) as error:
            raise ValueError(f"line {number}: {error}") from error


def encode(counts: Mapping[int, int]) -> str:
    """Encode counts in HdrHistogram's encoding V2, compressed, as base64."""
    body = bytearray()
    position = 0
    for index in sorted(index for index, count in counts.items() if count):
        if index > position:
            _append(body, position - index)  # the number of empty buckets, negated
        _append(body, counts[index])
        position = index + 1
    head = _PAYLOAD.pack(_COOKIE, len(body), 0, _DIGITS, 1, _LARGEST_US, 1.0)
    packed = zlib.compress(head + bytes(body))
    return base64.b64encode(_OUTER.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode()


def decode(text: str) -> Counts:
    """Decode what `encode` wrote. Raises ValueError, struct.error or zlib.error for anything else."""
    raw = base64.b64decode(text, validate=True)
    cookie, length = _OUTER.unpack_from(raw)
    if cookie != _COMPRESSED_COOKIE or len(raw) != _OUTER.size + length:
        raise ValueError("no compressed histogram of encoding V2, or cut off")
    payload = zlib.decompress(raw[_OUTER.size :])
    cookie, length, _, digits, lowest, _, _ = _PAYLOAD.unpack_from(payload)
    body = payload[_PAYLOAD.size :]
    if cookie != _COOKIE or len(body) != length or digits != _DIGITS or lowest != 1:
        raise ValueError(f"a histogram of another layout: {digits} digits, from {lowest}")
    counts: Counts = {}
    index = offset = 0
    while offset < length:
        byte = body[offset]
        if byte < 0x80:  # nearly all values
            value, offset = (byte >> 1) ^ -(byte & 1), offset + 1
        else:
            value, offset = _number(body, offset)
        if value < 0:
            index -= value
            continue
        if value:
            counts[index] = value
        index += 1
    return counts


def _append(body: bytearray, value: int) -> None:
    """Append a value in zig-zag encoding with seven bits per byte, lowest first; the ninth byte has eight."""
    rest = (value << 1) ^ (value >> 63)
    for _ in range(8):
        if rest < 0x80:
            body.append(rest)
            return
        body.append(rest & 0x7F | 0x80)
        rest >>= 7
    body.append(rest & 0xFF)


def _number(body: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for position in range(9):
        if offset + position >= len(body):
            raise ValueError("cut off within a number")
        byte = body[offset + position]
        if position == 8 or byte < 0x80:
            value |= byte << (7 * position)
            return (value >> 1) ^ -(value & 1), offset + position + 1
        value |= (byte & 0x7F) << (7 * position)
    raise AssertionError("unreachable")
