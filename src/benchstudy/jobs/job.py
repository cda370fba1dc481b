"""What every job script of the workflow does around its one call: arguments, study, log file, clear errors."""

import argparse
import hashlib
import json
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchstudy.hosts.controller import controller_is_here, heard_elsewhere, watched_controller
from benchstudy.measuring.progress import log_to
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import WHERE_LOCKS_HOLD, disk_trouble, lock_if_free
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study


@contextmanager
def job(*names: str) -> Iterator[tuple[Path, Study, argparse.Namespace]]:
    """The project's folder, the study, and the arguments from the rule: `--<name> TEXT` for each of `names`.

    Every script also gets `--study` (the name) and `--log`. The study is the one that the running command has frozen.
    An error that you can fix ends the job with its message, without a traceback.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in (*names, "study", "log"):
        parser.add_argument(f"--{name}", required=True)
    told = parser.parse_args()
    logging.raiseExceptions = False  # a failing log on a full disk must not bury the message that the disk is full
    try:
        undo = log_to(Path(told.log))
    except OSError as error:
        sys.exit(disk_trouble(error) or f"{told.log}: {error.strerror}")
    try:
        with said_in_log():
            if watched_controller()():
                raise KeyboardInterrupt
            require_locks(paths.in_use(Path(), told.study))
            yield Path.cwd(), _study(told.study), told
    finally:
        undo()


def _study(name: str) -> Study:
    """Raises BenchstudyError where the file is not the one that the command has frozen."""
    path = paths.declared_study(Path(), name)
    text = path.read_bytes() if path.is_file() else b""
    if paths.is_frozen(path) and hashlib.sha256(text).hexdigest() != path.stem:
        raise BenchstudyError(
            f"{path}: the study was altered or removed after this command began: run the command again"
        )
    return parse_study(json.loads(text), stored=True)


def require_locks(held: Path) -> None:
    """Called by a job. `held`: a file that its command has locked. The lock must be visible on the job's machine.

    Raises BenchstudyError if it is not, or if the command is not heard.
    """
    if controller_is_here() or not held.exists():
        return
    with held.open("a") as file:
        free = lock_if_free(file.fileno())
    if free and heard_elsewhere():
        raise BenchstudyError(
            f"{held.absolute()}: another machine holds its lock, but it is free on {socket.gethostname()}: "
            f"two sessions could write the same trials. {WHERE_LOCKS_HOLD}"
        )


@contextmanager
def said_in_log() -> Iterator[None]:
    """Around a job: writes the error that ends it to its log, and sets the exit status."""
    log = logging.getLogger("benchstudy")
    try:
        yield
    except BenchstudyError as error:
        log.error("%s", error)
        sys.exit(1)
    except KeyboardInterrupt:
        log.error("interrupted")
        sys.exit(130)
    except Exception as error:
        if (trouble := disk_trouble(error)) is None:
            raise
        log.error("%s", trouble)
        sys.exit(1)
