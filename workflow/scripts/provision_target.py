"""Provision the hosts of one target."""

from pathlib import Path

from benchstudy.jobs.job import job

with job("target", "facts") as (root, study, told):
    from benchstudy.provisioning.target import provision_target

    provision_target(study, told.target, Path(told.facts))
