"""Results of a study with many targets, as its family's page shows them: one value per target instead of per trial.

A page of a thousand targets cannot show the trials of each. So a target takes the place of a trial: its value is the
median of its trials' values, an estimate is a median over targets, and two cases are compared target by target. Code
that shows results needs no change for this. Each point links to its target's page, which has the trials.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import polars as pl

from benchstudy.report import human
from benchstudy.report.results.results import Estimate, Results, cases_in_order
from benchstudy.report.results.trialplaces import TrialPlaces, target_page

# The name of the single target that stands for all.
ALL = "all-targets"
# So many causes per case are listed; others are merged, because a cause may name its host.
_MOST_CAUSES = 5
_KEY = ("target", "case")


class OverTargets(Results):
    """The results `measured`, with one value per target.

    Tables have the same columns as those of `Results`. `target` is the same for all rows. `trial` names a target and a
    case. `block` is the target's number in the study, so that two cases of a target are a pair.
    """

    unit = "target"

    def __init__(self, measured: Results):
        self.measured = measured
        self.tidy, self.study, self.family, self.untold = measured.tidy, measured.study, measured.family, {}
        cases = measured.cases.unique("case", keep="first", maintain_order=True)
        self.cases = cases_in_order(cases.with_columns(target=pl.lit(ALL)))
        self.trials = self._of_targets()
        self.observations = self._medians()

    @property
    def of_trials(self) -> Results:
        """See `Results`."""
        return self.measured

    def _read(self, name: str) -> pl.DataFrame:
        raise AssertionError("these tables are made from other results")

    # -- tables --------------------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> pl.DataFrame:
        """A table of `trial`, `block`, and the `target` and `case` that they stand for."""
        numbers = {target: number for number, target in enumerate(self.measured.targets, start=1)}
        of_case = {case: number for number, case in enumerate(self.cases["case"], start=1)}
        pairs = self.measured.counted.select(_KEY).unique(maintain_order=True)
        block = pl.col("target").replace_strict(numbers, default=None, return_dtype=pl.Int64)
        case = pl.col("case").replace_strict(of_case, default=None, return_dtype=pl.Int64)
        return pairs.with_columns(block=block, trial=pl.format("{}.{}", "target", case))

    @cached_property
    def target_of(self) -> dict[str, str]:
        """The target that each `trial` stands for."""
        return dict(self.names.select("trial", "target").iter_rows())

    def _of_targets(self) -> pl.DataFrame:
        """One row per target and case with a result."""
        counted = self.measured.counted
        failed = pl.col("status") != "ok"
        first = ("position", "argv", "tool", "tool_version", "tool_sha256", "study_sha256", "instrument", "verified")
        disturbed = pl.col("disturbed")
        rows = (
            counted.sort("started", "trial", nulls_last=True)
            .group_by(_KEY, maintain_order=True)
            .agg(
                *(pl.col(name).drop_nulls().first() for name in first),
                pl.col("started").min(),
                pl.col("duration_s", "load_before", "load_after").median(),
                pl.col("raw").first().str.replace(r"/[^/]*$", ""),
                pl.when(failed.all()).then(pl.col("status").first()).otherwise(pl.lit("ok")).alias("status"),
                pl.col("cause", "cause_kind").filter(failed).first(),
                pl.when(pl.col("session").null_count() == 0).then(pl.col("session").unique().sort().str.join(" ")),
                pl.col("imported").fill_null(False).any(),
                # Half of the values can move a median.
                pl.when(disturbed.count() > 0).then(disturbed.sum() * 2 >= pl.len()).alias("disturbed"),
                pl.col("disturbance").filter(disturbed.fill_null(False)).first(),
            )
        )
        ok = pl.col("status") == "ok"
        often = pl.len().over("case", "cause")
        rows = rows.with_columns(
            pl.when(~ok).then("cause").alias("cause"),
            pl.when(~ok).then("cause_kind").alias("cause_kind"),
            # Cases of a target may be compared if they were measured in the same sessions, whichever these are.
            pl.when(pl.col("session") == pl.col("session").mode().sort().first().over("target"))
            .then(pl.lit(ALL))
            .otherwise("session")
            .alias("session"),
            discarded_why=pl.lit(None, pl.String),
            set_aside=pl.lit(None, pl.String),
            raw_files=pl.lit(None, pl.String),
        )
        rare = often.rank("dense", descending=True).over("case") > _MOST_CAUSES
        rows = rows.with_columns(pl.when(ok | ~rare).then("cause").otherwise(pl.lit("for another cause")))
        rows = rows.join(self.names, on=_KEY, how="left", maintain_order="left").with_columns(target=pl.lit(ALL))
        return rows.select(name for name in self.measured.trials.columns if name in rows.columns).sort("block", "case")

    def _medians(self) -> pl.DataFrame:
        keys = pl.col(*_KEY, "metric", "unit")
        # As categories, because grouping copies its keys, and those of a thousand targets take hundreds of MB as texts.
        rows = self.measured.usable.select(keys.cast(pl.Categorical), "value")
        medians = rows.group_by(keys, maintain_order=True).agg(pl.col("value").median())
        of_target = medians.with_columns(keys.cast(pl.String))
        found = of_target.join(self.names, on=_KEY, maintain_order="left").with_columns(
            study=pl.lit(self.study), family=pl.lit(self.family), status=pl.lit("ok"), target=pl.lit(ALL)
        )
        lost = self.trials.filter(pl.col("status") != "ok").with_columns(
            study=pl.lit(self.study), family=pl.lit(self.family), metric=pl.lit("trial"), unit=pl.lit("1"),
            value=pl.lit(None, pl.Float64),
        )  # fmt: skip
        columns = self.measured.observations.columns
        return pl.concat([found.select(columns), lost.select(columns)], how="vertical_relaxed")

    def scan(self, name: str) -> pl.LazyFrame | None:
        """The table `name` of one trial per target and case: the one nearest to the target's median."""
        rows = self.measured.scan(name)
        if rows is None:
            return None
        own = rows.drop("target", "block").rename({"trial": "own"})
        chosen = self._nearest.rename({"trial": "own"}).drop("case").lazy()
        found = own.join(chosen, on="own", maintain_order="left")
        front = ("target", "case", "block", "trial")
        return found.rename({"name": "trial"}).drop("own").select(*front, pl.exclude(front))

    def _of_all_trials(self, name: str) -> pl.LazyFrame | None:
        """See `Results`. Histograms can be merged, so all trials of all targets take part."""
        rows = self.measured.scan(name)
        return None if rows is None else rows.with_columns(target=pl.lit(ALL))

    @cached_property
    def _nearest(self) -> pl.DataFrame:
        """One `trial` per target and case: the one whose primary metric is nearest to the median."""
        order = {metric: place for place, metric in enumerate(self.primary_metrics)}
        rank = pl.col("metric").replace_strict(order, default=len(order), return_dtype=pl.Int64)
        value = pl.col("value")
        ranked = self.measured.usable.with_columns(rank=rank)
        ranked = ranked.filter(pl.col("rank") == pl.col("rank").min().over(_KEY))
        ranked = ranked.with_columns(far=(value - value.median().over(*_KEY, "metric")).abs())
        nearest = ranked.sort("far", "trial").unique(_KEY, keep="first", maintain_order=True)
        named = self.names.rename({"trial": "name"})
        return nearest.select(*_KEY, "trial").join(named, on=_KEY).with_columns(target=pl.lit(ALL))

    # -- how they are shown --------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> TrialPlaces:
        """Where each is listed: with its case, on its target's page."""
        files = {trial: target_page(self.family, target) for trial, target in self.target_of.items()}
        anchors = {trial: self.anchors[ALL, case] for trial, case in self.names.select("trial", "case").iter_rows()}
        return TrialPlaces(self.family, "apart", files, anchors)

    def place_in_figure(self) -> tuple[str, pl.Expr]:
        """See `Results`."""
        numbers = dict(enumerate(self.measured.targets, start=1))
        return "target", pl.col("block").replace_strict(numbers, default="–", return_dtype=pl.String)

    def spanned(self, estimate: Estimate) -> tuple[Sequence[float], str]:
        """See `Results`: the lowest and the highest value of all trials on all targets."""
        low, high, count = self._ends[estimate.case, estimate.metric]
        return (low, high), human.plural(count, "trial")

    @cached_property
    def _ends(self) -> dict[tuple[str, str], tuple[float, float, int]]:
        value = pl.col("value")
        rows = self.measured.usable.group_by("case", "metric").agg(value.min(), value.max().alias("high"), pl.len())
        return {(case, metric): (low, high, count) for case, metric, low, high, count in rows.iter_rows()}


