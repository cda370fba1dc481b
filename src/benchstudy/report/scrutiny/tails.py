"""Finds tail percentiles of single trials with too few operations to be printed."""

import re
from typing import Any

from benchstudy.report.results.results import Results
from benchstudy.statistics import stats

_PERCENTILE = re.compile(r"(?:(\w+?)_)?(?:\w+_)?p(\d+(?:\.\d+)?)")
# Metrics that count the operations behind a trial's percentiles; {op} is the prefix of the percentile's name.
_COUNTS = ("{op}_ios", "{op}_calls", "{op}_requests", "requests", "accepted", "operations")


def unsupported(results: Results) -> dict[str, Any]:
    """Count the tail percentiles (above p50) of all cases.

    `cells` counts all, and `few` those with too few operations. `cases` lists the cases with an unknown number of them,
    as (target, case).
    """
    found: dict[str, Any] = {"cells": 0, "few": 0}
    cases: dict[tuple[str, str], None] = {}
    for metric in results.metrics:
        match = _PERCENTILE.fullmatch(metric)
        if match is None or float(match[2]) <= 50:
            continue
        for key in results.by_case(metric):
            found["cells"] += 1
            operations = _operations(results, match[1] or "", *key)
            if operations is None:
                cases[key] = None
            elif operations < stats.smallest_n(float(match[2])):
                found["few"] += 1
    return found | {"cases": list(cases)}


def _operations(results: Results, op: str, target: str, case: str) -> float | None:
    """The smallest number of operations of any trial of the case; None if it is unknown."""
    for name in _COUNTS:
        trials = results.by_case(name.format(op=op)).get((target, case))
        if trials:
            return min(value for _, value, _ in trials)
    return None
