"""Mix shift of each load and database: whether the calls got slower, or whether the mix of calls changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from benchstudy.families.load_test.page.cells import (
    bucket,
    called,
    interval_lines,
    quantile_cell,
    ratio_lines,
    signed,
    signed_percent,
)
from benchstudy.families.load_test.page.load import FEWEST, GROUPS, HEADS, LABELS, PAGE_BAND, Contrast, LoadTest
from benchstudy.report import human
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug
from benchstudy.statistics.buckets import Quantile
from benchstudy.statistics.comparisons import Comparison, Verdict, judge
from benchstudy.statistics.mix_shift import MOSTLY, NOTICEABLE, Part, Shift

MIX_DRIVEN = "mix-driven"
_TOP = 5


@dataclass(frozen=True)
class Reading:
    """One contrast of one group. `raw` compares the means; `like` the means with the labels called in equal shares.

    `verdict` is a few words; `alarm` warns that the raw change is not one of the labels.
    """

    contrast: Contrast
    group: str
    shift: Shift
    raw: Comparison
    like: Comparison
    margin: float

    @property
    def tested(self) -> bool:
        """Whether the verdict rests on several trials."""
        return self.raw.evidence is not None and self.like.evidence is not None

    @cached_property
    def drivers(self) -> list[Part]:
        return self.shift.drivers(self.margin)

    @property
    def _raw_moved(self) -> bool:
        if self.tested:
            return self.raw.verdict.is_difference
        return abs(self.shift.change) > self.margin * self.shift.base_mean

    @property
    def _like_moved(self) -> bool:
        if self.tested:
            return self.like.verdict.is_difference
        return abs(self.shift.within) > self.margin * self.shift.base_mean

    @property
    def _raw_slower(self) -> bool:
        return _slower(self.raw, self.tested, self.shift.change)

    @property
    def _like_slower(self) -> bool:
        return _slower(self.like, self.tested, self.shift.within)

    @property
    def mix_driven(self) -> bool:
        return self._raw_moved and not self._like_moved and self.shift.alarm

    @property
    def hidden(self) -> bool:
        """Whether the calls themselves changed, and the mix keeps their overall mean from showing it.

        A mean that shows nothing may also vary too much. The mix must take back most of what the calls add to it.
        """
        if self._raw_moved:
            return self._like_moved and self._raw_slower != self._like_slower
        within, mix = self.shift.within, self.shift.mix
        return self._like_moved and mix * within < 0 and abs(mix) > MOSTLY * abs(within)

    @property
    def slower(self) -> bool | None:
        """Whether the verdict says that times got longer, like for like if that is known; None if it says neither."""
        return self._like_slower if self._like_moved else self._raw_slower if self._raw_moved else None

    @property
    def worse(self) -> bool:
        """Whether the calls themselves got slower, like for like."""
        return self._like_moved and self._like_slower

    @property
    def named(self) -> list[Part]:
        """Labels to name: those that explain the mix, else one-sided labels that are part of the change."""
        if self.drivers and (self.mix_driven or self.shift.alarm):
            return self.drivers
        least = NOTICEABLE * abs(self.shift.change)
        return [p for p in self.shift.parts[:_TOP] if p.state != "both" and abs(p.influence) > least]

    @property
    def verdict(self) -> str:
        """The verdict in a few words; with too few trials, how the means changed, marked as "no verdict"."""
        return self.said if self.tested else f"no verdict: {self.said}"

    @property
    def said(self) -> str:
        """The verdict, or how the means changed, without that mark."""
        shift = self.shift
        raw = "regression" if self._raw_slower else "improvement"
        if self.mix_driven:
            shown = "" if self.like.verdict is Verdict.EQUIVALENT else " shown"
            return f"{MIX_DRIVEN}, no {raw}{shown}" if self.tested else "mostly a change of the mix"
        like = "regression" if self._like_slower else "improvement"
        if not self.tested:
            raw, like = ("slower" if part > 0 else "faster" for part in (shift.change, shift.within))
            like += " like for like"
        if self.hidden:
            return f"{like}, hidden by the mix"
        if self._like_moved and not self._raw_moved:
            return f"{like}{' like for like' if self.tested else ''}, not shown in the mean"
        if self._like_moved:
            # With an alarm, the mix either works against the change of the mean or is most of it.
            against = shift.mix * shift.change < 0
            part = "in part hidden by the mix" if against else "and the mix changes the mean even more"
            return f"{like}, {part}" if shift.alarm else like
        if self._raw_moved:
            return f"{raw} in the mean, not shown like for like"
        margin = human.percent(self.margin)
        if not self.tested:
            return f"within {margin}"
        if self.like.verdict is not Verdict.EQUIVALENT:
            return str(Verdict.INCONCLUSIVE)
        same = self.raw.verdict is Verdict.EQUIVALENT
        return f"no change of {margin} or more{'' if same else ' like for like'}"


def _slower(made: Comparison, tested: bool, change: float) -> bool:
    """Whether the times got longer. One slow trial can turn the `change` of all calls, but not the tested ratio."""
    return made.ratio > 1 if tested and made.ratio is not None else change > 0


class LoadMix:
    def __init__(self, load: LoadTest):
        self.load = load

    @cached_property
    def readings(self) -> list[Reading]:
        """One reading per contrast and group. Their p values are adjusted together."""
        return self._judged(self.load.contrasts)

    @cached_property
    def repeats(self) -> list[Reading]:
        """Readings of the same version under two names: what this set-up finds although nothing changed."""
        return self._judged(self.load.repeats)

    def _judged(self, contrasts: Sequence[Contrast]) -> list[Reading]:
        found = [r for c in contrasts for group in GROUPS if (r := self._read(c, group)) is not None]
        judged = judge([c for reading in found for c in (reading.raw, reading.like)])
        return [replace(r, raw=judged[2 * i], like=judged[2 * i + 1]) for i, r in enumerate(found)]

    def twin(self, reading: Reading) -> Reading | None:
        """The reading of the base against itself, in the same group, load and database; None without one."""

        def place(of: Reading) -> tuple[str, ...]:
            found = of.contrast
            return of.group, found.target, found.database, found.load, found.base

        return next((repeat for repeat in self.repeats if place(repeat) == place(reading)), None)

    @property
    def tests(self) -> int:
        return next((r.raw.tests or r.like.tests for r in self.readings if r.raw.tests or r.like.tests), 0)

    def _read(self, contrast: Contrast, group: str) -> Reading | None:
        shift = self.load.shift(contrast, group)
        if shift is None:
            return None
        metric = f"{group}_mean"
        # Pairing by block cancels what affects both trials of a block.
        blocks = self.load.shifts_by_block(contrast, group)
        base = {first: s.base_mean for first, s in blocks.values()}
        raw = self.load.compared(contrast, metric, base, {t: s.new_mean for t, (_, s) in blocks.items()})
        like = self.load.compared(contrast, metric, base, {t: s.standardised_mean for t, (_, s) in blocks.items()})
        return Reading(contrast, group, shift, raw, like, self.load.margin(metric))

    # -- words -------------------------------------------------------------------------------------------------------

    def sentence(self, reading: Reading) -> str:
        """The change and its parts in sentences, as people wrote by hand on the published page; without the load."""
        shift, group = reading.shift, GROUPS[reading.group]
        relative = f" ({signed_percent(shift.ratio)})" if shift.ratio is not None else ""
        said = reading.verdict if reading.tested else f"in these trials, {reading.said}, without a verdict"
        told = (
            f"{group[0].upper()}{group[1:]} times: {said}. The mean changed by "
            f"{signed(shift.change, 's')}{relative}: "
            f"{signed(shift.within, 's')} from the {LABELS[reading.group]}s themselves, {signed(shift.mix, 's')} "
            "from how often each is called"
        )
        further = (self._about_signs, self._about_quantile, self._about_drivers, self._how_sure, self._own_band)
        return f"{told}.{''.join(about(reading) for about in further)}"

    def _about_signs(self, reading: Reading) -> str:
        """Why the verdict and the change of the mean point in opposite directions, if they do."""
        shift, labels = reading.shift, f"{LABELS[reading.group]}s"
        verdict_slower = reading.slower
        if verdict_slower is None or verdict_slower == (shift.change > 0):
            return ""
        if verdict_slower != (shift.within > 0):
            return (
                " The verdict and the mean disagree. The verdict compares trial with trial, and the mean is over the "
                "calls of all trials, so one trial with unusual times can reverse it."
            )
        own, other = ("slower", "fast") if verdict_slower else ("faster", "slow")
        seen = "Both are true" if reading.tested else "In these trials, both are true"
        return f" {seen}: the {labels} themselves got {own}, but a larger share of the calls now goes to {other} ones."

    def _about_quantile(self, reading: Reading) -> str:
        base, new = reading.shift.base_quantile(), reading.shift.new_quantile()
        like = reading.shift.standardised_quantile()
        if base is None or new is None or like is None:
            return ""
        return f" The p99 {_changed(base, new)}; with the calls of the base, it {_changed(base, like)}."

    def _about_drivers(self, reading: Reading) -> str:
        drivers = reading.drivers
        if not drivers or not (reading.mix_driven or reading.shift.alarm):
            return self._about_one_sided(reading.named)
        rest = reading.shift.without([part.label for part in drivers])
        assert rest is not None, "drivers leave something on both sides"
        names = " and ".join(f"{part.label} ({self._called(part)})" for part in drivers)
        base, new = rest.base_quantile(), rest.new_quantile()
        p99 = f", and the p99 {_changed(base, new)}" if base is not None and new is not None else ""
        return f" Without {names}, the mean changed by {signed(rest.change, 's')}{p99}."

    def _about_one_sided(self, found: Sequence[Part]) -> str:
        """Sentences about one-sided labels that are part of the change of the mean."""
        told = [f"{part.label} ({self._called(part)}) adds {signed(part.influence, 's')}" for part in found]
        return f" {' and '.join(told)} to the change of the mean." if told else ""

    @staticmethod
    def _called(part: Part) -> str:
        if part.state == "left":
            return "almost never called now" if part.few else "no longer called"
        if part.state == "entered":
            return "almost never called before" if part.few else "not called before"
        return f"{human.percent(part.base_share)} of the calls before, {human.percent(part.new_share)} now"

    def _how_sure(self, reading: Reading) -> str:
        n = self.load.n(reading.contrast)
        if not reading.tested:
            few = human.plural(n, "trial")
            return f" With {few} per version, this is a description, not a verdict." if n < FEWEST else ""
        like, lines = reading.like, ratio_lines(reading.like)
        if not lines:
            return ""
        ratio, interval = lines
        tests = human.plural(like.tests, "test")
        return f" Like for like {ratio} ({interval}, {like.verdict}, {tests} in this section)."

    def _own_band(self, reading: Reading) -> str:
        """The difference between two measurements of one version in this study, and the usual one elsewhere."""
        twin = self.twin(reading)
        if twin is None:
            return ""
        like, again = twin.like, f" {reading.contrast.base} against itself, with as many trials"
        if like.ratio is None:
            return f"{again}: {signed(twin.shift.within, 's')} like for like."
        ends = "".join(f" ({interval})" for interval in interval_lines(like))
        return (
            f"{again}: {signed_percent(like.ratio, *like.interval)}{ends}; "
            f"{human.percent(PAGE_BAND)} is usual elsewhere."
        )

    # -- tables ------------------------------------------------------------------------------------------------------

    @property
    def noted(self) -> list[dict[str, Any]]:
        """One entry per reading for the overview: the two cases, the verdict, and whether the mix raises an alarm."""
        return [
            {
                "what": f"{self.load.title(r.contrast)}, {GROUPS[r.group]}",
                "verdict": r.verdict,
                "alarm": r.shift.alarm,
                "cases": [(r.contrast.target, case) for case in r.contrast.cases.values()],
            }
            for r in [*self.readings, *self.repeats]
        ]

    def table(self) -> Table:
        """One row per load, database and group: the change and its parts."""
        body = [self._row(reading) for reading in [*self.readings, *self.repeats]]
        columns = (
            "Times", "Verdict", "Mean, base", "Mean, new", "Change", "From the labels", "From the mix",
            "p99, base", "p99, new", "p99, new with the base's calls",
        )  # fmt: skip
        return Table("mix", "Mix shift: the parts of the change of the mean, over all trials", columns, tuple(body))

    def _row(self, reading: Reading) -> tuple[Cell, ...]:
        shift, contrast = reading.shift, reading.contrast
        base, new = self.load.hrefs(contrast)
        kind = "text verdict worse" if reading.worse and reading.tested else "text verdict"
        again = ("the same version twice",) if contrast.again else ()
        relative = (signed_percent(shift.ratio),) if shift.ratio is not None else ()
        return (
            Cell((f"{self.load.title(contrast)}, {GROUPS[reading.group]}", *again)),
            Cell((reading.verdict, *self._named(reading)), kind=kind, marks=("mix",) if shift.alarm else ()),
            Cell((human.quantity(shift.base_mean, "s"), _calls(shift.base_count)), base),
            Cell((human.quantity(shift.new_mean, "s"), _calls(shift.new_count)), new),
            Cell((signed(shift.change, "s"), *relative), new),
            Cell((signed(shift.within, "s"), *(_by_trials(reading.like) or ("n too small for an interval",))), new),
            Cell((signed(shift.mix, "s"),), new),
            quantile_cell(shift.base_quantile(), base),
            quantile_cell(shift.new_quantile(), new),
            quantile_cell(shift.standardised_quantile(), new, "the base's calls"),
        )

    def _named(self, reading: Reading) -> tuple[str, ...]:
        return tuple(f"{part.label}: {self._called(part)}" for part in reading.named)

    def top(self) -> Iterator[Table]:
        """One table per load, database and group: the five labels that move the mean most, each left out in turn."""
        for reading in self.readings:
            shift = reading.shift
            body = [self._part_row(part, reading) for part in shift.parts[:_TOP]]
            name = f"{self.load.title(reading.contrast)}, {GROUPS[reading.group]}"
            caption = f"{name}: the {len(body)} that move the mean most"
            columns = (
                HEADS[reading.group], "Change without it", "Contribution", "From the label itself", "From the mix",
                "Share of calls, base", "Share of calls, new", "Mean, base", "Mean, new",
            )  # fmt: skip
            yield Table(slug(f"mix-{name}"), caption, columns, tuple(body))

    def _part_row(self, part: Part, reading: Reading) -> tuple[Cell, ...]:
        base, new = self.load.hrefs(reading.contrast)
        without = MISSING if part.without is None else Cell((signed(part.without, "s"),), new)
        state = (self._called(part),) if part.state != "both" else ()
        return (
            Cell((part.label, *state)),
            without,
            Cell((signed(part.influence, "s"),), new),
            # A label that only one side calls has no change of its own.
            MISSING if part.base is None or part.new is None else Cell((signed(part.within, "s"),), new),
            Cell((signed(part.mix, "s"),), new),
            Cell((human.percent(part.base_share),), base),
            Cell((human.percent(part.new_share),), new),
            called(part.base.mean if part.base else None, "s", base),
            called(part.new.mean if part.new else None, "s", new),
        )

    def entered_and_left(self) -> Iterator[Table]:
        """Tables of labels that one side never or hardly called. They are separate because they have no ratio."""
        for reading in self.readings:
            parts = [part for part in reading.shift.parts if part.state != "both"]
            if not parts:
                continue
            name = f"{self.load.title(reading.contrast)}, {GROUPS[reading.group]}"
            body = [self._one_sided(part, reading) for part in parts]
            columns = (
                HEADS[reading.group], "", "Calls per second, base", "Calls per second, new", "Mean, base",
                "Mean, new", "Contribution to the plain mean",
            )  # fmt: skip
            yield Table(slug(f"one-sided-{name}"), f"{name}: entered and left", columns, tuple(body))

    def _one_sided(self, part: Part, reading: Reading) -> tuple[Cell, ...]:
        shift, hrefs = reading.shift, self.load.hrefs(reading.contrast)
        sides = list(zip((part.base, part.new), (shift.base_s, shift.new_s), hrefs, strict=True))
        rates = [called(calls.count / seconds if calls else None, "1/s", href) for calls, seconds, href in sides]
        means = [called(calls.mean if calls else None, "s", href) for calls, _, href in sides]
        word = f"{part.state}, except for a few calls" if part.few else part.state
        adds = Cell((signed(part.influence, "s"),), hrefs[1])
        return (Cell.text(part.label), Cell.text(word), *rates, *means, adds)


def _changed(base: Quantile, new: Quantile) -> str:
    """The change of an interpolated quantile; within one bucket not even its sign is known."""
    if base.apart(new):
        return f"changed by {signed(new.value - base.value, 's')} (interpolated)"
    return f"stayed within one bucket ({bucket(base)})"


def _by_trials(made: Comparison) -> tuple[str, ...]:
    """The estimate that the interval is of: one slow trial can move the mean over all calls out of it."""
    lines = ratio_lines(made)
    return (f"trial by trial: {lines[0]}", lines[1]) if lines else ()


def _calls(count: float) -> str:
    return human.plural(round(count), "call")
