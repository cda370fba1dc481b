"""Build the first page of the study, and the one of the whole folder of reports."""

import os
from pathlib import Path

from benchstudy.job import job

with job(snakemake) as (root, study):
    from benchstudy.htmlpages import build_index

    pages = {family: Path(page) for family, page in zip(study.families, snakemake.input.pages, strict=True)}
    for output in (Path(snakemake.output.index), Path(snakemake.output.study_index)):
        build_index(
            study,
            tidy_dirs=dict(zip(study.families, map(Path, snakemake.input.tables), strict=True)),
            sessions=[Path(path) for path in snakemake.input.sessions],
            reports={family: os.path.relpath(page, output.parent) for family, page in pages.items()},
            output=output,
        )
