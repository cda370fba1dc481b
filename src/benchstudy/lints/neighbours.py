"""A rule about other users of the hosts during the measurement."""

from benchstudy.lints import words
from benchstudy.lints.model import Found, Material, rule


@rule(
    "neighbour",
    "warning",
    why="A figure measured beside other work shows what that work left over, not what the system can do.",
    action="End all other work on the host. Then discard the trials (`benchstudy discard`) and measure them again, or "
    "declare `disturbance: {then: repeat}`.",
)
def neighbour(material: Material) -> Found:
    for where, (count, total) in material.disturbed.items():
        trials = f"{count} of {words.plural(total, 'trial')}"
        yield where, f"other work took more of a host than the study allows during {trials}"
