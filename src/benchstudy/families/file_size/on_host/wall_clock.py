"""Moments of this process on the wall clock of its host, which the controller compares with those of other hosts."""

from time import perf_counter_ns, time_ns

# Taken once, so that a clock that is set meanwhile moves no operation.
_BEHIND_NS = time_ns() - perf_counter_ns()


def unix_ns(at_ns):
    """Return the Unix time in nanoseconds of a moment of `perf_counter_ns`."""
    return at_ns + _BEHIND_NS
