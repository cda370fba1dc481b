"""Draws fewer points if there are too many to distinguish. Each point is still a trial, and links to it."""

from collections.abc import Sequence

import polars as pl

# Per panel. A point takes about 400 bytes of a page, drawn and as data.
MOST_POINTS = 200
_FEWEST_OF_A_CASE = 5


def thinned(points: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """At most `MOST_POINTS` of the rows, with all columns.

    `points`: y, trial, and the columns `by`, which identify cases. The lowest, the highest, and others in equal steps
    of rank are kept for each case, so that its quantiles stay the same. At least five are kept per case. Rows with a
    true value in the column `stays`, if there is one, are always kept. The order of the rows does not matter.
    """
    if "stays" in points.columns:
        chosen = thinned(points.filter(~pl.col("stays")).drop("stays"), by)
        return pl.concat([points.filter("stays").drop("stays"), chosen])
    if points.height <= MOST_POINTS:
        return points
    kept = max(_FEWEST_OF_A_CASE, MOST_POINTS // points.select(by).n_unique())
    ranked = points.sort("y", "trial")
    rank, last = pl.int_range(pl.len()), pl.len() - 1
    step = (rank * (kept - 1)) // last.clip(1)
    before = ((rank - 1) * (kept - 1)) // last.clip(1)
    return ranked.filter(((rank == 0) | (step != before)).over(by))
