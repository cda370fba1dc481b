"""Open loops against closed loops on the same server, which shows the effect of coordinated omission."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import polars as pl

from benchstudy.families.http_concurrency.page.load import ALWAYS, HttpLoad, Point, Sweep
from benchstudy.model.criteria import ACHIEVED
from benchstudy.report import human
from benchstudy.report.exhibits import figuredata
from benchstudy.report.figures.panels import Axis, Panel, Style, trend_panel
from benchstudy.report.page import Page
from benchstudy.report.tables.tables import MISSING, Cell, Table

# A closed loop is comparable with an open one if its throughput differs by at most this share.
SIMILAR = 0.25
_PERCENTILES = (50, 99)
_TAIL = 99


@dataclass(frozen=True)
class Pair:
    """One open-loop case, and the closed-loop case with the nearest throughput, or None if there is none.

    `is_near`: whether the two throughputs are similar, with the closed loop's whole interval, so that their latencies
    can be compared.
    """

    point: Point
    closed: Point | None
    is_near: bool


class OpenAgainstClosed:
    """Open and closed loops on the same target, server, limits and endpoint."""

    def __init__(self, load: HttpLoad):
        self.load = load

    def _subjects(self) -> dict[tuple[str, ...], tuple[list[Sweep], list[Sweep]]]:
        """(closed, open) sweeps of everything that was measured with both loops and the same number of clients."""
        found: dict[tuple[str, ...], tuple[list[Sweep], list[Sweep]]] = {}
        for sweep in self.load.sweeps():
            clients = [sweep.clients] if sweep.clients else []
            key = (sweep.target, sweep.server, sweep.limits, sweep.endpoint, *clients)
            found.setdefault(key, ([], []))[int(sweep.is_open)].append(sweep)
        return {key: both for key, both in found.items() if all(both)}

    def pairs(self) -> Iterator[Pair]:
        for closed, opened in self._subjects().values():
            for sweep in opened:
                for point in sweep.points:
                    yield self._pair(point, closed)

    def _pair(self, point: Point, closed: list[Sweep]) -> Pair:
        achieved = self.load.median("throughput", point)
        known = [
            (abs(throughput / achieved - 1), p)
            for sweep in closed
            for p in sweep.points
            if achieved and (throughput := self.load.median("throughput", p)) is not None
        ]
        if not known:
            return Pair(point, None, is_near=False)
        distance, nearest = min(known, key=lambda k: k[0])
        return Pair(point, nearest, is_near=distance <= SIMILAR and self._is_known(nearest, achieved))

    def _is_known(self, point: Point, rate: float | None) -> bool:
        """Whether the interval of a throughput stays as near to `rate` as its median must."""
        found = self.load.estimate("throughput", point)
        ends = (found.summary.interval_low, found.summary.interval_high) if found is not None else ()
        return all(end is None or not rate or abs(end / rate - 1) <= SIMILAR for end in ends)

    def table(self) -> Table:
        """One row per open-loop case: achieved rate and latencies, beside the closed loop of nearest throughput."""
        body = []
        for pair in self.pairs():
            sweep, point, closed = pair.point.sweep, pair.point, pair.closed
            head = f"{self.load.name(sweep, 'server', 'limits', 'endpoint', 'clients')} · {sweep.generator}"
            own = self._figures(point)
            if closed is None:
                other = [Cell.text("none"), *(MISSING for _ in own)]
            else:
                name = f"{closed.sweep.generator}, {human.plural(int(closed.number), 'connection')}"
                # If none is near, the nearest one gets a mark that says why the two cannot be compared.
                marks = () if pair.is_near else ("another rate",)
                other = [Cell((name,), kind="text", marks=marks), *self._figures(closed)]
            body.append((Cell.text(f"{head} · {point.level}"), *own, *other))
        latencies = [f"{kind} p{percent}" for kind in ("Open", "Closed") for percent in _PERCENTILES]
        columns = ("Open loop", "Achieved", *latencies[:2], "Closed loop", "Throughput", *latencies[2:])
        return Table("open-closed", "Latency of open loops beside closed loops of nearest throughput", columns,
                     tuple(body))  # fmt: skip

    def _figures(self, point: Point) -> list[Cell]:
        return [self._rate(point), *(self.load.percentile(percent)(point) for percent in _PERCENTILES)]

    def _rate(self, point: Point) -> Cell:
        cell = self.load.figure(ALWAYS)(point)
        share = self.load.median("achieved_share", point)
        if point.sweep.is_open and share is not None and share < ACHIEVED:
            return Cell(cell.lines, cell.href, cell.kind, cell.title, ("below offered",))
        return cell

    def show(self, page: Page) -> None:
        """Show the figure and the table, folded below the reason if no latencies can be compared."""
        pairs, panels, style = [*self.pairs()], self.panels(), self.style()
        apart = (
            f"No closed loop has a throughput within {human.percent(SIMILAR)} of an open loop's, so their latencies "
            "cannot be compared"
        )
        with page.folded(apart) if pairs and not any(pair.is_near for pair in pairs) else nullcontext():
            if panels or not pairs:
                told = "Latency (p99) against achieved throughput, by kind of loop. Lines follow the rising load."
                page.show_figure("open-closed", told, panels, style, style.names)
            page.show_table(self.table())

    def style(self) -> Style:
        loops = [sweep.loop for both in self._subjects().values() for sweeps in both for sweep in sweeps]
        return Style(tuple(dict.fromkeys(loops)))

    def panels(self) -> list[Panel]:
        """p99 against throughput: one panel per subject, one series per loop, lines in the order of the load.

        A subject without a supported p99 of both loops has none.
        """
        style, found = self.style(), []
        frames = {}
        for subject, both in self._subjects().items():
            of_subject = self._frames(both)
            if all(any(sweep.loop in of_subject[0]["series"] for sweep in sweeps) for sweeps in both):
                frames[subject] = of_subject
        shared = [y for points, _ in frames.values() for y in points["y"].to_list()]
        for (target, *rest), (points, estimates) in frames.items():
            several = [target] if len(self.load.results.targets) > 1 else []
            x, y = Axis("Responses per second", "1/s"), Axis("p99", "s", shared=shared)
            name, case = " · ".join([*several, *rest]), ("series", "tip load")
            found.append(trend_panel(name, points, estimates, x, y, style, apart=False, case=case))
        return found

    def _frames(self, both: tuple[list[Sweep], list[Sweep]]) -> tuple[pl.DataFrame, pl.DataFrame]:
        cases = []
        for sweep in (*both[0], *both[1]):
            for order, point in enumerate(sweep.points):
                rate = self.load.median(ALWAYS, point)
                if rate is not None and not self.load.too_few(_TAIL, point):
                    load = point.level if sweep.is_open else f"L = {point.level}"
                    columns = {"series": sweep.loop, "tip load": load, "x": rate, "order": order}
                    cases.append((f"latency_p{_TAIL}", point.key, columns))
        points, estimates = figuredata.of_cases(self.load.results, cases)
        # A trial is drawn at its own throughput.
        rates = {trial: rate for trials in self.load.results.by_case(ALWAYS).values() for trial, rate, _ in trials}
        own = points.with_columns(x=pl.col("trial").replace_strict(rates, default=None, return_dtype=pl.Float64))
        return own.filter(pl.col("x") > 0, pl.col("y") > 0).drop("tip value", "order", strict=False), estimates
