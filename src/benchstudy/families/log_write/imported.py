"""A saved screen of the hammer. Pure."""

from pathlib import Path

from benchstudy.families.log_write.hammer import read_saved, recognise_box
from benchstudy.families.log_write.layout import SAVED_SCREEN
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import of_screen
from benchstudy.families.shared.files import text_of
from benchstudy.model.family import UNKNOWN, Imported

_LARGEST_IMPORT = 16 << 20


def recognise(path: Path) -> Imported | None:
    """Recognises a saved screen of the hammer: a box as on a page, or a saved recording of a terminal.

    Raises ParseError for one that is damaged.
    """
    if path.stat().st_size > _LARGEST_IMPORT:
        return None
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
        "one screen of the hammer: Δ is the growth of the tree, the min/avg/max are of means of ticks, not of leaves",
        "backend, antispam, limits, front ends, duplicates and warm-up are not told by a screen",
        *map(told, of_screen(screen)),
    ]
    return Imported(levels, SAVED_SCREEN, "tessera-hammer", None, notes)
