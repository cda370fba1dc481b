"""Measure: one job holds the session of one family on one target, or those of a group if there are many targets."""

if not GROUPS:

    rule measure_session:
        """Measure what is missing. Trials are not outputs, because the DAG must never be able to delete them."""
        input:
            facts=facts_of_session,
        output:
            index="data/raw/{study}/{target}/{family}/session.json",
        log:
            "logs/measure_session/{study}/{target}/{family}.log",
        priority: turn_of_family
        resources:
            **WHOLE_HOSTS,
            **SPREAD,
        params:
            plan=plan_digest,
        shell:
            # No rule uses `script:`, because its preamble would add a second to every job.
            "script measure_session.py"
            " --target {wildcards.target:q}"
            " --family {wildcards.family:q}"
            " --study {wildcards.study:q}"
            " --log {log:q}"


for job in jobs_of_groups("measure_group", hosts_needed=False):
    STANDS_FOR[job.name] = partial(sessions_of_group, job)

    rule:
        name:
            job.name
        input:
            facts=partial(facts_of_group, job),
        output:
            # Indexes that the job does not change stay: their sessions have all their trials.
            indexes=update(job.indexes),
        log:
            job.log,
        priority: job.priority
        resources:
            **job.resources,
        params:
            plan=partial(plan_of_group, job),
        shell:
            "script measure_group.py"
            " --family {resources.family:q}"
            " --group {resources.group:q}"
            " --again {resources.again:q}"
            f" --study {STUDY.study}"
            " --log {log:q}"
