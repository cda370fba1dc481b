"""The log of Tessera's hammer: what it writes to stderr without a screen, or with `--stderrthreshold=INFO`."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from benchstudy.families.shared.files import damaged
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
class HammerLog:
    """What a log says.

    `checkpoints` (with `-v=1`): when hammer saw the tree grow, in s since the log's first line, and its size then; it
    looks every 0.5 s. `pushback_500` (posix and mysql: "antispam pushback"), `pushback_503` (any of 429, 502, 503 and
    504, which hammer counts as one) and `errors` (all others of writes and reads, by text) are lower bounds, because
    hammer loses the first error after a change of text, and those of its last second. `fatal`: why it gave up.
    """

    checkpoints: tuple[tuple[float, int], ...]
    pushback_500: int
    pushback_503: int
    errors: Mapping[str, int]
    fatal: str | None

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())


@damaged("the hammer's log is damaged")
def parse_log(text: str) -> HammerLog:
    """A log, whole or cut off; half a line at its end and lines that are not hammer's are left out.

    Raises ParseError for checkpoints that contradict each other, since a log's size cannot fall.
    """
    checkpoints: list[tuple[float, int]] = []
    errors: Counter[str] = Counter()
    pushback = {500: 0, 503: 0}
    fatal = first = None
    before = ""
    for line in text.replace("\r\n", "\n").split("\n")[:-1]:
        head = _HEAD.match(line)
        # On a screen warnings come twice: once for their own level, once for the one below.
        if head is None or line == before:
            continue
        before = line
        at = int(head["h"]) * 3600 + int(head["m"]) * 60 + float(head["s"])
        first = at if first is None else first
        said = head["text"].strip()
        if update := _UPDATED.match(said):
            _check_growth(int(update[1]), int(update[2]), checkpoints[-1][1] if checkpoints else 0)
            checkpoints.append(((at - first) % _DAY_S, int(update[2])))
        elif pushed := _PUSHED_BACK.match(said):
            pushback[503] += int(pushed[1])
        elif counted := _COUNTED.match(said):
            if _ANTISPAM_PUSHBACK.search(counted[2]):
                pushback[500] += int(counted[1])
            else:
                errors[counted[2]] += int(counted[1])
        elif head["level"] == "F":
            fatal = fatal or said
    return HammerLog(tuple(checkpoints), pushback[500], pushback[503], dict(errors), fatal)


def _check_growth(begin: int, end: int, at_least: int) -> None:
    if not at_least <= begin < end:
        raise ParseError(
            f"hammer's log says that the tree grew from {begin} to {end} after it had {at_least}; two logs may have "
            "been put together"
        )
