"""The ceilings that a study declares, including those whose rates it measures itself."""

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

from benchstudy.lints import Ceiling, words
from benchstudy.model.declared import DeclaredCeiling, MeasuredCeiling
from benchstudy.model.study import Study
from benchstudy.report.results.results import Results


def known(
    study: Study, family: str, results: Callable[[str], Results | None]
) -> list[tuple[DeclaredCeiling, list[Ceiling]]]:
    """The ceilings declared for a family's figures, each with its values: one for all targets, or one per target.

    `results` returns the tables of a family of the study, or None if it has none. A ceiling whose cases gave no value
    has an empty list, and no figure is compared with it.
    """
    own = results(family)
    several = own is not None and len(own.targets) > 1
    found = []
    for declared in (c for c in study.ceilings if c.family == family):
        if declared.measured is None:
            found.append((declared, [_held_against(declared, declared.rate)]))
            continue
        rates = _highest(declared.measured, results(declared.measured.family))
        # Each target has its own disks.
        levels = {target: {"target": target} if several else {} for target in rates}
        of_targets = [replace(_held_against(declared, r), levels=levels[t], measured=True) for t, r in rates.items()]
        found.append((declared, of_targets))
    return found


def beside(own: Results) -> Callable[[str], Results | None]:
    """A function that reads the tables of the study's other families, in the folders beside those of `own`."""

    def of(family: str) -> Results | None:
        tidy = own.tidy.with_name(family)
        return Results(tidy, study=own.study, family=family) if (tidy / "observations.parquet").is_file() else None

    return lambda family: own if family == own.family else of(family)


def _highest(measured: MeasuredCeiling, results: Results | None) -> dict[str, float]:
    """The highest rate of any trial that counts, in B/s by target: what a disk reached once, it is capable of."""
    found: dict[str, float] = {}
    for (target, case), trials in (results.by_case(measured.metric) if results else {}).items():
        values = [value for _, value, unit in trials if unit == "B/s"]
        if values and fnmatchcase(case, measured.where):
            found[target] = max(found.get(target, 0.0), *values)
    return found


def _held_against(declared: DeclaredCeiling, rate: float | None) -> Ceiling:
    """The ceiling with its `rate` in B/s: the declared one, or that of the cases that measure it."""
    assert rate is not None, "a ceiling has a declared or a measured rate"
    return Ceiling(declared.op, rate, f"{words.rate(rate)} ({declared.source})", where=declared.where)
