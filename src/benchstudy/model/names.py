"""Names that become folders, table cells and case ids: one rule for all of them, so that no name can become code."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, WithJsonSchema

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
# Valid names for user-defined factors, except the columns that every family's tables have.
FACTOR = re.compile(r"[a-z][a-z0-9_]{0,31}")
COLUMNS = ("study", "target", "family", "case", "block", "trial", "metric", "value", "unit", "status")
# The first columns of each table of a family's own, and the tables that every family has.
TRIAL_COLUMNS = ("target", "case", "block", "trial")
TABLES = ("trials", "observations", "hosts", "cases", "metrics")


def check_name(value: str) -> str:
    """`value`, if it is a letter or digit followed by up to 63 letters, digits and . _ + -"""
    if not _NAME.fullmatch(value) or ".." in value:
        raise ValueError(
            f"{value!r} cannot be a name: use letters from A to Z, digits and . _ + - (at most 64, a letter or digit "
            "first)"
        )
    return value


def as_name(text: str) -> str:
    """`text` as a name; invalid characters become a dash."""
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._+-]+", "-", text)).strip("._+-")[:64]
    return name or "unnamed"


def most_like(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one may mean; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: 'did you mean "x"?', or the list of known names."""
    known = sorted(map(str, known))  # YAML has names that are numbers
    if like := most_like(name, known):
        return f'did you mean "{like}"?'
    return f"known: {', '.join(known)}" if known else "none is known"


def require_known(name: str, known: Iterable[str], said: str) -> None:
    """Raises ValueError with the text `said` and a hint, unless `name` is one of the `known`."""
    known = list(known)
    if name not in known:
        raise ValueError(f"{said}: {nearest(name, known)}")


def require_each_once(**names: Iterable[str]) -> None:
    """Raises ValueError for a name that occurs twice in one of these fields."""
    for field, given in names.items():
        twice = next((name for name, count in Counter(given).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{field}: the name {twice!r} is given twice: keep one, or rename one")


@dataclass(frozen=True)
class Listed:
    """An annotation of a type: what JSON Schema says about its values, which other code checks."""

    values: Callable[[], Iterable[str]]

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core_schema), "enum": list(self.values())}


Name = Annotated[
    str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": rf"^(?!.*\.\.){_NAME.pattern}$"})
]

Item = TypeVar("Item")


def check_each_once(values: list[Item]) -> list[Item]:
    """`values`, if none of them is given twice. Raises ValueError."""
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value!r} is given twice: remove one")
    return values


EachOnce = Annotated[list[Item], AfterValidator(check_each_once), Field(json_schema_extra={"uniqueItems": True})]
