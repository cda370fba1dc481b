"""The ten graphs of each load and database, with all versions in one chart, and their figures in a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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
from benchstudy.families.load_test.page.load import FEWEST, Contrast, LoadTest, Single, Trial
from benchstudy.families.load_test.page.mix import LoadMix, Reading
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.figures import level_changes
from benchstudy.report.figures.charts import Drawing
from benchstudy.report.figures.layers import drawn_only
from benchstudy.report.figures.level_changes import LevelChanges
from benchstudy.report.figures.panels import Axis, Panel, Phase, time_panel
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug
from benchstudy.statistics import within_trial
from benchstudy.statistics.change_points import Changes
from benchstudy.statistics.comparisons import Comparison, judge

_TOWERING = 4.0  # times the steady level: with higher ramps the axis is logarithmic
_SAME_S = 1.0  # phases of several trials are drawn as one if their edges are this close
_ALIGNED = "steady"  # ramps differ in length, so trials are aligned at the start of this phase
_LOOK_BACK = "look-back"  # the part of the measured phase in which rates still contain the one before
HEIGHT = 160  # of a chart over time, in px
_MOST_POINTS = 100  # per line: the page may hold over forty graphs, and must stay below 3 MB


@dataclass(frozen=True)
class Kind:
    """One of the published page's graphs, with its title there. A quantile of buckets gets no verdict, because it is
    not a number. A gauge is a value at its time, and no rate over the time before."""

    title: str
    axis: str
    quantile: bool = False
    gauge: bool = False


# The page's ten, in its order.
PANELS = {
    "api_mean": Kind("Average API times", "Time"),
    "api_p99": Kind("p99 of API times", "Time", quantile=True),
    "store_mean": Kind("Average store times", "Time"),
    "store_p99": Kind("p99 of store times", "Time", quantile=True),
    "cpu": Kind("CPU utilization", "Cores"),
    "goroutines": Kind("Goroutines in use", "Goroutines", gauge=True),
    "heap": Kind("Heap in use", "Memory", gauge=True),
    "devices": Kind("Connected devices", "Devices", gauge=True),
    "rps": Kind("Requests per second", "Requests per second"),
    "stack": Kind("Stack in use", "Memory", gauge=True),
}


class LoadPanels:
    def __init__(self, load: LoadTest):
        self.load = load
        # Whoever scrapes a window does not know when the load began.
        self.time = Axis(f"Since the {'window' if load.scraped else 'load'} began", "time", log=False)

    # -- graphs ------------------------------------------------------------------------------------------------------

    def figures(self) -> Iterator[tuple[str, list[Drawing]]]:
        """For each target, database and load: the title, and one figure of ten panels with base and new."""
        keys = ("target", "database", "load")
        for key, cases in self.load.results.cases.group_by(keys, maintain_order=True):
            by_version = {row["version"]: row["case"] for row in cases.iter_rows(named=True)}
            trials = {v: self.load.trials(str(key[0]), by_version[v]) for v in self.load.versions if v in by_version}
            # Repeated versions give the band; they are not drawn.
            trials = {version: found for version, found in trials.items() if found and version not in self.load.same_as}
            where = f" on {key[0]}" if len(self.load.results.targets) > 1 else ""
            title = f"{str(key[2]).capitalize()} {self.load.database(str(key[1]))}{where}"
            changes: dict[str, LevelChanges] = {}
            panels = [
                p for metric, kind in PANELS.items() if (p := self._panel(metric, kind, trials, changes)) is not None
            ]
            if panels:
                panels = drawn_only(panels, [trial.uuid for found in trials.values() for trial in found])
                named = [phase.name for found in trials.values() for t in found for phase in self.own_phases(t)[-1:]]
                shifts = level_changes.caption(changes, f"the {named[0]} phase") if named else ""
                caption = f"{self._caption(title, trials)} {shifts}".strip()
                yield title, [Drawing(slug(f"panels-{title}"), caption, panels, self.load.style, [*trials])]

    def _caption(self, title: str, trials: dict[str, list[Trial]]) -> str:
        counts = ", ".join(f"{version}: {human.plural(len(found), 'trial')}" for version, found in trials.items())
        several = any(len(found) > 1 for found in trials.values())
        lines = "Lines are medians over trials; bands are their range" if several else (
            "One trial per version"
        )  # fmt: skip
        memory_s = self._memory_s(trials)
        window = f" Rates cover the {memory_s:g} s before each point." if memory_s else ""
        phases = self._of_rates(self.phases(trials), trials)
        areas = " Shaded areas are phases that all trials share." if any(not phase.series for phase in phases) else ""
        of_one = next((phase.name for phase in phases if phase.series), "")
        bars = f" Bars at the top: the {of_one} phase of each trial." if of_one else ""
        if any(phase.name == _LOOK_BACK for phase in phases):
            window += f' In the area "{_LOOK_BACK}", they still contain the phase before it.'
        return (
            f"{title} ({counts}). {lines}. For a p99, the band is its bucket, and the line is PromQL's interpolation."
            f"{areas}{bars}{window}"
        )

    def _panel(
        self, metric: str, kind: Kind, trials: dict[str, list[Trial]], changes: dict[str, LevelChanges]
    ) -> Panel | None:
        """One graph; None without samples. Adds level changes within the last phase to `changes`."""
        moved = self._moved(trials)
        frames = {v: self._rows(metric, {t.uuid: moved[t.uuid] for t in found}) for v, found in trials.items()}
        frames = {version: rows for version, rows in frames.items() if not rows.is_empty()}
        if not frames:
            return None
        pitch = _pitch(pl.concat(frames.values()))
        drawn = [_on_grid(rows, pitch, kind.quantile).with_columns(series=pl.lit(v)) for v, rows in frames.items()]
        shared = self.phases(trials)
        phases = shared if kind.gauge else self._of_rates(shared, trials)
        together = pl.concat(drawn)
        towers = _towers(together, phases)
        lines = together.select("series", pl.lit("").alias("line"), "x", "y")
        bands = together.filter(pl.col("high") > pl.col("low")).select("series", "x", "low", "high")
        y = Axis(kind.axis, METRICS[metric].unit, log=towers)
        title = f"{kind.title} (logarithmic)" if towers else kind.title
        if phases and not kind.quantile:  # a value known only by its bucket has no level
            changes[kind.title] = self._changes(frames, trials, y.unit)
        marked = changes.get(kind.title)
        return time_panel(title, lines, self.time, y, self.load.style, phases, bands, height=HEIGHT, changes=marked)

    def _changes(
        self, frames: dict[str, pl.DataFrame], trials: Mapping[str, Sequence[Trial]], unit: str
    ) -> LevelChanges:
        """Level changes of the medians over trials, within the time that the windows of all trials share."""
        pitch = max(_steps(pl.concat(frames.values())), default=1.0)
        moved = self._moved(trials)
        memory_s = self._memory_s(trials)
        found: dict[level_changes.Line, Changes] = {}
        for version, rows in frames.items():
            line = _on_grid(rows, pitch, False).select(series=pl.lit(version), line=pl.lit(""), x="x", y="y")
            own = [phase for t in trials[version] for phase in self.own_phases(t, moved[t.uuid])[-1:]]
            begin_s, end_s = max(p.start for p in own), min(p.end for p in own)
            # A rate that looks back beyond the start of the phase still contains the time before.
            found |= level_changes.find(line, begin_s + memory_s, end_s, unit, memory_s).by_line
        return LevelChanges(found, unit)

    def _memory_s(self, trials: Mapping[str, Sequence[Trial]]) -> float:
        """The time in s over which a rate looks back; 0 if it is unknown."""
        known = (self.load.value(t.uuid, "rate_window") for of in trials.values() for t in of)
        return max(filter(None, known), default=0.0)

    def _of_rates(self, phases: Sequence[Phase], trials: Mapping[str, Sequence[Trial]]) -> list[Phase]:
        """The phases for a graph of rates: the measured one begins when no rate looks back before it."""
        later = {phase.name for of in trials.values() for t in of for phase in self.own_phases(t)[1:][-1:]}
        found = []
        for phase in phases:
            end_s = min(phase.start + self._memory_s(trials), phase.end)
            if phase.series or phase.name not in later or end_s == phase.start:
                found.append(phase)
            else:
                found += [Phase(_LOOK_BACK, phase.start, end_s), phase._replace(start=end_s)]
        return [phase for phase in found if phase.start < phase.end]

    @cached_property
    def _samples(self) -> dict[tuple[object, ...], pl.DataFrame]:
        rows = self.load.results.series("panels")
        if rows is None:
            return {}
        return rows.filter(pl.col("value").is_finite()).partition_by("panel", as_dict=True)

    def _rows(self, metric: str, later_s: Mapping[str, float]) -> pl.DataFrame:
        """The samples of a panel of these trials: trial, t_s, value, low, high.

        Each trial is moved by its `later_s`, so that the steady phases begin together.
        """
        moved = pl.DataFrame(list(later_s.items()), {"trial": pl.String, "later_s": pl.Float64}, orient="row")
        if (rows := self._samples.get((metric,))) is None:
            rows = pl.DataFrame(
                schema={"trial": pl.String, **dict.fromkeys(("t_s", "value", "low", "high"), pl.Float64)}
            )
        own = rows.join(moved, on="trial")
        return own.select("trial", pl.col("t_s") + pl.col("later_s"), "value", "low", "high").sort("trial", "t_s")

    def phases(self, trials: Mapping[str, Sequence[Trial]]) -> list[Phase]:
        """Phases that all trials of all versions share; if the measured one differs, each trial's own window as well.
        The median of several windows would be the window of none.
        """
        everything = [t for found in trials.values() for t in found]
        moved = self._moved(trials)
        own = {t.uuid: self.own_phases(t, moved[t.uuid]) for t in everything}
        found: list[Phase] = []
        for name in dict.fromkeys(phase.name for phases in own.values() for phase in phases):
            of_name = [phase for phases in own.values() for phase in phases if phase.name == name]
            starts, ends = [p.start for p in of_name], [p.end for p in of_name]
            is_shared = max(max(starts) - min(starts), max(ends) - min(ends)) <= _SAME_S
            if is_shared and len(of_name) == len(everything):
                found.append(Phase(name, max(starts), min(ends)))
        if any(phases[-1].name not in {p.name for p in found} for phases in own.values() if phases):
            found += [p._replace(series=v) for v, of in trials.items() for t in of for p in own[t.uuid][-1:]]
        return sorted(found, key=lambda phase: (bool(phase.series), phase.start))

    def own_phases(self, trial: Trial, later_s: float = 0.0) -> list[Phase]:
        """The phases of one trial in order; the last one is the measured one."""
        return [p._replace(start=p.start + later_s, end=p.end + later_s) for p in self._phases.get(trial.uuid, ())]

    @cached_property
    def _phases(self) -> dict[str, list[Phase]]:
        rows = self.load.results.series("phases")
        if rows is None:
            return {}
        ordered = rows.sort("start_s", maintain_order=True).select("trial", "phase", "start_s", "end_s")
        return grouped((trial, Phase(*phase)) for trial, *phase in ordered.iter_rows())

    def _moved(self, trials: Mapping[str, Sequence[Trial]]) -> dict[str, float]:
        """Shift of each trial in s, so that all steady phases begin where that of the slowest ramp does."""
        everything = [t for found in trials.values() for t in found]
        begins = {t.uuid: p.start for t in everything for p in self.own_phases(t) if p.name == _ALIGNED}
        latest_s = max(begins.values(), default=0.0)
        return {t.uuid: latest_s - begins.get(t.uuid, latest_s) for t in everything}

    # -- table -------------------------------------------------------------------------------------------------------

    def judged(self, contrast: Contrast) -> dict[str, Comparison]:
        """Comparisons of the means of a contrast, by metric. Their p values are adjusted together."""
        means = [m for m, k in PANELS.items() if self._known(contrast, m) and not k.quantile]
        return dict(zip(means, judge([self.load.compared(contrast, m) for m in means]), strict=True))

    def tables(self) -> list[Table]:
        """The table of each contrast, and of each version that has no other one beside it."""
        return [*map(self.table, self.load.contrasts), *map(self._table_of_one, self.load.singles)]

    def _table_of_one(self, single: Single) -> Table:
        """One row per graph: its figure over the steady window."""
        body = [
            (Cell.text(kind.title), self._side(single, single.case, metric, kind))
            for metric, kind in PANELS.items()
            if self._known(single, metric)
        ]
        title, columns = self.load.title(single), ("Metric over the steady window", single.version)
        return Table(slug(f"window-{title}"), f"{title}: over the steady window", columns, tuple(body))

    def table(self, contrast: Contrast) -> Table:
        """One row per graph: both sides over the steady window, their ratio, the verdict."""
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
        columns = ("Metric over the steady window", f"{contrast.base} (base)", contrast.new, "Ratio", "Verdict")
        title = self.load.title(contrast)
        return Table(slug(f"window-{title}"), f"{title}: base and new over the steady window", columns, tuple(body))

    def _known(self, measured: Contrast | Single, metric: str) -> bool:
        return any(self.load.estimate(metric, measured.target, case) for case in measured.cases.values())

    def _side(self, measured: Contrast | Single, case: str, metric: str, kind: Kind) -> Cell:
        estimate = self.load.estimate(metric, measured.target, case)
        cell = cells.estimate_cell(self.load.results, estimate, "median")
        if not kind.quantile or estimate is None or estimate.summary.median is None:
            return cell
        said = [bucket(q) for t in self.load.trials(measured.target, case) if (q := self.load.quantile(t, metric))]
        counts = {text: said.count(text) for text in dict.fromkeys(said)}
        several = len(said) > 1
        lines = [f"{text} ({n} of {len(said)})" if several else text for text, n in counts.items()]
        told = f"interpolated, median of trials: {human.median(estimate.summary, 's')}"
        return Cell((*lines, told), cell.href, title="the bucket that holds the quantile, and the number of trials")

    def _buckets(self, contrast: Contrast, metric: str) -> Cell:
        """The number of blocks in which the new side's p99 is in another bucket; nothing finer is known."""
        base, new = ({t.block: self.load.quantile(t, metric) for t in side} for side in self.load.sides(contrast))
        pairs = [(p, q) for b, q in new.items() if q is not None and (p := base.get(b)) is not None]
        if not pairs:
            return no_verdict("no block has both sides")
        higher = sum(q.apart(p) and q.low > p.low for p, q in pairs)
        lower = sum(q.apart(p) and q.low < p.low for p, q in pairs)
        if not higher and not lower:
            return Cell(("not distinguishable", "the same bucket"), kind="text verdict")
        return Cell((f"higher bucket in {higher}, lower in {lower}", f"of {human.plural(len(pairs), 'block')}"),
                    kind="text verdict")  # fmt: skip

    def _outcome(self, contrast: Contrast, metric: str, made: Comparison, few: bool) -> tuple[Cell, Cell]:
        href = self.load.hrefs(contrast)[-1]
        if few:
            return self._within(contrast, metric, href)
        if made.ratio is None:
            return MISSING, verdict_cell(made)
        verdict = verdict_cell(made, *self._about_mix(contrast, metric))
        return Cell((signed_percent(made.ratio, *made.interval), *interval_lines(made)), href), verdict

    def _about_mix(self, contrast: Contrast, metric: str) -> Iterator[str]:
        """A hint beside the change of an overall mean if the mix of calls drives it."""
        for reading in self._readings:
            if reading.contrast == contrast and metric == f"{reading.group}_mean" and reading.mix_driven:
                yield f"{reading.verdict}: see Mix shift"

    @cached_property
    def _readings(self) -> list[Reading]:
        return LoadMix(self.load).readings

    def _within(self, contrast: Contrast, metric: str, href: str) -> tuple[Cell, Cell]:
        """The cells for too few trials; with one per arm, an interval from blocks of the samples in the trial."""
        n = self.load.n(contrast)
        few = "one trial per version" if n == 1 else f"{human.plural(n, 'trial')} per version"
        verdict = no_verdict(few)
        samples = [self.steady(metric, side[0]) for side in self.load.sides(contrast) if len(side) == 1]
        medians = [self.load.median(metric, contrast.target, case) for case in contrast.cases.values()]
        if not medians[0] or medians[1] is None:
            return MISSING, verdict
        # The trial whose samples give the interval must be the only one whose mean is beside it.
        ends = within_trial.ratio_interval(*samples) if len(samples) == 2 else None
        said = "too few samples for an interval" if len(samples) == 2 else "n too small for an interval"
        if ends is not None:
            said = f"{percent_interval(*ends)}, {within_trial.WITHIN}"
        return Cell((few, said), href, "text"), verdict  # a relative change from so few trials would look like a result

    def steady(self, metric: str, trial: Trial) -> list[float]:
        """The graph's samples of the steady window; those of rates, from where none looks back before it."""
        rows, window = self._rows(metric, {trial.uuid: 0.0}), trial.facts.get("window") or {}
        steady = trial.facts.get("steady") or {}
        if "start_s" in window and "start_s" in steady:
            begin, end = (steady[e] - window["start_s"] for e in ("start_s", "end_s"))
            look_back_s = 0.0 if PANELS[metric].gauge else self.load.value(trial.uuid, "rate_window") or 0.0
            rows = rows.filter(pl.col("t_s").is_between(begin + look_back_s, end))
        return rows["value"].to_list()


