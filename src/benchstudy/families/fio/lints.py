"""Lints for loops over small files."""

from benchstudy.lints import words
from benchstudy.lints.model import Found, Material, rule
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
        clock = group.figures.get("real" if not op else f"{op}time")
        real = clock.value if clock is not None else None
        user, system = group.value(f"{op}user"), group.value(f"{op}system")
        if clock is None or not real or user is None or system is None or user + system < _PROCESSOR * real:
            continue
        files = group.value("files")
        each = (user + system) / files if files else None
        starts = ", as much as starting a program for each costs" if each and each > _A_PROGRAM_S else ""
        of_each = f" ({words.time(each)} per file{starts})" if each else ""
        share = rounding.percent(round((user + system) / real, 2))
        which = op.replace("_", ": ")
        took = clock.printed or words.time(real)
        yield group.where, f"{which}{share} of {took} is processor time{of_each}, so the disk may be faster"
