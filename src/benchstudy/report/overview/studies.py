"""All studies with reports in one folder, each with its dates of measurement, its state and its findings."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from benchstudy.model.files import json_of, write_atomically
from benchstudy.model.paths import STUDY_SUMMARY, first_pages
from benchstudy.model.study import Study
from benchstudy.report.overview.headlines import Headline
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.tables.tables import link

# What the list tells of a finding: its sentence, without the ratios below it.
_TOLD = [field.name for field in fields(Headline) if field.default is MISSING]


def write_summary(folder: Path, study: Study, page: StudyIndex) -> None:
    """Write a study's entry for the list of studies into its `folder` of reports. `page`: its first page."""
    told = {
        "name": study.study,
        "title": study.title or study.study,
        "question": study.question,
        "measured": page.measured,
        "state": page.state,
        "headlines": [{name: getattr(found, name) for name in _TOLD} for found in page.headlines],
    }
    write_atomically(folder / STUDY_SUMMARY, json.dumps(told, ensure_ascii=False, indent=1) + "\n")


def listed(reports: Path) -> list[dict[str, Any]]:
    """Every study with an index below `reports`, most recently measured first. Links are relative to `reports`."""
    found = [_listed(page.with_name(STUDY_SUMMARY)) for page in first_pages(reports.parent)]
    return sorted(found, key=lambda study: study["measured"][-1:] or [""], reverse=True)


def comparisons(reports: Path) -> list[dict[str, str]]:
    """The pages below `reports` that compare two studies, as name and link."""
    found = sorted((reports / "comparisons").glob("*--*.html"))
    return [
        {"name": " against ".join(page.stem.split("--")), "href": link(f"comparisons/{page.name}")} for page in found
    ]


def _listed(summary: Path) -> dict[str, Any]:
    try:
        told = json_of(summary.read_bytes())
    except ValueError:
        name, why = summary.parent.name, f"{summary.name} is damaged, and the next report of this study makes it again"
        told = {"name": name, "title": name, "question": None, "measured": [], "state": why, "headlines": []}
    here = link(f"{summary.parent.name}/")

    def led(href: str) -> str:
        return here + href.removeprefix("./")

    # Another version may have made this study's pages, and may tell its findings in another way.
    whole = [found for found in told["headlines"] if found.keys() >= {*_TOLD}]
    headlines = [
        {**found, "href": led(found["href"]), "medians": [(median, led(href)) for median, href in found["medians"]]}
        for found in whole
    ]
    return {**told, "headlines": headlines, "href": f"{here}index.html"}
