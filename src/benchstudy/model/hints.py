"""Commands that messages tell people to type, with the study they are about if it is not the default one."""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchstudy.model import paths

EMBEDDED = Path("config/config.yaml")
# How the user's command informs the jobs that it starts.
_VARIABLE, _PROFILE = "BENCHSTUDY_STUDY_FILES", "BENCHSTUDY_PROFILE"


def announce(files: Iterable[str | Path], profile: str | None = None) -> None:
    """Called once by a command that starts jobs, with the files of its study. Paths are relative to this folder.

    `profile`: that of a cluster, without which the same command would run its jobs here.
    """
    if profile:
        os.environ[_PROFILE] = profile
    here = Path.cwd()
    seen = (Path(f).relative_to(here) if Path(f).is_relative_to(here) else f for f in files)
    os.environ[_VARIABLE] = shlex.join(map(str, seen))


@contextmanager
def about(file: Path | None) -> Iterator[None]:
    """Hints within this context are about the study of this file; None changes nothing."""
    before = os.environ.get(_VARIABLE)
    if file is not None:
        announce([file])
    try:
        yield
    finally:
        if file is not None:
            os.environ.pop(_VARIABLE)
            os.environ |= {} if before is None else {_VARIABLE: before}


def snakemake(target: str = "report", *options: str) -> str:
    """`snakemake --cores 8 report --configfile config/studies/x.yaml`, in backquotes.

    If the package is installed from a wheel, as by pipx, only `benchstudy` may be on the PATH; its `run` does the same.
    """
    files, profile = _files(), os.environ.get(_PROFILE)
    named = [*(["--profile", profile] if profile else []), *(["--configfile", *files] if files else [])]
    command = ["benchstudy", "run"] if paths.is_installed() else ["snakemake", "--cores", "8"]
    return f"`{shlex.join([*command, target, *named, *options])}`"


def cd(folder: Path) -> str:
    """`cd 'my lab'`, without backquotes; for messages that end with it."""
    return f"cd {shlex.quote(str(folder))}"


def benchstudy(command: str, *arguments: str) -> str:
    """Like `snakemake`, for a command that takes its study with `--study`. `…` stands for what the user must add."""
    files = _files()
    named = ["--study", files[0]] if files else []
    return f"`{' '.join(a if a == '…' else shlex.quote(a) for a in ['benchstudy', command, *arguments, *named])}`"


def _files() -> list[str]:
    """The study's files, unless it is the default study."""
    files = shlex.split(os.environ.get(_VARIABLE, ""))
    return [] if [Path(file) for file in files] == [EMBEDDED] else files
