"""Which job comes first, and which jobs may run side by side. No rules."""

# A family's jobs come before those of the next one, so that its page is ready early. First come the families for which
# no program is built, and of these, the ones whose pages show no other family.
IN_TURN = sorted(FAMILIES, key=lambda family: (may_build(STUDY, family), len(families_of_page(family))))


def turn_of(family):
    return len(IN_TURN) - IN_TURN.index(family)


def turn_of_family(wildcards):
    """The priority of a family's jobs; higher ones come earlier."""
    return turn_of(wildcards.family)


# A host, or a group of hosts if there are many, has many places. A job that measures or provisions there takes all of
# them, so that two such jobs never overlap, whatever the number of cores. If a host is this machine, jobs that compute
# here take one place each: they may run side by side, but never beside a measurement, which they would disturb. This
# is not in the profile, because `--resources` on the command line replaces all of a profile's limits.
ALL_PLACES = 1000
PLACES = groups.places(STUDY)


def places_taken(hosts, wildcards):
    """All places of `hosts` if the job's target uses one of them, else none."""
    return 0 if hosts.isdisjoint(STUDY.targets[wildcards.target].roles.values()) else ALL_PLACES


def distance_of_blocks(wildcards):
    """The least time from the start of one block to the start of the next."""
    return f"{PLANS[wildcards.target, wildcards.family].blocks_apart_s:g}s"


snakemake_adapter.limit_resources(workflow, dict.fromkeys(PLACES, ALL_PLACES))
WHOLE_HOSTS = {name: partial(places_taken, hosts) for name, hosts in PLACES.items()}
# Not a resource, but `snakemake -n` should show it, because it decides how long a session takes.
SPREAD = {"blocks_apart": distance_of_blocks} if any(plan.blocks_apart_s for plan in PLANS.values()) else {}
BESIDE_NO_MEASUREMENT = {name: 1 for name, hosts in PLACES.items() if any(STUDY.hosts[host].loopback for host in hosts)}
