"""The section of a page about cases with several clients: throughput by number of clients, and each client alone.

`show_clients` shows nothing if no case of a study has clients.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.families.shared.clients import SERIES
from benchstudy.model import registry
from benchstudy.model.clients import CLIENTS, NUMBER, StorageOfClients
from benchstudy.model.criteria import BUSY_GENERATOR, SKEW
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.exhibits.exhibits import show
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import MISSING, Cell, Table

CLIENT_LIMITED, SKEWED = "client-limited", f"skew > {human.percent(SKEW)}"
_CPU = "generator_cpu"
_PERCENT = (_CPU, "cpu_user", "cpu_system")
_CLIENT = ["target", "case", "client", "host"]
_SAID = (
    "In these cases several hosts sent load at once. All clients started at one instant, by clocks whose offsets were "
    "measured. Rates are sums, and latencies come from merged histograms. "
)
_IDEAL = (
    "The dashed line shows ideal scaling from the fewest clients. Below it, either the clients or the system under "
    "test had reached a limit."
)
_SHARED = (
    "The clients share the load that a case names, so more clients send no more load. If a figure is higher with more "
    "clients, the clients were the limit."
)


def show_clients(page: Page, metrics: Sequence[str], *, series: str, each: Sequence[str]) -> None:
    """Show a figure per metric of `metrics` by number of clients, with a line per level of the factor `series`.

    A table lists the clients with their medians of the metrics `each`.
    """
    results = page.results
    if not has_clients(results):
        return
    scales = adds_up(results.family)
    said = _SAID + (_IDEAL if scales else _SHARED)
    show(f"<h3>Load from several clients</h3><p>{html.escape(said)}</p>")
    given = [metric for metric in metrics if metric in results.metrics]
    for metric in given:
        page.trend(
            f"clients-{metric.replace('_', '-')}",
            metric,
            x=NUMBER,
            x_unit="1",
            x_title="Clients",
            series=series,
            views=views(results, series),
            fitted=ideal(results, metric, series) if scales else None,
            caption=f"{results.declared(metric).title} by number of clients{', with ideal scaling (dashed)' * scales}.",
        )
    page.show_table(client_table(results, each))
    if len(results.levels(CLIENTS)) > 1:
        caption = "Each number of clients against the first one (a different load)"
        page.compare("clients", given, factor=CLIENTS, caption=caption)


def adds_up(family: str) -> bool:
    """Whether each client of a family does the whole work of a case, as on storage, and not only its part of a load."""
    return issubclass(registry.get(family).Config, StorageOfClients)


def has_clients(results: Results) -> bool:
    """Whether the number of clients is a factor of any case."""
    return CLIENTS in results.cases.columns and results.cases[CLIENTS].null_count() < results.cases.height


def _alike(results: Results, *but: str) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """Groups of cases with clients that share all levels except those of the factors `but`."""
    factors = [f for f in ("target", *results.factors) if f not in (CLIENTS, *but)]
    for key, cases in results.cases.drop_nulls(CLIENTS).group_by(factors, maintain_order=True):
        yield {f: level for f, level in zip(factors, key, strict=True) if level is not None}, cases


def views(results: Results, series: str) -> dict[str, dict[str, Any]]:
    """One choice of cases, by title, per combination of the levels of all factors but clients and `series`."""
    several = len(results.targets) > 1
    found = {}
    for levels, cases in _alike(results, series):
        shown = [human.level(str(level)) for f, level in levels.items() if f != "target" or several]
        found[" · ".join(shown)] = {**levels, CLIENTS: cases[CLIENTS].unique().to_list()}
    return found


def ideal(results: Results, metric: str, series: str) -> pl.DataFrame:
    """Ideal scaling from the median of the fewest clients: rows of the case table with x, y, low and high."""
    rows = []
    for _, cases in _alike(results):
        known = [
            (number, estimate.summary.median, row)
            for row in cases.sort(NUMBER).iter_rows(named=True)
            if (number := row[NUMBER])
            and (estimate := results.estimate(metric, row["target"], row["case"])) is not None
            and estimate.summary.median is not None
        ]
        for number, _, row in known:
            y = known[0][1] * number / known[0][0]
            rows.append({**row, "x": float(number), "y": y, "low": y, "high": y})
    schema: Any = {**results.cases.schema, **dict.fromkeys(("x", "y", "low", "high"), pl.Float64)}
    return pl.DataFrame(rows, schema=schema)


def client_table(results: Results, each: Sequence[str]) -> Table:
    """One row per client of each case: the medians of its metrics, and its start delay."""
    found = results.series(SERIES)
    units: dict[str, str] = {} if found is None else dict(found.select("metric", "unit").unique().iter_rows())
    metrics = {metric: units[metric] for metric in each if metric in units}
    columns = ("Case", "Client", *(results.declared(metric).title for metric in metrics), "Start delay", "Skew")
    body: list[tuple[Cell, ...]] = []
    if found is not None:
        medians = found.pivot("metric", index=_CLIENT, values="value", aggregate_function="median").sort(_CLIENT)
        body = [_row(results, client, metrics) for client in medians.iter_rows(named=True)]
    return Table("clients", "Each client, medians over trials", columns, tuple(body))


def _row(results: Results, client: Mapping[str, Any], metrics: Mapping[str, str]) -> tuple[Cell, ...]:
    """The cells of one client. `client`: its case, number, host, and medians. `metrics`: the unit of each."""
    case = client["target"], client["case"]
    href = cells.href(results, *case)
    busy = (client.get(_CPU) or 0.0) >= BUSY_GENERATOR
    own = [
        MISSING if (value := client[metric]) is None else Cell((_shown(value, metric, unit),), href)
        for metric, unit in metrics.items()
    ]
    late = client.get("began")
    skew, share = (results.estimate(name, *case) for name in ("client_skew", "client_skew_share"))
    skewed = share is not None and any(value > SKEW for value in share.values)
    told = None if skew is None else skew.summary.median
    clocks = results.estimate("client_clocks", *case)
    # A skew below the error of the clocks is not known to be small.
    error = [] if clocks is None or not clocks.values else [f"clocks: ± {human.quantity(max(clocks.values), 's')}"]
    return (
        Cell.text(results.case_name(*case)),
        Cell((f"{client['client']}, {client['host']}",), href, "text", marks=(CLIENT_LIMITED,) if busy else ()),
        *own,
        MISSING if late is None else Cell((human.quantity(late, "s"),), href),
        MISSING if told is None else Cell((human.quantity(told, "s"), *error), href, marks=(SKEWED,) if skewed else ()),
    )


def _shown(value: float, metric: str, unit: str) -> str:
    return human.percent(value) if metric in _PERCENT else human.quantity(value, unit)