def _towers(rows: pl.DataFrame, phases: Sequence[Phase]) -> bool:
    """Whether the ramp's heights would flatten the measured part, and all values have logarithms."""
    measured = [p for p in phases if p.series] or phases[-1:]
    inside = rows.filter(pl.any_horizontal(False, *(pl.col("x").is_between(p.start, p.end) for p in measured)))
    top = max((v for column in ("y", "high") for v in inside[column].drop_nulls()), default=0.0)
    every = [v for column in ("y", "low", "high") for v in rows[column].drop_nulls()]
    return bool(top) and min(every) > 0 and max(every) > _TOWERING * top


def _pitch(rows: pl.DataFrame) -> float:
    """Seconds between points of a line: the samples' own interval, or more if that gives too many points."""
    ends = rows.select(first=pl.col("t_s").min(), last=pl.col("t_s").max()).row(0)
    return max(max(_steps(rows), default=1.0), (ends[1] - ends[0]) / _MOST_POINTS, 1e-3)


def _steps(rows: pl.DataFrame) -> list[float]:
    """Median seconds between samples, for each trial that has several."""
    steps = rows.group_by("trial").agg(step=pl.col("t_s").diff().median())
    return steps.filter(pl.col("step") > 0)["step"].to_list()


def _on_grid(rows: pl.DataFrame, pitch: float, quantile: bool) -> pl.DataFrame:
    """Columns x, y, low, high: the median over trials on a common grid, and the range of the trials or their buckets.

    Each trial gives one sample per grid step, because percentiles must not be averaged.
    """
    cell = (pl.col("t_s") / pitch).floor()
    together = rows.with_columns(cell=cell).group_by("trial", "cell", maintain_order=True).first()
    low, high = (pl.col("low"), pl.col("high")) if quantile else (pl.col("value"), pl.col("value"))
    return (
        together.group_by("cell")
        .agg(y=pl.col("value").median(), low=low.min(), high=high.max(), censored=high.is_null().any())
        .sort("cell")
        .select(
            x=(pl.col("cell") + 0.5) * pitch,
            y="y",
            low="low",
            # Above the last finite edge there is no upper bound, so the band must not show one.
            high=pl.when("censored").then(None).otherwise("high"),
        )
    )
