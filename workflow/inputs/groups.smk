"""Groups of a study with many targets: one job per group and family stands for one job per target. No rules."""


class JobOfGroup:
    """What a rule needs to know about a family's job on a group of targets. Forced jobs always run again."""

    def __init__(self, kind, group, family):
        self.family = family
        self.targets = group.targets_of(STUDY, family)
        self.plans = [PLANS[target, family] for target in self.targets]
        self.name = f"{kind}_{family}_{group.number}"
        self.log = f"logs/{kind}/{STUDY.study}/{group.number}/{family}.log"
        self.indexes = [session_index(target, family) for target in self.targets]
        self.facts = [facts_file(target, family) for target in self.targets]
        self.priority = turn_of(family)
        few = ", ".join(self.targets[:3]) + (", …" if len(self.targets) > 3 else "")
        self.resources = {f"group_{group.number}": ALL_PLACES, "targets": f"{len(self.targets)} ({few})"}
        # For the script. As parameters, changes of these would make the job due.
        self.resources |= {"family": family, "group": group.number, "again": partial(is_forced, self)}
        if self.plans and self.plans[0].blocks_apart_s:
            self.resources["blocks_apart"] = f"{self.plans[0].blocks_apart_s:g}s"
        snakemake_adapter.print_as_one(workflow, self.name, f"{kind}_{family}_*")


def is_forced(job, wildcards):
    return int(snakemake_adapter.is_forced(workflow, [job.name, *job.indexes, *job.facts]))


def jobs_of_groups(kind, *, hosts_needed):
    """One job per group and family. `hosts_needed`: without families that only have imported outputs."""
    for family, config in STUDY.families.items():
        for group in [] if hosts_needed and config.import_only else GROUPS:
            job = JobOfGroup(kind, group, family)
            if job.targets:
                yield job


def facts_of_group(job, wildcards):
    """The facts of every session of a group."""
    return [facts for target in job.targets if (facts := needed_facts(target, job.family))]


def plan_of_group(job, wildcards):
    return "\n".join(sorted({plan.digest for plan in job.plans}))


def sessions_of_group(job):
    return [("measure_session", {"target": target, "family": job.family}) for target in job.targets]


def asked_of_group(job, wildcards):
    """What the hosts of each target of a group should have for a family."""
    return [asked_of(job.family)[target] for target in job.targets]


@cache
def asked_of(family):
    return asked_of_targets(Path(), STUDY, [family], STUDY.targets)


def deploys_of_group(job, wildcards):
    """The deploys of a group's hosts for a family; the job leaves targets without a problem unchanged."""
    for facts in job.facts:
        if facts_problems(Path(facts)):
            snakemake_adapter.plan_again(workflow, facts)
    return deploys_of(job.family)


def provisionings_of_group(job):
    """The jobs of targets that it will provision: no other host needs to be asked what is built there."""
    return [
        ("provision_target", {"target": target, "family": job.family})
        for target, facts in zip(job.targets, job.facts, strict=True)
        if is_forced(job, {}) or not has_what_is_asked(Path(facts), STUDY, target, asked_of(job.family)[target])
    ]


# A group's job stands for one job per target. Maps the name of its rule to a function that returns their rules and
# wildcards.
STANDS_FOR = {}


def planned_jobs():
    """Rule and wildcards of each job of the command."""
    for rule, wildcards in snakemake_adapter.planned_jobs(workflow):
        yield from STANDS_FOR[rule]() if rule in STANDS_FOR else [(rule, wildcards)]
