"""How many blocks a study asks for, and when an adaptive session checks whether it has enough: arithmetic, no data.

docs/design.md has the rule and docs/statistics.md what it costs in coverage; `looks.py` applies it to trials.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from benchstudy.model.criteria import LEVEL
from benchstudy.model.units import ProperShare, parse_percent
from benchstudy.model.wording import explained

_MISSED = 1 - Fraction(str(LEVEL))  # the share of intervals that miss the median, at most
_MOST_BLOCKS = 10_000
# Simulated with normal trials (benchmarks/adaptive_stopping.py): with a look at each block a 95 % interval covers
# 92.3 % at worst, with looks 1.3 times apart 92.6 %, with these 93.6 %.
_GROWTH = 1.5


@cache
def _left_out(n: int) -> int:
    """How many of n sorted values lie outside the median's interval at each end, plus one; 0: no interval."""
    below, ways, most = 0, 1, _MISSED * 2**n / 2  # exact: no float can hold these
    for k in range(n):
        below += ways
        if below > most:
            return k
        ways = ways * (n - k) // (k + 1)
    return 0


# With fewer values the median has no interval at all.
FEWEST = next(n for n in count(1) if _left_out(n))


def share_of_percent(value: Any) -> float | None:
    """0.05 of "5 %" or of 0.05 itself; None if it is not a share between 0 and 1, both excluded."""
    written = parse_percent(value)
    share = value if written is None else written
    return share if isinstance(share, float) and 0 < share < 1 else None


def required_share(value: Any, otherwise: str) -> float:
    """The same, but raises ValueError with `otherwise`, which says what `value` is not and what to write."""
    share = share_of_percent(value)
    if share is None:
        raise ValueError(f"{value!r} is {otherwise}")
    return share


def _precision(value: Any) -> float:
    return required_share(value, 'not a precision: write a share above 0 and below 100 %, such as "5 %"')


PrecisionField = Annotated[float, BeforeValidator(_precision, json_schema_input_type=ProperShare)]


class BlockRange(BaseModel):
    """A number of blocks that is decided during measurement: the fewest that give the precision `until`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    min: int = Field(FEWEST, ge=FEWEST, le=_MOST_BLOCKS, description="blocks before the first look at the precision")
    max: int = Field(ge=FEWEST, le=_MOST_BLOCKS, description="blocks after which the session ends in any case")

    @model_validator(mode="after")
    def _room(self) -> "BlockRange":
        if self.max <= self.min:
            raise ValueError(f"max ({self.max}) must be above min ({self.min}); a fixed number is `blocks: {self.min}`")
        return self


def _blocks(value: Any) -> Any:
    if isinstance(value, BlockRange):
        return value
    if isinstance(value, Mapping):
        try:
            # Snakemake reads the numbers of `--config "blocks={min: 6, max: 30}"` as texts.
            texts = {key: int(n) for key, n in value.items() if isinstance(n, str) and n.isdecimal()}
            return BlockRange.model_validate({**value, **texts})
        except ValidationError as error:
            raise ValueError("; ".join(explained(error, BlockRange))) from None
    if type(value) is not int or not 1 <= value <= _MOST_BLOCKS:
        given = "nothing is given" if value is None else repr(value)
        raise ValueError(
            f"{given}: write a number of blocks from 1 to {_MOST_BLOCKS:,}, or {{min: 6, max: 30}} with `until: 5 %`"
        )
    return value


BlocksField = Annotated[
    int | BlockRange,
    BeforeValidator(_blocks, json_schema_input_type=Annotated[int, Field(ge=1, le=_MOST_BLOCKS)] | BlockRange),
]


@dataclass(frozen=True)
class Stopping:
    """A declared rule: from `fewest` blocks until every case is known to `until` (0.05 is 5 %), at most `most`."""

    fewest: int
    most: int
    until: float

    def look_from(self, begun: int) -> int:
        """The first number of blocks at which to check, once `begun` blocks have begun."""
        blocks = self.fewest
        while blocks < min(begun, self.most):
            blocks = self.look_after(blocks)
        return blocks

    def look_after(self, blocks: int) -> int:
        """The next number of blocks at which to check: half as many again, at most `most`.

        Every check that can end a session is one more chance to end it at a lucky moment, so there are few. They come
        only where one more value lets the interval exclude one more at either end; between these it hardly narrows.
        """
        more = math.ceil(_GROWTH * blocks)
        while more < self.most and _left_out(more) == _left_out(more - 1):
            more += 1
        return min(more, self.most)

    @property
    def words(self) -> str:
        """The rule for a reader: `until ±5 %, 6 to 30 blocks`."""
        return f"until ±{100 * self.until:g} %, {self.fewest} to {self.most} blocks"
