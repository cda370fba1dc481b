"""The hammer's figures beside ours: its screen, the same box from our data, and its Δ against the checkpoints."""

from collections.abc import Iterator, Sequence

import polars as pl

from benchstudy.families.log_write.hammer import framed, screen_of
from benchstudy.families.log_write.page.load import AGREEMENT, LogWrite, Point, Sweep
from benchstudy.families.log_write.page.summary import worst_disagreement
from benchstudy.families.log_write.page.tables import LogTables
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import figuredata
from benchstudy.report.figures.charts import Drawing
from benchstudy.report.figures.panels import Axis, Panel, Style, strip_panels
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import MISSING, Cell, Table

_TIMES = ("queue", "integrate")
# For each panel: the metric of open loops, and that of the hammer, whose times are tick means.
_MEASURES = {
    "Achieved": ("qps", "qps", "1/s"),
    "Time in queue, mean": ("queue_mean", "hammer_queue_avg", "s"),
    "Time to integrate, mean": ("integrate_mean", "hammer_integrate_avg", "s"),
}


class LogHammer:
    def __init__(self, load: LogWrite):
        self.load, self.tables = load, LogTables(load)

    # -- boxes -----------------------------------------------------------------------------------------------------

    def boxes(self) -> Iterator[tuple[str, list[Listing]]]:
        """For each log, by name: our box, and the hammer's box if the hammer was run."""
        groups = grouped((sweep.log, sweep) for sweep in self.load.sweeps)
        for sweeps in groups.values():
            found = self._pair(sweeps)
            if found:
                yield self.load.name(sweeps[0], generator=False), found

    def _pair(self, sweeps: Sequence[Sweep]) -> list[Listing]:
        closed = [point for s in sweeps if not s.is_open and (point := self.load.shown(s))]
        rate = closed[0].rate if closed else None
        found = []
        for sweep in (s for s in sweeps if s.is_open):
            same = next((p for p in sweep.points if p.rate == rate and self.load.trials(p)), None)
            point = same or self.load.shown(sweep)
            if point is not None:
                found += [self._own(point)]
        return [*found, *(listing for point in closed if (listing := self._screen(point)))]

    def _own(self, point: Point) -> Listing:
        """Our box in the format of Tessera's page: medians over trials, minimum and maximum over all trials."""
        values = self.load.trials(point)

        def median(metric: str) -> str:
            found = self.load.median(metric, point)
            return "–" if found is None else f"{found:.0f}"

        def time(metric: str) -> str:
            return _ms(self.load.median(metric, point))

        # Totals, because most trials may have none of them, and medians would then hide the rest.
        dropped, pushback, errors = (
            f"{self.load.total(metric, point):.0f}" for metric in ("dropped", "pushback", "errors")
        )
        lines = [
            f"Write (open loop): Offered: {median('offered')}/s. Not sent, in all windows: {dropped}",
            f"Pushback: {pushback}. Errors: {errors}. "
            f"Proved included: {median('proofs_proved')} of {median('proofs_asked')}",
            f"TreeSize: {median('tree_size')} (Δ {median('qps')}qps between checkpoints)",
        ]
        least = self._least(point)
        for which, heading in zip(_TIMES, ("Time-in-queue", "Observed-time-to-integrate"), strict=True):
            most = max((v[f"{which}_max"] for v in values.values() if f"{which}_max" in v), default=None)
            ends = (_ms(least.get(which)), time(f"{which}_mean"), _ms(most))
            lines.append(f"{heading}: {'/'.join(ends)} (min/avg/max)")
            shares = [f"{p} {time(f'{which}_{p}')}" for p in ("p50", "p90", "p99")]
            lines.append(f"  of leaves: {', '.join(shares)}")
        title = f"Ours {'at' if point.rate else 'in the'} {point.level} ({self.load.loop(point.sweep)})"
        note = (
            f"Medians of {human.plural(len(values), 'trial')}. Minimum, maximum, and the counts of leaves not sent, "
            "pushed back or failed cover all trials. Times start when a leaf was due."
        )
        found, total = disturbed.cases(self.load.results).get((point.target, point.case), (0, 0))
        if found:
            note += f" Other work disturbed {found} of {human.plural(total, 'trial')}."
        return Listing(title, framed(lines), note, self.load.href(point))

    def _least(self, point: Point) -> dict[str, float]:
        rows = self.load.results.histogram("histogram")
        if rows is None:
            return {}
        mine = (pl.col("target") == point.target) & (pl.col("case") == point.case) & (pl.col("count") > 0)
        return dict(rows.filter(mine).group_by("which").agg(pl.col("lower_s").min()).iter_rows())

    def _screen(self, point: Point) -> Listing | None:
        trial = self.load.typical(point, "hammer_qps")
        values = self.load.trials(point)
        screen = screen_of(values.get(trial or "", {}))
        if trial is None or screen is None:
            return None
        which = f", nearest to the median of {len(values)} trials" if len(values) > 1 else ", the only trial"
        note = f"Trial {trial}{which}: the screen at the end. Its min/avg/max are of tick means, not of single leaves."
        if trial in self.load.results.disturbed:
            note += " Other work disturbed this trial."
        return Listing(
            f"Hammer's own screen at {point.level}", screen.box(), note, self.load.results.places.href(trial)
        )

    # -- does it agree? --------------------------------------------------------------------------------------------

    def not_compared(self) -> list[str]:
        """The sentence that no Δ could be compared; nothing if one could, or if the hammer was not run."""
        runs = self._runs()
        if not runs or any(worst_disagreement(self.load, run) is not None for run in runs):
            return []
        return ["No run of the hammer lasted for a full window, so whether they agree is not known."]

    def agreement(self) -> Table:
        """One row per case of the hammer: its Δ beside the checkpoints of the same seconds, means over its screens."""
        body = []
        metrics = ("qps_of_hammer_window", "hammer_qps_mean", "qps", "hammer_oversupply")
        for point in self._runs():
            row = [self.load.figure(metric)(point) for metric in metrics]
            if any(cell is not MISSING for cell in row):
                head = f"{self.load.name(point.sweep)} · {point.level}"
                body.append((Cell.text(head), *row[:2], self._worst(point), *row[2:]))
        columns = ("Case", "Checkpoints, same 30 s", "Hammer's Δ", "Difference, worst trial")
        left = "oversupply" if self.not_compared() else "Δ"
        caption = f"The hammer's {left} and the checkpoints of the same run"
        return Table("hammer-agreement", caption, (*columns, "Checkpoints, window", "Oversupply"), tuple(body))

    def _runs(self) -> list[Point]:
        return [point for point in self.load.every_point if not point.sweep.is_open and point.rate is not None]

    def _worst(self, point: Point) -> Cell:
        if (worst := worst_disagreement(self.load, point)) is None:
            return MISSING
        marks = (f"> {human.percent(AGREEMENT)}",) if worst > AGREEMENT else ()
        return Cell((human.quantity(worst, "%"),), self.load.href(point), marks=marks)

    # -- closed beside open ----------------------------------------------------------------------------------------

    def open_closed(self) -> Table:
        """Two rows for each log and rate that was measured with both an open and a closed loop."""
        figure = self.load.figure
        times = {
            True: ("queue_mean", "queue_p99", "integrate_mean", "integrate_p99"),
            False: ("hammer_queue_avg", "hammer_queue_max", "hammer_integrate_avg", "hammer_integrate_max"),
        }
        body = []
        for pair in self.both():
            for point in pair:
                row = [figure(metric)(point) for metric in times[point.sweep.is_open]]
                head = f"{self.load.name(point.sweep, generator=False)} · {point.level}"
                loop, rate = Cell.text(self.load.loop(point.sweep)), self.tables.rate_cell(point)
                body.append((Cell.text(head), loop, rate, *row))
        ends = ("mean, hammer: avg", "p99, hammer: max")
        columns = [f"{which}: {end}" for which in ("Time in queue", "Time to integrate") for end in ends]
        caption = "The open loop and the hammer at the same offered rate"
        return Table("open-closed", caption, ("Log and rate", "Generator", "Achieved", *columns), tuple(body))

    def figures(self) -> Iterator[Drawing]:
        """One figure, with a row per log, rate and loop and a panel per metric; no figure without such a log."""
        rows = {self._row_name(point): point for pair in self.both() for point in pair}
        style = Style(tuple(rows))
        panels: list[Panel] = []
        for title, (of_open, of_closed, unit) in _MEASURES.items():
            cases = (
                (of_open if point.sweep.is_open else of_closed, point.key, {"series": name})
                for name, point in rows.items()
            )
            points, estimates = figuredata.of_cases(self.load.results, cases)
            if not points.is_empty():
                panels += strip_panels(title, points, estimates, Axis(title, unit), style)
        if panels:
            caption = "The open loop and the hammer (a closed loop) at the same offered rate, trial by trial."
            yield Drawing("open-closed-loops", caption, panels, style, [])

    def _row_name(self, point: Point) -> str:
        # The loop first, because an axis cuts off the end of a long label.
        loop = "open" if point.sweep.is_open else "closed"
        return f"{loop} · {point.level} · {self.load.name(point.sweep, generator=False)}"

    def both(self) -> Iterator[tuple[Point, Point]]:
        """Pairs of an open and a closed loop of the same log at the same offered rate."""
        for one in (s for s in self.load.sweeps if s.is_open):
            for other in self.load.sweeps:
                for its in one.points if one.log == other.log and not other.is_open else ():
                    for theirs in (p for p in other.points if p.rate == its.rate):
                        yield its, theirs


def _ms(seconds: float | None) -> str:
    """Whole milliseconds, as in the hammer's box. A time that nothing took is a dash, not zero."""
    return "–" if seconds is None else f"{1000 * seconds:.0f}ms"
