"""Findings that somebody looked at and left, with the reason; they are shown, and no longer as open."""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Protocol

from benchstudy.lints.model import Finding


class Acknowledged(Protocol):
    """An entry of a study's `acknowledge`."""

    @property
    def lint(self) -> str | None: ...
    @property
    def where(self) -> str: ...
    @property
    def reason(self) -> str: ...


def acknowledge(found: Iterable[Finding], entries: Iterable[Acknowledged]) -> list[Finding]:
    """The findings, those that an entry names with its reason; the first entry that fits counts."""
    listed = list(entries)
    return [replace(finding, acknowledged=_reason(finding, listed)) for finding in found]


def _reason(finding: Finding, entries: Iterable[Acknowledged]) -> str:
    fitting = (e.reason for e in entries if e.lint == finding.lint and fits(e.where, finding.where))
    return next(fitting, "")


def fits(pattern: str, where: str) -> bool:
    """Whether a shell pattern fits a place, with or without the file or family before its colon.

    Upper and lower case are the same, and brackets stand for themselves.
    """
    inert = pattern.lower().replace("[", "[[]")
    return any(fnmatchcase(place.lower(), inert) for place in (where, where.partition(": ")[2]))
