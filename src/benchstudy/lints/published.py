"""Published tables (data/published/*.csv) as material for lints. Pure but for reading the files."""

import csv
from collections.abc import Mapping
from pathlib import Path

from benchstudy.lints.model import Ceiling, Figure, Group, Material
from benchstudy.model.errors import BenchstudyError

CEILINGS = "ceilings.csv"
NOT_LEVELS = ("page", "section", "statistic", "value", "unit", "as_printed", "source_line", "relation", "status")


def read_all(path: Path) -> list[Material]:
    """One published table, or all tables of a folder. Raises BenchstudyError when there is none."""
    tables = [path] if path.is_file() else sorted(p for p in path.glob("*.csv") if p.name != CEILINGS)
    if not tables:
        raise BenchstudyError(f"{path}: there is no published table; see data/published/README.md")
    return [read(table) for table in tables]


def read(path: Path) -> Material:
    """One table, with one row per published figure; the ceilings of its hardware come from ceilings.csv beside it.

    Raises BenchstudyError for a file without the columns section, statistic, value, unit, as_printed.
    """
    rows = _rows(path)
    missing = {"section", "statistic", "value", "unit", "as_printed"} - set(rows[0] if rows else ())
    if missing:
        raise BenchstudyError(f"{path}: no column {', '.join(sorted(missing))}; see data/published/README.md")
    figures: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Figure]] = {}
    for row in rows:
        levels = tuple((name, text) for name, text in row.items() if name not in NOT_LEVELS and text)
        figures.setdefault((row["section"], levels), {})[row["statistic"]] = _figure(row)
    groups = tuple(Group(section, dict(levels), of_group) for (section, levels), of_group in figures.items())
    pages = {row.get("page", "") for row in rows}
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
    rows = [row for row in (_rows(path) if path.is_file() else []) if row["page"] in pages]
    known = ("page", "op", "quantity", "value", "unit", "as_printed", "source")
    return tuple(
        Ceiling(
            row["op"],
            float(row["value"]),
            f"{row['as_printed']} ({row['source']})",
            {name: text for name, text in row.items() if name not in known and text},
        )
        for row in rows
        if row["quantity"] == "throughput"
    )


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise BenchstudyError(f"{path}: cannot be read: {error.strerror}; see data/published/README.md") from error
