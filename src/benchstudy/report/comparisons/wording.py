"""How a sentence describes the setting of a comparison, in the words of its family."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchstudy.model import registry
from benchstudy.report import human

_PART = "page.wording"
_SIZE = re.compile(r"\b(\d+(?:\.\d+)?)([kKMGT]i?B)\b")


@dataclass(frozen=True)
class Wording:
    """How sentences about a family name settings and levels.

    `setting` makes the end of a sentence from the levels that both sides share: "to write 100 MB with fsync". `levels`
    has, by factor, phrases for levels that are no names, such as "yes".
    """

    setting: Callable[[Mapping[str, Any]], str]
    levels: Mapping[str, Mapping[str, str]]

    def name(self, factor: str, level: str) -> str:
        """What a sentence calls a level of a factor. A bare number has the factor's name before it: "level 9"."""
        named = f"{factor.replace('_', ' ')} {level}" if level.isdecimal() else human.level(level)
        return self.levels.get(factor, {}).get(level, named)


def of(family: str) -> Wording:
    """The wording of a family: `setting` and `LEVELS` of its `page/wording.py`; without one, the levels are listed."""
    part = registry.part(family, _PART) if family in registry.names() else None
    return Wording(_listed, {}) if part is None else Wording(part.setting, getattr(part, "LEVELS", {}))


def size(level: str) -> str:
    """A level with a space before the unit of a size: "100MB" is "100 MB"."""
    return _SIZE.sub(r"\1 \2", level)


def _listed(levels: Mapping[str, Any]) -> str:
    return "for " + ", ".join(size(human.level(str(level))) for level in levels.values()) if levels else ""
