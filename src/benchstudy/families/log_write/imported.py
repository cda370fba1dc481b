"""A saved screen of the hammer, and the metrics of any screen. Pure."""

from pathlib import Path

from benchstudy.families.log_write.hammer import HammerScreen, read_saved, recognise_box
from benchstudy.families.shared.files import text_of
from benchstudy.model.family import UNKNOWN, Imported

_LARGEST_IMPORT = 16 << 20
SAVED_SCREEN = "hammer-screen.txt"


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
