"""Says what is wrong with a value of a study in our own words, because pydantic's speak of Python's types."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_WANTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false, without quotes",
    "bool_type": "true or false, without quotes",
    "string_type": "text; in quotes if YAML would take it for a number, a date or true",
    "list_type": "a list, such as [a, b]",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "datetime_type": "a time such as 2024-09-10T10:00:00Z",
    "datetime_from_date_parsing": "a time such as 2024-09-10T10:00:00Z",
    "datetime_parsing": "a time such as 2024-09-10T10:00:00Z",
}
_BOUNDS = {
    "greater_than": ("gt", "above {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "below {}"),
    "less_than_equal": ("le", "at most {}"),
}
_SHOWN = 60
_KEY = "[key]"  # in pydantic's places: behind a key that is wrong itself
_SECRET = re.compile("pass|secret|token|key|header|env", re.IGNORECASE)


def place_of(problem: Mapping[str, Any]) -> str:
    """The field of one of pydantic's `errors()`; of a key, that which has it."""
    return ".".join(str(part) for part in problem["loc"] if part != _KEY)


def explain(problem: Mapping[str, Any]) -> str:
    """One of pydantic's `errors()` as a sentence with the value and what is expected. Callers handle unknown keys."""
    kind, context = problem["type"], problem.get("ctx", {})
    given = _shown(problem.get("input"), problem["loc"])
    if "error" in context:
        return str(context["error"])
    if kind in _WANTED:
        return f"{given}: write {_WANTED[kind]}"
    if kind == "spelled":
        return f"{given}: write {context['wanted']}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{given}: give {words.format(context[key])}"
    if kind == "literal_error":
        return f"{given}: write {context['expected']}"
    if kind == "too_short":
        return f"it is empty: give at least {context['min_length']}"
    if kind == "too_long":
        return f"{given}: give at most {context['max_length']}"
    if kind == "string_too_short":
        return f"{given} is too short: write at least {context['min_length']} characters"
    if kind == "missing":
        return "this key is missing"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        key = context["discriminator"].strip("'")
        if "tag" not in context:
            return f"{key}: this key is missing"
        return f"{key}: {context['tag']!r}: write {_either(context['expected_tags'])}"
    return problem["msg"]


def _either(tags: str) -> str:
    """'a', 'b' as 'a' or 'b'."""
    first, comma, last = tags.rpartition(", ")
    return f"{first} or {last}" if comma else last


def _shown(given: Any, where: Sequence[int | str]) -> str:
    """The given value, unless its place may hold a secret that must not be in a log."""
    if given is None:
        return "nothing is given"
    if any(_SECRET.search(str(part)) for part in where if part != _KEY):
        return "what is given"
    text = {True: "true", False: "false"}[given] if isinstance(given, bool) else repr(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
