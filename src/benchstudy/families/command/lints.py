"""Lints for commands that are too short, or not warm."""

from benchstudy.lints import words
from benchstudy.lints.model import Found, Material, rule
from benchstudy.model import rounding
from benchstudy.model.criteria import START_UP

_SLOW_FIRST = 1.25  # times the median run
_FEWEST_RUNS = 3


@rule(
    "start-up-dominates",
    "warning",
    why="A program that does nothing takes about as long to spawn. If this is a large part of the time, two programs "
    "look more alike than they are, and their difference may come from loaders and libraries.",
    action="Make the command do more in one run, or read the start-up cost beside the figure. Nothing is subtracted.",
)
def start_up_dominates(material: Material) -> Found:
    for group in material.groups:
        start_up, wall = group.value("start_up"), group.value("wall_time")
        if start_up and wall and start_up > START_UP * wall:
            share = rounding.percent(start_up / wall)
            yield group.where, f"a program that does nothing takes {words.time(start_up)}, {share} of the wall time"


@rule(
    "slow-first-run",
    "warning",
    why="The first run of a trial had cold caches, or a CPU at a lower frequency, and it counts like the others.",
    action="Add `warm_up` to the command, or make every run cold with `prepare`, and state which of the two you use.",
)
def slow_first_run(material: Material) -> Found:
    for group in material.groups:
        first, wall, runs = (group.value(name) for name in ("first_run", "wall_time", "runs"))
        if first and wall and runs and runs >= _FEWEST_RUNS and first > _SLOW_FIRST * wall:
            yield group.where, f"the first run takes {words.time(first)}, and the median one {words.time(wall)}"
