"""Hold one session: measure what is missing, index what is there."""

from benchstudy.jobs.job import job

with job("target", "family") as (root, study, told):
    from benchstudy.hosts import interrupts
    from benchstudy.measuring.session import hold_session

    interrupts.install()
    hold_session(root, study.session(told.target, told.family))
