"""Merges what a study says with what a system offers; the study wins."""

from collections.abc import Iterator, Mapping
from typing import Any


def above(offered: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Both merged, key by key at every depth; where both have a value, `said` wins."""
    merged = {**offered, **said}
    for key in offered.keys() & said.keys():
        if isinstance(offered[key], Mapping) and isinstance(said[key], Mapping):
            merged[key] = above(offered[key], said[key])
    return merged


def left_out(offered: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What is offered and not overridden, so that no service is made for an unused offer."""

    def rest() -> Iterator[tuple[str, Any]]:
        for key, value in offered.items():
            own = said.get(key)
            if key not in said:
                yield key, value
            elif isinstance(value, Mapping) and isinstance(own, Mapping):
                yield key, left_out(value, own)

    return dict(rest())
