"""The errors that a person should read. Anything else that is raised is a defect of ours."""

import re
from pathlib import Path
from traceback import extract_tb
from typing import ClassVar

from benchstudy.model.causes import Cause, Failure

_LONGEST_LINE = 1000
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Control characters but tabs and newlines, and those that reverse the order of others.
_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without what a terminal obeys: a host, a tool or a file may have written a part of the text."""
    return _OBEYED.sub("\ufffd", COLOURS.sub("", text))


def plain_line(text: str) -> str:
    """The same as one line, so that no name can pretend to be a line of ours."""
    return plain(" ".join(text.splitlines()))


def as_line(error: BaseException, folder: Path) -> str:
    """What an exception of the code in a folder says, and where there it was raised, as one line."""
    own = [at for at in extract_tb(error.__traceback__) if Path(at.filename).is_relative_to(folder)]
    line = f", line {own[-1].lineno} of {Path(own[-1].filename).name}" if own else ""
    return plain_line(f"{type(error).__name__}: {error}{line}")


class BenchstudyError(Exception):
    """An error that the user can understand and fix; the message says what, where and how."""

    def __init__(self, message: str = ""):
        super().__init__(plain(message))


class StudyError(BenchstudyError):
    """The study file is wrong; the message names the field and the fix, and quotes only as much as a person reads."""

    def __init__(self, message: str):
        super().__init__("\n".join(map(_readable, message.splitlines())))


class BrokenPart(StudyError, ImportError):
    """A module of a family cannot be imported, so nothing is known of the trials or files that need it."""


def _readable(line: str) -> str:
    """Cut the middle out of a long line: the problem is at its start, and what to write at its end."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:300]} … {line[-300:]}"


class TrialFailed(BenchstudyError):
    """One trial failed. Its message becomes the trial's cause, `failure` says it as a value, and the study goes on.

    An error raised from another one keeps its failure: the words may differ, but what happened is the same.
    """

    cause: ClassVar[Cause] = Cause.TOLD

    def __init__(self, message: str, failure: Failure | None = None):
        super().__init__(message)
        self._failure = failure

    @property
    def failure(self) -> Failure:
        """Why the trial failed: the given cause, or that of the error behind this one."""
        if self._failure is None and isinstance(self.__cause__, TrialFailed):
            return self.__cause__.failure
        return self._failure or Failure(cause=self.cause)


class SessionFailed(BenchstudyError):
    """A session could not be started or completed."""
