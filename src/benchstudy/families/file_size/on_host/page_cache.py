"""What the kernel's page cache holds of a file, said by the kernel and not assumed; and how to empty it."""

import ctypes
import mmap
import os
import resource
from contextlib import contextmanager

_WINDOW = 256 << 20  # a vector of 64 KiB for each call, however large the file is
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
_COUNTS_READS = os.path.exists("/proc/self/io")  # one setting of the kernel for that file and for the count
_MAP_FAILED = ctypes.c_void_p(-1).value


@contextmanager
def opened(path):
    """A descriptor to read a file or folder by; closed at the end of the block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def resident_share(fd, size):
    """Share (0 to 1) of the file's pages that are in the page cache. Touches none. Raises OSError if refused."""
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
        # Only the lowest bit of each byte has a meaning.
        states = vector.raw[:count]
        resident += sum(states.count(state) for state in set(states) if state & 1)
        pages += count
    return resident / pages if pages else 0.0


def sync_file_system(fd):
    """Have everything on the file system of `fd` written. One that cannot (some in user space) is left alone."""
    _libc.syncfs(fd)


def drop_file(path):
    """Ask the kernel to forget the file's pages. Dirty pages are not forgotten, hence the fsync before."""
    with opened(path) as fd:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_system():
    """Empty all caches of the kernel, the file systems' own metadata too. Returns 'done' or why it was refused."""
    try:
        with open("/proc/sys/vm/drop_caches", "w") as switch:
            switch.write("3\n")
    except OSError as error:
        return "refused: %s" % error.strerror
    return "done"


def device_read_bytes():
    """Bytes this process has caused to be fetched from storage so far; None where the kernel does not count them.

    The count of /proc/self/io in blocks of 512, had in a microsecond: it is asked between opening and reading.
    """
    if not _COUNTS_READS:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock * 512
