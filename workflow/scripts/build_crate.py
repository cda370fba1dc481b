"""Pack the study with everything needed to check it and to make its reports again."""

from pathlib import Path

from benchstudy.jobs.job import job

with job("crate") as (root, study, told):
    from benchstudy.jobs import made
    from benchstudy.model import paths
    from benchstudy.provenance.crate import build_crate

    build_crate(root, study, Path(told.crate).absolute())
    made.remember(paths.made(root, study.study, paths.CRATE), made.state([Path(told.crate)], below=Path()))
