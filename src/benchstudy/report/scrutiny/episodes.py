"""Blocks that follow one another so closely that they saw one episode of their host, and no other."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from benchstudy.model.criteria import EPISODE_S
from benchstudy.report import human
from benchstudy.report.results.results import Results


@dataclass(frozen=True)
class Episode:
    """`blocks` of one target, of which the last began `span_s` after the first."""

    target: str
    blocks: int
    span_s: float

    @property
    def words(self) -> str:
        """ "6 blocks within 1 min 50 s: one episode of the host"."""
        return f"{self.blocks} blocks begun within {human.duration(self.span_s)}: one episode of the host"


def find(results: Results) -> list[Episode]:
    """The targets on which all blocks that were measured lie within one episode."""
    if results.unit != "trial":
        return []
    measured = results.counted.filter(pl.col("session").is_not_null() & pl.col("started").is_not_null())
    begun = measured.group_by("target", "block", maintain_order=True).agg(pl.col("started").min())
    found = []
    for (target,), blocks in begun.group_by("target", maintain_order=True):
        moments = [datetime.fromisoformat(text) for text in blocks["started"]]
        span = (max(moments) - min(moments)).total_seconds()
        if len(moments) > 1 and span < EPISODE_S:
            found.append(Episode(str(target), len(moments), span))
    return found


def weaknesses(results: Results) -> Iterator[str]:
    found = find(results)
    if found and results.has_many_targets:
        longest = max(found, key=lambda episode: episode.span_s)
        yield (
            f"On {len(found):,} of {len(results.targets):,} targets all blocks are of one episode of the host, such as "
            f"{longest.words.removesuffix(': one episode of the host')} on {longest.target}. Intervals and verdicts of "
            "such a target are of this episode. `blocks_apart` in the study spreads blocks."
        )
        return
    for episode in found:
        where = f"{episode.target}: " if len(results.targets) > 1 else ""
        yield (
            f"{where}{episode.words}. Intervals and verdicts are of this episode; what another hour or day would do is "
            "not in them. `blocks_apart` in the study spreads blocks."
        )
