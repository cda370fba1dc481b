"""The family's own lint."""

from benchstudy.lints.model import Found, Material, rule


@rule(
    "brief-nap",
    "note",
    why="Of a nap of a millisecond the call itself is a large part.",
    action="Take longer naps.",
)
def brief_nap(material: Material) -> Found:
    for group in material.groups:
        if "overslept" in group.figures and group.levels.get("nap") == "1ms":
            yield group.where, "naps of 1 ms"
