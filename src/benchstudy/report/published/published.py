"""Figures that others published (data/published/*.csv), separate from measured ones. Impossible figures are flagged.

They come from other hosts, days and tools, so nothing here compares them with a measurement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.lints import published as files
from benchstudy.lints.printed import last_digit
from benchstudy.model.errors import BenchstudyError
from benchstudy.report import human
from benchstudy.report.figures.layers import Reference
from benchstudy.report.tables.tables import MISSING, Cell, Table
from benchstudy.statistics import stats

_SHORT = {"ssd": "SSD"}


def read(path: Path, where: Mapping[str, str]) -> pl.DataFrame:
    """Rows of a published table whose columns have the given texts. Raises BenchstudyError if the file is missing."""
    if not path.is_file():
        raise BenchstudyError(f"{path}: no such table of published figures; see data/published/README.md")
    rows = pl.read_csv(path, infer_schema_length=None)
    for column, wanted in where.items():
        rows = rows.filter(pl.col(column) == wanted)
    return rows


def title(path: Path) -> str:
    """The title of the page that a published table is from: the first row's `page`, or the file's name."""
    return next((row.get("page", "") for row in files.rows(path)), "") or path.stem


def table(path: Path, name: str, *, rows: str, columns: str, where: Mapping[str, str], caption: str) -> Table:
    """A table of published means with deviation and p50, levels of `rows` down and of `columns` across.

    Impossible figures are flagged.
    """
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in read(path, where).iter_rows(named=True):
        cells.setdefault((row[rows], row[columns]), {})[row["statistic"]] = row
    down = list(dict.fromkeys(key[0] for key in cells))
    across = list(dict.fromkeys(key[1] for key in cells))
    body = tuple((Cell.text(d), *(_cell(f"{a}, {d}", cells.get((d, a))) for a in across)) for d in down)
    return Table(name, caption, (rows.capitalize(), *across), body)


def printed(text: str | None) -> Cell:
    """A cell with a figure as printed on its page; None if the page has none."""
    return Cell((text,), kind="published") if text is not None else MISSING


def beside(
    table: Table, heads: Sequence[str], ours: Mapping[str, Sequence[Cell]], order: Callable[[str], Any] | None = None
) -> Table:
    """A published table with measured columns to the right of it, row by row. Rows that are only measured follow.

    `ours` has the measured cells by row name, as many per row as `heads`. `order` is the key to sort all row names by.
    """
    theirs = {row[0].lines[0]: row[1:] for row in table.rows}
    names = [*theirs, *(name for name in ours if name not in theirs)]
    if order is not None:
        names.sort(key=order)
    nothing, no_figure = [MISSING] * (len(table.columns) - 1), [MISSING] * len(heads)
    body = [(Cell.text(name), *theirs.get(name, nothing), *ours.get(name, no_figure)) for name in names]
    published_heads = [f"Published: {head}" for head in table.columns[1:]]
    measured_heads = [f"Measured: {head}" for head in heads]
    return replace(table, columns=(table.columns[0], *published_heads, *measured_heads), rows=tuple(body))


def impossible(path: Path, *, rows: str, columns: str) -> list[str]:
    """One sentence for each impossible figure in a published table of means, deviations and medians."""
    found = []
    keys = [columns, "op", rows]
    for key, group in read(path, {}).group_by(keys, maintain_order=True):
        statistics = {row["statistic"]: row for row in group.iter_rows(named=True)}
        found += _problems(", ".join(map(str, key)), statistics)
    return found


def _cell(name: str, statistics: Mapping[str, Mapping[str, Any]] | None) -> Cell:
    if statistics is None:
        return MISSING
    mean, sd, median = (str(statistics[s]["as_printed"]) for s in ("mean", "sd", "p50"))
    lines = [f"{mean} ({sd}, p50: {median})"]
    problems = _problems(name, statistics)
    lines += ["impossible mean/median pair" for _ in problems]
    return Cell(tuple(lines), kind="published warning" if problems else "published", title=" ".join(problems))


def _problems(name: str, statistics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    mean, sd, median = (float(statistics[s]["value"]) for s in ("mean", "sd", "p50"))
    return stats.lint_summary(name, mean, sd, median, last_digit(str(statistics["mean"]["as_printed"])))


def references(path: Path, op: str, *, section: str) -> list[Reference]:
    """Published IOPS of one operation as reference lines for a figure, each with a label."""
    rows = read(path, {"op": op, "statistic": "iops", "section": section})
    return [
        Reference(value, f"published {_SHORT.get(about, about)}: {human.quantity(value, unit)}")
        for about, value, unit in rows.select("reference", "value", "unit").iter_rows()
    ]
