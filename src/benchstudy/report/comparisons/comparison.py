"""Comparisons of a page: which cases are compared, with which margin, and how the outcome is shown."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.grouping import grouped
from benchstudy.model.study import Thresholds
from benchstudy.report import human
from benchstudy.report.comparisons import wording
from benchstudy.report.comparisons.comparability import Comparability, Indexes, Measured
from benchstudy.report.exhibits import cells
from benchstudy.report.figures.panels import Panel, Style, forest_panels
from benchstudy.report.results.results import Estimate, Results, Titled, Where
from benchstudy.report.scrutiny import episodes
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.statistics import stats
from benchstudy.statistics.comparisons import Arm, Calibration, Comparison, Verdict, calibrate, judge

# Classes of cells.
VERDICT_KINDS = {Verdict.BETTER: "text verdict better", Verdict.WORSE: "text verdict worse"}
_LARGEST_PERCENT = 10.0
_NOTHING = Cell(("–",), kind="missing")

# Levels that count as equal, by factor: {"sync": {"server": "fsync"}} pairs `server` with the base's `fsync`.
Counterparts = Mapping[str, Mapping[str, str]]
# Maps (metric, target, case) to the reason why this figure is not one of the compared system; empty if it is.
Unfit = Callable[[str, str, str], str]
# Whether a case with these levels has a metric at all: (metric, levels).
Gives = Callable[[str, Mapping[str, Any]], bool]
# Maps a metric and two cases, each (target, case), to the reason why the study decides their ratio; empty if not.
Settled = Callable[[str, tuple[str, str], tuple[str, str]], str]


@dataclass(frozen=True)
class Row:
    """One comparison of a page: a metric of a case with `level` against that of a case with `against`, as texts.

    `other` and `base` are the levels of the two cases. `about` names the levels of the case, and those of the base that
    differ; `short` leaves out the latter.
    """

    metric: str
    title: str
    unit: str
    level: str
    against: str
    about: str
    short: str
    other: Mapping[str, Any]
    base: Mapping[str, Any]
    outcome: Comparison


@dataclass(frozen=True)
class Margins:
    """The margins that applied to the sessions. `note` says when they were declared, or what is wrong with them."""

    thresholds: Thresholds
    note: str

    @classmethod
    def declared(cls, indexes: Indexes) -> "Margins":
        """The margins of the first session, so that a later change affects no verdict."""
        held = sorted((s for index in indexes for s in index["sessions"]), key=lambda s: s["started"])
        found = [
            Thresholds(**{name: given[name] for name in ("margin", "margins") if name in given})
            for session in held
            if "margin" in (given := session["declared"].get("thresholds", {}))
        ]
        if not found:
            return cls(Thresholds(), "not declared in the study when it was measured: the default, post hoc")
        moved = any((t.margin, t.margins) != (found[0].margin, found[0].margins) for t in found)
        note = "declared in the study before the measurement"
        return cls(found[0], note + ("; changed between sessions, and the first one counts" if moved else ""))


class Comparisons:
    """All comparisons that one call of a page makes; they are one group for the adjustment of their p values.

    `metrics` are names, or {metric: title}. Each case is compared with the case at the level `base` of `factor` (by
    default the first level that has such a case) whose other levels are the same, or their `counterparts`. With
    `across_tools` the tools may differ, because the factor is the tool. An `unfit` case gets no verdict, nor does a
    `settled` pair. A case that never `gives` a metric is left out, even if it failed. Raises BenchstudyError for an
    unknown factor, and for a metric whose family does not declare whether higher or lower is better.
    """

    def __init__(
        self, results: Results, indexes: Indexes, metrics: Titled, *, factor: str, base: str | None = None,
        where: Where | None = None, counterparts: Counterparts | None = None, across_tools: bool = False,
        unfit: Unfit = lambda *_: "", settled: Settled = lambda *_: "", gives: Gives = lambda *_: True,
    ):  # fmt: skip
        self.results, self.factor, self._wanted, self._unfit, self._settled = results, factor, base, unfit, settled
        self._counterparts, self._gives = counterparts or {}, gives
        self._phrases = wording.of(results.family).levels.get(factor, {})
        self.levels = results.levels(factor, where)
        self.base = base if base is not None else next(iter(self.levels), "")
        self.margins = Margins.declared(indexes)
        self._constant = {f for f in results.factors if len(results.levels(f, where)) < 2}
        self._comparability = Comparability(results, indexes, across_tools, across_caches=factor == "cache")
        self._titles, self._given, self._valued = results.titles(metrics), False, False
        rows = [row for metric, title in self._titles.items() for row in self._rows(metric, title, where)]
        outcomes = judge([row.outcome for row in rows])
        self.rows = [replace(row, outcome=outcome) for row, outcome in zip(rows, outcomes, strict=True)]

    # -- which against which -----------------------------------------------------------------------------------------

    def _rows(self, metric: str, title: str, where: Where | None) -> list[Row]:
        estimates = [e for e in self.results.estimates(metric, where) if self._gives(metric, e.levels)]
        self._given |= any(e.levels[self.factor] is not None for e in estimates)
        unit = next((e.unit for e in estimates if e.unit), "")
        self._valued |= bool(unit)
        if not unit:
            return []
        values = self._values(metric, where)
        bases: dict[tuple[Any, ...], Estimate] = {}
        ranked = [e for e in estimates if e.levels[self.factor] in ([self._wanted] if self._wanted else self.levels)]
        for estimate in sorted(ranked, key=lambda e: self.levels.index(e.levels[self.factor])):
            bases.setdefault(self._key(estimate.levels, counterparts={}), estimate)
        found = []
        for estimate in estimates:
            level = estimate.levels[self.factor]
            keys = (self._key(estimate.levels, counterparts) for counterparts in (self._counterparts, {}))
            base = next((bases[key] for key in keys if key in bases), None)
            if level is None or base is None or level == base.levels[self.factor]:
                continue
            outcome = self._outcome(metric, unit, base, estimate, values)
            about, short = (self._about(estimate.levels, its) for its in (base.levels, estimate.levels))
            names = self.name(level), self.name(base.levels[self.factor])
            found.append(Row(metric, title, unit, *names, about, short, estimate.levels, base.levels, outcome))
        return found

    def _key(self, levels: Mapping[str, Any], counterparts: Counterparts) -> tuple[Any, ...]:
        """What two cases must share to be compared: every level but that of the factor."""
        shared = [f for f in ("target", *self.results.factors) if f != self.factor]
        return tuple(counterparts.get(f, {}).get(levels[f], levels[f]) for f in shared)

    def _about(self, levels: Mapping[str, Any], base: Mapping[str, Any]) -> str:
        parts = [levels["target"]] if len(self.results.targets) > 1 and self.factor != "target" else []
        for factor in self.results.factors:
            mine, its = levels[factor], base[factor]
            # A factor with a single level does not distinguish cases.
            if factor == self.factor or mine is None or (mine == its and factor in self._constant):
                continue
            named = factor.replace("_", " ")
            said = human.level_of(factor, mine)
            said = f"{named} {said}" if said.isdigit() else said
            parts.append(f"{said}{'' if mine == its else f' (base: {human.level(its)})'}")
        return " · ".join(parts)

    def _values(self, metric: str, where: Where | None) -> dict[tuple[str, str], list[Measured]]:
        points = self.results.points(metric, where).select("target", "case", "block", "trial", "value", "unit")
        return grouped(((target, case), tuple(rest)) for target, case, *rest in points.iter_rows())

    # -- what may be compared ----------------------------------------------------------------------------------------

    def _outcome(
        self, metric: str, unit: str, base: Estimate, other: Estimate, values: Mapping[tuple[str, str], list]
    ) -> Comparison:
        better = self.results.declared(metric).better
        if better is None:
            raise BenchstudyError(
                f"{metric}: {self.results.family} does not declare whether higher or lower is better (`metrics`), so "
                "it cannot be compared"
            )
        margin = self.margins.thresholds.margin_of(self.results.family, metric)
        sides = [values.get((e.target, e.case), []) for e in (base, other)]
        names = [self.name(str(e.levels[self.factor])) for e in (base, other)]
        whys = [self._unfit(metric, e.target, e.case) for e in (base, other)]
        unfit = [f"{name}: {why}" for name, why in zip(names, whys, strict=True) if why]
        settled = self._settled(metric, (base.target, base.case), (other.target, other.case))
        failed = (base.failed, other.failed)
        return self._comparability.compared(
            names, sides, failed, margin=margin, better=better, unfit="; ".join(unfit), settled=settled
        )

    # -- how it is shown ---------------------------------------------------------------------------------------------

    def name(self, level: str) -> str:
        """What the page calls a level of the factor: "a log with deduplication" instead of "yes"."""
        return self._phrases.get(level, human.level(level))

    @property
    def base_name(self) -> str:
        """The name of the base, for the reader."""
        bases = {row.against for row in self.rows} or {self.base}
        return human.level(next(iter(bases))) if len(bases) == 1 else "the first"

    def nothing(self, caption: str) -> str:
        """The reason why there is no comparison."""
        factor = self.factor.replace("_", " ")
        if not self.levels:
            return f"{caption}: no case has the factor {factor}."
        if self.base not in self.levels:
            return f"{caption}: no case with {factor} {self.base} was measured to compare with."
        if len(self.levels) < 2:
            only = self.name(self.levels[0])
            return f"{caption}: all cases have the same {factor}, {only}, so there is nothing to compare."
        if not self._given:
            return f"{caption}: no case with the factor {factor} gave {' or '.join(self._titles.values())}."
        if not self._valued:
            return f"{caption}: every trial failed, so there is nothing to compare."
        return f"{caption}: no two cases differ only in their {factor}."

    def table(self, name: str, caption: str) -> Table:
        """All comparisons, one row each: ratio, verdict, both figures, p value, smallest detectable effect."""
        several = len({row.metric for row in self.rows}) > 1
        base = self.base_name
        head = self.factor.replace("_", " ").capitalize()
        columns = (
            head,
            f"Ratio to {base}",
            "Verdict",
            "Measured",
            f"{base}, the base",
            "Adjusted p",
            "Smallest detectable",
        )
        body = tuple(self._cells(row, several) for row in self.rows)
        return Table(name, caption, columns, body)

    def _cells(self, row: Row, several: bool) -> tuple[Cell, ...]:
        made = row.outcome
        title = " · ".join(part for part in (row.title if several else "", row.about) if part)
        name = Cell((human.level(row.level), *([title] if title else [])))
        hrefs = [cells.href(self.results, levels["target"], levels["case"]) for levels in (row.other, row.base)]
        sides = [
            replace(
                arm_cell(arm, href),
                marks=cells.marks(self.results, row.metric, levels["target"], levels["case"]),
            )
            for arm, href, levels in zip((made.other, made.base), hrefs, (row.other, row.base), strict=True)
        ]
        if self.base_name != human.level(row.against):
            sides[1] = replace(sides[1], lines=(*sides[1].lines, human.level(row.against)))
        ratio = Cell(ratio_lines(made), hrefs[0]) if made.ratio is not None else _NOTHING
        if made.adjusted is None or made.evidence is None:
            return (name, ratio, verdict_cell(made), *sides, _NOTHING, _NOTHING)
        p, smallest = adjusted_lines(made), (_percent(made.evidence.smallest_detectable),)
        return (name, ratio, verdict_cell(made), *sides, Cell(p, hrefs[0]), Cell(smallest, hrefs[0]))

    @property
    def drawn(self) -> list[str]:
        """The series that the figure shows."""
        return [human.level(row.level) for row in self.rows if row.outcome.evidence]

    def panels(self, style: Style) -> list[Panel]:
        """A forest plot per metric, or several of very many rows. Ratios without an interval are only in the table."""
        found: list[Panel] = []
        for rows in by_metric(self.rows).values():
            made = rows[0].outcome
            found += ratio_panels(rows, f"Ratio to {self.base_name} ({made.better} is better)", style)
        return found

    def summary(self) -> str:
        """One paragraph: the number of verdicts of each kind, the margin, and the statistical methods."""
        counts = Counter(row.outcome.verdict for row in self.rows)
        verdicts = ", ".join(f"{counts[verdict]} {verdict.counted}" for verdict in Verdict if counts[verdict])
        metrics = dict.fromkeys(row.metric for row in self.rows)
        margins = {m: self.margins.thresholds.margin_of(self.results.family, m) for m in metrics}
        if len(set(margins.values())) == 1:
            margin = _percent(next(iter(margins.values())))
        else:
            titles = {row.metric: row.title for row in self.rows}
            margin = ", ".join(f"{_percent(value)} ({titles[m]})" for m, value in margins.items())
        tests = next((row.outcome.tests for row in self.rows if row.outcome.tests), 0)
        methods = sorted({row.outcome.method for row in self.rows if row.outcome.method})
        adjusted = f"Adjusted by Benjamini-Hochberg over {human.plural(tests, 'test')}; {'; '.join(methods)}."
        return (
            f"{human.plural(len(self.rows), 'comparison')}: {verdicts}. The margin is {margin}, {self.margins.note}. "
            + (adjusted if tests else "Nothing could be tested; each row gives the reason.")
            + (f" {episode}" if tests and (episode := episodes.summary(self.results)) else "")
        )


def by_metric(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each metric, in order."""
    return grouped((row.metric, row) for row in rows)


