"""How trials ended as tables tell it: a corrected study finds the figures of some that failed to be read."""

from contextlib import suppress

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.causes import Cause
from benchstudy.model.family import Family, ParseError


def failed_to_be_read(family: Family, trial: StoredTrial) -> bool:
    """Whether only the study's way to read outputs made it fail when it was measured."""
    failure = trial.facts.failure if trial.facts.status == "failed" and family.reading else None
    return failure is not None and failure.cause in (Cause.PARSE, Cause.NOT_FOUND)


def status(family: Family, trial: StoredTrial) -> str:
    """The status of a trial by the way in which the study reads outputs now."""
    if failed_to_be_read(family, trial):
        with suppress(ParseError):
            family.parse(trial.record.levels, trial.folder)
            return "ok"
    return trial.facts.status
