"""Computes what PromQL does, from raw samples: rates, and gauges at moments. Times are in ms. Pure.

The numbers equal PromQL's: a counter that falls has restarted at zero, and a rate is extrapolated to the edges of its
window. Samples arrive page by page, and are dropped when no window reaches back to them anymore.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from benchstudy.families.load_test.prometheus_raw import Dialect
from benchstudy.families.load_test.prometheus_samples import Page
from benchstudy.model.grouping import grouped

OLDEST = Dialect()
Labels = Mapping[str, str]
GroupOf = Callable[[Labels], int]


def one_group(labels: Labels) -> int:
    return 0


class Batch(NamedTuple):
    """Series of one metric with samples at the same times: numbers of the series (S,), times (n,), values (S, n).

    The first `fresh` columns are from earlier batches; they are repeated because windows reach back to them.
    """

    rows: np.ndarray
    times_ms: np.ndarray
    values: np.ndarray
    fresh: int


class Sink(Protocol):
    """Consumes the samples of a metric."""

    reach_ms: int  # how far its windows reach back

    def meet(self, labels: Labels) -> None:
        """Add a series. Series are numbered from 0 in the order in which they are added."""

    def take(self, batch: Batch, after_ms: int, until_ms: int) -> None:
        """Take samples that are complete until `until_ms`. Times until `after_ms` were handled before."""


class Stream:
    """Passes the pages of one metric to its sinks. Series that were scraped together go in one batch."""

    def __init__(self, *sinks: Sink):
        self._sinks = sinks
        self._reach_ms = max(sink.reach_ms for sink in sinks)
        self._rows: dict[bytes, int] = {}
        self._kept: dict[int, tuple[_Kept, int]] = {}  # by series: samples that windows still reach, and its row there

    def add(self, page: Page) -> None:
        together: dict[tuple[int, bytes], tuple[_Kept, list[tuple[int, int, np.ndarray, np.ndarray]]]] = {}
        nothing = _Kept(np.empty(0, np.int64), np.empty(0), _NEVER)
        for series in page.series:
            row = self._rows.get(series.key)
            if row is None:
                row, labels = len(self._rows), series.labels
                self._rows[series.key] = row
                for sink in self._sinks:
                    sink.meet(labels)
            kept, place = self._kept.get(row, (nothing, 0))
            times, values = series.times_ms, series.values
            if len(kept.times_ms):
                # Prometheus 2 returns a sample on the border of two pages in both.
                seen = int(np.searchsorted(times, kept.times_ms[-1], "right"))
                times, values = times[seen:], values[seen:]
            if len(times):
                _, members = together.setdefault((id(kept), times.tobytes()), (kept, []))
                members.append((row, place, times, values))
        for kept, members in together.values():
            self._bring(kept, members, page.end_ms)

    def finish(self) -> None:
        """Complete the last windows after the last page, and the windows of series that ended early."""
        ended = {id(kept): kept for kept, _ in self._kept.values()}
        rows = grouped((id(kept), (place, row)) for row, (kept, place) in self._kept.items())
        for number, kept in ended.items():
            places, numbers = np.array(sorted(rows[number])).T
            batch = Batch(numbers, kept.times_ms, kept.values[places], len(kept.times_ms))
            for sink in self._sinks:
                sink.take(batch, kept.done_ms, _EVER)
        self._kept.clear()

    def _bring(self, kept: "_Kept", members: Sequence[tuple[int, int, np.ndarray, np.ndarray]], until_ms: int) -> None:
        rows = np.array([row for row, _, _, _ in members])
        times, values = members[0][2], np.array([values for _, _, _, values in members])
        fresh = len(kept.times_ms)
        if fresh:
            times = np.concatenate([kept.times_ms, times])
            values = np.hstack([kept.values[[place for _, place, _, _ in members]], values])
        batch = Batch(rows, times, values, fresh)
        for sink in self._sinks:
            sink.take(batch, kept.done_ms, until_ms)
        # Keep one sample more than windows reach, so that the next sample has a predecessor.
        first = min(int(np.searchsorted(times, until_ms - self._reach_ms)), len(times) - 1)
        rest = _Kept(times[first:].copy(), values[:, first:].copy(), until_ms)
        for place, row in enumerate(rows.tolist()):
            self._kept[row] = rest, place


class _Kept(NamedTuple):
    times_ms: np.ndarray
    values: np.ndarray
    done_ms: int


_NEVER, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Moments(ABC):
    """Compute `sum by (group)` and `avg by (group)` over series, at the moments `times_ms`."""

    def __init__(self, times_ms: np.ndarray, reach_ms: int, group_of: GroupOf = one_group):
        self.times_ms, self.reach_ms = times_ms, reach_ms
        self._group_of = group_of
        self._groups: list[int] = []
        self._sums = np.zeros((0, len(times_ms)))
        self._present = np.zeros((0, len(times_ms)), dtype=np.int64)

    def meet(self, labels: Labels) -> None:
        group = self._group_of(labels)
        self._groups.append(group)
        if group >= len(self._sums):
            more = np.zeros((group + 1 - len(self._sums), len(self.times_ms)), dtype=np.int64)
            self._sums, self._present = np.vstack([self._sums, more]), np.vstack([self._present, more])

    @property
    def sums(self) -> np.ndarray:
        """Sums, shape (groups, moments); NaN where no series has a value."""
        return np.where(self._present, self._sums, np.nan)

    @property
    def averages(self) -> np.ndarray:
        return self.sums / self._present

    def take(self, batch: Batch, after_ms: int, until_ms: int) -> None:
        """Add the values at the moments that are due now, without those that cannot have one."""
        first = np.searchsorted(self.times_ms, max(after_ms + 1, batch.times_ms[0]))
        last = np.searchsorted(self.times_ms, min(until_ms, batch.times_ms[-1] + self.reach_ms), "right")
        if last <= first:
            return
        values, there = self._values(batch, self.times_ms[first:last])
        groups = np.array([self._groups[row] for row in batch.rows.tolist()])
        np.add.at(self._sums[:, first:last], groups, np.where(there, values, 0.0))
        np.add.at(self._present[:, first:last], groups, np.broadcast_to(there, values.shape))

    @abstractmethod
    def _values(self, batch: Batch, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values (S, k) at the moments `at` (k,), and at which of these there are any (k,)."""


