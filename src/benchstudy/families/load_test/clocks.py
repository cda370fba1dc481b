"""Clocks of a time window: this machine's, a host's, and that of the Prometheus queried from the host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchstudy.model.errors import TrialFailed

MOST_OFFSET_S = 1.0  # between Prometheus and this machine; beyond it, a window's times are ambiguous
_MOST_STEP_S = 0.5  # of a clock during a trial; beyond it, windows would miss their events


@dataclass(frozen=True)
class Clock:
    """Clock of a Prometheus: its time minus that of the querying host (`from_host_s`), and minus this machine's."""

    from_host_s: float
    from_here_s: float
    uncertainty_s: float


def clock_of(answer: Mapping[str, Any], host_offset_s: float) -> Clock:
    """Make a Clock from an answer of the agent. `host_offset_s`: the host's clock minus this machine's."""
    offset_s = float(answer["offset_s"])
    return Clock(offset_s, offset_s + host_offset_s, float(answer["uncertainty_s"]))


def require_steady(before: Clock, after: Clock) -> float:
    """Seconds by which the clock was set in between. Raises TrialFailed if the step makes the windows unreliable."""
    stepped_s = after.from_here_s - before.from_here_s
    require_small_step("Prometheus", stepped_s, before.uncertainty_s + after.uncertainty_s)
    return stepped_s


def require_small_step(whose: str, stepped_s: float, uncertainty_s: float) -> None:
    """Raise TrialFailed if a clock was set during the trial."""
    if abs(stepped_s) > _MOST_STEP_S + uncertainty_s:
        raise TrialFailed(
            f"the clock of {whose} was set by {stepped_s:+.3f} s during the trial, so its window cannot be located "
            "in the samples; synchronise the host's clock (chrony) and measure again"
        )


def correction_s(clock: Clock, of_windows: str | None, source: str) -> float:
    """Seconds to add to a window's times to convert them to Prometheus' clock; see Source.clock.

    Raises TrialFailed if the clocks differ and the study does not say which one the times belong to.
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
