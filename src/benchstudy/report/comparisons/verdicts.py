"""What a page's comparisons come to, as plain data for the study's overview."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchstudy.report import human
from benchstudy.report.comparisons.comparability import crosses_sessions
from benchstudy.report.comparisons.comparison import Comparisons, Row
from benchstudy.statistics.comparisons import Verdict


def summarised(found: Comparisons, caption: str) -> dict[str, Any]:
    """The comparisons of one call: how many of each verdict, a line a level and metric, and what they rest on.

    `detectable`: the least and the largest of the smallest detectable effects, relative. `refused`: why there is no
    verdict, by how often. `lacking`: the comparisons that have no interval, no adjusted p value, no smallest detectable
    effect, no trials of one session.
    """
    outcomes = [row.outcome for row in found.rows]
    detectable = [o.smallest_detectable for o in outcomes if o.smallest_detectable is not None]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found.rows:
        groups.setdefault((row.level, row.title), []).append(row)
    several = len({title for _, title in groups}) > 1
    return {
        "caption": caption,
        "summary": found.summary(),
        "verdicts": dict(Counter(o.verdict for o in outcomes)),
        "intervals": sum(o.low is not None for o in outcomes),
        "tests": max((o.tests for o in outcomes), default=0),
        "margin": found.margins.note,
        "detectable": [min(detectable), max(detectable)] if detectable else [],
        "refused": dict(Counter(o.why for o in outcomes if o.verdict is Verdict.NONE and o.ratio is None)),
        "lacking": {what: [_name(found, row) for row in rows] for what, rows in _lacking(found.rows).items()},
        "lines": [_line(found, level, title if several else "", rows) for (level, title), rows in groups.items()],
    }


def _lacking(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {
        "interval": [row for row in rows if row.outcome.low is None],
        "adjusted": [row for row in rows if row.outcome.p_beyond is not None and row.outcome.adjusted is None],
        "detectable": [r for r in rows if r.outcome.ratio is not None and r.outcome.smallest_detectable is None],
        "session": [row for row in rows if row.outcome.ratio is None and crosses_sessions(row.outcome.why)],
    }


def _name(found: Comparisons, row: Row) -> str:
    about = f" · {row.about}" if row.about else ""
    return f"{human.level(row.level)} against {human.level(found.base)}{about}, {row.title}"


def _line(found: Comparisons, level: str, title: str, rows: list[Row]) -> dict[str, str]:
    counts: Counter[Verdict] = Counter(row.outcome.verdict for row in rows)
    said = [verdict for verdict in Verdict if counts[verdict]]
    verdicts = ", ".join(f"{v.counted} in {counts[v]}" if len(rows) > 1 else v.counted for v in said)
    reasons = {row.outcome.why for row in rows} if len(said) == 1 else set()
    ratios = [row.outcome.ratio for row in rows if row.outcome.ratio is not None]
    name = f"{human.level(level)} against {human.level(found.base)}"
    return {
        "name": f"{name}, {title}" if title else name,
        "verdict": verdicts + (f" of {len(rows)}" if len(rows) > 1 else ""),
        # The colour of a line that says one thing only.
        "kind": said[0] if len(said) == 1 else "mixed",
        "ratio": _range(ratios),
        "why": next(iter(reasons)) if len(reasons) == 1 else "",
    }


def _range(ratios: list[float]) -> str:
    if not ratios:
        return "no ratio"
    low, high = human.times(min(ratios)), human.times(max(ratios))
    # Of several ratios; a dash would make an interval of it.
    return low if low == high else f"from {low} to {high}"
