"""The figures of GitLab's file system page (data/published/gitlab-filesystem.csv) beside our measurements."""

from collections.abc import Sequence

import polars as pl

from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import MISSING, Cell, Table

FILE = "gitlab-filesystem.csv"
# By name: the statistic of the published fio sample, which is the end of our metric's name, too.
_FIO = {"IOPS": "iops", "Bandwidth": "bandwidth"}


def show(page: PublishedPage, results: Results | None) -> None:
    """Show the 4 KiB mix of 75 % reads and 25 % writes, and 1001 small files: published figures, then ours."""
    rows = published.read(page.folder / FILE, {})
    figures: list[tuple[str, list[Cell], list[Cell]]] = []
    metrics = [f"{op}_{statistic}" for statistic in _FIO.values() for op in ("read", "write")]
    tried = _directories(results, [*metrics, "write_time", "read_time"]) if results is not None else []
    for op in ("read", "write"):
        for name, statistic in _FIO.items():
            printed = [_reference(rows, about, op, statistic) for about in ("ssd", "spinning disk")]
            ours = [_fio(results, where, "gitlab", f"{op}_{statistic}") for where in tried]
            figures.append((f"{name}, random {op} (fio)", printed, ours))
    for op in ("write", "read"):
        printed = [_reference(rows, "small files", op, "real"), MISSING]
        ours = [_fio(results, where, "shell-loop", f"{op}_time") for where in tried]
        figures.append((f"1001 small files, {op} (shell loop)", printed, ours))
    heads = ["Published: networked SSD, sample", "Published: spinning disk, text"]
    several = len({target for target, _ in tried}) > 1
    heads += [f"Measured: {f'{target}, ' if several else ''}{directory}" for target, directory in tried]
    body = [(Cell.text(name), *printed, *ours) for name, printed, ours in figures]
    caption = "File system: published (other hardware, at most one run) and measured here (median)"
    page.show_table(Table("file-system", caption, ("Quantity", *heads), tuple(body)))


def _reference(rows: pl.DataFrame, about: str, op: str, statistic: str) -> Cell:
    """Return the cell with a figure of the fio sample or of the text, as printed."""
    found = rows.filter(
        (pl.col("reference") == about) & (pl.col("op") == op) & (pl.col("statistic") == statistic)
    ).unique("value", keep="first", maintain_order=True)
    if found.is_empty():
        return MISSING
    row = found.row(0, named=True)
    return Cell((human.quantity(row["value"], row["unit"]), f"printed: {row['as_printed']}"), kind="published")


def _directories(results: Results, metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Return (target, directory) pairs with results of the page's job or loop, in the order of the study."""
    jobs = ["gitlab", "shell-loop"]
    found = {(e.target, e.levels["directory"]) for m in metrics for e in results.estimates(m, {"job": jobs})}
    rows = results.cases.select("target", "directory").unique(maintain_order=True).iter_rows()
    return [where for where in rows if where in found]


def _fio(results: Results | None, where: tuple[str, str], job: str, metric: str) -> Cell:
    assert results is not None, "without results there is no directory"
    target, directory = where
    found = [e for e in results.estimates(metric, {"directory": directory, "job": job}) if e.target == target]
    return cells.estimate_cell(results, found[0] if found else None, "median")


SECTION = Section(
    title="File system",
    introduction=(
        "The page's example output of fio and its shell loop over small files, each from one run, and its estimate for "
        "a spinning disk. Ours are medians over trials."
    ),
    files={FILE: "GitLab: file system"},
    show=show,
    order=20,
)
