"""Fewer points than trials, where nobody could tell so many apart; each still is a trial, and leads to it."""

from collections.abc import Sequence

import polars as pl

# Of a panel. A point takes some 400 bytes of a page, drawn and as data.
MOST_POINTS = 200
_FEWEST_OF_A_CASE = 5


def thinned(points: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """At most `MOST_POINTS` of the rows; columns as they are.

    `points`: y, trial, and the columns `by` that tell cases apart. Of each case the least, the greatest, and others in
    equal steps of rank, so that its quantiles stay where they were; five at least, however many cases there are. Where
    there is a column `stays`, so do the rows in which it is true. The choice does not depend on the order of the rows.
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
