"""The page that compares two studies: ratios of what both measured, and the differences between them.

Each study has its own sessions. A ratio's interval covers the variation of trials within each session, but not between
sessions, so there are no verdicts unless both studies share a session.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.model import hints, paths, registry
from benchstudy.model.differences import Difference
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.names import nearest
from benchstudy.report import human
from benchstudy.report.comparisons.comparison import by_metric, ratio_lines, ratio_panels
from benchstudy.report.comparisons.study_differences import conditions, declarations
from benchstudy.report.comparisons.study_differences import facts as facts_of_hosts
from benchstudy.report.comparisons.study_pair import FamilyPair, Side
from benchstudy.report.exhibits.exhibits import Exhibits
from benchstudy.report.exhibits.figuredata import OF_MEDIANS, median_of
from benchstudy.report.figures.axes import Axis
from benchstudy.report.figures.panels import Panel, strip_panels
from benchstudy.report.figures.styles import Style
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Estimate, Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.tables.tables import Cell, Table

_MOST_DRAWN = 40
_MEDIANS = {"series": pl.String, "place": pl.String, "x": pl.Float64, **OF_MEDIANS}


class TwoStudies(Exhibits):
    """The page that compares two studies. `tidy` is the folder with the tables of every study.

    Raises BenchstudyError if a study has no tables, if trials were discarded or added since they were made, if the two
    have no family in common, or for a metric that is unknown or that no shared case gives.
    """

    cited_at = ""

    def __init__(self, *, base: str, other: str, tidy: str | Path, output: str | Path, metrics: Sequence[str] = ()):
        super().__init__(study=other, output=output)
        self.base, self.other = base, other
        folders = {study: _families(self.root / tidy, study) for study in (base, other)}
        shared = [name for name in registry.names() if all(name in found for found in folders.values())]
        if not shared:
            measured = "; ".join(f"{study}: {', '.join(found)}" for study, found in folders.items())
            raise BenchstudyError(f"{base} and {other} have no family in common ({measured})")
        self.pairs = [
            FamilyPair(self.root, name, self._side(base, name, tidy), self._side(other, name, tidy), metrics)
            for name in shared
        ]
        _refuse_unknown(metrics, [side.results.metrics for pair in self.pairs for side in (pair.base, pair.other)])
        if metrics and not any(pair.rows for pair in self.pairs):
            raise BenchstudyError(f"no case that both studies measured gives {' or '.join(metrics)}")

    def _side(self, study: str, family: str, tidy: str | Path) -> Side:
        results = Results(self.root / tidy / study / family, study=study, family=family)
        stores = (paths.family_raw(self.root, study, target, family) for target in results.targets)
        if changed := [store for store in stores if store.exists() and not (store / paths.SESSION_INDEX).exists()]:
            raise BenchstudyError(
                f"{study}: trials in {changed[0].relative_to(self.root)} were discarded, added or measured since its "
                f"tables were made; {_make_report()}"
            )
        return Side(study, results, sessions.family_indexes(self.root, study, family, results.targets))

    def overview(self) -> None:
        """Show what is compared, and what the ratios do not cover."""
        self.say([f"Families in common: {len(self.pairs)}. Every ratio is {self.other} over {self.base}."])
        if any(pair.is_of_sessions for pair in self.pairs):
            self.flags(
                [
                    "The two studies are not known to share a session, so no difference between them gets a verdict. "
                    "Intervals cover the variation of trials within a session, but not another day, host, kernel or "
                    "tool. To get a verdict, measure both as levels of one factor in one study."
                ]
            )

        self.flags([disturbed.remedy(pair.indexes) for pair in self.pairs if pair.is_withheld][:1])

    def differing(self) -> None:
        """Show the differences in hosts, sessions, tools and declarations."""
        rows = [
            (Cell.text(what), Cell.text(registry.get(pair.family).title), Cell.text(mine), Cell.text(its))
            for pair in self.pairs
            for what, mine, its in conditions(pair)
        ]
        head = ("What", "Family", self.base, self.other)
        self.show_table(Table("conditions", "Differences in how the two were measured", head, tuple(rows)))
        declared = [(pair, difference) for pair in self.pairs for difference in declarations(pair)]
        of_hosts = [(pair, difference) for pair in self.pairs for difference in facts_of_hosts(pair)]
        self.show_tables(
            [
                _listing("declared", "Differences between the declarations of the two studies", head, declared),
                _listing("facts", "All host facts that differ", head, of_hosts),
            ],
            "The declarations of these families do not differ, and neither do the host facts.",
            folded=True,
        )

    def ratios(self) -> None:
        """Show the ratios of each family as a figure and a table, and what only one of the two measured."""
        for pair in self.pairs:
            self.heading(registry.get(pair.family).title)
            if not pair.rows:
                self.say(["No case was measured in both studies."])
            else:
                self.say([pair.summary()])
                self._figure(pair)
                self._overlaid(pair)
                with self.folded(f"{human.plural(len(pair.rows), 'figure')} as a table"):
                    self.show_table(pair.table())
            for side in (pair.base, pair.other):
                only = pair.only(side)
                if only:
                    self.say([f"Only {side.study} has: {human.listed(only, _MOST_DRAWN, '; ')}."])

    def _figure(self, pair: FamilyPair) -> None:
        style = Style((self.other,))
        panels: list[Panel] = []
        for rows in by_metric(pair.rows).values():
            panels += ratio_panels(rows[:_MOST_DRAWN], f"Ratio to {self.base}", style)
        if panels:
            told = (
                f"{self.other} over {self.base}. Bars: 95 % intervals of trials within the sessions; band: the margin; "
                "logarithmic axis."
            )
            left_out = max(len(rows) for rows in by_metric(pair.rows).values()) - _MOST_DRAWN
            told += f" The table has {left_out} more." if left_out > 0 else ""
            self.show_figure(f"{pair.family}-ratios", told, panels, style, [self.other])

    def _overlaid(self, pair: FamilyPair) -> None:
        """The trials of both studies on one axis: one row per case, one panel per metric."""
        style = Style((self.base, self.other))
        panels: list[Panel] = []
        for metric, rows in by_metric(pair.rows).items():
            sides = [
                ({"series": side.study, "place": row.about or row.title}, side, estimate)
                for row in rows[:_MOST_DRAWN]
                for side, estimate in pair.estimates(metric, row)
            ]
            drawn = [name | one for name, side, estimate in sides for one in _trials(side, estimate)]
            if drawn:
                medians = pl.DataFrame(
                    [name | median_of(estimate.summary, estimate.unit, "x") for name, _, estimate in sides],
                    schema=_MEDIANS,
                )
                axis = Axis(rows[0].title, rows[0].unit)
                panels += strip_panels(rows[0].title, pl.DataFrame(drawn), medians, axis, style)
        if panels:
            told = f"Trials of {self.base} and of {self.other} on one axis, case by case."
            self.show_figure(f"{pair.family}-trials", told, panels, style, style.names, "Study")


def _trials(side: Side, estimate: Estimate) -> Iterator[dict[str, Any]]:
    """The trials, each with a link to it in its study's own report."""
    key = (estimate.target, estimate.case)
    for trial, value, unit in side.results.by_case(estimate.metric).get(key, ()):
        href = f"../{side.study}/{side.results.places.page(trial)}#trial-{trial}"
        told = human.quantity(value, unit)
        yield {"trial": trial, "href": href, "x": value, "y": value, "tip study": side.study, "tip value": told}


