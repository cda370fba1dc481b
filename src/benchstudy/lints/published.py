"""Published tables (data/published/*.csv) as material for lints. Pure but for reading the files."""

import csv
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchstudy.lints.model import Ceiling, Figure, Group, Material
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.units import base_of

CEILINGS = "ceilings.csv"
_SEE = "see data/published/README.md"
NOT_LEVELS = ("page", "section", "statistic", "value", "unit", "as_printed", "source_line", "relation", "status")
_Key = tuple[str, str, tuple[tuple[str, str], ...]]  # page, section and levels


def read_all(path: Path) -> list[Material]:
    """One published table, or all tables of a folder. Raises BenchstudyError when there is none."""
    tables = [path] if path.is_file() else sorted(p for p in path.glob("*.csv") if p.name != CEILINGS)
    if not tables:
        raise BenchstudyError(f"{path}: there is no published table; {_SEE}")
    return [read(table) for table in tables]


def read(path: Path) -> Material:
    """One table, with one row per published figure; the ceilings of its hardware come from ceilings.csv beside it.

    Raises BenchstudyError for a file without figures or without the columns section, statistic, value, unit,
    as_printed, for a value or line that is no number, for a unit like ms, and for two rows of one figure.
    """
    table = rows(path)
    missing = {"section", "statistic", "value", "unit", "as_printed"} - set(table[0] if table else ())
    if missing:
        lacks = f"no column {', '.join(sorted(missing))}" if table else "no figures"
        raise BenchstudyError(f"{path}: {lacks}; {_SEE}")
    figures: dict[_Key, dict[str, Figure]] = {}
    seen: dict[tuple[_Key, str], int] = {}
    for number, row in enumerate(table, start=1):
        levels = tuple((name, text) for name, text in row.items() if name not in NOT_LEVELS and text)
        key, statistic = (row.get("page", ""), row["section"], levels), row["statistic"]
        if (first := seen.setdefault((key, statistic), number)) != number:
            raise BenchstudyError(
                f"{path}, row {number}: has the section, statistic and levels of row {first}: add a column that tells "
                f"them apart, or leave one out; {_SEE}"
            )
        try:
            figures.setdefault(key, {})[statistic] = _figure(row)
        except ValueError as error:
            raise BenchstudyError(f"{path}, row {number}: {error}; {_SEE}") from error
    groups = tuple(Group(section, dict(levels), of_group) for (_, section, levels), of_group in figures.items())
    pages = {row.get("page", "") for row in table}
    return Material(path.name, "published", groups, groups, _ceilings(path.parent / CEILINGS, pages))


def _figure(row: Mapping[str, str]) -> Figure:
    """Raises ValueError for a value or line that is no number, and for a unit that is no base unit."""
    try:
        value = float(row["value"]) if row["value"] else None
        line = int(row["source_line"]) if row.get("source_line") else None
    except ValueError as error:
        raise ValueError(f"value or source_line: {error}") from error
    if value is not None and not math.isfinite(value):
        raise ValueError(f"value: {row['value']} is not a number: leave it empty")
    base = row["unit"]
    with suppress(ValueError):  # a unit of one's own, such as points, is its own base
        _, base = base_of(row["unit"])
    if base != row["unit"]:
        raise ValueError(f"unit: {row['unit']} is not a base unit: write the value in {base}")
    return Figure(value, row["unit"], row["as_printed"], row.get("relation") or "=", row.get("status") or "ok", line)


def _ceilings(path: Path, pages: set[str]) -> tuple[Ceiling, ...]:
    of_pages = [row for row in (rows(path) if path.is_file() else []) if row["page"] in pages]
    known = ("page", "op", "quantity", "value", "unit", "as_printed", "source")
    return tuple(
        Ceiling(
            row["op"],
            float(row["value"]),
            f"{row['as_printed']} ({row['source']})",
            {name: text for name, text in row.items() if name not in known and text},
        )
        for row in of_pages
        if row["quantity"] == "throughput"
    )


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table by column, as they are written; a missing cell is empty.

    Raises BenchstudyError for a file that cannot be read, or has more cells in a row than columns.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            found = list(csv.DictReader(file, restval=""))
    except OSError as error:
        raise BenchstudyError(f"{path}: cannot be read: {error.strerror}; {_SEE}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BenchstudyError(f"{path}: is not a CSV file in UTF-8: {error}; {_SEE}") from error
    for number, row in enumerate(found, start=1):
        if None in row:
            raise BenchstudyError(f"{path}, row {number}: more cells than columns; put a text with a comma into quotes")
    return found
