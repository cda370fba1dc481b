"""The answer, the objective and the weaknesses on the page of write tests."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchstudy.families.log_write.page.limits import NOTHING, REST
from benchstudy.families.log_write.page.load import AGREEMENT, CLIENT_LIMITED, LogWrite, Point, Sweep
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import Problem, Rule
from benchstudy.families.shared.levels import UNLIMITED
from benchstudy.families.shared.sweeps import shares_cpus
from benchstudy.model.criteria import ACHIEVED
from benchstudy.model.grouping import grouped
from benchstudy.report import human

# Problems that the parser of a generator finds and that no table shows.
_OWN_PROBLEMS = {
    Rule.UNREAD: "proofs that could not be read",
    Rule.NOT_INTEGRATED: "accepted leaves that were not seen in the tree",
    Rule.CONSISTENCY: "checkpoints that could not be compared",
    Rule.LATE: "leaves sent late",
    Rule.POLLS: "checkpoints that could not be read",
    Rule.ERRORS: "errors",
    Rule.DIED: "servers that died in the capacity search",
}
_MOSTLY = 0.5  # of the time to integrate: a wait that is longer decides it
# What a mark means beside a capacity.
_OF_A_CAPACITY = {CLIENT_LIMITED: "client-limited, so the log may take more"}


class LogSummary:
    def __init__(self, load: LogWrite):
        self.load = load

    # -- the answer ------------------------------------------------------------------------------------------------

    def answers(self) -> list[dict[str, Any]]:
        """The capacity of each log, or else its highest QPS, by resources, in the format of `Page.show_answers`."""
        groups: dict[tuple[str, str], list[dict[str, str]]] = {}
        for sweeps in self.load.subjects():
            for sweep in sweeps:
                if sweep.search is not None:
                    groups.setdefault(("capacity", sweep.limits), []).append(self._capacity(sweep.search))
                # A log has only one answer, and a search has priority.
                elif not any(other.search for other in self.load.sweeps if other.log == sweep.log):
                    groups.setdefault(("most", sweep.limits), []).append(self._most(sweep))
        titles = {"capacity": "Highest rate that meets the objective", "most": "Highest rate of leaves (per second)"}
        resources = {sweep.limits: f", {self.load.resources(sweep)}" for sweep in self.load.sweeps}
        if list(resources) == [UNLIMITED]:
            resources = {UNLIMITED: ""}
        notes = {"capacity": self.objective(), "most": ""}
        return [
            {"what": f"{titles[kind]}{resources[limits]}", "lines": lines, "note": notes[kind]}
            for (kind, limits), lines in groups.items()
        ]

    def _capacity(self, point: Point) -> dict[str, str]:
        name = self._name(point.sweep)
        passed = self.load.estimate("capacity_pass", point)
        if passed is None or passed.summary.median is None:
            why = passed.failure if passed else "nothing was measured"
            return {"name": name, "value": "–", "evidence": why, "href": self.load.href(point)}
        refused = self.load.refused(point)
        parts = [
            *self._lost(point.sweep),
            *([f"too high: {human.percent(refused)} of the leaves were not taken"] if refused > 1 - ACHIEVED else []),
            human.evidence(passed.summary, "1/s"),
            *self._fails(point, passed.summary.median),
            *self._limit(point),
            *(_OF_A_CAPACITY.get(mark, mark) for mark in self.load.marks(point)),
        ]
        value = human.median(passed.summary, "1/s")
        return {"name": name, "value": value, "evidence": "; ".join(parts), "href": self.load.href(point)}

    def _fails(self, point: Point, passes_per_s: float) -> Iterator[str]:
        """Where the log fails, in how many trials if not in all, and whether a higher rate passed."""
        fails = self.load.estimate("capacity_fail", point)
        inverted = inversion(self.load, point)
        if fails is None or fails.summary.median is None:
            yield "no rate failed"
        elif inverted is None or fails.summary.median >= passes_per_s:
            trials, failing = len(self.load.trials(point)), fails.summary.n
            counted = f" in {failing} of {trials} trials" if failing < trials else ""
            yield f"fails at {human.quantity(fails.summary.median, '1/s')}{counted}"
        if inverted is not None:
            yield f"{inverted.mark}: {inverted.failed.told('failed')}, {inverted.passed.told('passed')}"

    def _most(self, sweep: Sweep) -> dict[str, str]:
        best = self.load.best(sweep)
        name = self._name(sweep)
        if best is None:
            why, href = self.load.why_nothing("qps", sweep.every_point), self.load.href(sweep.every_point[0])
            return {"name": name, "value": "–", "evidence": why, "href": href}
        point, estimate = best
        parts = [
            f"at {point.level} offered",
            human.evidence(estimate.summary, "1/s"),
            *self._limit(point),
            *self.load.marks(point),
            *self._lost(sweep),
        ]
        value = human.median(estimate.summary, "1/s")
        return {"name": name, "value": value, "evidence": "; ".join(parts), "href": self.load.href(point)}

    def _name(self, sweep: Sweep) -> str:
        parts = [sweep.target] if self.load.varies("target") else []
        parts += [self.load.label(sweep)]
        parts += [sweep.dedup] if self.load.varies("antispam") else []
        parts += [self.load.front_ends(sweep)] if self.load.varies("front_ends") else []
        parts += [f"{sweep.duplicates} duplicates"] if self.load.varies("duplicates") else []
        return " · ".join([*parts, *([sweep.generator] if not sweep.is_open else [])])

    def _limit(self, point: Point) -> list[str]:
        found = self.load.limits(point).most_common(1)
        # A limit by the generator or by other processes is among the marks.
        marked = self.load.client_limited(point) or self.load.others_busy(point)
        if not found or marked:
            return []
        if found[0][0] == NOTHING:
            return ["achieved" if len(point.sweep.points) > 1 else "achieved; no other rate was tried"]
        return [f"bottleneck: {found[0][0]}"]

    def _lost(self, sweep: Sweep) -> list[str]:
        """Name the rates at which the log lost leaves: every answer about the log says so."""
        levels = [point.level for point in sweep.every_point if self.load.lost_trials(point)]
        return [f"lost leaf at {', '.join(levels)}"] if levels else []

    def objective(self) -> str:
        """The declared objective of the capacity search, in words; "" without a search."""
        said: Mapping[str, Any] = self.load.declared.get("search") or {}
        if not said or not self.load.searches:
            return ""
        several = " in a row" if said["windows"] > 1 else ""
        is_old = any(self.load.refused(point) > 1 - ACHIEVED for point in self.load.searches)
        old = " These searches did not check whether leaves were sent and accepted." if is_old else ""
        return (
            "Each trial is one search, and a figure is the median of the searches. A rate passes if it meets the "
            f"objective in {human.plural(said['windows'], 'window')} of {said['window']:g} s{several}: at least "
            f"{human.percent(said['min_achieved'])} of the due leaves are accepted and the tree grows as fast, at most "
            f"{human.percent(said['max_errors'])} fail, no accepted leaf is missing, and 99 % of the leaves are "
            f"integrated within {said['max_integrate_p99']:g} s. The search ends when the lowest rate "
            f"that failed is at most {human.percent(said['within'])} above the highest rate that passed.{old}"
        )

    # -- what is weak ----------------------------------------------------------------------------------------------

    def weaknesses(self) -> Iterator[str]:
        """The weaknesses of these figures in particular, one sentence each."""
        load = self.load
        points = [p for p in load.every_point if load.median("qps", p) is not None]
        lost = [p for p in load.every_point if load.lost_trials(p)]
        if lost:
            names = ", ".join(f"{load.name(p.sweep)} at {p.level}" for p in lost)
            yield f"Accepted leaves were lost: {names}. The rate of a log that loses leaves is meaningless."
        limited = [p for p in points if load.client_limited(p) or load.writers_bound(p)]
        if limited:
            yield (
                f"{len(limited)} of {human.plural(len(points), 'case')} "
                f"{human.verb(len(limited), len(points), 'is', 'are')} client-limited or writers-bound: the "
                "generator limited the rate, and the log may be faster."
            )
        busy = [p for p in points if load.others_busy(p)]
        if busy:
            yield (
                f"In {len(busy)} of {human.plural(len(points), 'case')} {REST} used the host's CPUs while the log was "
                "at its limit, so the rate depends on them."
            )
        emulated = list(dict.fromkeys(load.label(p.sweep) for p in points if load.emulated(p.sweep)))
        if emulated:
            names = ", ".join(emulated)
            yield f"{names}: these run on an in-memory emulator, whose rates say nothing about the real service."
        yield from self._about_the_hammer(points)
        yield from self._about_windows(points)
        yield from self._about_checkpoints(points)
        yield from self._told_by_the_generator(points)
        if any(load.best(s) is not None and len(s.points) > 1 for s in load.sweeps):
            yield (
                "The highest rate of leaves is selected from the data. Its interval does not account for that "
                "selection."
            )

    def _about_the_hammer(self, points: list[Point]) -> Iterator[str]:
        closed = [p for p in points if not p.sweep.is_open]
        if not closed:
            return
        yield (
            "The hammer is a closed loop: its writers wait for their answers, so it offers less to a slow log "
            "(coordinated omission is possible). Its min/avg/max are of tick means, not of single leaves."
        )
        apart = [p for p in closed if (worst := worst_disagreement(self.load, p)) and worst > AGREEMENT]
        if apart:
            yield (
                f"In {len(apart)} of {human.plural(len(closed), 'case')} of the hammer, its Δ differs from the "
                f"checkpoints of the same run by more than {human.percent(AGREEMENT)} in at least one trial."
            )

    def _about_windows(self, points: list[Point]) -> Iterator[str]:
        load = self.load
        trials = [values for p in points for values in load.trials(p).values() if "qps" in values]
        short = sum("qps_low" not in values for values in trials)
        if short:
            have = human.verb(short, len(trials), "has", "have")
            yield (
                f"{short} of {human.plural(len(trials), 'trial')} {have} fewer than ten publish steps in the "
                "window, so the rate has no interval within the trial."
            )
        shared = [p for p in points if any(map(shares_cpus, load.notes(p)))]
        if shared:
            yield (
                f"In {len(shared)} of {human.plural(len(points), 'case')} server and generator shared CPUs, and each "
                "took time from the other."
            )
        within = (load.declared.get("search") or {}).get("within")
        wide = [p for p in points if within and (width := bracket_width(load, p)) is not None and width > within]
        if wide:
            yield (
                f"In {human.plural(len(wide), 'capacity search')} the bracket stayed wider than the "
                f"{human.percent(within)} that the study asks for."
            )

    def _about_checkpoints(self, points: list[Point]) -> Iterator[str]:
        """Times to integrate that are mostly the wait for the next checkpoint."""
        timed = [
            (min(wait, took), took)
            for p in points
            if (took := self.load.median("integrate_p50", p)) and (wait := self.load.wait_for_checkpoint_s(p.sweep))
        ]
        mostly = [wait for wait, took in timed if wait >= _MOSTLY * took]
        if mostly:
            yield (
                f"In {len(mostly)} of {human.plural(len(timed), 'case')} most of the time to integrate (p50) is the "
                f"wait for the next checkpoint, {human.value_range(mostly, 's')} on average: half of the interval "
                "between checkpoints. This is a setting of the log, and says nothing about its storage."
            )

    def _told_by_the_generator(self, points: list[Point]) -> Iterator[str]:
        """Problems in the results of the generators that no table shows."""
        notes = (note for point in points for note in self.load.notes(point))
        problems = (Problem.of_note(text) for note in notes for text in note.get("problems") or ())
        found = grouped((problem.rule, told(problem)) for problem in problems if problem.rule in _OWN_PROBLEMS)
        for rule, texts in found.items():
            yield f"{human.plural(len(texts), 'trial')} with {_OWN_PROBLEMS[rule]}. The first: {texts[0]}."


@dataclass(frozen=True)
class Tried:
    """A rate in 1/s, in how many trials it had one result, and in how many it was tried."""

    rate_per_s: float
    trials: int
    of: int

    def told(self, result: str) -> str:
        """The rate, the result, and how often it had this result: "1,100/s failed in 1 of 2 trials"."""
        return f"{human.quantity(self.rate_per_s, '1/s')} {result} in {self.trials} of {human.plural(self.of, 'trial')}"


@dataclass(frozen=True)
class Inversion:
    """The lowest rate that failed, which is below the highest that passed. `mark`: how, in a few words."""

    failed: Tried
    passed: Tried
    mark: str


def inversion(load: LogWrite, point: Point) -> Inversion | None:
    """Whether a rate failed below one that passed, in the same trial or in another; None if none did.

    A trial's bracket ends at its lowest failure. So a pass above it, and other trials' brackets, are in no figure.
    """
    steps = load.steps(point)
    if steps is None:
        return None
    # The last attempt at a rate decides.
    in_order = steps.sort("step", "attempt")
    decided = in_order.group_by("trial", "step", maintain_order=True).last().select("offered_per_s", "passed", "trial")
    found = set(decided.rows())
    failed = min((rate for rate, passed, _ in found if not passed), default=math.inf)
    highest = max((rate for rate, passed, _ in found if passed), default=-math.inf)
    if failed >= highest:
        return None

    def tried(rate: float, passed: bool) -> Tried:
        those = [(result, trial) for at, result, trial in found if at == rate]
        return Tried(rate, len({t for result, t in those if result is passed}), len({t for _, t in those}))

    # A log that differs from trial to trial is not one that takes a higher rate and refuses a lower one.
    in_one = any(t == u and not ok and higher and rate < at for rate, ok, t in found for at, higher, u in found)
    return Inversion(tried(failed, False), tried(highest, True), "not monotonic" if in_one else "trials disagree")


def bracket_width(load: LogWrite, point: Point) -> float | None:
    """Return (lowest fail − highest pass) / highest pass, the median over trials that have both; None without any."""
    widths = [
        (values["capacity_fail"] - values["capacity_pass"]) / values["capacity_pass"]
        for values in load.trials(point).values()
        if values.get("capacity_pass") and values.get("capacity_fail")
    ]
    return median(widths) if widths else None


def worst_disagreement(load: LogWrite, point: Point) -> float | None:
    """Return the largest |Δ / checkpoints − 1| over the trials of a case of the hammer; None if no trial has both."""
    found = [
        abs(values["hammer_qps_mean"] / values["qps_of_hammer_window"] - 1)
        for values in load.trials(point).values()
        if values.get("qps_of_hammer_window") and "hammer_qps_mean" in values
    ]
    return max(found, default=None)
