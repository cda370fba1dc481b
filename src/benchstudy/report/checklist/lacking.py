"""Cases that lack what a question of the checklist asks for: counting them, and naming them for the reader."""

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from benchstudy.report import human
from benchstudy.report.checklist.model import Answer
from benchstudy.report.scrutiny.drift import Key
from benchstudy.report.study.studyfacts import FamilyFacts

_MOST_NAMED = 3


@dataclass(frozen=True)
class Lack:
    """A case of which `trials` of `asked` trials lack something; 0 of 0 if the case as a whole does.

    `key` is (target, case). `what` says in a few words what is lacking; it may be empty.
    """

    family: FamilyFacts
    key: Key
    trials: int = 0
    asked: int = 0
    what: str = ""

    @property
    def text(self) -> str:
        """The case for the reader: "naps: sofa · 5 min (2 of 6 trials)"."""
        trials = f"{self.trials} of {human.plural(self.asked, 'trial')}" if self.trials else ""
        remarks = ", ".join(filter(None, [trials, self.what]))
        name = f"{self.family.name}: {self.family.results.case_name(*self.key)}"
        return f"{name} ({remarks})" if remarks else name


def in_trials(family: FamilyFacts, asked: pl.DataFrame, having: Container[str], what: str = "") -> list[Lack]:
    """The cases with trials in the table `asked` that are not in `having`, which holds trial ids."""
    counts: dict[Key, list[int]] = {}
    for target, case, trial in asked.select("target", "case", "trial").iter_rows():
        count = counts.setdefault((target, case), [0, 0])
        count[0] += trial not in having
        count[1] += 1
    return [Lack(family, key, lacking, of, what) for key, (lacking, of) in counts.items() if lacking]


def in_cases(family: FamilyFacts, keys: Iterable[Key], what: str = "") -> list[Lack]:
    """One entry for each of these cases, which lack something as a whole."""
    return [Lack(family, (target, case), what=what) for target, case in keys]


def having(family: FamilyFacts, metrics: Collection[str]) -> set[str]:
    """The ids of the trials that gave all of these metrics."""
    given = (
        family.results.usable.filter(pl.col("metric").is_in(metrics)).group_by("trial").agg(pl.col("metric").n_unique())
    )
    return set(given.filter(pl.col("metric") == len(set(metrics)))["trial"])


def named(lacking: Sequence[Lack]) -> str:
    """The first cases by name: "naps: sofa · 5 min (2 of 6 trials); naps: bed; and 2 more cases"."""
    more = len(lacking) - _MOST_NAMED
    parts = [lack.text for lack in lacking[:_MOST_NAMED]]
    return "; ".join([*parts, *([f"and {human.plural(more, 'more case')}"] if more > 0 else [])])


def unless_lacking(lacking: Sequence[Lack], fine: str, problem: str, href: str = "", fragment: str = "") -> Answer:
    """The answer "satisfied" with the text `fine` if nothing is lacking, else "not satisfied".

    The latter says `problem` and names the cases. It links to `fragment` on the page of the first case's family.
    """
    if not lacking:
        return Answer("satisfied", fine, href)
    return Answer("not satisfied", f"{problem}: {named(lacking)}.", f"{lacking[0].family.page}{fragment}")
