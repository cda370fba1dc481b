"""Runs a command repeatedly and times it: `main` reads a spec and prints JSON with the resource usage of every run.

A run is spawned without a shell. Its clock starts before the spawn and stops when the process has ended, before it is
reaped. CPU time, faults and switches are those of the process and of the children that it waited for (wait4). Bytes
are read from /proc/PID/io. Outputs of a run go to `run-N/stdout` and `run-N/stderr` in the current folder, with
collected files beside them. The command works in the folder `work`, which is removed at the end. Files that the
study names by absolute paths, such as a script, are told with their SHA-256.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, perf_counter_ns, time

import outputs
import wire

EMPTY_RUNS = 10  # of a program that does nothing: what it costs to begin
WORK = "work"
_TAIL = 2000  # bytes of what a step said
_MOST_HASHED = 64 << 20  # bytes of a file that an argument names
_NULL = "/dev/null"
_ENVIRONMENT = {os.fsencode(name): os.fsencode(text) for name, text in os.environ.items()}
# A command begins with the defaults of these two, which Python ignores.
_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


class Stopped(Exception):
    """A step or a run did not end as it should: `what`, the program, its exit status and signal, its last words."""

    def __init__(self, what: str, program: str, exit_status: int | None, number: int | None, said: str):
        super().__init__(what)
        self.answer = {
            "what": what,
            "program": program,
            "exit_status": exit_status,
            "signal": number,
            "said": said,
        }


def main(arguments: list[str]) -> int:
    spec = json.load(sys.stdin.buffer)
    answer: dict = {"schema": 1, "empty": [], "warm_up": [], "runs": []}
    began = time()
    base = os.getcwd()
    os.mkdir(WORK)
    os.chdir(WORK)
    gc.disable()
    try:
        with _answered(spec, answer):
            _measure(spec, base, answer)
    finally:
        gc.enable()
        _clean_up(spec, base, answer)
    answer["named_files"] = _named_files(spec["named"], began)
    wire.emit(answer)
    return 0


@contextmanager
def _answered(spec: dict, answer: dict) -> Iterator[None]:
    """What stops us becomes part of the answer, unless something did before."""
    try:
        yield
    except Stopped as stopped:
        answer.setdefault("stopped", stopped.answer)
    except OSError as error:
        answer.setdefault("stopped", Stopped("files", spec["argv"][0], None, None, str(error)).answer)


def _measure(spec: dict, base: str, answer: dict) -> None:
    for _ in range(EMPTY_RUNS):
        answer["empty"].append(_run(spec["empty"], _NULL, _NULL, _NULL))
    _warm_up(spec, base, answer)
    for number in range(1, spec["repeat"] + 1):
        answer["runs"].append(_one(spec, os.path.join(base, "run-%d" % number)))


def _warm_up(spec: dict, base: str, answer: dict) -> None:
    """Do a number of runs, or whole runs until a time has passed. These runs do not count."""
    runs, end = spec["warm_up"].get("runs", 0), monotonic() + spec["warm_up"].get("seconds", 0.0)
    folder = os.path.join(base, "warm-up")
    while runs > len(answer["warm_up"]) or monotonic() < end:
        answer["warm_up"].append(_one(spec, folder)["wall_ns"])
        shutil.rmtree(folder)


def _one(spec: dict, folder: str) -> dict:
    """Do one run in its own folder, after its `prepare` steps. Raises Stopped."""
    for argv in spec["prepare"]:
        _step("prepare", argv, os.path.join(folder + ".prepare"))
    os.mkdir(folder)
    out = _NULL if spec["discard"] else os.path.join(folder, "stdout")
    err = os.path.join(folder, "stderr")
    stdin = _NULL
    if spec["stdin"]:
        stdin = os.path.join(folder, "stdin")
        with open(stdin, "w") as file:
            file.write(spec["stdin"])
    found = _run(spec["argv"], stdin, out, err)
    if found["signal"] or found["exit_status"] not in spec["expect"]:
        raise Stopped("run", spec["argv"][0], found["exit_status"], found["signal"], _tail(err) or _tail(out))
    found["truncated"] = [name for name in (out, err) if name != _NULL and _cut(name, spec["max_bytes"])]
    found["sizes"] = {name: _size(path) for name, path in spec["sizes"].items()}
    for name, path in spec["collect"].items():
        with suppress(OSError):
            kept = os.path.join(folder, name)
            shutil.copyfile(path, kept)
            found["truncated"] += [kept] if _cut(kept, spec["max_bytes"]) else []
    return found


def _run(argv: list[str], stdin: str, stdout: str, stderr: str) -> dict:
    """One run. Raises Stopped where it cannot be started."""
    # Everything possible is done before the clock starts: it would take a tenth of a run of a millisecond.
    program, arguments = shutil.which(argv[0]) or argv[0], [os.fsencode(argument) for argument in argv]
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = [os.open(stdin, os.O_RDONLY), os.open(stdout, written, 0o600), os.open(stderr, written, 0o600)]
    actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
    try:
        start = perf_counter_ns()
        pid = os.posix_spawn(program, arguments, _ENVIRONMENT, file_actions=actions, setsigdef=_SIGNALS)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        wall = perf_counter_ns() - start
    except OSError as error:
        raise Stopped("start", argv[0], None, None, error.strerror or str(error)) from error
    finally:
        for stream in streams:
            os.close(stream)
    counted = _bytes(pid)
    _, status, used = os.wait4(pid, 0)
    return {
        "wall_ns": wall,
        "user_s": used.ru_utime,
        "system_s": used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
        "minor_faults": used.ru_minflt,
        "major_faults": used.ru_majflt,
        "voluntary_switches": used.ru_nvcsw,
        "involuntary_switches": used.ru_nivcsw,
        **counted,
        "exit_status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
    }


def _bytes(pid: int) -> dict:
    """Bytes that the ended process and its children read and wrote, by calls and from storage; {} if unknown."""
    names = {"rchar": "read_bytes", "wchar": "written_bytes"}
    names.update(read_bytes="storage_read_bytes", write_bytes="storage_written_bytes")
    try:
        with open("/proc/%d/io" % pid, encoding="ascii") as file:
            told = dict(line.split(": ") for line in file.read().splitlines())
    except (OSError, ValueError):
        return {}
    return {name: int(told[counter]) for counter, name in names.items() if counter in told}


def _step(kind: str, argv: list[str], log: str) -> None:
    """Something beside the runs, such as what prepares one. Raises Stopped."""
    found = _run(argv, _NULL, log, log)
    if found["exit_status"] != 0:
        raise Stopped(kind, argv[0], found["exit_status"], found["signal"], _tail(log))
    os.unlink(log)


def _clean_up(spec: dict, base: str, answer: dict) -> None:
    with _answered(spec, answer):
        for argv in spec["cleanup"]:
            _step("cleanup", argv, os.path.join(base, "cleanup"))
    os.chdir(base)
    shutil.rmtree(WORK, ignore_errors=True)
    answer["own_peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _named_files(paths: list[str], began: float) -> dict[str, str]:
    """The SHA-256 of each file among `paths` that the command did not write.

    Called when everything is over: hashlib would count as memory of the runs, and reading as a warm-up.
    """
    import hashlib

    found = {}
    for path in paths:
        with suppress(OSError):
            facts = os.stat(path)
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_HASHED and facts.st_mtime < began:
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read(_MOST_HASHED)).hexdigest()
    return found


def _size(path: str) -> int | None:
    """Bytes of a file, or of all files in a folder but not behind its links; None where there is neither."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.isfile(path) else None
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # the command may have left a process that removes it
                entry = os.lstat(os.path.join(folder, name))
                found += entry.st_size if stat.S_ISREG(entry.st_mode) else 0
    return found


def _cut(path: str, most: int) -> bool:
    """Whether the file was longer than it may be, and is not any more."""
    if os.path.getsize(path) <= most:
        return False
    os.truncate(path, most)
    return True


def _tail(path: str) -> str:
    try:
        return outputs.tail_of(path, _TAIL).strip()
    except OSError as error:
        return "" if path == _NULL else str(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
