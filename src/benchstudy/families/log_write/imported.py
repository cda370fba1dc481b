"""A saved screen of the hammer, and the metrics of any screen. Pure."""

import re
from pathlib import Path

from benchstudy.families.log_write.hammer import HammerScreen, read_saved, recognise_box
from benchstudy.families.shared.levels import UNLIMITED
from benchstudy.model.family import Imported
from benchstudy.model.names import as_name

_LARGEST_IMPORT = 16 << 20
SAVED_SCREEN = "hammer-screen.txt"
_ANTISPAM = re.compile(r"antispam|dedup", re.IGNORECASE)
_WITHOUT = re.compile(r"(without|no)[ -](antispam|dedup)", re.IGNORECASE)


def _recognise(text: str, name: str) -> Imported | None:
    """A box as on a page, a saved recording of a terminal; None for anything else. `name` of the file becomes the
    backend's. Raises ParseError for a box that is damaged.
    """
    if not recognise_box(text):
        return None
    screen = read_saved(text.encode())[-1]
    antispam = bool(_ANTISPAM.search(name)) and not _WITHOUT.search(name)
    levels = {
        "backend": as_name(name),
        "antispam": "yes" if antispam else "no",
        "limits": UNLIMITED,
        "front_ends": "1",
        "duplicates": "0%",
        "generator": "hammer",
        "rate": f"{screen.write_max_per_s}-per-s",
    }
    notes = [
        "one screen of the hammer: Δ is the growth of the tree, the min/avg/max are of means of ticks, not of leaves",
        "backend and antispam as the file's name says; limits, front ends, duplicates and warm-up are not known",
        *screen.problems(),
    ]
    return Imported(levels, SAVED_SCREEN, "tessera-hammer", None, notes)


def screen_values(screen: HammerScreen) -> dict[str, tuple[float | None, str]]:
    """Every figure of a screen as a metric, so that a report can draw it again; the times are of means of ticks."""
    values: dict[str, tuple[float | None, str]] = {
        "hammer_qps": (screen.qps, "1/s"),
        "hammer_window": (screen.window_s, "s"),
        "hammer_tree_size": (screen.tree_size, "1"),
        "hammer_oversupply": (screen.oversupply, "1"),
        "hammer_writers": (screen.write_workers, "1"),
        "hammer_write_max": (screen.write_max_per_s, "1/s"),
        "hammer_read_workers": (screen.read_workers, "1"),
        "hammer_read_max": (screen.read_max_per_s, "1/s"),
        "hammer_read_oversupply": (screen.read_oversupply, "1"),
    }
    for kind in ("queue", "integrate"):
        for name in ("min", "avg", "max"):
            values[f"hammer_{kind}_{name}"] = (getattr(screen, f"{kind}_{name}_s"), "s")
    return values


def recognise(path: Path) -> Imported | None:
    """Recognises a saved screen of the hammer. Raises ParseError for one that is damaged."""
    if path.stat().st_size > _LARGEST_IMPORT:
        return None
    return _recognise(path.read_bytes().decode(errors="replace"), path.stem)
