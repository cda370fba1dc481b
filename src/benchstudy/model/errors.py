"""The errors a person is meant to read. Everything else that is raised is a defect of ours."""

from typing import ClassVar

from benchstudy.model.causes import Cause, Failure

_LONGEST_LINE = 1000


class BenchstudyError(Exception):
    """Something the user can understand and mend; the message says what, where and how."""


class StudyError(BenchstudyError):
    """The study file is wrong; the message names the field and the fix, and quotes no more than a person reads."""

    def __init__(self, message: str):
        super().__init__("\n".join(map(_readable, message.splitlines())))


def _readable(line: str) -> str:
    """The middle of a long line is left out: what is wrong stands in front, and what to write at the end."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:300]} … {line[-300:]}"


class TrialFailed(BenchstudyError):
    """One trial failed. Its message becomes the trial's cause, `failure` says it as a value, and the study goes on.

    What is raised from another one keeps its failure: the words may be others, what happened is the same.
    """

    cause: ClassVar[Cause] = Cause.TOLD

    def __init__(self, message: str, failure: Failure | None = None):
        super().__init__(message)
        self._failure = failure

    @property
    def failure(self) -> Failure:
        if self._failure is None and isinstance(self.__cause__, TrialFailed):
            return self.__cause__.failure
        return self._failure or Failure(cause=self.cause)


class SessionFailed(BenchstudyError):
    """A session could not be held, or not to its end."""
