"""YAML as studies and systems are written in: a key that stands twice is refused, where YAML keeps the last one."""

import math
from typing import Any

import yaml

from benchstudy.model.errors import StudyError

# Written out: nine lines of aliases of aliases are a thousand million values.
_MOST_VALUES = 1_000_000


class _UniqueKeyLoader(yaml.CSafeLoader):
    """YAML lets a second key overwrite the first in silence; a study must not."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _values(node, {}) > _MOST_VALUES:
            raise StudyError(f"its aliases make more than {_MOST_VALUES:,} values of it")
        return node


def _values(node: yaml.Node, known: dict[int, float]) -> float:
    """How many values a node holds with its aliases written out; infinite where it holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        match node:
            case yaml.MappingNode():
                inner = [part for pair in node.value for part in pair]
            case yaml.SequenceNode():
                inner = node.value
            case _:
                inner = []
        known[id(node)] = 1 + sum(_values(part, known) for part in inner)
    return known[id(node)]


def _mapping_without_duplicates(loader: yaml.CSafeLoader, node: yaml.MappingNode) -> dict:
    seen: set[str] = set()
    for key_node, _ in node.value:
        key = str(key_node.value)
        if key in seen:
            raise StudyError(f"line {key_node.start_mark.line + 1}: the key {key!r} stands there twice")
        seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


def read_yaml(text: str) -> Any:
    """What a text in YAML holds. Raises yaml.YAMLError, and StudyError for a key that stands twice."""
    return yaml.load(text, _UniqueKeyLoader)
