"""Snakemake's command line in forks of one process that has imported Snakemake already.

Most commands of the suite work for half a second, and would import for more than twice as long before: four minutes of
processor time in all. What is tested is imported by each fork, from the project that it runs in. The process in which
jobs of a report find their libraries is one for all these commands, too. `Project.start` and `Project.run` use the
program that users have, with such a process of its own.
"""

import functools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from waiting import until

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.cli", "snakemake.report", "snakemake.report.html_reporter", "smart_open"])


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """`snakemake` with these arguments in `folder`, and its output in text. Raises TimeoutExpired."""
    argv = ["snakemake", *arguments]
    with tempfile.TemporaryDirectory() as said:
        streams = [Path(said, name) for name in ("stdout", "stderr")]
        fork = FORKS.Process(target=_command, args=(argv, folder, dict(environment), streams, _libraries()))
        fork.start()
        fork.join(timeout_s)
        if fork.exitcode is None:
            fork.kill()
            fork.join()
            raise subprocess.TimeoutExpired(argv, timeout_s)
        return subprocess.CompletedProcess(argv, fork.exitcode, *(stream.read_text() for stream in streams))


@functools.cache
def _command_that_never_ends() -> subprocess.Popen[bytes]:
    """To which the process with the libraries belongs: until `end`, or until this process is gone."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


@functools.cache
def _libraries() -> Path:
    """The socket of the process that has imported what jobs of a report need."""
    from benchstudy.jobs import preloaded  # not above: a fork imports this file before it knows its project

    path = Path(tempfile.mkdtemp(), "socket")
    preloaded.connect(path, str(_command_that_never_ends().pid)).close()
    return path


def end() -> None:
    """Leave nothing behind."""
    from nothing_lost import processes  # not above: it imports the package

    if not _libraries.cache_info().currsize:
        return
    with _command_that_never_ends() as command:
        command.kill()
    until(lambda: not processes(str(_libraries())))  # its socket goes a moment before it does
    shutil.rmtree(_libraries().parent)


def _command(
    argv: list[str], folder: Path, environment: Mapping[str, str], streams: list[Path], libraries: Path
) -> None:
    for number, stream in enumerate(streams, start=1):
        with stream.open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = argv
    tests = str(Path(__file__).parent)
    sys.path[:] = [*environment["PYTHONPATH"].split(os.pathsep), *(path for path in sys.path if path != tests)]

    from snakemake.cli import main

    from benchstudy.jobs.preloaded import socket_of

    own = socket_of(str(os.getpid()))
    own.parent.mkdir(exist_ok=True)
    own.symlink_to(libraries)
    try:
        main()
    finally:
        own.unlink(missing_ok=True)
