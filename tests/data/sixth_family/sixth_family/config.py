"""The keys of naps in a study."""

from typing import Literal

from pydantic import Field

from benchstudy.model.family import FamilyConfig
from benchstudy.model.units import DurationField


class NapConfig(FamilyConfig):
    """Naps of each length, taken in each way."""

    ways: list[Literal["sleep", "poll"]] = Field(["sleep", "poll"], description="how one waits")
    lengths: list[DurationField] = Field(min_length=1, description="how long each nap should last")
    naps: int = Field(5, ge=1, description="naps of a trial")
