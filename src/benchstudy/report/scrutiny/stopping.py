"""What a page says about adaptive sessions, which decide how many blocks they measure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchstudy.measuring.looks import Known
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.statistics import stats

_SAME = 1e-9  # relative, because a sum in another order differs in its last digit


def facts(index: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    """The stopping rule of a session and its result, as pairs (name, text). Empty for a fixed number of blocks."""
    stopping = index.get("stopping")
    if not stopping:
        return []
    until = f"±{human.percent(stopping['until'])}"
    lines = [
        f"{stopping['fewest']} to {stopping['most']}, until every case is known to {until}: {stopping['rule']}. All "
        "cases stay in the same blocks."
    ]
    looks = stopping["looks"]
    if looks:
        at = ", ".join(str(look["blocks"]) for look in looks)
        lines.append(f"The precision was checked after {at} blocks, and at no other time.")
    if len({look["until"] for look in looks}) > 1:
        asked = ", then ".join(dict.fromkeys(f"±{human.percent(look['until'])}" for look in looks if look["until"]))
        lines.append(f"The rule was changed between checks: {asked}.")
    if stopping["verdict"]:
        lines.append(f"{stopping['verdict'][0].upper()}{stopping['verdict'][1:]}.")
    lines.append(
        "Stopping at a narrow interval favours narrow intervals. In simulations of at most 60 blocks, 95 % intervals "
        "then cover the median in 93.6 of 100 sessions at worst if trials are independent and gather around it. They "
        "cover it less often if trials lie in two modes or resemble the one before (docs/statistics.md)."
    )
    return [(f"Blocks{where}", "\n".join(lines))]


def weaknesses(results: Results, indexes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on precision that was declared and not reached, and on precision that has changed since."""
    for index in indexes:
        stopping = index.get("stopping")
        if not stopping:
            continue
        if stopping["verdict"] is None:
            yield f"{index['target']}: the session has not reached its first check of precision, so it may continue."
        for entry in stopping["known"]:
            known = Known(**entry)
            place = (index["target"], known.case)
            case = results.case_name(*place) if place in results.anchors else known.case
            name = f"{case}{f', {known.metric}' if known.metric else ''}"
            until = stopping["until"]
            if not known.within(until):
                reached = known.why if known.precision is None else f"±{human.beyond(known.precision, until, '%')}"
                yield (
                    f"{name}: ±{human.percent(until)} was declared, but "
                    f"{human.plural(stopping['blocks'], 'block')} gave {reached}."
                )
            now = _precision_now(results, index["target"], known)
            if known.precision is not None and now is not None and not _same(now, known.precision):
                yield (
                    f"{name}: known to ±{human.percent(known.precision)} when the session stopped, and to "
                    f"±{human.beyond(now, known.precision, '%')} on this page, because trials were added or discarded "
                    "since, or their files are parsed differently."
                )


def _precision_now(results: Results, target: str, known: Known) -> float | None:
    estimate = results.estimate(known.metric, target, known.case) if known.metric else None
    return stats.precision(estimate.summary) if estimate else None


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME)
