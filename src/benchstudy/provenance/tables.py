"""Compares two versions of a study's tables, cell by cell."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from benchstudy.model.rounding import plural

_SHOWN = 60


@dataclass(frozen=True)
class Difference:
    """`where` is the table's file, with row and column if both versions have them; `was` and `now` are the contents."""

    where: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.where}: {self.was} in the crate, {self.now} now"


def differences(was: Mapping[str, bytes], now: Mapping[str, bytes]) -> Iterator[Difference]:
    """Differences between the CSV tables of a crate and those made here, both by name."""
    for name in sorted(was.keys() | now.keys()):
        if name not in now:
            yield Difference(name, "a table", "none")
        elif name not in was:
            yield Difference(name, "no table", "one")
        elif was[name] != now[name]:
            cells = list(_cells(name, _rows(was[name]), _rows(now[name])))
            # The same cells, written differently: quoted, or with other line endings.
            yield from cells or [Difference(name, "other bytes", "the same cells")]


def _rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(errors="replace"), newline="")))


def _cells(name: str, was: list[list[str]], now: list[list[str]]) -> Iterator[Difference]:
    heading = was[0] if was else []
    if was[:1] != now[:1]:
        yield Difference(f"{name}, heading", _columns(was), _columns(now))
        return
    if len(was) != len(now):
        yield Difference(name, _counted(was), _counted(now))
        return
    for number, (before, after) in enumerate(zip(was, now, strict=True)):
        for column, (a, b) in enumerate(zip_longest(before, after)):
            if a != b:
                title = heading[column] if column < len(heading) else f"column {column + 1}"
                row = f"row {number} ({' '.join(before[0].split())})" if before else f"row {number}"
                yield Difference(f"{name}, {row}, {title or f'column {column + 1}'}", _shown(a), _shown(b))


def _columns(rows: list[list[str]]) -> str:
    return ", ".join(map(_shown, rows[0])) if rows else "nothing"


def _counted(rows: list[list[str]]) -> str:
    return plural(max(len(rows) - 1, 0), "row")


def _shown(cell: str | None) -> str:
    if cell is None:
        return "nothing"
    text = " ".join(cell.split())
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
