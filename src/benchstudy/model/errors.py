"""The errors a person is meant to read. Everything else that is raised is a defect of ours."""

from typing import ClassVar

from benchstudy.model.causes import Cause, Failure


class BenchstudyError(Exception):
    """Something the user can understand and mend; the message says what, where and how."""


class StudyError(BenchstudyError):
    """The study file is wrong; the message names the field and the fix."""


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
