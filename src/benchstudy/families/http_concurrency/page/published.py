"""The figures of Filestash's page (data/published/filestash-*.csv), and the problems that rules find in them."""

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
# The figures of a transcript that readers look for first.
_TRANSCRIPT = {
    "command_concurrency": "Requested connections (command)",
    "concurrency": "Connections (report)",
    "requests": "Requests",
    "errors": "Failed requests",
    "keepalive_requests": "Keep-alive requests",
    "duration": "Time taken",
    "throughput": "Requests per second",
    "time_per_request": "Time per request",
    "latency_p50": "50 % within",
    "latency_p90": "90 % within",
    "latency_p99": "99 % within",
    "latency_p100": "Longest request",
    "server_peak_memory": "Peak server memory",
}
APART = (
    "The published figures are those of Filestash on other hardware, and Filestash was not measured here. They have "
    "their own tables, and nothing is compared with them: a different server on a different machine does different "
    "work, so neither ratios nor rankings are meaningful."
)


class Published:
    """The published tables. `folder` has the CSV files. `load`: the measured results, None if there are none."""

    def __init__(self, folder: Path, load: HttpLoad | None):
        self._folder, self._load = folder, load
        self._rows = published.read(folder / TABLES, {"statistic": "throughput"})

    @property
    def measured(self) -> bool:
        """Whether the same server was measured. Only then are its figures shown beside the published ones."""
        load = self._load
        return load is not None and any(s.server == SERVER and load.best(s) is not None for s in load.sweeps())

    def apart(self) -> list[str]:
        """Why nothing is compared; empty if the figures are comparable."""
        return [] if self.measured else [APART]

    def tables(self) -> Iterator[Table]:
        """The three tables of the page, with the measured figure beside each one if the server is the same."""
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
            caption = f"Published (other hardware, unknown repetitions): Filestash, {section}"
            columns = ("Concurrency", *(f"{e}, {whose}" if whose else e for e, whose in heads))
            yield Table(slug(f"published-{limits}"), caption, columns, tuple(body))

    def transcripts(self) -> Table:
        """The transcripts of ab as printed, with one column per transcript."""
        rows = published.read(self._folder / TRANSCRIPTS, {})
        across = rows["section"].unique(maintain_order=True).to_list()
        printed = {(row["statistic"], row["section"]): str(row["as_printed"]) for row in rows.iter_rows(named=True)}
        body = [
            (Cell.text(name), *(published.printed(printed.get((statistic, section))) for section in across))
            for statistic, name in _TRANSCRIPT.items()
        ]
        caption = "Published transcripts of ab, as printed: one run each on a laptop, static file"
        return Table("transcripts", caption, ("Figure", *across), tuple(body))

    def _measured(self) -> dict[tuple[str, str, int], Cell]:
        assert self._load is not None, "without results nothing is measured"
        tables = HttpTables(self._load)
        return {
            (sweep.limits, sweep.endpoint, round(point.number)): tables.throughput_cell(point)
            for sweep in self._load.sweeps(is_open=False)
            if sweep.server == SERVER
            for point in sweep.points
        }

    def problems(self) -> list[str]:
        """One sentence per problem or gap in the published figures."""
        return [*self._missing_reasons(), *self._plateaus(), *self._in_transcripts()]

    def _missing_reasons(self) -> Iterator[str]:
        failed = self._rows.filter(pl.col("status") == "failed")
        if failed.height:
            yield (
                f"{failed.height} of {self._rows.height} cells say only “failed”: the page does not say whether the "
                "server was killed at its memory limit, refused connections or was slow."
            )
        yield "The page gives no number of repetitions, no interval, and no version of server or tool."

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
                f"{section}, {endpoint}: saturated from {start} connections. From there to {sweep[-1][0]:,}, it stays "
                f"between {human.quantity(min(values), '1')} and {human.quantity(max(values), '1/s')}."
            )
        for endpoint, by_limits in flat.items():
            for (few, low), (many, high) in pairwise(by_limits.items()):
                if max(low, high) / min(low, high) <= SAME_PLATEAU:
                    levels = [human.quantity(level, "1/s") for level in (high, low)]
                    yield (
                        f"{endpoint}: {many} is flat at {levels[0]} and {few} at {levels[1]}, so the server's limits "
                        "are not the bottleneck. ab has one thread, and its maximum rate is not published."
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
    """The report of ab with the digitised figures, for the rules that apply to every report."""

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
    """Show the three tables of the page, with our figures beside them only if the same server was measured."""
    tables = Published(page.folder, HttpLoad(results) if results is not None else None)
    page.say(tables.apart())
    page.show_tables(tables.tables(), "Nothing is published.", narrow=4)
    with page.side_by_side():
        page.show_tables([tables.transcripts()], "", folded=True)
        with page.folded("Problems in the tables and the transcripts"):
            page.flags(tables.problems())


SECTION = Section(
    title="HTTP server",
    introduction='Requests per second by number of connections, and "failed" as on the page.',
    files={TABLES: "Filestash: tables", TRANSCRIPTS: "Filestash: transcripts of ab"},
    show=show,
    order=30,
)
