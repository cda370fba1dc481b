"""Tables of load tests, in the format of Filestash's page and with further details. See load.py for the arithmetic."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchstudy.families.http_concurrency.config import CEILING
from benchstudy.families.http_concurrency.metrics import PERCENTILES
from benchstudy.families.http_concurrency.page.load import SATURATED, HttpLoad, Point, Sweep
from benchstudy.families.shared.sweeps import Draw, failed_cell, rate_cell, rows_of
from benchstudy.model import rounding
from benchstudy.model.criteria import LITTLE
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.results.results import Estimate
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug
from benchstudy.statistics.comparisons import share
from benchstudy.statistics.scalability import Parameter, Scalability

CLIENT_LIMITED = "client-limited"
NO_CEILING = "no ceiling"
TOO_SHORT = "too short"
LITTLE_BROKEN = f"Little > {human.percent(LITTLE)}"
_ZERO = 1e-6
_ROUNDED_TO_ZERO = "< 0.5 ms"  # ab rounds the times of its report to whole milliseconds
_DEVIATION_S = 1e-4  # and deviations to tenths of them
# The headings that ab prints.
_TIMES = {"connect": "Connect", "processing": "Processing", "waiting": "Waiting", "latency": "Total"}
_KINDS = {
    "errors_status": "Wrong status",
    "errors_length": "Wrong body",
    "errors_timeout": "Timeout",
    "errors_connect": "Connection error",
}


class HttpTables:
    """Every table of the page, made from `load`."""

    def __init__(self, load: HttpLoad):
        self.load = load

    # -- requests per second -------------------------------------------------------------------------------------------

    def throughput(self) -> Iterator[Table]:
        """The throughput of closed loops, in tables of one row per concurrency. See `_groups`."""
        for sweeps, name, told, heads in self._groups(is_open=False):
            caption = f"Requests per second: {told}"
            yield self._grid(f"requests-{name}", caption, "Concurrency", heads, sweeps, self.throughput_cell)

    def open_throughput(self) -> Iterator[Table]:
        """The offered and the achieved rates of open loops, in tables of one row per rate. See `_groups`."""
        for sweeps, name, told, heads in self._groups(is_open=True):
            caption = f"Offered and achieved rates: {told}"
            yield self._grid(f"offered-{name}", caption, "Requested rate", heads, sweeps, self._offered_cell)

    def ceilings(self) -> Iterator[Table]:
        """The throughput of each generator with the null server."""
        for is_open in (False, True):
            sweeps = [s for s in self.load.ceilings() if s.is_open is is_open]
            if sweeps:
                what = "Requested rate" if is_open else "Concurrency"
                name = f"null-server-{'open' if is_open else 'closed'}"
                loop = "open loop: only the requested rate" if is_open else "closed loop: the ceiling"
                caption = f"Requests per second of the null server, {loop}"
                heads = [self.load.name(s, "server", "generator", "clients") for s in sweeps]
                yield self._grid(name, caption, what, heads, sweeps, self.throughput_cell)

    def _groups(self, *, is_open: bool) -> Iterator[tuple[list[Sweep], str, str, list[str]]]:
        """Per table: its sweeps, their name, the name with the generators, and a heading per sweep.

        Tables for several servers have a column per server, and there is one per limit and endpoint. For one server,
        they have a column per endpoint, as Filestash's page has.
        """
        fixed = ("limits", "endpoint") if self.load.series == "server" else ("server", "limits")
        keys = ("target", *fixed, "clients")
        groups = grouped((tuple(getattr(s, key) for key in keys), s) for s in self.load.sweeps(is_open=is_open))
        for sweeps in groups.values():
            name = self.load.name(sweeps[0], *fixed, "clients")
            generators = list(dict.fromkeys(s.loop for s in sweeps))
            heads = [getattr(s, self.load.series) for s in sweeps]
            if len(generators) > 1:
                heads = [f"{head} · {s.generator}" for head, s in zip(heads, sweeps, strict=True)]
            yield sweeps, name, f"{name} ({'; '.join(generators)})", heads

    def _grid(
        self, name: str, caption: str, corner: str, heads: Sequence[str], sweeps: Sequence[Sweep], draw: Draw
    ) -> Table:
        """A table with one row per load and one column per sweep."""
        loads = {point.number: point.level for sweep in sweeps for point in sweep.points}
        body = []
        for number in sorted(loads):
            row = [Cell.text(loads[number])]
            for sweep in sweeps:
                point = next((p for p in sweep.points if p.number == number), None)
                row.append(draw(point) if point is not None else MISSING)
            body.append(tuple(row))
        return Table(slug(name), caption, (corner, *heads), tuple(body))

    def throughput_cell(self, point: Point) -> Cell:
        return self._marked(point, lambda e: [human.evidence(e.summary, e.unit)])

    def _offered_cell(self, point: Point) -> Cell:
        offered, dropped = self.load.median("offered", point), self.load.median("dropped", point)

        def lines(estimate: Estimate) -> list[str]:
            found = [f"of {human.quantity(offered, '1/s')} offered"] if offered is not None else []
            if dropped:
                found.append(f"{human.quantity(dropped, '1')} not sent")
            return [*found, human.evidence(estimate.summary, estimate.unit)]

        return self._marked(point, lines)

    def _marked(self, point: Point, lines: Callable[[Estimate], list[str]]) -> Cell:
        """A cell with the median throughput, its evidence, the causes of failed trials, and every mark that applies."""
        estimate = self.load.estimate("throughput", point)
        if estimate is None:
            return MISSING
        results, limited = self.load.results, self.load.client_limit(point)
        if estimate.summary.median is None:
            return failed_cell(results, estimate)
        return rate_cell(results, estimate, lines(estimate), self._marks(point), limited)

    def _marks(self, point: Point) -> tuple[str, ...]:
        marks = []
        if point.sweep.endpoint == CEILING:
            marks += [TOO_SHORT] if self.load.is_short(point) else []
        elif self.load.client_limit(point):
            marks.append(CLIENT_LIMITED)
        elif self.load.lacks_ceiling(point):
            marks.append(NO_CEILING)
        if self.load.breaks_little(point):
            marks.append(LITTLE_BROKEN)
        if failed := self.load.error_share(point):
            marks.append(f"errors {human.percent(failed)}")
        return tuple(marks)

    # -- one sweep in detail -------------------------------------------------------------------------------------------

    def details(self) -> Iterator[Table]:
        """One table per sweep: percentiles, parts of a request, transfer rate and memory, with one column per load."""
        for sweep in self.load.sweeps():
            body = tuple(rows_of(self._detail_rows(), sweep.points))
            name = self.load.name(sweep)
            what = "rate" if sweep.is_open else "concurrency"
            heads = [p.level if sweep.is_open else f"{p.number:,.0f}" for p in sweep.points]
            caption = f"{name} ({'open' if sweep.is_open else 'closed'} loop), by {what}"
            yield Table(slug(f"detail-{name}"), caption, (what.capitalize(), *heads), body)

    def _detail_rows(self) -> Iterator[tuple[str, Draw]]:
        for percentile in PERCENTILES:
            yield f"{percentile} %", self.load.percentile(percentile)
        yield "100 % (longest request)", self.load.figure("latency_max")
        for part, heading in _TIMES.items():
            yield f"{heading}: mean ± sd", self._time(part)
        yield "Transfer rate", self.load.figure("transfer_rate")
        yield "Peak server memory", self.load.figure("server_peak_memory")
        yield "Server CPU, share of its limit", self.load.figure("server_cpu", "%")
        yield "Generator CPU", self.load.figure("generator_cpu", "%")
        yield "Requests per trial", self.load.figure("requests")
        yield "Keep-alive requests", self.load.figure("keepalive_requests")

    def _time(self, part: str) -> Draw:
        """Mean ± standard deviation, median and maximum of a trial's requests, each as the median over trials."""
        mean_figure = self.load.figure(f"{part}_mean")
        median, largest = ("latency_p50", "latency_max") if part == "latency" else (f"{part}_median", f"{part}_max")

        def draw(point: Point) -> Cell:
            mean, sd = (self.load.median(f"{part}_{what}", point) for what in ("mean", "sd"))
            if mean is None:
                return mean_figure(point)
            # Only ab tells deviations of the parts. It rounds them to tenths, and all else of the parts to whole ms.
            is_ab = self.load.median("processing_sd", point) is not None
            said = partial(_rounded, rounds=is_ab and part != "latency")
            finest = _DEVIATION_S if is_ab else 0.0
            lines = [human.plus_minus(mean, sd, "s", finest) if mean and sd else said(mean)]
            middle, most = (self.load.median(metric, point) for metric in (median, largest))
            if middle is not None and most is not None:
                lines.append(f"median {said(middle)}, max {said(most)}")
            return Cell(tuple(lines), self.load.href(point))

        return draw

    # -- checks --------------------------------------------------------------------------------------------------------

    def little(self) -> Table:
        """Deviations from Little's law, with one row per closed sweep and one column per concurrency."""
        sweeps = [s for s in self.load.all_sweeps if not s.is_open]
        loads = sorted({point.number for sweep in sweeps for point in sweep.points})
        body = []
        for sweep in sweeps:
            by_load = {point.number: point for point in sweep.points}
            row = [self._little_cell(by_load[n]) if n in by_load else MISSING for n in loads]
            body.append((Cell.text(self.load.name(sweep)), *row))
        caption = "Little's law: |L − λW| / L, less what rounding may explain, median over trials"
        return Table("littles-law", caption, ("Sweep", *(f"L = {n:,.0f}" for n in loads)), tuple(body))

    def _little_cell(self, point: Point) -> Cell:
        estimate = self.load.estimate("little_error", point)
        measured = self.load.median("concurrency_measured", point)
        if estimate is None or estimate.summary.median is None:
            if measured is not None:
                lines = ["unknown", f"λW = {human.number(measured)}", "rounding may hide a deviation"]
                lines += cells.failures(estimate) if estimate else []
                return Cell(tuple(lines), self.load.href(point), "missing")
            return failed_cell(self.load.results, estimate) if estimate and estimate.failed else MISSING
        lines = [human.median(estimate.summary, "%")]
        lines += [f"λW = {human.number(measured)}"] if measured is not None else []
        lines.append(f"worst of {estimate.summary.n}: {human.percent(max(estimate.values))}")
        marks = (LITTLE_BROKEN,) if self.load.breaks_little(point) else ()
        return Cell(tuple(lines), self.load.href(point), marks=marks)

    def errors(self) -> Table:
        """Failed requests of each case that has any, or whose bodies nobody checked, with Wilson's interval.

        The last row sums up all other cases, with the widest of their intervals: that of all requests together would
        claim more of each case than its own requests show.
        """
        body, sound = [], list[float]()
        for point in (point for sweep in self.load.all_sweeps for point in sweep.points):
            errors, requests = self.load.counted("errors", point), self.load.total("requests", point)
            # An imported summary that counts no failures has no throughput.
            known = (self.load.estimate(metric, point) for metric in ("throughput", "requests"))
            if (estimate := next(filter(None, known), None)) is None:
                continue
            unchecked = self.load.counted("errors_length", point) is None
            if errors != 0 or unchecked or estimate.failed:
                body.append(self._errors_row(point, errors, requests, estimate))
            else:
                sound.append(requests)
        if sound:
            head = ("every other case" if body else "every case") + f" ({len(sound):,})"
            none = [Cell.text("0") for _ in _KINDS]
            row = (Cell.text(f"{sum(sound):,.0f}"), _no_errors(sound), *none, Cell.text("none"))
            body.append((Cell.text(head), *row))
        columns = ("Case", "Requests", "Wrong or missing responses", *_KINDS.values(), "Failed trials")
        return Table("errors", "Errors, with Wilson's 95 % interval", columns, tuple(body))

    def _errors_row(self, point: Point, errors: float | None, requests: float, estimate: Estimate) -> tuple[Cell, ...]:
        href = self.load.href(point)
        lines = [f"{estimate.failed} of {estimate.results}"]
        if estimate.failed:
            failed = share(estimate.failed, estimate.results)
            lines.append(failed.interval)
        head = f"{self.load.name(point.sweep)} · {point.level}"
        return (
            Cell.text(head, href),
            Cell.text(f"{requests:,.0f}"),
            _share(errors, requests),
            *(_whole(self.load.counted(kind, point)) for kind in _KINDS),
            Cell((*lines, *cells.failures(estimate)), href, "failed" if estimate.failed else "text"),
        )

    # -- scalability ---------------------------------------------------------------------------------------------------

    def scalability(self) -> Table:
        """The parameters of the Universal Scalability Law for each closed sweep that supports a fit."""
        body = []
        for sweep, fit in self.load.fits:
            if isinstance(fit, str):
                continue
            saturated = self.load.saturation(sweep)
            limited = [p.level for p in sweep.points if self.load.client_limit(p)]
            marks = disturbed.mark_together(self.load.results, {(p.target, p.case) for p in sweep.points})
            note = f"client-limited at {', '.join(limited)}: the fit describes server and generator together"
            body.append(
                (
                    Cell((self.load.name(sweep), *([note] if limited else [])), marks=marks),
                    Cell.text(
                        f"at {human.plural(round(saturated.number), 'connection')}"
                        if saturated
                        else "not within the sweep"
                    ),
                    _parameter(fit.single, "1/s"),
                    _parameter(fit.contention),
                    _parameter(fit.coherency),
                    _peak(fit),
                    Cell.text(human.percent(fit.worst_miss)),
                )
            )
        columns = (
            "Sweep",
            f"Reaches {human.percent(SATURATED)} of its maximum",
            "One user, λ",
            "Contention, σ",
            "Coherency, κ",
            "Peak at",
            "Largest deviation from a geometric mean",
        )
        caption = "Universal Scalability Law, with 95 % intervals from a bootstrap over trials (Student's t)"
        return Table("scalability", caption, columns, tuple(body))

    def without_law(self) -> list[str]:
        """One sentence per reason why closed sweeps support no fit, with the names of these sweeps."""
        sweeps = grouped((fit, self.load.name(sweep)) for sweep, fit in self.load.fits if isinstance(fit, str))
        return [f"No fit ({reason}): {'; '.join(names)}." for reason, names in sweeps.items()]


