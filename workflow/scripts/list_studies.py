"""Build the first page of the folder of reports: the list of its studies."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job
from benchstudy.model import paths

with report_job() as (root, _, _):
    from benchstudy.jobs import made
    from benchstudy.jobs.running import one_at_a_time
    from benchstudy.report.overview.indexpages import list_studies

    # Commands of other studies write the same page.
    with one_at_a_time(root):
        list_studies(Path("reports"))
        made.remember(paths.made_list(root), made.state([Path("reports/index.html")], below=Path()))
