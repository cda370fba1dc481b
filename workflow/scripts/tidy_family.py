"""Parse the trials of one family into tables."""

from pathlib import Path

from benchstudy import families
from benchstudy.job import job

with job(snakemake) as (root, study):
    from benchstudy.tidy import tidy_family

    sessions = [Path(path) for path in snakemake.input.sessions]
    tidy_family(root, families.get(snakemake.wildcards.family), sessions, Path(snakemake.output.tables))
