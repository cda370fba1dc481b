"""The log of Tessera's hammer: what it writes to stderr without a screen, or with `--stderrthreshold=INFO`."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from benchstudy.model.family import ParseError

# Lwwww hh:mm:ss.uuuuuu pid file:line] text; the year and the time zone are not told.
_HEAD = re.compile(
    r"^(?P<level>[IWEF])\d{4} (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d\.\d{6})\s+\d+ [^\s\]]+:\d+\] (?P<text>.*)$"
)
_UPDATED = re.compile(r"Updated checkpoint from (\d{1,15}) to (\d{1,15})$")
_COUNTED = re.compile(r"\((\d{1,12}) x\) (.+)$")
_PUSHED_BACK = re.compile(r"(\d{1,12}) requests received pushback from log$")
_ANTISPAM_PUSHBACK = re.compile(r'Status code: 500\. Body: ".*pushback')
_DAY_S = 86_400.0


@dataclass(frozen=True)
class CheckpointUpdate:
    """hammer saw the tree grow. `t_s`: since the log's first line. It looks every 0.5 s."""

    t_s: float
    from_size: int
    to_size: int


@dataclass(frozen=True)
class HammerLog:
    """What a log says. Times in s since its first line.

    `checkpoints` need `-v=1`. `pushback_500` (posix and mysql: "antispam pushback"), `pushback_503` (any of 429, 502,
    503 and 504, which hammer counts as one) and `errors` (all others of writes and reads, by text) are lower bounds,
    because hammer loses the first error after a change of text, and those of its last second.
    `warnings`: other lines of level W or E, by text, such as a checkpoint that could not be fetched.
    `fatal`: why it gave up. `duration_s`: to the last line. `ended`: "runtime" (--max_runtime), "goal"
    (--leaf_write_goal) or None; while it has a screen it goes on afterwards without showing anything new.
    """

    checkpoints: tuple[CheckpointUpdate, ...]
    pushback_500: int
    pushback_503: int
    errors: Mapping[str, int]
    warnings: Mapping[str, int]
    fatal: str | None
    ended: str | None
    duration_s: float

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())

    def qps(self, begin_s: float, end_s: float) -> float:
        """Growth a second (1/s) in whole steps: between the last updates at or before the two times.

        Raises ParseError when there are no two such updates.
        """
        first, last = self._last_until(begin_s), self._last_until(end_s)
        if first is None or last is None or first == last:
            raise ParseError(f"hammer's log has no two checkpoints around {begin_s:g} and {end_s:g} s")
        return (last.to_size - first.to_size) / (last.t_s - first.t_s)

    def size_at(self, t_s: float) -> int | None:
        """The tree's size as hammer knew it then; None before its first update."""
        update = self._last_until(t_s)
        return None if update is None else update.to_size

    def _last_until(self, t_s: float) -> CheckpointUpdate | None:
        return next((update for update in reversed(self.checkpoints) if update.t_s <= t_s), None)


def parse_log(text: str) -> HammerLog:
    """A log, whole or cut off; half a line at its end and lines that are not hammer's are left out.

    Raises ParseError for checkpoints that contradict each other, since a log's size cannot fall.
    """
    checkpoints: list[CheckpointUpdate] = []
    errors: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    pushback = {500: 0, 503: 0}
    fatal = ended = None
    first = last = None
    before = ""
    for line in text.replace("\r\n", "\n").split("\n")[:-1]:
        head = _HEAD.match(line)
        # On a screen warnings come twice: once for their own level, once for the one below.
        if head is None or line == before:
            continue
        before = line
        at = int(head["h"]) * 3600 + int(head["m"]) * 60 + float(head["s"])
        first = at if first is None else first
        last = (at - first) % _DAY_S
        said = head["text"].strip()
        if update := _UPDATED.match(said):
            checkpoints.append(_checked(CheckpointUpdate(last, int(update[1]), int(update[2])), checkpoints))
        elif pushed := _PUSHED_BACK.match(said):
            pushback[503] += int(pushed[1])
        elif counted := _COUNTED.match(said):
            if _ANTISPAM_PUSHBACK.search(counted[2]):
                pushback[500] += int(counted[1])
            else:
                errors[counted[2]] += int(counted[1])
        elif head["level"] == "F":
            fatal = fatal or said
        elif head["level"] in "WE":
            warnings[said] += 1
        elif said.startswith("Max runtime reached"):
            ended = "runtime"
        elif said.startswith("Reached tree size goal"):
            ended = "goal"
    return HammerLog(
        tuple(checkpoints), pushback[500], pushback[503], dict(errors), dict(warnings), fatal, ended, last or 0.0
    )


def _checked(update: CheckpointUpdate, earlier: list[CheckpointUpdate]) -> CheckpointUpdate:
    at_least = earlier[-1].to_size if earlier else 0
    if not at_least <= update.from_size < update.to_size:
        raise ParseError(
            f"hammer's log says that the tree grew from {update.from_size} to {update.to_size} after it had "
            f"{at_least}; two logs may have been put together"
        )
    return update
