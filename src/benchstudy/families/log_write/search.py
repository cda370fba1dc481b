"""The decisions of the capacity search: the next rate to try, and whether a window met the objective. Pure."""

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
    """The results of one window at one rate. Rates in 1/s, counts in leaves, times in s.

    `expected_share`: the share of sent leaves that are new to the log, 1 without deduplication. `achieved_per_s`:
    growth of the tree. `integrate_p99_s`: None if no leaf was integrated. `not_integrated`: accepted leaves that no
    checkpoint covered.
    """

    offered_per_s: float
    sent: int
    dropped: int
    achieved_per_s: float
    errors: int
    pushback: int
    integrate_p99_s: float | None
    not_integrated: int = 0
    expected_share: float = 1.0
    generator_cpu: float | None = None


class Missed(StrEnum):
    """The part of the objective that a window missed."""

    ACHIEVED = "achieved"  # share of the offered rate
    ERRORS = "errors"  # share of the leaves
    TAKEN = "taken"  # share of the leaves due in the window that were sent and accepted
    NOT_INTEGRATED = "not-integrated"  # accepted leaves were not integrated in time
    INTEGRATE_TIME = "integrate-time"  # p99 in s; `seen` is None if no leaf was integrated
    NOTHING_ACCEPTED = "nothing-accepted"
    DIED = "died"  # a server died
    TOLD = "told"  # an old search recorded the reason only as text


@dataclass(frozen=True)
class Reason:
    """Why an attempt at a rate failed. `seen`: the value of what was missed. `bound`: its bound in the objective.

    `busy_generator`: the share of its CPUs that the generator used, if it was at its limit and the log may be faster.
    `cause`: the cause of a death. `said`: messages of programs.
    """

    missed: Missed
    seen: float | None = None
    bound: float | None = None
    busy_generator: float | None = None
    cause: Cause | None = None
    said: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the rate is not tried again: exhausted memory is not a transient stall."""
        return self.cause is Cause.OOM

    def __str__(self) -> str:
        """Return a short text for the log; pages have full sentences."""
        numbers = [f"{name} {rounding.shown(value)}" for name, value in vars(self).items() if isinstance(value, float)]
        return self.said or " ".join([self.missed, *([f"({', '.join(numbers)})"] if numbers else [])])


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `reason`: why its last attempt failed, or None."""

    rate_per_s: float
    reason: Reason | None = None

    @property
    def passed(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class Bracket:
    """The rates in 1/s between which the capacity lies. None: no rate passed, or none failed."""

    highest_pass: float | None
    lowest_fail: float | None


def verdict(window: Window, objective: CapacitySearch) -> Reason | None:
    """Return why the window missed the objective; None if it met it."""
    found = _missed(window, objective)
    if found is None:
        return None
    missed, seen, bound = found
    used = window.generator_cpu or 0.0
    return Reason(missed, seen, bound, busy_generator=used if used >= BUSY_GENERATOR else None)


def _missed(window: Window, objective: CapacitySearch) -> tuple[Missed, float | None, float] | None:
    """Return what was missed, its value, and its bound."""
    new_per_s = window.offered_per_s * window.expected_share
    if window.achieved_per_s < objective.min_achieved * new_per_s:
        return Missed.ACHIEVED, window.achieved_per_s / new_per_s, objective.min_achieved
    if window.errors > objective.max_errors * window.sent:
        return Missed.ERRORS, window.errors / window.sent, objective.max_errors
    # The tree also grows by leaves of the warm-up, so its growth alone would pass a rate that was not sent in full.
    due, taken = window.sent + window.dropped, window.sent - window.errors - window.pushback
    if taken < objective.min_achieved * due:
        return Missed.TAKEN, taken / due, objective.min_achieved
    if window.not_integrated:
        return Missed.NOT_INTEGRATED, float(window.not_integrated), 0.0
    p99_s = window.integrate_p99_s
    if p99_s is None or p99_s > objective.max_integrate_p99:
        return Missed.INTEGRATE_TIME, p99_s, objective.max_integrate_p99
    return None


def tried(rate_per_s: float, objective: CapacitySearch, attempt: Callable[[int], Reason | None]) -> Step:
    """Try a rate. It fails if every attempt fails, so that one stall does not decide, or if one failure is final.

    `attempt`: runs the windows of the attempt with this number, from 1. Returns why it failed, or None.
    """
    reason = None
    for number in range(1, objective.attempts + 1):
        reason = attempt(number)
        if reason is None or reason.is_final:
            break
    return Step(rate_per_s, reason)


def bracket(steps: Sequence[Step]) -> Bracket:
    """Return the lowest rate that failed, and the highest rate below it that passed.

    A pass above a failed rate is chance near the capacity, so only rates below every failure count. If a rate has two
    steps, the failed one counts.
    """
    lowest_fail = min((step.rate_per_s for step in steps if not step.passed), default=None)
    passed = [s.rate_per_s for s in steps if s.passed and (lowest_fail is None or s.rate_per_s < lowest_fail)]
    return Bracket(max(passed, default=None), lowest_fail)


def is_narrow(found: Bracket, objective: CapacitySearch) -> bool:
    """Whether the bracket is as narrow as the study asks for."""
    low, high = found.highest_pass, found.lowest_fail
    return low is not None and high is not None and (high - low) / low <= objective.within + 1e-9


def next_rate(steps: Sequence[Step], objective: CapacitySearch) -> float | None:
    """Return the next rate to try in 1/s; None if the bracket is narrow, a bound or `max_steps` is reached."""
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
        return min(_readable(low * objective.factor), highest) if low < highest else None
    if low is None:
        return max(_readable(high / objective.factor), lowest) if high > lowest else None
    middle = _readable(math.sqrt(low * high))
    # After rounding, the rate must not equal an end of the bracket.
    return middle if low < middle < high else math.sqrt(low * high)


def _readable(rate: float) -> float:
    """Round to three digits: 1414.21 becomes 1410."""
    return rounding.significant(rate)