class OneTarget(Results):
    """The part of `measured` that belongs to one target: its `trials`, `observations` and `cases`."""

    def __init__(self, measured: Results, trials: pl.DataFrame, observations: pl.DataFrame, cases: pl.DataFrame):
        self.tidy, self.study, self.family = measured.tidy, measured.study, measured.family
        self.trials, self.observations, self.cases = trials, observations, cases
        self.target = cases["target"][0]
        self.untold = {key: factors for key, factors in measured.untold.items() if key[0] == self.target}
        self.__dict__["_declared"] = measured._declared  # read only once

    def _of_all_trials(self, name: str) -> pl.LazyFrame | None:
        """See `Results`. Reads the target's part of the file only, because there may be a thousand targets."""
        rows = super()._of_all_trials(name)
        return None if rows is None else rows.filter(pl.col("target") == self.target)

    @cached_property
    def places(self) -> TrialPlaces:
        """Where each trial is listed: on the target's own page, or on a further part of it."""
        return TrialPlaces(self.family, "linked", {})


def each_target(measured: Results) -> Iterator[OneTarget]:
    """Yield the results of each target, in the study's order."""
    trials, observations = map(_of_targets, (measured.trials, measured.observations))
    no_trials, no_observations = measured.trials.clear(), measured.observations.clear()
    for target, cases in _of_targets(measured.cases).items():
        yield OneTarget(measured, trials.get(target, no_trials), observations.get(target, no_observations), cases)


def _of_targets(table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of each target, by first appearance. They are slices: copies would take as much memory again."""
    order = {target: place for place, target in enumerate(table["target"].unique(maintain_order=True))}
    runs = table["target"].rle().struct.unnest()
    if runs.height > len(order):
        table = table.sort(pl.col("target").replace_strict(order), maintain_order=True)
        runs = table["target"].rle().struct.unnest()
    starts = runs["len"].cum_sum() - runs["len"]
    return {target: table.slice(start, rows) for start, rows, target in zip(starts, *runs, strict=True)}


def as_shown(measured: Results) -> Results:
    """A family's results as its page shows them: one value per target if there are many targets."""
    return OverTargets(measured) if measured.has_many_targets else measured
