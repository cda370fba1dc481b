"""A study's JSON Schema, made from the models that read it: editors use it to check, complete and explain.

It describes what people write: systems instead of services, lists as levels in their `with:`, units as texts. The
reader refuses everything that it refuses, but for a Boolean in quotes in `measure` and `beside`. It cannot check what
depends on the whole study, such as an undefined name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as core

from benchstudy.model import registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.catalogue.instances import OF_A_SYSTEM
from benchstudy.model.catalogue.parameter import SYSTEM, Parameter
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Family, FamilyConfig
from benchstudy.model.strict import Strict
from benchstudy.model.study import Study
from benchstudy.model.units import DURATION_PATTERN, PROPER_PERCENT_PATTERN, SIZE_PATTERN

_NO_DEFAULT = object()
# Names of definitions that belong to no model.
_ALONE, _LEVELS, _SERVICE, _VALUE = "system", "system.with-levels", "system.as-service", "system.as-value"
_TEXT = {"type": ["string", "integer"]}  # 15 means the same as "15"; 9.10 would be another number
_OF_KIND: Mapping[str, Mapping[str, Any]] = {
    "text": _TEXT,
    "words": _TEXT,
    "integer": {"type": "integer"},
    "flag": {"type": "boolean"},
    "size": {"type": "string", "pattern": SIZE_PATTERN},
    "duration": {"type": "string", "pattern": DURATION_PATTERN},
    SYSTEM: {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{_VALUE}"}]},
}


def study_schema(catalogue: Catalogue) -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of a study: with all installed families, and the systems of `catalogue`."""
    systems = {found.name: found.system for found in catalogue.sound()}
    families = {family.name: family for family in registry.sound() if _has_schema(family)}
    blocks: dict[str, Any] = {
        name: (family.Config | None, Field(None, description=family.title)) for name, family in families.items()
    }
    families_model: Any = create_model("Families", __base__=Strict, **blocks)
    study_model: Any = create_model("Study", __base__=Study, families=(families_model, ...))
    made: dict[str, Any] = study_model.model_json_schema(schema_generator=_AsWritten)
    definitions = made["$defs"]
    of_families = definitions["Families"]
    of_families["minProperties"] = 1
    for name, family in families.items():
        reference = of_families["properties"][name]["anyOf"][0]["$ref"]
        _take_systems(definitions[_name(reference)], family.Config, definitions)
    service = definitions["Service"]["properties"]
    names = {"description": "a system of the catalogue", "examples": [*systems], "type": "string"}
    own = {"system": names, "with": {"description": "its parameters"}}
    definitions |= {
        _ALONE: _by_system(systems, own, "with"),
        _LEVELS: _by_system(systems, own, "levels"),
        _VALUE: _closed({key: {} for key in own}, _ALONE),
        _SERVICE: _closed({key: service.get(key, {}) for key in OF_A_SYSTEM}, _ALONE),
        **{f"with.{name}": _parameters(system.parameters) for name, system in systems.items()},
        **{f"levels.{name}": _levels(name, system.parameters) for name, system in systems.items()},
    }
    return {"$schema": GenerateJsonSchema.schema_dialect, **made, "title": "A study of benchstudy"}


def _has_schema(family: Family) -> bool:
    """Whether its Config can be described. Else editors learn nothing of the family, and a warning says why."""
    try:
        with registry.blamed(family.name, "the JSON Schema of its Config"):
            family.Config.model_json_schema(schema_generator=_AsWritten)
    except StudyError as error:
        registry.warn_once(f"the family {family.name} is left out: {error}")
        return False
    return True


