"""Finds what went wrong while a Prometheus scraped: restarted programs, and instances that were not scraped or did not
answer. Times are in ms. Pure.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchstudy.families.load_test.prometheus_rates import Batch, Labels

LATE = 1.8  # intervals; two scrapes that are further apart have a missing one between them


class Changes:
    """Find changes of a gauge that should be constant, such as the time at which a process started."""

    reach_ms = 0

    def __init__(self) -> None:
        self._labels: list[Labels] = []
        self.found: list[tuple[int, Labels]] = []

    def meet(self, labels: Labels) -> None:
        self._labels.append(labels)

    def take(self, batch: Batch, after_ms: int, until_ms: int) -> None:
        begun = max(batch.fresh - 1, 0)
        for place, step in np.argwhere(np.diff(batch.values[:, begun:], axis=1) != 0):
            self.found.append((int(batch.times_ms[begun + step + 1]), self._labels[batch.rows[place]]))


class Gap(NamedTuple):
    """A gap between two samples of an instance. `failed`: number of scrapes in the gap that it did not answer."""

    instance: str
    start_ms: int
    end_ms: int
    failed: int


class Scrapes:
    """Find gaps in the scrapes of a window. `answered`: tells which values show that an instance answered.

    `good_ms`: by instance, when it answered, before the window too. Times of several series are in no order.
    """

    reach_ms = 0

    def __init__(self, start_ms: int, end_ms: int, interval_ms: int, answered: Callable[[np.ndarray], np.ndarray]):
        self._start_ms, self._end_ms, self._answered = start_ms, end_ms, answered
        self._longest_ms = LATE * interval_ms
        self._instances: list[str] = []
        self._last_ms: list[int] = []
        self._failed: list[int] = []
        self._found: list[Gap] = []
        self.good_ms: dict[str, list[int]] = {}

    @property
    def any(self) -> bool:
        return bool(self._instances)

    def meet(self, labels: Labels) -> None:
        self._instances.append(labels.get("instance", ""))
        self._last_ms.append(self._start_ms)
        self._failed.append(0)

    def take(self, batch: Batch, after_ms: int, until_ms: int) -> None:
        times = batch.times_ms[batch.fresh :]
        times = times[times <= self._end_ms]
        for row, values in zip(batch.rows.tolist(), batch.values[:, batch.fresh :], strict=True):
            answered = self._answered(values[: len(times)])
            good = times[answered]
            self.good_ms.setdefault(self._instances[row], []).extend(good.tolist())
            if not len(good):
                self._failed[row] += int((times > self._last_ms[row]).sum())
                continue
            ends = np.concatenate([[self._last_ms[row]], good])
            late = np.flatnonzero(np.diff(ends) > self._longest_ms)
            for number in late.tolist():
                before = self._failed[row] if number == 0 else 0
                failed = before + int(((times > ends[number]) & (times < ends[number + 1]) & ~answered).sum())
                self._note(row, int(ends[number]), int(ends[number + 1]), failed)
            self._last_ms[row] = int(good[-1])
            self._failed[row] = int((~answered[times > good[-1]]).sum())

    def gaps(self) -> list[Gap]:
        """Return all gaps, with those that last until the window's end. Call it after the last sample."""
        for row, last_ms in enumerate(self._last_ms):
            if self._end_ms - last_ms > self._longest_ms:
                self._note(row, last_ms, self._end_ms, self._failed[row])
                self._last_ms[row] = self._end_ms
        return self._found

    def _note(self, row: int, start_ms: int, end_ms: int, failed: int) -> None:
        if end_ms > self._start_ms:
            self._found.append(Gap(self._instances[row], start_ms, end_ms, failed))
