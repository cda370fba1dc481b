"""Hold the sessions of a family on a group of targets side by side."""

from benchstudy.jobs.job import job

with job("family", "group", "again") as (root, study, told):
    from benchstudy.jobs.groups import measure_group

    measure_group(root, study, told.family, int(told.group), again=told.again == "1")
