"""The log of Tessera's hammer on stderr, without a screen or with `--stderrthreshold=INFO`."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

# Lwwww hh:mm:ss.uuuuuu pid file:line] text; without year and time zone.
_HEAD = re.compile(
    r"^(?P<level>[IWEF])\d{4} (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d\.\d{6})\s+\d+ [^\s\]]+:\d+\] (?P<text>.*)$"
)
_UPDATED = re.compile(r"Updated checkpoint from (\d{1,15}) to (\d{1,15})$")
_COUNTED = re.compile(r"\((\d{1,12}) x\) (.+)$")
_PUSHED_BACK = re.compile(r"(\d{1,12}) requests received pushback from log$")
_ANTISPAM_PUSHBACK = re.compile(r'Status code: 500\. Body: ".*pushback')
_DAY_S = 86_400.0
_ZONES_S = 900.0


class Counted(NamedTuple):
    """A line about that many answers in the second before `t_s`. `status`: of pushback, as in HammerLog; else None."""

    t_s: float
    answers: int
    text: str
    status: int | None


@dataclass(frozen=True)
class HammerLog:
    """The contents of a log.

    `checkpoints` (with `-v=1`): when the hammer saw the tree grow, in s since the first line of the log, and the size;
    it looks every 0.5 s. `first_s`: the time of day of that line in s, in an unknown time zone; None without a line.
    `counted`: pushback with status 500 (posix and mysql: "antispam pushback") or 503 (429, 502, 503 and 504, which the
    hammer counts as one), and all other errors of writes and reads. Counts are lower bounds: the hammer loses the first
    error after a change of text, and those of its last second. `fatal`: why it gave up.
    """

    checkpoints: tuple[tuple[float, int], ...] = ()
    counted: tuple[Counted, ...] = ()
    fatal: str | None = None
    first_s: float | None = None

    @property
    def pushback(self) -> int:
        return sum(line.answers for line in self.counted if line.status)

    @property
    def errors(self) -> Mapping[str, int]:
        """By text, without pushback."""
        found: Counter[str] = Counter()
        for line in self.counted:
            if not line.status:
                found[line.text] += line.answers
        return found

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())

    def between(self, started_unix: float, begin_s: float, end_s: float) -> "HammerLog":
        """Leave out the lines about seconds that lie mostly outside of a window in s since the hammer started."""
        # Time zones are a whole number of quarters of an hour apart, and the first line comes within the first one. The
        # second allows for rounding.
        first_s = ((self.first_s or 0.0) - started_unix + 1) % _ZONES_S - 1
        inside = [line for line in self.counted if begin_s <= first_s + line.t_s - 0.5 < end_s]
        return replace(self, counted=tuple(inside))


@damaged("the hammer's log is damaged")
def parse_log(text: str) -> HammerLog:
    """Parse a log, whole or truncated. A partial last line and lines of other programs are left out.

    Raises ParseError for inconsistent checkpoints, because a log cannot shrink.
    """
    checkpoints: list[tuple[float, int]] = []
    counts: list[Counted] = []
    fatal = first = None
    before = ""
    for line in text.replace("\r\n", "\n").split("\n")[:-1]:
        head = _HEAD.match(line)
        # With a screen, warnings are written twice: for their own level, and for the level below.
        if head is None or line == before:
            continue
        before = line
        at = int(head["h"]) * 3600 + int(head["m"]) * 60 + float(head["s"])
        first = at if first is None else first
        t_s, said = (at - first) % _DAY_S, head["text"].strip()
        if update := _UPDATED.match(said):
            _check_growth(int(update[1]), int(update[2]), checkpoints[-1][1] if checkpoints else 0)
            checkpoints.append((t_s, int(update[2])))
        elif pushed := _PUSHED_BACK.match(said):
            counts.append(Counted(t_s, int(pushed[1]), said, 503))
        elif counted := _COUNTED.match(said):
            status = 500 if _ANTISPAM_PUSHBACK.search(counted[2]) else None
            counts.append(Counted(t_s, int(counted[1]), counted[2], status))
        elif head["level"] == "F":
            fatal = fatal or said
    return HammerLog(tuple(checkpoints), tuple(counts), fatal, first)


def _check_growth(begin: int, end: int, at_least: int) -> None:
    if not at_least <= begin < end:
        raise ParseError(
            f"the hammer's log says that the tree grew from {begin} to {end} after it had {at_least}: the file may "
            "contain two logs"
        )
