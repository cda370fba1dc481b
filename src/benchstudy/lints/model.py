"""What a lint examines and reports. Nothing here is slow to import: a study names lints long before any runs."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from benchstudy.lints.printed import last_digit
from benchstudy.model.grouping import grouped
from benchstudy.model.rules import Found, Kind, Rule, Severity, define

K = TypeVar("K", bound=Hashable)
# What readers see, most severe first.
SEVERITIES: Mapping[Severity, str] = {"error": "cannot be true", "warning": "may mislead", "note": "note"}


@dataclass(frozen=True)
class Finding:
    """One finding of one rule.

    `severity`: "error", a figure cannot mean what it says; "warning", it is likely to mislead; "note", something that
    a reader needs is missing. `where`: "file or family: table, row, case". `acknowledged`: the reason that somebody
    gave for accepting it; empty when nobody did.
    """

    lint: str
    severity: Severity
    what: str
    where: str
    why: str
    action: str
    acknowledged: str = ""

    @property
    def rank(self) -> int:
        """The most severe findings have the lowest."""
        return list(SEVERITIES).index(self.severity)


class Figure(NamedTuple):  # a page makes one per trial and metric; a dataclass takes three times as long
    """One figure in its base unit: a printed one, or the median over the trials of a case.

    `relation` is ">" or "~" where a page bounds or rounds. `values`: those of the trials, if known.
    """

    value: float | None
    unit: str
    printed: str = ""
    relation: str = "="
    status: str = "ok"
    line: int | None = None
    values: tuple[float, ...] = ()

    @property
    def resolution(self) -> float:
        """The size of its last printed digit, in the base unit: 0.00001 for "0.57 ms"; 0 when it was not printed."""
        return last_digit(self.printed) if self.printed else 0.0


@dataclass(frozen=True)
class Group:
    """Figures that belong together: a cell of a table, a transcript, a box, a case. `levels` omits empty ones.

    `fetched`: a lower bound of the bytes that storage itself delivered for an operation, if its counters were read.
    """

    section: str
    levels: Mapping[str, str]
    figures: Mapping[str, Figure]
    fetched: float | None = None

    @property
    def where(self) -> str:
        return ", ".join([*([self.section] if self.section else []), *self.levels.values()])

    def value(self, *names: str) -> float | None:
        """The first of these statistics that exists."""
        found = (self.figures[name].value for name in names if name in self.figures)
        return next((value for value in found if value is not None), None)

    def but(self, *factors: str) -> tuple[tuple[str, str], ...]:
        """The levels without those of some factors, to find groups that differ only in those."""
        return tuple((factor, level) for factor, level in self.levels.items() if factor not in factors)


@dataclass(frozen=True)
class Ceiling:
    """The most that the hardware can deliver: B/s of one operation, for groups with these levels."""

    op: str
    rate: float
    source: str
    levels: Mapping[str, str] = field(default_factory=dict)
    # A pattern of cases, where a study declares it.
    where: str = "*"
    # Measured by other cases of the study: it is what these reached, and the hardware may be capable of more.
    measured: bool = False


@dataclass(frozen=True)
class Material:
    """Everything to examine: one published table, or one family of a study.

    `groups`: cells or cases. `samples`: each stands for one sample: the cells of a published table, or the single
    trials of a family. `unexplained`: how many trials of a case failed without a cause, by case.
    """

    name: str
    kind: Kind
    groups: tuple[Group, ...]
    samples: tuple[Group, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    unexplained: Mapping[str, int] = field(default_factory=dict)
    # Calls by label, such as an API's handlers: by group (its `where`), then by kind of label.
    labels: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    # What the cases of a family are measured for.
    headlines: tuple[str, ...] = ()
    # By case: how many of its trials others disturbed, of how many. Cases without any are left out.
    disturbed: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def own(self, group: Group) -> list[Group]:
        """The samples of a group: the single trials of a case. A cell of a published table is its own sample."""
        found = [s for s in self.samples if (s.section, s.but("trial")) == (group.section, group.but())]
        return found or [group]

    def by(self, key: Callable[[Group], K]) -> Iterator[tuple[K, list[Group]]]:
        """Groups that share a key, in the material's order."""
        yield from grouped((key(group), group) for group in self.groups).items()


def rule(
    name: str, severity: Severity, *, why: str, action: str, of: Kind | None = None
) -> Callable[[Callable[[Material], Found]], Rule]:
    """Turns a function that takes a material and yields (where, what) into a rule. `of`: the only kind it is for."""
    return lambda find: define(Rule(name, severity, why, action, find, of))
