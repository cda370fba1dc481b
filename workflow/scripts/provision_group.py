"""Provision the hosts of a group of targets for a family, side by side."""

from benchstudy.jobs.preloaded import provisioning_job

with provisioning_job("family", "group", "again") as (root, study, told):
    from benchstudy.jobs.groups import provision_group

    provision_group(root, study, told.family, int(told.group), again=told.again == "1")
