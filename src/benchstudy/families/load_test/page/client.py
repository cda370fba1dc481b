"""Client-side and server-side figures of a load side by side, per action, and the failures on both sides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from benchstudy.families.load_test.page.cells import bucket, signed, signed_percent
from benchstudy.families.load_test.page.load import Contrast, LoadTest, Single
from benchstudy.families.shared.sweeps import median_cell
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.tables.tables import MISSING, MOST_OF_TRIALS, Cell, Table, slug
from benchstudy.statistics import histograms, stats
from benchstudy.statistics.comparisons import share

_TIMES = {"client_mean": "mean", "client_p50": "p50", "client_p95": "p95", "client_p99": "p99"}
_PERCENTILES = (50, 95, 99)
_TROUBLES = ("server_error_share", "client_errors", "gaps", "resets")  # in the order of the table's columns


@dataclass(frozen=True)
class Action:
    """One action of the simulated users in one case, over all trials. `quantiles`: the bin of each percentile."""

    count: int
    failures: int
    mean_s: float | None
    quantiles: dict[int, tuple[float, float]]


class LoadClient:
    def __init__(self, load: LoadTest):
        self.load = load

    # -- both sides --------------------------------------------------------------------------------------------------

    def beside(self) -> Table:
        """One row per case: times at the clients, times that the server reports, and the difference."""
        body = []
        for row in self.load.results.cases.iter_rows(named=True):
            target, case = row["target"], row["case"]
            client, server = (self.load.median(m, target, case) for m in ("client_mean", "api_mean"))
            if client is None:
                continue
            href = cells.href(self.load.results, target, case)
            between = MISSING
            if server:
                ratio = f"client: {human.number(client / server)} times the server's"
                between = Cell((signed(client - server, "s"), ratio), href)
            times = [self._median(metric, target, case) for metric in _TIMES]
            rates = [self._median(metric, target, case) for metric in ("client_rate", "api_rate")]
            mean, p99 = self._server(target, case)
            why, (mean, *of_client) = _why_none((mean, *times, *rates))
            times, rates = of_client[: len(times)], of_client[len(times) :]
            body.append((Cell((self.load.case(row), *why), kind="text"), *times, mean, p99, between, *rates))
        columns = (
            "Case", *(f"Client, {name}" for name in _TIMES.values()), "Server, mean", "Server, p99", "Difference",
            "Client, requests per second", "Server, API calls per second",
        )  # fmt: skip
        return Table("client-server", "Client-side against server-side", columns, tuple(body))

    def why_none(self) -> str:
        """Why no case has client-side figures."""
        return "Someone else ran the load." if self.load.scraped else "No trial gave client-side figures."

    def _median(self, metric: str, target: str, case: str) -> Cell:
        # The table of failures says why a value is missing.
        return median_cell(self.load.results, self.load.estimate(metric, target, case))

    def _server(self, target: str, case: str) -> tuple[Cell, Cell]:
        found = [bucket(q) for t in self.load.trials(target, case) if (q := self.load.quantile(t, "api_p99"))]
        p99 = Cell(tuple(dict.fromkeys(found)), cells.href(self.load.results, target, case)) if found else MISSING
        return self._median("api_mean", target, case), p99

    # -- actions -----------------------------------------------------------------------------------------------------

    def actions(self) -> Iterator[Table]:
        """One table per contrast or single version, one row per action: number, failures and times of each side."""
        for measured in self.load.measured:
            sides = [self._actions(measured.target, case) for case in measured.cases.values()]
            names = dict.fromkeys(name for side in sides for name in side)
            body = [self._action_row(measured, name, [side.get(name) for side in sides]) for name in names]
            title = self.load.title(measured)
            columns = ("Action", "Requests", "Failed", "Mean", "Change", *(f"p{p}" for p in _PERCENTILES))
            caption = f"{title}: client-side figures per action{', base → new' if len(sides) > 1 else ''}"
            yield Table(slug(f"actions-{title}"), caption, columns, tuple(body))

    def _actions(self, target: str, case: str) -> dict[str, Action]:
        trials = self.load.trials(target, case)
        rows = [frame for t in trials if (frame := self.load.series("client", t.uuid)) is not None]
        if not rows:
            return {}
        timed = pl.col("timed").sum()
        together = (
            pl.concat(rows)
            .group_by("action", maintain_order=True)
            .agg(
                pl.col("count").sum(),
                pl.col("failures").sum(),
                timed,
                mean=(pl.col("mean_s").fill_null(0) * pl.col("timed")).sum() / timed,
            )
        )
        quantiles: dict[str, dict[int, tuple[float, float]]] = {}
        bins = self.load.results.histogram("client_histogram")
        if bins is not None:
            edges = bins.filter((pl.col("target") == target) & (pl.col("case") == case))
            for p in _PERCENTILES:
                found = histograms.quantile_interval_from_histogram(edges, p / 100, ["action"])
                for action, count, low, high in found.iter_rows():
                    if stats.supported(p, count):
                        quantiles.setdefault(action, {})[p] = (low, high)
        return {
            action: Action(count, failures, mean if timed else None, quantiles.get(action, {}))
            for action, count, failures, timed, mean in together.iter_rows()
        }

    def _action_row(
        self, measured: Contrast | Single, name: str, sides: Sequence[Action | None]
    ) -> tuple[Cell, ...]:  # fmt: skip
        href = self.load.hrefs(measured)[-1]

        def each(say: Callable[[Action], tuple[str, ...]], kind: str = "number") -> Cell:
            """The figures of all sides, base first, with their evidence on the line below."""
            said = [say(action) if action else ("not done",) for action in sides]
            evidence = " → ".join(text for line in said for text in line[1:])
            return Cell((" → ".join(line[0] for line in said), *([evidence] if evidence else [])), href, kind)

        means = [action.mean_s for action in sides if action]
        change = MISSING
        if len(means) == 2 and means[0] and means[1] is not None:
            change = Cell((signed_percent(means[1] / means[0]),), href)
        failures = "number warning" if any(a.failures for a in sides if a) else "number"
        return (
            Cell.text(name),
            each(lambda action: (f"{action.count:,}",)),
            each(_failed, failures),
            each(lambda action: (human.quantity(action.mean_s, "s"),)),
            change,
            *(each(partial(_quantile, percentile=p)) for p in _PERCENTILES),
        )

    # -- failures ----------------------------------------------------------------------------------------------------

    def nothing_failed(self) -> list[str]:
        """The sentence that says so, if no case has a failed trial, an error, a gap or a reset."""
        cases = self.load.results.cases.select("target", "case").iter_rows()
        known = [e for at in cases for m in ("api_mean", *_TROUBLES) if (e := self.load.estimate(m, *at))]
        if any(e.failed or (e.metric in _TROUBLES and any(e.values)) for e in known):
            return []
        restarts = "" if self.events().rows else ", no restart"
        return [f"No trial failed. No error, no gap in the samples{restarts} and no counter reset was recorded."]

    def failures(self) -> Table:
        """One row per case: failed trials and their causes, errors at server and clients, gaps, resets."""
        body = []
        for row in self.load.results.cases.iter_rows(named=True):
            target, case = row["target"], row["case"]
            estimate = self.load.estimate("api_mean", target, case)
            if estimate is None:
                continue
            href = cells.href(self.load.results, target, case)
            ok = estimate.results - estimate.failed
            how = cells.failures(estimate)
            why = "; ".join(reason.words for reason, _ in estimate.causes)
            trials = Cell((f"{ok} of {estimate.results} ok", *how), href, "failed" if how else "number", why)
            shares = [self._share(m, target, case) for m in _TROUBLES[:2]]
            counts = [self._count(m, target, case) for m in _TROUBLES[2:]]
            body.append((Cell.text(self.load.case(row)), trials, *shares, *counts))
        columns = ("Case", "Trials", "Server errors", "Client errors", "Gaps in the samples", "Counter resets")
        return Table("failures", "Failed trials, errors, and gaps in the samples", columns, tuple(body))

    def _share(self, metric: str, target: str, case: str) -> Cell:
        estimate = self.load.estimate(metric, target, case)
        return (
            cells.estimate_cell(self.load.results, estimate, "range", "%") if estimate and estimate.values else MISSING
        )

    def _count(self, metric: str, target: str, case: str) -> Cell:
        estimate = self.load.estimate(metric, target, case)
        if estimate is None or not estimate.values:
            return MISSING
        total = sum(estimate.values)
        href = cells.href(self.load.results, target, case)
        return Cell((f"{total:,.0f}",), href, "number warning" if total else "number")

    def events(self) -> Table:
        """Events in the samples, per trial and kind; `censored` and `missing` name what has no figure."""
        frame = self.load.results.series("events")
        body = []
        if frame is not None and not frame.is_empty():
            grouped = frame.group_by("target", "case", "trial", "what", maintain_order=True).agg("t_s", "detail")
            for target, case, trial, what, times, details in grouped.iter_rows():
                name = self.load.results.case_name(target, case)
                shown = list(dict.fromkeys(filter(None, details)))
                at = f"first at {min(times):,.0f} s" if len(times) > 1 else f"at {times[0]:,.0f} s"
                often = Cell((f"{len(times)}", at), self.load.results.places.href(trial))
                detail = human.listed(shown, 3, "; ") or "–"
                body.append((Cell.text(name), Cell.text(what), often, Cell.text(detail)))
        columns = ("Case", "Event", "Count", "Detail")
        return Table("events", "Gaps, resets and restarts per trial", columns, tuple(body), MOST_OF_TRIALS)


def _why_none(row: Sequence[Cell]) -> tuple[tuple[str, ...], list[Cell]]:
    """Why there is no interval, once, and the cells without it; nothing is moved if their evidence differs."""
    said = {cell.lines[1:] for cell in row if cell is not MISSING}
    if len(said) != 1:
        return (), list(row)
    return said.pop(), [cell if cell is MISSING else replace(cell, lines=cell.lines[:1]) for cell in row]


def _failed(action: Action) -> tuple[str, ...]:
    """The number of failures, and their share with its Wilson interval."""
    if not action.count:
        return ("–",)
    found = share(min(action.failures, action.count), action.count)
    return f"{action.failures:,}", f"{human.share(found)}, {found.interval}"


def _quantile(action: Action, percentile: int) -> tuple[str, ...]:
    if percentile in action.quantiles:
        return (human.value_range(action.quantiles[percentile], "s"),)
    return (f"needs {stats.smallest_n(percentile)}",)
