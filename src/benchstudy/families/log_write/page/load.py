"""The results of write tests of transparency logs: sweeps over offered rates, capacity, limits and warnings.

Works on the tables of the family log_write (docs/families/log_write.md). A sweep is one log under one generator at
rising offered rates. The case `rate=search` is its capacity search. Tessera's page calls antispam "dedup".
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from benchstudy.families.log_write.config import SEARCH, Backend
from benchstudy.families.log_write.limits import Limit, LimitedBy, limit_of
from benchstudy.families.log_write.page.limits import REST, resource, told
from benchstudy.families.shared.levels import UNLIMITED
from benchstudy.families.shared.sweeps import SweepPoint, SweepResults
from benchstudy.model.causes import Cause
from benchstudy.model.clients import CLIENTS
from benchstudy.model.criteria import ACHIEVED, BUSY_WRITERS
from benchstudy.model.family import UNKNOWN
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results.results import Estimate, Results

BACKLOG = 1.02  # of the offered rate: publish steps do not explain more, so it includes an earlier backlog
AGREEMENT = 0.03  # largest accepted difference between the hammer's Δ and the checkpoints of the same run
_FACTORS = ("target", "backend", "antispam", "limits", "front_ends", "duplicates", "generator", CLIENTS)
CLIENT_LIMITED = "client-limited"
_LOST = {"pushback": "pushback", "dropped": "not sent", "errors": "errors"}  # what leaves may be instead of accepted


@dataclass(eq=False)
class Sweep:
    """One log under one generator, with `every_point` sorted by rate, the capacity search last.

    `is_open`: the generator is an open loop. `clients`: the number of load hosts, empty if that is not a factor.
    """

    target: str
    backend: str
    antispam: str
    limits: str
    front_ends: str
    duplicates: str
    generator: str
    clients: str
    is_open: bool
    every_point: "list[Point]" = field(default_factory=list)

    @property
    def points(self) -> "list[Point]":
        """Those of fixed rates."""
        return [point for point in self.every_point if point.rate is not None]

    @property
    def search(self) -> "Point | None":
        """The capacity search, if there is one."""
        return next((point for point in self.every_point if point.rate is None), None)

    @property
    def dedup(self) -> str:
        return {"yes": "dedup", "no": "no dedup"}.get(self.antispam, "dedup unknown")

    @property
    def subject(self) -> tuple[str, ...]:
        """The levels that a log with antispam shares with the one without, under the same load."""
        return (self.target, self.backend, self.limits, self.front_ends, self.duplicates, self.clients, self.generator)

    @property
    def log(self) -> tuple[str, ...]:
        """The levels of the log itself, whatever loads it."""
        return (*self.subject[:-1], self.antispam)


@dataclass(frozen=True)
class Point(SweepPoint):
    """One case of a sweep. `rate`: in 1/s, None for the capacity search."""

    sweep: Sweep
    rate: float | None


class LogWrite(SweepResults):
    """The sweeps in the results of one family. `declared`: the family's block of the measured study, {} if none."""

    always = "qps"

    def __init__(self, results: Results, declared: Mapping[str, Any]):
        super().__init__(results)
        self.declared = declared
        self._backends = {backend["name"]: backend for backend in declared.get("backends", ())}

    @cached_property
    def sweeps(self) -> list[Sweep]:
        """All sweeps, in the order of the study."""
        cases = self.results.cases.iter_rows(named=True)
        groups = grouped((tuple(str(row.get(name) or "") for name in _FACTORS), row) for row in cases)
        return [self._sweep(key, rows) for key, rows in groups.items()]

    def _sweep(self, key: tuple[Any, ...], rows: list[dict[str, Any]]) -> Sweep:
        notes = (note for row in rows for note in self._notes.get((row["target"], row["case"]), ()))
        loops = {note["loop"] for note in notes if "loop" in note}
        is_open = "open" in loops if loops else rows[0].get("generator") != "hammer"
        sweep = Sweep(*[*key, is_open])
        for row in rows:
            rate = None if row["rate"] == SEARCH else float(row["rate_per_s"])
            level = "capacity search" if rate is None else human.level(row["rate"])
            sweep.every_point.append(Point(row["target"], row["case"], level, sweep, rate))
        sweep.every_point.sort(key=lambda point: math.inf if point.rate is None else point.rate)
        return sweep

    @property
    def every_point(self) -> list[Point]:
        """The points of all sweeps, in the order of the study."""
        return [point for sweep in self.sweeps for point in sweep.every_point]

    @property
    def searches(self) -> list[Point]:
        return [point for point in self.every_point if point.rate is None]

    def subjects(self, *, is_open: bool | None = None) -> Iterator[list[Sweep]]:
        """Groups of sweeps that differ only in antispam, "no" first. `is_open`: only open, or only closed, loops."""
        groups = grouped((sweep.subject, sweep) for sweep in self.sweeps if is_open in (None, sweep.is_open))
        for sweeps in groups.values():
            yield sorted(sweeps, key=lambda sweep: sweep.antispam)

    # -- what the trials say ---------------------------------------------------------------------------------------

    @cached_property
    def _by_trial(self) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
        found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        columns = ("target", "case", "trial", "metric", "value")
        for target, case, trial, metric, value in self.results.usable.select(columns).iter_rows():
            found.setdefault((target, case), {}).setdefault(trial, {})[metric] = value
        return found

    def trials(self, point: Point) -> dict[str, dict[str, float]]:
        """The metrics of each trial that has any."""
        return self._by_trial.get(point.key, {})

    def typical(self, point: Point, metric: str = "qps") -> str | None:
        """The trial whose metric is nearest to the median: a typical one, not the best one."""
        median = self.median(metric, point)
        known = {trial: values[metric] for trial, values in self.trials(point).items() if metric in values}
        return min(known, key=lambda trial: abs(known[trial] - (median or 0.0)), default=None)

    def steps(self, point: Point) -> pl.DataFrame | None:
        """Every attempt of a search at every rate; None if no search was made."""
        rows = self.results.series("steps")
        return None if rows is None else rows.filter(target=point.target, case=point.case)

    # -- what limited it -------------------------------------------------------------------------------------------

    @cached_property
    def _limits(self) -> dict[tuple[str, str], list[Limit]]:
        rows = self.results.series("limits")
        told = () if rows is None else rows.iter_rows(named=True)
        return grouped(((row["target"], row["case"]), limit_of(row)) for row in told)

    def limits(self, point: Point) -> Counter[str]:
        """Number of trials by limiting resource: "server CPU", or "nothing" if the rate was achieved."""
        return Counter(resource(limit) for limit in self._limits.get(point.key, ()))

    def limit_texts(self, point: Point) -> list[str]:
        """One sentence per trial about its limit."""
        return [told(limit) for limit in self._limits.get(point.key, ())]

    def _mostly(self, by: LimitedBy, point: Point) -> bool:
        """Whether this was the limit in at least half of the trials."""
        found = self._limits.get(point.key, [])
        return bool(found) and sum(limit.by is by for limit in found) >= len(found) / 2

    def client_limited(self, point: Point) -> bool:
        """Whether the generator, not the log, was the limit in at least half of the trials."""
        return self._mostly(LimitedBy.GENERATOR_CPU, point)

    def writers_bound(self, point: Point) -> bool:
        """Whether nine in ten writers of a closed loop waited for an answer, by Little's law from its screen."""
        qps, queue, writers = (self.median(f"hammer_{metric}", point) for metric in ("qps", "queue_avg", "writers"))
        return bool(qps and queue and writers and qps * queue >= BUSY_WRITERS * writers)

    def lost_trials(self, point: Point) -> int:
        """How many trials failed because the log lost an accepted leaf."""
        estimate = self.estimate("qps", point)
        causes = estimate.causes if estimate is not None else ()
        return sum(count for reason, count in causes if reason.cause is Cause.DATA_LOST)

    def emulated(self, sweep: Sweep) -> bool:
        declared = self._backends.get(sweep.backend, {}).get("emulated")
        notes = (note for point in sweep.every_point for note in self.notes(point))
        return bool(declared) or any(note.get("emulated") for note in notes)

    def wait_for_checkpoint_s(self, sweep: Sweep) -> float | None:
        """How long a leaf waits on average for the next checkpoint: half of the interval. None if it is not known."""
        declared = self._backends.get(sweep.backend)
        if declared is None:
            return None
        return Backend.model_construct(**declared).step_s / 2

    def met(self, point: Point) -> bool:
        """Whether the log achieved the offered rate, and no backlog from before the window."""
        return self._took(point) and (self.median("achieved_share", point) or 0.0) <= BACKLOG

    def _took(self, point: Point) -> bool:
        """Whether all leaves of the offered rate were sent, not pushed back, and integrated."""
        share = self.median("achieved_share", point)
        refused = sum(self._share(part, point) or 0.0 for part in ("pushback", "dropped"))
        return share is not None and share >= ACHIEVED and refused <= 1 - ACHIEVED

    def _share(self, part: str, point: Point) -> float | None:
        """Share of the sent leaves, over all trials, that were pushed back, failed or, of the due ones, were not sent.

        None if leaves were, but nobody counted the accepted ones: the hammer does not.
        """
        count = self.total(part, point)
        if not count:
            return 0.0
        if self.counted("accepted", point) is None:
            return None
        parts = dict.fromkeys((part, "accepted", "pushback", "errors"))
        return count / sum(self.total(one, point) for one in parts)

    def refused(self, point: Point) -> float:
        """Share of the leaves that were due and not sent, pushed back or failed."""
        return sum(self._share(part, point) or 0.0 for part in _LOST)

    def unfit(self, metric: str, target: str, case: str) -> str:
        """Why a figure of a case does not describe its log, so that logs are not compared by it; "" if it does."""
        if (target, case) not in self._by_case:
            return ""
        point = self._by_case[target, case]
        reasons = {
            "client-limited": self.client_limited(point),
            "writers-bound": self.writers_bound(point),
            f"{REST} used the host's CPUs": self.others_busy(point),
            "it lost accepted leaves": self.lost_trials(point),
        }
        if metric.startswith(("integrate", "queue", "capacity")):
            refused = self.refused(point)
            what = "capacity is too high" if metric.startswith("capacity") else "times are not compared"
            why = f"{_percent(refused)} of its leaves were not sent or not accepted, so its {what}"
            reasons[why] = refused > 1 - ACHIEVED
        return next((reason for reason, holds in reasons.items() if holds), "")

    def settled(self, metric: str, *cases: tuple[str, str]) -> str:
        """Why the study decides how a metric differs between cases, each (target, case); "" if it does not.

        If logs take all leaves of open loops at the same rate, their QPS is that rate. If no rate of a search fails,
        the log's capacity is the highest rate that the search may try. Rates and times of a search are those at the
        log's own highest rate, so only capacities compare searches.
        """
        known = [self._by_case[case] for case in cases]
        if metric in ("qps", "capacity_pass") and any(self._is_bound(point) for point in known):
            return "no rate failed in a search, so a capacity is only a lower bound"
        if metric != "capacity_pass" and any(point.rate is None for point in known):
            return "each at its own highest rate: compared by their capacities"
        took = [point.sweep.is_open and self._took(point) for point in known]
        is_one_rate = len({point.rate or case for case, point in zip(cases, known, strict=True)}) == 1
        return "both achieved the offered rate" if metric == "qps" and is_one_rate and all(took) else ""

    def _is_bound(self, point: Point) -> bool:
        """Whether the capacity of a search is only a lower bound: in a trial, no rate failed."""
        values = self.trials(point).values()
        return any("capacity_pass" in of and "capacity_fail" not in of for of in values)

    @cached_property
    def _by_case(self) -> dict[tuple[str, str], Point]:
        return {point.key: point for point in self.every_point}

    def others_busy(self, point: Point) -> bool:
        """Whether processes that are not sampled used the host's CPUs in at least half of the trials."""
        return self._mostly(LimitedBy.NEIGHBOUR, point)

    def marks(self, point: Point) -> tuple[str, ...]:
        """Warnings about a point, one or two words each."""
        found = []
        if self.client_limited(point):
            found.append(CLIENT_LIMITED)
        if self.writers_bound(point):
            found.append("writers-bound")
        if self.others_busy(point):
            found.append("host busy")
        for part, name in _LOST.items():
            share = self._share(part, point)
            if share is None:
                found.append(f"{name}: {human.number(self.total(part, point))}")
            elif share:
                found.append(f"{name} {_percent(share)}")
        shares = [values.get("achieved_share", 0.0) for values in self.trials(point).values()]
        behind = sum(share > BACKLOG for share in shares)
        if point.sweep.is_open and 0 < behind < len(shares):
            found.append(f"backlog in {behind} of {len(shares)} trials")
        elif (self.median("achieved_share", point) or 0.0) > BACKLOG:  # single trials of the hammer scatter
            found.append("backlog")
        if self.emulated(point.sweep):
            found.append("emulated")
        if self.lost_trials(point):
            found.append("lost leaf")
        return tuple(found)

    # -- the highest -----------------------------------------------------------------------------------------------

    def best(self, sweep: Sweep) -> tuple[Point, Estimate] | None:
        """The point with the largest median growth of the tree; None if no trial measured any."""
        return self.highest("qps", sweep.every_point)

    def highest_met(self, sweep: Sweep) -> Point | None:
        """The highest fixed rate below the first one that was not achieved; None if the lowest was not achieved."""
        met = None
        for point in sweep.points:
            if not self.met(point):
                return met
            met = point
        return met

    def shown(self, sweep: Sweep) -> Point | None:
        """The point that represents a sweep: the highest rate that was achieved, else the one with the highest QPS,
        else the search.
        """
        known = [point for point in sweep.points if self.median("qps", point) is not None]
        most = max(known, key=lambda point: self.median("qps", point) or 0.0, default=None)
        searched = sweep.search if sweep.search and self.trials(sweep.search) else None
        return self.highest_met(sweep) or most or searched

    # -- names -----------------------------------------------------------------------------------------------------

    def label(self, sweep: Sweep) -> str:
        """The backend's label in the study, such as "MariaDB (MySQL kind)"."""
        notes = (note for point in sweep.every_point for note in self.notes(point))
        noted = next((note["backend"] for note in notes if note.get("backend")), sweep.backend)
        return str(self._backends.get(sweep.backend, {}).get("label") or noted)

    def kind(self, sweep: Sweep) -> str | None:
        """Tessera's storage implementation; None for an imported backend that the study does not declare."""
        return self._backends.get(sweep.backend, {}).get("kind")

    def loop(self, sweep: Sweep) -> str:
        kind = "open" if sweep.is_open else "closed"
        return f"{kind} loop" if sweep.generator == kind else f"{sweep.generator}, {kind} loop"

    def resources(self, sweep: Sweep) -> str:
        return {UNLIMITED: "no limits", UNKNOWN: "limits unknown"}.get(sweep.limits, sweep.limits)

    def front_ends(self, sweep: Sweep) -> str:
        known = sweep.front_ends != UNKNOWN
        return human.plural(int(sweep.front_ends), "front end") if known else "front ends unknown"

    def varies(self, factor: str) -> bool:
        """Whether the study has more than one level of the factor."""
        return len(self.results.targets if factor == "target" else self.results.levels(factor)) > 1

    def name(self, sweep: Sweep, *, dedup: bool = True, generator: bool | None = None) -> str:
        """The title of a sweep, such as "POSIX, local disk · 1-core-1GB · dedup · hammer", without constant factors."""
        parts = [sweep.target] if self.varies("target") else []
        parts += [self.label(sweep)]
        parts += [self.resources(sweep)] if self.varies("limits") else []
        parts += [self.front_ends(sweep)] if self.varies("front_ends") else []
        parts += [human.plural(int(sweep.clients), "client")] if sweep.clients else []
        parts += [f"{sweep.duplicates} duplicates"] if self.varies("duplicates") else []
        parts += [sweep.dedup] if dedup and self.varies("antispam") else []
        shown = self.varies("generator") if generator is None else generator
        return " · ".join([*parts, *([sweep.generator] if shown else [])])


def _percent(share: float) -> str:
    return human.percent(share) if share >= 5e-5 else "< 0.01 %"
