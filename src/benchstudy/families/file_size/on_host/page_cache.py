"""The part of a file in the kernel's page cache, as the kernel reports it, and ways to empty the cache."""

import ctypes
import mmap
import os
import resource
from contextlib import contextmanager

_WINDOW = 256 << 20  # bytes per call, which needs a vector of 64 KiB, however large the file is
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_COUNTS_READS = os.path.exists("/proc/self/io")  # the same kernel setting enables this file and the count
_MAP_FAILED = ctypes.c_void_p(-1).value


@contextmanager
def opened(path):
    """Open a file or folder for reading; the descriptor is closed at the end of the block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def resident_share(fd, size):
    """Return the share (0 to 1) of the file's pages in the page cache, without touching them. Raises OSError."""
    pages = resident = 0
    for offset in range(0, size, _WINDOW):
        length = min(_WINDOW, size - offset)
        address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), "mmap: " + os.strerror(ctypes.get_errno()))
        try:
            count = -(-length // mmap.PAGESIZE)
            vector = ctypes.create_string_buffer(count)
            if _libc.mincore(address, length, vector):
                raise OSError(ctypes.get_errno(), "mincore: " + os.strerror(ctypes.get_errno()))
        finally:
            _libc.munmap(address, length)
        # Only the lowest bit of each byte is defined.
        states = vector.raw[:count]
        resident += sum(states.count(state) for state in set(states) if state & 1)
        pages += count
    return resident / pages if pages else 0.0


def sync_file_system(fd):
    """Write everything on the file system of `fd` to storage, if it can (some in user space cannot)."""
    _libc.syncfs(fd)


def drop_file(path):
    """Ask the kernel to drop the file's pages. It keeps dirty pages, so fsync comes first."""
    with opened(path) as fd:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_system():
    """Empty all caches of the kernel, including file system metadata. Returns 'done' or why it was refused."""
    try:
        with open("/proc/sys/vm/drop_caches", "w") as switch:
            switch.write("3\n")
    except OSError as error:
        return "refused: %s" % error.strerror
    return "done"


def device_read_bytes():
    """Return the bytes that this process has fetched from storage so far; None if the kernel does not count them.

    The count is that of /proc/self/io in blocks of 512 B, but takes a microsecond: it is read between open and read.
    """
    if not _COUNTS_READS:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock * 512
