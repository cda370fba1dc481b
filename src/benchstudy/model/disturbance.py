"""What a study does about other users of its hosts: how much they may take, and what follows if they take more."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from benchstudy.model import interference
from benchstudy.model.criteria import DISTURBED
from benchstudy.model.interference import Disturbance
from benchstudy.model.stopping import required_share
from benchstudy.model.strict import Strict
from benchstudy.model.units import ProperShare, parse_percent


def _limit(value: Any) -> float:
    if 1.0 in (parse_percent(value), value) and value is not True:
        return 1.0
    return required_share(value, 'not a limit: write the share of a host that others may use, up to "100 %"')


LimitField = Annotated[float, BeforeValidator(_limit, json_schema_input_type=ProperShare | Literal["100%", "100 %", 1])]


class DisturbancePolicy(Strict):
    """A rule declared before the measurement and hashed with the study. It depends on the host, never on the values."""

    limit: LimitField = Field(
        DISTURBED,
        description="share of a host that other work may take: of its processors, including steal, or of its disks' "
        "time; `100 %` accepts everything",
    )
    then: Literal["mark", "repeat"] = Field(
        "mark",
        description="`mark` a disturbed trial wherever its figures appear, or `repeat` it: the trial stays, marked, "
        "and its case is measured again in that block; figures are then those of undisturbed trials",
    )
    at_most: int = Field(3, ge=1, le=20, description="with `repeat`: the most repetitions of a case in a block")

    def repeats(self, results: int) -> bool:
        """Whether a case is measured again in a block in which all of this many results were disturbed."""
        return self.then == "repeat" and results <= self.at_most

    def disturbed(self, kept: Mapping[str, Any] | None) -> Disturbance | None:
        """What exceeded the limit during a trial; None if nothing did, or nothing is known."""
        found = interference.worst(kept)
        return found if found is not None and found.share > self.limit else None
