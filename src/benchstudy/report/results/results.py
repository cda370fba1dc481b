"""One family's tidy tables, read for a report: observations, failures and estimates."""

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from benchstudy.model import hints, registry
from benchstudy.model.causes import Cause
from benchstudy.model.clients import CLIENTS
from benchstudy.model.criteria import MANY_TARGETS
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import UNKNOWN
from benchstudy.model.interference import Disturbance
from benchstudy.model.metrics import Metric, Tells, declare, measured_for, undeclared
from benchstudy.model.names import nearest
from benchstudy.report import human
from benchstudy.report.results.trialplaces import TrialPlaces, places_by_target, trial_places
from benchstudy.report.tables.tables import anchor
from benchstudy.statistics import stats

# The status of a trial that is a result. An aborted trial is repeated, and a discarded one was replaced.
RESULT_STATUSES = ("ok", "failed", "timeout")

_KEPT = pl.col("discarded_why").is_null() & pl.col("set_aside").is_null()


Where = Mapping[str, str | Sequence[str]]
# Metrics with the titles that their family declares, or {metric: title} to replace these in one table or figure.
Titled = Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, order=True)
class Reason:
    """Why a trial failed: its recorded `words`, and the `cause` as a value."""

    words: str
    cause: Cause


@dataclass(frozen=True)
class Estimate:
    """The estimate of one metric from the trials of one case. `summary` is in the base unit `unit`.

    `causes` has the reasons of failures with their counts, the most frequent first, then by name.
    """

    target: str
    case: str
    levels: Mapping[str, Any]
    metric: str
    unit: str
    summary: stats.Summary
    values: tuple[float, ...]
    results: int
    failed: int
    causes: tuple[tuple[Reason, int], ...]

    @property
    def failure(self) -> str:
        """The most frequent cause for the reader: "failed: disk full (2 of 6)"; empty if none failed."""
        if not self.causes:
            return ""
        reason, count = self.causes[0]
        others = f", and {self.failed - count} for other causes" if self.failed > count else ""
        return f"failed: {reason.words} ({count} of {self.results}{others})"


