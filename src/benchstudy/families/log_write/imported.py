"""Import of saved screens of the hammer. Pure."""

from pathlib import Path

from benchstudy.families.log_write.hammer import read_saved, recognise_box
from benchstudy.families.log_write.layout import SAVED_SCREEN
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import of_screen
from benchstudy.families.shared.files import text_of
from benchstudy.model.family import UNKNOWN, Imported

OUTPUTS = "a screen of Tessera's hammer"


def recognise(path: Path) -> Imported | None:
    """Recognise a saved screen of the hammer: the text of a box, or a recording of a terminal.

    Raises ParseError if it is damaged.
    """
    content = path.read_bytes()
    if not recognise_box(text_of(content)):
        return None
    screen = read_saved(content)[-1]
    levels = {
        "backend": UNKNOWN,
        "antispam": UNKNOWN,
        "limits": UNKNOWN,
        "front_ends": UNKNOWN,
        "duplicates": UNKNOWN,
        "generator": "hammer",
        "rate": f"{screen.write_max_per_s}-per-s",
        "writers": str(screen.write_workers),
        "readers": f"{screen.read_workers}-at-{screen.read_max_per_s}-per-s",
    }
    notes = [
        "one screen of the hammer: Δ is the growth of the tree; min/avg/max are of tick means, not of single leaves",
        "a screen does not show backend, antispam, limits, front ends, duplicates and warm-up",
        *map(told, of_screen(screen)),
    ]
    return Imported(levels, SAVED_SCREEN, "tessera-hammer", None, notes, own=repr(screen))
