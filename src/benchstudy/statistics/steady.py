"""Whether consecutive measurements of the same thing had stopped drifting."""

from collections.abc import Sequence

# Source: SNIA's Solid State Storage Performance Test Specification, "steady state": over five consecutive rounds the
# values lie within a fifth of their mean, and a line fitted to them changes by at most a tenth of it.
ROUNDS = 5
_MOST_EXCURSION, _MOST_SLOPE = 0.20, 0.10


def is_steady(rounds: Sequence[float]) -> bool | None:
    """Whether the last five of these values, in the order of measuring, are in a steady state (SNIA's limits).

    None if there are fewer than five, or if their mean is not above zero, so that relative limits mean nothing.
    """
    window = list(rounds[-ROUNDS:])
    mean = sum(window) / ROUNDS
    if len(window) < ROUNDS or not 0 < mean < float("inf"):
        return None
    return max(window) - min(window) <= _MOST_EXCURSION * mean and is_level(window)


def is_level(window: Sequence[float]) -> bool:
    """Whether a line fitted to these values changes by at most a tenth of their mean, which must be above zero."""
    return abs(fitted_change(window)) <= _MOST_SLOPE * sum(window) / len(window)


def fitted_change(values: Sequence[float]) -> float:
    """By how much a line fitted to two values or more, in the order of measuring, changes from the first to the last.

    Least squares, in the unit of the values.
    """
    middle = (len(values) - 1) / 2
    slope = sum((i - middle) * v for i, v in enumerate(values)) / sum((i - middle) ** 2 for i in range(len(values)))
    return slope * (len(values) - 1)