def _rounded(seconds: float, *, rounds: bool) -> str:
    """A time of a generator that `rounds` to whole milliseconds, without digits that it lacks, or of another one."""
    if not rounds:
        return human.quantity(seconds, "s")
    found = human.scale(seconds, "s")
    return found.beside(rounding.shown(seconds / found.factor, trim=True)) if seconds else _ROUNDED_TO_ZERO


def _whole(count: float | None) -> Cell:
    return MISSING if count is None else Cell.text(f"{count:,.0f}")


def _share(errors: float | None, requests: float) -> Cell:
    if errors is None:
        return Cell(("not counted",), kind="missing", title="the imported output does not say")
    if not requests:
        return MISSING
    wrong = share(round(errors), round(requests))
    said = human.share(wrong)
    return Cell((f"{errors:,.0f} ({said})", wrong.interval), kind="text")


def _no_errors(requests: Sequence[float]) -> Cell:
    """The cell of cases without errors, each with this many requests: the interval of the case with the fewest."""
    fewest = _share(0, min(requests))
    if len(requests) == 1 or fewest is MISSING:
        return fewest
    widest = f"{fewest.lines[1]} in the case with the fewest requests ({min(requests):,.0f})"
    return Cell((fewest.lines[0], widest), kind="text")


def _parameter(parameter: Parameter | None, unit: str = "1") -> Cell:
    """The cell of a parameter. The law's parameters are shares of one, so a value below a millionth is shown as 0."""
    if parameter is None:
        return Cell(("–",), kind="missing", title="concurrency 1 was not measured")
    value, low, high = (v if abs(v) > _ZERO else 0.0 for v in (parameter.value, parameter.low, parameter.high))
    return Cell(human.estimate(value, low, high, unit))


def _peak(fit: Scalability) -> Cell:
    """The cell of the peak: a number only of what was measured, and what the law does there in words if it is not."""
    first, last = (round(float(end)) for end in fit.curve.concurrency[[0, -1]])
    peak = fit.peak
    if peak is None:
        return Cell.text(f"outside of the sweep: throughput still rises at {last:,}")
    if peak.concurrency <= first and first > 1:
        return Cell.text(f"outside of the sweep: throughput falls from {first:,} on")
    if peak.high is not None and (peak.low > first or first == 1):
        return Cell(human.estimate(peak.concurrency, peak.low, peak.high, "1"))
    low = human.number(peak.low) if peak.low > first or first == 1 else f"below {first:,}"
    high = f"above {last:,}" if peak.high is None else human.number(peak.high)
    return Cell((human.number(peak.concurrency), f"95 %: {low} to {high}"))
