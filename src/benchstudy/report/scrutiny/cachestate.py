"""What storage gave for reads, and cold or direct reads that it gave nothing for: another cache had the file."""

from collections.abc import Iterator
from functools import lru_cache
from statistics import median

import polars as pl

from benchstudy.model import registry
from benchstudy.model.criteria import PAGE_OF_MEMORY
from benchstudy.model.grouping import grouped
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.drift import Key

NOT_FROM_STORAGE = "not from storage"


def mark(results: Results, key: Key) -> tuple[str, ...]:
    """The mark for figures of a case whose reads should have come from storage and did not; else empty."""
    return (NOT_FROM_STORAGE,) if key in _elsewhere(results) else ()


def bytes_of_storage(results: Results) -> dict[str, float]:
    """Map each trial to the bytes that storage gave per operation, for families that measure this."""
    return {trial: given for _, trial, given in _given(results)}


def _given(results: Results) -> Iterator[tuple[Key, str, float]]:
    for metric in results.telling("storage"):
        for key, trials in results.by_case(metric).items():
            yield from ((key, trial, value) for trial, value, unit in trials if unit == "B")


@lru_cache(maxsize=8)
def _elsewhere(results: Results) -> frozenset[Key]:
    factor = registry.get(results.family).cache_factor if results.family in registry.names() else None
    if factor not in results.factors:
        return frozenset()
    claims = set(results.cases.filter(pl.col(factor).is_in(["cold", "direct"])).select("target", "case").rows())
    read = grouped((key, given) for key, _, given in _given(results) if key in claims)
    return frozenset(key for key, given in read.items() if median(given) < PAGE_OF_MEMORY)
