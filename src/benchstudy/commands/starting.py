"""`benchstudy run`, `lab`, `setup`: start programs that a study needs if only `benchstudy` is on the PATH (pipx).

Each command replaces itself with that program, so the program gets every Ctrl-C and its exit status is the command's.
"""

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.studyfile import read_study

# On loopback behind its token, what kernels say encrypted. Which packages there are is the affair of whoever installed
# this one, so Lab's own way to add some is closed.
_LAB = ("--LabApp.extension_manager=readonly", "--KernelManager.transport_encryption=auto")
# Of options: none, so that all that is said is handed on, whatever it begins with.
_NONE = "\0"
_HELP, _HELP_ALL = ("-h", "--help"), "--help-all"
_RUN_HELP = """\
Start this environment's Snakemake in the project's folder. Every word after `run` is passed on to it.

targets:
  report                      measure what is missing, and make every page (default)
  reports/STUDY/FAMILY.html   the same for one page
  measure                     measure what is missing, and make no page
  provision                   install and build on every host what the study needs
  crate                       pack the study: reports/STUDY.crate.zip

options of Snakemake that you need most:
  --cores N                   use N cores of this machine (default: 8)
  --configfile FILE           use this study, not config/config.yaml. Write the option after the target: Snakemake
                              reads every word between this option and the next one as a file
  --config measure=false      use what is on disk, and contact no host
  -n                          show what is due, and do nothing

  -h, --help                  show this help
  --help-all                  show all options of Snakemake"""
_LAB_HELP = """\
Start JupyterLab on the notebooks of this project. Every word after `lab` is passed on to it.

options of JupyterLab that you need most:
  --port PORT                 listen on this port (default: the first free one from 8888 on)
  --no-browser                print the address, and open no browser

  -h, --help                  show this help
  --help-all                  show all options of JupyterLab"""


def add_commands(commands: Any) -> None:
    """Adds them to argparse's subcommands."""
    run = commands.add_parser(
        "run", prefix_chars=_NONE, usage="benchstudy run [TARGET …] [OPTION …]", add_help=False,
        description=_RUN_HELP, formatter_class=argparse.RawDescriptionHelpFormatter,
        help="run this environment's snakemake with any of its options, by default on 8 cores: `benchstudy run report`",
    )  # fmt: skip
    run.add_argument("given", nargs="*", metavar="ARGUMENT", help=argparse.SUPPRESS)
    run.set_defaults(command=partial(_run, run))
    lab = commands.add_parser(
        "lab", prefix_chars=_NONE, usage="benchstudy lab [OPTION …]", add_help=False,
        description=_LAB_HELP, formatter_class=argparse.RawDescriptionHelpFormatter,
        help="start JupyterLab on the notebooks of this project, with any of its options",
    )  # fmt: skip
    lab.add_argument("given", nargs="*", metavar="ARGUMENT", help=argparse.SUPPRESS)
    lab.set_defaults(command=partial(_lab, lab))
    setup = commands.add_parser(
        "setup",
        help="install system packages that this machine lacks, such as an SSH server; `run` installs what hosts lack",
        description="Install the system packages that this machine lacks for reports, such as an SSH server, as root "
        "or through password-less sudo. With neither, name them and change nothing.",
    )
    setup.set_defaults(command=_setup)


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if not {*_HELP}.isdisjoint(arguments.given):
        parser.print_help()
        return 0
    if _HELP_ALL in arguments.given:
        return _become([sys.executable, "-m", "snakemake", "--help"])
    if refusal := _wrong_study(arguments.given):
        parser.error(refusal)
    root = paths.project_root()
    if root != Path.cwd().resolve():
        raise BenchstudyError(f"run it in the folder that holds workflow/: {hints.cd(root)}")
    for file in _studies(arguments.given):
        read_study(Path(file))
    for folder in (root, root / ".snakemake"):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise BenchstudyError(
                f"{folder}: you may not write there, and Snakemake keeps its state there: run this as the folder's "
                "owner, or in a copy of the project"
            )
    # Before the given arguments, so that they take precedence; --cores would override --jobs.
    cores = [] if any(re.match("-j|--jobs", word) for word in arguments.given) else ["--cores", "8"]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the program that follows can answer it in a word
    return _become([sys.executable, "-m", "benchstudy.jobs.begun", *cores, *arguments.given])


def _wrong_study(given: Sequence[str]) -> str:
    """What to write if a study is named as for other commands; "" if it is not."""
    for word, behind in pairwise([*given, "FILE"]):
        option, _, value = word.partition("=")
        if option == "--study":
            return f"there is no option '--study': write {hints.snakemake('report', '--configfile', value or behind)}"
    if any(word.endswith((".yaml", ".yml")) for word in {*given} - {*_studies(given)}):
        from benchstudy.jobs.snakemake_adapter import study_as_target

        return study_as_target(given)
    return ""


def _studies(given: Sequence[str]) -> Iterator[str]:
    """The files that Snakemake will read as studies. It answers one that it cannot read with a traceback."""
    for number, word in enumerate(given):
        option, equals, value = word.partition("=")
        if option in ("--configfile", "--configfiles"):
            yield from [value] if equals else takewhile(lambda word: not word.startswith("-"), given[number + 1 :])


def _lab(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if not {*_HELP}.isdisjoint(arguments.given):
        parser.print_help()
        return 0
    if _HELP_ALL in arguments.given:
        return _become([sys.executable, "-m", "jupyterlab", _HELP_ALL])
    root = ["--allow-root"] if os.getuid() == 0 else []  # in a container or on a bare cloud machine
    notebooks = paths.project_root() / "notebooks"
    return _become([sys.executable, "-m", "jupyterlab", str(notebooks), *root, *_LAB, *arguments.given])


def _setup(arguments: argparse.Namespace) -> int:
    return _become(["sh", str(paths.shipped() / "setup" / "system.sh")])


def _become(argv: list[str]) -> int:
    sys.stdout.flush()
    os.execvp(argv[0], argv)
