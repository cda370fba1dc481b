"""Snakemake's command line in forks of one process that has imported Snakemake already.

Most commands of the suite work for half a second, and would import for more than twice as long before: four minutes of
processor time in all. What is tested is imported by each fork, from the project that it runs in. `Project.start` and
`Project.run` use the program that users have.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.cli", "snakemake.report", "snakemake.report.html_reporter", "smart_open"])


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """`snakemake` with these arguments in `folder`, and its output in text. Raises TimeoutExpired."""
    argv = ["snakemake", *arguments]
    with tempfile.TemporaryDirectory() as said:
        streams = [Path(said, name) for name in ("stdout", "stderr")]
        fork = FORKS.Process(target=_command, args=(argv, folder, dict(environment), streams))
        fork.start()
        fork.join(timeout_s)
        if fork.exitcode is None:
            fork.kill()
            fork.join()
            raise subprocess.TimeoutExpired(argv, timeout_s)
        return subprocess.CompletedProcess(argv, fork.exitcode, *(stream.read_text() for stream in streams))


def _command(argv: list[str], folder: Path, environment: Mapping[str, str], streams: list[Path]) -> None:
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

    main()
