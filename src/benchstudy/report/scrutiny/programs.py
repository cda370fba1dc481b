"""Programs, and files that their arguments name, that changed between the trials of a case."""

import json
from collections.abc import Iterator

import polars as pl

from benchstudy.report import human
from benchstudy.report.results.results import Results

_NAMED = "named_files"  # in what was verified: lines of a SHA-256 and a path


def named_files(trials: pl.DataFrame) -> Iterator[tuple[str, str, str, str]]:
    """Yield target, case, path and SHA-256 of each file that the arguments of a trial's command named."""
    for target, case, verified in trials.select("target", "case", "verified").drop_nulls("verified").iter_rows():
        if _NAMED in verified:
            for line in json.loads(verified).get(_NAMED, ()):
                sha256, _, path = line.partition("  ")
                yield target, case, path, sha256


def weaknesses(results: Results) -> Iterator[str]:
    """Yield a sentence for each program or named file that was not the same in all trials of a case."""
    counted = results.counted.filter(pl.col("status") == "ok")
    tools = counted.select("target", "case", "tool", "tool_sha256").drop_nulls().iter_rows()
    contents: dict[str, dict[tuple[str, str], set[str]]] = {}
    for target, case, name, sha256 in (*tools, *named_files(counted)):
        contents.setdefault(name, {}).setdefault((target, case), set()).add(sha256)
    for name, by_case in contents.items():
        cases = sum(len(found) > 1 for found in by_case.values())
        if cases:
            yield (
                f"{name} changed between the trials of {human.plural(cases, 'case')}, by its SHA-256. Their figures "
                "mix several versions: discard the trials of all versions but one, or make the version a factor."
            )
