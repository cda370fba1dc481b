"""The short answers of a page, as plain data: sorted medians, and whether their order is established."""

from itertools import pairwise
from operator import itemgetter
from typing import Any

from benchstudy.report import human
from benchstudy.report.exhibits import cells, figuredata
from benchstudy.report.results.results import Estimate, Results, Where
from benchstudy.report.scrutiny import cachestate, drift, floor


def answer(results: Results, label: str, metric: str, where: Where, series: str) -> dict[str, Any] | None:
    """`{what, lines: [{name, value, evidence, href}], note}`, the lowest median first; None if nothing was measured.

    `label` becomes `what`. There is a line for each level of the factor `series` among the cases that `where` selects.
    """
    estimates = results.estimates(metric, where)
    medians = [(e.summary.median, e) for e in estimates if e.summary.median is not None]
    known = [e for _, e in sorted(medians, key=itemgetter(0))]
    lines = [
        line(results, figuredata.label(results, e.levels, series), e, *_marks(results, e, where, series)) for e in known
    ]
    lost = [e for e in estimates if e.summary.median is None]
    lines += [line(results, figuredata.label(results, e.levels, series), e) for e in lost]
    # Only within a target, because figures of different hosts allow no verdict in any case.
    by_target = [[e for e in known if e.target == target] for target in results.targets]
    unclear = [
        f"{figuredata.label(results, a.levels, series)} and {figuredata.label(results, b.levels, series)}"
        for of_target in by_target
        for a, b in pairwise(of_target)
        if not _apart(a, b)
    ]
    why = "their intervals overlap, or one is missing"
    note = f"No order is established of {', or of '.join(unclear)}: {why}." if unclear else ""
    return {"what": label, "lines": lines, "note": note} if lines else None


def line(results: Results, name: str, estimate: Estimate, *marks: str) -> dict[str, str]:
    """`{name, value, evidence, href}` of a case: its median and interval, `marks` and failures; or why it has none."""
    failures, href = cells.failures(estimate), cells.href(results, estimate.target, estimate.case)
    if estimate.summary.median is None:
        return {"name": name, "value": "–", "evidence": "; ".join(failures), "href": href}
    evidence = "; ".join([human.evidence(estimate.summary, estimate.unit), *marks, *failures])
    value = human.median(estimate.summary, estimate.unit)
    return {"name": name, "value": value, "evidence": evidence, "href": href}


def _marks(results: Results, estimate: Estimate, where: Where, series: str) -> tuple[str, ...]:
    """What a reader of a median must know: a level other than the first one that `where` lists, a cold read that did
    not come from storage, and a drift.

    The level of the series is left out, because the line is named after it.
    """
    others = [
        f"{factor.replace('_', ' ')}: {estimate.levels[factor]}"
        for factor, levels in where.items()
        if factor != series and not isinstance(levels, str) and estimate.levels.get(factor) in levels[1:]
    ]
    key, metric = (estimate.target, estimate.case), estimate.metric
    marks = (*cachestate.mark(results, key), *drift.mark(results, metric, key), *floor.mark(results, metric, key))
    return (*others, *marks)


def _apart(a: Estimate, b: Estimate) -> bool:
    """Whether the intervals of two medians are disjoint, which is the minimum for naming an order."""
    ends = (a.summary.interval_low, a.summary.interval_high, b.summary.interval_low, b.summary.interval_high)
    known = [end for end in ends if end is not None]
    return len(known) == 4 and (known[1] < known[2] or known[3] < known[0])
