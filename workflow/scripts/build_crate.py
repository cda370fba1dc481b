"""Pack the study with all that it takes to check it and to make its reports again."""

from pathlib import Path

from benchstudy.jobs.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.provenance.crate import build_crate

    build_crate(root, study, Path(snakemake.output.crate).absolute())
