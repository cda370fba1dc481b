"""Disturbed trials: others took more of a host than the study allows. All figures of these trials are marked."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import polars as pl

from benchstudy.model import rounding
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.interference import Disturbance
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.drift import Key
from benchstudy.report.tables.tables import Cell, Table

_MOST_NAMED = 3
_SAME_CASE = 3  # figures of one case in a column: from then on, its heading says that the case was disturbed
_CAME_AND_WENT = 1.5  # times the mean of the window: above it, the text says when the peak was


def told(found: Disturbance) -> str:
    """What was noticed during a trial, for the reader."""
    share = rounding.percent(found.share)
    if found.what == "others_disk":
        return f"other programs used the disks of {found.host} for {share} of the time"
    if found.what == "steal":
        return f"the hypervisor took {share} of the processors of {found.host}"
    names = f" ({', '.join(found.busiest)})" if found.busiest else ""
    cpus = human.plural(found.cpus, "processor")
    said = f"other programs used {rounding.few(found.others_cpu)} of {cpus} of {found.host}{names}"
    if found.peak_cpu is None or found.peak_at is None or found.peak_cpu < _CAME_AND_WENT * found.others_cpu:
        return said
    return f"{said}, {rounding.few(found.peak_cpu)} from {sessions.moment(found.peak_at)} on"


@lru_cache(maxsize=8)
def cases(results: Results) -> dict[Key, tuple[int, int]]:
    """For each case with disturbed trials: (number of disturbed trials, number of trials)."""
    counted = results.counted.select("target", "case", "trial").rows()
    total = Counter((target, case) for target, case, _ in counted)
    found = Counter((target, case) for target, case, trial in counted if trial in results.disturbed)
    return {key: (count, total[key]) for key, count in found.items()}


def mark(results: Results, key: Key) -> tuple[str, ...]:
    """The mark for figures of a case, such as "disturbed 4 of 6"; empty if no trial was disturbed."""
    found = cases(results).get(key)
    return (f"disturbed {found[0]} of {found[1]}",) if found else ()


def mark_together(results: Results, keys: Collection[Key]) -> tuple[str, ...]:
    """The mark of a figure that rests on the trials of several cases, such as a fitted law."""
    rows = results.counted.select("target", "case", "trial").rows()
    own = {trial for target, case, trial in rows if (target, case) in keys}
    found = len(results.disturbed.keys() & own)
    return (f"disturbed {found} of {len(own)}",) if found else ()


def beside_mark(results: Results, key: Key, lines: Iterable[str]) -> tuple[str, ...]:
    """The lines of a cell with the mark of its case: they do not repeat its numbers, unless n is another one."""
    found, total = cases(results).get(key, (0, 0))
    return tuple(line.replace(f"n = {total}, {found} disturbed", f"n = {total}") for line in lines)


def marked(results: Results, table: Table) -> Table:
    """The table with a mark at each figure that links to a disturbed case or trial.

    If all figures of a column are of one case, the heading of the column has the mark, once.
    """
    if not results.disturbed:
        return table
    anchors = {anchor: mark(results, key) for key, anchor in results.anchors.items()}
    anchors |= {f"trial-{trial}": ("disturbed",) for trial in results.disturbed}
    keys = {anchor: key for key, anchor in results.anchors.items()}

    def anchor_of(cell: Cell) -> str:
        return (cell.href or "").rpartition("#")[2]

    def in_heading(column: Sequence[Cell]) -> tuple[str, ...]:
        found = [anchor for cell in column if (anchor := anchor_of(cell)) in keys]
        return anchors[found[0]] if len(found) >= _SAME_CASE and len(set(found)) == 1 else ()

    def of(cell: Cell, said: tuple[str, ...]) -> Cell:
        anchor = anchor_of(cell)
        marks = dict.fromkeys((*cell.marks, *anchors.get(anchor, ())))
        lines = beside_mark(results, keys[anchor], cell.lines) if anchor in keys else cell.lines
        return replace(cell, lines=lines, marks=tuple(mark for mark in marks if mark not in said))

    headings = [in_heading(column) for column in zip(*table.rows, strict=True)] or [()] * len(table.columns)
    return replace(
        table,
        columns=tuple(
            f"{name} ({', '.join(said)})" if said else name for name, said in zip(table.columns, headings, strict=True)
        ),
        rows=tuple(tuple(map(of, row, headings)) for row in table.rows),
    )


def sentence(results: Results) -> str:
    """How many trials of the page were disturbed, and by what at worst; empty if none was."""
    found = results.disturbed
    if not found:
        return ""
    worst = max(found.values(), key=lambda disturbance: disturbance.share)
    total, named = human.plural(results.counted.height, "trial"), human.listed(list(found), _MOST_NAMED)
    stolen = any(disturbance.what == "steal" for disturbance in found.values())
    return (
        f"Disturbed: other work took more of a host than the study allows during {len(found)} of {total} ({named}). "
        f"In the worst trial, {told(worst)}."
    ) + (" Other machines got what a hypervisor takes: a host that shares no processor avoids that." if stolen else "")


def remedy(indexes: Iterable[Mapping[str, Any]]) -> str:
    """What the reader can do to get a verdict, given the study's rule. `indexes` are the records of the sessions."""
    declared = next((index["disturbance"] for index in indexes if "disturbance" in index), {"then": "mark"})
    if declared["then"] == "repeat":
        return (
            "Each was repeated as often as the study allows. End all other work on the host, raise "
            f"`disturbance: at_most` above {declared['at_most']} and run the study again."
        )
    return (
        "End all other work on the host, set `disturbance: {then: repeat}` in the study and run it again: only the "
        "disturbed trials are measured again."
    )


