"""Run one notebook through papermill."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.notebooks import execute

    execute(
        Path(snakemake.input.notebook),
        trace=Path(snakemake.log.notebook),
        output=Path(snakemake.output.notebook),
        parameters={
            "study": study.study,
            "tidy": snakemake.input.tables,
            "output": snakemake.output.exports,
        },
    )
