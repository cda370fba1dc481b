"""Think times of users between two actions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence


def pace_of(chance: random.Random, rates: Sequence[tuple[float, float]]) -> float:
    """Draw a user's factor of its think times. `rates`: (factor, share of the users)."""
    return chance.choices([factor for factor, _ in rates], [share for _, share in rates])[0]


def think_s(chance: random.Random, least_s: float, mean_s: float) -> float:
    """Draw a think time, uniform from `least_s` to as far above the mean as `least_s` is below it."""
    return chance.uniform(least_s, 2 * mean_s - least_s)


def first_think_s(chance: random.Random, least_s: float, mean_s: float) -> float:
    """Draw the rest of the think time that a long-active user is in at a random moment.

    With it users act as often in the first second as in any later one, so the load is steady from its start.
    A random moment falls into long think times more often than into short ones, in proportion to their length, and at
    any point of them.
    """
    longest_s = 2 * mean_s - least_s
    met_s = math.sqrt(least_s**2 + chance.random() * (longest_s**2 - least_s**2))
    return chance.random() * met_s
