"""What every job script of the workflow does around its one call: arguments, study, log file, a clear way to fail."""

import argparse
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
from benchstudy.model.study import Study, parse_study


@contextmanager
def job(*names: str) -> Iterator[tuple[Path, Study, argparse.Namespace]]:
    """The project's folder, the study, and what the rule tells the script: `--<name> TEXT` for each of `names`.

    Every script is told `--study` (the name) and `--log` too; the study is what the running command has written down.
    An error that the user can mend ends the job with its message, no traceback.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in (*names, "study", "log"):
        parser.add_argument(f"--{name}", required=True)
    told = parser.parse_args()
    declared = paths.declared_study(Path(), told.study)
    logging.raiseExceptions = False  # a log on a full disk must not bury what says that it is full
    try:
        undo = log_to(Path(told.log))
    except OSError as error:
        sys.exit(disk_trouble(error) or f"{told.log}: {error.strerror}")
    try:
        with said_in_log():
            if watched_controller()():
                raise KeyboardInterrupt
            require_locks(paths.in_use(Path(), told.study))
            yield Path.cwd(), parse_study(json.loads(declared.read_text(encoding="utf-8"))), told
    finally:
        undo()


def require_locks(held: Path) -> None:
    """Called by a job. `held`: what its command holds the lock of, which must hold on whatever machine the job runs.

    Raises BenchstudyError when it does not.
    """
    if controller_is_here() or not held.exists():
        return
    with held.open("a") as file:
        free = lock_if_free(file.fileno())
    if free and heard_elsewhere():
        raise BenchstudyError(
            f"{held.absolute()}: its lock, held by a command on another machine, is free on {socket.gethostname()}: "
            f"two sessions could write the same trials. {WHERE_LOCKS_HOLD}"
        )


@contextmanager
def said_in_log() -> Iterator[None]:
    """Around what a job does: what ends it stands in its log, and gives its exit status."""
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
