"""Provision: what the hosts of a target, or of a group if there are many targets, must have for a family."""

if not GROUPS:

    rule provision_target:
        """Install and build over SSH what one family needs there; a second run changes nothing."""
        input:
            deploys=deploys_of_family,
        output:
            facts="data/provision/{study}/{target}/{family}.json",
        log:
            "logs/provision_target/{study}/{target}/{family}.log",
        priority: turn_of_family
        resources:
            **WHOLE_HOSTS,
        params:
            hosts=hosts_of_target,
            programs=programs_of_family,
        shell:
            "script provision_target.py"
            " --target {wildcards.target:q}"
            " --family {wildcards.family:q}"
            " --facts {output.facts:q}"
            " --study {wildcards.study:q}"
            " --log {log:q}"


for job in jobs_of_groups("provision_group", hosts_needed=True):
    STANDS_FOR[job.name] = partial(provisionings_of_group, job)

    rule:
        name:
            job.name
        input:
            deploys=partial(deploys_of_group, job),
        output:
            # Facts without problems that match what is asked for now stay unchanged.
            facts=update(job.facts),
        log:
            job.log,
        priority: job.priority
        resources:
            **job.resources,
        params:
            asked=partial(asked_of_group, job),
        shell:
            "script provision_group.py"
            " --family {resources.family:q}"
            " --group {resources.group:q}"
            " --again {resources.again:q}"
            f" --study {STUDY.study}"
            " --log {log:q}"
