"""Differences between two nested records, such as a host's facts before and after, or those of two hosts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Facts that change all the time do not say whether the host stayed the same machine.
_VOLATILE = ("load", "wall_clock", "clock", "meminfo", "memory", "uptime", "free")
_LONGEST = 120


@dataclass(frozen=True)
class Difference:
    """One leaf: its name, such as `kernel.release`, and its value on each side as JSON; empty if missing."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'null'} -> {self.after or 'null'}"


def differences(before: Any, after: Any, where: str = "") -> Iterator[Difference]:
    """Every leaf that differs, by name. Lists of equal length are compared item by item.

    Of lists of different lengths that are too long to show, only the items that one side lacks are told.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}, key=str):
            yield from differences(before.get(key), after.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (mine, its) in enumerate(zip(before, after, strict=True)):
            yield from differences(mine, its, f"{where}[{index}]")
    elif isinstance(before, list) and isinstance(after, list) and _is_cut(before, after):
        yield from (Difference(f"{where}[{i}]", _short(v), "") for i, v in enumerate(before) if v not in after)
        yield from (Difference(f"{where}[{i}]", "", _short(v)) for i, v in enumerate(after) if v not in before)
    elif before != after:
        yield Difference(where, _short(before), _short(after))


def of_environments(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What differs between two records of a host's facts, without facts that change all the time."""
    return list(differences(_steady(before), _steady(after)))


def environment_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What changed on a host during a session, one line per fact: `kernel: 6.1.0 -> 6.1.2`."""
    return [str(difference) for difference in of_environments(before, after)]


def _steady(facts: Any) -> Any:
    if not isinstance(facts, Mapping):
        return facts
    return {key: _steady(v) for key, v in facts.items() if not any(word in str(key) for word in _VOLATILE)}


def _is_cut(before: list[Any], after: list[Any]) -> bool:
    differ = any(value not in after for value in before) or any(value not in before for value in after)
    return differ and "…" in _short(before)[-1:] + _short(after)[-1:]


def _short(value: Any) -> str:
    text = "" if value is None else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}…"
