"""Think times of users between two actions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence


def pace_of(chance: random.Random, rates: Sequence[tuple[float, float]]) -> float:
    """A user's own, by which its times to think are multiplied. `rates`: (factor, share of the users)."""
    return chance.choices([factor for factor, _ in rates], [share for _, share in rates])[0]


def think_s(chance: random.Random, least_s: float, mean_s: float) -> float:
    """Uniform from `least_s` to as far above the mean as `least_s` is below it."""
    return chance.uniform(least_s, 2 * mean_s - least_s)


def first_think_s(chance: random.Random, least_s: float, mean_s: float) -> float:
    """What is left of the thinking that somebody who has long been at work is just doing.

    With it users act as often in the first second as in any later one: a steady load needs no time to become so.
    At a random moment one meets long thinking more often than short (by its length), and any part of it may be over.
    """
    longest_s = 2 * mean_s - least_s
    met_s = math.sqrt(least_s**2 + chance.random() * (longest_s**2 - least_s**2))
    return chance.random() * met_s
