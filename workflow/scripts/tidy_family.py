"""Parse the trials of one family into tables."""

from pathlib import Path

from benchstudy.jobs.preloaded import report_job

with report_job("family", "tables") as (root, study, told):
    from benchstudy.jobs.tidy import tidy_family

    plans = [plan for plan in study.sessions() if plan.family_name == told.family]
    tidy_family(root, plans, Path(told.tables))
