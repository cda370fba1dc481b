"""The findings of lints on a page, by rule, most severe first. Acknowledged findings are folded."""

import html
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from benchstudy import lints
from benchstudy.lints import Finding
from benchstudy.lints.model import SEVERITIES
from benchstudy.model import paths
from benchstudy.model.study import Study
from benchstudy.model.studyfile import load_study
from benchstudy.report import human
from benchstudy.report.results import ceilings, material
from benchstudy.report.results.over_targets import each_target
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.report.texts import as_html, fold

_SHOWN = 3  # findings of one rule, if the others are on other pages


def declared(root: Path, study: str) -> Study | None:
    """The latest declaration of a study below the project `root`; None if no command has worked on it.

    Raises StudyError for a declaration that this version does not accept.
    """
    path = paths.declared_study(root, study)
    # YAML is a superset of JSON.
    return load_study(path) if path.is_file() else None


def of_family(results: Results, study: Study | None) -> list[Finding]:
    """What the rules find in a family's results, given the study's ceilings and acknowledgements."""
    known = ceilings.known(study, results.family, ceilings.beside(results)) if study else []
    held_against = [ceiling for _, of_declared in known for ceiling in of_declared]
    settled = study.acknowledge if study else ()
    if not results.has_many_targets:
        return lints.lint(material.read(results, held_against), settled)
    # One target after the other, because the figures of all trials at once would take gigabytes.
    found = (lints.lint(material.read(own, held_against, several=True), settled) for own in each_target(results))
    return sorted((finding for of_target in found for finding in of_target), key=lambda f: (f.rank, f.lint))


def section(found: Sequence[Finding], level: int = 3, rest: str = "") -> str:
    """HTML of findings: open ones by rule, then acknowledged ones, folded and with the reasons.

    `level` is that of the headings, one per rule. Below it is the first finding; the others, and why the rule matters,
    are folded. `rest` says where all but the first findings of each rule are listed; if it is empty, that is here.
    """
    is_open = [f for f in found if not f.acknowledged]
    settled = [f for f in found if f.acknowledged]
    parts = [_rule(name, list(of_rule), level, rest) for name, of_rule in groupby(is_open, key=lambda f: f.lint)]
    if not is_open:
        parts.append('<p class="none">The rules find nothing.</p>')
    if settled:
        listed = settled[:_SHOWN] if rest else settled
        items = "".join(_item(f, f"Acknowledged: {f.acknowledged}") for f in listed)
        count = f"{len(settled)} acknowledged in the study"
        parts.append(f'<details class="case"><summary>{count}</summary><ul class="weak">{items}</ul></details>')
    return f'<div class="lints">{"".join(parts)}</div>'


def _rule(name: str, found: list[Finding], level: int, elsewhere: str = "") -> str:
    first = found[0]
    items = [_item(f) for f in (found[:_SHOWN] if elsewhere else found)]
    shown, rest = items[0], "".join(items[1:])
    told = "Why it matters, and what to do"
    folded = f'<ul class="weak">{rest}</ul>' if rest else ""
    if rest:
        told = f"{human.plural(len(items) - 1, 'more finding')}, why they matter, and what to do"
    if len(found) > len(items):
        folded += f"<p>{len(found) - len(items):,} more {html.escape(elsewhere)}.</p>"
    severity = f'<span class="severity {first.severity}">{SEVERITIES[first.severity]}</span>'
    why, action = (as_html(text) for text in (first.why, first.action))
    heading = f"<h{level}>{html.escape(name)} {severity}</h{level}>"
    rule = fold(told, f"<p>{why} <strong>To do:</strong> {action}</p>{folded}")
    return f'<div class="rule">{heading}<ul class="weak">{shown}</ul>{rule}</div>'


def _item(finding: Finding, more: str = "") -> str:
    more = f'<span class="evidence">{as_html(more)}</span>' if more else ""
    name = f"{html.escape(finding.lint)}: " if more else ""
    return f"<li>{name}<em>{html.escape(finding.where)}</em>: {as_html(finding.what)}.{more}</li>"


def counts(found: Iterable[Finding], subjects: Sequence[tuple[str, str]], name: str, caption: str) -> Table:
    """A table with the number of findings of each severity per subject: pairs (prefix of `where`, name)."""
    listed = list(found)
    body = []
    for prefix, title in subjects:
        own = [f for f in listed if f.where.startswith(f"{prefix}:") and not f.acknowledged]
        by_severity = [Cell.text(str(sum(f.severity == s for f in own) or "–"), kind="number") for s in SEVERITIES]
        body.append((Cell.text(title), *by_severity))
    headings = ("Page", *(text.capitalize() for text in SEVERITIES.values()))
    return Table(name, caption, headings, tuple(body))
