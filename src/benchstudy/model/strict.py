"""The base of every model of a study."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Every part of a study refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
