"""Say which sessions could not be held, and fail if there is one."""

from pathlib import Path

from benchstudy.job import job

with job(snakemake) as (root, study):
    from benchstudy.session import confirm_sessions

    confirm_sessions([Path(path) for path in snakemake.input.sessions], Path(snakemake.output.held))
