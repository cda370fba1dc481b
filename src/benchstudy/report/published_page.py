"""Every published table beside what a study measured of the same kind: one page a study, no verdict between the two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from benchstudy import lints
from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.families.http_concurrency.page.published import Published
from benchstudy.families.load_test.page.load import LoadTest
from benchstudy.families.load_test.page.published import LoadPublished
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.families.log_write.page.published import LogPublished
from benchstudy.lints import Finding
from benchstudy.model import paths
from benchstudy.model.units import Size
from benchstudy.report import cells, human, lint_list, published, sessions
from benchstudy.report.exhibits import Exhibits, show
from benchstudy.report.results import Estimate, Results
from benchstudy.report.tables import MISSING, Cell, Table

# File, and what its page is called here.
PAGES = {
    "mattermost-storage.csv": "Mattermost: backing storage",
    "gitlab-filesystem.csv": "GitLab: file system",
    "filestash-http.csv": "Filestash: tables",
    "filestash-ab.csv": "Filestash: transcripts of ab",
    "tessera.csv": "Tessera: storage performance",
    "mattermost-v9.11-v10.0.csv": "Mattermost: v9.11.0 against v10.0.0-rc2",
}
# A published statistic of fio's sample to our metric.
_FIO = {
    "IOPS": ("iops", "{op}_iops"),
    "Bandwidth": ("bandwidth", "{op}_bandwidth"),
}
# Of a transcript, what its reader looks for; `figures` has the rest.
_TRANSCRIPT = {
    "command_concurrency": "Connections asked for (command)",
    "concurrency": "Connections (report)",
    "requests": "Requests",
    "errors": "Failed requests",
    "keepalive_requests": "Kept alive",
    "duration": "Time taken",
    "throughput": "Requests a second",
    "time_per_request": "Time per request",
    "latency_p50": "50 % within",
    "latency_p90": "90 % within",
    "latency_p99": "99 % within",
    "latency_p100": "Longest request",
    "server_peak_memory": "Peak memory of the server",
}


class PublishedPage(Exhibits):
    """`tidy` is the folder of all families' tables; what a family did not measure stands there as published only."""

    def __init__(self, *, study: str, tidy: str | Path, output: str | Path):
        super().__init__(study=study, output=output)
        self._tidy = self.root / tidy
        self._folder = paths.published(self.root)

    def _results(self, family: str) -> Results | None:
        folder = self._tidy / family
        return Results(folder, study=self.study, family=family) if (folder / "cases.parquet").is_file() else None

    # -- findings ----------------------------------------------------------------------------------------------------

    @cached_property
    def _found(self) -> list[Finding]:
        study = lint_list.declared(self.root, self.study)
        return lints.lint(self._folder, study.acknowledge if study else ())

    def summary(self) -> None:
        """How many findings each page has."""
        caption = "Findings on the published pages, by what they say of a figure"
        self.show_table(lint_list.counts(self._found, list(PAGES.items()), "lints", caption))

    def findings(self, file: str) -> None:
        own = [f for f in self._found if f.where.startswith(f"{file}:")]
        nearer = [replace(f, where=f.where.removeprefix(f"{file}: ")) for f in own]
        show(lint_list.section(nearer, level=4))

    # -- tables ------------------------------------------------------------------------------------------------------

    def storage(self) -> None:
        """Time of one file, mean (± deviation, p50), by size: the page's backends, then ours."""
        results = self._results("file_size")
        for op in ("write", "read"):
            table = published.table(
                self._folder / "mattermost-storage.csv",
                f"storage-{op}",
                rows="size",
                columns="backend",
                where={"op": op},
                caption=f"Time of one file, {op}: published (other hardware, no number of repetitions), measured here",
            )
            self.show_table(beside(table, *_by_size(results, op), _size_order))

    def file_system(self) -> None:
        """fio's 75 % / 25 % mix of 4 KiB, and 1001 small files: the page's references, then our directories."""
        results, rows = self._results("fio"), published.read(self._folder / "gitlab-filesystem.csv", {})
        figures: list[tuple[str, list[Cell], list[Cell]]] = []
        metrics = [metric.format(op=op) for _, metric in _FIO.values() for op in ("read", "write")]
        tried = _directories(results, [*metrics, "write_time", "read_time"]) if results is not None else []
        for op in ("read", "write"):
            for name, (statistic, metric) in _FIO.items():
                printed = [_reference(rows, about, op, statistic) for about in ("ssd", "spinning disk")]
                ours = [_fio(results, where, "gitlab", metric.format(op=op)) for where in tried]
                figures.append((f"{name}, random {op} (fio)", printed, ours))
        for op in ("write", "read"):
            printed = [_reference(rows, "small files", op, "real"), MISSING]
            ours = [_fio(results, where, "shell-loop", f"{op}_time") for where in tried]
            figures.append((f"1001 small files, {op} (shell loop)", printed, ours))
        heads = ["Published: networked SSD, sample", "Published: spinning disk, text"]
        several = len({target for target, _ in tried}) > 1
        heads += [f"Measured: {f'{target}, ' if several else ''}{directory}" for target, directory in tried]
        body = [(Cell.text(name), *printed, *ours) for name, printed, ours in figures]
        caption = "File system: published (other hardware, one run), median measured here"
        self.show_table(Table("file-system", caption, ("Quantity", *heads), tuple(body)))

    def http(self) -> None:
        """The page's three tables; ours beside them only where the same server was measured."""
        results = self._results("http_concurrency")
        load: Any = HttpLoad(results) if results is not None else SimpleNamespace(sweeps=lambda **_: ())
        tables = Published(self._folder, load)
        self.say(tables.apart())
        self.show_tables([_elsewhere(t, "http_concurrency") for t in tables.tables()], "Nothing is published.")
        rows = published.read(self._folder / "filestash-ab.csv", {})
        across = rows["section"].unique(maintain_order=True).to_list()
        printed = {(row["statistic"], row["section"]): str(row["as_printed"]) for row in rows.iter_rows(named=True)}
        body = [
            (Cell.text(name), *(_printed(printed.get((statistic, section))) for section in across))
            for statistic, name in _TRANSCRIPT.items()
        ]
        caption = "Transcripts of ab as printed, published: one run each on a laptop, static file"
        self.show_table(Table("transcripts", caption, ("Figure", *across), tuple(body)))

    def log(self) -> None:
        """QPS by backend: as printed, and our log of the same kind that took most; the page's boxes below."""
        results = self._results("log_write")
        load: Any = SimpleNamespace(sweeps=())
        if results is not None:
            indexes = sessions.family_indexes(self.root, self.study, "log_write")
            load = LogWrite(results, sessions.declared(indexes, "log_write"))
        tables = LogPublished(self._folder, load)
        self.show_table(_elsewhere(replace(tables.table(), name="log-qps"), "log_write"))
        self.show_listings("published", tables.boxes(), "No box is published.")

    def figures(self, *files: str) -> None:
        """Every figure of the files as it is printed, with the line of the page that it stands in, folded."""
        self.show_tables([_all(self._folder / file) for file in files], "Nothing is published.", folded=True)

    def releases(self) -> None:
        """What the comparison of two versions prints, beside ours where a load test was measured."""
        results, load = self._results("load_test"), None
        if results is not None:
            indexes = sessions.family_indexes(self.root, self.study, "load_test")
            load = LoadTest(results, sessions.declared(indexes, "load_test"), indexes)
        tables = LoadPublished(self._folder, load)
        self.show_table(_elsewhere(tables.users(), "load_test"))
        self.show_table(_elsewhere(tables.shift(), "load_test"))
        rows = published.read(self._folder / "mattermost-v9.11-v10.0.csv", {})
        for kind, title in (("Store times", "Store"), ("API times", "API")):
            times = rows.filter(pl.col("section").str.ends_with(kind))
            caption = f"{title} times, bounded test on Postgres, published: series with a p99 of exactly 5 ms or none"
            self.show_table(_versions(times, "series", f"{title.lower()}-times", caption))


