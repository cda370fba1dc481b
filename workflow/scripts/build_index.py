"""Build the first page of the study, and pack its reports."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job
from benchstudy.model import paths

with report_job() as (_, study, _):
    from benchstudy.report.overview.indexpages import build_index

    build_index(
        study,
        tidy={family: Path(f"data/tidy/{study.study}/{family}") for family in study.families},
        sessions=[store / paths.SESSION_INDEX for store in study.stores(Path())],
        reports=Path("reports"),
    )
