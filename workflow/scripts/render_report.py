"""Render one executed notebook as a self-contained page: render_report.py PAGE NOTEBOOK HTML LOG."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job

with report_job() as (root, study, (page, notebook, html)):
    from benchstudy.report.htmlpages import page_title, render_notebook

    title = f"{page_title(page)} – {study.title or study.study}"
    render_notebook(Path(notebook), Path(html), title=title)
