"""The ceilings that a study declares, with the rates of those that the study measures itself."""

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
    """Those declared for a family's figures, each with what it comes to: one for all targets, or one a target.

    `results` gives the tables of any family of the study, None when it has none. A ceiling whose cases gave no value
    comes to nothing, and no figure is held against it.
    """
    own = results(family)
    several = own is not None and len(own.targets) > 1
    found = []
    for declared in (c for c in study.ceilings if c.family == family):
        if declared.measured is None:
            found.append((declared, [_held_against(declared, declared.rate)]))
            continue
        rates = _highest(declared.measured, results(declared.measured.family))
        # Each target has disks of its own.
        levels = {target: {"target": target} if several else {} for target in rates}
        of_targets = [replace(_held_against(declared, r), levels=levels[t], measured=True) for t, r in rates.items()]
        found.append((declared, of_targets))
    return found


def beside(own: Results) -> Callable[[str], Results | None]:
    """The tables of a family's siblings, in the folders beside its own."""

    def of(family: str) -> Results | None:
        tidy = own.tidy.with_name(family)
        return Results(tidy, study=own.study, family=family) if (tidy / "observations.parquet").is_file() else None

    return lambda family: own if family == own.family else of(family)


def _highest(measured: MeasuredCeiling, results: Results | None) -> dict[str, float]:
    """By target, in bytes a second, of any trial that counts: a disk that once gave so much can."""
    found: dict[str, float] = {}
    for (target, case), trials in (results.by_case(measured.metric) if results else {}).items():
        values = [value for _, value, unit in trials if unit == "B/s"]
        if values and fnmatchcase(case, measured.where):
            found[target] = max(found.get(target, 0.0), *values)
    return found


def _held_against(declared: DeclaredCeiling, rate: float | None) -> Ceiling:
    """`rate`, in bytes a second: the declared one, or what the cases gave that find it out."""
    assert rate is not None, "a ceiling that is measured is known once its cases are"
    return Ceiling(declared.op, rate, f"{words.rate(rate)} ({declared.source})", where=declared.where)
