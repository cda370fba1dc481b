"""Provision: what the hosts of a target must have."""


def deploys():
    """What every host gets, what the study's families add to it, and the pins that these read."""
    pins = [file for file in files_below("envs", "*") if not file.endswith(".py")]
    return [*map(str, deploy_files(Path(), FAMILIES)), *pins]


def hosts_of_target(wildcards):
    """Who plays which role: another host must be provisioned too."""
    return STUDY.targets[wildcards.target].roles


def programs_of_target(wildcards):
    """What its hosts start: another server or generator may have to be installed."""
    return programs_by_host(STUDY, wildcards.target)


rule provision_target:
    """Install the packages of the target's families over SSH; a second run changes nothing."""
    input:
        deploys=deploys(),
    output:
        facts="data/provision/{study}/{target}.json",
    log:
        "logs/provision_target/{study}/{target}.log",
    resources:
        **WHOLE_HOSTS,
    params:
        hosts=hosts_of_target,
        programs=programs_of_target,
    script:
        "../scripts/provision_target.py"
