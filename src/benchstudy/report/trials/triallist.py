"""The list of a page's trials: outcomes, commands, verified facts, and raw files with their hashes.

`trialplaces` decides where it is: on the family's page, or on separate pages beside it.
"""

import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from benchstudy.model import registry
from benchstudy.model.grouping import grouped
from benchstudy.model.interference import Disturbance
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results, raw_files
from benchstudy.report.results.trialplaces import in_order
from benchstudy.report.scrutiny import disturbed
from benchstudy.report.tables.tables import link
from benchstudy.report.texts import fold, unbroken

# Ids, and ports of servers that each trial starts, differ between trials without making their commands different.
# With one set of first characters, Python's search skips all others, in half the time.
_OWN_NAMES = re.compile(
    r"[0-9a-f](?:[0-9a-f]{7,}(?:-[0-9a-f]{4,}){0,4}|(?:(?<=[\w\]]:[0-9])|(?<=port=[0-9]))[0-9]{3,4}\b)"
)
KEPT = "Raw files are never changed. You can check them with the <code>SHA256SUMS</code> beside them."  # HTML
# More commands than these would not be read; `trial.json` has each trial's own.
_MOST_COMMANDS = 8
# The list of more cases is folded as a whole: a link to a trial opens it, and nobody reads it from top to bottom.
_MOST_CASES = 8
# More facts than these are a list.
_MOST_IN_A_LINE = 8

Row = Mapping[str, Any]

_MOMENTS_S = 1e9


@dataclass(frozen=True)
class TrialPage:
    """A page of trials. `path` is relative to the folder of the family's page; `inner` is its content as HTML."""

    path: str
    title: str
    back: str
    inner: str


