"""The first and the last words of the page of write tests: the answer, the objective, what is weak."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchstudy.families.log_write.page.limits import NOTHING
from benchstudy.families.log_write.page.load import AGREEMENT, LogWrite, Point, Sweep
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import Problem, Rule
from benchstudy.report import human

# Of the problems that a generator's parser finds, those that no table shows.
_OWN_PROBLEMS = {
    Rule.UNREAD: "proofs that could not be read",
    Rule.CONSISTENCY: "checkpoints that could not be compared",
    Rule.LATE: "leaves begun late",
    Rule.POLLS: "checkpoints that could not be read",
    Rule.ERRORS: "errors",
    Rule.DIED: "servers that died in the capacity search",
}


class LogSummary:
    def __init__(self, load: LogWrite):
        self.load = load

    # -- the answer ------------------------------------------------------------------------------------------------

    def answers(self) -> list[dict[str, Any]]:
        """For each resources the rate of each log, as `Page.show_answers` wants them: its capacity, else its most."""
        groups: dict[tuple[str, str], list[dict[str, str]]] = {}
        for sweeps in self.load.subjects():
            for sweep in sweeps:
                if sweep.search is not None:
                    groups.setdefault(("capacity", sweep.limits), []).append(self._capacity(sweep, sweep.search))
                elif not any(other.search for other in self._same_log(sweep)):
                    groups.setdefault(("most", sweep.limits), []).append(self._most(sweep))
        titles = {"capacity": "Highest rate that keeps the objective", "most": "Most leaves a second"}
        resources = {sweep.limits: self.load.resources(sweep) for sweep in self.load.sweeps}
        notes = {"capacity": self.objective(), "most": ""}
        return [
            {"what": f"{titles[kind]}, {resources[limits]}", "lines": lines, "note": notes[kind]}
            for (kind, limits), lines in groups.items()
        ]

    def _same_log(self, sweep: Sweep) -> list[Sweep]:
        """The same log under other generators: one answer a log is enough, and the search's is the best."""
        return [s for s in self.load.sweeps if (s.subject[:-1], s.antispam) == (sweep.subject[:-1], sweep.antispam)]

    def _capacity(self, sweep: Sweep, point: Point) -> dict[str, str]:
        name = self._name(sweep)
        passed = self.load.estimate("capacity_pass", sweep, point)
        if passed is None or passed.summary.median is None:
            return {"name": name, "value": "–", "evidence": passed.failure if passed else "nothing was measured"}
        fails = self.load.median("capacity_fail", sweep, point)
        parts = [
            f"fails at {human.quantity(fails, '1/s')}" if fails else "no rate that was tried failed",
            human.evidence(passed.summary, "1/s"),
            *self._limit(sweep, point),
            *self.load.marks(sweep, point),
            *self._lost(sweep),
        ]
        value = human.median(passed.summary, "1/s")
        return {"name": name, "value": value, "evidence": "; ".join(parts)}

    def _most(self, sweep: Sweep) -> dict[str, str]:
        best = self.load.best(sweep)
        name = self._name(sweep)
        if best is None:
            return {"name": name, "value": "–", "evidence": self.load.why_nothing("qps", sweep, sweep.every_point)}
        point, estimate = best
        parts = [
            f"at {point.level} offered",
            human.evidence(estimate.summary, "1/s"),
            *self._limit(sweep, point),
            *self.load.marks(sweep, point),
            *self._lost(sweep),
        ]
        return {"name": name, "value": human.median(estimate.summary, "1/s"), "evidence": "; ".join(parts)}

    def _name(self, sweep: Sweep) -> str:
        parts = [sweep.target] if self.load.varies("target") else []
        parts += [self.load.label(sweep), sweep.dedup]
        parts += [self.load.front_ends(sweep)] if self.load.varies("front_ends") else []
        parts += [f"{sweep.duplicates} duplicates"] if self.load.varies("duplicates") else []
        return " · ".join([*parts, *([sweep.generator] if not sweep.is_open else [])])

    def _limit(self, sweep: Sweep, point: Point) -> list[str]:
        found = self.load.limits(sweep, point).most_common(1)
        # What the generator limited, or others on the host, is among the marks.
        marked = self.load.client_limited(sweep, point) or self.load.others_busy(sweep, point)
        if not found or marked:
            return []
        if found[0][0] == NOTHING:
            return ["met" if len(sweep.points) > 1 else "met; no other rate was tried"]
        return [f"limit: {found[0][0]}"]

    def _lost(self, sweep: Sweep) -> list[str]:
        """Whatever the rate: a log that loses leaves at any has no answer without that."""
        levels = [point.level for point in sweep.every_point if self.load.lost_trials(sweep, point)]
        return [f"lost leaf at {', '.join(levels)}"] if levels else []

    def objective(self) -> str:
        """What a rate must keep to pass in the capacity search, as declared before; "" without any search."""
        said: Mapping[str, Any] = self.load.declared.get("search") or {}
        if not said or not any(sweep.search for sweep in self.load.sweeps):
            return ""
        return (
            f"A rate passes when in {human.plural(said['windows'], 'window')} of {said['window']:g} s in a row at "
            f"least {human.percent(said['min_achieved'])} of what was offered was integrated, at most "
            f"{human.percent(said['max_errors'])} "
            f"were errors, no accepted leaf was missing, and 99 % of the leaves were integrated within "
            f"{said['max_integrate_p99']:g} s. Rates are tried until the lowest that failed is at most "
            f"{human.percent(said['within'])} above the highest that passed."
        )

    # -- what is weak ----------------------------------------------------------------------------------------------

    def weaknesses(self) -> Iterator[str]:
        """What a reader should hold against these figures in particular."""
        load = self.load
        points = [(s, p) for s in load.sweeps for p in s.every_point if load.median("qps", s, p) is not None]
        lost = [(s, p) for s in load.sweeps for p in s.every_point if load.lost_trials(s, p)]
        if lost:
            names = ", ".join(f"{load.name(s)} at {p.level}" for s, p in lost)
            yield f"Accepted leaves were lost: {names}. A log that loses leaves has no rate worth telling."
        limited = [(s, p) for s, p in points if load.client_limited(s, p) or load.writers_bound(s, p)]
        if limited:
            yield (
                f"{len(limited)} of {human.plural(len(points), 'case')} client-limited or writers-bound: there the "
                "generator decided the rate, and the log may take more."
            )
        busy = [(s, p) for s, p in points if load.others_busy(s, p)]
        if busy:
            yield (
                f"In {len(busy)} of {human.plural(len(points), 'case')} other processes had the host's CPUs while "
                "the log was at its end: there the rate is what they left."
            )
        emulated = list(dict.fromkeys(load.label(s) for s, _ in points if load.emulated(s)))
        if emulated:
            names = ", ".join(emulated)
            yield f"{names}: on an emulator in memory, whose rates say nothing of the service it stands for."
        yield from self._about_the_hammer(points)
        yield from self._about_windows(points)
        yield from self._told_by_the_generator(points)
        if any(load.best(s) is not None and len(s.points) > 1 for s in load.sweeps):
            yield (
                "The most leaves a second are chosen by the data themselves; the interval is that of the rate shown "
                "and takes no account of the choice."
            )

    def _about_the_hammer(self, points: list[tuple[Sweep, Point]]) -> Iterator[str]:
        closed = [(s, p) for s, p in points if not s.is_open]
        if not closed:
            return
        yield (
            "The hammer is a closed loop: its writers wait for their answers, so that a slow log is offered less "
            "(coordinated omission possible), and its min/avg/max are of tick means and no leaf's times."
        )
        apart = [(s, p) for s, p in closed if (worst := worst_disagreement(self.load, s, p)) and worst > AGREEMENT]
        if apart:
            yield (
                f"In {len(apart)} of {human.plural(len(closed), 'case')} of the hammer its Δ and the checkpoints of "
                f"the same run are more than {human.percent(AGREEMENT)} apart in some trial."
            )

    def _about_windows(self, points: list[tuple[Sweep, Point]]) -> Iterator[str]:
        load = self.load
        trials = [values for s, p in points for values in load.trials(s, p).values() if "qps" in values]
        short = sum("qps_low" not in values for values in trials)
        if short:
            yield (
                f"{short} of {human.plural(len(trials), 'trial')} with fewer than ten publish steps in the window: "
                "their rate has no interval within the trial."
            )
        shared = [(s, p) for s, p in points if any(_shares(note) for note in load.notes(s.target, p.case))]
        if shared:
            yield (
                f"In {len(shared)} of {human.plural(len(points), 'case')} server and generator had processors in "
                "common: each took time from the other."
            )
        within = (load.declared.get("search") or {}).get("within")
        wide = [
            (s, p) for s, p in points if within and (width := bracket_width(load, s, p)) is not None and width > within
        ]
        if wide:
            yield (
                f"In {human.plural(len(wide), 'capacity search')} the bracket stayed wider than the "
                f"{human.percent(within)} asked for."
            )

    def _told_by_the_generator(self, points: list[tuple[Sweep, Point]]) -> Iterator[str]:
        """What the generators' own results hold against themselves, but for what tables show already."""
        found: dict[Rule, list[str]] = {}
        for sweep, point in points:
            for note in self.load.notes(sweep.target, point.case):
                for problem in map(Problem.of_note, note.get("problems") or ()):
                    if problem.rule in _OWN_PROBLEMS:
                        found.setdefault(problem.rule, []).append(told(problem))
        for rule, texts in found.items():
            yield f"{human.plural(len(texts), 'trial')} with {_OWN_PROBLEMS[rule]}; the first: {texts[0]}."


def bracket_width(load: LogWrite, sweep: Sweep, point: Point) -> float | None:
    """(lowest fail − highest pass) / highest pass, median over the trials that have both; None without any."""
    widths = sorted(
        (values["capacity_fail"] - values["capacity_pass"]) / values["capacity_pass"]
        for values in load.trials(sweep, point).values()
        if values.get("capacity_pass") and values.get("capacity_fail")
    )
    return widths[len(widths) // 2] if widths else None


def worst_disagreement(load: LogWrite, sweep: Sweep, point: Point) -> float | None:
    """The largest |Δ / checkpoints − 1| of the trials of one case of the hammer; None where either is missing."""
    found = [
        abs(values["hammer_qps_mean"] / values["qps_of_hammer_window"] - 1)
        for values in load.trials(sweep, point).values()
        if values.get("qps_of_hammer_window") and "hammer_qps_mean" in values
    ]
    return max(found, default=None)


def _shares(note: Mapping[str, Any]) -> bool:
    return bool((note.get("placement") or {}).get("shared"))
