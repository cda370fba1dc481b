"""A family's own reasons against a verdict, for comparisons that its notebook does not make."""

from collections.abc import Callable
from dataclasses import dataclass

from benchstudy.model import registry
from benchstudy.report.comparisons.comparison import Unfit
from benchstudy.report.results.results import Results

_PART = "page.verdicts"

# Maps a metric and one case, (target, case), to the reason why the study decides the figure; empty if it does not.
SettledAlone = Callable[[str, tuple[str, str]], str]


@dataclass(frozen=True)
class Reasons:
    """Why a figure is not one of the compared system (`unfit`), and why a ratio would only show what both studies
    declared (`settled`, if it says the same of both figures).
    """

    unfit: Unfit = lambda *_: ""
    settled: SettledAlone = lambda *_: ""


def of(family: str, results: Results) -> Reasons:
    """The reasons in these results, by `reasons(results)` of the family's `page/verdicts.py`; without it, none."""
    part = registry.part(family, _PART)
    return Reasons() if part is None else Reasons(*part.reasons(results))
