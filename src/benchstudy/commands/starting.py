"""`benchstudy run`, `lab`, `setup`: programs that a study needs, where only `benchstudy` is on the PATH, as with pipx.

Each goes on as that program, which so gets every Ctrl-C, and whose exit status is its own.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.output import makes

# On loopback behind its token, what kernels say encrypted. Which packages there are is the affair of whoever installed
# this one, so Lab's own way to add some is closed.
_LAB = ("--LabApp.extension_manager=readonly", "--KernelManager.transport_encryption=auto")
# Of options: none, so that all that is said is handed on, whatever it begins with.
_NONE = "\0"


def add_commands(commands: Any) -> None:
    """Adds them to argparse's subcommands."""
    run = commands.add_parser(
        "run", prefix_chars=_NONE, usage="benchstudy run [TARGET] [OPTION …]", add_help=False,
        help="snakemake of this environment, with all its options, and 8 cores by itself: `benchstudy run report`",
    )  # fmt: skip
    run.add_argument("given", nargs="*", metavar="ARGUMENT")
    run.set_defaults(command=_run)
    lab = commands.add_parser(
        "lab", prefix_chars=_NONE, usage="benchstudy lab [OPTION …]", add_help=False,
        help="JupyterLab on the notebooks of this project, with all its options",
    )  # fmt: skip
    lab.add_argument("given", nargs="*", metavar="ARGUMENT")
    lab.set_defaults(command=_lab)
    setup = commands.add_parser(
        "setup",
        help="install system packages that this machine lacks, such as an SSH server; hosts get theirs by `run`",
    )
    setup.set_defaults(command=_setup)
    for command in (run, lab, setup):
        makes(command, "what the program makes that it starts")


def _run(arguments: argparse.Namespace) -> int:
    root = paths.project_root()
    if root != Path.cwd().resolve():
        raise BenchstudyError(f"call it where workflow/ lies: cd {root}")
    for file in _studies(arguments.given):
        if not Path(file).is_file():
            raise BenchstudyError(f"--configfile {file}: there is no such study file")
    # Before what was given, which so has the last word; --jobs would lose against it.
    cores = [] if any(re.match("-j|--jobs", word) for word in arguments.given) else ["--cores", "8"]
    return _become([sys.executable, "-m", "snakemake", *cores, *arguments.given])


def _studies(given: Sequence[str]) -> Iterator[str]:
    """What Snakemake is to read as studies. It answers a file that is not there with a traceback."""
    for number, word in enumerate(given):
        option, equals, value = word.partition("=")
        if option in ("--configfile", "--configfiles"):
            yield from [value] if equals else takewhile(lambda word: not word.startswith("-"), given[number + 1 :])


def _lab(arguments: argparse.Namespace) -> int:
    root = ["--allow-root"] if os.getuid() == 0 else []  # who works in a container or on a bare cloud machine
    notebooks = paths.project_root() / "notebooks"
    return _become([sys.executable, "-m", "jupyterlab", str(notebooks), *root, *_LAB, *arguments.given])


def _setup(arguments: argparse.Namespace) -> int:
    return _become(["sh", str(paths.shipped() / "setup" / "system.sh")])


def _become(argv: list[str]) -> int:
    sys.stdout.flush()
    os.execvp(argv[0], argv)
