"""Provision the hosts of one target."""

from pathlib import Path

from benchstudy.jobs.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.provisioning.target import provision_target

    provision_target(study, snakemake.wildcards.target, Path(snakemake.output.facts))
