"""A figure of open and closed loops on the same log at the same offered rate."""

from collections.abc import Iterator

from benchstudy.families.log_write.page.hammer import LogHammer
from benchstudy.families.log_write.page.load import LogWrite, Point
from benchstudy.report.exhibits import figuredata
from benchstudy.report.figures.charts import Drawn
from benchstudy.report.figures.panels import Axis, Panel, Style, strip_panels

# For each panel: the metric of open loops, and that of the hammer, whose times are tick means.
_MEASURES = {
    "Achieved": ("qps", "qps", "1/s"),
    "Time in queue, mean": ("queue_mean", "hammer_queue_avg", "s"),
    "Time to integrate, mean": ("integrate_mean", "hammer_integrate_avg", "s"),
}


class LogLoops:
    """Figures of logs that were measured with open and closed loops. `hammer` finds them."""

    def __init__(self, load: LogWrite, hammer: LogHammer):
        self.load, self._pairs = load, list(hammer.both())

    def figures(self) -> Iterator[Drawn]:
        """One figure, with a row per log, rate and loop and a panel per metric; no figure without such a log."""
        rows = {self._name(point): point for pair in self._pairs for point in pair}
        style = Style(tuple(rows))
        panels: list[Panel] = []
        for title, (of_open, of_closed, unit) in _MEASURES.items():
            cases = (
                (of_open if point.sweep.is_open else of_closed, point.key, {"series": name})
                for name, point in rows.items()
            )
            points, estimates = figuredata.of_cases(self.load.results, cases)
            if not points.is_empty():
                axis = Axis(title, unit)
                panels += strip_panels(title, points, estimates, axis, style)
        if panels:
            caption = "The open loop and the hammer (a closed loop) at the same offered rate, trial by trial."
            yield "open-closed-loops", caption, panels, style, []

    def _name(self, point: Point) -> str:
        # The loop first, because an axis cuts off the end of a long label.
        loop = "open" if point.sweep.is_open else "closed"
        return f"{loop} · {point.level} · {self.load.name(point.sweep, generator=False)}"
