"""Run one notebook through papermill: execute_notebook.py PAGE NOTEBOOK TRACE OUTPUT EXPORTS TABLES … LOG."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job

with report_job() as (root, study, (page, notebook, trace, output, exports, tables, *_)):
    from benchstudy.jobs.notebooks import execute

    # A family's page is made from its folder of tables, a page of the study from the folder that holds those.
    tidy = tables if page in study.families else str(Path(tables).parent)
    parameters = {"study": study.study, "tidy": tidy, "output": exports}
    execute(Path(notebook), trace=Path(trace), output=Path(output), parameters=parameters)