class Results:
    """The tidy tables of one family of a study; docs/design.md describes their columns.

    Raises BenchstudyError if a table is missing, because the family was not measured or tidied.
    """

    # What n counts, and each value belongs to. `OverTargets` counts targets.
    unit = "trial"

    def __init__(self, tidy: Path, *, study: str, family: str):
        self.tidy, self.study, self.family = Path(tidy), study, family
        self.observations = self._read("observations")
        own = registry.get(family).factors if family in registry.names() else ()
        cases = self._read("cases")
        self.untold = _untold(cases)
        self.cases = cases_in_order(_told_apart(cases, own))
        self.trials = self._read("trials")

    def _read(self, name: str) -> pl.DataFrame:
        path = self.tidy / f"{name}.parquet"
        if not path.is_file():
            raise BenchstudyError(
                f"{path}: no such table; measure and tidy family {self.family!r} of study {self.study!r} first "
                f"({hints.snakemake()})"
            )
        return _table(path)

    def series(self, name: str) -> pl.DataFrame | None:
        """One of the family's own long tables, for trials that count; None if no trial gave any."""
        rows = self.scan(name)
        return None if rows is None else rows.collect()

    def scan(self, name: str) -> pl.LazyFrame | None:
        """Like `series`, but not read yet, for tables of which only a part or a sum is needed."""
        return self._of_all_trials(name)

    def histogram(self, name: str) -> pl.DataFrame | None:
        """The family's table `name` of bins, with `count` summed over the trials that count; None if no trial gave any.

        One row per `target`, case and bin (`lower_s`, `upper_s`), sorted, with the number of the case's `trials`. It is
        merged once, and the bins of all trials are never in memory together.
        """
        if name not in self._merged:
            self._merged[name] = self._merge(name)
        return self._merged[name]

    @cached_property
    def _merged(self) -> dict[str, pl.DataFrame | None]:
        return {}

    def _merge(self, name: str) -> pl.DataFrame | None:
        rows = self._of_all_trials(name)
        if rows is None:
            return None
        rows = rows.rename({"low_s": "lower_s", "high_s": "upper_s"}, strict=False)
        columns = [column for column in rows.collect_schema().names() if column not in ("trial", "block", "count")]
        # Two queries: one that needs the rows twice would keep all of them in memory.
        trials = rows.group_by("target", "case").agg(trials=pl.col("trial").n_unique()).collect(engine="streaming")
        merged = rows.group_by(columns).agg(pl.col("count").sum()).collect(engine="streaming")
        return merged.join(trials, on=["target", "case"]).sort(columns)

    def _of_all_trials(self, name: str) -> pl.LazyFrame | None:
        """The table `name` of every trial that counts, not read yet."""
        path = self.tidy / f"{name}.parquet"
        if not path.is_file():
            return None
        rows, counted = pl.scan_parquet(path), self.counted.lazy().select("trial")
        if self.counted.height == self.trials.height:
            return rows
        return rows.join(counted, on="trial", how="semi", maintain_order="left")

    @cached_property
    def counted(self) -> pl.DataFrame:
        """Trials that are results: not discarded, not aborted, and not set aside for another one."""
        return self.trials.filter(_KEPT & pl.col("status").is_in(RESULT_STATUSES))

    @cached_property
    def observed(self) -> pl.DataFrame:
        """The observations of trials that count. A failed trial has one, without a value."""
        if self.counted.height == self.trials.height:
            return self.observations  # the same million rows of a large study, instead of a copy
        return self.observations.join(self.counted.select("trial"), on="trial", how="semi", maintain_order="left")

    @cached_property
    def disturbed(self) -> dict[str, Disturbance]:
        """The disturbed trials that count, each with what others took of a host beyond the study's limit."""
        rows = self.counted.filter(pl.col("disturbed")).select("trial", "disturbance").iter_rows()
        return {trial: Disturbance.read(json.loads(text)) for trial, text in rows}

    @cached_property
    def disturbed_beyond(self) -> float | None:
        """The share that others may take, as the tables applied it; None if no trial could be checked."""
        known = self.counted["disturbance"].drop_nulls()
        return json.loads(known[0]).get("limit") if len(known) else None

    @cached_property
    def imported(self) -> frozenset[tuple[str, str]]:
        """The cases (target, case) with imported trials, whose order and host are unknown."""
        return frozenset(self.counted.filter(pl.col("imported").fill_null(False)).select("target", "case").iter_rows())

    @cached_property
    def factors(self) -> list[str]:
        """The family's factors in its own order, which are text columns of the case table."""
        skipped = ("target", "case")
        return [n for n, t in self.cases.schema.items() if n not in skipped and t in (pl.String, pl.Null)]

    @cached_property
    def targets(self) -> list[str]:
        """The targets that have cases, in the order of the study."""
        return self.cases["target"].unique(maintain_order=True).to_list()

    def select(self, where: Where | None = None) -> pl.DataFrame:
        """Rows of the case table with the given levels (one, or any of a list)."""
        chosen = self.cases
        self.require_factors(where or {})
        for factor, wanted in (where or {}).items():
            if factor not in chosen.columns:
                return chosen.clear()
            chosen = chosen.filter(pl.col(factor).is_in([wanted] if isinstance(wanted, str) else list(wanted)))
        return chosen

    def require_factors(self, names: Iterable[str]) -> None:
        """Raise BenchstudyError for a name that is neither a column of the case table nor a factor of the family.

        A factor of the family has no column if no case has a level of it: a study without reads has no `cache`.
        """
        for name in names:
            if name not in self.cases.columns and name not in self._possible:
                raise BenchstudyError(f"no factor {name!r}; known: {', '.join(self.factors)}")

    @cached_property
    def _possible(self) -> frozenset[str | None]:
        """The factors that cases of this family can have."""
        if self.family not in registry.names():
            return frozenset()
        declares = registry.get(self.family)
        return frozenset((*declares.factors, declares.cache_factor, declares.sync_factor))

    def with_level(self, rows: pl.DataFrame, factor: str) -> pl.DataFrame:
        """The rows whose case has a level of `factor`. `rows`: with the columns of the case table."""
        self.require_factors([factor])
        return rows.drop_nulls(factor) if factor in rows.columns else rows.clear()

    def levels(self, factor: str, where: Where | None = None) -> list[str]:
        """The levels of a factor among the cases that `where` selects, in the study's order."""
        chosen = self.with_level(self.select(where), factor)
        return [] if chosen.is_empty() else chosen[factor].unique(maintain_order=True).to_list()

    def variants(self, factor: str, shared: Sequence[str], where: Where | None = None) -> list[list[str]]:
        """Each level of a factor together with the existing `shared` ones, for one table or panel each.

        For example, S3 writes have only the level `server`, which belongs beside both synced and unsynced files.
        """
        levels = self.levels(factor, where)
        beside = [level for level in levels if level in shared]
        own = [[level, *beside] for level in levels if level not in shared]
        return own or ([beside] if beside else [])

    @cached_property
    def anchors(self) -> dict[tuple[str, str], str]:
        """Map (target, case) to the id of its trials on the page. The ids are unique."""
        pairs = pl.concat([self.cases.select("target", "case"), self.trials.select("target", "case")])
        found: dict[tuple[str, str], str] = {}
        taken = set[str]()
        for target, case in pairs.unique(maintain_order=True).iter_rows():
            name = anchor("case", case if len(self.targets) < 2 else f"{target},{case}")
            found[target, case] = name if name not in taken else f"{name}-{len(taken)}"
            taken.add(found[target, case])
        return found

    @property
    def of_trials(self) -> "Results":
        """The results with one row per trial, if these have one per target."""
        return self

    @cached_property
    def has_many_targets(self) -> bool:
        """Whether the family's page shows one value per target (`OverTargets`), and each target has its own page."""
        return len(self.targets) > MANY_TARGETS

    @cached_property
    def places(self) -> TrialPlaces:
        """Where each trial is listed."""
        if self.has_many_targets:
            return places_by_target(self.family, self.trials)
        return trial_places(self.family, self.trials, self.anchors)

    def spanned(self, estimate: Estimate) -> tuple[Sequence[float], str]:
        """The values of all trials behind an estimate, or their extremes, and the number of trials in words."""
        return estimate.values, human.plural(estimate.summary.n, "trial")

    def place_in_figure(self) -> tuple[str, pl.Expr]:
        """The name of a tooltip's line that identifies a point, and its text as an expression over `block`."""
        return "block", pl.col("block").cast(pl.String)

    @cached_property
    def shared_levels(self) -> dict[str, str]:
        """The level of each factor that is the same in all cases; empty if no factor differs."""
        levels = {factor: self.cases[factor].unique().to_list() for factor in self.factors}
        same = {factor: found[0] for factor, found in levels.items() if len(found) == 1 and found[0] is not None}
        return same if any(len(found) > 1 for found in levels.values()) else {}

    def case_name(self, target: str, case: str, but: Container[str] = ()) -> str:
        """A case's levels for the reader, without those of the factors in `but`: "disk · gitlab".

        With several targets it begins with the target, unless that is in `but`.
        """
        levels = self._levels[target, case]
        names = [human.level_of(f, str(levels[f])) for f in self.factors if f not in but and levels[f] is not None]
        return " · ".join([*([target] if len(self.targets) > 1 and "target" not in but else []), *names])

    def estimates(self, metric: str, where: Where | None = None) -> list[Estimate]:
        """One estimate per chosen case that gave this metric or whose trials all failed, in the study's order."""
        self._require_metric(metric)
        chosen = self.select(where).select("target", "case").iter_rows()
        return [estimate for key in chosen if (estimate := self.estimate(metric, *key)) is not None]

    @cached_property
    def usable(self) -> pl.DataFrame:
        """Observations with a value, of trials that count."""
        return self.observed.drop_nulls("value")

    def by_case(self, metric: str) -> Mapping[tuple[str, str], list[tuple[str, float, str]]]:
        """Map (target, case) to the values of its trials, (trial, value, unit), for cases that gave the metric."""
        if metric not in self._by_case:
            rows = self.usable.filter(pl.col("metric") == metric).select("target", "case", "trial", "value", "unit")
            of_cases = rows.partition_by("target", "case", include_key=False, maintain_order=True, as_dict=True)
            self._by_case[metric] = {(target, case): own.rows() for (target, case), own in of_cases.items()}
        return self._by_case[metric]

    @cached_property
    def _by_case(self) -> dict[str, dict[tuple[str, str], list[tuple[str, float, str]]]]:
        return {}

    @cached_property
    def _levels(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["target"], row["case"]): row for row in self.cases.iter_rows(named=True)}

    @cached_property
    def outcomes(self) -> dict[tuple[str, str], list[Reason | None]]:
        """For each case, one entry per trial: why it failed, or None if it did not."""
        grouped: dict[tuple[str, str], list[Reason | None]] = {}
        columns = ("target", "case", "status", "cause", "cause_kind")
        for target, case, status, words, kind in self.counted.select(columns).iter_rows():
            reason = None if status == "ok" else Reason(words or status, Cause(kind or Cause.TOLD))
            grouped.setdefault((target, case), []).append(reason)
        return grouped

    def estimate(self, metric: str, target: str, case: str) -> Estimate | None:
        """The estimate of one case; None if the trials that did not fail lack the metric."""
        values = self.by_case(metric).get((target, case), [])
        outcomes = self.outcomes.get((target, case), [])
        causes = [reason for reason in outcomes if reason is not None]
        if not values and len(causes) < max(1, len(outcomes)):
            return None
        units = list(dict.fromkeys(unit for _, _, unit in values))
        numbers = tuple(value for _, value, _ in values)
        summary = stats.summarise([*numbers, *([None] * len(causes))], units)
        if self.disturbed and (disturbed := sum(trial in self.disturbed for trial, _, _ in values)):
            summary = replace(summary, disturbed=disturbed)
        unit = " and ".join(units)
        levels = self._levels.get((target, case), {})
        by_cause = tuple(sorted(Counter(causes).items(), key=lambda found: (-found[1], found[0])))
        return Estimate(target, case, levels, metric, unit, summary, numbers, len(outcomes), len(causes), by_cause)

    def points(self, metric: str, where: Where | None = None) -> pl.DataFrame:
        """One row per trial that gave the metric: the case's columns, block, trial, value, unit."""
        self._require_metric(metric)
        values = self.usable.filter(pl.col("metric") == metric)
        columns = ("target", "case", "block", "trial", "value", "unit")
        return self.select(where).join(values.select(columns), on=["target", "case"])

    def _require_metric(self, name: str) -> None:
        """Raise BenchstudyError for a metric that is neither declared nor in the tables, which is misspelt."""
        if self._declared and name not in self._declared and name not in self.metrics:
            raise BenchstudyError(f"no metric {name!r}: {nearest(name, self._declared)}")

    @cached_property
    def metrics(self) -> list[str]:
        """The names of the metrics with at least one value."""
        return self.observations.filter(pl.col("value").is_not_null())["metric"].unique(maintain_order=True).to_list()

    def declared(self, metric: str) -> Metric:
        """The declaration of a metric, by the family or by the study itself."""
        return self._declared.get(metric) or undeclared(metric)

    @cached_property
    def _declared(self) -> Mapping[str, Metric]:
        """All declared metrics: those of the study, which are in the tables, and those of the family."""
        path = self.tidy / "metrics.parquet"
        if path.is_file():
            return declare(*(Metric(**row) for row in _table(path).iter_rows(named=True)))
        return registry.get(self.family).metrics if self.family in registry.names() else {}

    def measured_for(self, given: Container[str]) -> list[str]:
        """See model.metrics.measured_for."""
        return measured_for(self._declared, given)

    @cached_property
    def primary_metrics(self) -> list[str]:
        """The primary metrics of the family that its trials gave."""
        return self.measured_for(self.metrics)

    def telling(self, what: Tells) -> list[str]:
        """The metrics that tell `what`, such as the offered rate."""
        return [metric for metric in self.metrics if self.declared(metric).tells == what]

    def titles(self, metrics: Titled) -> dict[str, str]:
        """Titles by metric, as given or as declared."""
        return dict(metrics) if isinstance(metrics, Mapping) else {m: self.declared(m).title for m in metrics}

    def counts(self) -> dict[str, int]:
        """The number of trials by outcome: ok, failed, timeout, aborted, discarded, repeated.

        Imported and disturbed trials are counted again under these names.
        """
        kept = self.trials.filter(_KEPT)
        discarded = self.trials.filter(pl.col("discarded_why").is_not_null()).height
        by_status = dict(kept.group_by("status").len().iter_rows())
        return {
            "trials": self.trials.height,
            **{status: by_status.get(status, 0) for status in (*RESULT_STATUSES, "aborted")},
            "discarded": discarded,
            "repeated": self.trials.height - kept.height - discarded,
            "disturbed": len(self.disturbed),
            "imported": int(self.trials["imported"].fill_null(False).sum()),
        }


