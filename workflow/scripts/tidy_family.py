"""Parse the trials of one family into tables."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.tidy import tidy_family

    plans = [plan for plan in study.sessions() if plan.family_name == snakemake.wildcards.family]
    tidy_family(root, plans, Path(snakemake.output.tables))