def ratio_panels(rows: Sequence[Row], title: str, style: Style) -> list[Panel]:
    """Forest plots of one metric's ratios that have an interval; none if no ratio has one."""
    texts = dict.fromkeys(("series", "row", "tip ratio", "tip verdict"), pl.String)
    numbers = dict.fromkeys(("x", "low", "high"), pl.Float64)
    drawn = [
        {
            "series": human.level(row.level),
            "row": row.short or human.level(row.level),
            "x": row.outcome.ratio,
            "low": row.outcome.evidence.low,
            "high": row.outcome.evidence.high,
            "decided": row.outcome.verdict.is_difference,
            "tip ratio": " ".join(ratio_lines(row.outcome)),
            "tip verdict": f"{row.outcome.verdict}: {row.outcome.why}",
        }
        for row in rows
        if row.outcome.evidence
    ]
    frame = pl.DataFrame(drawn, schema=texts | numbers | {"decided": pl.Boolean})
    return forest_panels(rows[0].title, frame, title, style, rows[0].outcome.margin) if drawn else []


def calibrations(results: Results, indexes: Indexes, metrics: Titled, declared: Any) -> tuple[list[str], list[str]]:
    """A text per pair of cases that a family's block, `declared`, describes twice.

    The first list has pairs whose false-alarm rate is known, the second list those of which no comparison counts.
    """
    found: list[str] = []
    withheld: list[str] = []
    for first, second, rows in _between_twins(results, indexes, metrics, declared):
        rate = calibrate(row.outcome for row in rows)
        if rate:
            found.append(_calibration(rate, f"{first} and {second}"))
        elif rows:
            withheld.append(
                f"A/A: {first} and {second} are the same case under two names, but no comparison between "
                f"them counts ({len(rows)} in all). The first reason: {rows[0].outcome.why}."
            )
    return found, withheld


