"""What a family's trials give: each metric declared once, with its unit, its title and what would be better."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]
# What a page asks of any family, whatever its metrics are called: a highest rate that was searched for, the other ends
# of the bracket around it, what only a search gives; the share of its processors that a load generator used, a sum
# where there are several; the rate that was asked for, what a rate was taken over, what storage itself gave, what of it
# lay in a cache.
Tells = Literal["capacity", "bracket", "search", "generator", "offered", "window", "storage", "cache"]


@dataclass(frozen=True)
class Metric:
    """One value of a trial, in a base unit (`s`, `B`, `B/s`, `1/s`, `1` for a ratio or count).

    `title`: what tables and figures call it. `better`: None where neither direction is, as of a number of operations;
    it cannot be compared then. `meaning`: what it is and what it is derived from, for the documentation. `primary`:
    the cases are measured for it, so that adaptive stopping wants it precise, and two studies are compared by it.
    `tells`: what checks of every family learn from it. `signed`: it may be negative.
    """

    name: str
    unit: str
    title: str
    better: Better | None = None
    meaning: str = ""
    primary: bool = False
    tells: Tells | None = None
    signed: bool = False


def declare(*metrics: Metric) -> Mapping[str, Metric]:
    """By name, in this order. Raises ValueError for a name that comes twice."""
    found = {metric.name: metric for metric in metrics}
    if len(found) < len(metrics):
        names = [metric.name for metric in metrics]
        raise ValueError(f"declared twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}")
    return found


def measured_for(metrics: Mapping[str, Metric], given: Container[str]) -> list[str]:
    """Those of a case's metrics that it is measured for: adaptive stopping wants them precise, and two studies are
    compared by them. Where it gives none of the primary ones: the first of which one direction is better.
    """
    there = [metric for metric in metrics.values() if metric.name in given]
    primary = [metric.name for metric in there if metric.primary]
    return primary or [metric.name for metric in there if metric.better][:1]


def undeclared(name: str) -> Metric:
    """For what nobody declares, such as tables of a family that is not installed any more."""
    return Metric(name, "", name.replace("_", " ").capitalize())
