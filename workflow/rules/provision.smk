"""Provision: what the hosts of a target must have."""


rule provision_target:
    """Install the packages of the target's families over SSH; a second run changes nothing."""
    input:
        deploys=deploys_of_target,
    output:
        facts="data/provision/{study}/{target}.json",
    log:
        "logs/provision_target/{study}/{target}.log",
    resources:
        **WHOLE_HOSTS,
    params:
        hosts=hosts_of_target,
        programs=programs_of_target,
    shell:
        "python workflow/scripts/provision_target.py"
        " --target {wildcards.target:q}"
        " --facts {output.facts:q}"
        " --study {wildcards.study:q}"
        " --log {log:q}"