def _between_twins(
    results: Results, indexes: Indexes, metrics: Titled, declared: Any
) -> Iterator[tuple[str, str, list[Row]]]:
    """The two names of each case that is described twice, and the comparisons between them."""
    for first, second in twins(declared):
        for factor in results.factors:
            if {first, second} <= set(results.levels(factor)):
                where = {factor: [first, second]}
                yield first, second, Comparisons(results, indexes, metrics, factor=factor, base=first, where=where).rows


def within_noise(rows: Sequence[Row], results: Results, indexes: Indexes, declared: Any) -> list[Row]:
    """The rows, of which those whose ratio the same case under two names (A/A) reaches in this metric say so."""
    metrics = {row.metric: row.title for row in rows if row.outcome.verdict.is_difference}
    if not metrics:
        return list(rows)
    noise: dict[str, float] = {}
    for _, _, made in _between_twins(results, indexes, metrics, declared):
        for row in made:
            if row.outcome.ratio is not None:
                noise[row.metric] = max(noise.get(row.metric, 1.0), _distance(row.outcome.ratio))
    return [_told_of_noise(row, noise.get(row.metric, 1.0)) for row in rows]


def _told_of_noise(row: Row, noise: float) -> Row:
    made = row.outcome
    if made.ratio is None or not made.verdict.is_difference or noise < _distance(made.ratio):
        return row
    as_large = f"no more than noise: the same case under two names (A/A) differs by up to {human.times(noise)}"
    return replace(row, outcome=replace(made, why=f"{made.why}; {as_large}"))