def of_page(results: Results) -> str:
    """The number of disturbed trials in one sentence, for summaries of a page; empty if none was disturbed."""
    total = human.plural(results.counted.height, "trial")
    return f"Other work disturbed {len(results.disturbed)} of {total} on this page." if results.disturbed else ""


def of_drawn(results: Results, trials: Collection[str]) -> str:
    """How many of these trials were disturbed, in one sentence for the caption of a figure; empty if none was."""
    found = len(results.disturbed.keys() & set(trials))
    return f"Other work disturbed {found} of {human.plural(len(trials), 'drawn trial')}." if found else ""


def policy(session: Mapping[str, Any], family: str) -> dict[str, Any]:
    """What the study said about other work when it held this session."""
    declared = session["declared"]
    own = declared.get("families", {}).get(family, {}).get("disturbance")
    return DisturbancePolicy().model_dump(mode="json") | (own or declared.get("disturbance") or {})


def rule(results: Results, indexes: Sequence[Mapping[str, Any]]) -> str:
    """What the study allows others to take, what happens if they take more, and how often that was.

    The limit is the one that the tables applied: a later one marks other trials, without any measurement.
    """
    declared = _declared(indexes)
    if declared is None:
        return ""
    limit = _limit(results, declared)
    then = f"measured again, {declared['at_most']} times at most" if declared["then"] == "repeat" else "marked"
    imported = int(results.counted["imported"].fill_null(False).sum())
    aside = f"What else ran during {human.plural(imported, 'imported trial')} is unknown." if imported else ""
    if imported == results.counted.height:
        return aside
    noun = "measured trial" if imported else "trial"
    counts, total = results.counts(), human.plural(results.counted.height - imported, noun)
    verb = "was" if counts["repeated"] == 1 else "were"
    again = f" {human.plural(counts['repeated'], 'further disturbed trial')} {verb} set aside and measured again."
    return (
        f"Other work may take {rounding.percent(limit)} of a host's processors or of its disks' time "
        f"during a trial. If it takes more, the trial is {then}. "
        f"Other work disturbed {counts['disturbed']} of {total}; "
        f"{human.plural(unseen(results), 'trial')} could not be checked.{again if counts['repeated'] else ''}"
        f"{' ' * bool(aside)}{aside}"
    )


def _declared(indexes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((index["disturbance"] for index in indexes if "disturbance" in index), None)


def _limit(results: Results, declared: Mapping[str, Any]) -> float:
    return declared["limit"] if results.disturbed_beyond is None else results.disturbed_beyond


def changed_limit(results: Results, indexes: Sequence[Mapping[str, Any]]) -> list[str]:
    """That the limit on other work is not the one of the measurement, with both; empty if it is."""
    declared = _declared(indexes)
    if declared is None:
        return []
    limit = _limit(results, declared)
    held = {policy(session, results.family)["limit"] for index in indexes for session in index["sessions"]}
    others = " and ".join(rounding.percent(one) for one in sorted(held - {limit}))
    changed = f"The limit on other work was changed after the measurement, from {others} to {rounding.percent(limit)}"
    return [f"{changed}, which marks other trials."] if others else []


def weaknesses(results: Results, indexes: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Sentences for the list of what is weak. The page begins with `sentence`."""
    said = changed_limit(results, indexes)
    most_first = sorted(cases(results).items(), key=lambda item: -item[1][0])
    named = [f"{results.case_name(*key)} ({count} of {total})" for key, (count, total) in most_first]
    if named:
        said.append(f"Cases with disturbed trials: {human.listed(named, _MOST_NAMED, '; ')}.")
    repeated = results.counts()["repeated"]
    if repeated:
        said.append(
            f"{human.plural(repeated, 'disturbed trial')} {'was' if repeated == 1 else 'were'} set aside and measured "
            "again. Figures use the undisturbed trials, whatever their values."
        )
    unknown = unseen(results)
    if unknown:
        said.append(
            f"Other work on the hosts is unknown for {unknown} of {human.plural(results.counted.height, 'trial')}."
        )
    return said


def unseen(results: Results) -> int:
    """The number of measured trials without a check for others, because an earlier version measured them."""
    return results.counted.filter(~pl.col("imported").fill_null(False))["disturbed"].null_count()


def compared(names: Sequence[str], disturbed: Sequence[Sequence[str]], totals: Sequence[int]) -> str:
    """Why two cases get no verdict, with the disturbed trials of each; empty if none was disturbed."""
    if not any(disturbed):
        return ""
    sides = (
        f"{len(trials)} of {human.plural(total, 'trial')} of {name}"
        f"{f' ({human.listed(trials, _MOST_NAMED)})' if trials else ''}"
        for name, trials, total in zip(names, disturbed, totals, strict=True)
    )
    return f"disturbed in {' and '.join(sides)}: other work took more of the host than the study allows"
