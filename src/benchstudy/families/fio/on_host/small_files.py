"""Writes and reads 1001 small files in one process: the shell loop without forks.

`small-files DIRECTORY` creates DIRECTORY, works in it, and prints JSON: for `write` and `read`, `real_s`, `user_s` and
`system_s` of the whole loop (monotonic and CPU time in s), and `each_ns`, one integer per file. `files` and `bytes`
count what is in the folder afterwards. Nothing is removed. On failure, the exit status is 1, and stderr says why.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from time import perf_counter_ns

import wire

FILES = 1001  # {0..1000} counts both ends
CONTENT = b"test\n"


def main(arguments: list[str]) -> int:
    (directory,) = arguments
    try:
        os.mkdir(directory)
        os.chdir(directory)
        names = ["test%d.txt" % i for i in range(FILES)]
        gc.disable()
        answer = {"write": _timed(_write, names), "read": _timed(_read, names)}
        gc.enable()
        found = os.listdir(".")
        size = sum(os.path.getsize(name) for name in found)
    except OSError as error:
        sys.stderr.write("%s: %s\n" % (error.filename or directory, error.strerror or error))
        return 1
    wire.emit({"schema": 1, **answer, "files": len(found), "bytes": size})
    return 0


def _timed(operation, names: list[str]) -> dict:
    before = resource.getrusage(resource.RUSAGE_SELF)
    each = []
    begun = perf_counter_ns()
    for name in names:
        start = perf_counter_ns()
        operation(name)
        each.append(perf_counter_ns() - start)
    real = perf_counter_ns() - begun
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "real_s": real / 1e9,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "each_ns": each,
    }


def _write(name: str) -> None:
    """The system calls of `echo 'test' > name`."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.write(file, CONTENT)
    os.close(file)


def _read(name: str) -> None:
    """The system calls of `cat name`, up to the end of the file, without the process."""
    file = os.open(name, os.O_RDONLY)
    while os.read(file, 65536):
        pass
    os.close(file)