class Rates(Moments):
    """Compute `rate(counter[width])` at each moment."""

    def __init__(self, times_ms: np.ndarray, width_ms: int, group_of: GroupOf = one_group, dialect: Dialect = OLDEST):
        super().__init__(times_ms, width_ms, group_of)
        self._dialect = dialect
        self._side: Literal["left", "right"] = "right" if dialect.left_open else "left"

    def _values(self, batch: Batch, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        begin = at - self.reach_ms
        first = np.searchsorted(batch.times_ms, begin, self._side)
        last = np.searchsorted(batch.times_ms, at, "right") - 1
        there = last > first
        first, last = first * there, last * there
        grown = _grown(batch.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = extrapolated_rate(
                grown[:, last] - grown[:, first],
                batch.values[:, first],
                batch.times_ms[first],
                batch.times_ms[last],
                last - first,
                begin,
                at,
                self._dialect.half_first,
            )
        return rates, there


class Levels(Moments):
    """Find a gauge's latest value at each moment, if it is not older than `reach_ms`.

    Prometheus looks back 5 minutes, but marks the end of a series that disappears. A short lookback replaces that mark.
    """

    def _values(self, batch: Batch, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = np.searchsorted(batch.times_ms, at, "right") - 1
        there = at - batch.times_ms[last] <= self.reach_ms
        return batch.values[:, last], there


class Reset(NamedTuple):
    """A fall of a counter between two samples."""

    before_ms: int
    t_ms: int
    labels: Labels


class Totals:
    """Compute how much each series of a counter grew between two moments, and find its resets.

    Results after the stream's end: `labels`, one mapping per series, and arrays over the series: `increase` (sum of
    positive increments, not extrapolated), `samples`, `first_ms`, `first_value`, `rate` (1/s, as PromQL computes it
    over the whole window; NaN with fewer than two samples). `from_zero`: the first values that `begin_at_zero` found
    to be increments; they are part of `increase`, and of no rate.
    """

    reach_ms = 0

    def __init__(self, start_ms: int, end_ms: int, dialect: Dialect = OLDEST):
        self._start_ms, self._end_ms, self._dialect = start_ms, end_ms, dialect
        self._side: Literal["left", "right"] = "right" if dialect.left_open else "left"
        self.labels: list[Labels] = []
        self.resets: list[Reset] = []
        self._state = np.zeros((7, 0))
        self.from_zero = np.zeros(0)

    def meet(self, labels: Labels) -> None:
        self.labels.append(labels)
        if len(self.labels) > self._state.shape[1]:
            self._state = np.pad(self._state, ((0, 0), (0, len(self.labels))))

    def take(self, batch: Batch, after_ms: int, until_ms: int) -> None:
        begun = max(batch.fresh - 1, 0)
        falls = np.diff(batch.values[:, begun:], axis=1) < 0
        if falls.any():
            for place, step in np.argwhere(falls):
                before_ms, at_ms = batch.times_ms[begun + step : begun + step + 2].tolist()
                self.resets.append(Reset(before_ms, at_ms, self.labels[batch.rows[place]]))
        first = max(int(np.searchsorted(batch.times_ms, self._start_ms, self._side)), batch.fresh)
        last = int(np.searchsorted(batch.times_ms, self._end_ms, "right"))
        if first >= last:
            return
        inside = batch.values[:, first:last]
        # The first value of a series is not an increment, unless `begin_at_zero` learns when counting began.
        state = self._state[:, batch.rows]
        samples, increase, first_ms, first_value, _, last_value, begun_inside = state
        new = samples == 0
        steps = np.diff(inside, axis=1, prepend=np.where(new, inside[:, 0], last_value)[:, None])
        increase += np.where(steps < 0, inside, steps).sum(axis=1)
        first_ms[new], first_value[new], begun_inside[new] = batch.times_ms[first], inside[new, 0], first == 0
        samples += last - first
        state[4], state[5] = batch.times_ms[last - 1], inside[:, -1]
        self._state[:, batch.rows] = state

    def begin_at_zero(self, absent_at: Callable[[Labels, int], int | None]) -> None:
        """Count the first value of each series that was zero at a scrape inside of the window.

        absent_at: maps labels and the time of a series' first sample to the time in ms of the scrape before, if that
        would have had the series with any other value than zero. Call it after the stream's end.
        """
        self.from_zero = np.zeros(len(self.labels))
        for row in np.flatnonzero(self._state[6, : len(self.labels)]).tolist():
            at_ms = absent_at(self.labels[row], int(self.first_ms[row]))
            if at_ms is not None and (at_ms > self._start_ms or (at_ms == self._start_ms and self._side == "left")):
                self.from_zero[row] = self.first_value[row]

    @property
    def samples(self) -> np.ndarray:
        return self._state[0, : len(self.labels)]

    @property
    def increase(self) -> np.ndarray:
        return self._state[1, : len(self.labels)] + (self.from_zero if len(self.from_zero) else 0.0)

    @property
    def first_ms(self) -> np.ndarray:
        return self._state[2, : len(self.labels)]

    @property
    def first_value(self) -> np.ndarray:
        return self._state[3, : len(self.labels)]

    @property
    def rate(self) -> np.ndarray:
        samples, increase, first_ms, first_value, last_ms, *_ = self._state[:, : len(self.labels)]
        with np.errstate(divide="ignore", invalid="ignore"):
            return extrapolated_rate(
                increase,
                first_value,
                first_ms,
                last_ms,
                samples - 1,
                self._start_ms,
                self._end_ms,
                self._dialect.half_first,
            )


def _grown(values: np.ndarray) -> np.ndarray:
    """Return counters (S, n) with their resets removed."""
    steps = np.diff(values, axis=1)
    falls = steps < 0
    if not falls.any():
        return values
    grown = values.copy()
    grown[:, 1:] += np.cumsum(np.where(falls, values[:, :-1], 0.0), axis=1)
    return grown


def extrapolated_rate(
    increase: np.ndarray,
    first_value: np.ndarray,
    first_ms: np.ndarray,
    last_ms: np.ndarray,
    intervals: np.ndarray,
    start_ms: np.ndarray | int,
    end_ms: np.ndarray | int,
    half_first: bool,
) -> np.ndarray:
    """Compute PromQL's rate in 1/s: the growth between the first and the last sample, extrapolated towards the edges.

    It is extrapolated to an edge of the window that is nearer than 1.1 intervals, else by half an interval, and never
    to before the counter was zero. What that last limit applies to depends on Prometheus' release: see
    Dialect.half_first.
    """
    sampled = (last_ms - first_ms).astype(float)
    to_start, to_end = (first_ms - start_ms).astype(float), (end_ms - last_ms).astype(float)
    interval = sampled / intervals
    to_zero = sampled * first_value / increase
    from_zero = (increase > 0) & (first_value >= 0)
    if half_first:
        to_start = _near(to_start, interval)
        to_start = np.where(from_zero, np.minimum(to_start, to_zero), to_start)
    else:
        to_start = _near(np.where(from_zero, np.minimum(to_start, to_zero), to_start), interval)
    covered = sampled + to_start + _near(to_end, interval)
    return increase * covered / sampled / ((end_ms - start_ms) / 1000)


def _near(distance: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return the distance to an edge that is nearer than 1.1 intervals, else half an interval."""
    return np.where(distance < 1.1 * interval, distance, interval / 2)
