"""The base of every model of a study, and texts of a certain form."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Spelled:
    """For `Annotated[str, …]`: a text that has this `pattern`. The message tells what is `wanted`, not the pattern."""

    pattern: str
    wanted: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(pattern=self.pattern)
        return core_schema.custom_error_schema(
            text,
            custom_error_type="spelled",
            custom_error_message="write {wanted}",
            custom_error_context={"wanted": self.wanted},
        )


class Strict(BaseModel):
    """Every part of a study refuses unknown keys, and what another kind of value would be read as: `yes` is not 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    # Fields of which a study gives exactly one.
    exactly_one: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _one_of_them(self) -> "Strict":
        given = [name for name in self.exactly_one if getattr(self, name) is not None]
        if self.exactly_one and len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(map(self.key_of, self.exactly_one))}")
        return self

    @classmethod
    def key_of(cls, field: str) -> str:
        """The key of a field in a study."""
        return cls.model_fields[field].alias or field

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        made = handler(core_schema)
        if cls.exactly_one:
            handler.resolve_ref_schema(made)["oneOf"] = [{"required": [cls.key_of(name)]} for name in cls.exactly_one]
        return made


class Extended(Strict):
    """A part of a study that got further fields: a dump leaves them out at their defaults, so that the hash of an older
    study stays the same.
    """

    added_later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _as_declared(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unsaid = {key for key in self.added_later if getattr(self, key) == fields[key].default}
        return {key: value for key, value in dump(self).items() if key not in unsaid}
