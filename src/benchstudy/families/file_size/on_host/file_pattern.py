"""The data to write: incompressible, without two equal blocks, and reproducible, so that they can be verified.

The same random chunk is written repeatedly, with the number of the chunk stamped into each 4 KiB block. Storage cannot
compress it, because a chunk is random, and cannot deduplicate it, because no two blocks are equal. The measured loop
spends about a microsecond per chunk on this, and holds one chunk.
"""

import hashlib
import mmap
import os
from array import array

BLOCK = 4096
SMALLEST_CHUNK = 128 * 1024  # the largest record over which common file systems compress by default


class Pattern:
    """An endless stream of chunks of `chunk_bytes` bytes, which share one page-aligned buffer."""

    def __init__(self, chunk_bytes):
        if chunk_bytes % BLOCK or chunk_bytes < SMALLEST_CHUNK:
            raise ValueError(
                "the size of a chunk must be a multiple of %d bytes, and at least %d" % (BLOCK, SMALLEST_CHUNK)
            )
        self.chunk_bytes = chunk_bytes
        # Page-aligned for O_DIRECT. Private, because copies to and from shared memory are slower.
        self._memory = mmap.mmap(-1, chunk_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for start in range(0, chunk_bytes, SMALLEST_CHUNK):
            piece = min(SMALLEST_CHUNK, chunk_bytes - start)
            self._memory[start : start + piece] = os.urandom(piece)
        self.buffer = memoryview(self._memory)
        self._stamps = self.buffer.cast("Q")[:: BLOCK // 8]
        self._blocks = chunk_bytes // BLOCK

    def fill(self, number):
        """Fill `buffer` with chunk `number` of the stream."""
        self._stamps[:] = memoryview(array("Q", (number,)) * self._blocks)

    def sha256(self, first_chunk, size):
        """Return the SHA-256, in hexadecimal, of `size` bytes from chunk `first_chunk`."""
        digest = hashlib.sha256()
        number, left = first_chunk, size
        while left:
            self.fill(number)
            piece = min(left, self.chunk_bytes)
            digest.update(self.buffer[:piece])
            number, left = number + 1, left - piece
        return digest.hexdigest()

    def chunks(self, size):
        """Return the number of chunks that `size` bytes take."""
        return -(-size // self.chunk_bytes)
