"""The index of a study's pages, and the list of all studies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchstudy.model import paths
from benchstudy.model.files import write_atomically
from benchstudy.model.study import Study
from benchstudy.report.checklist.checklist import answered
from benchstudy.report.overview import citing, studies
from benchstudy.report.overview.bundle import write_bundle
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.pagetemplates import page_style, render, template_text
from benchstudy.report.results.sessions import read_indexes
from benchstudy.report.study.studyfacts import StudyFacts
from benchstudy.report.study.studypages import STUDY_PAGES


def build_index(study: Study, *, tidy: Mapping[str, Path], sessions: Sequence[Path], reports: Path) -> None:
    """Write the first page of the study, `reports/<study>/index.html`, and pack its reports into `reports/<study>.zip`.

    The same page with links for `reports/index.html` is kept for `list_studies`.

    `tidy` maps each family to its folder of tables; `sessions` are the `session.json` files. Linked files are expected
    where the workflow puts them: `<family>.html`, `<family>/` and `notebooks/` in the study's folder of reports.
    """
    own, only = reports / study.study, paths.only_page(reports.parent, study.study)
    for folder in (own, only.parent):
        folder.mkdir(parents=True, exist_ok=True)
    # Both pages show what was read once.
    read = StudyFacts(study, tidy=tidy, indexes=read_indexes(sessions), reports=reports, page_folder=own)
    found, answers = citing.of_study(read), answered(read)
    citing.write(read, found)

    def first_page(path: Path, folder: Path) -> StudyIndex:
        facts = read.for_page_in(folder)
        page = StudyIndex(facts, answers)
        _write(path, "index.html.j2", study=page.context() | {"citing": citing.section(facts, found)})
        return page

    # No name for the page: what it made of a thousand targets is not in memory twice.
    studies.write_summary(own, study, first_page(own / "index.html", own))
    write_bundle(own, [*tidy, *STUDY_PAGES], reports / f"{study.study}.zip")
    first_page(only, reports)


def list_studies(reports: Path) -> None:
    """Write the first page of all reports, `reports/index.html`: the list of the studies that have reports.

    If there is only one, it is that study's first page.
    """
    listed, page = studies.listed(reports), reports / "index.html"
    only = paths.only_page(reports.parent, listed[0]["name"]) if len(listed) == 1 else None
    if only and only.exists():
        write_atomically(page, only.read_text(encoding="utf-8"))
    else:
        _write(page, "studies.html.j2", studies=listed, comparisons=studies.comparisons(reports))


def _write(page: Path, template: str, **values: Any) -> None:
    script = Markup(template_text("index.js") + template_text("paper.js"))
    text = render(template, style=page_style(), script=script, **values)
    write_atomically(page, text)
