"""Analysis of load tests of HTTP servers: sweeps, limits of the generator, saturation and fits.

It uses the tables of the family http_concurrency (docs/families/http_concurrency.md). A case with a level `rate` is an
open loop, and one with a level `concurrency` is a closed loop. The null server has the endpoint "null".
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from benchstudy.families.http_concurrency.config import CEILING
from benchstudy.families.http_concurrency.page.wording import setting
from benchstudy.families.shared.sweeps import Draw, SweepPoint, SweepResults, shares_cpus
from benchstudy.model.clients import CLIENTS
from benchstudy.model.criteria import ACHIEVED, BUSY_GENERATOR, LEAST_CEILING_S, LITTLE
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results.results import Estimate
from benchstudy.report.tables.tables import Cell
from benchstudy.statistics import scalability
from benchstudy.statistics.stats import smallest_n

ALWAYS = "throughput"  # the metric of every successful trial
MEDIAN_LATENCY = "latency_p50"
_HISTOGRAMS = {
    "ab": "ab rounds each latency to the nearest millisecond, so its lines have steps",
    "wrk": "wrk counts latencies in bins of a microsecond, or of at most 1.6 %",
}
# The null server must reach twice the throughput of a server. Above this share, the generator may limit the figure.
LARGEST_SHARE = 0.5
# If the faster half of a closed loop's requests takes less of its connections' time, its p50 says little of the load.
LEAST_HALF = 0.1
# The first concurrency that reaches this share of a sweep's largest throughput saturates the server.
SATURATED = 0.95

_SWEEP = ("target", "server", "limits", "endpoint", "generator", CLIENTS)


@dataclass(eq=False)
class Sweep:
    """One server, limit, endpoint and generator under rising load. `points` are in the order of their load.

    `clients`: the number of load hosts; empty if it is not a factor.
    """

    target: str
    server: str
    limits: str
    endpoint: str
    generator: str
    clients: str
    is_open: bool
    points: "list[Point]" = field(default_factory=list)

    @property
    def loop(self) -> str:
        from_hosts = f", {human.plural(int(self.clients), 'client')}" if self.clients else ""
        return f"{self.generator}, {'open' if self.is_open else 'closed'} loop{from_hosts}"


@dataclass(frozen=True)
class Point(SweepPoint):
    """One case of a sweep. `number` is in connections or 1/s."""

    sweep: Sweep
    number: float


class HttpLoad(SweepResults):
    """The sweeps in the results of one family."""

    always = ALWAYS

    @cached_property
    def all_sweeps(self) -> list[Sweep]:
        """Every sweep, including those of the null server, in the order of the study."""
        found: dict[tuple[Any, ...], Sweep] = {}
        for row in self.results.cases.iter_rows(named=True):
            is_open = row.get("rate") is not None
            load, number = ("rate", "rate_per_s") if is_open else ("concurrency", "concurrency_n")
            if row.get(number) is not None:  # an imported output may tell neither
                key: tuple[Any, ...] = (*(str(row.get(name) or "") for name in _SWEEP), is_open)
                sweep = found.setdefault(key, Sweep(*key))
                level = human.level(row[load])
                sweep.points.append(Point(row["target"], row["case"], level, sweep, float(row[number])))
        for sweep in found.values():
            sweep.points.sort(key=lambda point: point.number)
        return [*found.values()]

    def sweeps(self, *, is_open: bool | None = None) -> list[Sweep]:
        """The sweeps of servers under test. `is_open`: only open or only closed loops."""
        return [s for s in self.all_sweeps if s.endpoint != CEILING and is_open in (None, s.is_open)]

    def ceilings(self) -> list[Sweep]:
        """The sweeps of the null server."""
        return [s for s in self.all_sweeps if s.endpoint == CEILING]

    @cached_property
    def measured(self) -> list[Point]:
        """The points of servers under test that have a throughput."""
        return [p for s in self.sweeps() for p in s.points if self.median(ALWAYS, p) is not None]

    # -- limits of the generator ---------------------------------------------------------------------------------------

    @cached_property
    def _ceilings(self) -> dict[tuple[Any, ...], float]:
        """The median throughput of the best null server by `_load_of`, if it ran long enough."""
        found: dict[tuple[Any, ...], float] = {}
        for sweep in self.ceilings():
            for point in sweep.points:
                median = self.median("throughput", point)
                if median is not None and not self.is_short(point):
                    key = _load_of(point)
                    found[key] = max(median, found.get(key, 0.0))
        return found

    def is_short(self, point: Point) -> bool:
        """Whether the runs of a null server were too short to be a ceiling. Durations are rounded to 0.1 s."""
        lasted_s = self.median("duration", point)
        return lasted_s is not None and round(lasted_s, 1) < LEAST_CEILING_S

    def client_limit(self, point: Point) -> list[str]:
        """Why the generator, and not the server, may have limited the throughput of a point; empty if nothing shows it.

        A closed loop is compared with its ceiling, unless it is a ceiling itself.
        """
        throughput, cpu = (self.median(metric, point) for metric in ("throughput", "generator_cpu"))
        ceiling = self._ceilings.get(_load_of(point))
        reasons, sweep = [], point.sweep
        if throughput is not None and ceiling and not sweep.is_open and sweep.endpoint != CEILING:
            share = throughput / ceiling
            if share > LARGEST_SHARE:
                reasons.append(f"{human.percent(share)} of the same generator's throughput with the null server")
        # In an open loop, the generator offers the null server the same rate as any other server.
        if sweep.is_open and ceiling is not None and ceiling < ACHIEVED * point.number:
            reasons.append(f"even the null server received only {human.quantity(ceiling, '1/s')}")
        if cpu is not None and cpu >= BUSY_GENERATOR:
            reasons.append(f"the generator used {human.percent(cpu)} of its CPUs")
        return reasons

    def at_ceiling(self) -> list[str]:
        """The points that only the null server shows to be client-limited, with the reason. Lints know the others."""
        return [
            f"{self.name(p.sweep)} · {p.level}: {reasons[0]}"
            for p in self.measured
            if (reasons := self.client_limit(p)) and (self.median("generator_cpu", p) or 0.0) < BUSY_GENERATOR
        ]

    def lacks_ceiling(self, point: Point) -> bool:
        """Whether a closed loop has no null server measured with the same generator and load."""
        return not point.sweep.is_open and _load_of(point) not in self._ceilings

    def breaks_little(self, point: Point) -> bool:
        """Whether a closed loop deviates too far from Little's law."""
        return (self.median("little_error", point) or 0.0) > LITTLE

    @property
    def served(self) -> dict[str, list[str]]:
        """The cases of servers under test, as a choice for comparisons."""
        return {"endpoint": [e for e in self.results.levels("endpoint") if e != CEILING]}

    def unfit(self, metric: str, target: str, case: str) -> str:
        """Why a figure of a case does not describe its server, so that it allows no verdict; "" if it does."""
        point = next((p for s in self.all_sweeps for p in s.points if p.key == (target, case)), None)
        return "" if point is None else next(self._unfit(metric, point), "")

    def _unfit(self, metric: str, point: Point) -> Iterator[str]:
        for reason in self.client_limit(point):
            yield f"client-limited, {reason}"
        dropped, sent = (self.total(count, point) for count in ("dropped", "requests"))
        unsent = dropped / (dropped + sent) if dropped else 0.0
        for share, what in ((self.error_share(point), "failed"), (unsent, "were not sent")):
            if metric != ALWAYS and share > 1 - ACHIEVED:
                yield f"{human.percent(share)} of its requests {what}, so its latencies are not compared"
        half = self.faster_half(point)
        if metric == MEDIAN_LATENCY and half is not None and half < LEAST_HALF:
            yield (
                f"the faster half of its requests took at most {human.percent(half)} of its connections' time, so its "
                "p50 is not compared"
            )

    def faster_half(self, point: Point) -> float | None:
        """At most which share of a closed loop's connection time its faster half of requests took; None if unknown.

        Half of the requests take p50 at most, and a request of N connections takes N / throughput on average. Failed
        requests take their share of the time, too.
        """
        throughput, p50 = self.median(ALWAYS, point), self.median(MEDIAN_LATENCY, point)
        succeeded = 1 - self.error_share(point)
        if point.sweep.is_open or not throughput or p50 is None or succeeded <= 0:
            return None
        return 0.5 * p50 * throughput / succeeded / point.number

    def error_share(self, point: Point) -> float:
        """The share of requests of all trials that failed."""
        errors, requests = (self.total(metric, point) for metric in ("errors", "requests"))
        return errors / requests if requests else 0.0

    def settled(self, metric: str, *cases: tuple[str, str]) -> str:
        """Why a metric cannot differ between cases, each (target, case), of one load; "" if it can.

        If servers keep up with an open loop, their throughput is its rate.
        """
        shares = [self.results.estimate("achieved_share", *case) for case in cases]
        kept_up = all(e is not None and (e.summary.median or 0.0) >= ACHIEVED for e in shares)
        return "both achieved the offered rate" if metric == "throughput" and kept_up else ""

    # -- percentiles ---------------------------------------------------------------------------------------------------

    def too_few(self, percentile: float, point: Point) -> bool:
        """Whether a trial of the point had fewer requests with a time than this percentile needs."""
        return min(self._timed(point), default=math.inf) < smallest_n(percentile)

    def _timed(self, point: Point) -> Iterable[float]:
        """How many requests of each trial have a time. Of requests without a response in time, only k6 has one."""
        timed = {trial: n for trial, n, _ in self.results.by_case("requests").get(point.key, ())}
        for metric in () if point.sweep.is_open else ("errors_connect", "errors_timeout"):
            for trial, n, _ in self.results.by_case(metric).get(point.key, ()):
                if trial in timed:
                    timed[trial] -= n
        return timed.values()

    def percentile(self, percentile: int) -> Draw:
        """Cells with the median of a latency percentile of trials, or with the number of requests that it needs."""
        figure = self.figure(f"latency_p{percentile}")

        def draw(point: Point) -> Cell:
            if self.too_few(percentile, point):
                return Cell((f"needs {smallest_n(percentile):,} requests",), self.href(point), "missing")
            return figure(point)

        return draw

    def not_drawn(self, percentile: int) -> Iterator[str]:
        """A sentence with the cases that `views` leaves out because they have too few requests for the percentile."""
        points = [p for s in self.sweeps(is_open=False) for p in s.points]
        named = [f"{self.name(p.sweep)} · {p.level}" for p in points if self.too_few(percentile, p)]
        if named:
            yield f"p{percentile} needs {smallest_n(percentile):,} requests per trial. Not drawn: {'; '.join(named)}."

    # -- results of a sweep --------------------------------------------------------------------------------------------

    def best(self, sweep: Sweep) -> tuple[Point, Estimate] | None:
        """The point with the largest median throughput; None if no trial has one."""
        return self.highest("throughput", sweep.points)

    def saturation(self, sweep: Sweep) -> Point | None:
        """The lowest load with 95 % of the largest median throughput; None if it is the highest measured load."""
        best = self.best(sweep)
        if best is None or sweep.is_open:
            return None
        largest = best[1].summary.median or 0.0
        medians = [(point, self.median("throughput", point)) for point in sweep.points]
        known = [(point, median) for point, median in medians if median is not None]
        first = next(point for point, median in known if median >= SATURATED * largest)
        return None if first == known[-1][0] else first

    @cached_property
    def fits(self) -> list[tuple[Sweep, "scalability.Scalability | str"]]:
        """The fit of the Universal Scalability Law for each closed sweep, or why there is none."""
        return [(sweep, self._fit(sweep)) for sweep in self.sweeps(is_open=False)]

    def _fit(self, sweep: Sweep) -> "scalability.Scalability | str":
        trials = {}
        for point in sweep.points:
            estimate = self.estimate("throughput", point)
            if estimate is not None and estimate.values:
                trials[point.number] = estimate.values
        try:
            return scalability.fit(trials)
        except scalability.UnsupportedFit as reason:
            return str(reason)

    def fitted(self) -> pl.DataFrame:
        """Every fitted curve as rows of a figure: target, case, levels of the sweep, x, and y, low, high in 1/s."""
        rows = []
        for sweep, fit in self.fits:
            if isinstance(fit, str):
                continue
            levels = {name: getattr(sweep, name) for name in _SWEEP} | {"case": sweep.points[0].case}
            curve = zip(fit.curve.concurrency, fit.curve.throughput, fit.curve.low, fit.curve.high, strict=True)
            rows += [
                levels | {"x": float(x), "y": float(y), "low": float(low), "high": float(high)}
                for x, y, low, high in curve
            ]
        schema = dict.fromkeys((*_SWEEP, "case"), pl.String) | dict.fromkeys(("x", "y", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema=schema)

    @property
    def series(self) -> str:
        """What is compared in one figure or table: servers if there are several, else endpoints."""
        return "server" if len({sweep.server for sweep in self.sweeps()}) > 1 else "endpoint"

    def views(self, percentile: int | None = None) -> dict[str, dict[str, Any]]:
        """One choice of closed-loop cases per figure over concurrency, by title: the cases that differ in `series`.

        With `percentile`, cases with too few requests for it are left out.
        """
        chosen = [name for name in _SWEEP if name not in (self.series, CLIENTS)]
        found: dict[str, dict[str, Any]] = {}
        for sweep in self.sweeps(is_open=False):
            where = {name: getattr(sweep, name) for name in [*chosen, *([CLIENTS] if sweep.clients else [])]}
            view = found.setdefault(self.name(sweep, *chosen[1:], CLIENTS), where | {self.series: [], "case": []})
            view[self.series].append(getattr(sweep, self.series))
            view["case"] += [p.case for p in sweep.points if not (percentile and self.too_few(percentile, p))]
        return found

    def name(self, sweep: Sweep, *parts: str) -> str:
        """The name of a sweep for readers: "sftpgo · 1-core-32MiB · static · ab", or only the named `parts`."""
        target = [sweep.target] if len(self.results.targets) > 1 else []
        wanted = [p for p in parts or _SWEEP[1:] if p != CLIENTS]
        clients = [human.plural(int(sweep.clients), "client")] if sweep.clients and CLIENTS in (parts or _SWEEP) else []
        return " · ".join([*target, *(str(getattr(sweep, p)) for p in wanted), *clients])

    def histogram(self) -> pl.DataFrame | None:
        """Latencies of all closed-loop cases with a column `sweep`, for `Page.cdf`; None if there are none."""
        found = self.results.histogram("histogram")
        if found is None or found.is_empty():
            return None
        names = pl.DataFrame(
            [
                {"target": sweep.target, "case": point.case, "sweep": self.name(sweep)}
                for sweep in self.sweeps(is_open=False)
                for point in sweep.points
            ],
            schema=dict.fromkeys(("target", "case", "sweep"), pl.String),
        )
        named = names.join(self.results.cases, on=["target", "case"], maintain_order="left")
        joined = named.join(found, on=["target", "case"], maintain_order="left")
        return None if joined.is_empty() else joined

    @cached_property
    def _tools(self) -> pl.DataFrame:
        """Generators as programs, and whether each one's trials are imported."""
        return self.results.counted.select("tool", "imported").unique().sort("tool", "imported")

    def steps(self) -> str:
        """How finely histograms tell latencies, as the end of a caption."""
        told = [text for tool, text in _HISTOGRAMS.items() if tool in self._tools["tool"]]
        return "".join(f" {text}." for text in told)

    def precision(self) -> Iterator[str]:
        """How precise the latencies of ab are, which the number of printed digits does not show."""
        own = (("ab", False) in (rows := self._tools.rows()), ("ab", True) in rows)
        if any(own):
            yield (
                "ab reports the parts of a request (connect, processing, waiting) in whole milliseconds, and standard "
                "deviations in tenths of a millisecond."
            )
        if own[0]:
            yield (
                "One client's latency percentiles are from ab's file in microseconds. ab prints the mean in whole "
                "milliseconds. Here it is the middle of its bounds, which follow from the percentiles and from the "
                "number of requests per millisecond. With several clients, percentiles come from merged histograms "
                "in whole milliseconds."
            )
        if own[1]:
            yield "In imported reports of ab, percentiles and means are whole milliseconds."

    # -- first and last sections of the page ---------------------------------------------------------------------------

    def answers(self) -> list[dict[str, Any]]:
        """The largest throughput of each server per limit and endpoint, for `Page.show_answers`.

        Open loops only count if no closed one was run, because their offered rate may be what limits them.
        """
        counted = self.sweeps(is_open=False) or self.sweeps(is_open=True)
        groups = grouped(((sweep.limits, sweep.endpoint), sweep) for sweep in counted)
        several = len({sweep.generator for sweep in counted}) > 1
        return [
            {
                "what": f"Highest rate of successful responses {setting({'endpoint': endpoint, 'limits': limits})}",
                "lines": [self._answer(s, several) for s in sweeps],
                "note": "",
            }
            for (limits, endpoint), sweeps in groups.items()
        ]

    def _answer(self, sweep: Sweep, several: bool) -> dict[str, str]:
        name = self.name(sweep, "server", *(["generator"] if several else []), CLIENTS)
        best = self.best(sweep)
        if best is None:
            why, href = self.why_nothing("throughput", sweep.points), self.href(sweep.points[0])
            return {"name": name, "value": "–", "evidence": why, "href": href}
        point, estimate = best
        at = f"an offered rate of {point.level}" if sweep.is_open else human.plural(int(point.number), "connection")
        evidence = f"at {at}; {human.evidence(estimate.summary, '1/s')}"
        if self.client_limit(point):
            evidence += "; client-limited, so the server may be faster"
        if failed := self.error_share(point):
            evidence += f"; errors {human.percent(failed)}"
        value = human.median(estimate.summary, "1/s")
        return {"name": name, "value": value, "evidence": evidence, "href": self.href(point)}

    def _against_little(self) -> Iterator[str]:
        """How many closed loops, also of the null server, break Little's law, and what the sign of the error means."""
        counts, broken, total = [], [], 0
        for sweeps, whose in ((self.sweeps(), ""), (self.ceilings(), " of the null server")):
            points = [p for s in sweeps for p in s.points if self.median("little_error", p) is not None]
            total += len(points)
            broken += (beyond := [p for p in points if self.breaks_little(p)])
            counts += [f"{len(beyond)} of {human.plural(len(points), 'closed-loop point')}{whose}"] if points else []
        if not broken:
            return
        above = sum((self.median("concurrency_measured", p) or 0.0) > p.number for p in broken)
        below = len(broken) - above
        break_it = "break" if len(counts) > 1 else human.verb(len(broken), total, "breaks", "break")
        said = f"{' and '.join(counts)} {break_it} Little's law by more than {human.percent(LITTLE)}."
        if below:
            said += (
                f" In {below}, λW is below L: fewer requests were in flight than there are connections, the run was "
                "too short for so many connections, or a clock is wrong."
            )
        if above:
            said += f" In {above}, λW is above L, so the mean latency is overestimated."
        yield said

    def weaknesses(self) -> Iterator[str]:
        """Sentences about the weaknesses of these figures."""
        points = self.measured
        closed = [p for p in points if not p.sweep.is_open]
        limited = [p for p in points if self.client_limit(p)]
        if limited:
            yield (
                f"{len(limited)} of {human.plural(len(points), 'point')} client-limited: the generator may have "
                "limited the throughput, and the server may be faster."
            )
        alone = [p for p in closed if self.lacks_ceiling(p)]
        if alone:
            yield (
                f"{len(alone)} of {human.plural(len(closed), 'closed-loop point')} without a null server under the "
                f"same generator and concurrency for {LEAST_CEILING_S:g} s or more: only the generator's CPU usage "
                "shows whether the client limited them."
            )
        yield from self._against_little()
        halves = [half for p in closed if (half := self.faster_half(p)) is not None]
        uneven = sum(half < LEAST_HALF for half in halves)
        if uneven:
            yield (
                f"In {uneven} of {human.plural(len(halves), 'closed-loop point')}, the faster half of the requests "
                f"took less than {human.percent(LEAST_HALF)} of the connections' time: a few connections got most "
                "responses, or few requests took nearly all of the time. Their p50 gets no verdict; look at p99."
            )
        told = [note for of_case in self._notes.values() for note in of_case]
        shared = sum(map(shares_cpus, told))
        if shared:
            yield (
                f"In {shared} of {human.plural(len(told), 'trial')} server and generator shared CPUs, and each took "
                "time from the other."
            )
        if closed:
            yield (
                "Closed loops ("
                + ", ".join(dict.fromkeys(p.sweep.generator for p in closed))
                + ") wait for a response "
                "before they send again, so their latencies exclude requests that users would have sent in the "
                "meantime (coordinated omission possible)."
            )
        if any(self.best(s) is not None for s in self.sweeps(is_open=False)):
            yield (
                "The largest throughput of a sweep is selected from the data. Its interval is that of the shown "
                "concurrency and does not account for the selection."
            )


def _load_of(point: Point) -> tuple[Any, ...]:
    """What a point has in common with its ceiling: target, generator, clients, kind of loop, and load."""
    sweep = point.sweep
    return sweep.target, sweep.generator, sweep.clients, sweep.is_open, point.number