def _distance(ratio: float) -> float:
    """How far a ratio is from 1, in either direction."""
    return max(ratio, 1 / ratio) if ratio else math.inf


def twin_cases(results: Results, declared: Any) -> list[str]:
    """The ids of the cases that repeat another case of a family's block."""
    again = {second for _, second in twins(declared)}
    rows = results.cases.iter_rows(named=True)
    return [row["case"] for row in rows if again & {row[factor] for factor in results.factors}]


def _calibration(found: Calibration, names: str) -> str:
    alarms, outside = found.alarms, found.excluding_one
    widest = max(found.highest, 1 / found.lowest)
    noise = human.times(widest)
    if widest > 1 and noise == human.times(1.0):  # "up to 1.00×" would say that there is none
        noise = f"{human.beyond(widest, 1.0, '1')}×"
    return (
        f"A/A: {names} are the same case under two names, so every difference between them is a false alarm. "
        f"{alarms.count} of {human.plural(alarms.n, 'comparison')} got a verdict of better or worse "
        f"({alarms.interval}); a ratio of 1 lies outside {outside.count} of {human.plural(outside.n, 'interval')}, and "
        f"one in twenty is expected. The ratios are between {human.times(found.lowest)} and "
        f"{human.times(found.highest)}. Which name is the base is arbitrary, so a ratio of up to {noise} in either "
        "direction may be noise."
    )


