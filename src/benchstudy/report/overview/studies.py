"""All studies with reports in one folder, each with its dates of measurement, its state and its findings."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchstudy.model.files import write_atomically
from benchstudy.model.paths import STUDY_SUMMARY
from benchstudy.report.overview.headlines import Headline
from benchstudy.report.tables.tables import link


def write_summary(
    folder: Path, *, name: str, title: str, question: str, measured: Sequence[str], state: str,
    headlines: Sequence[Headline],
) -> None:  # fmt: skip
    """Write a study's entry for the list of studies into its `folder` of reports.

    `measured` holds the first and the last moment of measurement, and is empty if nothing was measured.
    """
    said = {"name": name, "title": title, "question": question, "measured": list(measured), "state": state}
    told = said | {"headlines": [found.plain for found in headlines]}
    write_atomically(folder / STUDY_SUMMARY, json.dumps(told, ensure_ascii=False, indent=1) + "\n")


def listed(reports: Path) -> list[dict[str, Any]]:
    """Every study with an index below `reports`, most recently measured first. Links are relative to `reports`."""
    found = [_listed(path) for path in sorted(reports.glob(f"*/{STUDY_SUMMARY}"))]
    return sorted(found, key=lambda study: study["measured"][-1:] or [""], reverse=True)


def comparisons(reports: Path) -> list[dict[str, str]]:
    """The pages below `reports` that compare two studies, as name and link."""
    found = sorted((reports / "comparisons").glob("*--*.html"))
    return [
        {"name": " against ".join(page.stem.split("--")), "href": link(f"comparisons/{page.name}")} for page in found
    ]


def _listed(summary: Path) -> dict[str, Any]:
    told = json.loads(summary.read_text(encoding="utf-8"))
    here = link(f"{summary.parent.name}/")
    headlines = [{**found, "href": here + found["href"].removeprefix("./")} for found in told["headlines"]]
    return {**told, "headlines": headlines, "href": f"{here}index.html"}
