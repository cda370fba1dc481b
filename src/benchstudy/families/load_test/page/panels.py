"""The ten graphs of each load and database, base and new in one chart, and the same figures in a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import polars as pl

from benchstudy.families.load_test.metrics import METRICS
from benchstudy.families.load_test.page.cells import (
    bucket,
    interval_lines,
    no_verdict,
    percent_interval,
    signed_percent,
    verdict_cell,
)
from benchstudy.families.load_test.page.load import FEWEST, Contrast, LoadTest, Trial
from benchstudy.families.load_test.page.mix import LoadMix, Reading
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.figures import level_changes
from benchstudy.report.figures.level_changes import LevelChanges
from benchstudy.report.figures.panels import Axis, Panel, Phase, Style, time_panel
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug
from benchstudy.statistics import within_trial
from benchstudy.statistics.comparisons import Comparison, judge
from benchstudy.statistics.mix_shift import Quantile

# What Exhibits.show_figure takes: name, caption, panels, style, series in the legend.
Drawn = tuple[str, str, list[Panel], Style, list[str]]
_TOWERING, _HEADROOM = 4.0, 1.3  # of what is measured: higher is cut off, there
_ALIGNED = "steady"  # users take their time to arrive: what is measured begins together
_MOST_POINTS = 100  # of a line: the page holds forty of these graphs and more, and stays below 3 MB


@dataclass(frozen=True)
class Kind:
    """One of the page's graphs, under the title it has there. A quantile of buckets gets no verdict, because it is no
    number."""

    title: str
    axis: str
    quantile: bool = False


# The page's ten, in its order.
PANELS = {
    "api_mean": Kind("Average API times", "Time"),
    "api_p99": Kind("p99 of API times", "Time", quantile=True),
    "store_mean": Kind("Average store times", "Time"),
    "store_p99": Kind("p99 of store times", "Time", quantile=True),
    "cpu": Kind("CPU utilization", "Cores"),
    "goroutines": Kind("Goroutines in use", "Goroutines"),
    "heap": Kind("Heap in use", "Memory"),
    "devices": Kind("Connected devices", "Devices"),
    "rps": Kind("Requests per second", "Requests a second"),
    "stack": Kind("Stack in use", "Memory"),
}


class LoadPanels:
    def __init__(self, load: LoadTest):
        self.load = load

    # -- graphs ------------------------------------------------------------------------------------------------------

    def figures(self) -> Iterator[tuple[str, list[Drawn]]]:
        """For each target, database and load its title, and one figure of ten panels with base and new."""
        keys = ("target", "database", "load")
        for key, cases in self.load.results.cases.group_by(keys, maintain_order=True):
            by_version = {row["version"]: row["case"] for row in cases.iter_rows(named=True)}
            trials = {v: self.load.trials(str(key[0]), by_version[v]) for v in self.load.versions if v in by_version}
            # The same version again stands in the band, not between the two.
            trials = {version: found for version, found in trials.items() if found and version not in self.load.same_as}
            where = f" on {key[0]}" if len(self.load.results.targets) > 1 else ""
            title = f"{str(key[2]).capitalize()} {self.load.database(str(key[1]))}{where}"
            changes: dict[str, LevelChanges] = {}
            panels = [
                p for metric, kind in PANELS.items() if (p := self._panel(metric, kind, trials, changes)) is not None
            ]
            if panels:
                phases = self.phases([t for found in trials.values() for t in found])
                shifts = level_changes.caption(changes, f"the {phases[-1].name} phase") if phases else ""
                caption = f"{self._caption(title, trials)} {shifts}".strip()
                yield (title, [(slug(f"panels-{title}"), caption, panels, self.load.style, [*trials])])

    def _caption(self, title: str, trials: dict[str, list[Trial]]) -> str:
        counts = ", ".join(f"{version}: {human.plural(len(found), 'trial')}" for version, found in trials.items())
        several = any(len(found) > 1 for found in trials.values())
        lines = "Lines are medians over trials, bands from the lowest to the highest of them" if several else (
            "One trial a version"
        )  # fmt: skip
        known = [width for found in trials.values() for t in found if (width := self.load.value(t.uuid, "rate_window"))]
        window = f" Rates are over {median(known):g} s before each point." if known else ""
        return (
            f"{title} ({counts}). {lines}; of a p99 the band is the bucket it lies in, and the line PromQL's "
            f"interpolation. Shaded: phases.{window}"
        )

    def _panel(
        self, metric: str, kind: Kind, trials: dict[str, list[Trial]], changes: dict[str, LevelChanges]
    ) -> Panel | None:
        """One graph; what changes its level within the last phase is put into `changes`."""
        frames = {}
        everything = [t for found in trials.values() for t in found]
        steady_s = next((phase.start for phase in self.phases(everything) if phase.name == _ALIGNED), None)
        for version, found in trials.items():
            told = (self._rows(metric, t, steady_s) for t in found)
            rows = [frame for frame in told if frame is not None and not frame.is_empty()]
            if rows:
                frames[version] = rows
        if not frames:
            return None
        pitch = _pitch([frame for rows in frames.values() for frame in rows])
        drawn = [_on_grid(rows, pitch, kind.quantile).with_columns(series=pl.lit(v)) for v, rows in frames.items()]
        phases = self.phases([t for found in trials.values() for t in found])
        together, cut = _cut_off(pl.concat(drawn), phases[-1:])
        lines = together.select("series", pl.lit("").alias("line"), "x", "y")
        bands = together.filter(pl.col("high") > pl.col("low")).select("series", "x", "low", "high")
        x, y = Axis("Since the window began", "time", log=False), Axis(kind.axis, METRICS[metric].unit, log=False)
        title = f"{kind.title} (cut off before the {phases[-1].name} phase)" if cut else kind.title
        if phases and not kind.quantile:  # what lies somewhere in a bucket has no level of its own
            changes[kind.title] = self._changes(frames, phases[-1], y.unit, [t for own in trials.values() for t in own])
        marked = changes.get(kind.title)
        return time_panel(title, lines, x, y, self.load.style, phases, bands, height=200, changes=marked)

    def _changes(
        self, frames: dict[str, list[pl.DataFrame]], measured: Phase, unit: str, trials: Sequence[Trial]
    ) -> LevelChanges:
        """Of medians over trials, sample by sample: a line is drawn of fewer."""
        samples = [frame for rows in frames.values() for frame in rows]
        pitch = max(_steps(samples), default=1.0)
        lines = pl.concat(
            _on_grid(rows, pitch, False).select(series=pl.lit(v), line=pl.lit(""), x="x", y="y")
            for v, rows in frames.items()
        )
        widths = [width for t in trials if (width := self.load.value(t.uuid, "rate_window"))]
        memory_s = max(widths, default=0.0)
        # A rate that looks back over the phase's beginning is still one of what was before.
        return level_changes.find(lines, measured.start + memory_s, measured.end, unit, memory_s)

    def _rows(self, metric: str, trial: Trial, steady_s: float | None = None) -> pl.DataFrame | None:
        """`steady_s`: where the steady phase is drawn; what a trial took longer to come there lies before it."""
        rows = self.load.series("panels", trial.uuid)
        if rows is None:
            return None
        own = rows.filter((pl.col("panel") == metric) & pl.col("value").is_finite())
        begun_s = next((phase.start for phase in self.phases([trial]) if phase.name == _ALIGNED), None)
        later_s = 0.0 if steady_s is None or begun_s is None else steady_s - begun_s
        return own.select(pl.col("t_s") + later_s, "value", "low", "high").sort("t_s")

    def phases(self, trials: Sequence[Trial]) -> list[Phase]:
        """Phases of the trials, each from the median of its beginnings to that of its ends."""
        found: dict[str, list[tuple[float, float]]] = {}
        for trial in trials:
            rows = self.load.series("phases", trial.uuid)
            for name, start, end in rows.select("phase", "start_s", "end_s").iter_rows() if rows is not None else ():
                found.setdefault(name, []).append((start, end))
        phases = [Phase(n, median(s for s, _ in ends), median(e for _, e in ends)) for n, ends in found.items()]
        return sorted(phases, key=lambda phase: phase.start)

    # -- table -------------------------------------------------------------------------------------------------------

    def judged(self, contrast: Contrast) -> dict[str, Comparison]:
        """The means of a contrast, by metric; they are one family for the adjustment of p values."""
        means = [m for m, k in PANELS.items() if self._known(contrast, m) and not k.quantile]
        return dict(zip(means, judge([self.load.compared(contrast, m) for m in means]), strict=True))

    def table(self, contrast: Contrast) -> Table:
        """A row a graph: both sides over the steady window, their ratio, the verdict."""
        known = {m: k for m, k in PANELS.items() if self._known(contrast, m)}
        judged = self.judged(contrast)
        few = self.load.n(contrast) < FEWEST
        body = []
        for metric, kind in known.items():
            sides = [self._side(contrast, case, metric, kind) for case in contrast.cases.values()]
            outcome = judged.get(metric)
            if outcome is not None:
                body.append((Cell.text(kind.title), *sides, *self._outcome(contrast, metric, outcome, few)))
            else:
                body.append((Cell.text(kind.title), *sides, MISSING, self._buckets(contrast, metric)))
        columns = ("Over the steady window", f"{contrast.base}, the base", contrast.new, "Ratio", "Verdict")
        title = self.load.title(contrast)
        return Table(slug(f"window-{title}"), f"{title}: base and new over the steady window", columns, tuple(body))

    def _known(self, contrast: Contrast, metric: str) -> bool:
        return any(self.load.estimate(metric, contrast.target, case) for case in contrast.cases.values())

    def _side(self, contrast: Contrast, case: str, metric: str, kind: Kind) -> Cell:
        estimate = self.load.estimate(metric, contrast.target, case)
        cell = cells.estimate_cell(self.load.results, estimate, "median")
        if not kind.quantile or estimate is None or estimate.summary.median is None:
            return cell
        said = [bucket(q) for t in self.load.trials(contrast.target, case) if (q := self._quantile(t, metric))]
        counts = {text: said.count(text) for text in dict.fromkeys(said)}
        several = len(said) > 1
        lines = [f"{text} ({n} of {len(said)})" if several else text for text, n in counts.items()]
        told = f"interpolated: {human.median(estimate.summary, 's')}"
        return Cell((*lines, told), cell.href, title="the bucket that holds the quantile, and in how many trials")

    def _quantile(self, trial: Trial, metric: str) -> Quantile | None:
        value, low = (self.load.value(trial.uuid, name) for name in (metric, f"{metric}_low"))
        return (
            None
            if value is None or low is None
            else Quantile(value, low, self.load.value(trial.uuid, f"{metric}_high"))
        )

    def _buckets(self, contrast: Contrast, metric: str) -> Cell:
        """In how many blocks the p99 of the new side lies in another bucket: nothing finer is known of it."""
        base, new = ({t.block: self._quantile(t, metric) for t in side} for side in self.load.sides(contrast))
        pairs = [(p, q) for b, q in new.items() if q is not None and (p := base.get(b)) is not None]
        if not pairs:
            return no_verdict("no block has both")
        higher = sum(q.apart(p) and q.low > p.low for p, q in pairs)
        lower = sum(q.apart(p) and q.low < p.low for p, q in pairs)
        if not higher and not lower:
            return Cell(("not distinguishable", "the same bucket"), kind="text verdict")
        return Cell((f"higher bucket in {higher}, lower in {lower}", f"of {human.plural(len(pairs), 'block')}"),
                    kind="text verdict")  # fmt: skip

    def _outcome(self, contrast: Contrast, metric: str, made: Comparison, few: bool) -> tuple[Cell, Cell]:
        href = cells.href(self.load.results, contrast.target, contrast.new_case)
        if few:
            return self._within(contrast, metric, href)
        if made.ratio is None:
            return MISSING, verdict_cell(made)
        verdict = verdict_cell(made, *self._about_mix(contrast, metric))
        return Cell((signed_percent(made.ratio, made.low, made.high), *interval_lines(made)), href), verdict

    def _about_mix(self, contrast: Contrast, metric: str) -> Iterator[str]:
        """What must stand beside the change of a mean over all calls when it is one of which calls are made."""
        for reading in self._readings:
            if reading.contrast == contrast and metric == f"{reading.group}_mean" and reading.mix_driven:
                yield f"{reading.verdict}: see Mix shift"

    @cached_property
    def _readings(self) -> list[Reading]:
        return LoadMix(self.load).readings

    def _within(self, contrast: Contrast, metric: str, href: str) -> tuple[Cell, Cell]:
        """Too few trials for a verdict; of one an arm, how far its own samples go, by blocks of them."""
        n = self.load.n(contrast)
        verdict = no_verdict("one trial an arm" if n == 1 else f"{human.plural(n, 'trial')} an arm")
        samples = [[v for t in side[:1] for v in self.steady(metric, t)] for side in self.load.sides(contrast)]
        medians = [self.load.median(metric, contrast.target, case) for case in contrast.cases.values()]
        if not medians[0] or medians[1] is None:
            return MISSING, verdict
        ends = within_trial.ratio_interval(*samples) if n == 1 else None
        said = "too few samples for an interval" if n == 1 else "n too small for an interval"
        if ends is not None:
            said = f"{percent_interval(*ends)}, {within_trial.WITHIN}"
        return Cell((signed_percent(medians[1] / medians[0], *(ends or ())), said), href), verdict

    def steady(self, metric: str, trial: Trial) -> list[float]:
        """The graph's samples inside the steady window."""
        rows, window = self._rows(metric, trial), trial.facts.get("window") or {}
        steady = trial.facts.get("steady") or {}
        if rows is None:
            return []
        if "start_s" in window and "start_s" in steady:
            begin, end = (steady[e] - window["start_s"] for e in ("start_s", "end_s"))
            rows = rows.filter(pl.col("t_s").is_between(begin, end))
        return rows["value"].to_list()


