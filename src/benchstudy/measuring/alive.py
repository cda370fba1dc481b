"""Whether a process that was noted down is still there."""

import psutil

_TICK_S = 1.0  # the kernel tells when a process began in ticks since it began itself, to less than this


def still_runs(pid: int, seen_s: float) -> bool:
    """Whether it is the process that had this number at `seen_s` (Unix): numbers are given again, to later ones."""
    try:
        return psutil.Process(pid).create_time() <= seen_s + _TICK_S
    except psutil.NoSuchProcess:
        return False
