"""Measure whole files: `file-size REQUEST` takes one request in JSON and writes one answer in JSON to stdout.

Without an argument, the request is read from stdin.
A request has `kind` (`path` or `s3`) and `action` (`prepare`, `write`, `read`; `hold`, `clean` and `check` for s3).
`hold` uploads an object, creates the file `held`, and runs until a `clean` in the same folder has removed the object.
`check` reads the keys from stdin; the answer's `finding` is the problem, or null. Times are integers in nanoseconds of
the monotonic clock; `began_ns` of an operation is the Unix time of its begin. Exit status 0: everything was measured.
1: it was not; the last line of stderr says why, and the answer has what was measured so far.
"""

import fcntl
import gc
import hashlib
import json
import mmap
import os
import sys
from contextlib import suppress
from time import perf_counter_ns, sleep

import folders
import page_cache
from file_pattern import BLOCK, Pattern
from page_cache import opened
from refused import Refused
from wall_clock import unix_ns

# Up to this size, the first operation of a process took up to twice as long as later ones, because code, buffers and
# folder were not yet in the caches of processor and kernel. For a larger file, this start is part of its own time.
REHEARSAL_BYTES = 16 << 20
# Reading metadata counts as reading, too. If more of a "warm" file comes from storage, it does not count as warm.
WARM_READ_ALLOWANCE = 64 * 1024
MOST_PREPARATIONS = 3
# Bytes to read from memory just before each measured warm read, in passes over the file. The processor's caches need
# some 20 passes over 10 MB to fill (2.0 ms for the first pass, 0.5 ms for the last). Any other work evicts the file
# again, even more so with busy neighbours. With fewer passes, the time would depend on that.
WARMING_BYTES, MOST_WARMING_PASSES = 256 << 20, 300
# Just after other work, a disk (and a virtual machine's path to it) is up to a third faster than a moment later, by an
# amount that depends on that work. So every operation that reaches the disk starts after the same rest.
REST_S = 0.02


class NotInState(Refused):
    """The page cache was not in the required state just before the operation, so the operation did not start."""


def main(arguments):
    request = json.loads(arguments[0]) if arguments else json.load(sys.stdin)
    answer = {"schema": 1, "request": request, "operations": []}
    try:
        if request["kind"] == "s3":
            import s3_objects  # only available if boto3 was shipped

            s3_objects.perform(request, answer)
        else:
            _perform(request, answer)
        problem = None
    except Refused as error:
        problem = str(error)
    except OSError as error:
        problem = explain(error, request)
    if problem:
        answer["problem"] = problem
    json.dump(answer, sys.stdout)
    sys.stdout.write("\n")
    if problem:
        sys.stderr.write(problem + "\n")
    return 1 if problem else 0


def explain(error, request):
    where = error.filename or request.get("directory") or request.get("file") or "?"
    return "%s: %s (%s of %s bytes)" % (
        where,
        error.strerror or error,
        request["action"],
        request.get("size"),
    )


def _perform(request, answer):
    answer["file_system"] = assert_file_system(request["path"], request.get("expect_fs") or ())
    actions = {"prepare": prepare, "write": measure_writes, "read": measure_reads}
    gc.disable()  # nothing here creates cycles, and a collection would be part of a measured time
    actions[request["action"]](request, answer)


def assert_file_system(path, expected):
    """Return the mount at `path`, from the kernel's table. Raises Refused if it is missing or of another type."""
    mount = mount_of(path)
    if expected and mount["type"] not in expected:
        raise Refused(
            "%s is on a %s file system (mounted at %s), and the study expects %s: is the mount missing?"
            % (path, mount["type"], mount["mount_point"], " or ".join(expected))
        )
    if not os.path.isdir(path):
        raise Refused("%s is not a folder: create it, or correct the path of the backend" % path)
    return mount


def mount_of(path):
    """Return type, mount point, source and options of the file system of `path`, which need not exist yet."""
    found = folders.mount_of(os.path.realpath(path))
    if found is None:
        raise Refused("%s: no mount in /proc/self/mounts holds it" % path)
    return {**{name: found[name] for name in ("type", "source", "options")}, "mount_point": found["point"]}