def _cut_off(rows: pl.DataFrame, measured: Sequence[Phase]) -> tuple[pl.DataFrame, bool]:
    """x, y, low, high without the heights of a ramp that would press what is measured to the ground; and whether any
    were cut."""
    inside = rows.filter(pl.any_horizontal(False, *(pl.col("x").is_between(p.start, p.end) for p in measured)))
    top = max((v for column in ("y", "high") for v in inside[column].drop_nulls()), default=0.0)
    highest = max((v for column in ("y", "high") for v in rows[column].drop_nulls()), default=0.0)
    if not top or highest <= _TOWERING * top:
        return rows, False
    return rows.with_columns(pl.col("y", "low", "high").clip(upper_bound=_HEADROOM * top)), True


def _pitch(frames: Sequence[pl.DataFrame]) -> float:
    """Seconds between points of a line: the samples' own, or more where there would be too many."""
    times = [t for frame in frames for t in frame["t_s"].to_list()]
    return max(max(_steps(frames), default=1.0), (max(times) - min(times)) / _MOST_POINTS, 1e-3)


def _steps(frames: Sequence[pl.DataFrame]) -> list[float]:
    """Seconds from one sample to the next, as it mostly is, of each frame that has several."""
    return [step for frame in frames if frame.height > 1 and (step := median(frame["t_s"].diff().to_list()[1:]))]


def _on_grid(frames: Sequence[pl.DataFrame], pitch: float, quantile: bool) -> pl.DataFrame:
    """x, y, low, high: the median over trials on a common grid, from one sample of each trial a step, as percentiles
    must not be averaged; and the range over trials, or of their buckets."""
    rows = []
    for frame in frames:
        cell = (pl.col("t_s") / pitch).floor()
        rows.append(frame.with_columns(cell=cell).group_by("cell", maintain_order=True).first())
    together = pl.concat(rows)
    low, high = (pl.col("low"), pl.col("high")) if quantile else (pl.col("value"), pl.col("value"))
    return (
        together.group_by("cell")
        .agg(y=pl.col("value").median(), low=low.min(), high=high.max(), censored=high.is_null().any())
        .sort("cell")
        .select(
            x=(pl.col("cell") + 0.5) * pitch,
            y="y",
            low="low",
            # Above the last finite edge nothing bounds it, and a band must not seem to.
            high=pl.when("censored").then(None).otherwise("high"),
        )
    )
