"""Lints for loops over small files."""

from statistics import median

from benchstudy.lints import words
from benchstudy.lints.model import Found, Group, Material, rule
from benchstudy.model import rounding

_PROCESSOR = 0.8
_A_PROGRAM_S = 1e-3  # a lower bound of the cost to start a program


@rule(
    "processor-bound",
    "warning",
    why="CPU time in the shell, in system calls or in starting programs is not a property of a disk, so a slow disk "
    "and a fast one look alike.",
    action="Do the operations in one process that starts no other. If it already does, sync its writes and empty the "
    "cache before its reads. Report its CPU time beside the elapsed time.",
)
def processor_bound(material: Material) -> Found:
    for group, op in [(group, op) for group in material.groups for op in ("", "read_", "write_")]:
        # Of single trials: the sum of two medians may be longer than any trial took.
        known = [seconds for sample in material.own(group) if (seconds := _seconds(sample, op))]
        busy = median(used / real for real, used in known) if known else 0.0
        if busy < _PROCESSOR:
            continue
        files = group.value("files")
        each = median(used for _, used in known) / files if files else None
        starts = ", as much as starting a program for each costs" if each and each > _A_PROGRAM_S else ""
        of_each = f" ({words.time(each)} per file{starts})" if each else ""
        share = rounding.percent(round(busy, 2))
        which = op.replace("_", ": ")
        took = group.figures[f"{op}time" if op else "real"].printed or words.time(median(real for real, _ in known))
        yield group.where, f"{which}{share} of {took} is processor time{of_each}, so the disk may be faster"


def _seconds(sample: Group, op: str) -> tuple[float, float] | None:
    """How long a loop took in one sample, and its processor time; None if the sample lacks one of them."""
    real = sample.value(f"{op}time" if op else "real")
    user, system = sample.value(f"{op}user"), sample.value(f"{op}system")
    return (real, user + system) if real and user is not None and system is not None else None
