"""Reads that are called cold or direct and that storage gave nothing for: another cache had the file."""

from functools import lru_cache
from statistics import median

import polars as pl

from benchstudy.model import registry
from benchstudy.model.criteria import PAGE_OF_MEMORY
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.drift import Key

NOT_FROM_STORAGE = "not from storage"


def mark(results: Results, key: Key) -> tuple[str, ...]:
    """The mark for figures of a case whose reads should have come from storage and did not; else empty."""
    return (NOT_FROM_STORAGE,) if key in _elsewhere(results) else ()


@lru_cache(maxsize=8)
def _elsewhere(results: Results) -> frozenset[Key]:
    factor = registry.get(results.family).cache_factor if results.family in registry.names() else None
    if factor not in results.factors:
        return frozenset()
    claims = results.cases.filter(pl.col(factor).is_in(["cold", "direct"])).select("target", "case")
    given = [results.by_case(metric) for metric in results.telling("storage")]
    return frozenset(
        key
        for key in claims.iter_rows()
        for trials in given
        if (read := [value for _, value, unit in trials.get(key, ()) if unit == "B"]) and median(read) < PAGE_OF_MEMORY
    )
