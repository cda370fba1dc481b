"""One family in two studies: the cases that both measured, and their ratios."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.model import registry
from benchstudy.model.differences import differences
from benchstudy.report import human
from benchstudy.report.comparisons import reasons
from benchstudy.report.comparisons.comparability import IMPORTED, is_one_proof, other_proof
from benchstudy.report.comparisons.comparison import Margins, Row, arm_cell, ratio_lines, verdict_cell
from benchstudy.report.exhibits import cells
from benchstudy.report.results.results import Estimate, Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.scrutiny.cachestate import bytes_of_storage
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.statistics.comparisons import Arm, Comparison, Refusal, Verdict, compare, judge

_SESSION = "session"


@dataclass(frozen=True)
class Side:
    """The tables of a family in one study, and the records of its sessions."""

    study: str
    results: Results
    indexes: Sequence[Mapping[str, Any]]

    def sessions(self, target: str) -> list[Mapping[str, Any]]:
        """The records of the sessions whose trials on a target count, the earliest first; the last one if none says."""
        index = next((index for index in self.indexes if index["target"] == target), {})
        held = sorted(index.get("sessions", ()), key=lambda session: session["started"])
        counted = set(self.results.counted.filter(target=target)["session"])
        return [session for session in held if session["uuid"] in counted] or held[-1:]

    def conditions(self, target: str, case: str) -> pl.DataFrame:
        """The trials of a case that count, whose columns include the conditions of the measurement."""
        return self.results.counted.filter((pl.col("target") == target) & (pl.col("case") == case))

    def given(self, target: str, case: str) -> set[str]:
        """The metrics of which a case has a value."""
        seen = self.results.usable.filter((pl.col("target") == target) & (pl.col("case") == case))
        return set(seen["metric"])


class FamilyPair:
    """One family in two studies. `metrics` are those to compare; if empty, the primary metrics of each case."""

    def __init__(self, root: Path, family: str, base: Side, other: Side, metrics: Sequence[str]):
        self.family, self.base, self.other = family, base, other
        self._metrics = metrics
        self._definitions = {side.study: _definitions(root, side) for side in (base, other)}
        self._given = {side.study: bytes_of_storage(side.results) for side in (base, other)}
        self._reasons = {side.study: reasons.of(family, side.results) for side in (base, other)}

    @cached_property
    def targets(self) -> dict[str, str]:
        """Map targets of the base to those of the other study, by name, or if each has only one."""
        mine, its = self.base.results.targets, self.other.results.targets
        if len(mine) == len(its) == 1:
            return {mine[0]: its[0]}
        return {target: target for target in mine if target in its}

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each metric of each case that both measured, in the base's order.

        If both were measured in the same session, the rows get verdicts, as on the page of one study.
        """
        found: list[Row] = []
        comparable: list[int] = []
        for target, case in self.base.results.cases.select("target", "case").iter_rows():
            if target not in self.targets or case not in self._cases(self.other, self.targets[target]):
                continue
            apart = self._apart(target, case)
            for metric in self._metrics_of(target, case):
                row = self._row(metric, target, case, apart)
                if row is not None and not apart and self.base.results.declared(metric).better:
                    comparable.append(len(found))
                found += [row] if row is not None else []
        outcomes = judge([found[index].outcome for index in comparable])
        for index, outcome in zip(comparable, outcomes, strict=True):
            found[index] = replace(found[index], outcome=outcome)
        return found

    def only(self, side: Side) -> list[str]:
        """The cases of a side that the other study does not have on the corresponding target."""
        against, targets = self.other, self.targets
        if side is self.other:
            against, targets = self.base, {its: mine for mine, its in self.targets.items()}
        pairs = side.results.cases.select("target", "case").iter_rows()
        name = side.results.case_name
        return [name(t, c) for t, c in pairs if t not in targets or c not in self._cases(against, targets[t])]

    @property
    def is_withheld(self) -> bool:
        """Whether disturbed trials withheld a verdict."""
        return any(row.outcome.refusal is Refusal.DISTURBED for row in self.rows)

    @property
    def is_of_sessions(self) -> bool:
        """Whether some case is not known to be of one session, whatever else withholds its verdict."""
        found = (self._apart(row.base["target"], row.base["case"]) for row in self.rows)
        return any(apart is not None and apart[0] is Refusal.SESSIONS for apart in found)

    @property
    def indexes(self) -> list[Mapping[str, Any]]:
        """The records of both studies' sessions, those of a disturbed study first."""
        sides = sorted((self.base, self.other), key=lambda side: not side.results.disturbed)
        return [index for side in sides for index in side.indexes]

    def _places(self, target: str) -> tuple[tuple[Side, str], tuple[Side, str]]:
        """Each side with its target, of which `target` is the base's."""
        return (self.base, target), (self.other, self.targets[target])

    @staticmethod
    def _cases(side: Side, target: str) -> set[str]:
        return set(side.results.cases.filter(pl.col("target") == target)["case"])

    def _metrics_of(self, target: str, case: str) -> list[str]:
        # If all trials of the base failed, the other study says what is missing.
        given = self.base.given(target, case) or self.other.given(self.targets[target], case)
        asked = [metric for metric in self._metrics if metric in given]
        return asked if self._metrics else self.base.results.measured_for(given)

    def _row(self, metric: str, target: str, case: str, apart: tuple[Refusal, str] | None) -> Row | None:
        base, other = (side.results.estimate(metric, place, case) for side, place in self._places(target))
        if base is None or other is None or not (base.unit or other.unit):
            return None
        unit = base.unit or other.unit
        margin = Margins.declared(self.base.indexes).thresholds.margin_of(self.family, metric)
        declared = self.base.results.declared(metric)
        arms = self._arm(self.base, base), self._arm(self.other, other)
        better = declared.better or "higher"
        withheld = self._withheld(metric, (base, other))
        if withheld:
            made = Comparison(*arms, margin, better, why=withheld[1], refusal=withheld[0])
        else:
            made = compare(*arms, margin=margin, better=better)
        if made.ratio is not None and not apart and declared.better is None:
            apart = Refusal.UNFIT, "neither higher nor lower is declared to be better"
        if made.ratio is not None and apart:
            refusal, words = apart
            why = "; ".join(filter(None, (made.why, words)))
            made = replace(made, verdict=Verdict.NONE, refusal=refusal, why=why)
        name = self.base.results.case_name(target, case)
        return Row(
            metric, declared.title, unit, self.other.study, self.base.study, name, name, other.levels, base.levels, made
        )

    def _sides(self, row: Row) -> tuple[tuple[Side, Mapping[str, Any]], tuple[Side, Mapping[str, Any]]]:
        """Each side with its target and case of a row."""
        return (self.base, row.base), (self.other, row.other)

    def estimates(self, metric: str, row: Row) -> Iterator[tuple[Side, Estimate]]:
        """Yield each side with its estimate for a row's case, if the figure is above zero and in the row's unit."""
        for side, levels in self._sides(row):
            found = side.results.estimate(metric, levels["target"], levels["case"])
            if found is not None and found.summary.median and found.unit == row.unit:
                yield side, found

    def _withheld(self, metric: str, estimates: tuple[Estimate, Estimate]) -> tuple[Refusal, str] | None:
        """The reason why there is no ratio: the same trials in both, different verified cache states, open capacities,
        the family's own reasons, or disturbed trials."""
        sides = (self.base, self.other)
        trials = [
            [trial for trial, _, _ in side.results.by_case(metric).get((estimate.target, estimate.case), ())]
            for side, estimate in zip(sides, estimates, strict=True)
        ]
        # A copy of a study has its trials. They would be pairs that do not differ, and the others would be left out.
        if same := len({*trials[0]} & {*trials[1]}):
            verb = "is" if same == 1 else "are"
            return Refusal.SAME, f"{human.plural(same, 'trial')} of {self.other.study} {verb} also of {self.base.study}"
        given = [[self._given[side.study].get(t) for t in of] for side, of in zip(sides, trials, strict=True)]
        if all(trials) and not is_one_proof(*given):
            return Refusal.CONDITIONS, other_proof(*given)
        lacking = [cells.unbracketed(side.results, estimate) for side, estimate in zip(sides, estimates, strict=True)]
        if any(lacking):
            said = (f"{side.study}: {', '.join(of)}" for side, of in zip(sides, lacking, strict=True) if of)
            return Refusal.UNFIT, "; ".join(said)
        asked = [(side.study, self._reasons[side.study], e) for side, e in zip(sides, estimates, strict=True)]
        unfit = [f"{study}: {why}" for study, of, e in asked if (why := of.unfit(metric, e.target, e.case))]
        if unfit:
            return Refusal.UNFIT, "; ".join(unfit)
        settled = {of.settled(metric, (e.target, e.case)) for _, of, e in asked}
        if len(settled) == 1 and (why := settled.pop()):
            return Refusal.SET, why
        met = [[t for t in of if t in side.results.disturbed] for side, of in zip(sides, trials, strict=True)]
        disturbance = disturbed.compared([side.study for side in sides], met, [len(of) for of in trials])
        return (Refusal.DISTURBED, disturbance) if disturbance else None

    def _arm(self, side: Side, estimate: Estimate) -> Arm:
        """The values of a side. Only blocks of the same, known session have the same name, so only these are pairs."""
        found = side.conditions(estimate.target, estimate.case).select("trial", "session", "block", "imported")
        blocks = {
            trial: (side.study if imported or session is None else session, block)
            for trial, session, block, imported in found.iter_rows()
        }
        measured = side.results.by_case(estimate.metric).get((estimate.target, estimate.case), ())
        names = tuple(blocks[trial] for trial, *_ in measured)
        return Arm(side.study, estimate.unit, estimate.values, names, estimate.failed)

    def _apart(self, target: str, case: str) -> tuple[Refusal, str] | None:
        """The reason why no verdict is allowed: what the trials do not share, the session first."""
        sides = [side.conditions(place, case) for side, place in self._places(target)]
        every = [row for side in sides for row in side.select("imported", "session").iter_rows(named=True)]
        if any(row["imported"] for row in every):
            return Refusal.SESSIONS, f"{IMPORTED}, and so is whether both are of the same session"
        if any(row["session"] is None for row in every):
            return Refusal.SESSIONS, "the session of a trial is unknown"
        found = [
            word
            for word, columns in (
                (_SESSION, ["session"]),
                ("measuring code", ["instrument"]),
                ("tool", ["tool", "tool_version", "tool_sha256"]),
            )
            if len({row for side in sides for row in side.select(columns).iter_rows()}) > 1
        ]
        mine, its = (self._definitions[side.study].get((place, case)) for side, place in self._places(target))
        if mine is not None and its is not None and mine != its:
            changed = dict.fromkeys(difference.name.partition("[")[0] for difference in differences(mine, its))
            found.append(f"definition of the case ({', '.join(changed)})")
        refusal = Refusal.SESSIONS if _SESSION in found else Refusal.CONDITIONS
        return (refusal, f"not the same {', '.join(found)}") if found else None

    # -- how it is shown ---------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """All ratios, one row each: both figures and the verdict."""
        base, other = self.base.study, self.other.study
        title = registry.get(self.family).title
        several = len({row.metric for row in self.rows}) > 1
        columns = ("Case", f"Ratio to {base}", f"{other}, measured", f"{base}, the base", "Verdict")
        body = []
        for row in self.rows:
            name = Cell((row.about, *([row.title] if several else [])))
            ratio = Cell(ratio_lines(row.outcome)) if row.outcome.ratio is not None else Cell(("–",), kind="missing")
            sides = (
                self._side(self.other, row, row.other, row.outcome.other),
                self._side(self.base, row, row.base, row.outcome.base),
            )
            body.append((name, ratio, *sides, verdict_cell(row.outcome)))
        caption = f"{title}: {other} against {base}, medians over trials, 95 % intervals of trials within the sessions"
        return Table(f"{self.family}-ratios", caption, columns, tuple(body))

    def _side(self, side: Side, row: Row, levels: Mapping[str, Any], arm: Arm) -> Cell:
        href = f"../{side.study}/{self.family}.html{cells.href(side.results, levels['target'], levels['case'])}"
        return replace(arm_cell(arm, href), marks=self._marks(side, row, levels))

    @staticmethod
    def _marks(side: Side, row: Row, levels: Mapping[str, Any]) -> tuple[str, ...]:
        return cells.marks(side.results, row.metric, levels["target"], levels["case"])

    def reservations(self, row: Row) -> dict[str, tuple[str, ...]]:
        """The marks that both figures of a row have on their own pages, such as "not steady", by study."""
        return {side.study: self._marks(side, row, levels) for side, levels in self._sides(row)}

    def summary(self) -> str:
        """The number of ratios, and outside how many intervals a ratio of 1 lies."""
        cases = human.plural(len({row.about for row in self.rows}), "case")
        made = sum(row.outcome.ratio is not None for row in self.rows)
        if not made:
            return f"No ratio of {cases} that both measured; each row gives the reason."
        lacking = len(self.rows) - made
        others = f", and {human.plural(lacking, 'figure')} without one" if lacking else ""
        drawn = [row.outcome.evidence for row in self.rows if row.outcome.evidence]
        apart = sum(not evidence.low <= 1 <= evidence.high for evidence in drawn)
        intervals = f"a ratio of 1 lies outside {apart} of {human.plural(len(drawn), 'interval')}"
        return (
            f"{human.plural(made, 'ratio')} of {cases} that both measured{others}; "
            f"{intervals if drawn else 'none has an interval'}.{self._about_verdicts()}"
        )

    def _about_verdicts(self) -> str:
        """A sentence on the margins and the number of tests, if the two share a session, so that there are verdicts."""
        tested = {row.metric: row.outcome for row in self.rows if row.outcome.adjusted is not None}
        if not tested:
            return ""
        margins = " and ".join(dict.fromkeys(human.percent(made.margin) for made in tested.values()))
        tests = human.plural(next(iter(tested.values())).tests, "test")
        note = f"{Margins.declared(self.base.indexes).note} ({self.base.study})"
        return f" The margin of verdicts is {margins}, {note}. Adjusted by Benjamini-Hochberg over {tests}."


def _definitions(root: Path, side: Side) -> dict[tuple[str, str], Any]:
    """Map (target, case) to what its trials executed, from the record of one of them, if it is on disk."""
    found: dict[tuple[str, str], Any] = {}
    measured = side.results.counted.filter(pl.col("status") == "ok")
    for target, case, raw in measured.select("target", "case", "raw").iter_rows():
        record = root / raw / "trial.json"
        if (target, case) not in found and record.is_file():
            found[target, case] = json.loads(record.read_bytes())["definition"]
    return found
