"""What a study says about lints: findings that somebody accepts, and the most that the hardware can deliver."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from benchstudy.model import questions, registry, rules
from benchstudy.model.names import Listed, require_known
from benchstudy.model.strict import Extended, Strict
from benchstudy.model.units import BYTE_RATE_PATTERN, WRITTEN, Size


def _rate(value: Any, told: ValidationInfo) -> float:
    if told.context != WRITTEN and isinstance(value, float):
        return value
    if not isinstance(value, str) or not value.strip().endswith("/s"):
        raise ValueError(f'{value!r} is not a rate of bytes: write "125MiB/s" or "1GB/s"')
    rate = float(Size(value.strip().removesuffix("/s")).bytes)
    if not rate:
        raise ValueError("give a rate above zero")
    return rate


def _one_of(known: Callable[[], Iterable[str]], otherwise: str) -> AfterValidator:
    def checked(value: str) -> str:
        require_known(value, known(), f"{otherwise} {value!r}")
        return value

    return AfterValidator(checked)


def _questions() -> Iterable[str]:
    return questions.TITLES


FamilyName = Annotated[str, _one_of(registry.names, "no family is called"), Listed(registry.names)]
_Lint = Annotated[str, _one_of(rules.names, "there is no lint"), Listed(rules.names)]
_Question = Annotated[str, _one_of(_questions, "the checklist has no question"), Listed(_questions)]
_RateText = Annotated[str, Field(pattern=BYTE_RATE_PATTERN, examples=["125MiB/s"])]


class Acknowledgement(Strict):
    """A finding, or a question of the checklist that the study does not satisfy, which somebody examined and accepts.

    It may be added after the measurement, because it changes no figure and no hash.
    """

    lint: _Lint | None = Field(None, description="name of the lint, as a report shows it")
    question: _Question | None = Field(None, description="or a question of the checklist, as the overview shows it")
    where: str = Field(
        "*", description="pattern of the places where a finding is accepted, as a report shows them: `file_size: s3,*`"
    )
    reason: str = Field(description="why the finding is accepted, in a sentence; printed in the report")

    @field_validator("reason")
    @classmethod
    def _a_sentence(cls, value: str) -> str:
        if len(value.split()) < 3:
            raise ValueError(f"{value!r} is not a reason: say in a sentence why the finding is accepted; it is printed")
        return value

    exactly_one: ClassVar[tuple[str, ...]] = ("lint", "question")

    @model_validator(mode="after")
    def _of_the_whole_study(self) -> "Acknowledgement":
        if self.question is not None and self.where != "*":
            raise ValueError("a question of the checklist is about the whole study: leave out `where`")
        return self


class MeasuredCeiling(Strict):
    """The most that a device delivers, as the study measures it with another tool: the highest value of any trial."""

    family: FamilyName
    metric: str = Field(description="a metric in bytes per second, such as `read_bandwidth` of fio")
    where: str = Field("*", description="pattern of the cases that measure it, such as `*job=sequential-read`")


class DeclaredCeiling(Extended):
    """The most that a device, link or volume can deliver. Higher figures cannot come from it."""

    family: FamilyName
    op: Literal["read", "write"]
    rate: Annotated[float, BeforeValidator(_rate, json_schema_input_type=_RateText)] | None = Field(
        None, description='bytes per second, such as "125MiB/s"'
    )
    measured: MeasuredCeiling | None = Field(
        None, description="instead of `rate`, if nobody has the data sheet: the cases that measure it"
    )
    source: str = Field(min_length=3, description="source of the rate: a data sheet, a contract, a measurement")
    where: str = Field("*", description="pattern of the cases that the ceiling is for, such as `backend=disk,*`")

    exactly_one: ClassVar[tuple[str, ...]] = ("rate", "measured")
    # Before ceilings could be measured, each had a rate.
    added_later: ClassVar[tuple[str, ...]] = ("rate", "measured")
