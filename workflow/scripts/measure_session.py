"""Hold one session: measure what is missing, index what is there."""

from benchstudy.job import job

with job(snakemake) as (root, study):
    from benchstudy import interrupts
    from benchstudy.session import hold_session

    interrupts.install()
    hold_session(root, study.session(snakemake.wildcards.target, snakemake.wildcards.family))
