"""List the stored trials of one session."""

from benchstudy.jobs.job import job

with job("target", "family") as (root, study, told):
    from benchstudy.measuring.raw import TrialStore
    from benchstudy.measuring.sessionindex import write_index_only

    plan = study.session(told.target, told.family)
    store = TrialStore(plan.raw(root))
    with store.exclusive():
        write_index_only(plan, store, store.trials())
