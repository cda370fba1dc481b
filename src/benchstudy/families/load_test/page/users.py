"""Supported users of unbounded loads: a table with intervals and the study's own band, and users over time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import polars as pl

from benchstudy.families.load_test.locust import CLIPPED
from benchstudy.families.load_test.page.cells import (
    percent_interval,
    ratio_lines,
    signed,
    signed_percent,
    verdict_cell,
)
from benchstudy.families.load_test.page.load import PAGE_BAND, Contrast, LoadTest, Single, Trial
from benchstudy.families.load_test.page.panels import HEIGHT, LoadPanels
from benchstudy.families.load_test.users.on_host import feedback
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.figures.charts import Drawing
from benchstudy.report.figures.layers import drawn_only
from benchstudy.report.figures.panels import Axis, time_panel
from benchstudy.report.tables.tables import MISSING, MOST_OF_TRIALS, Cell, Table, slug
from benchstudy.statistics import within_trial
from benchstudy.statistics.comparisons import Comparison, Refusal, judge

METRIC = "supported_users"
# 1 in a trial that stayed at the rule's maximum number of users without an alert.
AT_MAXIMUM = "at_maximum"
_ALERT_WORDS = {
    "server_errors": "server errors", "client_mean": "client mean time", "client_p99": "client p99",
    "client_errors": "client errors", "cpu": "CPU", "memory": "memory", "tcp_retransmits": "TCP retransmits",
}  # fmt: skip
# Why a load has no result, with what was observed instead.
_WHY = {
    feedback.AT_MAXIMUM: "nothing failed up to {most:,.0f} users, the most that the load tried",
    feedback.AT_MINIMUM: "an alert was on even with the fewest users",
    feedback.TOO_LONG: "the number of users did not settle in time, and ended at {least:,.0f} to {most:,.0f}",
    feedback.STARTING: "the window began during the start-up, with {least:,.0f} to {most:,.0f} users",
    feedback.SWINGING: "the number of users swung between {least:,.0f} and {most:,.0f}",
    feedback.UNBRACKETED: "no load that passed lies below one that failed, with {least:,.0f} to {most:,.0f} users",
}
_SHOWN_ALERTS = 60
_MOST_POINTS = 400  # per line; its teeth are steps of the rule


@dataclass(frozen=True)
class Bracket:
    """What one trial's checks show, before users were taken away.

    `failed`: fewest users of the last window at which an alert began; `passed`: most users below that without an
    alert; None without such a step. `alerts`: share of the checks in which each was on, most frequent first.
    `limited_by`: the alert that the load itself names, else the most frequent one.
    """

    passed: float | None
    failed: float | None
    alerts: Mapping[str, float]
    limited_by: str | None


@dataclass(frozen=True)
class Band:
    """How much equal versions differ in this study: lowest and highest ratio of `n` pairs of trials."""

    low: float
    high: float
    n: int
    source: str

    @property
    def widest(self) -> float:
        """The largest difference, as a share."""
        return max(abs(self.high - 1), abs(1 - self.low))


class LoadUsers:
    def __init__(self, load: LoadTest):
        self.load, self.panels = load, LoadPanels(load)

    @cached_property
    def outcomes(self) -> dict[Contrast, Comparison]:
        """The comparisons of all contrasts of unbounded loads, judged together."""
        found = {c: self._compared(c) for c in self.load.contrasts if self.searched(c)}
        return dict(zip(found, judge(list(found.values())), strict=True))

    @cached_property
    def singles(self) -> list[Single]:
        """Versions under an unbounded load that have no other version beside them."""
        return [single for single in self.load.singles if self.searched(single)]

    @property
    def measured(self) -> list[Contrast | Single]:
        """Everything under an unbounded load: contrasts, then single versions."""
        return [*self.outcomes, *self.singles]

    def _compared(self, contrast: Contrast) -> Comparison:
        """Without a ratio if a number is only a lower bound: it would leave out the trials with the highest ones."""
        made = self.load.compared(contrast, METRIC)
        why = "; ".join(f"{version}: {text}" for version, text in self.bounded(contrast).items())
        return Comparison(made.base, made.other, made.margin, made.better, why, Refusal.UNFIT) if why else made

    def searched(self, measured: Contrast | Single) -> bool:
        """Whether this load searches for the number of users instead of keeping a fixed one."""
        gave = any(self.load.median(METRIC, measured.target, case) is not None for case in measured.cases.values())
        return gave or bool(self.load.load(measured.load).get("rule"))

    def unsettled(self, measured: Contrast | Single) -> dict[str, str]:
        """Versions whose load ran but found no number of supported users, with the reason."""
        found = {}
        for version, case in measured.cases.items():
            trials = self.load.trials(measured.target, case)
            if trials and not self.figure(measured, case):
                said = (self._why(search) for t in trials if (search := self.search(t)))
                found[version] = next(said, "the number of users is not known")
        return found

    def search(self, trial: Trial) -> Mapping[str, Any]:
        """The trial's row of the series `search`; {} if its load did not search."""
        rows = self.load.series("search", trial.uuid)
        return {} if rows is None or rows.is_empty() else rows.row(0, named=True)

    def bounded(self, measured: Contrast | Single) -> dict[str, str]:
        """Versions whose number is only a lower bound, because loads reached their maximum of users, and how often."""
        return {version: text for version, case in measured.cases.items() if (text := self._bounded(measured, case))}

    def _bounded(self, measured: Contrast | Single, case: str) -> str:
        trials = self.load.trials(measured.target, case)
        if clipped := [search for t in trials if (search := self._clipped(t))]:
            seen, checks = (sum(search[name] for search in clipped) for name in ("clipped", "checks"))
            return f"at the maximum of {clipped[0]['max_users']:,} users in {seen} of {human.plural(checks, 'check')}"
        full = sum(bool(self.load.value(t.uuid, AT_MAXIMUM)) for t in trials)
        return f"{full} of {human.plural(len(trials), 'load')} not limited" if full else ""

    def _clipped(self, trial: Trial) -> Mapping[str, Any]:
        """The trial's search if its `supported` is a lower bound, else {}."""
        search = self.search(trial)
        return search if search.get("why") == CLIPPED else {}

    def figure(self, measured: Contrast | Single, case: str) -> str:
        """The median over trials: "93", or "≥ 97.2" if it is only a lower bound; empty if there is no number."""
        trials = self.load.trials(measured.target, case)
        bounds = [search["supported"] for t in trials if (search := self._clipped(t))]
        known = [*self.load.by_trial(trials, METRIC).values(), *bounds]
        return f"{'≥ ' if self._bounded(measured, case) else ''}{human.number(median(known))}" if known else ""

    @staticmethod
    def _why(search: Mapping[str, Any]) -> str:
        known = search["least"] is not None
        text = _WHY.get(search["why"], "")
        return text.format(**search) if known and text else f"{search['why']}: no users were seen"

    # -- the band ----------------------------------------------------------------------------------------------------

    def band(self, contrast: Contrast) -> Band | None:
        """The band from a repeated version if the study has one, else from pairs of the base's own trials."""
        pairs = []
        for repeat in self.load.repeats:
            if (repeat.target, repeat.database, repeat.load) == (contrast.target, contrast.database, contrast.load):
                first, again = ({t.block: self.load.value(t.uuid, METRIC) for t in s} for s in self.load.sides(repeat))
                pairs += [(first[b], value) for b, value in again.items() if value and first.get(b)]
        if pairs:
            ratios = [new / base for base, new in pairs if base]
            return Band(min(ratios), max(ratios), len(ratios), "the same version under two names (A/A)")
        own = list(self.load.by_trial(self.load.trials(contrast.target, contrast.base_case), METRIC).values())
        ratios = [b / a for i, a in enumerate(own) for b in own[i + 1 :] if a]
        if not ratios:
            return None
        return Band(min(ratios), max(ratios), len(ratios), "pairs of the base's own trials")

    def about_band(self) -> list[str]:
        """What the band is, or that there is none; nothing without an unbounded load."""
        if not self.outcomes:
            return []
        if not self.has_band:
            return ["There is no band of equal versions: the base has fewer than two numbers of supported users."]
        return ["The band shows how much equal versions differ on these machines."]

    @property
    def has_band(self) -> bool:
        return any(self.band(contrast) is not None for contrast in self.outcomes)

    # -- table -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """The table of versions side by side, and that of those without another one beside them."""
        alone = [(Cell.text(self.load.title(one)), self._side(one, one.case)) for one in self.singles]
        caption = "Supported users in unbounded tests of a single version"
        return [self.table(), Table("supported-users-single", caption, ("Test", "Supported users"), tuple(alone))]

    def table(self) -> Table:
        """One row per database and load: both versions, the change, the bands, and the verdict."""
        versions = [v for v in self.load.versions if v not in self.load.same_as]
        heads = ("Test", "Base", "New", "Delta", "This study's band", "Published band", "Verdict")
        body = [self._row(c, made) for c, made in self.outcomes.items()]
        if len(versions) == 2:
            heads = ("Test", versions[0], versions[1], *heads[3:])
        return Table("supported-users", "Supported users in unbounded tests", heads, tuple(body))

    def _row(self, contrast: Contrast, made: Comparison) -> tuple[Cell, ...]:
        sides = [self._side(contrast, case) for case in contrast.cases.values()]
        band = self.band(contrast)
        own = MISSING
        if band is not None:
            ends = dict.fromkeys(map(signed_percent, (band.low, band.high)))  # a single pair has one value
            own = Cell((" to ".join(ends), f"{human.plural(band.n, 'pair')}: {band.source}"), kind="text verdict")
        return (
            Cell.text(self.load.title(contrast)),
            *sides,
            self._delta(contrast, made),
            own,
            Cell((human.percent(PAGE_BAND), "usual elsewhere,", "decides nothing here"), kind="published"),
            verdict_cell(made),
        )

    def _side(self, measured: Contrast | Single, case: str) -> Cell:
        estimate = self.load.estimate(METRIC, measured.target, case)
        cell = cells.estimate_cell(self.load.results, estimate, "median")
        href, figure = cells.href(self.load.results, measured.target, case), self.figure(measured, case)
        if figure and (bounded := self._bounded(measured, case)):
            return Cell((figure, bounded), href, "number warning")
        if estimate is None or estimate.summary.median is None:
            why = [text for version, text in self.unsettled(measured).items() if measured.cases[version] == case]
            return Cell(("not found", *why), href, "failed") if why else cell
        lines = list(cell.lines)
        if estimate.summary.n == 1:
            ends = within_trial.mean_interval(self._only(measured, case))
            lines[1:2] = [f"95 %: {human.value_range(ends, '1')}", within_trial.WITHIN] if ends else ["one trial"]
        return Cell(tuple(lines), cell.href, cell.kind, cell.title)

    def _only(self, measured: Contrast | Single, case: str) -> list[float]:
        """Active users over time in the only trial that found a number; [] if several did, or none."""
        found = self.load.by_trial(self.load.trials(measured.target, case), METRIC)
        trials = [t for t in self.load.trials(measured.target, case) if t.uuid in found]
        return self._steady_users(trials[0]) if len(trials) == 1 else []

    def _delta(self, contrast: Contrast, made: Comparison) -> Cell:
        href = self.load.hrefs(contrast)[-1]
        ratio = self.ratio(contrast, made)
        if ratio is None:
            return Cell((self.both(contrast),), href) if self.both(contrast) else MISSING
        if lines := ratio_lines(made):
            return Cell(lines, href)
        # With so few trials the spread of one version is not known, so a relative change would mislead.
        ends = within_trial.ratio_interval(*(self._only(contrast, case) for case in contrast.cases.values()))
        said: tuple[str, ...] = ("n too small for an interval",)
        if ends is not None:
            said = (percent_interval(*ends), within_trial.WITHIN)
        return Cell((self.both(contrast), *said), href)

    def both(self, contrast: Contrast) -> str:
        """ "93 → 22", or "93 → ≥ 97.2"; empty if a version has no number."""
        found = [self.figure(contrast, case) for case in contrast.cases.values()]
        return " → ".join(found) if all(found) else ""

    def ratio(self, contrast: Contrast, made: Comparison) -> float | None:
        """The ratio of the comparison, else that of the medians; None of lower bounds."""
        if made.ratio is not None or made.refusal is Refusal.UNFIT:
            return made.ratio
        base, new = (self.load.median(METRIC, contrast.target, case) for case in contrast.cases.values())
        return new / base if base and new is not None else None

    def _steady_users(self, trial: Trial) -> list[float]:
        """Active users within the window whose mean is the result."""
        rows = self.load.series("users", trial.uuid)
        phases = self.load.series("phases", trial.uuid)
        if rows is None:
            return []
        stable = phases.filter(pl.col("phase").is_in(["stable", "steady"])) if phases is not None else None
        if stable is not None and not stable.is_empty():
            rows = rows.filter(pl.col("t_s").is_between(stable["start_s"].min(), stable["end_s"].max()))
        return rows["users"].cast(pl.Float64).to_list()

    # -- what limited it ---------------------------------------------------------------------------------------------

    def about_brackets(self) -> list[str]:
        """What brackets are, and why a result can lie outside of its own; nothing without an unbounded load."""
        if not self.measured:
            return []
        return [
            "The upper end of a bracket is the smallest number of users at which an alert began in the last window. "
            "The lower end is the largest number below it without an alert. The supported users are a mean over that "
            "window, in which users are added and removed around the limit, so they can lie outside the bracket."
        ]

    def bracket(self, trial: Trial) -> Bracket | None:
        """The trial's bracket and alerts; None if no checks were recorded."""
        rows = self.load.series("checks", trial.uuid)
        if rows is None or rows.is_empty():
            return None
        judged = rows.sort("t_s").filter("judged").select("t_s", "users", "alert")
        checks = [(t_s, users, tuple((alert or "").split("+")) if alert else ()) for t_s, users, alert in judged.rows()]
        names = Counter(name for _, _, alerts in checks for name in alerts)
        share = {name: count / len(checks) for name, count in names.most_common()}
        found = self.search(trial)
        passed, failed = (found["passed"], found["failed"]) if found else feedback.meeting(checks)
        return Bracket(passed, failed, share, found.get("limited_by") or next(iter(share), None))

    def limits(self) -> Table:
        """One row per trial of an unbounded load: result, bracket, alerts."""
        body = []
        repeated = [(r, {r.new: r.new_case}) for r in self.load.repeats if self.searched(r)]
        for measured, cases in [*((each, each.cases) for each in self.measured), *repeated]:
            for version, case in cases.items():
                for trial in self.load.trials(measured.target, case):
                    row = self._limit_row(measured, version, trial)
                    if row not in body:
                        body.append(row)
        columns = ("Test", "Supported users", "Users in the window", "Bracket", "Slope", "Alerts, share of all checks")
        return Table("limits", "What limited the users, per trial", columns, tuple(body), MOST_OF_TRIALS)

    def _limit_row(self, measured: Contrast | Single, version: str, trial: Trial) -> tuple[Cell, ...]:
        href, found = self.load.results.places.href(trial.uuid), self.bracket(trial)
        users, slope = (self.load.value(trial.uuid, metric) for metric in (METRIC, "slope"))
        supported = Cell(("not found",), href, "missing") if users is None else Cell((human.number(users),), href)
        if clipped := self._clipped(trial):
            supported = Cell((f"≥ {human.number(clipped['supported'])}",), href, "number warning")
        alerts = (
            [f"{alert_word(name)}: {human.percent(share)}" for name, share in found.alerts.items()] if found else []
        )
        return (
            Cell((f"{self.load.place(measured)}, {version}", f"block {trial.block}")),
            supported,
            self._seen(trial, href),
            _bracket_cell(found, href),
            MISSING if slope is None else Cell((f"{signed(slope, '1')} users/s",), href),
            Cell(tuple(alerts) or ("none",), href, "text"),
        )

    def _seen(self, trial: Trial, href: str) -> Cell:
        search = self.search(trial)
        if not search or search["least"] is None:
            return MISSING
        swing = f"swing: {human.percent(search['swing'])}"
        return Cell((human.value_range((search["least"], search["most"]), "1"), swing), href)

    # -- over time ---------------------------------------------------------------------------------------------------

    def figures(self) -> Iterator[Drawing]:
        """Users over time: for each database and version, the trial nearest to the median."""
        for place, there in grouped((self.load.place(measured), measured) for measured in self.measured).items():
            yield from self._figure(place, there)

    def _figure(self, place: str, there: Sequence[Contrast | Single]) -> Iterator[Drawing]:
        chosen, several = {}, False
        for target, version, case in [(one.target, *of) for one in there for of in one.cases.items()]:
            trials = self.load.trials(target, case)
            trial = self.load.typical(target, case, METRIC) or next(iter(trials), None)
            if trial is not None and self.load.series("users", trial.uuid) is not None:
                chosen[version] = trial
                several |= len(trials) > 1
        lines, marks = self._lines(chosen), self._marked(chosen)
        if lines.is_empty():
            return
        phases = self.panels.phases({version: [trial] for version, trial in chosen.items()})
        # The window whose mean is the result, per version.
        last = {version: phase for version, t in chosen.items() for phase in self.panels.own_phases(t)[1:][-1:]}
        x = self.panels.time
        y = Axis("Active users", "1", log=False)
        panels = [time_panel("Active users", lines, x, y, self.load.style, phases, marks=marks, height=HEIGHT)]
        if last:
            own = (((pl.col("series") == v) & pl.col("x").is_between(p.start, p.end)) for v, p in last.items())
            inside = pl.any_horizontal(*own)
            shown = lines.filter(inside), marks.filter(inside)
            if not shown[0].is_empty():
                drawn = shown[0]["y"].drop_nulls().to_list()
                lowest, highest = min(drawn), max(drawn)
                near = lowest > 0.3 * highest  # an axis that starts at zero would leave most of the chart empty
                x, y = replace(x, from_zero=False), replace(y, from_zero=not near)
                name = next(iter(last.values())).name
                title = f"Active users, {name}{' (axis does not start at zero)' if near else ''}"
                panels.append(time_panel(title, shown[0], x, y, self.load.style, marks=shown[1], height=HEIGHT))
        told = "; ".join(f"{version}: trial {trial.uuid}" for version, trial in chosen.items())
        told += "; of several trials, the one nearest to the median" if several else ""
        caption = (
            f"{place}: active users ({told}). A mark shows where an alert begins, at the number of users before the "
            "load removes some."
        )
        if any(phase.series for phase in phases):
            caption += f" Bars at the top: the {next(iter(last.values())).name} phase of each trial."
        panels = drawn_only(panels, [trial.uuid for trial in chosen.values()])
        yield Drawing(slug(f"users-{place}"), caption, panels, self.load.style, [*chosen])

    def _lines(self, chosen: Mapping[str, Trial]) -> pl.DataFrame:
        schema = {"series": pl.String, "line": pl.String, "x": pl.Float64, "y": pl.Float64}
        parts = [pl.DataFrame(schema=schema)]
        for version, trial in chosen.items():
            rows = self.load.series("users", trial.uuid)
            assert rows is not None, "chosen for its users"
            every = max(1, -(-rows.height // _MOST_POINTS))
            values = pl.col("users").cast(pl.Float64)
            parts.append(
                rows.sort("t_s")
                .gather_every(every)
                .select(pl.lit(version).alias("series"), pl.lit("").alias("line"), x="t_s", y=values)
            )
        return pl.concat(parts)

    def _marked(self, chosen: Mapping[str, Trial]) -> pl.DataFrame:
        rows = {version: self.load.series("checks", trial.uuid) for version, trial in chosen.items()}
        schema = {"series": pl.String, "x": pl.Float64, "y": pl.Float64, "tip alert": pl.String}
        return pl.concat([pl.DataFrame(schema=schema), *(_alerts(r, v) for v, r in rows.items() if r is not None)])


def alert_word(name: str) -> str:
    return _ALERT_WORDS.get(name, name.replace("_", " "))


def _alerts(rows: pl.DataFrame, version: str) -> pl.DataFrame:
    on = pl.col("alert").fill_null("") != ""
    begun = rows.sort("t_s").filter(on & ~on.shift(1, fill_value=False))
    if begun.height > _SHOWN_ALERTS:
        begun = begun.gather_every(-(-begun.height // _SHOWN_ALERTS))
    words = [", ".join(map(alert_word, str(text).split("+"))) for text in begun["alert"]]
    return begun.select(
        pl.lit(version).alias("series"), x=pl.col("t_s").cast(pl.Float64), y=pl.col("users").cast(pl.Float64)
    ).with_columns(pl.Series("tip alert", words, dtype=pl.String))


def _bracket_cell(found: Bracket | None, href: str) -> Cell:
    if found is None or found.failed is None:
        return MISSING if found is None else Cell(("no alert began",), kind="missing")
    if found.passed is None:
        return Cell((f"below {human.number(found.failed)}",), href)
    return Cell((human.value_range((found.passed, found.failed), "1"),), href)
