"""What others did on the hosts of stored trials: whether it disturbed a trial, and values for tables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial
from benchstudy.model import interference
from benchstudy.model.files import json_of


def seen(trial: StoredTrial) -> Mapping[str, Any] | None:
    """What others used of the trial's hosts, as evaluated when it was measured; None if unknown."""
    return _seen_in(trial.folder) if _is_known(trial) else None


def values(trial: StoredTrial) -> dict[str, Mapping[str, float]]:
    """By host, the metrics (`interference.METRICS`) that the present code computes from the trial's counters."""
    document = _document(trial.folder) if _is_known(trial) else {"seen": {}}
    with _readable(trial.folder):
        found = interference.windows(document) if document["seen"] else {}
        return {host: window.values for host, window in found.items()}


def _is_known(trial: StoredTrial) -> bool:
    return any(file.name == interference.FILE for file in trial.files)


@lru_cache(maxsize=4096)  # a session needs it after each block; a committed trial never changes
def _seen_in(folder: Path) -> Any:
    with _readable(folder):
        found = _document(folder)["seen"]
        interference.worst(found)
        return found


@lru_cache(maxsize=1)  # tables need both functions for one trial
def _document(folder: Path) -> Any:
    with _readable(folder):
        return json_of((folder / interference.FILE).read_bytes())


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except interference.MALFORMED as error:
        raise CorruptTrial(
            f"{folder / interference.FILE}: cannot tell what other work ran ({type(error).__name__}: {error}); restore "
            f"it from a copy, or have the trial measured again with `benchstudy discard {folder.name[-8:]} --why …`"
        ) from error
