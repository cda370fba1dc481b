"""The words of sentences that compare times of files."""

from collections.abc import Mapping
from typing import Any

from benchstudy.report.comparisons.wording import size

# Phrases for levels that are not names.
LEVELS = {
    "sync": {"fsync": "a synced write", "none": "an unsynced write"},
    "cache": {"cold": "a cold read", "warm": "a warm read", "direct": "a read past the cache"},
}
_STATES = {
    "fsync": "with fsync",
    "none": "without fsync",
    "cold": "with a cold cache",
    "warm": "with a warm cache",
    "direct": "past the cache",
}


def setting(levels: Mapping[str, Any]) -> str:
    """ "to write 100 MB with fsync", "to read 1 MB with a cold cache on local"."""
    states = (_STATES.get(str(levels.get(factor))) for factor in ("sync", "cache"))
    backend = f"on {levels['backend']}" if "backend" in levels else ""
    return " ".join(filter(None, ("to", levels.get("op"), size(str(levels.get("size", ""))), *states, backend)))
