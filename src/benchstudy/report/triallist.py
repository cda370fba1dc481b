"""Every trial of a page: its outcome, command, what was verified, and its raw files with their hashes."""

import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from benchstudy.report import human, sessions
from benchstudy.report.results import Results, raw_files
from benchstudy.report.tables import link

# Above this many trials files are listed without a link each: the trial's folder is linked, and the page stays small.
_LINK_EACH_FILE_UP_TO = 300
# Above this many they are counted only: in its folder `SHA256SUMS` lists them, and a page stays one that opens.
_LIST_FILES_UP_TO = 1_200
_RUN_SPECIFIC = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}")

# How much is said of a trial's files.
Detail = Literal["linked", "listed", "counted"]


def _detail(trials: int) -> Detail:
    if trials > _LIST_FILES_UP_TO:
        return "counted"
    return "linked" if trials <= _LINK_EACH_FILE_UP_TO else "listed"


def trials(
    results: Results, metrics: Sequence[str], root: Path, page_folder: Path, flagged: Mapping[str, str] | None = None
) -> str:
    """Every trial, grouped by case, folded away until a link leads to it. `flagged`: remarks by trial."""
    away = os.path.relpath(root, page_folder)
    values = {
        metric: {
            t: human.quantity(v, u) for t, v, u in results.points(metric).select("trial", "value", "unit").iter_rows()
        }
        for metric in metrics
    }
    detail = _detail(results.trials.height)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in results.anchors}
    for row in results.trials.sort("block", "started").iter_rows(named=True):
        groups[row["target"], row["case"]].append(row)
    several = len(results.targets) > 1
    return "".join(
        _case_trials(
            results.anchors[target, case],
            human.level(case) + (f" on {target}" if several else ""),
            rows,
            values,
            away,
            detail,
            flagged or {},
        )
        for (target, case), rows in groups.items()
        if rows
    )


def _case_trials(
    anchor: str, name: str, rows: list[dict[str, Any]], values: Mapping[str, Mapping[str, str]], away: str,
    detail: Detail, flagged: Mapping[str, str],
) -> str:  # fmt: skip
    outcomes = Counter("discarded" if row["discarded_why"] else row["status"] for row in rows)
    summary = ", ".join(f"{count} {status}" for status, count in outcomes.most_common())
    shown = [metric for metric in values if any(row["trial"] in values[metric] for row in rows)]
    headings = ["Block", "Trial", "Outcome", *(m.replace("_", " ").capitalize() for m in shown), "Started", "Raw files"]
    head = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in headings)
    odd = sum(row["trial"] in flagged for row in rows)
    summary += f", {human.plural(odd, 'outlier')}" if odd else ""
    remarks = (flagged.get(row["trial"], "") for row in rows)
    body = "".join(_trial_row(*row, shown, values, away, detail) for row in zip(rows, remarks, strict=True))
    return (
        f'<details class="case" id="{html.escape(anchor)}"><summary><code>{html.escape(name)}</code> '
        f'<span class="count">{html.escape(summary)}</span></summary>{_commands(rows)}{_verified(rows)}'
        f'<div class="table-frame" role="region" aria-label="Trials of {html.escape(name)}" tabindex="0">'
        f'<table class="trials"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def _commands(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each different command of a case once: those of its trials mostly differ in their own run folder only."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["argv"]:
            groups.setdefault(_RUN_SPECIFIC.sub("…", row["argv"]), []).append(row)
    found = []
    for first, *others in groups.values():
        more = f", and but for names of its own that of {', '.join(row['trial'] for row in others)}" if others else ""
        found.append(
            f'<p class="command-of">Command of trial {html.escape(first["trial"] + more)}:</p>'
            f"<pre>{html.escape(first['argv'])}</pre>"
        )
    return "".join(found)


def _verified(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the first trial found to be as it should: file system, cache state, contents."""
    facts = json.loads(rows[0]["verified"] or "{}")
    lines = [f"{name}: {text}" for name, text in _leaves(facts)]
    return f'<p class="command-of">Verified: {html.escape("; ".join(lines))}</p>' if lines else ""


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, f"{name} {key}".strip().replace("_", " "))
    elif node is not None:
        yield name, ", ".join(map(str, node)) if isinstance(node, list) else str(node)


def _trial_row(
    row: Mapping[str, Any], remark: str, shown: Sequence[str], values: Mapping[str, Mapping[str, str]], away: str,
    detail: Detail,
) -> str:  # fmt: skip
    folder = html.escape(link(f"{away}/{row['raw']}"))
    outcome, trial = html.escape(_outcome(row) + (f"; outlier: {remark}" if remark else "")), html.escape(row["trial"])
    kind = "" if row["status"] == "ok" and not row["discarded_why"] else ' class="failed"'
    figures = "".join(f"<td>{html.escape(values[m].get(row['trial'], '–'))}</td>" for m in shown)
    stored = raw_files(row)
    files = human.plural(len(stored), "file")
    if detail != "counted":
        files = f"<details><summary>{files}</summary>{_files(stored, folder, detail)}</details>"
    return (
        f'<tr id="trial-{trial}"><td>{row["block"]}</td><td><a href="{folder}">{trial}</a></td><td{kind}>{outcome}</td>'
        f"{figures}<td>{html.escape(sessions.moment(row['started'] or ''))}</td><td class=files>{files}</td></tr>"
    )


def _files(stored: Sequence[Mapping[str, Any]], folder: str, detail: Detail) -> str:
    files = "".join(_file(file, folder if detail == "linked" else None) for file in stored if file["size"])
    empty = ", ".join(file["name"] for file in stored if not file["size"])
    files += f"<li>empty: {html.escape(empty)}</li>" if empty else ""
    return f"<ul>{files}</ul>"


def _outcome(row: Mapping[str, Any]) -> str:
    text = row["status"] if not row["cause"] else f"{row['status']}: {row['cause']}"
    if row["imported"]:
        text += " (imported)"
    return f"discarded: {row['discarded_why']} (was {text})" if row["discarded_why"] else text


def _file(file: Mapping[str, Any], folder: str | None) -> str:
    name = html.escape(file["name"])
    linked = f'<a href="{folder}/{html.escape(link(file["name"]).removeprefix("./"))}">{name}</a>' if folder else name
    return f"<li>{linked} <code>{html.escape(file['sha256'])}</code></li>"