# -- laying beside ---------------------------------------------------------------------------------------------------


def beside(table: Table, heads: Sequence[str], ours: Mapping[str, Sequence[Cell]], order: Any = None) -> Table:
    """A published table with measured columns to its right, row for row; rows that only we have follow in `order`.

    `ours`: cells by the name of the row, as many as `heads`.
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


def _by_size(results: Results | None, op: str) -> tuple[list[str], dict[str, list[Cell]]]:
    """(headings, cells by size) of the file sizes that were measured: a column a backend and state of cache or sync."""
    if results is None:
        return [], {}
    state = "sync" if op == "write" else "cache"
    estimates = results.estimates("duration", {"op": op})
    columns = list(dict.fromkeys((e.target, e.levels["backend"], e.levels[state]) for e in estimates))
    found = {(e.levels["size"], e.target, e.levels["backend"], e.levels[state]): e for e in estimates}
    several = len(results.targets) > 1
    heads = [", ".join([*([target] if several else []), backend, how]) for target, backend, how in columns]
    sizes = dict.fromkeys(str(e.levels["size"]) for e in estimates)
    return heads, {
        size: [_linked(results, found.get((size, *column)), "page", "file_size") for column in columns]
        for size in sizes
    }


def _all(path: Path) -> Table:
    """A row a published figure: where it stands, what it is of, what it says."""
    rows = published.read(path, {})
    own = [c for c in rows.columns if c not in lints.published.NOT_LEVELS]
    body = []
    for row in rows.iter_rows(named=True):
        levels = " · ".join(str(row[c]) for c in own if row[c] is not None)
        heads = (str(row["source_line"]), row["section"], levels or "–", row["statistic"].replace("_", " "))
        body.append((*map(Cell.text, heads), _printed(str(row["as_printed"]))))
    caption = f"{PAGES[path.name]}: all {rows.height} figures as printed"
    return Table(f"figures-{path.stem}", caption, ("Line", "Section", "Of", "Figure", "Printed"), tuple(body))


def _size_order(name: str) -> int:
    return Size(name).bytes


def _reference(rows: pl.DataFrame, about: str, op: str, statistic: str) -> Cell:
    """The figure of fio's sample or of the text, as it is printed."""
    found = rows.filter(
        (pl.col("reference") == about) & (pl.col("op") == op) & (pl.col("statistic") == statistic)
    ).unique("value", keep="first", maintain_order=True)
    if found.is_empty():
        return MISSING
    row = found.row(0, named=True)
    return Cell((human.quantity(row["value"], row["unit"]), f"printed: {row['as_printed']}"), kind="published")


