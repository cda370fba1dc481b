"""Parser of the naive test with 1001 small files: the output of bash's `time`, and the answer of the forkless probe."""

import json
import re
from collections.abc import Mapping
from typing import Any

from benchstudy.families.shared.files import as_number, damaged
from benchstudy.model.family import Observation, Parsed, ParseError
from benchstudy.model.rounding import plural

FILES = 1001  # {0..1000} counts both ends
BYTES = FILES * len("test\n")
OPS = ("write", "read")

_TIMES = re.compile(r"\n?real\t(\d+)m([\d.]+)s\nuser\t(\d+)m([\d.]+)s\nsys\t(\d+)m([\d.]+)s\n")
_FOUND = re.compile(r"files (\d+)\nbytes\s+(\d+)\n")


@damaged("the times of the loop are damaged")
def parse_shell_loop(stdout: str, stderr: str) -> Parsed:
    """Parse the shell loop. `stderr`: the times of writing and reading. `stdout`: the files found afterwards.

    Raises ParseError if files are missing, or for any other message: on a full disk, `echo` reports an error and the
    loop continues.
    """
    complaints = [line for line in _TIMES.sub("", stderr).splitlines() if line.strip()]
    if complaints:
        raise ParseError(f"the loop met {plural(len(complaints), 'error')}, the first: {complaints[0]}")
    times = _TIMES.findall(stderr)
    if len(times) != len(OPS):
        raise ParseError(f"bash printed {len(times)} times instead of one for writing and one for reading")
    found = _FOUND.search(stdout)
    if found is None:
        raise ParseError("the loop ended before the files were counted")
    _all_there(int(found[1]), int(found[2]))
    observations = []
    for op, numbers in zip(OPS, times, strict=True):
        real, user, system = (int(numbers[i]) * 60 + float(numbers[i + 1]) for i in (0, 2, 4))
        observations += _observe(op, real, user, system)
    return Parsed([*observations, Observation("files", float(FILES), "1")])


@damaged("the answer of small-files is truncated or not its own")
def parse_no_fork(stdout: str) -> Parsed:
    """Parse the answer of `small-files`, with the series `small_file_operations`. Raises ParseError if truncated."""
    answer: Mapping[str, Any] = json.loads(stdout)
    _all_there(answer["files"], answer["bytes"])
    observations, operations = [], []
    for op in OPS:
        part = answer[op]
        if len(part["each_ns"]) != FILES:
            raise ParseError(f"{len(part['each_ns'])} {op} times instead of {FILES}")
        observations += _observe(op, part["real_s"], part["user_s"], part["system_s"])
        each_s = [as_number(ns, "each_ns") / 1e9 for ns in part["each_ns"]]
        operations += [{"op": op, "index": index, "duration_s": seconds} for index, seconds in enumerate(each_s)]
    return Parsed([*observations, Observation("files", float(FILES), "1")], {"small_file_operations": operations})


def _all_there(files: int, size: int) -> None:
    if (files, size) != (FILES, BYTES):
        raise ParseError(f"{files} files with {size} bytes were there in the end, instead of {FILES} with {BYTES}")


def _observe(op: str, real: float, user: float, system: float) -> list[Observation]:
    return [
        Observation(f"{op}_time", as_number(real, f"the time of {op}"), "s"),
        Observation(f"{op}_user", user, "s"),
        Observation(f"{op}_system", system, "s"),
        Observation(f"{op}_time_per_file", real / FILES, "s"),
    ]
