"""The bytes that are written: incompressible, never the same block twice, and known, so that they can be checked.

A random pool of one chunk is written again and again, with the number of the chunk stamped into each of its 4 KiB
blocks. Storage that compresses finds nothing (within a chunk all is random) and storage that deduplicates blocks
finds no two alike, while the measured loop spends about a microsecond a chunk on it and holds a single chunk.
"""

import hashlib
import mmap
import os
from array import array

BLOCK = 4096
SMALLEST_CHUNK = 128 * 1024  # the largest record over which common file systems compress by default


class Pattern:
    """An endless stream of chunks. Each has `chunk_bytes` bytes, in one page-aligned buffer that is used again."""

    def __init__(self, chunk_bytes):
        if chunk_bytes % BLOCK or chunk_bytes < SMALLEST_CHUNK:
            raise ValueError("a chunk is a multiple of %d bytes, at least %d" % (BLOCK, SMALLEST_CHUNK))
        self.chunk_bytes = chunk_bytes
        # Page-aligned, as O_DIRECT wants it; private, because shared memory is copied to and from more slowly.
        self._memory = mmap.mmap(-1, chunk_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for start in range(0, chunk_bytes, SMALLEST_CHUNK):
            piece = min(SMALLEST_CHUNK, chunk_bytes - start)
            self._memory[start : start + piece] = os.urandom(piece)
        self.buffer = memoryview(self._memory)
        self._stamps = self.buffer.cast("Q")[:: BLOCK // 8]
        self._blocks = chunk_bytes // BLOCK

    def fill(self, number):
        """Make `buffer` hold chunk `number` of the stream."""
        self._stamps[:] = memoryview(array("Q", (number,)) * self._blocks)

    def sha256(self, first_chunk, size):
        """Of the `size` bytes that begin with chunk `first_chunk`, as hexadecimal digits."""
        digest = hashlib.sha256()
        number, left = first_chunk, size
        while left:
            self.fill(number)
            piece = min(left, self.chunk_bytes)
            digest.update(self.buffer[:piece])
            number, left = number + 1, left - piece
        return digest.hexdigest()

    def chunks(self, size):
        """How many chunks `size` bytes take."""
        return -(-size // self.chunk_bytes)
