"""Provision: what the hosts of a target must have for a family."""


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
