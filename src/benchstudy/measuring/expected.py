"""What a session will still measure, and about how long that takes: as seen before, or as declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.schedule import adopt, missing_trials
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.trialrecord import RESULTS
from benchstudy.model import registry
from benchstudy.model.grouping import grouped
from benchstudy.model.study import SessionPlan


@dataclass(frozen=True)
class Expected:
    """At least `trials` will be measured, at most `most`; `adopted` exist already.

    `seconds`: for these trials without the `untold` ones, which declare no time and whose cases were never measured.
    `source`: "seen", "declared", "seen and declared", or nothing.
    """

    trials: int
    most: int
    adopted: int
    seconds: float
    untold: int
    source: str


def expected(plan: SessionPlan, store: TrialStore) -> Expected:
    """What a session of the plan would do. Writes nothing and takes no look. Raises SessionFailed and CorruptTrial."""
    trials = store.trials()
    missing = missing_trials(plan, store, trials)
    adopted = len(adopt(plan, trials, store.discards()))
    most = plan.trials(plan.blocks) - adopted if missing else 0
    done = [t for t in trials if t.facts.status in RESULTS and t.facts.imported_from is None]
    seen = grouped((trial.facts.case, trial.facts.duration_s) for trial in done)
    seconds, untold, sources = 0.0, 0, set()
    of_others_s = median(map(median, seen.values())) if seen else None
    for scheduled in missing:
        case = scheduled.case
        with registry.blamed(plan.family_name, "`declared_s`"):
            declared_s = plan.family.declared_s(case)
        takes_s = median(seen[case.id]) if case.id in seen else of_others_s if declared_s is None else declared_s
        if takes_s is None:
            untold += 1
        else:
            sources.add("seen" if case.id in seen or declared_s is None else "declared")
            seconds += takes_s
    blocks = len({scheduled.block for scheduled in missing})
    waiting_s = max(0.0, plan.blocks_apart_s * (blocks - 1) - seconds * (blocks - 1) / max(1, blocks))
    between_s = _between_s(done) * max(0, len(missing) - 1)
    source = " and ".join(sorted(sources, reverse=True))
    return Expected(len(missing), most, adopted, seconds + waiting_s + between_s, untold, source)


def _between_s(trials: Sequence[StoredTrial]) -> float:
    """The usual time in seconds between the end of a trial and the start of the next in its session."""
    gaps = []
    for before, after in pairwise(sorted(trials, key=lambda t: t.facts.started)):
        if before.facts.session == after.facts.session and before.facts.block == after.facts.block:
            ended, begun = (datetime.fromisoformat(t) for t in (before.facts.finished, after.facts.started))
            gaps.append(max(0.0, (begun - ended).total_seconds()))
    return median(gaps) if gaps else 0.0
