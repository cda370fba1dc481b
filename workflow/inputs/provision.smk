"""What provisioning reads: the deploys of a family, and what makes a host due again. No rules."""


def deploys_of_family(wildcards):
    """What every host gets, what the family and the systems add to it, and the pins that these read.

    A target whose hosts had a problem is provisioned again.
    """
    facts = facts_file(wildcards.target, wildcards.family)
    if facts_problems(Path(facts)):
        snakemake_adapter.plan_again(workflow, facts)
    return deploys_of(wildcards.family)


@cache
def deploys_of(family):
    """The files that decide what a family's hosts get, for every target."""
    return [relative(file) for file in files_that_install(Path(), [family], of_every_family())]


@cache
def of_every_family():
    """What `deploys_of` has in common for all families, listed once."""
    return pins_and_systems(Path(), STUDY)


def relative(file):
    """The path that rules use: relative for the project's files, unchanged for others."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def hosts_of_target(wildcards):
    """Which host plays which role: a different host must be provisioned too."""
    return STUDY.targets[wildcards.target].roles


def programs_of_family(wildcards):
    """The programs that a family's sessions start on the hosts: a new server or generator may need installing."""
    return programs_by_host(STUDY, wildcards.target, wildcards.family)
