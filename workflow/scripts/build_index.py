"""Build the first page of the study, and the one of the whole folder of reports."""

from pathlib import Path

from benchstudy.job import script_job

with script_job(snakemake) as (root, study):
    from benchstudy.report.htmlpages import build_index

    build_index(
        study,
        tidy=dict(zip(study.families, map(Path, snakemake.input.tables), strict=True)),
        sessions=[Path(path) for path in snakemake.input.sessions],
        reports=Path("reports"),
    )
