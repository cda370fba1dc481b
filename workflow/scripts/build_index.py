"""Build the first page of the study, and pack its reports."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job
from benchstudy.model import paths

with report_job() as (root, study, _):
    from benchstudy.jobs import made
    from benchstudy.report.exhibits.exhibitfiles import DamagedExport
    from benchstudy.report.overview.indexpages import build_index

    try:
        build_index(
            study,
            tidy={family: Path(f"data/tidy/{study.study}/{family}") for family in study.families},
            sessions=[store / paths.SESSION_INDEX for store in study.stores(Path())],
            reports=Path("reports"),
        )
    except DamagedExport as damaged:
        # An earlier version made the page, or the disk spoiled the file without a new time.
        made.disown(paths.made(root, study.study, damaged.page))
        raise
    files = [*paths.with_first_page(Path(), study.study), paths.only_page(Path(), study.study)]
    made.remember(paths.made(root, study.study, paths.FIRST_PAGE), made.state(files, below=Path()))
