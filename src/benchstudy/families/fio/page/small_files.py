"""Judgement of the naive test with 1001 files: by the page's limit, and by a stricter limit from its figures."""

from pathlib import Path

import polars as pl

OPS = ("write", "read")
_CASE = ("target", "directory", "job")


def limits(published: Path) -> tuple[float, float]:
    """Return (page, strict), limits in seconds for one operation on 1001 files.

    `page`: the page's upper limit for a good file system, for the shell loop.
    `strict`: the limit of the run without a fork. The page tolerates page / read times the example's time of its
    slowest loop, which reads. `strict` applies the same tolerance to the published loop without a fork, which writes.
    The limit for reading back is the same as for writing.
    """
    rows = pl.read_csv(published).filter(pl.col("reference") == "small files")

    def value(statistic: str, op: str | None) -> float:
        which = pl.col("op").is_null() if op is None else pl.col("op") == op
        return rows.filter(which & (pl.col("statistic") == statistic))["value"].item()

    page = value("limit", None)
    return page, value("real", "write") * page / value("real", "read")


def judge(observations: pl.DataFrame, cases: pl.DataFrame, published: Path) -> pl.DataFrame:
    """Judge the tidy tables, and return one row per target, directory, job and op.

    `published`: the path of `data/published/gitlab-filesystem.csv`.
    Columns: target, directory, job, op, n (trials with a value), failed (trials without), median_s,
    page_limit_s, within_page_limit (trials under it), strict_limit_s and within_strict_limit (null for the
    shell loop, which mostly measures forks), not_storage (share of the shell loop's median that the run without
    forks does not need; null unless both were measured and each trial of the shell loop was slower than all of those).
    """
    page_limit, strict_limit = limits(published)
    tests = cases.filter(pl.col("test") == "small-files").select("case", *_CASE)
    metrics = pl.DataFrame({"metric": [f"{op}_time" for op in OPS], "op": list(OPS)})
    # A failed trial has one row without a metric and a value. It counts as a failure of each operation.
    values = observations.join(metrics, on="metric").select("target", "case", "op", "value")
    failures = observations.filter(pl.col("value").is_null()).select("target", "case", "value")
    rows = pl.concat([values, failures.join(metrics.select("op"), how="cross").select(values.columns)])
    strict = pl.when(pl.col("job") == "no-fork")
    judged = (
        rows.join(tests, on=["target", "case"])
        .group_by(*_CASE, "op")
        .agg(
            pl.col("value").count().cast(pl.Int64).alias("n"),
            pl.col("value").is_null().sum().cast(pl.Int64).alias("failed"),
            pl.col("value").median().alias("median_s"),
            pl.col("value").min().alias("fastest_s"),
            pl.col("value").max().alias("slowest_s"),
            (pl.col("value") < page_limit).sum().cast(pl.Int64).alias("within_page_limit"),
            (pl.col("value") < strict_limit).sum().cast(pl.Int64).alias("within_strict_limit"),
        )
        .with_columns(
            pl.lit(page_limit).alias("page_limit_s"),
            strict.then(strict_limit).alias("strict_limit_s"),
            strict.then(pl.col("within_strict_limit")).alias("within_strict_limit"),
        )
    )
    floor = judged.filter(pl.col("job") == "no-fork").select(
        "target",
        "directory",
        "op",
        pl.col("median_s").alias("floor_s"),
        pl.col("slowest_s").alias("ceiling_s"),
        pl.lit("shell-loop").alias("job"),
    )
    shown = ("n", "failed", "median_s", "page_limit_s", "within_page_limit", "strict_limit_s")
    return (
        judged.join(floor, on=[*_CASE, "op"], how="left")
        .with_columns(
            pl.when(pl.col("fastest_s") > pl.col("ceiling_s"))
            .then(1 - pl.col("floor_s") / pl.col("median_s"))
            .alias("not_storage")
        )
        .sort([*_CASE, "op"], descending=[False, False, True, True])
        .select(*_CASE, "op", *shown, "within_strict_limit", "not_storage")
    )
