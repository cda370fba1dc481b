"""Programs, files that their arguments name, and hosts that changed between the trials of a case."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

import polars as pl

from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.many_targets import Indexes


def files(trials: pl.DataFrame) -> dict[str, str]:
    """The path of each program and file by its SHA-256."""
    texts = trials["programs"].drop_nulls().unique(maintain_order=True)
    return {sha256: path for text in texts for _, path, sha256 in json.loads(text)}


def weaknesses(results: Results) -> Iterator[str]:
    """Yield a sentence for each program or file that was not the same in all trials of a case."""
    counted = results.of_trials.counted.filter(pl.col("status") == "ok")
    versions: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for target, case, text in counted.select("target", "case", "programs").drop_nulls().unique().iter_rows():
        for role, path, sha256 in json.loads(text):
            versions[path, target, case, role].add(sha256)
    changed: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for (path, target, case, _), found in sorted(versions.items()):
        if len(found) > 1:
            changed[path].add((target, case))
    for path, cases in changed.items():
        yield (
            f"{path} changed between the trials of {human.plural(len(cases), 'case')}, by its SHA-256. Their figures "
            "mix several versions: discard the trials of all versions but one, or make the version a factor."
        )
    # Of an imported trial, only the tool's version is known.
    told = counted.filter(pl.col("programs").fill_null("[]") == "[]").drop_nulls(["tool", "tool_version"])
    of_case = told.group_by("target", "case", "tool", maintain_order=True).agg(pl.col("tool_version").unique().sort())
    mixed = Counter((tool, " and ".join(own)) for _, _, tool, own in of_case.iter_rows() if len(own) > 1)
    for (tool, own), cases_of in mixed.items():
        yield (
            f"{human.plural(cases_of, 'case')} {'has' if cases_of == 1 else 'have'} trials of different versions of "
            f"{tool}, {own}. Their figures mix these versions: discard the trials of all but one, or import them "
            "again with a `--level` that tells them apart."
        )


def changes_of_hosts(results: Results, indexes: Indexes) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (host, fact, texts) for each fact, such as the kernel, that differs between sessions that count."""
    counted = set(results.of_trials.counted["session"].drop_nulls())
    held = (session for index in indexes for session in index["sessions"] if session["uuid"] in counted)
    seen = sessions.host_texts(environment for session in held for environment in session["hosts"].items())
    for host, facts in seen.items():
        yield from ((host, fact, tuple(texts)) for fact, texts in facts.items() if len(texts) > 1)


def changed_hosts(results: Results, indexes: Indexes) -> Iterator[str]:
    """Yield a sentence for each change of a host between sessions."""
    for host, fact, texts in changes_of_hosts(results, indexes):
        yield (
            f"{fact} of {host} changed between sessions: {' -> '.join(texts)}. Medians and their intervals "
            "mix trials from before and after the change; ratios take both cases from one session."
        )
