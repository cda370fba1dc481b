"""Clocks that a window of time passes through: this machine's, a host's, and that of the Prometheus asked there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchstudy.model.errors import TrialFailed

MOST_OFFSET_S = 1.0  # between Prometheus and this machine, before a window's times could be of either
_MOST_STEP_S = 0.5  # of a clock during a trial: its windows would lie beside what happened


@dataclass(frozen=True)
class Clock:
    """Of a Prometheus: its time minus that of the host that asked (`from_host_s`), and minus this machine's."""

    from_host_s: float
    from_here_s: float
    uncertainty_s: float


def clock_of(answer: Mapping[str, Any], host_offset_s: float) -> Clock:
    """`answer`: as prometheus-clock and prometheus-fetch give it. `host_offset_s`: the host minus this machine."""
    offset_s = float(answer["offset_s"])
    return Clock(offset_s, offset_s + host_offset_s, float(answer["uncertainty_s"]))


def require_steady(before: Clock, after: Clock) -> float:
    """How far the clock was set in between. Raises TrialFailed when that is too far to know when anything happened."""
    stepped_s = after.from_here_s - before.from_here_s
    require_small_step("Prometheus", stepped_s, before.uncertainty_s + after.uncertainty_s)
    return stepped_s


def require_small_step(whose: str, stepped_s: float, uncertainty_s: float) -> None:
    """Raises TrialFailed for a clock that was set during the trial."""
    if abs(stepped_s) > _MOST_STEP_S + uncertainty_s:
        raise TrialFailed(
            f"the clock of {whose} was set by {stepped_s:+.3f} s during the trial, so that nobody knows what belongs "
            "into its window; synchronise the host's clock (chrony) and measure again"
        )


def correction_s(clock: Clock, of_windows: str | None, source: str) -> float:
    """What is added to a window's times, so that they are of Prometheus' clock; see Source.clock.

    Raises TrialFailed when the study does not say whose clock the times are of, and it matters.
    """
    if of_windows == "utc":
        return clock.from_here_s
    if of_windows is None and abs(clock.from_here_s) > MOST_OFFSET_S + clock.uncertainty_s:
        raise TrialFailed(
            f"source {source}: the clock of Prometheus is {clock.from_here_s:+.3f} s from this machine's, and the "
            "windows could be of either: give the source `clock: prometheus` if their times were read from its graphs, "
            "or `clock: utc` to have them corrected by that much"
        )
    return 0.0