def _directories(results: Results, metrics: Sequence[str]) -> list[tuple[str, str]]:
    """(target, directory) of those that the page's own job or loop was run in, in the study's order."""
    jobs = ["gitlab", "shell-loop"]
    found = {(e.target, e.levels["directory"]) for m in metrics for e in results.estimates(m, {"job": jobs})}
    rows = results.cases.select("target", "directory").unique(maintain_order=True).iter_rows()
    return [where for where in rows if where in found]


def _fio(results: Results | None, where: tuple[str, str], job: str, metric: str) -> Cell:
    assert results is not None, "without results there is no directory"
    target, directory = where
    found = [e for e in results.estimates(metric, {"directory": directory, "job": job}) if e.target == target]
    return _linked(results, found[0] if found else None, "median", "fio")


def _versions(rows: pl.DataFrame, by: str, name: str, caption: str) -> Table:
    """A row a series and statistic, a column a version and the change, all as printed."""
    versions = rows["version"].drop_nulls().unique(maintain_order=True).to_list()
    body = []
    for key, group in _statistics(rows, by):
        printed = {row["version"]: str(row["as_printed"]) for row in group}
        change = printed.get(None, "–")
        change += " %" if change != "–" and not change.endswith("%") else ""
        values = [_printed(printed.get(version)) for version in versions]
        body.append((Cell.text(key[0]), Cell.text(key[1]), *values, _printed(change)))
    return Table(name, caption, (by.capitalize(), "Statistic", *versions, "Change"), tuple(body))


def _printed(text: str | None) -> Cell:
    return Cell((text,), kind="published") if text is not None else MISSING


def _statistics(rows: pl.DataFrame, by: str) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        statistic = row["statistic"].removesuffix("_change").replace("supported_", "")
        together.setdefault((row[by], statistic), []).append(row)
    yield from together.items()


def _linked(results: Results, estimate: Estimate | None, form: str, family: str) -> Cell:
    return _elsewhere_cell(cells.estimate_cell(results, estimate, form), family)


def _elsewhere(table: Table, family: str) -> Table:
    return replace(table, rows=tuple(tuple(_elsewhere_cell(c, family) for c in row) for row in table.rows))


def _elsewhere_cell(cell: Cell, family: str) -> Cell:
    """A cell whose link leads to its trials on the family's own page."""
    return replace(cell, href=f"./{family}.html{cell.href}") if (cell.href or "").startswith("#") else cell
