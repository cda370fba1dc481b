"""Each store method and API handler: whether it got slower or faster, by how much, and with which verdict."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from benchstudy.families.load_test.page.cells import quantile_cell, verdict_cell
from benchstudy.families.load_test.page.load import FEWEST, GROUPS, HEADS, LABELS, Contrast, LoadTest
from benchstudy.report import human
from benchstudy.report.tables.tables import Cell, Table, slug
from benchstudy.statistics import stats
from benchstudy.statistics.comparisons import Comparison, Verdict, judge
from benchstudy.statistics.mix_shift import P99, Calls, Quantile, quantile

# Without enough trials to tell change from chance, a mean of fewer calls does not count as changed.
FEWEST_CALLS = 100
WORSE, BETTER, OTHER = "worsened", "improved", "neither"


@dataclass(frozen=True)
class Line:
    """One label that both sides called. `outcome`: the ratio of its means, with the verdict."""

    contrast: Contrast
    group: str
    label: str
    base: Calls
    new: Calls
    base_rate: float
    new_rate: float
    outcome: Comparison

    @property
    def ratio(self) -> float:
        """Ratio over the trials, else over the merged calls of both sides."""
        return self.outcome.ratio or (self.new.mean / self.base.mean if self.base.mean else 1.0)

    @property
    def kind(self) -> str:
        """The class by verdict alone: without a verdict, a label is neither worse nor better."""
        return {Verdict.WORSE: WORSE, Verdict.BETTER: BETTER}.get(self.outcome.verdict, OTHER)

    @property
    def seen(self) -> str:
        """The class by the means alone: the side of the margin, if there are enough calls. This is not a verdict."""
        if min(self.base.count, self.new.count) < FEWEST_CALLS:
            return OTHER
        edge = 1 + self.outcome.margin
        return WORSE if self.ratio > edge else BETTER if self.ratio < 1 / edge else OTHER


class LoadLabels:
    def __init__(self, load: LoadTest):
        self.load = load

    @cached_property
    def lines(self) -> list[Line]:
        """Every label of every contrast that both sides called. The comparisons of one contrast, store methods and API
        handlers together, are one family for the adjustment of p values."""
        return [line for contrast in self.load.contrasts for line in self._judged(list(self._of(contrast)))]

    @staticmethod
    def _judged(lines: list[Line]) -> list[Line]:
        outcomes = judge([line.outcome for line in lines])
        return [replace(line, outcome=made) for line, made in zip(lines, outcomes, strict=True)]

    def _of(self, contrast: Contrast) -> Iterator[Line]:
        sides = self.load.sides(contrast)
        for group in GROUPS:
            shift = self.load.shift(contrast, group)
            if shift is None:
                continue
            for part in shift.parts:
                if part.state != "both" or part.base is None or part.new is None:
                    continue
                base, new = (
                    {t.uuid: c.mean for t in side if (c := self.load.calls(t.uuid, group).get(part.label)) is not None}
                    for side in sides
                )
                made = self.load.compared(contrast, f"{group}_mean", base, new)
                rates = part.base.count / shift.base_s, part.new.count / shift.new_s
                yield Line(contrast, group, part.label, part.base, part.new, *rates, made)

    def of(self, contrast: Contrast, group: str, kind: str) -> list[Line]:
        """Lines of one kind, largest change first; those without a change by their total time."""
        wanted = (contrast, group, kind)
        found = [line for line in self.lines if (line.contrast, line.group, line.kind) == wanted]
        if kind == OTHER:
            return sorted(found, key=lambda line: -line.new_rate * line.new.mean)
        return sorted(found, key=lambda line: -abs(line.ratio - 1) if kind == WORSE else line.ratio)

    # -- words -------------------------------------------------------------------------------------------------------

    def summary(self, contrast: Contrast) -> str:
        """The load, how many labels were tested, and with which outcomes."""
        own = [line for line in self.lines if line.contrast == contrast]
        tests = next((line.outcome.tests for line in own if line.outcome.tests), 0)
        counts = {kind: sum(line.kind == kind for line in own) for kind in (WORSE, BETTER)}
        verdicts = [line.outcome.verdict for line in own]
        title = f"{self.load.title(contrast)}: "
        if not tests:
            few = self.load.n(contrast) < FEWEST
            why = f" With {human.plural(self.load.n(contrast), 'trial')} per version, there" if few else " There"
            counts = {kind: sum(line.seen == kind for line in own) for kind in (WORSE, BETTER)}
            return (
                f"{title}both versions called {human.plural(len(own), 'label')}.{why} is no verdict. Of the labels "
                f"with at least {FEWEST_CALLS} calls, {counts[WORSE]} got slower and {counts[BETTER]} got faster by "
                "more than the margin, by their means alone. It is not known how many of these changes arose by chance."
            )
        missing = verdicts.count(Verdict.NONE)
        left = f", {missing} without a verdict" if missing else ""
        return (
            f"{title}{human.plural(tests, 'label')} tested (Benjamini-Hochberg over all of them): {counts[WORSE]} "
            f"worsened, {counts[BETTER]} improved, {verdicts.count(Verdict.EQUIVALENT)} equivalent, "
            f"{verdicts.count(Verdict.INCONCLUSIVE)} inconclusive{left}."
        )

    # -- tables ------------------------------------------------------------------------------------------------------

    def changed(self, contrast: Contrast) -> Iterator[Table]:
        """Tables of worsened, then improved labels: store methods first, then API handlers."""
        for group in GROUPS:
            for kind in (WORSE, BETTER):
                yield self._table(contrast, group, kind)

    def others(self, contrast: Contrast) -> Iterator[Table]:
        for group in GROUPS:
            yield self._table(contrast, group, OTHER)

    def _table(self, contrast: Contrast, group: str, kind: str) -> Table:
        lines = self.of(contrast, group, kind)
        name = f"{self.load.title(contrast)}: {LABELS[group]}s"
        tested = any(line.outcome.tests for line in lines)
        others = "without a shown change" if tested else "without a verdict"
        what = {WORSE: "that worsened", BETTER: "that improved", OTHER: f"{others}, by total time"}
        columns = (
            HEADS[group], "Ratio of means", "Verdict", "Mean, base", "Mean, new", "Calls per second",
            "Time per second", "p99, base", "p99, new",
        )  # fmt: skip
        rows = tuple(self._row(line) for line in lines)
        return Table(slug(f"{kind}-{name}"), f"{name} {what[kind]}", columns, rows)

    def _row(self, line: Line) -> tuple[Cell, ...]:
        base, new = self.load.hrefs(line.contrast)
        rates = Cell((f"{_rate(line.base_rate)} → {_rate(line.new_rate)}",), new)
        took = Cell((human.from_to(line.base_rate * line.base.mean, line.new_rate * line.new.mean, "s"),), new)
        quantiles = [_quantile(calls) for calls in (line.base, line.new)]
        return (
            Cell.text(line.label),
            Cell(human.ratio(line.ratio, *line.outcome.interval), new),
            verdict_cell(line.outcome, *_about_p99(*quantiles)),
            Cell((human.quantity(line.base.mean, "s"), human.plural(round(line.base.count), "call")), base),
            Cell((human.quantity(line.new.mean, "s"), human.plural(round(line.new.count), "call")), new),
            rates,
            took,
            *(_p99_cell(*found) for found in zip(quantiles, (line.base, line.new), (base, new), strict=True)),
        )


def _quantile(calls: Calls) -> Quantile | None:
    return quantile(calls.buckets, P99) if stats.supported(100 * P99, int(calls.count)) else None


def _p99_cell(found: Quantile | None, calls: Calls, href: str) -> Cell:
    if found is None and calls.buckets:
        return Cell((f"needs {stats.smallest_n(100 * P99)} calls",), href, "missing")
    return quantile_cell(found, href)


def _about_p99(base: Quantile | None, new: Quantile | None) -> tuple[str, ...]:
    """How the buckets of two p99s compare."""
    if base is None or new is None:
        return ()
    apart = "in a higher bucket" if new.low > base.low else "in a lower bucket"
    return (f"p99 {apart}" if base.apart(new) else "p99 not distinguishable: same bucket",)


def _rate(rate: float) -> str:
    return human.quantity(rate, "1/s")
