"""Commands that compute on this machine during trials because of `beside=true`."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from benchstudy.measuring.alive import still_runs
from benchstudy.model.files import now


class Beside:
    """The commands that run during one session."""

    def __init__(self, path: Path):
        """`path`: the file in which commands note that they compute here, one line of JSON each. It need not exist."""
        self._path, self._begun = path, now()
        self._going_on: dict[str, str] = {}  # each noted line, and which command it is
        self._told: set[str] = set()

    def news(self) -> Iterator[str]:
        """Events since the last call: which commands started, and which ended."""
        for line, command in self._noted():
            if line not in self._told and (command["since"] > self._begun or _runs(command)):
                self._told.add(line)
                what = f"process {command['pid']}, which makes tables and pages of study {command['study']}"
                yield f"beside the trials since {command['since']}: {what} (beside=true)"
                self._going_on[line] = what
        for line in [line for line in self._going_on if not _runs(json.loads(line))]:
            yield f"no longer beside the trials: {self._going_on.pop(line)}"

    def _noted(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The whole lines. A disk that was full may have left a part of one."""
        with suppress(FileNotFoundError):
            for line in self._path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):
                    yield line, json.loads(line)


def _runs(command: Mapping[str, Any]) -> bool:
    return still_runs(command["pid"], datetime.fromisoformat(command["since"]).timestamp())