def _table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except pl.exceptions.ComputeError as error:
        raise BenchstudyError(f"{path}: this table is damaged ({error}); run its report again") from error


def _untold(cases: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Map (target, case) to the factors whose level is unknown, because neither the output nor the import names it."""
    names = [name for name in cases.columns if name not in ("target", "case")]
    rows = (
        (row["target"], row["case"], [n for n in names if row[n] == UNKNOWN]) for row in cases.iter_rows(named=True)
    )
    return {(target, case): factors for target, case, factors in rows if factors}


def _told_apart(cases: pl.DataFrame, own: Sequence[str]) -> pl.DataFrame:
    """Append further factors of imported cases to the level of the family's last one: "iotest · rw read · bs 4KiB".

    So a page that knows only the family's own factors never confuses two cases. Factors with the same level in all
    cases are left out; they are in the id of a case.
    """
    texts = [n for n, kind in cases.schema.items() if kind in (pl.String, pl.Null) and n not in ("target", "case")]
    further = [name for name in texts if name not in own] if own else []
    varying = [name for name in further if cases[name].drop_nulls().n_unique() > 1]
    if varying:
        last = [name for name in own if name in texts and name != CLIENTS][-1]
        parts = [pl.col(last), *(pl.format(f"{name.replace('_', ' ')} {{}}", pl.col(name)) for name in varying)]
        cases = cases.with_columns(pl.concat_str(parts, separator=" · ", ignore_nulls=True).alias(last))
    return cases.drop(further)


def cases_in_order(cases: pl.DataFrame) -> pl.DataFrame:
    """Cases sorted by their levels: numeric ones by value (100KB before 1MB), the others in the study's order."""
    numeric = [name for name, kind in cases.schema.items() if kind.is_numeric()]
    by = []
    for factor in (name for name in cases.columns if name not in numeric and name != "case"):
        value = next((name for name in numeric if name.startswith(f"{factor}_")), None)
        levels = cases[factor].drop_nulls().unique(maintain_order=True).to_list()
        by.append(pl.col(value) if value else pl.col(factor).cast(pl.Enum(levels)))
    return cases.sort(*by, nulls_last=True, maintain_order=True)


def raw_files(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of one row of the trial table: name, size in bytes, sha256."""
    return orjson.loads(row["raw_files"]) if row["raw_files"] else []
