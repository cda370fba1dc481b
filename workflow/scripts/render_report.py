"""Render one executed notebook as a self-contained page."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.report.htmlpages import page_title, render_notebook

    title = f"{page_title(snakemake.wildcards.page)} – {study.title or study.study}"
    render_notebook(Path(snakemake.input.notebook), Path(snakemake.output.page), title=title)
