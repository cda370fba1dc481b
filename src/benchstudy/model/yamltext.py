"""YAML as studies and systems are written in: a key that stands twice is refused, where YAML keeps the last one."""

from typing import Any

import yaml

from benchstudy.model.errors import StudyError


class _UniqueKeyLoader(yaml.CSafeLoader):
    """YAML lets a second key overwrite the first in silence; a study must not."""


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
