"""Results of load tests of several versions: the contrasts, their trials, and what was recorded around them.

Works on the tables of the family load_test (docs/families/load_test.md). The first version is the base. A version that
is declared as `same_as` another repeats that version (A/A) and gives the study's own band of variance.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from benchstudy.families.load_test.metrics import METRICS
from benchstudy.model.clients import load_roles
from benchstudy.model.grouping import grouped
from benchstudy.report.comparisons.comparability import Comparability, Indexes
from benchstudy.report.comparisons.comparison import Margins
from benchstudy.report.exhibits import cells
from benchstudy.report.figures.styles import Style
from benchstudy.report.results.results import Estimate, Results
from benchstudy.statistics.comparisons import Comparison
from benchstudy.statistics.mix_shift import Calls, Quantile, Shift

GROUPS = {"store": "store", "api": "API"}
# Name of a label of each group, in text and as a table heading.
LABELS = {"store": "store method", "api": "API handler"}
HEADS = {"store": "Store method", "api": "API handler"}
# The band that the published page calls usual; it holds for that page's machines only.
PAGE_BAND = 0.05
FEWEST = 3  # trials per version; with fewer there is no interval over trials, and no verdict

# Trial to value, for the trials of one arm, in the unit of the comparison.
ByTrial = Mapping[str, float]


@dataclass(frozen=True)
class Trial:
    """One trial that succeeded. `facts`: the content of its load_test.json, {} if there is none."""

    uuid: str
    block: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Contrast:
    """One version against its base, under one load on one database. `again`: both are the same version (A/A)."""

    target: str
    database: str
    load: str
    base: str
    new: str
    base_case: str
    new_case: str
    again: bool = False

    @property
    def cases(self) -> dict[str, str]:
        """Version to case, the base first."""
        return {self.base: self.base_case, self.new: self.new_case}


@dataclass(frozen=True)
class Single:
    """A version that was measured beside no other, under one load on one database."""

    target: str
    database: str
    load: str
    version: str
    case: str

    @property
    def cases(self) -> dict[str, str]:
        """Version to case."""
        return {self.version: self.case}


class LoadTest:
    """Results of the family. `declared`: its block of the study as measured; `indexes`: records of the sessions."""

    def __init__(self, results: Results, declared: Mapping[str, Any], indexes: Indexes = ()):
        self.results, self.declared, self.indexes = results, declared, indexes
        self.margins = Margins.declared(indexes)
        # The versions under test are different programs on purpose: the build is the factor.
        self._comparability = Comparability(results, indexes, across_tools=True, across_caches=False)
        self._series: dict[str, dict[str, pl.DataFrame]] = {}

    # -- which against which -----------------------------------------------------------------------------------------

    @cached_property
    def versions(self) -> list[str]:
        """Versions in the study's order, the base first."""
        measured = self.results.levels("version")
        named = [v["name"] for v in self.declared.get("versions", ()) if v["name"] in measured]
        return [*named, *(v for v in measured if v not in named)]

    @cached_property
    def same_as(self) -> dict[str, str]:
        """Repeated versions, each with the version that it repeats."""
        declared = self.declared.get("versions", ())
        return {v["name"]: v["same_as"] for v in declared if v.get("same_as") and v["name"] in self.versions}

    @property
    def base(self) -> str:
        return next(iter(self.versions), "")

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Every other version against the base, by target, database and load."""
        return [
            c for v in self.versions if v != self.base and v not in self.same_as for c in self._against(self.base, v)
        ]

    @cached_property
    def repeats(self) -> list[Contrast]:
        """Every repeated version against the version that it repeats."""
        return [c for again, first in self.same_as.items() for c in self._against(first, again, again=True)]

    @cached_property
    def singles(self) -> list[Single]:
        """Every case without another version beside it. Repeated versions have their first one."""
        beside = {(c.target, case) for c in self.contrasts for case in c.cases.values()}
        return [
            Single(*(row[k] for k in ("target", "database", "load", "version", "case")))
            for row in self.results.cases.iter_rows(named=True)
            if (row["target"], row["case"]) not in beside and row["version"] not in self.same_as
        ]

    @property
    def not_compared(self) -> str:
        """The sentence that says so of a study without two versions; else empty."""
        if self.contrasts:
            return ""
        return "No two versions were measured under the same load on the same database: nothing can be compared."

    @property
    def measured(self) -> list[Contrast | Single]:
        """All that has tables and graphs of its own: contrasts, then single versions."""
        return [*self.contrasts, *self.singles]

    def _against(self, base: str, new: str, again: bool = False) -> Iterator[Contrast]:
        keys = ("target", "database", "load")
        rows = self.results.cases.iter_rows(named=True)
        cases = {(*(row[k] for k in keys), row["version"]): row["case"] for row in rows}
        for (target, database, load, version), case in cases.items():
            other = cases.get((target, database, load, new))
            if version == base and other is not None:
                yield Contrast(target, database, load, base, new, case, other, again)

    # -- names -------------------------------------------------------------------------------------------------------

    def database(self, name: str) -> str:
        """The study's label of a database: "PostgreSQL 15"."""
        declared = {d["name"]: d.get("label") for d in self.declared.get("databases", ())}
        return str(declared.get(name) or name)

    def place(self, measured: Contrast | Single) -> str:
        """Database and load in words: "PostgreSQL 15, bounded", with the target if there are several."""
        where = f" on {measured.target}" if len(self.results.targets) > 1 else ""
        return f"{self.database(measured.database)}, {measured.load}{where}"

    def title(self, contrast: Contrast | Single) -> str:
        """`place`, with the versions if there are more than two, or with the only one."""
        if isinstance(contrast, Single):
            return f"{self.place(contrast)}, {contrast.version}"
        several = len(self.versions) - len(self.same_as) > 2 or contrast.again
        return self.place(contrast) + (f": {contrast.new} against {contrast.base}" if several else "")

    def case(self, row: Mapping[str, Any]) -> str:
        """A row of the case table in words: "PostgreSQL 15, bounded, 9.11.0"."""
        where = f" on {row['target']}" if len(self.results.targets) > 1 else ""
        return f"{self.database(row['database'])}, {row['load']}{where}, {row['version']}"

    def hrefs(self, measured: Contrast | Single) -> list[str]:
        """The links to the trials of each version, the base first."""
        return [cells.href(self.results, measured.target, case) for case in measured.cases.values()]

    @cached_property
    def style(self) -> Style:
        """The style of the versions in figures; repeated versions are in tables only."""
        return Style(tuple(version for version in self.versions if version not in self.same_as))

    def load(self, name: str) -> Mapping[str, Any]:
        """The study's declaration of a load; {} if someone else ran it."""
        return next((load for load in self.declared.get("loads", ()) if load["name"] == name), {})

    # -- what the trials say -----------------------------------------------------------------------------------------

    @cached_property
    def _trials(self) -> dict[tuple[str, str], list[Trial]]:
        succeeded = self.results.counted.filter(pl.col("status") == "ok").sort("block", "position")
        rows = succeeded.select("target", "case", "trial", "block", "verified").iter_rows()
        return grouped(((target, case), Trial(uuid, block, _facts(said))) for target, case, uuid, block, said in rows)

    def trials(self, target: str, case: str) -> list[Trial]:
        """The trials of a case that succeeded, by block."""
        return self._trials.get((target, case), [])

    def sides(self, contrast: Contrast) -> tuple[list[Trial], list[Trial]]:
        return self.trials(contrast.target, contrast.base_case), self.trials(contrast.target, contrast.new_case)

    def n(self, contrast: Contrast) -> int:
        """The number of trials of the side that has fewer."""
        return min(map(len, self.sides(contrast)))

    @cached_property
    def all_trials(self) -> list[Trial]:
        return [trial for trials in self._trials.values() for trial in trials]

    @cached_property
    def scraped(self) -> bool:
        """Whether someone else ran the load, so that only Prometheus' samples were read."""
        return any(trial.facts.get("mode") == "scrape" for trial in self.all_trials)

    @property
    def beside_the_server(self) -> bool:
        """Whether the users ran on the host of the server."""
        sites = [roles for index in self.indexes if "sut" in (roles := index.get("roles") or {})]
        return not self.scraped and any(roles[load_roles(roles)[0]] == roles["sut"] for roles in sites)

    @cached_property
    def _values(self) -> dict[tuple[str, str], tuple[float, str]]:
        observed = self.results.observations.filter(pl.col("value").is_not_null())
        return {(t, m): (v, u) for t, m, v, u in observed.select("trial", "metric", "value", "unit").iter_rows()}

    def value(self, trial: str, metric: str) -> float | None:
        found = self._values.get((trial, metric))
        return found[0] if found else None

    def quantile(self, trial: Trial, metric: str) -> Quantile | None:
        """The trial's quantile as PromQL interpolates it, with the edges of its bucket; None if it has none."""
        value, low, high = (self.value(trial.uuid, f"{metric}{end}") for end in ("", "_low", "_high"))
        return None if value is None or low is None else Quantile(value, low, high)

    def by_trial(self, trials: Iterable[Trial], metric: str) -> dict[str, float]:
        """The metric of the trials that have it, by trial."""
        return {t.uuid: found[0] for t in trials if (found := self._values.get((t.uuid, metric)))}

    def estimate(self, metric: str, target: str, case: str) -> Estimate | None:
        return self.results.estimate(metric, target, case)

    def median(self, metric: str, target: str, case: str) -> float | None:
        estimate = self.estimate(metric, target, case)
        return estimate.summary.median if estimate is not None else None

    # -- series ------------------------------------------------------------------------------------------------------

    def series(self, name: str, trial: str) -> pl.DataFrame | None:
        """One trial's rows of a long table; None if it has none."""
        if name not in self._series:
            frame = self.results.series(name)
            parts = {} if frame is None or frame.is_empty() else frame.partition_by("trial", as_dict=True)
            self._series[name] = {key[0]: rows for key, rows in parts.items()}
        return self._series[name].get(trial)

    def calls(self, trial: str, group: str) -> dict[str, Calls]:
        """The calls of each label that a trial called at all, without buckets."""
        return self._calls.get((trial, group), {})

    @cached_property
    def _calls(self) -> dict[tuple[str, str], dict[str, Calls]]:
        found: dict[tuple[str, str], dict[str, Calls]] = {}
        if self._called is not None:
            rows = self._called.select("trial", "group", "label", "count", "sum_s").collect()
            for trial, group, label, count, total in rows.iter_rows():
                found.setdefault((trial, group), {})[label] = Calls(count, total)
        return found

    @property
    def _called(self) -> pl.LazyFrame | None:
        """The table of labels, not read yet, without labels that the trial did not call."""
        labels = self.results.scan("labels")
        return None if labels is None else labels.filter(pl.col("count") > 0)

    @cached_property
    def _buckets(self) -> dict[tuple[str, str, str, str], dict[float, float]]:
        """Map (target, case, group, label) to the buckets of all trials, merged at the edges that they share.

        The buckets of a thousand targets take gigabytes as rows, so they are summed as they are read.
        """
        buckets, called = self.results.scan("buckets"), self._called
        if buckets is None or called is None:
            return {}
        key = ["target", "case", "group", "label"]
        trials = called.group_by(key).agg(trials=pl.len())
        merged = (
            buckets.join(called, on=["trial", "group", "label"], how="semi")
            .group_by(*key, "le_s")
            .agg(pl.col("count").sum(), having=pl.len())
            .join(trials, on=key)
            .filter(pl.col("having") == pl.col("trials"))
        )
        found: dict[tuple[str, str, str, str], dict[float, float]] = {}
        for *of, edge, count in merged.select(*key, "le_s", "count").collect(engine="streaming").iter_rows():
            found.setdefault(tuple(of), {})[edge] = count
        return found

    def _merged(self, trials: Sequence[Trial], group: str) -> dict[str, Calls]:
        """Calls of several trials together, by label, without buckets."""
        found: dict[str, Calls] = {}
        for trial in trials:
            for label, calls in self.calls(trial.uuid, group).items():
                found[label] = found[label] + calls if label in found else calls
        return found

    def seconds(self, trials: Sequence[Trial], group: str) -> float:
        """The time in s that the counts of calls cover; 1 s per trial if that is unknown.

        They are from the first scrape in the window to the last, which is up to two scrape intervals less than the
        window. The rate is of the same time.
        """
        covered_s = 0.0
        for trial in trials:
            rate, count = self.value(trial.uuid, f"{group}_rate"), self._total(trial, group)
            covered_s += count / rate if rate and count else self.window_s(trial) or 0.0
        return covered_s or float(len(trials) or 1)

    def _total(self, trial: Trial, group: str) -> float:
        return sum(calls.count for calls in self.calls(trial.uuid, group).values())

    def window_s(self, trial: Trial) -> float | None:
        told = self.value(trial.uuid, "window")
        steady = trial.facts.get("steady") or {}
        return told if told is not None else (steady["end_s"] - steady["start_s"] if steady else None)

    def shift(self, contrast: Contrast, group: str) -> Shift | None:
        """The mix shift over the merged trials of both sides, with buckets; None if a side has no call."""
        cases = contrast.base_case, contrast.new_case
        return self._shift(*self.sides(contrast), group, [(contrast.target, case, group) for case in cases])

    def _shift(
        self, base: Sequence[Trial], new: Sequence[Trial], group: str, buckets_of: Sequence[tuple[str, str, str]] = ()
    ) -> Shift | None:
        calls = [self._merged(side, group) for side in (base, new)]
        for side, of in zip(calls, buckets_of, strict=False):
            side |= {label: replace(made, buckets=self._buckets.get((*of, label), {})) for label, made in side.items()}
        return Shift(calls[0], calls[1], *(self.seconds(s, group) for s in (base, new))) if all(calls) else None

    def shifts_by_block(self, contrast: Contrast, group: str) -> dict[str, tuple[str, Shift]]:
        """For each block with both sides: trial of the new side to the base's trial and the shift between the two.

        These shifts are of means only: they have no buckets.
        """
        base, new = ({t.block: t for t in side} for side in self.sides(contrast))
        found = {}
        for block, trial in new.items():
            shift = self._shift([base[block]], [trial], group) if block in base else None
            if shift is not None:
                found[trial.uuid] = (base[block].uuid, shift)
        return found

    # -- comparing ---------------------------------------------------------------------------------------------------

    def margin(self, metric: str) -> float:
        """The relative difference that the study declares to matter."""
        return self.margins.thresholds.margin_of(self.results.family, metric)

    def compared(
        self, contrast: Contrast, metric: str, base: ByTrial | None = None, new: ByTrial | None = None
    ) -> Comparison:  # fmt: skip
        """Compare new with base under the metric's margin, not yet judged: its values, or those given by trial.

        As in every comparison, only trials of the same session and measuring code count, paired by block.
        """
        given, unit, better = (base, new), METRICS[metric].unit, METRICS[metric].better
        assert better is not None, f"{metric} is compared, and declared neither better high nor low"
        sides = self.sides(contrast)
        values = [self.by_trial(side, metric) if of is None else of for side, of in zip(sides, given, strict=True)]
        measured = [
            [(t.block, t.uuid, values[i][t.uuid], unit) for t in side if t.uuid in values[i]]
            for i, side in enumerate(sides)
        ]
        outcomes = [self.results.outcomes.get((contrast.target, case), []) for case in contrast.cases.values()]
        failed = [len(of_case) - of_case.count(None) for of_case in outcomes]
        return self._comparability.compared(
            list(contrast.cases), measured, failed, margin=self.margin(metric), better=better
        )

    def typical(self, target: str, case: str, metric: str) -> Trial | None:
        """The trial nearest to the median of the metric: a typical one, not the best."""
        trials = self.trials(target, case)
        known = self.by_trial(trials, metric)
        median = self.median(metric, target, case) or 0.0
        return min((t for t in trials if t.uuid in known), key=lambda t: abs(known[t.uuid] - median), default=None)


def _facts(verified: str | None) -> Mapping[str, Any]:
    noted = json.loads(verified or "{}")
    found = noted.get("load_test", noted)
    return found if isinstance(found, dict) else {}
