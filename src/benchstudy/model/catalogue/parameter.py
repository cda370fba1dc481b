"""The parameters of a system that a study may set: each with its type, and what is not a valid value."""

import shlex
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from benchstudy.model.names import FACTOR, as_name, nearest
from benchstudy.model.strict import Strict
from benchstudy.model.units import Size, parse_duration

Kind = Literal["text", "words", "integer", "size", "duration", "flag", "choice", "system"]
SYSTEM: Kind = "system"


class Words(tuple[str, ...]):
    """Arguments. As an item of a list they become separate items; within a longer text they are quoted."""


class Parameter(Strict):
    """A parameter of a system. `{{with.NAME}}` stands for its value, `{{with.NAME.FACT}}` for a fact of the choice."""

    type: Kind
    description: str = Field(min_length=1)
    default: Any = Field(None, description="if left out, the study must give a value")
    choices: dict[str, dict[str, str]] = Field(
        {}, description="for `type: choice`: each choice with its facts; `{}` for none"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Parameter":
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("`type: choice` needs choices, and no other type takes them")
        if len({frozenset(facts) for facts in self.choices.values()}) > 1:
            raise ValueError("choices: each must have the same facts")
        if not self.required:
            try:
                self.value(self.default)
            except ValueError as error:
                raise ValueError(f"default: {error}") from error
        return self

    @property
    def required(self) -> bool:
        """Whether a study must set it, because it has no default."""
        return "default" not in self.model_fields_set

    @property
    def facts(self) -> set[str]:
        """Names of the facts that each choice has."""
        return {fact for facts in self.choices.values() for fact in facts}

    def value(self, given: Any) -> Any:
        """`given` converted to its type; a `system` is resolved elsewhere. Raises ValueError."""
        if self.type == "choice":
            text = _text(given)
            if text not in self.choices:
                raise ValueError(f"{text!r} is not one of its choices: {nearest(text, self.choices)}")
            return text
        return _READ[self.type](given)


def _text(given: Any) -> str:
    # YAML reads 9.10 as the number 9.1, and `on` as true.
    if isinstance(given, bool | float) or not isinstance(given, str | int):
        raise ValueError(f"{given!r}: write a text, in quotes if YAML would take it for a number, a date or true")
    return str(given)


def _words(given: Any) -> Words:
    try:
        return Words(shlex.split(_text(given)))
    except ValueError as error:
        raise ValueError(f"{given!r}: write arguments as in a shell: {error}") from error


def _integer(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{given!r}: write a whole number")
    return given


def _flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"{given!r}: write true or false, without quotes")
    return given


def _size(given: Any) -> str:
    return str(Size(_text(given)))


def _duration(given: Any) -> str:
    parse_duration(given)
    return str(given)


def _system(given: Any) -> Any:
    if isinstance(given, str):
        return given
    whole = isinstance(given, Mapping) and "system" in given and set(given) <= {"system", "with"}
    if whole and isinstance(given.get("with") or {}, Mapping):
        return given
    raise ValueError(f"{given!r}: write the name of a system or service, or {{system: NAME, with: {{…}}}}")


_READ = {
    "text": _text,
    "words": _words,
    "integer": _integer,
    "size": _size,
    "duration": _duration,
    "flag": _flag,
    SYSTEM: _system,
}


def check_parameter_name(name: str) -> str:
    """`name`, if it can be a factor of a study, because every parameter may become one. Raises ValueError."""
    if not FACTOR.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a parameter: use lower-case letters, digits and _")
    return name


def as_text(value: Any) -> str:
    """The value as text for a program's argument or a file."""
    if isinstance(value, Words):
        return shlex.join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_level(value: Any) -> str:
    """The value as the name of a level, which is part of a folder's name."""
    return as_name(as_text(value))