def check_space(directory, needed):
    """Raise Refused if `directory` lacks space for `needed` bytes. File systems without a size pass."""
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if space.f_blocks and free < needed:
        raise Refused(
            "no space: %s has %d bytes free, but %d are needed: free some space, or leave the size out of the study"
            % (directory, free, needed)
        )


def write_file(path, pattern, first_chunk, size, sync="none", direct=False):
    """Create and fill a file. Returns its times in nanoseconds: open, transfer, sync, close."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
    body = size - size % BLOCK if direct else size
    # Before the clock starts: after a rest, cold processor caches make the first chunk take 30 µs.
    pattern.fill(first_chunk)
    begin = perf_counter_ns()
    fd = os.open(path, flags, 0o600)
    try:
        opened = perf_counter_ns()
        _write_chunks(fd, pattern, first_chunk, body)
        if body < size:
            # O_DIRECT takes whole blocks only. The rest goes through the cache, as with dd.
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)
            start = body % pattern.chunk_bytes
            if start == 0:
                pattern.fill(first_chunk + body // pattern.chunk_bytes)
            _write_all(fd, pattern.buffer[start : start + size - body])
        transferred = perf_counter_ns()
        if sync == "fsync":
            os.fsync(fd)
        synced = perf_counter_ns()
    finally:
        os.close(fd)
    closed = perf_counter_ns()
    return opened - begin, transferred - opened, synced - transferred, closed - synced


def _write_chunks(fd, pattern, number, left):
    """Write `left` bytes of the stream from chunk `number`, which the pattern already holds."""
    view, fill, limit = pattern.buffer, pattern.fill, pattern.chunk_bytes
    while left:
        piece = limit if left >= limit else left
        _write_all(fd, view[:piece])
        left -= piece
        number += 1
        if left:
            fill(number)


def _write_all(fd, view):
    done = os.write(fd, view)
    while done < len(view):
        done += os.write(fd, view[done:])


def read_file(fd, buffer, size, each=None):
    """Read `size` bytes of `fd` through `buffer`; call `each` on every piece. Raises Refused if the file is shorter."""
    left, limit = size, len(buffer)
    whole = memoryview(buffer)
    while left:
        piece = limit if left >= limit else _whole_blocks(left)
        got = os.readv(fd, (whole[:piece],))
        if got == 0:
            raise Refused("the file ends %d bytes too early" % left)
        if each is not None:
            each(whole[:got])
        left -= got


def pieces_of(buffer, size):
    """Return the buffers for the calls of a read of `size` bytes. Creating one takes 1 µs of a call of 20 µs."""
    whole, (full, rest) = memoryview(buffer), divmod(size, len(buffer))
    return [(whole,)] * full + ([(whole[: _whole_blocks(rest)],)] if rest else [])


def _whole_blocks(size):
    """Round up to whole blocks: O_DIRECT needs them, even at the end of a file."""
    return -(-size // BLOCK) * BLOCK


def measure_writes(request, answer):
    size, directory = request["size"], request["directory"]
    pattern = Pattern(request["chunk"])
    check_space(directory, size)
    memory = os.memfd_create("wake", os.MFD_CLOEXEC)
    path = os.path.join(directory, "write-%d" % os.getpid())
    _rehearse_write(path, pattern, request)
    number = pattern.chunks(REHEARSAL_BYTES)
    for index in range(request["operations"]):
        # Pending writes of others, and journal work of our own removal, do not belong to this operation.
        _settle(directory)
        sleep(REST_S)
        # The same call in memory, because a program that writes new data has not been resting itself.
        os.pwrite(memory, pattern.buffer, 0)
        try:
            times = write_file(path, pattern, number, size, request["sync"], request["direct"])
            operation = _named(times, perf_counter_ns() - sum(times))
            if request["direct"]:
                operation["cached_after"] = _assert_bypassed(path, size)
            answer["operations"].append(operation)
            if index == 0 and request["verify"]:
                answer["verified"] = _verify(path, size, pattern.sha256(number, size), pattern.buffer)
        finally:
            _remove(path)
        number += pattern.chunks(size)


def _rehearse_write(path, pattern, request):
    try:
        write_file(path, pattern, 0, min(request["size"], REHEARSAL_BYTES), request["sync"], request["direct"])
    finally:
        _remove(path)


def _remove(path):
    with suppress(FileNotFoundError):
        os.unlink(path)


def _settle(directory):
    with opened(directory) as fd:
        page_cache.sync_file_system(fd)


def _named(times, begin):
    opened, transferred, synced, closed = times
    parts = {"open_ns": opened, "transfer_ns": transferred, "sync_ns": synced, "close_ns": closed}
    return {"began_ns": unix_ns(begin), **parts}


def _verify(path, size, expected, buffer):
    """Read the file back past the page cache and compare. Raises Refused if it is not what was written."""
    page_cache.drop_file(path)
    page_cache.drop_system()
    digest = hashlib.sha256()
    with opened(path) as fd:
        cached = page_cache.resident_share(fd, size)
        read_file(fd, buffer, size, digest.update)
        if os.fstat(fd).st_size != size:
            raise Refused("%s has %d bytes, but %d were written" % (path, os.fstat(fd).st_size, size))
    if digest.hexdigest() != expected:
        raise Refused("%s: read back, its SHA-256 is %s instead of %s" % (path, digest.hexdigest(), expected))
    return {"sha256": expected, "bytes": size, "cached_when_read_back": cached}


def prepare(request, answer):
    """Write the file for reads, and answer with its SHA-256. It stays until its folder is removed."""
    size = request["size"]
    check_space(request["directory"], size)
    pattern = Pattern(request["chunk"])
    path = os.path.join(request["directory"], "read-%d" % size)
    try:
        write_file(path, pattern, 0, size, "fsync")
    except OSError:
        _remove(path)
        raise
    answer["file"], answer["sha256"] = path, pattern.sha256(0, size)


PROOF_BEFORE = "mincore with the file open, before the first read: the part that this machine's page cache holds"
PROOF_AFTER = "ru_inblock of getrusage: the bytes that this process fetched from the block device"
PROOF_ENDS = "caches of a server, or of a file system in user space, are unknown"


def measure_reads(request, answer):
    reads = _Reads(request)
    answer["cache"] = {"system_caches": None, "proof": [] if reads.told_by_device else [PROOF_BEFORE]}
    answer["cache"]["proof"].append(PROOF_AFTER if reads.on_device else PROOF_ENDS)
    if reads.size <= REHEARSAL_BYTES:
        reads.once(answer)
    for _ in range(request["operations"]):
        answer["operations"].append(reads.once(answer))
    if request["verify"]:
        _verify(reads.path, reads.size, request["sha256"], reads.buffer)
        answer["verified"] = {"sha256": request["sha256"], "bytes": reads.size}


def passes_before_warm_read(size):
    return max(1, min(MOST_WARMING_PASSES, WARMING_BYTES // size))


class _Reads:
    """Reads of one file. Each one sets up the page cache as the request says, and proves its state."""

    def __init__(self, request):
        self.path, self.size, self.direct = request["file"], request["size"], request["direct"]
        self.warm = request["cache"] == "warm"
        self.passes_before = passes_before_warm_read(self.size) if self.warm else 0
        chunk = request["chunk"]
        self.buffer = mmap.mmap(-1, chunk, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.buffer.write(bytes(chunk))  # allocates the pages before the first measured read
        self.pieces = pieces_of(self.buffer, self.size)
        self.memory = os.memfd_create("wake", os.MFD_CLOEXEC)
        os.write(self.memory, self.buffer)
        self.on_device = _on_block_device(self.path) and page_cache.device_read_bytes() is not None
        # Afterwards, the device's count proves the state. Checking before made a read of 1 MB 2 % slower.
        self.told_by_device = self.on_device and not self.warm and not self.direct

    def once(self, answer):
        """Return times and proofs of one read, as in the answer's `operations`. Raises NotInState."""
        for attempts_left in reversed(range(MOST_PREPARATIONS)):
            if self.warm:
                _warm(self.path, self.size, self.buffer)
            else:
                answer["cache"]["system_caches"] = page_cache.drop_system()
                if answer["cache"]["system_caches"] != "done":
                    # Only then: its flush of the disk made the next read of 1 MB 10 % slower.
                    page_cache.drop_file(self.path)
                sleep(REST_S)
                # The same call in memory, because a program that reads a file has not been resting itself.
                os.lseek(self.memory, 0, os.SEEK_SET)
                read_file(self.memory, self.buffer, len(self.buffer))
            try:
                return self._timed()
            except NotInState:  # another process may have emptied the caches, or read the file, meanwhile
                if not attempts_left:
                    raise

    def _timed(self):
        path, size, direct, cached = self.path, self.size, self.direct, None
        flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
        begin = perf_counter_ns()
        fd = os.open(path, flags)
        opened = perf_counter_ns()
        try:
            fetched = page_cache.device_read_bytes()
            if not self.told_by_device:
                # Between open and read, because opening can change what is cached (FUSE). It is not part of the times.
                cached = _resident(fd, path, size)
                if not direct:
                    _assert_state(self.warm, cached, path)
            for _ in range(self.passes_before):
                self._transfer_ns(fd)
                os.lseek(fd, 0, os.SEEK_SET)
            transferring = perf_counter_ns()
            transfer_ns = self._transfer_ns(fd)
            if fetched is not None:
                fetched = page_cache.device_read_bytes() - fetched
            cached_after = _resident(fd, path, size)
        finally:
            closing = perf_counter_ns()
            os.close(fd)
            closed = perf_counter_ns()
        if direct and cached_after > 0:
            raise Refused(
                "%s: O_DIRECT left %.0f %% of the file in the page cache: this file system reads through it"
                % (path, 100 * cached_after)
            )
        if self.told_by_device:
            cached = max(0.0, 1 - fetched / size)
            _assert_state(self.warm, cached, path)
        if self.on_device:
            _assert_fetched(self.warm and not direct, fetched, size, path)
        opening_ns = opened - begin
        # As if it had been opened just before the transfer: what lies between is not part of its time.
        operation = _named((opening_ns, transfer_ns, 0, closed - closing), transferring - opening_ns)
        operation.update(cached_before=cached, cached_after=cached_after, device_read_bytes=fetched)
        return operation

    def _transfer_ns(self, fd):
        readv, pieces, got = os.readv, self.pieces, 0
        begin = perf_counter_ns()
        for piece in pieces:
            got += readv(fd, piece)
        end = perf_counter_ns()
        if got < self.size:  # a call may return less than requested
            read_file(fd, self.buffer, self.size - got)
            end = perf_counter_ns()
        return end - begin


