"""All primary metrics of all cases and families of a study, as the rows of one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchstudy.model import rounding
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.overview.headlines import compared_on, numbers
from benchstudy.report.results.results import Estimate
from benchstudy.report.study.studyfacts import FamilyFacts
from benchstudy.statistics.comparisons import Refusal, Verdict

MOST_ROWS = 400  # of all families together: a row takes half a kilobyte, and the pages have all rows


@dataclass(frozen=True)
class Row:
    """One metric of one case. The table can be sorted by `value` and `ratio`; `href` leads to the trials.

    `modes` tells of two modes, `marks` are reservations in one or two words each. `compared` has one entry per
    comparison: ratio, interval and n, verdict, and the verdict as a value, each as text.
    """

    family: str
    case: str
    metric: str
    text: str
    value: float | None
    interval: str
    modes: str
    marks: Sequence[str]
    n: int
    failed: str
    href: str
    ratio: float | None
    compared: Sequence[Mapping[str, str]]


def rows(families: Sequence[FamilyFacts]) -> tuple[list[Row], int]:
    """At most `MOST_ROWS` rows, shared fairly among the families, and the total number of rows."""
    found = [list(_rows(family)) for family in families]
    total = sum(map(len, found))
    share = MOST_ROWS // max(len(found), 1)
    spare = MOST_ROWS - sum(min(len(of_family), share) for of_family in found)
    shown: list[Row] = []
    for of_family in found:
        more = min(max(len(of_family) - share, 0), spare)
        spare -= more
        shown += of_family[: share + more]
    return shown, total


def shared_levels(families: Sequence[FamilyFacts]) -> dict[str, str]:
    """What all cases of a family have in common, which the table leaves out of their names, by the family's title."""
    shared = {family.title: family.shown.shared_levels for family in families if family.shown.primary_metrics}
    return {
        title: ", ".join(f"{factor.replace('_', ' ')} {human.level(level)}" for factor, level in levels.items())
        for title, levels in shared.items()
        if levels
    }


def _rows(family: FamilyFacts) -> list[Row]:
    results = family.shown
    compared = grouped(((f["metric"], f["target"], f["case"]), f) for _, _, f in compared_on(family))
    return [
        _row(family, metric, estimate, compared.get((metric, estimate.target, estimate.case), []))
        for metric in results.primary_metrics
        for estimate in results.estimates(metric)
        if estimate.unit
    ]


def _row(family: FamilyFacts, metric: str, found: Estimate, compared: Sequence[Mapping[str, Any]]) -> Row:
    summary, unit = found.summary, found.unit
    known = [one for one in compared if one["ratio"] is not None]
    return Row(
        family.title,
        family.shown.case_name(found.target, found.case, but=family.shown.shared_levels),
        family.shown.declared(metric).title,
        human.median(summary, unit) if summary.median is not None else "–",
        summary.median,
        human.interval(summary, unit) if summary.interval_low is not None else "",
        human.two_modes(summary.modes, unit) if summary.modes is not None else "",
        cells.marks(family.shown, found.metric, found.target, found.case),
        summary.n,
        "; ".join([*cells.failures(found), *cells.unbracketed(family.shown, found)]),
        f"{family.page}{cells.href(family.shown, found.target, found.case)}",
        known[0]["ratio"] if known else None,
        [_against(one) for one in compared],
    )


def _against(found: Mapping[str, Any]) -> dict[str, str]:
    verdict = Verdict(found["verdict"])
    against = found["base_level"]
    if found["ratio"] is None:
        told = found["why"] if found["refusal"] == Refusal.SET else verdict.told
        return {"ratio": f"against {against}", "evidence": "", "verdict": told, "kind": verdict.value}
    ratio, low, high = found["ratio"], found["low"], found["high"]
    number = human.ratio(ratio, low, high)[0]
    interval = "" if low is None else rounding.interval(low, high, ratio, "×")
    evidence = ", ".join(filter(None, [interval, numbers(found), found["basis"]]))
    return {"ratio": f"{number} {against}", "evidence": evidence, "verdict": verdict.told, "kind": verdict.value}
