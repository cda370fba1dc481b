"""Snakemake's command line in forks of one process that has already imported Snakemake.

Most commands of the suite work for half a second, and would spend more than twice as long on imports: four minutes of
processor time in all. Each fork imports the tested code from the project in which it runs. The process in which jobs of
a report find their libraries is also shared by all these commands. `Project.run` uses the program that users have, with
such a process of its own.
"""

import functools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any
from unittest import mock

from waiting import until

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.report.html_reporter", "smart_open", "grimp", "warm_plugins"])
TESTS = str(Path(__file__).parent)


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `snakemake` with these arguments in `folder`, and return its output as text. Raises TimeoutExpired."""
    argv = ["snakemake", *arguments]
    with tempfile.TemporaryDirectory() as said:
        streams = [Path(said, name) for name in ("stdout", "stderr")]
        fork = _fork(_in_files, streams, argv, folder, dict(environment), _libraries())
        fork.join(timeout_s)
        if fork.exitcode is None:
            fork.kill()
            fork.join()
            raise subprocess.TimeoutExpired(argv, timeout_s)
        return subprocess.CompletedProcess(argv, fork.exitcode, *(stream.read_text() for stream in streams))


class Started:
    """A command that is not waited for, in a session and process group of its own; the interface is subprocess.Popen's.

    `stdout` has what it and its jobs print on both streams.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]):
        self.args = ["snakemake", *arguments]
        reading, writing = FORKS.Pipe(duplex=False)
        given = (writing, self.args, folder, dict(environment), _libraries())
        self._fork = _fork(_in_session_of_its_own, *given)
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()), errors="replace")
        reading.close()

    @property
    def pid(self) -> int:
        return self._fork.pid

    @property
    def returncode(self) -> int | None:
        return self._fork.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, None]:
        """All output until it and every process with its streams has ended. Raises TimeoutExpired."""
        end = time.monotonic() + timeout
        said = []
        with self.stdout:
            while not said or said[-1]:
                if not wait([self.stdout], max(0, end - time.monotonic())):
                    raise subprocess.TimeoutExpired(self.args, timeout)
                said.append(os.read(self.stdout.fileno(), 1 << 16))
        self._fork.join(max(0, end - time.monotonic()))
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return b"".join(said).decode(), None


def _fork(target: Callable[..., None], *given: Any) -> ForkServerProcess:
    with mock.patch.dict(os.environ, PYTHONPATH=TESTS):
        ensure_running()  # the server finds warm_plugins.py by this variable only, and would do without it
    fork = FORKS.Process(target=target, args=given)
    fork.start()
    return fork


@functools.cache
def _command_that_never_ends() -> subprocess.Popen[bytes]:
    """Owns the process with the libraries: until `end`, or until this process has ended."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


@functools.cache
def _libraries() -> Path:
    """The socket of the process that has imported what jobs of a report need."""
    path = Path(tempfile.mkdtemp(), "socket")
    _fork(_import_libraries, path, str(_command_that_never_ends().pid)).join()
    return path


def _import_libraries(path: Path, controller: str) -> None:
    from benchstudy.jobs import preloaded  # not at the top: a fork imports this file before it knows its project

    _hear_ctrl_c()
    preloaded.connect(path, controller).close()


def _hear_ctrl_c() -> None:
    """As for what a shell starts; the fork server ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end() -> None:
    """Leave nothing behind."""
    from nothing_lost import processes  # not at the top: it imports the package

    if not _libraries.cache_info().currsize:
        return
    with _command_that_never_ends() as command:
        command.kill()
    until(lambda: not processes(str(_libraries())))  # its socket is removed a moment before it ends
    shutil.rmtree(_libraries().parent)


def _in_files(streams: list[Path], *given: Any) -> None:
    for number, stream in enumerate(streams, start=1):
        with stream.open("wb") as file:
            os.dup2(file.fileno(), number)
    _command(*given)


def _in_session_of_its_own(writing: Connection, *given: Any) -> None:
    os.setsid()
    _hear_ctrl_c()
    for number in (1, 2):
        os.dup2(writing.fileno(), number)
    writing.close()
    _command(*given)


def _command(argv: list[str], folder: Path, environment: Mapping[str, str], libraries: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = argv
    sys.path[:] = [*environment["PYTHONPATH"].split(os.pathsep), *(path for path in sys.path if path != TESTS)]

    from snakemake.cli import main

    from benchstudy.jobs.preloaded import socket_of

    own = socket_of(str(os.getpid()))
    own.parent.mkdir(exist_ok=True)
    own.symlink_to(libraries)
    try:
        main()
    finally:
        own.unlink(missing_ok=True)