def _resident(fd, path, size):
    try:
        return page_cache.resident_share(fd, size)
    except OSError as error:
        raise Refused(
            "%s: the state of the cache cannot be proved, because the kernel refuses %s" % (path, error.strerror)
        ) from error


def _assert_state(warm, cached, path):
    if not warm and cached > 0:
        raise NotInState(
            "%s is not cold: %.1f %% of it stays in the page cache after fadvise(DONTNEED) and drop_caches "
            "(an in-memory file system, or another process maps the file)" % (path, 100 * cached)
        )
    if warm and cached < 1:
        raise NotInState(
            "%s is not warm: %.1f %% of it is in the page cache after opening it (too little memory, or a file "
            "system that drops the cache on open): leave 'warm' out" % (path, 100 * cached)
        )


def _assert_fetched(warm, fetched, size, path):
    if warm and fetched > max(WARM_READ_ALLOWANCE, size // 100):
        # A kernel that reclaims memory early takes pages even from files in use.
        raise NotInState("%s was not read warm: %d of %d bytes came from the device" % (path, fetched, size))
    if not warm and fetched < size:
        raise Refused("%s was not read cold: only %d of %d bytes came from the device" % (path, fetched, size))


def _warm(path, size, buffer):
    with opened(path) as fd:
        if page_cache.resident_share(fd, size) < 1:
            read_file(fd, buffer, size)


def _assert_bypassed(path, size):
    """Return the cached share of a file that O_DIRECT wrote. Raises Refused if more than its last, partial block is."""
    with opened(path) as fd:
        cached = _resident(fd, path, size)
    if cached * -(-size // mmap.PAGESIZE) > 1.5:
        raise Refused(
            "%s: O_DIRECT left %.0f %% of the file in the page cache: this file system writes through it"
            % (path, 100 * cached)
        )
    return cached


def _on_block_device(path):
    """Whether the kernel counts reads of this file from a device (not for FUSE, NFS and tmpfs)."""
    device = os.stat(path).st_dev
    return os.path.exists("/sys/dev/block/%d:%d" % (os.major(device), os.minor(device)))
