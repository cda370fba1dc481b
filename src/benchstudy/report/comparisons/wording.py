"""How a sentence says under which circumstances two things were compared, in the words of the family they are of."""

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
    """`setting`: from the levels that both sides share to the end of a sentence, "to write 100 MB with fsync".
    `levels`: by factor, what a sentence calls those that are no names, such as "yes".
    """

    setting: Callable[[Mapping[str, Any]], str]
    levels: Mapping[str, Mapping[str, str]]

    def name(self, factor: str, level: str) -> str:
        return self.levels.get(factor, {}).get(level, human.level(level))


def of(family: str) -> Wording:
    """What the family's own `page/wording.py` says as `setting` and `LEVELS`; its levels listed, where it has none."""
    part = registry.part(family, _PART) if family in registry.names() else None
    return Wording(_listed, {}) if part is None else Wording(part.setting, getattr(part, "LEVELS", {}))


def size(level: str) -> str:
    """A size with a space before its unit: "100 MB"."""
    return _SIZE.sub(r"\1 \2", level)


def _listed(levels: Mapping[str, Any]) -> str:
    return "for " + ", ".join(size(human.level(str(level))) for level in levels.values()) if levels else ""
