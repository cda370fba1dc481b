"""The words of sentences that compare logs."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.log_write.config import SEARCH
from benchstudy.report import human

LEVELS = {"antispam": {"yes": "a log with deduplication", "no": "one without deduplication"}}


def setting(levels: Mapping[str, Any]) -> str:
    """ "at 2,000/s offered, without deduplication", "in the capacity search, with deduplication, on posix"."""
    rate = str(levels.get("rate", SEARCH))
    load = "in the capacity search" if rate == SEARCH else f"at {human.level(rate)} offered"
    known = {"yes": "with deduplication", "no": "without deduplication"}
    parts = (load, known.get(str(levels.get("antispam")), ""), f"on {levels['backend']}" if "backend" in levels else "")
    return ", ".join(filter(None, parts))
