"""Summaries of a page's comparisons, as plain data for the study's overview."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.comparisons.comparison import Comparisons, Row
from benchstudy.statistics.comparisons import POWER, Refusal, Verdict, tested

EXPLAINED = (
    "<p>Each ratio is estimated from trials, paired by block if the cases share blocks, with a 95 % interval. It can "
    "therefore differ from the ratio of the two medians. <em>better</em> and <em>worse</em> mean that the whole "
    "interval lies beyond the margin. <em>equivalent</em> means that two one-sided tests place the ratio within the "
    "margin. These verdicts must also hold after adjustment for the number of comparisons in the table. "
    "<em>inconclusive</em> means that neither was shown. “detectable” is the difference beyond the margin that "
    f"{human.percent(POWER)} of such studies would find with this number and spread of trials. docs/statistics.md "
    "explains the method.</p>"
)


def summarised(found: Comparisons, caption: str) -> dict[str, Any]:
    """The comparisons of one call: the number of each verdict, one line per level and metric, and the evidence.

    `tested`: verdict and p values of each tested comparison, for the study as a whole. `methods`: how they were tested.
    `margins`: those that decided. `detectable`: the lowest and the highest smallest detectable effect, relative.
    `lacking`: the comparisons without an interval, an adjusted p value, a smallest detectable effect, or trials of one
    session.
    """
    outcomes = [row.outcome for row in found.rows]
    detectable = [o.evidence.smallest_detectable for o in outcomes if o.evidence]
    return {
        "caption": caption,
        "summary": found.summary(),
        "verdicts": dict(Counter(o.verdict for o in outcomes)),
        "intervals": len(detectable),
        "tests": max((o.tests for o in outcomes), default=0),
        "tested": tested(outcomes),
        "margin": found.margins.note,
        "margins": sorted({o.margin for o in outcomes if o.ratio is not None}),
        "methods": sorted({o.method for o in outcomes if o.evidence}),
        "detectable": [min(detectable), max(detectable)] if detectable else [],
        "lacking": {what: [_name(row) for row in rows] for what, rows in _lacking(found.rows).items()},
        "lines": lines(found),
    }


def _lacking(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {
        "interval": [r for r in rows if not r.outcome.evidence and r.outcome.refusal is not Refusal.SET],
        "adjusted": [row for row in rows if row.outcome.evidence and row.outcome.adjusted is None],
        "detectable": [r for r in rows if r.outcome.ratio is not None and not r.outcome.evidence],
        "session": [row for row in rows if row.outcome.refusal is Refusal.SESSIONS],
    }


def _name(row: Row) -> str:
    about = f" · {row.about}" if row.about else ""
    return f"{human.level(row.level)} against {human.level(row.against)}{about}, {row.title}"


def lines(found: Comparisons) -> list[dict[str, Any]]:
    """One line per pair of levels and metric: name, verdict, several (comparisons), said, kind, ratio, why."""
    groups = grouped(((row.level, row.against, row.title), row) for row in found.rows)
    several = len({title for *_, title in groups}) > 1
    return [
        _line(f"{human.level(a)} against {human.level(b)}", t if several else "", r) for (a, b, t), r in groups.items()
    ]


def answer(found: Comparisons, question: str, href: str) -> dict[str, Any]:
    """The comparisons of one call as a short answer for `Page.show_answers`. `href` leads to their table."""
    told = [
        {"name": line["name"], "value": _in_short(line["said"]), "evidence": _evidence(line), "href": href}
        for line in lines(found)
    ]
    return {"what": question, "lines": told, "note": ""}


def _evidence(line: dict[str, Any]) -> str:
    return "; ".join(filter(None, [line["verdict"] if line["several"] else "", line["ratio"], line["why"]]))


def _in_short(said: Sequence[Verdict]) -> str:
    """What several comparisons say together. One without a result contradicts no other."""
    decided = [verdict for verdict in said if verdict not in (Verdict.INCONCLUSIVE, Verdict.NONE)]
    if len(said) == 1:
        return said[0].told
    if len(decided) == 1:
        return f"{decided[0].told} where decided"
    return "it depends" if decided else "undecided"


def _line(name: str, title: str, rows: list[Row]) -> dict[str, Any]:
    counts: Counter[Verdict] = Counter(row.outcome.verdict for row in rows)
    said = [verdict for verdict in Verdict if counts[verdict]]
    verdicts = ", ".join(f"{v.counted} in {counts[v]}" if len(rows) > 1 else v.counted for v in said)
    reasons = (
        {"; ".join(filter(None, (row.outcome.why, *row.outcome.warnings))) for row in rows} if len(said) == 1 else set()
    )
    withheld = sum(row.outcome.refusal is Refusal.DISTURBED for row in rows)
    if withheld and len(rows) > 1:
        reasons = {f"{withheld} of {len(rows)} withheld because of disturbed trials, which the page's table names"}
    ratios = [row.outcome.ratio for row in rows if row.outcome.ratio is not None]
    return {
        "name": f"{name}, {human.noun(title)}" if title else name,
        "verdict": verdicts + (f" of {len(rows)}" if len(rows) > 1 else ""),
        "several": len(rows) > 1,
        "said": said,
        # Decides the colour of a line with a single verdict.
        "kind": said[0] if len(said) == 1 else "mixed",
        "ratio": _range(ratios),
        "why": next(iter(reasons)) if len(reasons) == 1 else "",
    }


def _range(ratios: list[float]) -> str:
    if not ratios:
        return "no ratio"
    low, high = human.times(min(ratios)), human.times(max(ratios))
    # Written with words, because a dash would look like an interval.
    return low if low == high else f"from {low} to {high}"
