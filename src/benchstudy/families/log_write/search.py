"""The capacity search's decisions: which rate is tried next, whether a window kept the objective. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Attempt:
    """One attempt at a rate. `why`: it failed, in a sentence; empty when it passed. `cause`: of a server that died."""

    why: str = ""
    cause: Cause | None = None

    @property
    def is_final(self) -> bool:
        """Memory that is used up is no stall that passes: a rate that can end the log is not tried again."""
        return self.cause is Cause.OOM


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `why`: it failed, in a sentence; empty when it passed. `cause`: as of its attempt."""

    rate_per_s: float
    passed: bool
    why: str = ""
    cause: Cause | None = None


@dataclass(frozen=True)
class Bracket:
    """Between them lies the capacity, in 1/s. None: no rate passed, or none failed."""

    highest_pass: float | None
    lowest_fail: float | None


def verdict(window: Window, objective: CapacitySearch) -> str:
    """Why the window did not keep the objective; empty when it did. Begins with "client-limited" when the generator had
    no processor time left, whatever the log could have done.
    """
    why = _failure(window, objective)
    if why and (window.generator_cpu or 0.0) >= BUSY_GENERATOR:
        return f"client-limited, the generator at {rounding.percent(window.generator_cpu or 0.0)} of its CPU: {why}"
    return why


def _failure(window: Window, objective: CapacitySearch) -> str:
    new_per_s = window.offered_per_s * window.expected_share
    if window.achieved_per_s < objective.min_achieved * new_per_s:
        share = window.achieved_per_s / new_per_s
        extra = [f"{window.dropped} never begun"] if window.dropped else []
        extra += [f"{window.pushback} pushed back"] if window.pushback else []
        shown = f" ({', '.join(extra)})" if extra else ""
        wanted = rounding.percent(objective.min_achieved)
        return f"achieved {rounding.percent(share)} of the offered rate, not {wanted}{shown}"
    if window.errors > objective.max_errors * window.sent:
        return f"{window.errors} errors among {window.sent} leaves, more than {rounding.percent(objective.max_errors)}"
    if window.not_integrated:
        return f"{window.not_integrated} accepted leaves were not integrated in time"
    if window.integrate_p99_s is None or window.integrate_p99_s > objective.max_integrate_p99:
        shown = (
            "no leaf was"
            if window.integrate_p99_s is None
            else f"{rounding.shown(window.integrate_p99_s)} s until p99 was"
        )
        return f"{shown} integrated, and the bound is {objective.max_integrate_p99:g} s"
    return ""


def tried(rate_per_s: float, objective: CapacitySearch, attempt: Callable[[int], Attempt]) -> Step:
    """A rate has failed when every attempt at it has, so that one stall of a disk or a neighbour is no capacity, or
    when one failed finally.

    `attempt`: runs the windows of the attempt with that number, from 1 on.
    """
    result = Attempt()
    for number in range(1, objective.attempts + 1):
        result = attempt(number)
        if result.is_final or not result.why:
            break
    return Step(rate_per_s, passed=not result.why, why=result.why, cause=result.cause)


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
