"""What stored trials keep of others on their hosts: what decides on them, and what tables say of them."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchstudy.measuring.raw import StoredTrial
from benchstudy.model import interference


def seen(trial: StoredTrial) -> Mapping[str, Any] | None:
    """What others were seen to take of its hosts when it was measured; None where that is not known."""
    return _seen_in(trial.folder) if _is_known(trial) else None


def values(trial: StoredTrial) -> dict[str, Mapping[str, float]]:
    """By host, its metrics (`interference.METRICS`) as they are made of its counters today."""
    document = _document(trial.folder) if _is_known(trial) else {"seen": {}}
    return {host: window.values for host, window in interference.windows(document).items()} if document["seen"] else {}


def _is_known(trial: StoredTrial) -> bool:
    return any(file.name == interference.FILE for file in trial.files)


@lru_cache(maxsize=4096)  # a session asks again after each block; a committed trial never changes
def _seen_in(folder: Path) -> Any:
    return _document(folder)["seen"]


@lru_cache(maxsize=1)  # tables ask for both of one trial
def _document(folder: Path) -> Any:
    return json.loads((folder / interference.FILE).read_bytes())