def twins(declared: Any) -> list[tuple[str, str]]:
    """Pairs of names that a family's block describes twice.

    These are entries of one list that differ only in their name, or of which one is declared `same_as` the other.
    """
    found: list[tuple[str, str]] = []
    if isinstance(declared, Mapping):
        for value in declared.values():
            found += twins(value)
    elif isinstance(declared, list):
        named = [entry for entry in declared if isinstance(entry, Mapping) and "name" in entry]
        for index, entry in enumerate(named):
            alike = (e for e in named[index + 1 :] if {**e, "name": ""} == {**entry, "name": ""})
            found += [(entry["name"], other["name"]) for other in alike]
            found += [(entry["name"], other["name"]) for other in named if other.get("same_as") == entry["name"]]
    return found


def verdict_cell(made: Comparison) -> Cell:
    """The cell of a verdict, with its reason and warnings."""
    if made.verdict is Verdict.NONE:
        return Cell((made.verdict.told, made.why, *made.warnings), kind="missing verdict")
    return Cell((made.verdict, made.why, *made.warnings), kind=VERDICT_KINDS.get(made.verdict, "text verdict"))


def arm_cell(arm: Arm, href: str) -> Cell:
    """The absolute figure of a side in its own unit, without which a ratio is hard to interpret."""
    failed = f", {arm.failed} failed" if arm.failed else ""
    figure = human.median(stats.summarise(arm.values), arm.unit) if arm.median is not None else "–"
    return Cell((figure, f"n = {arm.n}{failed}"), href, "number" if arm.median is not None else "failed")


def ratio_lines(made: Comparison) -> tuple[str, ...]:
    """The lines of a cell: the ratio and, if there is one, its 95 % interval."""
    if made.ratio is None:
        return ("–",)
    return human.ratio(made.ratio, *made.interval)


def adjusted_lines(made: Comparison) -> tuple[str, ...]:
    """The lines of a cell: the adjusted p value, its hypothesis, and the number of tests."""
    assert made.adjusted is not None, "only what was tested has a p value"
    return human.p_value(made.adjusted), f"against “{made.against}”", f"of {human.plural(made.tests, 'test')}"


def _percent(value: float) -> str:
    return human.percent(value) if value <= _LARGEST_PERCENT else f"over {_LARGEST_PERCENT * 100:,.0f} %"
