"""Existing reports of ab, recognised."""

from pathlib import Path

from benchstudy.families.http_concurrency.ab import parse_ab, recognise_ab
from benchstudy.families.shared.levels import UNLIMITED
from benchstudy.model.family import Imported
from benchstudy.model.names import as_name

_LARGEST_IMPORT = 16 << 20


def recognise(path: Path) -> Imported | None:
    """Recognises ab's reports. Raises ParseError for one that is damaged."""
    if path.stat().st_size > _LARGEST_IMPORT:
        return None
    text = path.read_bytes().decode(errors="replace")
    if not recognise_ab(text):
        return None
    result = parse_ab(text)
    levels = {
        "server": as_name(result.server_software or f"{result.hostname}-{result.port}"),
        "limits": UNLIMITED,
        "endpoint": as_name(result.path.strip("/") or "root"),
        "generator": "ab",
        "concurrency": str(result.concurrency),
    }
    notes = ["closed loop: coordinated omission possible", "limits, warm-up and checks are not known"]
    return Imported(levels, "ab.txt", "ab", result.version, (*notes, *result.problems()))
