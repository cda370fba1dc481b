"""Provision the hosts of one target."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.provision import provision_target

    provision_target(study, snakemake.wildcards.target, Path(snakemake.output.facts))
