"""The short answers of the page: rates and times, each beside what the published page calls fast."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.report import human
from benchstudy.report.comparisons import answers
from benchstudy.report.published import published
from benchstudy.report.results.results import Results

_RATES_OF = "Benchmarking with fio: text"
_OPS = {"read": ("reads", "read"), "write": ("writes", "written")}


def answered(results: Results, judged: pl.DataFrame, published_csv: Path) -> list[dict[str, Any]]:
    """Answers for `Page.show_answers`. `judged`: the table of `small_files.judge`."""
    found = [*_rates(results, published_csv), *_small_files(results, judged)]
    return [answer for answer in found if answer]


def _rates(results: Results, published_csv: Path) -> Iterator[dict[str, Any] | None]:
    """The rates of the page's own command."""
    for op, (ops, _) in _OPS.items():
        where = {"test": "fio", "job": "gitlab"}
        answer = answers.answer(results, f"Random {ops}", f"{op}_iops", where, "directory")
        examples = published.references(published_csv, op, section=_RATES_OF)
        yield answer and answer | {"note": _together(answer["note"], *(f"{one.label}." for one in examples))}


def _small_files(results: Results, judged: pl.DataFrame) -> Iterator[dict[str, Any] | None]:
    """The times of 1001 small files, with the number of trials below the page's limit."""
    for (job, op), rows in judged.group_by("job", "op", maintain_order=True):
        where = {"test": "small-files", "job": str(job)}
        label = f"1001 small files {_OPS[str(op)][1]}, {job}"
        answer = answers.answer(results, label, f"{op}_time", where, "directory")
        kind, scaled = "page", ""
        if rows["strict_limit_s"][0] is not None:
            kind, scaled = "strict", ", scaled to a loop without forks"
        limit = rows[f"{kind}_limit_s"][0]
        within, n = rows[f"within_{kind}_limit"].sum(), human.plural(rows["n"].sum(), "trial")
        below = f"{within} of {n} took less than {limit:.3g} s, the published limit of a fast file system{scaled}."
        share = rows["not_storage"][0] if rows.height == 1 else None
        rest = f"{human.percent(share)} of the time is not due to the storage: it starts processes." if share else ""
        yield answer and answer | {"note": _together(answer["note"], below, rest)}


def _together(*notes: str) -> str:
    return " ".join(note[0].upper() + note[1:] for note in notes if note)
