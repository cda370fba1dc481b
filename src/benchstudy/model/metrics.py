"""What a family's trials give: each metric is declared once, with its unit, its title and its better direction."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from benchstudy.model.names import nearest
from benchstudy.model.units import BASE_UNITS

Better = Literal["higher", "lower"]
METRIC = re.compile(r"[a-z][a-z0-9_.]{0,63}")
FAILED = "trial"  # in tables, the metric of a failed trial
# What a page asks of any family, whatever its metrics are called: the highest rate that a search found, the other ends
# of the bracket around it, what only a search gives; the share of its CPUs that a load generator used (a sum if there
# are several); the offered rate; the time that a rate covers; what storage itself delivered; how much of it was in a
# cache; how long only some of several clients loaded; a duration of a whole program, and the least that it can be.
Tells = Literal[
    "capacity", "bracket", "search", "generator", "offered", "window", "storage", "cache", "skew", "timed", "floor"
]  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """One value of a trial, in a base unit (`s`, `B`, `B/s`, `1/s`, `1` for a ratio or count, `percent`).

    `title`: its name in tables and figures. `better`: None if neither direction is better, as for an operation count;
    it cannot be compared then. `meaning`: what it is and what it is derived from, for the documentation. `primary`:
    the cases are measured for it, so adaptive stopping wants it precise, and two studies are compared by it.
    `tells`: what checks of every family learn from it. `signed`: it may be negative. `form_of`: the primary metric that
    it gives in another form, such as a time as a rate; a mark of that one holds for it, too.
    """

    name: str
    unit: str
    title: str
    better: Better | None = None
    meaning: str = ""
    primary: bool = False
    tells: Tells | None = None
    signed: bool = False
    form_of: str | None = None


def declare(*metrics: Metric) -> Mapping[str, Metric]:
    """The metrics by name, in this order. Raises ValueError for a duplicate name."""
    found = {metric.name: metric for metric in metrics}
    if len(found) < len(metrics):
        names = [metric.name for metric in metrics]
        raise ValueError(f"declared twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}")
    return found


def misdeclared(metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Why these declarations cannot be used, with the fix."""
    for name, metric in metrics.items():
        if not isinstance(metric, Metric):
            yield f"metrics.{name} is {metric!r}: give a Metric, through `declare`"
        if metric.name != name or name == FAILED:
            yield f"metrics.{name}: its name is {metric.name!r}: use `declare`, and another name than {FAILED!r}"
        if not METRIC.fullmatch(str(name)):
            yield f"metrics.{name}: {name!r} cannot be a name: use lowercase letters, digits, _ and ."
        if not str(metric.title).strip():
            yield f"metrics.{name}: its title is empty: give a text"
        if metric.primary and metric.better is None:
            yield f"metrics.{name}: it is primary: say whether 'higher' or 'lower' is better"
        if metric.unit not in BASE_UNITS:
            yield f"metrics.{name}: {metric.unit!r} is not a base unit: convert it to one of {', '.join(BASE_UNITS)}"
        if metric.better not in (None, *get_args(Better)):
            yield f"metrics.{name}: better is {metric.better!r}: use 'higher', 'lower' or None"
        if metric.tells not in (None, *get_args(Tells)):
            yield f"metrics.{name}: tells is {metric.tells!r}: {nearest(str(metric.tells), get_args(Tells))}"
        if metric.form_of is not None and not (metric.form_of in metrics and metrics[metric.form_of].primary):
            yield f"metrics.{name}: form_of is {metric.form_of!r}: name a primary metric of this family"


def measured_for(metrics: Mapping[str, Metric], given: Container[str]) -> list[str]:
    """The metrics for which a case is measured: adaptive stopping wants them precise, and two studies are compared by
    them. If it gives no primary one: the first metric that has a better direction.
    """
    there = [metric for metric in metrics.values() if metric.name in given]
    primary = [metric.name for metric in there if metric.primary]
    return primary or [metric.name for metric in there if metric.better][:1]


def undeclared(name: str) -> Metric:
    """A stand-in for an undeclared metric, such as in tables of a family that is no longer installed."""
    return Metric(name, "", name.replace("_", " ").capitalize())
