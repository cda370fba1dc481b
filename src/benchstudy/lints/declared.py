"""What a study says about lints: findings somebody takes responsibility for, and what the hardware can give at most."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from benchstudy import families, lints
from benchstudy.families.base import Strict
from benchstudy.names import nearest
from benchstudy.units import Size


def _rate(value: Any) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, str) or not value.strip().endswith("/s"):
        raise ValueError(f'{value!r} is not a rate of bytes: write "125MiB/s" or "1GB/s"')
    return float(Size(value.strip().removesuffix("/s")).bytes)


class Acknowledgement(Strict):
    """A finding that was looked at and stays. It may come after the measurement: it changes no figure and no hash."""

    lint: str = Field(description="name of the lint, as a report shows it")
    where: str = Field("*", description="pattern of the places it holds for, as a report shows them: `file_size: s3,*`")
    reason: str = Field(description="why it stays, in a sentence; printed in the report")

    @field_validator("reason")
    @classmethod
    def _a_sentence(cls, value: str) -> str:
        if len(value.split()) < 3:
            raise ValueError(f"{value!r} is no reason: write in a sentence why the finding stays; the report prints it")
        return value

    @field_validator("lint")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in lints.rules():
            raise ValueError(f"no lint is called {value!r}: {nearest(value, lints.rules())}")
        return value


class DeclaredCeiling(Strict):
    """What a device, link or volume can give at most. Figures above it did not come from there."""

    family: str
    op: Literal["read", "write"]
    rate: Annotated[float, BeforeValidator(_rate)] = Field(description='bytes a second, such as "125MiB/s"')
    source: str = Field(min_length=3, description="where that stands: a data sheet, a contract, a measurement")
    where: str = Field("*", description="pattern of cases it holds for, such as `backend=disk,*`")

    @field_validator("family")
    @classmethod
    def _family(cls, value: str) -> str:
        if value not in families.names():
            raise ValueError(f"no family is called {value!r}: {nearest(value, families.names())}")
        return value

    def ceiling(self) -> lints.Ceiling:
        from benchstudy.lints import words

        return lints.Ceiling(self.op, self.rate, f"{words.rate(self.rate)} ({self.source})", where=self.where)
