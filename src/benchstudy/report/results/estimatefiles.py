"""Writes the data behind a page as CSV files, in base units, for further analysis."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from benchstudy.report.results.results import Estimate, Results
from benchstudy.report.results.trialplaces import in_order
from benchstudy.report.tables.tables import FORMULA


def write_estimates(estimates: Iterable[Estimate], path: Path, marks: Callable[[Estimate], Iterable[str]]) -> None:
    """Write one row per case and metric, with the `marks` that its figure has on the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["n", "mean", "sd", "median", "interval_low", "interval_high", "method", "note", "disturbed"]
    of_modes = ["low_n", "low", "high_n", "high"]  # empty if there is one mode
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        names_of_modes = [f"mode_{name}" for name in of_modes]
        writer.writerow(["target", "case", "metric", "unit", "results", "failed", *names, *names_of_modes, "marks"])
        for e in estimates:
            row = [e.target, e.case, e.metric, e.unit, e.results, e.failed]
            modes = [getattr(e.summary.modes, name, None) for name in of_modes]
            writer.writerow(row + [getattr(e.summary, name) for name in names] + modes + ["; ".join(marks(e))])


def write_trials(results: Results, path: Path) -> None:
    """Write one row per trial of any outcome: its values in one column per metric and unit, and its raw files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = pl.format("{} [{}]", "metric", "unit")
    given = results.observations.filter(pl.col("value").is_not_null()).select("trial", "value", metric=named)
    wide = given.pivot("metric", index="trial", values="value", aggregate_function="first", sort_columns=True)
    told = ("target", "case", "block", "trial", "status", "cause", "discarded_why", "disturbed", "set_aside")
    rows = (
        in_order(results.trials)
        .select(*told, "started", "duration_s", "raw")
        .rename({"duration_s": "trial took [s]", "raw": "raw files in"})
    )
    rows = rows.join(wide, on="trial", how="left", maintain_order="left")
    rows.with_columns(pl.col(pl.String).str.replace(FORMULA, "'$0")).write_csv(path)
