"""Targets whose blocks follow one another so closely that they saw a single episode of their host."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from benchstudy.model.criteria import EPISODE_S
from benchstudy.report import human
from benchstudy.report.results.results import Results


@dataclass(frozen=True)
class Episode:
    """The `blocks` of one target; the last one began `span_s` seconds after the first."""

    target: str
    blocks: int
    span_s: float

    @property
    def words(self) -> str:
        """For the reader: "All 6 blocks began within 1 min 50 s, so they saw one state of the host"."""
        every = "Both" if self.blocks == 2 else f"All {self.blocks}"
        return f"{every} blocks began within {human.duration(self.span_s)}, so they saw one state of the host"


def find(results: Results) -> list[Episode]:
    """The targets on which all measured blocks are within one episode."""
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


def summary(results: Results) -> str:
    """One sentence for the reader over all targets; empty if there is none."""
    found = find(results)
    if len(results.targets) < 2 or not found:
        return "".join(f"{episode.words}." for episode in found)
    longest = human.duration(max(episode.span_s for episode in found))
    where = f"{len(found):,} of {len(results.targets):,} targets"
    return f"On {where}, all blocks began within {longest}, so they saw one state of the host."


def weaknesses(results: Results) -> Iterator[str]:
    """Yield sentences for the list of what is weak."""
    found = find(results)
    if found and results.has_many_targets:
        longest = max(found, key=lambda episode: episode.span_s)
        yield (
            f"On {len(found):,} of {len(results.targets):,} targets, all blocks saw one state of the host. The "
            f"longest time is on {longest.target}: {longest.blocks} blocks began within "
            f"{human.duration(longest.span_s)}. Intervals and verdicts of such a target apply to that state only. Set "
            "`blocks_apart` in the study to spread blocks."
        )
        return
    for episode in found:
        where = f"{episode.target}: " if len(results.targets) > 1 else ""
        yield (
            f"{where}{episode.words}. Intervals and verdicts apply to this state only and do not cover variation "
            "between hours or days. Set `blocks_apart` in the study to spread blocks."
        )
