"""Hold one session, measure what is missing, index what is there: measure_session.py TARGET FAMILY LOG."""

import json
import sys
from pathlib import Path

from benchstudy.jobs.job import job
from benchstudy.model import paths

target, family, log = sys.argv[1:]
declared = json.loads(paths.declared_study(Path()).read_text())

with job(declared, Path(log)) as (root, study):
    from benchstudy.hosts import interrupts
    from benchstudy.measuring.session import hold_session

    interrupts.install()
    hold_session(root, study.session(target, family))
