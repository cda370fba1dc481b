"""The feedback rule of an unbounded load: alerts set the number of users, and its slope ends the load. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import linear_regression

SETTLED, AT_MAXIMUM, AT_MINIMUM, TOO_LONG = "settled", "at_maximum", "at_minimum", "too_long"
# States of a window that is flat but yields no number of users; the load continues.
STARTING, SWINGING, UNBRACKETED = "starting", "swinging", "unbracketed"
Check = tuple[float, float, tuple[str, ...]]  # time in s, active users, alerts


@dataclass(frozen=True)
class Constants:
    """Constants of the rule; see the study's `Rule`. Times in s, `slope` in users/s. Defaults are for older loads.

    `start_up_s`: windows begin no earlier. `swing`: most minus fewest users of a window, as a share of their mean; a
    window that swings more yields no number of users.
    """

    max_users: int
    step: int
    every_s: float
    slope: float
    window_s: float
    at_most_s: float
    start_up_s: float = 0.0
    swing: float = math.inf


@dataclass(frozen=True)
class Bracket:
    """With up to `low` users no check alerted, with `high` or more every check did; None if there is no such number."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Result:
    """Result of a load. `supported`: mean active users of the window from `begin_s` to `end_s`; None if not found.

    `why`: SETTLED; AT_MAXIMUM: no alert, so the system supports at least as many; AT_MINIMUM: alerts even with the
    fewest users; TOO_LONG: it did not settle. `slope` in users/s, `swing` as in Constants, `passed` and `failed` as in
    `meeting`. `alerted`: share of the window's checks by alert, most frequent first; `limited_by` is the first one.
    """

    why: str
    supported: float | None
    slope: float | None
    begin_s: float
    end_s: float
    bracket: Bracket
    alerted: dict[str, float]
    first_alert: str | None
    swing: float | None = None
    passed: float | None = None
    failed: float | None = None

    @property
    def limited_by(self) -> str | None:
        return next(iter(self.alerted), None)


class FeedbackRule:
    """Decides on the number of users. Call `decide` every `every_s` until there is a `result`."""

    def __init__(self, constants: Constants):
        self.constants = constants
        self.wanted = min(constants.step, constants.max_users)
        self.result: Result | None = None
        self._checks: list[Check] = []
        self._first_alert: str | None = None
        self._counting_since: float | None = None  # time of the first alert, or of reaching max_users

    def decide(self, t_s: float, active: float, alerts: Collection[str]) -> int:
        """Take in a check at `t_s` after the start of the load, and return the number of users wanted from now on.

        `active`: current number of users. The returned number stays the same after there is a result.
        """
        if self.result is not None:
            return self.wanted
        constants = self.constants
        self._checks.append((t_s, active, tuple(alerts)))
        if alerts and self._first_alert is None:
            self._first_alert = next(iter(alerts))
        # The time before the first alert is the way up, whatever its slope. Alerts look back, and must not look back
        # over the start.
        limited = bool(alerts) or active >= constants.max_users
        if self._counting_since is None and limited and t_s >= constants.start_up_s:
            self._counting_since = t_s
        self._conclude(t_s)
        if self.result is None:
            step = -constants.step if alerts else constants.step
            # Without users no alert would ever occur, whatever the system can do.
            self.wanted = min(max(self.wanted + step, 1), constants.max_users)
        return self.wanted

    def _conclude(self, now_s: float) -> None:
        constants, since = self.constants, self._counting_since
        window = [check for check in self._checks if check[0] > now_s - constants.window_s]
        slope = slope_of([(t, active) for t, active, _ in window])
        if since is not None and now_s - since >= constants.window_s:
            why = verdict(self._with_the_one_before(window), window, constants.swing)
            if slope is not None and abs(slope) < constants.slope and why in (SETTLED, AT_MAXIMUM, AT_MINIMUM):
                self.result = self._result(why, window, slope)
        if self.result is None and now_s >= constants.at_most_s:
            self.result = self._result(TOO_LONG, window, slope)

    def _with_the_one_before(self, window: Sequence[Check]) -> Sequence[Check]:
        return self._checks[-len(window) - 1 :]

    def _result(self, why: str, window: Sequence[Check], slope: float | None) -> Result:
        passed, failed = meeting(self._with_the_one_before(window))
        counts = Counter(alert for _, _, alerts in window for alert in alerts)
        mean = sum(active for _, active, _ in window) / len(window)
        return Result(
            why=why,
            supported=mean if why == SETTLED else None,
            slope=slope,
            begin_s=max(window[-1][0] - self.constants.window_s, 0.0),
            end_s=window[-1][0],
            bracket=bracket(window),
            alerted={alert: count / len(window) for alert, count in counts.most_common()},
            first_alert=self._first_alert,
            swing=swing_of(window),
            passed=passed,
            failed=failed,
        )


def verdict(checks: Sequence[Check], window: Sequence[Check], most_swing: float) -> str:
    """Tell why the number of users in a flat window is stable.

    The system determines it only if the window lies between loads that passed and failed, and does not swing.
    `checks`: the window, and the check before it.
    """
    alerting = sum(bool(alerts) for _, _, alerts in window)
    if alerting in (0, len(window)):
        return AT_MINIMUM if alerting else AT_MAXIMUM
    if swing_of(window) > most_swing:
        return SWINGING
    return UNBRACKETED if None in meeting(checks) else SETTLED


def swing_of(window: Sequence[Check]) -> float:
    """Most minus fewest users, as a share of their mean."""
    users = [active for _, active, _ in window]
    mean = sum(users) / len(users)
    return (max(users) - min(users)) / mean if mean > 0 else 0.0


def meeting(checks: Sequence[Check]) -> tuple[float | None, float | None]:
    """Return (passed, failed): the most users without an alert below `failed`, and the fewest at which an alert began.

    Either is None if there is none. An alert that continues says nothing about the current number of users, because it
    looks back at more of them.
    """
    begun = [active for before, (_, active, alerts) in pairwise(checks) if alerts and not before[2]]
    failed = min(begun, default=None)
    quiet = (active for _, active, alerts in checks if not alerts)
    return max((active for active in quiet if failed is None or active < failed), default=None), failed


def slope_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of the least-squares line through (x, y), in units of y per x; None if x does not vary."""
    if len({x for x, _ in points}) < 2:
        return None
    return linear_regression(*zip(*points, strict=True)).slope


def bracket(checks: Sequence[Check]) -> Bracket:
    """Find where alerts begin in a window. Alerts start and end late, so users with and without them overlap."""
    alerting = [active for _, active, alerts in checks if alerts]
    quiet = [active for _, active, alerts in checks if not alerts]
    lowest_alert, highest_quiet = min(alerting, default=None), max(quiet, default=None)
    low = max((a for a in quiet if lowest_alert is None or a < lowest_alert), default=None)
    high = min((a for a in alerting if highest_quiet is None or a > highest_quiet), default=None)
    return Bracket(low, high)
