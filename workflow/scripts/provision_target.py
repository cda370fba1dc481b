"""Provision the hosts of one target for one family."""

from pathlib import Path

from benchstudy.jobs.preloaded import provisioning_job

with provisioning_job("target", "family", "facts") as (root, study, told):
    from benchstudy.jobs.running import others_build_soon
    from benchstudy.provisioning.target import provision_target

    soon = others_build_soon(root, study, told.target, told.family)
    provision_target(study, told.target, Path(told.facts), [told.family], keep_downloads=soon)