@dataclass(frozen=True)
class TrialList:
    """The trials of `results` with their values of `metrics`, for the family's page in `page_folder`.

    `root` is the project's folder; `flagged` has remarks by trial.
    """

    results: Results
    metrics: Sequence[str]
    root: Path
    page_folder: Path
    flagged: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False  # true on pages that have nothing else

    @cached_property
    def _values(self) -> dict[str, dict[str, str]]:
        """The shown values, by metric and trial."""
        return {
            metric: {
                trial: human.quantity(value, unit)
                for values in self.results.by_case(metric).values()
                for trial, value, unit in values
            }
            for metric in self.metrics
        }

    @cached_property
    def _cases(self) -> dict[tuple[str, str], list[Row]]:
        groups: dict[tuple[str, str], list[Row]] = {key: [] for key in self.results.anchors}
        for row in in_order(self.results.trials).iter_rows(named=True):
            groups[row["target"], row["case"]].append(row)
        return {key: rows for key, rows in groups.items() if rows}

    @cached_property
    def _commands(self) -> dict[tuple[str, str], "_Commands"]:
        return {key: _Commands(rows) for key, rows in self._cases.items()}

    def _name(self, key: tuple[str, str]) -> str:
        target, case = key
        return human.level(case) + (f" on {target}" if len(self.results.targets) > 1 else "")

    def html(self) -> str:
        """The section of the family's page with all trials, grouped by case, folded until a link leads to one.

        If there is no room for them, it has links to the pages that `pages` makes.
        """
        apart = self.results.places.detail == "apart"
        said = self._apart() if apart else "The trials are listed by case, each with its command and its raw files."
        said = f"<p>{html.escape(said)} {KEPT}</p>"
        listed = "".join(self._case(key, rows, apart) for key, rows in self._cases.items())
        cases = f'<div class="cases">{listed}</div>'
        if len(self._cases) <= _MOST_CASES:
            return f"{said}{cases}"
        count = human.plural(self.results.trials.height, "trial")
        summary = f"{human.plural(len(self._cases), 'case')} with {count}"
        return said + fold(summary, cases)

    def _apart(self) -> str:
        count = human.plural(self.results.trials.height, "trial")
        return (
            f"{count} are too many for one page, so the trials of each case are on a separate page in "
            f"{self.results.family}/trials, beside this page. This page is complete without them."
        )

    def _case(self, key: tuple[str, str], rows: Sequence[Row], apart: bool) -> str:
        away = os.path.relpath(self.root, self.page_folder)
        commands = self._commands[key]
        shown = self._ways(rows) if apart else self._table(self._name(key), rows, commands, away)
        opened = " open" if self.is_open else ""
        name = html.escape(self._name(key)).replace(",", ",<wbr>")
        return (
            f'<details class="case" id="{html.escape(self.results.anchors[key])}"{opened}><summary>'
            f'<code>{name}</code> <span class="count">{html.escape(self._counted(rows))}</span>'
            f"</summary>{commands.html()}{_verified(rows)}{shown}</details>"
        )

    def _counted(self, rows: Sequence[Row]) -> str:
        outcomes = Counter(_counted_as(row) for row in rows)
        other = sum(bool(row["disturbed"]) for row in rows)
        odd = sum(row["trial"] in self.flagged for row in rows)
        said = [f"{count} {status}" for status, count in outcomes.most_common()]
        said += [human.plural(odd, "outlier")] if odd else []
        said += [f"{other} disturbed"] if other else []
        return ", ".join(said)

    def _ways(self, rows: Sequence[Row]) -> str:
        """Links to the pages with a case's trials."""
        pages = Counter(self.results.places.page(row["trial"]) for row in rows)
        parts = "".join(
            f'<li><a href="{html.escape(path)}">{human.plural(count, "trial")}'
            f"{f', part {part}' if len(pages) > 1 else ''}: outcome, figures, raw files, SHA-256</a></li>"
            for part, (path, count) in enumerate(pages.items(), start=1)
        )
        return f"<ul>{parts}</ul>"

    def pages(self) -> Iterator[TrialPage]:
        """Yield the pages of trials that are not on the family's page; each has trials of one case."""
        if self.results.places.detail != "apart":
            return
        for key, rows in self._cases.items():
            commands, name = self._commands[key], self._name(key)
            for path, group in groupby(rows, lambda row: self.results.places.page(row["trial"])):
                chosen = list(group)
                folder = (self.page_folder / path).parent
                table = self._table(name, chosen, commands, os.path.relpath(self.root, folder))
                back = f"{os.path.relpath(self.page_folder, folder)}/{self.results.family}.html"
                yield TrialPage(
                    path,
                    f"Trials of {registry.get(self.results.family).title}: {name}",
                    f"{back}#{self.results.anchors[key]}",
                    f"<p>{html.escape(self._counted(chosen))}</p>{commands.html()}{_verified(rows)}{table}",
                )

    def _table(self, name: str, rows: Sequence[Row], commands: "_Commands", away: str) -> str:
        trials = {row["trial"] for row in rows}
        shown = [metric for metric in self.metrics if not trials.isdisjoint(self._values[metric])]
        titles = (self.results.declared(metric).title for metric in shown)
        several = ["Command"] if commands.several else []
        headings = ["Block", "Trial", "Outcome", *titles, "Started", *several, "Raw files"]
        head = "".join(f'<th scope="col">{html.escape(heading)}</th>' for heading in headings)
        body = "".join(self._row(row, shown, commands, away) for row in rows)
        return (
            f'<div class="table-frame" role="region" aria-label="Trials of {html.escape(name)}" tabindex="0">'
            f'<table class="trials"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def _row(self, row: Row, shown: Sequence[str], commands: "_Commands", away: str) -> str:
        trial, folder = html.escape(row["trial"]), html.escape(link(f"{away}/{row['raw']}"))
        remark = self.flagged.get(row["trial"])
        outcome = html.escape(unbroken(_outcome(row) + (f"; outlier: {remark}" if remark else "")))
        kind = "" if _counted_as(row) == "ok" and not row["disturbed"] else ' class="failed"'
        values = (unbroken(self._values[metric].get(row["trial"], "–")) for metric in shown)
        figures = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        command = f"<td>{commands.number(row)}</td>" if commands.several else ""
        block = "–" if row["imported"] else row["block"]
        each = folder if self.results.places.detail != "listed" else None
        return (
            f'<tr id="trial-{trial}"><td>{block}</td><td><a href="{folder}">{trial}</a></td>'
            f"<td{kind}>{outcome}</td>{figures}<td>{html.escape(sessions.moment(row['started'] or ''))}</td>{command}"
            f"<td class=files>{_files(raw_files(row), each)}</td></tr>"
        )


def commands_of(rows: Sequence[Row]) -> tuple[str, str]:
    """HTML of the commands that trials of a case ran, and of the facts that the first trial verified."""
    return _Commands(rows).html(), _verified(rows)


class _Commands:
    """The distinct commands of a case, ignoring names and ports that differ between its trials."""

    def __init__(self, rows: Sequence[Row]):
        self._groups = grouped((_OWN_NAMES.sub("…", row["argv"]), row) for row in rows if row["argv"])
        self._numbers = {
            row["trial"]: str(number) for number, group in enumerate(self._groups.values(), 1) for row in group
        }

    @property
    def several(self) -> bool:
        return len(self._groups) > 1

    def number(self, row: Row) -> str:
        """The number of the command that a trial ran, as listed."""
        return self._numbers.get(row["trial"], "–")

    def html(self) -> str:
        found = []
        for number, (first, *others) in enumerate(list(self._groups.values())[:_MOST_COMMANDS], start=1):
            which = f"Command {number}, of" if self.several else "Command of"
            more = f"; except for names and ports, {human.plural(len(others), 'other')} ran the same"
            said = f"{which} trial {first['trial']}{more if others else ''}:"
            found.append(f'<p class="command-of">{html.escape(said)}</p><pre>{html.escape(first["argv"])}</pre>')
        left = len(self._groups) - _MOST_COMMANDS
        if left > 0:
            said = f"{human.plural(left, 'more command')}: see the trial.json of each trial."
            found.append(f'<p class="command-of">{html.escape(said)}</p>')
        return "".join(found)


def _verified(rows: Sequence[Row]) -> str:
    """The facts that the first trial verified: file system, cache state, contents. Many of them are folded."""
    facts = json.loads(rows[0]["verified"] or "{}")
    lines = [f"{name}: {text}" for name, text in _leaves(facts)]
    if len(lines) <= _MOST_IN_A_LINE:
        return f'<p class="command-of">Verified: {html.escape("; ".join(lines))}</p>' if lines else ""
    said = f"Verified in trial {rows[0]['trial']}: {len(lines)} facts"
    return f'<details class="verified"><summary>{html.escape(said)}</summary>{_list(facts)}</details>'


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every fact with its full name, also those in lists."""
    if isinstance(node, dict):
        for key, value in node.items():
            for one in _each(value):
                yield from _leaves(one, f"{name} {key}".strip().replace("_", " "))
    elif node is not None:
        yield name, _said(node)


def _list(facts: Mapping[str, Any]) -> str:
    """The same facts as a list, in which those of one thing are a list of their own."""
    items = ""
    for key, value in facts.items():
        name = html.escape(key.replace("_", " "))
        for one in _each(value):
            if isinstance(one, dict):
                items += f"<li>{name}{own}</li>" if (own := _list(one)) else ""
            elif one is not None:
                items += f"<li>{name}: {html.escape(_said(one))}</li>"
    return f"<ul>{items}</ul>" if items else ""


def _each(value: Any) -> list[Any]:
    """The things of a list of things that have facts of their own; anything else is one."""
    return value if isinstance(value, list) and any(isinstance(one, dict) for one in value) else [value]


def _said(fact: Any) -> str:
    """A fact as text. A time in seconds since 1970 keeps its digits; no duration is that long."""
    if isinstance(fact, list):
        return ", ".join(map(_said, fact)) or "none"
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return human.number(fact) if isinstance(fact, float) and abs(fact) < _MOMENTS_S else str(fact)


def _counted_as(row: Row) -> str:
    return "discarded" if row["discarded_why"] else "set aside" if row["set_aside"] else row["status"]


def _outcome(row: Row) -> str:
    text = row["status"] if not row["cause"] else f"{row['status']}: {row['cause']}"
    if row["imported"]:
        text += " (imported)"
    if row["disturbed"]:
        text += f"; disturbed: {disturbed.told(Disturbance.read(json.loads(row['disturbance'])))}"
    if row["set_aside"]:
        text = f"set aside, replaced by trial {row['set_aside']} (was {text})"
    return f"discarded: {row['discarded_why']} (was {text})" if row["discarded_why"] else text


def _files(stored: Sequence[Row], folder: str | None) -> str:
    """A folded list with the name and SHA-256 of each file, linked if its folder is given."""
    files = "".join(_file(file, folder) for file in stored if file["size"])
    empty = ", ".join(file["name"] for file in stored if not file["size"])
    files += f"<li>empty: {html.escape(empty)}</li>" if empty else ""
    return f"<details><summary>{human.plural(len(stored), 'file')}</summary><ul>{files}</ul></details>"


def _file(file: Row, folder: str | None) -> str:
    name, to = _named(file["name"])
    linked = f'<a href="{folder}/{to}">{name}</a>' if folder else name
    return f"<li>{linked} <code>{html.escape(file['sha256'])}</code></li>"


@lru_cache  # trials of a family have files of the same names
def _named(file: str) -> tuple[str, str]:
    """HTML of the name of a file, and of its link."""
    return html.escape(file), html.escape(link(file).removeprefix("./"))
