"""What two trials must have in common to be compared, and why two cases without it get no verdict."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import median, mode
from typing import NamedTuple

from benchstudy.model.criteria import PAGE_OF_MEMORY, SAME_PROOF
from benchstudy.model.metrics import Better
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.scrutiny.cachestate import bytes_of_storage
from benchstudy.report.scrutiny.many_targets import Indexes
from benchstudy.statistics.comparisons import Arm, Comparison, Refusal, compare

IMPORTED = "imported: the time and the host of the measurement are unknown"
# A trial in a comparison: block, trial, value, unit.
Measured = tuple[int, str, float, str]


class Kept(NamedTuple):
    """The trials of both sides that may be compared. `why`: what was left out, or why there are none."""

    sides: Sequence[Sequence[Measured]]
    why: str = ""
    refusal: Refusal | None = None  # if there are none


class Conditions(NamedTuple):
    """What two trials must have in common to be compared."""

    target: str
    session: str | None
    instrument: str | None
    tool: str | None
    tool_version: str | None
    tool_sha256: str | None
    imported: bool
    # The verified cache state: whether the bytes came from storage. None if it is unknown.
    from_storage: bool | None


class Comparability:
    """The conditions under which the trials of a family were measured.

    With `across_tools` the tools may differ, because the tool is the factor that is compared. With `across_caches` the
    bytes from storage may differ, because the cache state is that factor.
    """

    def __init__(self, results: Results, indexes: Indexes, across_tools: bool, across_caches: bool):
        self._indexes = indexes
        self._disturbed, self._unit = results.disturbed, results.unit
        self._of = {}
        self._given = {} if across_caches else bytes_of_storage(results)
        told = [name for name in results.counted.columns if name in ("trial", *Conditions._fields)]
        for row in results.counted.select(told).iter_rows(named=True):
            given = self._given.get(row["trial"])
            row["from_storage"] = None if given is None else given >= PAGE_OF_MEMORY
            if across_tools:
                row |= dict.fromkeys(("tool", "tool_version", "tool_sha256"))
            self._of[row["trial"]] = Conditions._make(map(row.get, Conditions._fields))

    def block(self, trial: Measured) -> tuple[str | None, int]:
        """The key (session, block) of a trial. Trials with the same key are a pair."""
        return self._of[trial[1]].session, trial[0]

    def compared(
        self, names: Sequence[str], sides: Sequence[Sequence[Measured]], failed: Sequence[int], *, margin: float,
        better: Better, unfit: str = "", settled: str = "",
    ) -> Comparison:  # fmt: skip
        """Compare the trials of both sides that may be compared, base first. Says what is left out.

        `names`, `sides`, `failed`: the names, the trials with a value, and the number of failed trials. `unfit`: why
        their figures allow no verdict. `settled`: why the study itself decides their ratio.
        """

        def arms(*trials: Sequence[Measured]) -> list[Arm]:
            return [
                Arm(name, " and ".join(sorted({unit for *_, unit in side})), tuple(value for *_, value, _ in side),
                    tuple(map(self.block, side)), lost)
                for name, side, lost in zip(names, trials, failed, strict=True)
            ]  # fmt: skip

        base, other = arms(*sides)
        if not all(sides):
            return compare(base, other, margin=margin, better=better)
        if unfit:
            return Comparison(base, other, margin, better, unfit, Refusal.UNFIT)
        if settled:
            return Comparison(base, other, margin, better, settled, Refusal.SET)
        kept = self.kept(sides, names)
        if kept.refusal:
            return Comparison(base, other, margin, better, kept.why, kept.refusal)
        made = compare(*arms(*kept.sides), margin=margin, better=better)
        return replace(made, warnings=(*made.warnings, kept.why)) if kept.why else made

    def kept(self, given: Sequence[Sequence[Measured]], names: Sequence[str]) -> Kept:
        """The trials of both sides that may be compared.

        Trials are kept if the other side was measured under the same conditions. If there are several such conditions,
        such as two sessions of one study, only blocks are kept that both sides have under the same one. Otherwise a
        session with more trials of one side would shift the ratio. `names` are the names of the sides for the reader.
        """
        of = [[self._of[trial[1]] for trial in side] for side in given]
        shared = {c for c in {*of[0]} & {*of[1]} if c.session is not None and not c.imported}
        if not shared:
            refusal = self._refusal(*of)
            return Kept([], *refusal) if refusal else self._other_proof(given)
        unlike = self._unlike_sessions(shared, given)
        shared = {c for c in shared if c.session not in unlike}
        if not shared:
            return self._other_proof(given)
        sides = [[trial for trial in side if self._of[trial[1]] in shared] for side in given]
        if len(shared) > 1:
            places = [{(self._of[trial[1]], trial[0]) for trial in side} for side in sides]
            both = places[0] & places[1]
            sides = [[trial for trial in side if (self._of[trial[1]], trial[0]) in both] for side in sides]
            if not both:
                return Kept([], "no block has both cases in the same session", Refusal.SESSIONS)
        if self._unit == "target":  # one disturbed target must not withhold the verdict on all others
            lost_blocks = {trial[0] for side in sides for trial in side if trial[1] in self._disturbed}
            sides = [[trial for trial in side if trial[0] not in lost_blocks] for side in sides]
        met = [[trial[1] for trial in side if trial[1] in self._disturbed] for side in sides]
        disturbance = disturbed.compared(names, met, [len(side) for side in sides])
        if disturbance:
            return Kept([], disturbance, Refusal.DISTURBED)
        lost = sum(map(len, given)) - sum(map(len, sides))
        why = (
            f"{human.plural(lost, self._unit)} left out: session, tool or verified cache state differ from the "
            f"counterpart's{', or it was disturbed' if self._unit == 'target' else ''}"
        )
        return Kept(sides, why if lost else "")

    def _other_proof(self, sides: Sequence[Sequence[Measured]]) -> Kept:
        return Kept([], other_proof(*map(self._given_to, sides)), Refusal.CONDITIONS)

    def _given_to(self, trials: Sequence[Measured]) -> list[float | None]:
        return [self._given.get(trial[1]) for trial in trials]

    def _unlike_sessions(self, shared: Collection[Conditions], sides: Sequence[Sequence[Measured]]) -> set[str | None]:
        """Sessions in which the verified cache states differ. Another session cannot verify the state in these."""
        found = set()
        for session in {c.session for c in shared}:
            of_it = {c for c in shared if c.session == session}
            own = [[trial for trial in side if self._of[trial[1]] in of_it] for side in sides]
            if not is_one_proof(*map(self._given_to, own)):
                found.add(session)
        return found

    def _refusal(self, base: Sequence[Conditions], other: Sequence[Conditions]) -> tuple[str, Refusal] | None:
        """What differs between the sides, in words and as a value; None if it is the verified cache state."""
        if any(c.imported for c in (*base, *other)):
            return IMPORTED, Refusal.SESSIONS
        a, b = mode(base), mode(other)
        if a.target != b.target:
            differences = self._environments(a.target, b.target)
            why = f"measured on different targets{': ' if differences else ''}{'; '.join(differences)}"
            return why, Refusal.SESSIONS
        if a.session is None or b.session is None:
            return "the session of a trial is unknown: tidy the study again", Refusal.SESSIONS
        if a.session != b.session:
            why = f"not measured in the same session ({self._began(a.session)} and {self._began(b.session)})"
            return why, Refusal.SESSIONS
        other_means = self._other_means(a, b)
        return (other_means, Refusal.CONDITIONS) if other_means else None

    @staticmethod
    def _other_means(a: Conditions, b: Conditions) -> str:
        if a.instrument != b.instrument:
            return "measured by different versions of the measuring code"
        if a.tool != b.tool:
            return f"measured by different tools ({a.tool}, {b.tool})"
        if a.tool_version != b.tool_version:
            return f"measured by different versions of {a.tool} ({a.tool_version}, {b.tool_version})"
        if a.tool_sha256 != b.tool_sha256:
            return f"measured by different builds of {a.tool} {a.tool_version}"
        return ""

    def _began(self, session: str) -> str:
        held = {s["uuid"]: s["started"] for index in self._indexes for s in index["sessions"]}
        return sessions.moment(held[session]) if session in held else session[:8]

    def _environments(self, base: str, other: str) -> list[str]:
        facts = {}
        for index in self._indexes:
            lines = [sessions.host_lines(environment.get("before")) for _, environment in sessions.environments(index)]
            facts[index["target"]] = dict(line for host in reversed(lines) for line in host)
        differing = sessions.differing(facts.get(base, {}), facts.get(other, {}))
        return [f"{name} {a} against {b}" for name, a, b in differing]


def is_one_proof(base: Sequence[float | None], other: Sequence[float | None]) -> bool:
    """Whether two cases have the same verified cache state, by the bytes that storage gave per operation in each trial.

    None is a trial with an unknown amount. A hundred bytes, as in a read from memory, count as zero. An amount that is
    unknown in all trials of one case is not the same as any that is known.
    """
    if len({any(bytes_ is not None for bytes_ in side) for side in (base, other)}) > 1:
        return False
    given = [
        median(bytes_ if bytes_ and bytes_ >= PAGE_OF_MEMORY else 0.0 for bytes_ in side) for side in (base, other)
    ]
    return min(given) >= SAME_PROOF * max(given)


def other_proof(base: Sequence[float | None], other: Sequence[float | None]) -> str:
    """Why two cases with different verified cache states get no verdict."""
    known = [[given for given in side if given is not None] for side in (base, other)]
    said = [human.quantity(median(given), "B") if given else "an unknown amount" for given in known]
    return f"different cache states: per operation, {said[1]} came from storage, and {said[0]} for the base"
