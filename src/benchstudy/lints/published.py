"""Published tables (data/published/*.csv) as material for lints. Pure but for reading the files."""

import csv
from collections.abc import Mapping
from pathlib import Path

from benchstudy.lints.model import Ceiling, Figure, Group, Material
from benchstudy.model.errors import BenchstudyError

CEILINGS = "ceilings.csv"
_SEE = "see data/published/README.md"
NOT_LEVELS = ("page", "section", "statistic", "value", "unit", "as_printed", "source_line", "relation", "status")


def read_all(path: Path) -> list[Material]:
    """One published table, or all tables of a folder. Raises BenchstudyError when there is none."""
    tables = [path] if path.is_file() else sorted(p for p in path.glob("*.csv") if p.name != CEILINGS)
    if not tables:
        raise BenchstudyError(f"{path}: there is no published table; {_SEE}")
    return [read(table) for table in tables]


def read(path: Path) -> Material:
    """One table, with one row per published figure; the ceilings of its hardware come from ceilings.csv beside it.

    Raises BenchstudyError for a file without figures or without the columns section, statistic, value, unit,
    as_printed, and for a value or line that is no number.
    """
    table = rows(path)
    missing = {"section", "statistic", "value", "unit", "as_printed"} - set(table[0] if table else ())
    if missing:
        lacks = f"no column {', '.join(sorted(missing))}" if table else "no figures"
        raise BenchstudyError(f"{path}: {lacks}; {_SEE}")
    figures: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Figure]] = {}
    for number, row in enumerate(table, start=1):
        levels = tuple((name, text) for name, text in row.items() if name not in NOT_LEVELS and text)
        try:
            figures.setdefault((row["section"], levels), {})[row["statistic"]] = _figure(row)
        except ValueError as error:
            raise BenchstudyError(f"{path}, row {number}: value or source_line: {error}; {_SEE}") from error
    groups = tuple(Group(section, dict(levels), of_group) for (section, levels), of_group in figures.items())
    pages = {row.get("page", "") for row in table}
    return Material(path.name, "published", groups, groups, _ceilings(path.parent / CEILINGS, pages))


def _figure(row: Mapping[str, str]) -> Figure:
    return Figure(
        float(row["value"]) if row["value"] else None,
        row["unit"],
        row["as_printed"],
        row.get("relation") or "=",
        row.get("status") or "ok",
        int(row["source_line"]) if row.get("source_line") else None,
    )


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
