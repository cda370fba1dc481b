"""Provision: what the hosts of a target must have."""


rule provision_target:
    """Install the packages of the target's families over SSH; a second run changes nothing."""
    input:
        deploys=expand("envs/{family}.py", family=FAMILIES),
    output:
        facts="data/provision/{study}/{target}.json",
    params:
        hosts=lambda wildcards: STUDY.targets[wildcards.target].model_dump(),
    log:
        "logs/provision_target/{study}/{target}.log",
    resources:
        **HOST_SLOTS,
    script:
        "../scripts/provision_target.py"
