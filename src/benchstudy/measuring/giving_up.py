"""Stops measuring cases whose first trials failed in the same way: `give_up_after`.

The results on disk decide, so an interrupted session and the next one agree. A discarded trial does not count: when you
have fixed the cause, discard one, and the case is tried again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchstudy.measuring import reread
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.causes import Cause
from benchstudy.model.study import SessionPlan


@dataclass(frozen=True)
class GivenUp:
    """Its first `trials` trials failed with `cause`; `words` are those of the first. `left_out` are not measured."""

    case: str
    cause: str
    words: str
    trials: int
    left_out: int

    def __str__(self) -> str:
        return (
            f"{self.case}: given up after its first {self.trials} trials failed in the same way ({self.words}); "
            f"{self.left_out} were left out"
        )


def given_up(plan: SessionPlan, found: Mapping[tuple[str, int], Sequence[StoredTrial]]) -> dict[str, GivenUp]:
    """The cases that were given up. `found`: results by case and block, as `schedule.results` returns them."""
    after = plan.give_up_after
    by_case: dict[str, list[StoredTrial]] = {}
    for (name, _), trials in sorted(found.items()) if after else ():
        by_case.setdefault(name, []).extend(t for t in trials if t.facts.imported_from is None)
    given = {}
    for case in plan.cases:
        trials = by_case.get(case.id, [])
        first = trials[:after]
        causes = {t.facts.failure.cause if t.facts.failure else Cause.TOLD for t in first}
        if len(first) == after and len(causes) == 1 and all(reread.status(plan.family, t) != "ok" for t in first):
            blocks = {t.facts.block for t in trials}
            left = sum(case.is_in(block) and block not in blocks for block in range(1, plan.blocks + 1))
            given[case.id] = GivenUp(case.id, causes.pop().value, first[0].facts.cause or "", len(trials), left)
    return {name: case for name, case in given.items() if case.left_out}
