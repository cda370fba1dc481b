"""Why a mean over many labels changed: because the labels changed, or because the mix of calls did.

Symmetric Kitagawa decomposition of a mean over calls, reweighted quantiles of histograms, and each label left out in
turn. Pure: counts, sums and buckets in, figures out, in the unit of the sums; docs/statistics.md says what is computed
and why.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from benchstudy.statistics.buckets import Quantile, quantile

State = Literal["both", "entered", "left"]

# If one side calls a label less than a hundredth as often as the other, it is not the same mix of calls: the few
# remaining ones may be of another kind (in the seed's report 0.3 µs became 11 ms). They count as another label.
ALL_BUT_GONE = 0.01
# Share of the total change from which the mix, and not the labels, explains it.
MOSTLY = 0.5
NOTICEABLE = 0.1  # share of the total change; the sign of smaller parts may be rounding
P99 = 0.99


@dataclass(frozen=True)
class Calls:
    """One side's data for one label. `buckets`: cumulative counts by upper edge, infinity last; {} without any."""

    count: float
    total: float
    buckets: Mapping[float, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean per call, in the unit of `total`. There must be calls."""
        return self.total / self.count

    def __add__(self, other: "Calls") -> "Calls":
        """Merged trials. Histograms with different edges are merged only at the edges they share."""
        return Calls(
            self.count + other.count,
            self.total + other.total,
            {e: self.buckets[e] + other.buckets[e] for e in self.buckets if e in other.buckets},
        )


@dataclass(frozen=True)
class Part:
    """One label's part in the change of the mean. `few`: both sides called it, but one hardly ever.

    `within` + `mix`, summed over all labels, is the change. `without`: the change if nobody called this label,
    None for the only label; `influence` is what it adds.
    """

    label: str
    state: State
    few: bool
    base: Calls | None
    new: Calls | None
    base_share: float
    new_share: float
    within: float
    mix: float
    without: float | None
    influence: float


class Shift:
    """The change from `base` to `new`, both by label. `base_s`, `new_s`: the seconds that the counts cover.

    Labels without calls on either side are left out. Raises ValueError if a side has no calls.
    """

    def __init__(self, base: Mapping[str, Calls], new: Mapping[str, Calls], base_s: float = 1.0, new_s: float = 1.0):
        self._base = {label: calls for label, calls in base.items() if calls.count > 0}
        self._new = {label: calls for label, calls in new.items() if calls.count > 0}
        if not self._base or not self._new:
            raise ValueError("a side without calls has no mean")
        self.base_s, self.new_s = base_s, new_s
        self.labels = list(dict.fromkeys([*self._base, *self._new]))
        self.base_count, self.new_count = (_count(side) for side in (self._base, self._new))
        self.base_mean, self.new_mean = (_mean(side) for side in (self._base, self._new))

    # -- the mean ----------------------------------------------------------------------------------------------------

    @property
    def change(self) -> float:
        """New mean minus base mean, per call. It is `within` plus `mix`."""
        return self.new_mean - self.base_mean

    @property
    def ratio(self) -> float | None:
        """New mean over base mean; None if the base's sums never moved, as of calls below the clock's resolution."""
        return self.new_mean / self.base_mean if self.base_mean else None

    @property
    def within(self) -> float:
        """The change from the labels' own means, at the shares averaged over both sides."""
        return math.fsum(part.within for part in self.parts)

    @property
    def mix(self) -> float:
        """The change from the labels' shares, at the means averaged over both sides."""
        return math.fsum(part.mix for part in self.parts)

    @property
    def standardised_mean(self) -> float:
        """The new side's mean if only the labels' own means had changed: like for like with the base."""
        return self.base_mean + self.within

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """By label, in the order of their influence on the change, the largest first."""
        middle = (self.base_mean + self.new_mean) / 2
        found = [self._part(label, middle) for label in self.labels]
        return tuple(sorted(found, key=lambda part: (-abs(part.influence), part.label)))

    def _part(self, label: str, middle: float) -> Part:
        base, new = self._base.get(label), self._new.get(label)
        base_share = base.count / self.base_count if base else 0.0
        new_share = new.count / self.new_count if new else 0.0
        state, few = self.state(label)
        if base is not None and new is not None and not few:
            within = (base_share + new_share) / 2 * (new.mean - base.mean)
            mix = (new_share - base_share) * ((base.mean + new.mean) / 2 - middle)
        else:
            # With too little to compare on one side, none of the change is due to the label's own mean.
            within = 0.0
            mix = (new_share * (new.mean - middle) if new else 0.0) - (
                base_share * (base.mean - middle) if base else 0.0
            )
        rest = self.without([label])
        without = rest.change if rest is not None else None
        influence = self.change - without if without is not None else self.change
        return Part(label, state, few, base, new, base_share, new_share, within, mix, without, influence)

    def state(self, label: str) -> tuple[State, bool]:
        """Which side alone called the label, if any; and whether the other side did call it, but less than a hundredth
        as often."""
        base, new = self._base.get(label), self._new.get(label)
        if base is None or new is None:
            return ("entered" if base is None else "left"), False
        base_rate, new_rate = base.count / self.base_s, new.count / self.new_s
        if new_rate < ALL_BUT_GONE * base_rate:
            return "left", True
        return ("entered", True) if base_rate < ALL_BUT_GONE * new_rate else ("both", False)

    def without(self, labels: Sequence[str]) -> "Shift | None":
        """The change if nobody called these labels; None if a side would have no calls left."""
        sides = [{k: v for k, v in side.items() if k not in labels} for side in (self._base, self._new)]
        return Shift(sides[0], sides[1], self.base_s, self.new_s) if all(sides) else None

    @property
    def alarm(self) -> bool:
        """Whether the change must not be ascribed to the labels: mix and labels disagree in sign, or mix prevails."""
        if not self.change:
            return False
        apart = self.mix * self.within < 0 and min(abs(self.mix), abs(self.within)) > NOTICEABLE * abs(self.change)
        return apart or abs(self.mix) > MOSTLY * abs(self.change)

    def drivers(self, margin: float, most: int = 3) -> list[Part]:
        """The fewest labels, by influence, without which the mean changes by at most `margin` (0.05 is 5 %), and by
        at most half as much as with them.

        Only labels that are called more or less often, rather than slower or faster. Empty if `most` do not explain it.
        """
        chosen: list[Part] = []
        for part in self.parts:
            by_mix = part.mix * self.change > 0 and abs(part.mix) >= abs(part.within)
            if len(chosen) == most or part.influence * self.change <= 0 or not by_mix:
                continue
            chosen.append(part)
            rest = self.without([p.label for p in chosen])
            if rest is not None and abs(rest.change) <= min(margin * rest.base_mean, (1 - MOSTLY) * abs(self.change)):
                return chosen
        return []

    # -- quantiles ---------------------------------------------------------------------------------------------------

    def base_quantile(self, q: float = P99) -> Quantile | None:
        """The quantile `q` (0 to 1) of all calls of the base. None without histograms."""
        return quantile(_together(calls.buckets for calls in self._base.values()), q)

    def new_quantile(self, q: float = P99) -> Quantile | None:
        """The quantile `q` (0 to 1) of all calls of the new side. None without histograms."""
        return quantile(_together(calls.buckets for calls in self._new.values()), q)

    def standardised_quantile(self, q: float = P99) -> Quantile | None:
        """The new side's quantile at the base's shares of labels. Labels that it does not call keep the base's
        histogram. None without histograms with the same edges."""
        weighted: list[dict[float, float]] = []
        for label, base in self._base.items():
            state, _ = self.state(label)
            own = self._new[label] if state == "both" else base
            factor = base.count / own.count
            weighted.append({edge: n * factor for edge, n in own.buckets.items()})
        return quantile(_together(weighted), q)


def _count(side: Mapping[str, Calls]) -> float:
    return math.fsum(calls.count for calls in side.values())


def _mean(side: Mapping[str, Calls]) -> float:
    return math.fsum(calls.total for calls in side.values()) / _count(side)


def _together(of_labels: Iterable[Mapping[float, float]]) -> dict[float, float]:
    """The sum of all labels' histograms, one or more, at the edges that all of them have."""
    histograms = list(of_labels)
    shared = set(histograms[0]).intersection(*histograms[1:])
    return {edge: math.fsum(h[edge] for h in histograms) for edge in shared}
