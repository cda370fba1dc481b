"""Says what is wrong with a value of a study in our own words, because pydantic's speak of Python's types."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from benchstudy.model.errors import StudyError
from benchstudy.model.names import nearest

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


def explained(error: ValidationError, model: type[BaseModel], prefix: tuple[str, ...] = ()) -> list[str]:
    """Each problem of `model` in a sentence, with its field in front. `prefix`: where the model's value lies."""
    lines = []
    for problem in error.errors():
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, StudyError):  # a family's block has already explained itself
            lines.append(str(cause))
            continue
        where = ".".join(filter(None, (*prefix, _place_of(problem))))
        said = _unknown(problem["loc"], model) if problem["type"] == "extra_forbidden" else _explain(problem)
        lines.append(f"{where}: {said}" if where else said)
    return lines


def _unknown(place: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """What to write instead of the key at this place of a model."""
    around = _model_at(model, place[:-1])
    if around is None:
        return "unknown key: remove it"
    return f"unknown key: {nearest(str(place[-1]), [field.alias or key for key, field in around.model_fields.items()])}"


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that a location inside `model` belongs to, as far as annotations say."""
    current: Any = model
    for part in path:
        if _is_model(current) and part in current.model_fields:
            current = current.model_fields[part].annotation
        elif isinstance(part, int) and len(_models_in(current)) > 1:
            continue  # an item of a tagged union: the next part is its tag
        else:
            current = _variant(current, part)
    current = current if _is_model(current) else _variant(current, None)
    return current if _is_model(current) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models inside `dict[str, M]`, `list[M]`, `M | None`, a tagged union, or any nesting of them."""
    if _is_model(annotation):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _variant(annotation: Any, tag: Any) -> Any:
    """The model that `annotation` stands for; of several, the one whose `kind` is `tag`."""
    inner = _models_in(annotation)
    for candidate in inner:
        kind = candidate.model_fields.get("kind")
        if kind is not None and tag in get_args(kind.annotation):
            return candidate
    return inner[0] if inner else annotation


def _place_of(problem: Mapping[str, Any]) -> str:
    """The field of one of pydantic's `errors()`; of a key, that which has it."""
    return ".".join(str(part) for part in problem["loc"] if part != _KEY)


def _explain(problem: Mapping[str, Any]) -> str:
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
