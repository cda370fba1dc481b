"""`benchstudy check --try`: a short trial of each case, kept apart from results, to find early what cannot work."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchstudy.hosts import interrupts
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sealed import read_index
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model import paths, rounding
from benchstudy.model.study import SessionPlan, Study

# After this a trial is ended. One that came so far without a failure is as good as one that came to its end.
LONG_ENOUGH_S = 10.0
# Fine, or not; what came of it; what was tried.
Outcome = tuple[bool, str, str]


def try_study(study: Study, root: Path) -> Iterator[Outcome]:
    """One outcome per case of each session, and one per session that could not be held. Raises CorruptTrial.

    Trials stay below `paths.tried` until the next call, so that you can look at their files. No report uses them.
    """
    apart = paths.tried(root, study.study)
    if apart.exists():
        shutil.rmtree(apart)
    interrupts.install()
    for plan in _short(study).sessions():
        if plan.config.import_only:
            continue
        index = read_index(hold_session(apart, plan))
        store = TrialStore(plan.raw(apart))
        last = {trial.record.case: trial.record for trial in sorted(store.trials(), key=lambda t: t.facts.started)}
        where = f"{plan.family_name} on {plan.target}"
        yield from ((*_came_of(plan, record), f"{where}: {case}") for case, record in last.items())
        if index is not None and index["problem"]:
            yield False, str(index["problem"]), where


def _came_of(plan: SessionPlan, record: TrialRecord) -> tuple[bool, str]:
    if record.status == "timeout":
        return True, f"nothing failed in {plan.config.timeout:g} s"
    return record.status == "ok", record.cause or f"{rounding.few(record.duration_s)} s"


def _short(study: Study) -> Study:
    """The study with a single block of short trials."""
    once = {"blocks": 1, "until": None, "blocks_apart": None, "disturbance": None, "give_up_after": None}
    families = {
        name: config.model_copy(update={**once, "timeout": min(config.timeout, LONG_ENOUGH_S)})
        for name, config in study.families.items()
    }
    return study.model_copy(update={**once, "families": families})
