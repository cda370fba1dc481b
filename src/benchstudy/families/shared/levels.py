"""Configuration that several families share: server limits, offered rates and sweeps over names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from benchstudy.model.names import Name, require_known
from benchstudy.model.services import Limits, MemoryField
from benchstudy.model.strict import Strict

UNLIMITED = "none"  # the level of the factor `limits` without any limit
_LEAST, _MOST = 0.001, 1e12  # per second: k6 takes no lower rate, and no generator sends more
# Three decimals at most: generators offer exactly this rate.
_RATE = re.compile(r"\s*(\d+(?:\.\d{1,3})?)\s*/\s*(s|min)\s*")


class Limit(Strict):
    """Named limits of the resources that a server may use."""

    name: Name
    cpus: int | None = Field(None, ge=1, description="number of whole CPUs; the default is all")
    memory: MemoryField | None = Field(
        None, description="memory including page cache, without swap, at least 256KiB; the default is all"
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "Limit":
        if self.name == UNLIMITED or (self.cpus is None and self.memory is None):
            raise ValueError(
                f"limits {self.name!r}: give cpus or memory, and another name than {UNLIMITED!r}, which means no limits"
            )
        return self

    @property
    def limits(self) -> Limits:
        return Limits(cpus=self.cpus, memory=self.memory)


def limits_named(name: str, declared: Iterable[Limit]) -> Limits:
    """Return the declared limits of this name; those of `UNLIMITED`, which no study declares, limit nothing."""
    return next((limit.limits for limit in declared if limit.name == name), Limits())


class Rate(str):
    """A rate of requests as written in the study, such as "200/s". `per_s`: its value in 1/s. Raises ValueError."""

    per_s: float

    def __new__(cls, text: str) -> "Rate":
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        per_s = float(match[1]) / (60 if match[2] == "min" else 1) if match else 0.0
        if match is None or not _LEAST <= per_s < _MOST:
            how = 'write it as "200/s" or "30/min", with three decimals at most'
            raise ValueError(f"{text!r} is not a rate: {how}, and no less than {_LEAST:g}/s")
        self = super().__new__(cls, f"{match[1]}/{match[2]}")
        self.per_s = per_s
        return self

    @property
    def level(self) -> str:
        """The rate as the level of a case, which is part of a folder's name: 200-per-s."""
        return self.replace("/", "-per-")

    @classmethod
    def of_level(cls, level: str) -> "Rate":
        return cls(level.replace("-per-", "/"))


RATE_PATTERN = rf"^{_RATE.pattern}$"  # for JSON Schema


def no_number(value: object) -> object:
    """Raises ValueError for a rate without a unit, before it is refused as something that is no text."""
    return Rate(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


RateField = Annotated[
    str,
    BeforeValidator(no_number),
    AfterValidator(Rate),
    WithJsonSchema({"type": "string", "pattern": RATE_PATTERN, "examples": ["200/s"]}),
]


def misplaced_option(generator: Any, for_one_tool: Mapping[str, str]) -> str | None:
    """Name an option of the generator that belongs to another tool, or None. `for_one_tool`: option to tool."""
    for field, tool in for_one_tool.items():
        if generator.tool != tool and getattr(generator, field) != type(generator).model_fields[field].default:
            return f"{field} is for {tool} only"
    return None


def check_differ(sweeps: Sequence[Strict]) -> None:
    """Raise ValueError if two sweeps are the same: the second one adds no case."""
    for number, sweep in enumerate(sweeps):
        first = sweeps.index(sweep)
        if first < number:
            raise ValueError(f"sweeps[{number}]: it is the same as sweeps[{first}]: remove one, or change it")


def check_chosen(sweep: Strict, known: Mapping[str, Iterable[str]], where: str) -> None:
    """Raise ValueError if a field of the sweep has a name that is not among the names in `known` for this field."""
    for field, names in known.items():
        for name in getattr(sweep, field) or ():
            require_known(name, names, f"{where}.{field}: {name!r} is not declared")
