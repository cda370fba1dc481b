"""Checks of a family's credibility: outliers, drift, failures, lints.

The page shows the results, and keeps them as plain data for the study's overview and its checklist.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from benchstudy.lints import Finding
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import drift, evidence, outliers, tails
from benchstudy.report.scrutiny.drift import Drift, Key
from benchstudy.report.scrutiny.outliers import Outlier
from benchstudy.statistics.comparisons import share

_MOST_NAMED = 5


@dataclass(frozen=True)
class Scrutiny:
    """The results of the checks of a family. `dependent` are cases whose trials resemble the previous one."""

    results: Results
    outliers: tuple[Outlier, ...]
    drift: Drift
    dependent: tuple[Key, ...]

    @property
    def explained(self) -> int:
        """The number of trials that are outliers and during which something happened on their host."""
        return len({outlier.trial for outlier in self.outliers if outlier.events})

    @cached_property
    def flagged(self) -> dict[str, str]:
        """A remark for each trial that is an outlier."""
        found = grouped((outlier.trial, outlier.text) for outlier in self.outliers)
        return {trial: "; ".join(texts) for trial, texts in found.items()}


def scrutinise(results: Results, indexes: evidence.Indexes) -> Scrutiny:
    """Run all checks of a family's results. `indexes` are the records of its sessions."""
    found = outliers.find(results, evidence.busy_trials(results, indexes), indexes)
    moving = drift.find(results)
    return Scrutiny(results, tuple(found), moving, drift.find_dependent(results, moving.cases))


def points(found: Scrutiny) -> list[str]:
    """Sentences for the list of what is weak."""
    said = []
    if found.outliers:
        noticed = f"An event on the host was recorded for {found.explained} of them."
        if not found.explained:
            noticed = f"No event on the host was recorded for {'it' if len(found.flagged) == 1 else 'any of them'}."
        said.append(
            f"{human.plural(len(found.flagged), 'outlier')} among {found.results.counted.height} trials; all are kept, "
            f"and marked in the list of trials. {noticed} {outliers.by_chance(outliers.looked_at(found.results))}"
        )
    moving = found.drift.cases
    if moving:
        cases = f"{len(moving)} of {human.plural(found.drift.looked_at, 'case')} {'is' if len(moving) == 1 else 'are'}"
        said.append(
            f"{cases} not in a steady state ({found.drift.rule}): "
            f"{human.listed(found.drift.told(found.results), _MOST_NAMED, '; ')}."
        )
    if found.dependent:
        cases = human.plural(len(found.dependent), "case")
        named = [found.results.case_name(*key) for key in found.dependent]
        said.append(
            f"Trials of {cases} resemble the previous one ({drift.DEPENDENCE_RULE}), so the intervals of their medians "
            f"are too narrow: {human.listed(named, _MOST_NAMED)}."
        )
    return said


def notes(found: Scrutiny, weak: Sequence[str], lints: Iterable[Finding]) -> dict[str, Any]:
    """The results of the checks as plain data, by kind. `weak` are the sentences of the page."""
    return {
        "weak": list(weak),
        "lints": _lints(lints),
        "outliers": {
            "flagged": len(found.flagged),
            "explained": found.explained,
            "trials": found.results.counted.height,
            "unseen": outliers.unseen(found.results),
        },
        "steady": {
            "rule": found.drift.rule,
            "looked_at": found.drift.looked_at,
            "cases": found.drift.cases,
            "unseen": found.drift.unseen,
        },
        "failures": _failures(found.results),
        "tails": tails.unsupported(found.results),
    }


def _lints(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """One entry per rule: the numbers of open and of acknowledged findings, and the first open one."""
    rules: dict[str, dict[str, Any]] = {}
    for finding in found:
        empty = {"lint": finding.lint, "severity": finding.severity, "open": 0, "acknowledged": 0, "first": ""}
        rule = rules.setdefault(finding.lint, empty)
        rule["acknowledged" if finding.acknowledged else "open"] += 1
        if not finding.acknowledged and not rule["first"]:
            rule["first"] = f"{finding.where}: {finding.what}"
    return list(rules.values())


def _failures(results: Results) -> dict[str, Any]:
    """The number of failed trials, with Wilson's interval."""
    trials = results.counted
    failed = trials.filter(pl.col("status") != "ok").height
    interval = share(failed, trials.height).interval if trials.height else ""
    return {"failed": failed, "trials": trials.height, "interval": interval}
