"""The short answers of the page: rates and times, each beside what the published page calls fast."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.report import human
from benchstudy.report.comparisons import answers
from benchstudy.report.published import published
from benchstudy.report.results.results import Results

# The cases of the page's own command, and where the page gives examples of their rates.
OF_PAGE = {"test": "fio", "job": "gitlab"}
EXAMPLES = "Benchmarking with fio: text"
_DONE = {"read": "read", "write": "written"}
# What a loop of the shell does besides reading and writing. `echo` is part of bash, and `cat` is not.
_BESIDES = {"read": "the loop starts a process for each file", "write": "the shell itself takes it"}
_FASTER = ", so the disk may be faster"


def answered(results: Results, judged: pl.DataFrame, published_csv: Path) -> list[dict[str, Any]]:
    """Answers for `Page.show_answers`. `judged`: the table of `small_files.judge`."""
    found = [*_rates(results, published_csv), *_small_files(results, judged)]
    return [answer for answer in found if answer]


def _rates(results: Results, published_csv: Path) -> Iterator[dict[str, Any] | None]:
    """The rates of the page's own command, or those of all other jobs if it was not run."""
    jobs = results.cases.filter(pl.col("test") == OF_PAGE["test"])["job"].unique(maintain_order=True).to_list()
    if OF_PAGE["job"] not in jobs:
        for job, op in product(jobs, _DONE):
            label = f"{results.declared(f'{op}_iops').title}, {job}"
            yield answers.answer(results, label, f"{op}_iops", OF_PAGE | {"job": job}, "directory")
        return
    for op in _DONE:
        answer = answers.answer(results, f"Random {op}s", f"{op}_iops", OF_PAGE, "directory")
        labels = [example.label for example in published.references(published_csv, op, section=EXAMPLES)]
        examples = (f"{label[0].upper()}{label[1:]}." for label in labels)
        yield answer and answer | {"note": _together(answer["note"], *examples)}


def _small_files(results: Results, judged: pl.DataFrame) -> Iterator[dict[str, Any] | None]:
    """The times of 1001 small files, with the number of trials below the page's limit."""
    for (job, op), rows in judged.group_by("job", "op", maintain_order=True):
        where = {"test": "small-files", "job": str(job)}
        label = f"1001 small files {_DONE[str(op)]}, {job}"
        answer = answers.answer(results, label, f"{op}_time", where, "directory")
        notes = [_below(results, part) for _, part in rows.group_by("directory", maintain_order=True)]
        yield answer and answer | {"note": _together(answer["note"], *notes)}


def _below(results: Results, rows: pl.DataFrame) -> str:
    """How many trials of one directory were below the limit. `rows`: those of one job and operation, by target."""
    kind, scaled = "page", ""
    published_limit = limit = human.quantity(rows["page_limit_s"][0], "s")
    if rows["strict_limit_s"][0] is not None:
        kind, limit = "strict", human.quantity(rows["strict_limit_s"][0], "s")
        scaled = f" ({published_limit}, scaled by how much faster the published loop without forks was)"
    within, n = int(rows[f"within_{kind}_limit"].sum()), int(rows["n"].sum())
    if not n:  # every trial failed, which the answer's line says
        return ""
    speed = {0: "slow", n: "fast"}.get(within, "neither clearly fast nor clearly slow")
    share = rows["not_storage"][0] if rows.height == 1 else None
    besides = _BESIDES[rows["op"][0]]
    rest = f" {human.percent(share)} of the time is not due to the storage: {besides}{_FASTER}." if share else ""
    below = f"{within} of {human.plural(n, results.unit)} took less than {limit}."
    return f"{rows['directory'][0]} is {speed} by the published limit{scaled}: {below}{rest}"


def _together(*notes: str) -> str:
    return " ".join(filter(None, notes))
