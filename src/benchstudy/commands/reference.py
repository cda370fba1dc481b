"""Writes tables of config/README.md and docs/ from the models, so that the two cannot disagree.

`python -m benchstudy.commands.reference config/README.md docs/statistics.md docs/families/*.md` puts them between each
file's markers.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, product
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from benchstudy.commands.systems import kind
from benchstudy.model import interference, registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.disturbance import LimitField
from benchstudy.model.family import FamilyConfig
from benchstudy.model.metrics import Metric
from benchstudy.model.names import Name
from benchstudy.model.stopping import PrecisionField
from benchstudy.model.study import MarginField, Study
from benchstudy.model.units import CountOrDurationField, DurationField, DurationText, PercentText, Size

# The text between the markers is made here: tables of a study, systems of the catalogue, or metrics of a family.
_PLACE = re.compile(
    r"(<!-- (?P<what>tables|systems|metrics of (?P<family>\w+)): begin -->\n).*?(<!-- (?P=what): end -->)", re.DOTALL
)
_PLAIN = {
    datetime: "time",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Size: "size",
    Any: "anything",
}
_PLURAL = {
    "name": "names",
    "size": "sizes",
    "text": "texts",
    "whole number": "whole numbers",
    "list of texts": "lists of texts",
}
# Annotations that differ from plain text and numbers only by their validator.
_MARKED = {
    id(get_args(DurationField)[1]): "duration",
    id(get_args(CountOrDurationField)[1]): "whole number or duration",
    id(get_args(MarginField)[1]): "share",
    id(get_args(PrecisionField)[1]): "share",
    id(get_args(LimitField)[1]): "share",
    id(get_args(PercentText)[1]): "share",
    id(get_args(DurationText)[1]): "duration",
    id(get_args(Name)[1]): "name",
}


def tables() -> str:
    """Markdown: one table for each block of a study, with every key."""
    sections: list[tuple[str, type[BaseModel], tuple[str, ...]]] = [
        ("The study", Study, ()),
        ("Every family", FamilyConfig, ()),
    ]
    known = tuple(FamilyConfig.model_fields)
    families = [(name, registry.get(name).Config) for name in registry.names()]
    sections += [(f"The family `{name}`", config, known) for name, config in families]
    headings = _headings([("", Study), ("", FamilyConfig), *families])
    parts: list[str] = []
    seen: set[type[BaseModel]] = set()
    for title, model, said in sections:
        parts.append(f"## {title}\n\n{_table(model, headings, said)}")
        for inner in _models_inside(model, said):
            if inner not in seen and not issubclass(inner, FamilyConfig):
                seen.add(inner)
                parts.append(f"### {headings[inner]}\n\n{_summary(inner)}{_table(inner, headings)}")
    return "\n\n".join(parts) + "\n"


def _headings(blocks: Iterable[tuple[str, type[BaseModel]]]) -> dict[type[BaseModel], str]:
    """The heading of each model below these blocks of families: its name, and its family if two have the same name."""
    family_of: dict[type[BaseModel], str] = {}
    for family, block in blocks:
        for model in _models_inside(block):
            family_of.setdefault(model, family)
    names = Counter(model.__name__ for model in family_of)
    return {
        model: f"{model.__name__} of {family}" if names[model.__name__] > 1 else model.__name__
        for model, family in family_of.items()
    }


def written_into(text: str) -> str:
    """`text` with the tables between its markers. Raises ValueError if it has no markers."""

    def place(found: re.Match[str]) -> str:
        made = metrics(found["family"]) if found["family"] else {"tables": tables, "systems": systems}[found["what"]]()
        return f"{found[1]}\n{made}\n{found[4]}"

    written, places = _PLACE.subn(place, text)
    if not places:
        raise ValueError("the file needs the two lines <!-- tables: begin --> and <!-- tables: end -->")
    return written


def systems() -> str:
    """Markdown: one row per system of the catalogue that ships."""
    rows = ["| `system` | what it is | `with` | for |", "|---|---|---|---|"]
    for name, found in Catalogue().items():
        system = found.system
        values = (f"`{p}` ({kind(parameter)})" for p, parameter in system.parameters.items())
        offered = (f"`{family}.{key}`" for family, lists in system.offers.items() for key in lists)
        about = f"{system.about} {system.license}; {system.tried}"
        rows.append(f"| [`{name}`](../envs/{name}/README.md) | {about} | {', '.join(values)} | {', '.join(offered)} |")
    return "\n".join(rows) + "\n"


def metrics(family: str) -> str:
    """Markdown: a table of a family's metrics, or of every family's `hosts`. Metrics with one meaning share a row."""
    rows = ["| metric | unit | better | meaning |", "|---|---|---|---|"]
    declared = (interference.METRICS if family == "hosts" else registry.get(family).metrics).values()
    for (is_primary, unit, better, meaning), alike in groupby(declared, _in_a_row):
        names = _together([metric.name for metric in alike])
        rows.append(f"| {f'**{names}**' if is_primary else names} | {unit} | {better or ''} | {meaning} |")
    said = "Cases are measured for the primary metrics, which are in bold.\n\n" if family != "hosts" else ""
    return said + "\n".join(rows) + "\n"


def _in_a_row(metric: Metric) -> tuple[bool, str, str, str]:
    return metric.primary, metric.unit, metric.better or "", metric.meaning


def _together(names: Sequence[str]) -> str:
    """`connect_{mean,max}` for names that are every combination of their parts, else all of them."""
    parts = [name.split("_") for name in names]
    if len(names) > 1 and len({len(of) for of in parts}) == 1:
        choices = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        if math.prod(map(len, choices)) == len(names) and set(map("_".join, product(*choices))) == set(names):
            return "`" + "_".join(c[0] if len(c) == 1 else f"{{{','.join(c)}}}" for c in choices) + "`"
    return ", ".join(f"`{name}`" for name in names)


def _table(model: type[BaseModel], headings: Mapping[type[BaseModel], str], known: tuple[str, ...] = ()) -> str:
    rows = [
        f"| `{key}` | {_type(field.annotation, headings, field.metadata)} | {_default(field)} | {_meaning(field)} |"
        for name, field in model.model_fields.items()
        if (key := field.alias or name) not in known
    ]
    return "\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *rows])


def _meaning(field: FieldInfo) -> str:
    return (field.description or "").replace("|", r"\|").replace("<", r"\<")


def _summary(model: type[BaseModel]) -> str:
    text = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    return f"{text}\n\n" if text else ""


def _models_inside(model: type[BaseModel], known: tuple[str, ...] = ()) -> Iterator[type[BaseModel]]:
    """Depth first, each with what is inside it."""
    for name, field in model.model_fields.items():
        if name not in known:
            for inner in _models_of(field.annotation):
                yield inner
                yield from _models_inside(inner)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_of(part)


def _type(annotation: Any, headings: Mapping[type[BaseModel], str], metadata: Any = ()) -> str:
    for mark in metadata:
        if id(mark) in _MARKED:
            return _MARKED[id(mark)]
        written = getattr(mark, "json_schema_input_type", PydanticUndefined)  # of a validator that reads another type
        if written is not PydanticUndefined and annotation is not datetime:
            return _type(written, headings)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(parts[0], headings, parts[1:])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(part, headings) for part in parts if part is not NoneType))
    if origin is list:
        inner = _type(parts[0], headings)
        return f"list of {_PLURAL.get(inner, f'({inner})' if ' or ' in inner else inner)}"
    if origin is dict:
        inner = _type(parts[1], headings)
        return f"{_type(parts[0], headings)}: {f'({inner})' if ': ' in inner else inner}"
    if annotation is FamilyConfig:
        return "[its section](#every-family)"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        heading = headings[annotation]
        return f"[{annotation.__name__}](#{heading.lower().replace(' ', '-')})"
    return _PLAIN[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value == [] and any(isinstance(mark, MinLen) for mark in field.metadata):
        return "**required**, unless the block is empty"
    if isinstance(value, BaseModel):
        return "its defaults"
    if value in (None, [], {}, ""):
        return ""
    kinds = {_MARKED.get(id(mark)) for mark in field.metadata}
    if isinstance(value, float) and "duration" in kinds:
        return f"`{value:g}s`"
    if isinstance(value, float) and "share" in kinds:
        return f"`{value * 100:g}%`"
    if isinstance(value, dict):
        return ", ".join(f"`{key}: {_short(item)}`" for key, item in value.items())
    if isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
        return "one with its defaults"
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _short(item: Any) -> str:
    """A model with a single key set is shown as that key's value."""
    said = list(item.model_dump(exclude_defaults=True).values()) if isinstance(item, BaseModel) else [item]
    return str(said[0]) if len(said) == 1 else str(item)


def main() -> int:
    """Write the tables of every file named on the command line. Returns the exit status."""
    for file in map(Path, sys.argv[1:]):
        file.write_text(written_into(file.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
