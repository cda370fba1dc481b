"""What sessions read: the plan of each, and the facts of its hosts. No rules."""


def plan_digest(wildcards):
    """A digest that changes if and only if the set of required trials does: a case, a block, a definition."""
    return PLANS[wildcards.target, wildcards.family].digest


def facts_of_session(wildcards):
    """The facts of a session's hosts, if something is measured there.

    A session that could not be held is planned again, and its index stays until it is held.
    """
    return needed_facts(wildcards.target, wildcards.family)


def needed_facts(target, family):
    if PLANS[target, family].config.import_only:
        return []
    index = session_index(target, family)
    if index_problem(Path(index)):
        snakemake_adapter.plan_again(workflow, index)
    facts = facts_file(target, family)
    # A session that has everything needs no provisioning of a host that has another address since.
    if is_of_other_places(Path(facts), STUDY, target) and not is_held(Path(), PLANS[target, family]):
        snakemake_adapter.plan_again(workflow, facts)
    return facts
