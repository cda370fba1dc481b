"""Run one notebook through papermill."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.notebooks import execute

    # A family's page is made from its folder of tables, a page of the study from the folder that holds those.
    page, folders = snakemake.wildcards.page, [Path(path) for path in snakemake.input.tables]

    execute(
        Path(snakemake.input.notebook),
        trace=Path(snakemake.log.notebook),
        output=Path(snakemake.output.notebook),
        parameters={
            "study": study.study,
            "tidy": str(folders[0] if page in study.families else folders[0].parent),
            "output": snakemake.output.exports,
        },
    )
