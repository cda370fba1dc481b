"""Build the first page of the study, and the one of the whole folder of reports."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job
from benchstudy.model import paths

with report_job() as (root, study, _):
    from benchstudy.jobs.running import one_at_a_time
    from benchstudy.report.overview.indexpages import build_index

    # Commands of other studies also write the first page of all reports.
    with one_at_a_time(root):
        build_index(
            study,
            tidy={family: Path(f"data/tidy/{study.study}/{family}") for family in study.families},
            sessions=[store / paths.SESSION_INDEX for store in study.stores(Path())],
            reports=Path("reports"),
        )
