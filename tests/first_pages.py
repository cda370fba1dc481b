"""The first page of a study and that of all reports, made as the workflow's two jobs make them."""

from pathlib import Path
from typing import Any

from benchstudy.model.study import Study
from benchstudy.report.overview import indexpages


def build(study: Study, *, reports: Path, **given: Any) -> None:
    indexpages.build_index(study, reports=reports, **given)
    indexpages.list_studies(reports)
