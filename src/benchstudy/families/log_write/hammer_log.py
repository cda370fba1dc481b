"""The log of Tessera's hammer on stderr, without a screen or with `--stderrthreshold=INFO`."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class HammerLog:
    """The contents of a log.

    `checkpoints` (with `-v=1`): when the hammer saw the tree grow, in s since the first line of the log, and the size;
    it looks every 0.5 s. `pushback_500` (posix and mysql: "antispam pushback"), `pushback_503` (429, 502, 503 and 504,
    which the hammer counts as one) and `errors` (all other errors of writes and reads, by text) are lower bounds: the
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
    """Parse a log, whole or truncated. A partial last line and lines of other programs are left out.

    Raises ParseError for inconsistent checkpoints, because a log cannot shrink.
    """
    checkpoints: list[tuple[float, int]] = []
    errors: Counter[str] = Counter()
    pushback = {500: 0, 503: 0}
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
            f"the hammer's log says that the tree grew from {begin} to {end} after it had {at_least}: the file may "
            "contain two logs"
        )