def lines(pairs: Sequence[FamilyPair]) -> Iterator[str]:
    """Yield the ratios as lines of plain text, for a terminal."""
    for pair in pairs:
        yield f"{registry.get(pair.family).title}: {pair.summary()}"
        for row in pair.rows:
            made = row.outcome
            ratio, *interval = ratio_lines(made) if made.ratio is not None else ("no ratio",)
            ratio += f" ({interval[0]})" if interval else ""
            absolute = human.quantity(made.base.median, row.unit) if made.base.median is not None else "–"
            verdict = made.verdict.told
            yield f"  {row.about}, {row.metric}: {ratio} of {absolute}; {verdict}{f': {made.why}' if made.why else ''}"
            marked = [f"{study}: {', '.join(marks)}" for study, marks in pair.reservations(row).items() if marks]
            if said := [*made.warnings, *marked]:
                yield f"    {'; '.join(said)}"
        if pair.is_withheld:
            yield f"  {disturbed.remedy(pair.indexes)}"


def facts(pair: FamilyPair) -> dict[str, Any]:
    """The ratios of a family as plain data. `target` and `case` are those of the base's tables.

    Medians are in `unit`, or None if there is none in this unit.
    """
    ratios = [
        {
            "target": row.base["target"],
            "case": row.base["case"],
            "name": row.about,
            "metric": row.metric,
            "unit": row.unit,
            "base": made.base.median,
            "other": made.other.median if made.other.unit == row.unit else None,
            "ratio": made.ratio,
            "low": made.interval[0],
            "high": made.interval[1],
            "margin": made.margin,
            "verdict": made.verdict.value,
            "why": made.why,
            "warnings": list(made.warnings),
            "marks": pair.reservations(row),
        }
        for row, made in ((row, row.outcome) for row in pair.rows)
    ]
    only = {side.study: pair.only(side) for side in (pair.base, pair.other)}
    return {"family": pair.family, "ratios": ratios, "only": only}


def _refuse_unknown(metrics: Iterable[str], given: Iterable[Iterable[str]]) -> None:
    """Raises BenchstudyError for a metric that no family declares, and that is not in the tables (`given`)."""
    measured = {metric for of_table in given for metric in of_table}
    known = measured.union(*(family.metrics for family in registry.sound()))
    for metric in metrics:
        if metric not in known:
            raise BenchstudyError(f"no family has a metric {metric!r}: {nearest(metric, measured)}")


def _families(tidy: Path, study: str) -> list[str]:
    found = sorted(path.parent.name for path in (tidy / study).glob("*/cases.parquet"))
    if not found:
        known = ", ".join(sorted({path.parents[1].name for path in tidy.glob("*/*/cases.parquet")}))
        raise BenchstudyError(
            f"{study}: no tables in {tidy / study}; {_make_report()} (studies with tables: {known or 'none'})"
        )
    return found


def _make_report() -> str:
    return f"make its report first: {hints.snakemake()}, with --configfile if its file is not {hints.EMBEDDED}"


def _listing(name: str, caption: str, head: tuple[str, ...], found: Sequence[tuple[FamilyPair, Difference]]) -> Table:
    rows = {
        (pair.family if name == "declared" else "", d): (
            Cell.text(d.name),
            Cell.text(registry.get(pair.family).title),
            Cell.text(d.before or "–"),
            Cell.text(d.after or "–"),
        )
        for pair, d in found
    }
    return Table(name, caption, head, tuple(rows.values()))
