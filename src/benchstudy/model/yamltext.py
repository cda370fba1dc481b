"""YAML for studies and systems. Refused: what YAML would change without a word, and what fills memory or stack."""

import math
from typing import Any

import yaml

from benchstudy.model.errors import StudyError

# With aliases expanded: nine lines of aliases of aliases can make a thousand million values.
_MOST_VALUES = 1_000_000
# No study comes near; a thousand exceed Python's stack, and many more end the process.
_MOST_NESTED = 100
# Below this key, numbers are put into the texts of commands.
_LEVELS = "matrix"


class _UniqueKeyLoader(yaml.CSafeLoader):
    """YAML lets a second key silently overwrite the first; a study must not."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _values(node, {}) > _MOST_VALUES:
            raise StudyError(f"its aliases expand to more than {_MOST_VALUES:,} values")
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, ValueError) as error:  # YAML's own readers believe any explicit tag
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!r} cannot be read as {kind}", node.start_mark
            ) from error


def _values(node: yaml.Node, known: dict[int, float]) -> float:
    """How many values a node holds with its aliases expanded; infinite if it contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        known[id(node)] = 1 + sum(_values(part, known) for part in _inner(node))
    return known[id(node)]


def _inner(node: yaml.Node) -> list[yaml.Node]:
    match node:
        case yaml.MappingNode():
            return [part for pair in node.value for part in pair]
        case yaml.SequenceNode():
            return list(node.value)
    return []


def _refuse_other_texts(loader: yaml.CSafeLoader, node: yaml.Node) -> None:
    """YAML reads 1.10 as 1.1 and 010 as 8, and a command would get that text."""
    for part in _inner(node):
        _refuse_other_texts(loader, part)
    number = loader.construct_object(node) if isinstance(node, yaml.ScalarNode) else None
    if isinstance(number, int | float) and not isinstance(number, bool) and str(number) != node.value:
        raise StudyError(
            f"line {node.start_mark.line + 1}: YAML reads {node.value} as the number {number}: write {number}, or "
            f'"{node.value}" in quotes'
        )


def _mapping_without_duplicates(loader: yaml.CSafeLoader, node: yaml.MappingNode) -> dict:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                None, None, 'this cannot be a key: write a placeholder in quotes, "{{…}}"', key_node.start_mark
            )
        key = str(key_node.value)
        if key in seen:
            raise StudyError(f"line {key_node.start_mark.line + 1}: the key {key!r} occurs twice")
        seen.add(key)
        if key == _LEVELS:
            _refuse_other_texts(loader, value_node)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


def _no_binary(loader: yaml.CSafeLoader, node: yaml.Node) -> None:
    raise yaml.constructor.ConstructorError(None, None, "it is binary: write text", node.start_mark)


_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:binary", _no_binary)
_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


def _refuse_deep(text: str) -> None:
    """Looks at one event after the other, because libyaml reads nested values with the process's own stack."""
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            raise StudyError(f"it is nested too deeply: more than {_MOST_NESTED} levels")


def read_yaml(text: str) -> Any:
    """The content of a YAML text. Raises yaml.YAMLError, and StudyError for a duplicate key or too deep nesting."""
    _refuse_deep(text)
    return yaml.load(text, _UniqueKeyLoader)
