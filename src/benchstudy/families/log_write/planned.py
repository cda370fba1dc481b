"""How long a capacity search takes, for plans. It stands apart from search.py, which is part of the measuring code."""

from benchstudy.families.log_write.config import Backend, CapacitySearch
from benchstudy.families.log_write.search import Missed, Reason, Step, next_rate
from benchstudy.families.shared.levels import Rate


def search_s(objective: CapacitySearch, backend: Backend) -> float:
    """The time in s of all windows of a search for a capacity of `factor`^1.5 times the first rate, as an example."""
    capacity = Rate(objective.start).per_s * objective.factor**1.5
    steps: list[Step] = []
    windows = 0
    while (rate := next_rate(steps, objective)) is not None:
        passes = rate <= capacity
        windows += objective.windows if passes else objective.attempts
        steps.append(Step(rate, None if passes else Reason(Missed.ACHIEVED)))
    return windows * (objective.warm_up + backend.window_s(objective.window) + backend.cool_down_s)
