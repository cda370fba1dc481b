"""Describes panels in words, for readers who do not see them, with the medians and intervals of the tables."""

import polars as pl

from benchstudy.report import human

_MOST_SERIES = 6  # a sentence with more is too long to listen to


def along(estimates: pl.DataFrame, x_unit: str, y_unit: str) -> str:
    """The medians of each series at the lowest and the highest x. `estimates`: series, x, y."""
    said = []
    for (series,), part in estimates.sort("x", maintain_order=True).group_by(["series"], maintain_order=True):
        ends = [(_at(x, x_unit), human.quantity(y, y_unit)) for x, y in part.select("x", "y").iter_rows()]
        first, last = ends[0], ends[-1]
        until = f" to {last[1]} at {last[0]}" if len(ends) > 1 else ""
        said.append(f"{series}: {first[1]} at {first[0]}{until}")
    return _sentence("Medians", said)


def beside(estimates: pl.DataFrame, unit: str) -> str:
    """The median of each series with its interval, lowest first. `estimates`: series, x (median), low, high."""
    rows = estimates.sort("x", maintain_order=True).select("series", "x", "low", "high").iter_rows()
    said = []
    for series, median, low, high in rows:
        interval = f" ({human.estimate(median, low, high, unit)[1]})" if low is not None else ""
        said.append(f"{series}: {human.quantity(median, unit)}{interval}")
    return _sentence("Medians", said)


def shares(steps: pl.DataFrame) -> str:
    """The time within which half of the operations of each series completed. `steps`: series, x (s), fraction."""
    half = steps.filter(pl.col("fraction") >= 0.5).group_by("series", maintain_order=True).agg(pl.col("x").min())
    return _sentence(
        "Half of the operations took at most", [f"{s}: {human.quantity(x, 's')}" for s, x in half.iter_rows()]
    )


def over_time(lines: pl.DataFrame, unit: str) -> str:
    """The median of each line over the time shown. `lines`: series, line, y in `unit`."""
    middle = lines.group_by("series", "line", maintain_order=True).agg(pl.col("y").median()).drop_nulls("y")
    said = [f"{' '.join(filter(None, (series, line)))}: {human.quantity(y, unit)}" for series, line, y in middle.rows()]
    return _sentence("Medians over time", said)


def ratios(rows: pl.DataFrame) -> str:
    """The ratio of each row with its interval. `rows`: row, series, x, low, high."""
    said = [
        f"{row}, {series}: {' '.join(human.ratio(x, low, high))}"
        for row, series, x, low, high in rows.select("row", "series", "x", "low", "high").iter_rows()
    ]
    return _sentence("Ratios", said)


def _at(x: float, unit: str) -> str:
    return human.level(human.quantity(x, unit))


def _sentence(what: str, said: list[str]) -> str:
    return f"{what}: {human.listed(said, _MOST_SERIES, '; ')}." if said else ""
