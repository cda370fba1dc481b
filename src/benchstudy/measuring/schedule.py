"""What a session measures: every trial in its random order, those that exist already, and those that are missing."""

import json
import random
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from benchstudy.measuring import disturbances, looks
from benchstudy.measuring.giving_up import given_up
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.trialrecord import RESULTS
from benchstudy.model import hints, registry
from benchstudy.model.errors import SessionFailed
from benchstudy.model.family import Case
from benchstudy.model.rounding import plural
from benchstudy.model.study import SessionPlan


@dataclass(frozen=True)
class Scheduled:
    """A trial to measure. Its position in the random order of its block is recorded with it."""

    case: Case
    block: int
    position: int


def schedule(plan: SessionPlan, blocks: int | None = None) -> list[Scheduled]:
    """Every trial of the first `blocks` blocks (default: of all), in the order of measuring.

    The same study always gives the same order.
    """
    order = []
    for block in range(1, (plan.blocks if blocks is None else blocks) + 1):
        # A block's order must not depend on the number of blocks, so that adding a block changes no other.
        rng = random.Random(f"{plan.study.seed}/{plan.target}/{plan.family_name}/{block}")
        cases = [case for case in plan.cases if case.is_in(block)]
        with registry.blamed(plan.family_name, "`order`"):
            cases = plan.family.order(cases, block, rng)
        order += [Scheduled(case.in_block(block), block, position) for position, case in enumerate(cases, start=1)]
    return order


def adopt(
    plan: SessionPlan, trials: Iterable[StoredTrial], discarded: Container[str]
) -> dict[tuple[str, int], StoredTrial]:
    """The verified `trials` that are results for the plan, by case and block. `discarded`: uuids.

    Raises SessionFailed if the study describes a case differently than when it was measured, or has it elsewhere.
    """
    return standing(plan, results(plan, trials, discarded))


def standing(
    plan: SessionPlan, found: Mapping[tuple[str, int], list[StoredTrial]]
) -> dict[tuple[str, int], StoredTrial]:
    """By case and block, the one of the results `found`, as `results` returns them, that figures use."""
    return {key: _standing(plan, repeated) for key, repeated in found.items()}


def _standing(plan: SessionPlan, found: list[StoredTrial]) -> StoredTrial:
    """The result of a case in one block that figures use: the first undisturbed one, or else the first."""
    if len(found) == 1:  # no choice, so the files of ten thousand trials need not be read
        return found[0]
    return next((trial for trial in found if not _disturbed(plan, trial)), found[0])


def _disturbed(plan: SessionPlan, trial: StoredTrial) -> bool:
    return plan.disturbance.disturbed(disturbances.seen(trial)) is not None


def results(
    plan: SessionPlan, trials: Iterable[StoredTrial], discarded: Container[str]
) -> dict[tuple[str, int], list[StoredTrial]]:
    """Like `adopt`, but with all results of a case in a block, including those repeated after a disturbance."""
    cases = {case.id: case for case in plan.cases}
    found: dict[tuple[str, int], list[StoredTrial]] = {}
    changed: dict[str, StoredTrial] = {}  # by case, a trial of another definition
    moved: dict[str, StoredTrial] = {}  # by case, a trial of another host
    for trial in trials:
        facts = trial.facts
        if facts.uuid in discarded or facts.status not in RESULTS or facts.case not in cases:
            continue
        case = cases[facts.case].in_block(facts.block)
        if facts.definition_sha256 != case.definition_sha256 and facts.imported_from is None:
            changed.setdefault(facts.case, trial)
            continue
        if facts.case not in moved and _elsewhere(plan, trial):
            moved[facts.case] = trial
        found.setdefault((facts.case, facts.block), []).append(trial)
    if changed:
        first = next(iter(changed.values()))
        raise SessionFailed(_defined_anew(cases[first.facts.case].in_block(first.facts.block), first, len(changed) - 1))
    if moved:
        raise SessionFailed(_measured_elsewhere(plan, next(iter(moved.values())), len(moved) - 1))
    return found


def _defined_anew(case: Case, trial: StoredTrial, others: int) -> str:
    """What to do about a trial of a case that the study has changed since, as it has `others`."""
    was, is_now = trial.record.definition, json.loads(json.dumps(dict(case.definition), default=str))
    changed = sorted(key for key in {*was, *is_now} if was.get(key) != is_now.get(key))
    return (
        f"{case.id}: the study now describes this case differently ({', '.join(changed) or 'levels'} "
        f"changed) than when trial {trial.short} measured it. Give the study a new name to measure afresh, or "
        f"restore the old value, or run {hints.benchstudy('discard', '--case', case.id, '--why', '…')}"
        f"{_and_more(others)}"
    )


