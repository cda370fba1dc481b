"""The Filestash page's figures (data/published/filestash-*.csv), and what is wrong with them, found by rule."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from benchstudy.families.http_concurrency.ab import AbResult, Times
from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.families.http_concurrency.page.tables import HttpTables
from benchstudy.lints.load import SAME_PLATEAU, plateau
from benchstudy.report import human
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug

TABLES, TRANSCRIPTS = "filestash-http.csv", "filestash-ab.csv"
SERVER = "filestash"
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
APART = (
    "The published figures are those of Filestash on other hardware, and Filestash was not measured here. They stand "
    "in tables of their own and no comparison is drawn: another server on another machine does other work, so neither "
    "a ratio nor an order of the two means anything."
)


class Published:
    """`folder` holds the CSV files; `load` is what was measured, None where this family was not."""

    def __init__(self, folder: Path, load: HttpLoad | None):
        self._folder, self._load = folder, load
        self._rows = published.read(folder / TABLES, {"statistic": "throughput"})

    @property
    def measured(self) -> bool:
        """Whether the same server was measured, which alone may stand beside its published figures."""
        load = self._load
        return load is not None and any(s.server == SERVER and load.best(s) is not None for s in load.sweeps())

    def apart(self) -> list[str]:
        """Why nothing is compared; empty when it may be."""
        return [] if self.measured else [APART]

    def tables(self) -> Iterator[Table]:
        """The page's three tables; beside each figure the measured one where the server is the same."""
        beside = self._measured() if self.measured else {}
        for (limits, section), rows in self._rows.group_by("limits", "section", maintain_order=True):
            endpoints = rows["endpoint"].unique(maintain_order=True).to_list()
            heads = [(e, whose) for e in endpoints for whose in (("published", "measured") if beside else ("",))]
            by_key = {(row["concurrency"], row["endpoint"]): row for row in rows.iter_rows(named=True)}
            body = []
            for concurrency in rows["concurrency"].unique(maintain_order=True).to_list():
                row = [
                    beside.get((limits, endpoint, concurrency), MISSING)
                    if whose == "measured"
                    else _published_cell(by_key.get((concurrency, endpoint)))
                    for endpoint, whose in heads
                ]
                body.append((Cell.text(str(concurrency)), *row))
            caption = f"Published, other hardware, number of repetitions not published: Filestash, {section}"
            columns = ("Concurrency", *(f"{e}, {whose}" if whose else e for e, whose in heads))
            yield Table(slug(f"published-{limits}"), caption, columns, tuple(body))

    def transcripts(self) -> Table:
        """A column a transcript of ab, as printed."""
        rows = published.read(self._folder / TRANSCRIPTS, {})
        across = rows["section"].unique(maintain_order=True).to_list()
        printed = {(row["statistic"], row["section"]): str(row["as_printed"]) for row in rows.iter_rows(named=True)}
        body = [
            (Cell.text(name), *(published.printed(printed.get((statistic, section))) for section in across))
            for statistic, name in _TRANSCRIPT.items()
        ]
        caption = "Transcripts of ab as printed, published: one run each on a laptop, static file"
        return Table("transcripts", caption, ("Figure", *across), tuple(body))

    def _measured(self) -> dict[tuple[str, str, int], Cell]:
        assert self._load is not None, "without results nothing is measured"
        tables = HttpTables(self._load)
        return {
            (sweep.limits, sweep.endpoint, round(point.number)): tables.throughput_cell(sweep, point)
            for sweep in self._load.sweeps(is_open=False)
            if sweep.server == SERVER
            for point in sweep.points
        }

    def problems(self) -> list[str]:
        """What is wrong with or missing from the published figures, each in a sentence."""
        return [*self._missing_reasons(), *self._plateaus(), *self._in_transcripts()]

    def _missing_reasons(self) -> Iterator[str]:
        failed = self._rows.filter(pl.col("status") == "failed")
        if failed.height:
            yield (
                f"{failed.height} of {self._rows.height} cells say only “failed”: whether the server was ended at its "
                "memory limit, refused connections or was slow is not told."
            )
        yield "No number of repetitions, no interval and no version of server or tool is published."

    def _plateaus(self) -> Iterator[str]:
        flat: dict[str, dict[str, float]] = {}
        for (section, limits, endpoint), rows in self._rows.group_by(
            "section", "limits", "endpoint", maintain_order=True
        ):
            sweep = [(n, v) for n, v in rows.select("concurrency", "value").drop_nulls().iter_rows()]
            start = plateau(sweep)
            if start is None:
                continue
            values = [value for n, value in sweep if n >= start]
            flat.setdefault(endpoint, {})[limits] = sorted(values)[len(values) // 2]
            yield (
                f"{section}, {endpoint}: saturated from {start} connections on; from there to {sweep[-1][0]:,} it "
                f"stays between {human.quantity(min(values), '1')} and {human.quantity(max(values), '1/s')}."
            )
        for endpoint, by_limits in flat.items():
            for (few, low), (many, high) in pairwise(by_limits.items()):
                if max(low, high) / min(low, high) <= SAME_PLATEAU:
                    levels = [human.quantity(level, "1/s") for level in (high, low)]
                    yield (
                        f"{endpoint}: {many} is flat at {levels[0]} and {few} at {levels[1]}, so the limits are not "
                        "what limits. ab has one thread, and what it can do at most is not published."
                    )

    def _in_transcripts(self) -> Iterator[str]:
        rows = published.read(self._folder / TRANSCRIPTS, {})
        found: dict[str, list[str]] = {}
        for (section,), group in rows.group_by("section", maintain_order=True):
            values = dict(group.select("statistic", "value").iter_rows())
            command = f"ab -k -c {values['command_concurrency']:.0f} -n {values['command_requests']:.0f} URL"
            for problem in _as_report(values).problems(command):
                found.setdefault(problem, []).append(section)
        yield from (f"{', '.join(sections)}: {problem}." for problem, sections in found.items())


def _published_cell(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return MISSING
    if row["value"] is None:
        return Cell((f"{row['as_printed']}, no reason given",), kind="published warning")
    return Cell((human.quantity(row["value"], row["unit"]),), kind="published")


def _as_report(values: Mapping[str, float]) -> AbResult:
    """The report that the digitised figures come from, for the rules every report of ab is held to."""

    def times(part: str) -> Times:
        return Times(*(values[f"{part}_{what}"] for what in ("min", "mean", "sd", "median", "max")))

    return AbResult(
        document_length=int(values["document_length"]),
        concurrency=int(values["concurrency"]),
        duration=values["duration"],
        complete=int(values["requests"]),
        failed=int(values["errors"]),
        keepalive_requests=int(values["keepalive_requests"]),
        transferred=int(values["transferred"]),
        html_transferred=int(values["html_transferred"]),
        requests_per_second=values["throughput"],
        time_per_request=values["time_per_request"],
        time_per_request_across=values["time_per_request_across"],
        transfer_rate=values["transfer_rate"],
        times={
            "connect": times("connect"),
            "processing": times("processing"),
            "waiting": times("waiting"),
            "total": times("latency"),
        },
        percentiles={p: values[f"latency_p{p}"] for p in (50, 66, 75, 80, 90, 95, 98, 99, 100)},
    )


def show(page: PublishedPage, results: Results | None) -> None:
    """The page's three tables; ours beside them only where the same server was measured."""
    tables = Published(page.folder, HttpLoad(results) if results is not None else None)
    page.say(tables.apart())
    page.show_tables(tables.tables(), "Nothing is published.")
    page.show_table(tables.transcripts())


SECTION = Section(
    title="HTTP server",
    introduction='Requests a second by number of connections, and "failed" as the page has it.',
    files={TABLES: "Filestash: tables", TRANSCRIPTS: "Filestash: transcripts of ab"},
    show=show,
    order=30,
)
