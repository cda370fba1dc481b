"""What a command that made a study's first page says at its end."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchstudy.model import paths

_FIRST_PAGE = "build_index"
_WORD_JOINER = "\u2060"  # keeps lines of a page from breaking there; terminals may draw it


def what_was_found(root: Path, study: str, ran: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    """The state of the study, a sentence per family, and where to read on. Nothing if the first page was not made.

    `ran`: rule and wildcards of the command's jobs.
    """
    summary = paths.reports(root) / study / paths.STUDY_SUMMARY
    if _FIRST_PAGE not in {rule for rule, _ in ran} or not summary.exists():
        return []
    told = json.loads(summary.read_text(encoding="utf-8"))
    lines = [f"{study}: {told['state']}"]
    for found in told["headlines"]:
        sentence = f"{found['before']}{found['number']}{found['after']}"
        verdict = f": {found['verdict']}" if found["verdict"] else ""
        lines.append(f"  {found['title']}: {sentence}{verdict}".replace(_WORD_JOINER, ""))
    return [*lines, str(summary.with_name("index.html"))]
