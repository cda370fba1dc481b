"""The errors a person is meant to read. Everything else that is raised is a defect of ours."""


class BenchstudyError(Exception):
    """Something the user can understand and mend; the message says what, where and how."""


class StudyError(BenchstudyError):
    """The study file is wrong; the message names the field and the fix."""


class TrialFailed(BenchstudyError):
    """One trial failed. Its message becomes the trial's cause, and the study goes on."""


class SessionFailed(BenchstudyError):
    """A session could not be held, or not to its end."""
