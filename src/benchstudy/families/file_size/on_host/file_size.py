"""Times whole files: `file-size REQUEST` takes one request in JSON and writes one answer in JSON on stdout.

Without an argument the request is read from stdin.
A request has `kind` (`path` or `s3`) and `action` (`prepare`, `write`, `read`; `hold`, `clean` and `check` for s3).
`hold` uploads an object, makes the file `held` and stays until a `clean` in the same folder has removed the object.
`check` reads the keys from stdin; the answer's `finding` is what is wrong, or null. Times are integers in nanoseconds
of the monotonic clock. Exit status 0: all was measured. 1: it was not, and the last line of stderr says why; what had
been measured so far is in the answer all the same.
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

# Up to this size the first operation in a process took up to twice as long as those after it, whose code, buffers and
# folder were known to the processor and the kernel. A larger file has its own such beginning inside of it.
REHEARSAL_BYTES = 16 << 20
# Reading a file's own metadata also counts as reading; a larger part of a "warm" file from storage does not pass.
WARM_READ_ALLOWANCE = 64 * 1024
MOST_PREPARATIONS = 3
# Read from memory just before each measured warm read, by passes over the file. A processor's own caches take some 20
# passes over 10 MB until they hold what they will of it (2.0 ms the first, 0.5 ms the last), lose it again whenever
# something else is done, and the more so the more its neighbours are at work: fewer passes, and the time is of that.
WARMING_BYTES, MOST_WARMING_PASSES = 256 << 20, 300
# Just after other work a disk, and the way to it out of a virtual machine, answer up to a third faster than a moment
# later; how much faster depends on what that work was. So every operation that reaches it begins after the same rest.
REST_S = 0.02


class NotInState(Refused):
    """The page cache did not hold what it should just before the operation, which therefore did not begin."""


def main(arguments):
    request = json.loads(arguments[0]) if arguments else json.load(sys.stdin)
    answer = {"schema": 1, "request": request, "operations": []}
    try:
        if request["kind"] == "s3":
            import s3_objects  # only there where boto3 was shipped

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
    gc.disable()  # nothing here makes cycles, and a collection would fall into a measured time
    actions[request["action"]](request, answer)


def assert_file_system(path, expected):
    """What is mounted at `path`, from the kernel's table. Raises Refused if it is missing or not what was declared."""
    mount = mount_of(path)
    if expected and mount["type"] not in expected:
        raise Refused(
            "%s is on a %s file system (mounted at %s), and the study expects %s: is the mount missing?"
            % (path, mount["type"], mount["mount_point"], " or ".join(expected))
        )
    if not os.path.isdir(path):
        raise Refused("%s is not a folder: make it, or mend the backend's path" % path)
    return mount


def mount_of(path):
    """Type, mount point, source and options of the file system that holds `path` (which need not exist yet)."""
    found = folders.mount_of(os.path.realpath(path))
    if found is None:
        raise Refused("%s: no mount in /proc/self/mounts holds it" % path)
    return {**{name: found[name] for name in ("type", "source", "options")}, "mount_point": found["point"]}


def check_space(directory, needed):
    """Raises Refused if `directory` cannot take `needed` more bytes. A file system that tells nothing passes."""
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if space.f_blocks and free < needed:
        raise Refused(
            "no space: %s has %d bytes free and %d are needed: free some, or leave the size out of the study"
            % (directory, free, needed)
        )


