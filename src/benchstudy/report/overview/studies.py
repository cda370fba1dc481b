"""All studies with reports in one folder, each with its dates of measurement, its state and its findings."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from benchstudy.model.files import write_atomically
from benchstudy.model.paths import STUDY_SUMMARY
from benchstudy.model.study import Study
from benchstudy.report.overview.headlines import Headline
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.tables.tables import link


def write_summary(folder: Path, study: Study, page: StudyIndex) -> None:
    """Write a study's entry for the list of studies into its `folder` of reports. `page`: its first page."""
    told = {
        "name": study.study,
        "title": study.title or study.study,
        "question": study.question,
        "measured": page.measured,
        "state": page.state,
        "headlines": [asdict(found) for found in page.headlines],
    }
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
    # A study whose pages an older or newer version made may tell less or more of each finding.
    known = {field.name for field in fields(Headline)}
    each = [Headline(**{key: value for key, value in found.items() if key in known}) for found in told["headlines"]]
    headlines = [replace(found, href=here + found.href.removeprefix("./")) for found in each]
    return {**told, "headlines": headlines, "href": f"{here}index.html"}
