"""Render one executed notebook as a self-contained page."""

from pathlib import Path

from benchstudy import families
from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.report.htmlpages import render_notebook

    title = f"{families.get(snakemake.wildcards.family).title} – {study.title or study.study}"
    render_notebook(Path(snakemake.input.notebook), Path(snakemake.output.page), title=title)