def write_file(path, pattern, first_chunk, size, sync="none", direct=False):
    """Make and fill a file. Returns its times in nanoseconds: open, transfer, sync, close."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
    body = size - size % BLOCK if direct else size
    # Before the clock runs: after a rest it costs what the processor's caches have lost, 30 µs for the first chunk.
    pattern.fill(first_chunk)
    begin = perf_counter_ns()
    fd = os.open(path, flags, 0o600)
    try:
        opened = perf_counter_ns()
        _write_chunks(fd, pattern, first_chunk, body)
        if body < size:
            # O_DIRECT takes whole blocks only; the rest goes through the cache, as dd does it.
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
    """Write `left` bytes of the stream from chunk `number` on, which the pattern holds already."""
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
    """Read `size` bytes of `fd` through `buffer`; `each` sees every piece. Raises Refused if the file is shorter."""
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
    """What each call of a read of `size` bytes fills. Made beforehand: of a call of 20 µs the making would be one."""
    whole, (full, rest) = memoryview(buffer), divmod(size, len(buffer))
    return [(whole,)] * full + ([(whole[: _whole_blocks(rest)],)] if rest else [])


def _whole_blocks(size):
    """Bytes to ask for at a file's end: O_DIRECT wants whole blocks, so the request is not cut to the file's size."""
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
        # What others left to be written, and the journal's work of our own removal, is not this operation's.
        _settle(directory)
        sleep(REST_S)
        # The same call in memory: a program that writes what it has just made does not come from a rest itself.
        os.pwrite(memory, pattern.buffer, 0)
        try:
            times = write_file(path, pattern, number, size, request["sync"], request["direct"])
            operation = _named(times)
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


def _named(times):
    opened, transferred, synced, closed = times
    return {"open_ns": opened, "transfer_ns": transferred, "sync_ns": synced, "close_ns": closed}


def _verify(path, size, expected, buffer):
    """Read the file back from below the page cache and compare. Raises Refused if it is not what was written."""
    page_cache.drop_file(path)
    page_cache.drop_system()
    digest = hashlib.sha256()
    with opened(path) as fd:
        cached = page_cache.resident_share(fd, size)
        read_file(fd, buffer, size, digest.update)
        if os.fstat(fd).st_size != size:
            raise Refused("%s has %d bytes, and %d were written" % (path, os.fstat(fd).st_size, size))
    if digest.hexdigest() != expected:
        raise Refused("%s: read back, its SHA-256 is %s instead of %s" % (path, digest.hexdigest(), expected))
    return {"sha256": expected, "bytes": size, "cached_when_read_back": cached}


def prepare(request, answer):
    """Write the file that reads will read, and say its SHA-256. It stays until its folder is removed."""
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


PROOF_BEFORE = "mincore with the file open, before the first read: what this machine's page cache holds of it"
PROOF_AFTER = "ru_inblock of getrusage: what this process fetched from the block device"
PROOF_ENDS = "nothing is known of what a server, or a file system in user space, caches by itself"


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
    """Reads of one file; each finds the page cache as the request wants it, and proves that it did."""

    def __init__(self, request):
        self.path, self.size, self.direct = request["file"], request["size"], request["direct"]
        self.warm = request["cache"] == "warm"
        self.passes_before = passes_before_warm_read(self.size) if self.warm else 0
        chunk = request["chunk"]
        self.buffer = mmap.mmap(-1, chunk, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.buffer.write(bytes(chunk))  # its pages exist before the first measured read
        self.pieces = pieces_of(self.buffer, self.size)
        self.memory = os.memfd_create("wake", os.MFD_CLOEXEC)
        os.write(self.memory, self.buffer)
        self.on_device = _on_block_device(self.path) and page_cache.device_read_bytes() is not None
        # The device tells afterwards. To look first made the read of 1 MB by a fiftieth longer.
        self.told_by_device = self.on_device and not self.warm and not self.direct

    def once(self, answer):
        """One read's times and proofs, as in the answer's `operations`. Raises NotInState if it cannot be had so."""
        for attempts_left in reversed(range(MOST_PREPARATIONS)):
            if self.warm:
                _warm(self.path, self.size, self.buffer)
            else:
                answer["cache"]["system_caches"] = page_cache.drop_system()
                if answer["cache"]["system_caches"] != "done":
                    # Only then: the flush that it sends to the disk made the next read of 1 MB a tenth longer.
                    page_cache.drop_file(self.path)
                sleep(REST_S)
                # The same call in memory: a program that reads a file does not come from a rest itself.
                os.lseek(self.memory, 0, os.SEEK_SET)
                read_file(self.memory, self.buffer, len(self.buffer))
            try:
                return self._timed()
            except NotInState:  # another process may have emptied the caches, or read the file, in between
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
                # Between open and read, because opening may itself change what is cached (FUSE); outside the times.
                cached = _resident(fd, path, size)
                if not direct:
                    _assert_state(self.warm, cached, path)
            for _ in range(self.passes_before):
                self._transfer_ns(fd)
                os.lseek(fd, 0, os.SEEK_SET)
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
        operation = _named((opened - begin, transfer_ns, 0, closed - closing))
        operation.update(cached_before=cached, cached_after=cached_after, device_read_bytes=fetched)
        return operation

    def _transfer_ns(self, fd):
        readv, pieces, got = os.readv, self.pieces, 0
        begin = perf_counter_ns()
        for piece in pieces:
            got += readv(fd, piece)
        end = perf_counter_ns()
        if got < self.size:  # a call may give less than it is asked for
            read_file(fd, self.buffer, self.size - got)
            end = perf_counter_ns()
        return end - begin


def _resident(fd, path, size):
    try:
        return page_cache.resident_share(fd, size)
    except OSError as error:
        raise Refused(
            "%s: the cache's state cannot be proved, the kernel refuses %s" % (path, error.strerror)
        ) from error


def _assert_state(warm, cached, path):
    if not warm and cached > 0:
        raise NotInState(
            "%s is not cold: %.1f %% of it stays in the page cache after fadvise(DONTNEED) and drop_caches "
            "(a file system in memory, or someone else has it mapped)" % (path, 100 * cached)
        )
    if warm and cached < 1:
        raise NotInState(
            "%s is not warm: %.1f %% of it is in the page cache once it is open (too little memory, or a file "
            "system that forgets it when a file is opened): leave 'warm' out" % (path, 100 * cached)
        )


def _assert_fetched(warm, fetched, size, path):
    if warm and fetched > max(WARM_READ_ALLOWANCE, size // 100):
        # A kernel that keeps memory free ahead of need takes pages even of files in use.
        raise NotInState("%s was not read warm: %d of %d bytes came from the device" % (path, fetched, size))
    if not warm and fetched < size:
        raise Refused("%s was not read cold: only %d of %d bytes came from the device" % (path, fetched, size))


def _warm(path, size, buffer):
    with opened(path) as fd:
        if page_cache.resident_share(fd, size) < 1:
            read_file(fd, buffer, size)


def _assert_bypassed(path, size):
    """Share of the file that is cached after O_DIRECT wrote it: nothing but its last, incomplete block may be."""
    with opened(path) as fd:
        cached = _resident(fd, path, size)
    if cached * -(-size // mmap.PAGESIZE) > 1.5:
        raise Refused(
            "%s: O_DIRECT left %.0f %% of the file in the page cache: this file system writes through it"
            % (path, 100 * cached)
        )
    return cached


def _on_block_device(path):
    """Whether the kernel's count of bytes read from devices covers this file (not so for FUSE, NFS, tmpfs)."""
    device = os.stat(path).st_dev
    return os.path.exists("/sys/dev/block/%d:%d" % (os.major(device), os.minor(device)))
