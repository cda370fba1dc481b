"""Findings that somebody looked at and accepted, with the reason. They are still shown, but no longer as open."""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from benchstudy.lints.model import Finding
from benchstudy.model.declared import Acknowledgement


def acknowledge(found: Iterable[Finding], entries: Iterable[Acknowledgement]) -> list[Finding]:
    """The findings. One that an entry matches carries that entry's reason; the first match counts."""
    listed = list(entries)
    return [replace(finding, acknowledged=_reason(finding, listed)) for finding in found]


def _reason(finding: Finding, entries: Iterable[Acknowledgement]) -> str:
    fitting = (e.reason for e in entries if e.lint == finding.lint and fits(e.where, finding.where))
    return next(fitting, "")


def fits(pattern: str, where: str) -> bool:
    """Whether a shell pattern matches a place, with or without the file or family before its colon.

    Case is ignored, and brackets are literal.
    """
    inert = pattern.lower().replace("[", "[[]")
    return any(fnmatchcase(place.lower(), inert) for place in (where, where.partition(": ")[2]))
