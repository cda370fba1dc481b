"""Latency histograms of several trials: histograms merge exactly, percentiles never do.

A histogram is a polars frame with the columns `lower_s`, `upper_s` (a bin holds lower <= latency < upper,
in seconds) and `count`, and the columns that identify trials, cases and operations.
"""

from collections.abc import Sequence

import polars as pl

_EDGES = ("lower_s", "upper_s")


def merge_histograms(histogram: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add up the counts of equal bins in each group of `by`. The result is sorted.

    Columns in and out: those of `by`, then lower_s, upper_s (edges in seconds) and count. Leave `trial` and `block`
    out of `by` to merge over trials. Bins that overlap, as those of two versions of a tool do, become one bin that
    holds them, so that what it says about its operations stays true.
    """
    bins = histogram.group_by([*by, *_EDGES]).agg(pl.col("count").cast(pl.Int64).sum()).sort([*by, *_EDGES])
    above, begins = pl.col("upper_s").cum_max().shift(1), pl.col("begins").cum_sum()
    begin = pl.col("lower_s") >= (above.over(by) if by else above)
    apart = bins.with_columns(begins=begin.fill_null(True)).with_columns(bin=begins.over(by) if by else begins)
    merged = apart.group_by([*by, "bin"], maintain_order=True).agg(
        pl.col("lower_s").min(), pl.col("upper_s").max(), pl.col("count").sum()
    )
    return merged.select([*by, *_EDGES, "count"])


def cumulative(histogram: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The merged histogram as a distribution: `fraction` is the share of operations that took less than `upper_s`.

    Columns: those of `by`, then lower_s, upper_s (seconds), count, cumulative, fraction (0 to 1, ends at 1).
    """
    merged = merge_histograms(histogram, by)
    running, total = pl.col("count").cum_sum(), pl.col("count").sum()
    if by:
        running, total = running.over(by), total.over(by)
    return merged.with_columns(running.alias("cumulative"), (running / total).alias("fraction"))


def quantile_interval_from_histogram(histogram: pl.DataFrame, quantile: float, by: Sequence[str]) -> pl.DataFrame:
    """The bin that holds the quantile (nearest rank) of each merged group: an interval, as wide as the bin.

    Returns one row per group: `by`, count (of all operations), lower_s, upper_s (seconds). Groups without operations
    are left out. Raises ValueError unless 0 < quantile <= 1.
    """
    if not 0 < quantile <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, got {quantile}")
    points = cumulative(histogram.filter(pl.col("count") > 0), by)
    # The smallest latency with at least this share of operations at or below it; 1e-9 forgives rounding.
    total = pl.col("cumulative").max().over(by) if by else pl.col("cumulative").max()
    reached = points.with_columns(total.alias("total")).filter(
        pl.col("cumulative") >= quantile * pl.col("total") - 1e-9
    )
    first = reached.group_by(by, maintain_order=True).first() if by else reached.head(1)
    return first.select([*by, pl.col("total").alias("count"), *_EDGES])
