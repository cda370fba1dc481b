"""Who computes on this very machine beside trials, because somebody said `beside=true`."""

import json
from collections.abc import Iterator
from pathlib import Path

from benchstudy.model.files import now


class Beside:
    """Of one session: only what goes on while it is held."""

    def __init__(self, path: Path):
        """`path`: where commands note that they compute here, a line of JSON each; it need not exist."""
        self._path, self._begun = path, now()
        self._going_on: dict[int, str] = {}
        self._told: set[str] = set()

    def news(self) -> Iterator[str]:
        """What is to be recorded since it was asked for last: who began, and who has ended."""
        for line in self._path.read_text().splitlines() if self._path.is_file() else ():
            command = json.loads(line)
            if line not in self._told and (command["since"] > self._begun or _runs(command["pid"])):
                self._told.add(line)
                what = f"process {command['pid']}, which makes tables and pages of study {command['study']}"
                yield f"beside the trials since {command['since']}: {what} (beside=true)"
                self._going_on[command["pid"]] = what
        for pid in [pid for pid in self._going_on if not _runs(pid)]:
            yield f"no longer beside the trials: {self._going_on.pop(pid)}"


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
