"""The index in front of the pages of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchstudy.measuring.sealed import read_index
from benchstudy.model.study import Study
from benchstudy.report.overview.bundle import write_bundle
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.pagetemplates import page_style, render
from benchstudy.report.study.studyfacts import StudyFacts
from benchstudy.report.study.studypages import STUDY_PAGES


def build_index(study: Study, *, tidy: Mapping[str, Path], sessions: Sequence[Path], reports: Path) -> None:
    """The first page of the study, as `reports/<study>/index.html` and as `reports/index.html`.

    Between the two, all of the study's reports are packed into `reports/<study>.zip`.

    `tidy`: folder of tables by family; `sessions`: the `session.json` files. What links lead to is expected where the
    workflow puts it: `<family>.html`, `<family>/`, `notebooks/` in the study's folder of reports.
    """
    indexes = [index | {"file": path} for path in sessions if (index := read_index(path)) is not None]
    own = reports / study.study
    for folder in (own, reports):
        facts = StudyFacts(study, tidy=tidy, indexes=indexes, reports=reports, page_folder=folder)
        folder.mkdir(parents=True, exist_ok=True)
        text = render("index.html.j2", study=StudyIndex(facts).context(), style=page_style())
        (folder / "index.html").write_text(text, encoding="utf-8")
        if folder == own:
            write_bundle(own, [*tidy, *STUDY_PAGES], reports / f"{study.study}.zip")
