"""Build the first page of the study, and the one of the whole folder of reports: build_index.py LOG."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job
from benchstudy.model import paths

with report_job() as (root, study, _):
    from benchstudy.report.indexpages import build_index

    build_index(
        study,
        tidy={family: Path(f"data/tidy/{study.study}/{family}") for family in study.families},
        sessions=[paths.session_index(Path(), study.study, p.target, p.family_name) for p in study.sessions()],
        reports=Path("reports"),
    )
