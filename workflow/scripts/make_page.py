"""Run a page's notebook through papermill, and render it as one self-contained page."""

import shutil
from pathlib import Path

from benchstudy.jobs.preloaded import report_job

with report_job("page", "notebook", "tables", "trace", "executed", "exports", "html") as (root, study, told):
    from benchstudy.jobs import made
    from benchstudy.jobs.notebooks import execute
    from benchstudy.model import paths
    from benchstudy.report.htmlpages import page_title, render_notebook

    # A family's page is made from its folder of tables, a page of the study from the parent of these folders.
    tidy = told.tables if told.page in study.families else str(Path(told.tables).parent)
    parameters = {"study": study.study, "tidy": tidy, "output": told.exports}
    unfinished = paths.unfinished_page(root, study.study, told.page)
    unfinished.parent.mkdir(exist_ok=True)
    unfinished.touch()
    # Removes exports of an earlier notebook; Snakemake keeps a copy of all of them in case a cell fails.
    shutil.rmtree(told.exports, ignore_errors=True)
    Path(told.exports).mkdir(parents=True)
    execute(Path(told.notebook), trace=Path(told.trace), output=Path(told.executed), parameters=parameters)
    title = f"{page_title(told.page)} – {study.title or study.study}"
    render_notebook(Path(told.executed), Path(told.html), title=title)
    exports = (path for path in Path(told.exports).rglob("*") if path.is_file())
    files = [Path(told.html), Path(told.executed), *exports]
    made.remember(paths.made(root, study.study, told.page), made.state(files, below=Path()))
    unfinished.unlink()