def _measured_elsewhere(plan: SessionPlan, trial: StoredTrial, others: int) -> str:
    """What to do about a trial that was measured on another host, as some of `others` cases were."""
    case, (role, host) = trial.facts.case, next(iter(_elsewhere(plan, trial).items()))
    # The trials of other targets are as good as before.
    of_target = ["--target", plan.target] if len(plan.study.targets) > 1 else []
    return (
        f"{case}: trial {trial.short} was measured with the role {role} on the host {host}, and the "
        f"target {plan.target} now gives it to {plan.roles[role]}: one case would have trials of two hosts. "
        "Give the target a new name to measure there, or restore the old host, or run "
        f"{hints.benchstudy('discard', '--case', case, *of_target, '--why', '…')}{_and_more(others)}"
    )


def _and_more(others: int) -> str:
    return f". The same is true of {plural(others, 'more case')}" if others else ""


def _elsewhere(plan: SessionPlan, trial: StoredTrial) -> dict[str, str]:
    """Roles in which a trial's commands ran on another host than they would now, and that host."""
    was = trial.facts.roles
    if was == plan.roles or all(plan.roles.get(role, host) == host for role, host in was.items()):
        return {}
    return {c.role: c.host for c in trial.record.commands if plan.roles.get(c.role, c.host) != c.host}


def set_aside(plan: SessionPlan, found: Mapping[tuple[str, int], list[StoredTrial]]) -> dict[str, str]:
    """Disturbed trials that another trial of the same case and block replaces: uuid to uuid of the other.

    `found`: results by case and block, as `results` returns them.
    """
    aside: dict[str, str] = {}
    for repeated in found.values():
        standing = _standing(plan, repeated)
        aside |= {t.facts.uuid: standing.facts.uuid for t in repeated if t is not standing and _disturbed(plan, t)}
    return aside


def missing_trials(
    plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial], say: Callable[[str], None] | None = None
) -> list[Scheduled]:
    """The trials to measure next: all missing ones, or in an adaptive session those missing before its next look.

    If none is missing, a look is taken from the verified `trials`, stored, passed to `say`, and decides. A stored look
    is never taken again. Without `say` none is taken. Returns [] if the session is complete, or has to look first.
    Raises SessionFailed like `adopt`, and if a trial that a look needs can no longer be parsed.
    """
    found = results(plan, trials, store.discards())
    adopted = standing(plan, found)
    stopping, given = plan.stopping, given_up(plan, found)
    blocks = stopping.look_from(looks.begun(adopted)) if stopping else plan.blocks
    while True:
        missing = [s for s in schedule(plan, blocks) if _is_missing(plan, found.get((s.case.id, s.block), []))]
        missing = [scheduled for scheduled in missing if scheduled.case.id not in given]
        if missing or stopping is None:
            return missing
        look = looks.find_look(store.looks(), plan, blocks, adopted)
        if look is None:
            if say is None:
                return []
            look = looks.take_look(plan, blocks, adopted)
            store.keep_look(look)
            say(looks.verdict(look, plan, stopping))
        if looks.enough(look, plan, stopping):
            return []
        blocks = stopping.look_after(blocks)


def _is_missing(plan: SessionPlan, found: list[StoredTrial]) -> bool:
    """Whether a case must still be measured in a block: it has no result, or only disturbed ones that are repeated."""
    return not found or (plan.disturbance.repeats(len(found)) and all(_disturbed(plan, trial) for trial in found))


def waiting_s(plan: SessionPlan, trials: Iterable[StoredTrial], block: int, moment: datetime) -> float:
    """How long a block has to wait at this moment, in seconds: 0 if it was begun before, or needs no distance."""
    begun: dict[int, datetime] = {}
    for trial in trials if plan.blocks_apart_s else ():
        if trial.facts.imported_from is None:
            started = datetime.fromisoformat(trial.facts.started)
            begun[trial.facts.block] = min(started, begun.get(trial.facts.block, started))
    if block in begun or not begun:
        return 0.0
    since = (moment - max(begun.values())).total_seconds()
    # If the clock was set back, it must not wait longer than the distance.
    return min(max(plan.blocks_apart_s - since, 0.0), plan.blocks_apart_s)
