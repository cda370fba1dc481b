"""The capacity search's decisions: which rate is tried next, whether a window kept the objective. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchstudy.families.log_write.config import CapacitySearch
from benchstudy.families.shared.levels import Rate
from benchstudy.model import rounding
from benchstudy.model.causes import Cause
from benchstudy.model.criteria import BUSY_GENERATOR


@dataclass(frozen=True)
class Window:
    """What one window at one rate showed. Rates in 1/s, counts of leaves, times in s.

    `sent`: leaves begun; `expected_share`: of them new to the log, 1 without deduplication. `achieved_per_s`: growth of
    the tree, `integrate_p99_s`: None when no leaf was integrated. `not_integrated`: accepted, never covered.
    """

    offered_per_s: float
    sent: int
    dropped: int
    duration_s: float
    achieved_per_s: float
    errors: int
    pushback: int
    integrate_p99_s: float | None
    not_integrated: int = 0
    expected_share: float = 1.0
    generator_cpu: float | None = None


class Missed(StrEnum):
    """What of the objective a window did not keep."""

    ACHIEVED = "achieved"  # of the offered rate, a share
    ERRORS = "errors"  # a share of the leaves
    NOT_INTEGRATED = "not-integrated"  # accepted leaves, in time
    INTEGRATE_TIME = "integrate-time"  # p99 in s; none seen: no leaf was integrated
    NOTHING_ACCEPTED = "nothing-accepted"
    DIED = "died"  # a server
    TOLD = "told"  # by an old search, in words only


@dataclass(frozen=True)
class Reason:
    """Why a rate failed at an attempt. `seen`, `bound`: of what was missed, and as the objective has it.

    `busy_generator`: the share of its processors that it used, where it had none left, so that the log may be able to
    do more. `cause`: of a death. `said`: what programs said.
    """

    missed: Missed
    seen: float | None = None
    bound: float | None = None
    busy_generator: float | None = None
    cause: Cause | None = None
    said: str | None = None

    @property
    def is_final(self) -> bool:
        """Memory that is used up is no stall that passes: a rate that can end the log is not tried again."""
        return self.cause is Cause.OOM

    def __str__(self) -> str:
        """For the log: pages have the sentence."""
        numbers = [f"{name} {rounding.shown(value)}" for name, value in vars(self).items() if isinstance(value, float)]
        return self.said or " ".join([self.missed, *([f"({', '.join(numbers)})"] if numbers else [])])


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `reason`: of its last attempt, when that failed."""

    rate_per_s: float
    reason: Reason | None = None

    @property
    def passed(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class Bracket:
    """Between them lies the capacity, in 1/s. None: no rate passed, or none failed."""

    highest_pass: float | None
    lowest_fail: float | None


def verdict(window: Window, objective: CapacitySearch) -> Reason | None:
    """Why the window did not keep the objective; None when it did."""
    found = _missed(window, objective)
    if found is None:
        return None
    missed, seen, bound = found
    used = window.generator_cpu or 0.0
    return Reason(missed, seen, bound, busy_generator=used if used >= BUSY_GENERATOR else None)


def _missed(window: Window, objective: CapacitySearch) -> tuple[Missed, float | None, float] | None:
    """What was missed, what was seen of it, and its bound."""
    new_per_s = window.offered_per_s * window.expected_share
    if window.achieved_per_s < objective.min_achieved * new_per_s:
        return Missed.ACHIEVED, window.achieved_per_s / new_per_s, objective.min_achieved
    if window.errors > objective.max_errors * window.sent:
        return Missed.ERRORS, window.errors / window.sent, objective.max_errors
    if window.not_integrated:
        return Missed.NOT_INTEGRATED, float(window.not_integrated), 0.0
    p99_s = window.integrate_p99_s
    if p99_s is None or p99_s > objective.max_integrate_p99:
        return Missed.INTEGRATE_TIME, p99_s, objective.max_integrate_p99
    return None


def tried(rate_per_s: float, objective: CapacitySearch, attempt: Callable[[int], Reason | None]) -> Step:
    """A rate has failed when every attempt at it has, so that one stall of a disk or a neighbour is no capacity, or
    when one failed finally.

    `attempt`: runs the windows of the attempt with that number, from 1 on; why it failed, None when it passed.
    """
    reason = None
    for number in range(1, objective.attempts + 1):
        reason = attempt(number)
        if reason is None or reason.is_final:
            break
    return Step(rate_per_s, reason)


def bracket(steps: Sequence[Step]) -> Bracket:
    """The lowest rate that failed, and the highest that passed below it.

    A rate that passes above one that failed is chance at the edge of the capacity: only what is below every failure is
    claimed. Of two steps at one rate the one that failed counts.
    """
    lowest_fail = min((step.rate_per_s for step in steps if not step.passed), default=None)
    passed = [s.rate_per_s for s in steps if s.passed and (lowest_fail is None or s.rate_per_s < lowest_fail)]
    return Bracket(max(passed, default=None), lowest_fail)


def is_narrow(found: Bracket, objective: CapacitySearch) -> bool:
    """Whether the bracket is as narrow as the study wants it."""
    low, high = found.highest_pass, found.lowest_fail
    return low is not None and high is not None and (high - low) / low <= objective.within + 1e-9


def next_rate(steps: Sequence[Step], objective: CapacitySearch) -> float | None:
    """The next rate to try in 1/s; None when there is no more to learn: narrow enough, at an end, or enough tried."""
    lowest, start, highest = (Rate(text).per_s for text in (objective.lowest, objective.start, objective.highest))
    if len(steps) >= objective.max_steps:
        return None
    if not steps:
        return start
    found = bracket(steps)
    if is_narrow(found, objective):
        return None
    low, high = found.highest_pass, found.lowest_fail
    if high is None:
        assert low is not None, "the first rate that was tried passed or failed"
        return _readable(min(low * objective.factor, highest)) if low < highest else None
    if low is None:
        return _readable(max(high / objective.factor, lowest)) if high > lowest else None
    middle = _readable(math.sqrt(low * high))
    # Rounded, it must not be an end again.
    return middle if low < middle < high else math.sqrt(low * high)


def _readable(rate: float) -> float:
    """Three figures: 1414.21 becomes 1410."""
    return rounding.significant(rate)
