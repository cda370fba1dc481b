"""Whether a recorded process still runs."""

import psutil

_TICK_S = 1.0  # the kernel gives the start of a process in ticks since boot, more precise than this


def still_runs(pid: int, seen_s: float) -> bool:
    """Whether `pid` is still the process that had this id at `seen_s` (Unix seconds). The kernel reuses ids."""
    try:
        return psutil.Process(pid).create_time() <= seen_s + _TICK_S
    except psutil.NoSuchProcess:
        return False
