"""Parse the trials of one family into tables: tidy_family.py FAMILY TABLES LOG."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job

with report_job() as (root, study, (family, tables)):
    from benchstudy.jobs.tidy import tidy_family

    plans = [plan for plan in study.sessions() if plan.family_name == family]
    tidy_family(root, plans, Path(tables))
