"""Looks of an adaptive session: how precisely every case is known after some blocks, and whether that is enough.

A look is taken once, from the trials on disk, and stored with them (`TrialStore.keep_look`). From then on the stored
look decides, not the trials, so a later change of a parser causes no new measurement.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from benchstudy.measuring import reread
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import rounding
from benchstudy.model.errors import SessionFailed
from benchstudy.model.family import Case, Family
from benchstudy.model.files import now
from benchstudy.model.stopping import Stopping
from benchstudy.model.study import SessionPlan

# Results by case and block, as `schedule.adopt` returns them.
Adopted = Mapping[tuple[str, int], StoredTrial]

_RULE = "half the width of the median's 95 % order-statistic interval, over the median"
_MOST_NAMED = 3


@dataclass(frozen=True)
class Known:
    """How well a metric of a case is known: `precision` is half its interval over its median, 0.05 for ±5 %.

    `n` trials gave the metric, `missing` did not. Unknown values are None; `why` gives the reason, or a note.
    """

    case: str
    metric: str
    unit: str
    n: int
    missing: int
    median: float | None
    low: float | None
    high: float | None
    precision: float | None
    why: str

    def within(self, until: float) -> bool:
        """Whether that is enough. True for a case without values, because no number of blocks would make it precise."""
        return self.precision <= until if self.precision is not None else not self.n

    @property
    def reached(self) -> str:
        """ "duration ±3.1 %", or why there is no such figure."""
        said = f"±{rounding.percent(self.precision)}" if self.precision is not None else ""
        told = f"{said} ({self.why})" if said and self.why else said or self.why
        return f"{self.metric} {told}" if self.metric else told

    @property
    def words(self) -> str:
        return f"{self.case}: {self.reached}"


def begun(adopted: Adopted) -> int:
    """The highest block with a result measured here: a block that was begun is completed before a look."""
    return max((block for (_, block), t in adopted.items() if t.facts.imported_from is None), default=0)


def find_look(looks: Iterable[Mapping[str, Any]], plan: SessionPlan, blocks: int, adopted: Adopted) -> Any | None:
    """The latest stored look after `blocks` blocks that is still valid for the plan, or None.

    It must have seen every case as it is described now, and no trial that was discarded since. The requested precision
    and the parser may have changed, because a look stores what was seen, not what was decided.
    """
    present = {trial.facts.uuid for trial in adopted.values()}
    wanted = {case.id: case.definition_sha256 for case in plan.cases}
    holding = [look for look in looks if look["blocks"] == blocks and _holds(look["cases"], wanted, present)]
    return holding[-1] if holding else None


def _holds(seen: Mapping[str, Any], wanted: Mapping[str, str], present: Container[str]) -> bool:
    return all(
        case in seen
        and seen[case]["definition_sha256"] == definition
        and all(uuid in present for uuid in seen[case]["trials"])
        for case, definition in wanted.items()
    )


def take_look(plan: SessionPlan, blocks: int, adopted: Adopted) -> dict[str, Any]:
    """The precision of every case of the plan after `blocks` blocks, as it is stored. Raises SessionFailed."""
    cases = {}
    for case in plan.cases:
        # All trials exist, except those of a case that was given up.
        trials = [adopted[case.id, block] for block in range(1, blocks + 1) if (case.id, block) in adopted]
        cases[case.id] = {
            "definition_sha256": case.definition_sha256,
            "trials": [trial.facts.uuid for trial in trials],
            "known": [asdict(known) for known in known_of(plan.family, case, trials)],
        }
    return {
        "schema_version": 1,
        "uuid": str(uuid4()),
        "when": now(),
        "study_sha256": plan.study.sha256,
        "blocks": blocks,
        "until": plan.stopping.until if plan.stopping else None,
        "rule": _RULE,
        "cases": cases,
    }


def known_of(family: Family, case: Case, trials: Sequence[StoredTrial]) -> list[Known]:
    """One per primary metric of the case, from its trials; one without a metric if no trial gave any."""
    given = [_values(family, trial) for trial in trials]
    metrics = family.measured_for({name for values in given for name in values})
    if not metrics:
        why = "no trial gave a value" if not any(given) else "none of its metrics declares a better direction"
        return [Known(case.id, "", "", 0, len(trials), None, None, None, None, why)]
    return [_known(case.id, metric, [values.get(metric) for values in given]) for metric in metrics]


def _values(family: Family, trial: StoredTrial) -> dict[str, tuple[float, str]]:
    """The metrics of a successful trial, with their units; none for other trials.

    Raises SessionFailed for a trial that can no longer be parsed, because it would count as a failure.
    """
    if reread.status(family, trial) != "ok":
        return {}
    try:
        parsed = family.parse(trial.record.levels, trial.folder)
    except Exception as error:
        raise SessionFailed(
            f"cannot tell whether more blocks are needed: {trial.folder} was parsed when it was measured, but now: "
            f"{type(error).__name__}: {error}. Fix the parser; the raw files are kept"
        ) from error
    return {o.metric: (o.value, o.unit) for o in parsed.observations if o.value is not None}


def _known(case: str, metric: str, given: Sequence[tuple[float, str] | None]) -> Known:
    # Only sessions that take looks need scipy.
    from benchstudy.statistics.stats import precision, summarise

    units = list(dict.fromkeys(found[1] for found in given if found))
    numbers = [found[0] for found in given if found]
    made = summarise(numbers, units)
    share = precision(made)
    why = made.note or ("" if share is not None else "its median is zero, so it has no relative precision")
    ends = (made.median, made.interval_low, made.interval_high)
    return Known(case, metric, " and ".join(units), len(numbers), len(given) - len(numbers), *ends, share, why)


def all_known(look: Mapping[str, Any], cases: Iterable[Case]) -> list[Known]:
    """The precision of these cases in a look: those without one first, then the least precise."""
    found = [Known(**known) for case in cases for known in look["cases"][case.id]["known"]]
    return sorted(found, key=lambda k: (k.precision is not None, -(k.precision or 0)))


def enough(look: Mapping[str, Any], plan: SessionPlan, stopping: Stopping) -> bool:
    """Whether the session ends after this look: all cases are precise enough, or the maximum of blocks is reached."""
    return look["blocks"] >= stopping.most or not _wanting(look, plan, stopping)


def _wanting(look: Mapping[str, Any], plan: SessionPlan, stopping: Stopping) -> list[Known]:
    """Cases with further blocks that are not precise enough."""
    going_on = [case for case in plan.cases if case.is_in(look["blocks"] + 1)]
    return [known for known in all_known(look, going_on) if not known.within(stopping.until)]


def verdict(look: Mapping[str, Any], plan: SessionPlan, stopping: Stopping) -> str:
    """The decision after a look, as a sentence for the log, the index and the report."""
    known = all_known(look, plan.cases)
    short = [k for k in known if not k.within(stopping.until)]
    silent = [k for k in known if not k.n]
    after, until = f"after {look['blocks']} blocks", f"±{rounding.percent(stopping.until)}"
    # A case without values is not waited for, but nothing is known of it either.
    cases, unknown = len(plan.cases), len({k.case for k in [*short, *silent]})
    of = rounding.plural(cases, "case")
    widest = next((f" (the least: {k.words})" for k in known if k.precision is not None), "")
    if short:
        if not enough(look, plan, stopping):
            next_step = f"on to {stopping.look_after(look['blocks'])} blocks"
        else:
            next_step = "and there are no more" if look["blocks"] < stopping.most else "and that is the most allowed"
        named = "; ".join(k.words for k in short[:_MOST_NAMED]) + ("; …" if len(short) > _MOST_NAMED else "")
        verb = rounding.verb(unknown, cases, "is", "are")
        said = f"{after} {unknown} of {of} {verb} not known to {until}, {next_step} ({named})"
    elif silent:
        verb = rounding.verb(cases - unknown, cases, "is", "are")
        said = f"{after} {cases - unknown} of {of} {verb} known to {until}{widest}"
    else:
        said = f"{after} every case is known to {until}{widest}"
    return said + (f"; nothing to wait for: {'; '.join(k.words for k in silent)}" if silent else "")


def course(plan: SessionPlan, looks: Sequence[Mapping[str, Any]], adopted: Adopted) -> dict[str, Any] | None:
    """For the index: the declared rule, every look so far, and the result of the last valid one. None without a rule.

    `reached` and `verdict` are None until a look is valid.
    """
    stopping = plan.stopping
    if stopping is None:
        return None
    holding = [find_look(looks, plan, blocks, adopted) for blocks in sorted({look["blocks"] for look in looks})]
    last = next((look for look in reversed(holding) if look), None)
    known = all_known(last, plan.cases) if last else []
    return {
        **asdict(stopping),
        "rule": _RULE,
        "blocks": last["blocks"] if last else None,
        "reached": all(k.within(stopping.until) for k in known) if last else None,
        "verdict": verdict(last, plan, stopping) if last else None,
        "looks": [{name: look[name] for name in ("uuid", "when", "blocks", "until", "study_sha256")} for look in looks],
        "known": [asdict(k) for k in known],
    }
