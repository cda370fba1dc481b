"""YAML for studies and systems. Refused: what YAML would change without a word, and what fills memory or stack."""

import math
import re
from typing import Any

import yaml

from benchstudy.model.errors import StudyError

# With aliases expanded: nine lines of aliases of aliases can make a thousand million values.
_MOST_VALUES = 1_000_000
# No study comes near; a thousand exceed Python's stack, and many more end the process.
_MOST_NESTED = 100
# Below this key, numbers are put into the texts of commands.
_LEVELS = "matrix"
_OF_GIT = re.compile(r"(?m)^(<<<<<<<|=======|>>>>>>>)(?: .*)?$")


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
            raise StudyError(f"line {key_node.start_mark.line + 1}: the key {key!r} occurs twice: keep one of them")
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
    """The content of a YAML text. Raises yaml.YAMLError, and StudyError for a duplicate key, too deep nesting, or a
    merge that is not done.
    """
    if mark := _OF_GIT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        raise StudyError(
            f"line {line}: {mark[1]} is git's mark of a merge conflict: choose what stays, and remove git's marks"
        )
    _refuse_deep(text)
    return yaml.load(text, _UniqueKeyLoader)


# What libyaml says, what to write, and whether the mistake is where it began to read instead of where it gave up.
_ADVICE = (
    ("found a tab character", "indent with spaces", False),
    ("could not find expected ':'", "write a space after the colon of a key, as in `blocks: 6`", True),
    ("found unexpected end of stream", "a text begins with a quote here: end it with the same quote", True),
    (
        "mapping values are not allowed",
        "put a text with a colon in quotes, and indent the keys of one mapping alike",
        False,
    ),
    (
        "did not find expected ',' or",
        'a { or [ begins here: separate its items with commas, and close it; write a placeholder in quotes, "{{…}}"',
        True,
    ),
    ("did not find expected '-' indicator", "indent the keys of a list's item alike, behind its dash", False),
    (
        "did not find expected key",
        "indent the keys of one mapping alike, and write nothing after a closing quote",
        False,
    ),
    (
        "cannot start any token",
        "put a text that begins with @, % or ` in quotes, and indent with spaces, not tabs",
        False,
    ),
    ("found another document", "keep one study or system per file, without a line ---", False),
    ("found undefined alias", "put a text that begins with * in quotes", False),
)


def yaml_problem(error: yaml.MarkedYAMLError) -> str:
    """Where a text is not valid YAML, why, and what to write."""
    problem, mark, advice = error.problem or "", error.problem_mark, ""
    for words, what, at_start in _ADVICE:
        if words in problem:
            advice, mark = f": {what}", (error.context_mark if at_start else None) or mark
            break
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{at}{problem}{advice}"


def line_of(text: str, field: str) -> int | None:
    """The line of a field such as `hosts.db.port`, or of the deepest mapping or list on the way that the text has."""
    node, found, rest = yaml.compose(text, yaml.CSafeLoader), None, field.split(".")
    while rest:
        inner, taken = None, 0
        if isinstance(node, yaml.SequenceNode) and rest[0].isdigit() and int(rest[0]) < len(node.value):
            inner, taken = node.value[int(rest[0])], 1
            line = inner.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                words = str(key.value).split(".")
                if rest[: len(words)] == words:
                    inner, taken, line = value, len(words), key.start_mark.line
        if inner is None:
            break
        node, found, rest = inner, line + 1, rest[taken:]
    return found