class _AsWritten(GenerateJsonSchema):
    """Defaults in the form that people write, without what only pydantic reads."""

    def default_schema(self, schema: core.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if "default" in made:
            written = _written(self.get_default_value(schema), made)
            del made["default"]
            if written is not _NO_DEFAULT:
                made["default"] = written
        return made

    def encode_default(self, dft: Any) -> Any:
        return super().encode_default(str(dft) if isinstance(dft, str) else dft)  # a size has more than its text

    def dict_schema(self, schema: core.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        # Otherwise a key that does not match could have any value.
        return {**made, "additionalProperties": False} if "patternProperties" in made else made

    def tagged_union_schema(self, schema: core.TaggedUnionSchema) -> JsonSchemaValue:
        made = super().tagged_union_schema(schema)
        made.pop("discriminator", None)  # part of OpenAPI
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # it only repeats the key


def _written(value: Any, schema: Mapping[str, Any]) -> Any:
    """A default as written in a study; _NO_DEFAULT if nothing is written, or if its parts have defaults."""
    patterns = {part.get("pattern") for part in (schema, *schema.get("anyOf", ()))}
    if isinstance(value, float) and DURATION_PATTERN in patterns:
        return f"{value:g}s"
    if isinstance(value, float) and PROPER_PERCENT_PATTERN in patterns:
        return f"{100 * value:g}%"
    if value is None or isinstance(value, BaseModel) or (value == [] and schema.get("minItems")):
        return _NO_DEFAULT
    if isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
        return _NO_DEFAULT
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, list) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    return str(value) if isinstance(value, str) else value


def _take_systems(block: dict[str, Any], config: type[FamilyConfig], definitions: dict[str, Any]) -> None:
    """Changes a family's `block`: what may replace services and entries, and which lists are required."""
    if config.needed:
        block["if"] = {"not": {"propertyNames": {"enum": ["targets"]}}}
        block["then"] = {"required": [*config.needed]}
    properties = block["properties"]
    ((pattern, described),) = properties["services"]["patternProperties"].items()
    properties["services"]["patternProperties"] = {pattern: _or_system(described, {"$ref": f"#/$defs/{_SERVICE}"})}
    for key in config.takes_systems:
        entries = properties[key]
        if "items" in entries:
            properties[key] = {**entries, "uniqueItems": True, "items": _entry(entries["items"], _LEVELS, definitions)}
        else:
            described, *rest = entries["anyOf"]
            properties[key] = {**entries, "anyOf": [_entry(described, _ALONE, definitions), *rest]}


def _entry(described: Mapping[str, Any], said: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """An entry that is complete in itself, or that names a system and says what differs."""
    short = []
    for name in map(_name, _references(described)):
        whole = definitions[name]
        keys = {**whole["properties"], "with": {}}
        keys.setdefault("system", {})
        definitions[f"{name}.of-a-system"] = _closed(keys, said, whole.get("description", ""))
        short.append({"$ref": f"#/$defs/{name}.of-a-system"})
    return _or_system(described, short[0] if len(short) == 1 else {"anyOf": short})


def _or_system(described: Mapping[str, Any], short: Mapping[str, Any]) -> dict[str, Any]:
    named = {"type": "object", "required": ["system"]}
    return {"if": named, "then": dict(short), "else": dict(described)}


def _closed(properties: Mapping[str, Any], said: str, description: str = "") -> dict[str, Any]:
    """An object that names a system under the key `said`, and has these keys and no others."""
    about = {"description": description} if description else {}
    whole = {"properties": dict(properties), "required": ["system"], "additionalProperties": False}
    return {"type": "object", **about, **whole, "allOf": [{"$ref": f"#/$defs/{said}"}]}


def _by_system(systems: Iterable[str], own: Mapping[str, Any], said: str) -> dict[str, Any]:
    """The system decides what `with:` holds. An unknown name may be a service of the study."""
    of_each = [
        {
            "if": {"properties": {"system": {"const": name}}},
            "then": {"properties": {"with": {"$ref": f"#/$defs/{said}.{name}"}}},
        }
        for name in systems
    ]
    return {"type": "object", "properties": dict(own), "allOf": of_each}


def _parameters(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    return _with({name: _parameter(parameter) for name, parameter in parameters.items()}, parameters)


def _levels(system: str, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The same, with lists that make levels."""
    made = {}
    for name, parameter in parameters.items():
        one = {"$ref": f"#/$defs/with.{system}/properties/{name}"}
        several = {"type": "array", "minItems": 1, "uniqueItems": True, "items": one}
        made[name] = {"description": parameter.description, "anyOf": [one, several]}
    return _with(made, parameters)


def _with(made: dict[str, Any], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    required = [name for name, parameter in parameters.items() if parameter.required]
    needed = {"required": required} if required else {}
    return {"type": ["object", "null"], "properties": made, "additionalProperties": False, **needed}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    kind = _OF_KIND.get(parameter.type)
    if kind is None:  # a choice, which may look like a number
        numbers = [int(choice) for choice in parameter.choices if choice.isdecimal() and str(int(choice)) == choice]
        kind = {"enum": [*parameter.choices, *numbers]}
    plain = parameter.default if isinstance(parameter.default, bool | int | str) else None
    default = {} if plain is None else {"default": plain}
    return {"description": parameter.description, **kind, **default}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield from [value] if key == "$ref" else _references(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _name(reference: str) -> str:
    """The name of the definition that a reference points to."""
    return reference.removeprefix("#/$defs/")
