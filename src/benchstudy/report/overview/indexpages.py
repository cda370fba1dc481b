"""The index of a study's pages, and the list of all studies."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchstudy.model import paths
from benchstudy.model.files import write_atomically
from benchstudy.model.study import Study
from benchstudy.report import human
from benchstudy.report.overview import citing, studies
from benchstudy.report.overview.bundle import write_bundle
from benchstudy.report.overview.studyindex import StudyIndex
from benchstudy.report.pagetemplates import page_style, render, template_text
from benchstudy.report.results.sessions import read_indexes
from benchstudy.report.study.studyfacts import StudyFacts
from benchstudy.report.study.studypages import STUDY_PAGES
from benchstudy.report.tables.tables import link

_RELATIVE = re.compile(r'(?<=href=")\.[^"]*')


def build_index(study: Study, *, tidy: Mapping[str, Path], sessions: Sequence[Path], reports: Path) -> None:
    """Write the first page of the study, `reports/<study>/index.html`, and pack its reports into `reports/<study>.zip`.

    The same page with links for `reports/index.html` is kept for `list_studies`.

    `tidy` maps each family to its folder of tables; `sessions` are the `session.json` files. Linked files are expected
    where the workflow puts them: `<family>.html`, `<family>/` and `notebooks/` in the study's folder of reports.
    """
    own, only = reports / study.study, paths.only_page(reports.parent, study.study)
    for folder in (own, only.parent):
        folder.mkdir(parents=True, exist_ok=True)
    facts = StudyFacts(study, tidy=tidy, indexes=read_indexes(sessions), reports=reports)
    methods, page = citing.of_study(facts), StudyIndex(facts)
    citing.write(facts, methods)
    shown = page.context() | {"citing": citing.section(facts, methods)}
    write_atomically(own / "index.html", _page("index.html.j2", study=shown))
    studies.write_summary(own, study, page)
    archive = reports / f"{study.study}.zip"
    write_bundle(own, [*tidy, *STUDY_PAGES], archive)
    # The page in the archive has no link to it, which would be dead.
    size = human.quantity(archive.stat().st_size, "B")
    shown["archive"] = {"name": archive.name, "href": facts.link(archive), "size": size}
    write_atomically(only, _from_above(_page("index.html.j2", study=shown), link(study.study)))


def _from_above(page: str, folder: str) -> str:
    """A page of `folder` for the folder above: its relative links, which begin with a dot, lead to the same files."""

    def moved(match: re.Match[str]) -> str:
        path = posixpath.normpath(f"{folder}/{match[0]}")
        return path if path.startswith(".") else f"./{path}"

    return _RELATIVE.sub(moved, page)


def list_studies(reports: Path) -> None:
    """Write the first page of all reports, `reports/index.html`: the list of the studies that have reports.

    If there is only one, it is that study's first page.
    """
    listed, page = studies.listed(reports), reports / "index.html"
    only = paths.only_page(reports.parent, listed[0]["name"]) if len(listed) == 1 else None
    if only and only.exists():
        write_atomically(page, only.read_text(encoding="utf-8"))
    else:
        write_atomically(page, _page("studies.html.j2", studies=listed, comparisons=studies.comparisons(reports)))


def _page(template: str, **values: Any) -> str:
    script = Markup(template_text("index.js") + template_text("paper.js"))
    return render(template, style=page_style(), script=script, **values)
