"""The results of single comparisons, as plain data for the sentences and the table of the overview."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchstudy.report import human
from benchstudy.report.comparisons.comparison import Comparisons, Row
from benchstudy.report.comparisons.wording import Wording
from benchstudy.statistics.comparisons import Comparison, Verdict

MOST = 400  # findings kept per call, the strongest; the page has all


def of(found: Comparisons, words: Wording, *, aside: bool) -> dict[str, Any]:
    """The comparisons of one call by the primary metrics of the family's cases: at most MOST findings (see `finding`)
    as `found`, the verdicts of the others as `others`, and `aside`.
    """
    primary = set(found.results.primary_metrics)
    shared = [factor for factor in found.results.factors if factor != found.factor]
    rows = sorted((row for row in found.rows if row.metric in primary), key=lambda row: -strength(row.outcome))
    return {
        "aside": aside,
        "found": [_of_row(row, found.factor, shared, words) for row in rows[:MOST]],
        "others": [row.outcome.verdict.value for row in rows[MOST:]],
    }


def _of_row(row: Row, factor: str, shared: Sequence[str], words: Wording) -> dict[str, Any]:
    known = [one for one in shared if row.other[one] is not None]
    where = words.setting({one: row.other[one] for one in known if row.other[one] == row.base[one]})
    for one in known:
        if row.other[one] != row.base[one]:  # a counterpart
            where += f", {one.replace('_', ' ')}: {human.level(row.other[one])} against {human.level(row.base[one])}"
    names = words.name(factor, row.level), words.name(factor, row.against)
    made = finding(row.metric, row.title, row.unit, names, where, (row.other, row.base), row.outcome)
    return made | {"base_level": human.level(row.against)}


def finding(
    metric: str, title: str, unit: str, names: tuple[str, str], where: str,
    cases: tuple[Mapping[str, Any], Mapping[str, Any]], made: Comparison, basis: str = "",
) -> dict[str, Any]:  # fmt: skip
    """One comparison as plain data, with values in the base unit `unit`.

    `names` are those of the level and of the base. `where` ends a sentence about them. `cases` are the levels of both,
    with `target` and `case`. `basis` says on what basis they are compared, if not as measured. An infinite end of a
    ratio's interval becomes None.
    """
    other, base = cases
    return {
        "metric": metric,
        "title": title,
        "unit": unit,
        "better": made.better,
        "level": names[0],
        "against": names[1],
        "base_level": names[1],  # for places with room for one word
        "where": where,
        "basis": basis,
        "target": other["target"],
        "case": other["case"],
        "base_target": base["target"],
        "base_case": base["case"],
        "verdict": made.verdict.value,
        "why": made.why,
        "warnings": list(made.warnings),
        "refusal": made.refusal,
        "ratio": _finite(made.ratio),
        "low": _finite(made.interval[0]),
        "high": _finite(made.interval[1]),
        "median": _finite(made.other.median),
        "base_median": _finite(made.base.median),
        "n": made.pairs or made.other.n,
        "base_n": made.pairs or made.base.n,
        "paired": bool(made.pairs),
        "margin": made.margin,
        "strength": _finite(strength(made)),
    }


def strength(made: Comparison) -> float:
    """A ratio divided by its smallest detectable effect, both as logarithms; 0 without a verdict.

    For equivalences it is the margin divided by the end of the interval that is farther from a ratio of 1.
    """
    evidence = made.evidence
    if made.ratio is None or not evidence:
        return 0.0
    if made.verdict.is_difference and evidence.smallest_detectable:
        return abs(math.log(made.ratio)) / math.log1p(evidence.smallest_detectable)
    if made.verdict is Verdict.EQUIVALENT:
        return math.log1p(made.margin) / max(abs(math.log(evidence.low)), abs(math.log(evidence.high)), 1e-9)
    return 0.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
