"""Load and validate the study; helpers that name files and resources. No rules."""

import re
import sys
from functools import cache, partial
from pathlib import Path

from snakemake.exceptions import WorkflowError

from benchstudy.jobs import inputs, made, snakemake_adapter
from benchstudy.jobs.found import what_was_found
from benchstudy.jobs.running import begin, not_confirmed
from benchstudy.measuring import confirmed
from benchstudy.measuring.raw import index_problem
from benchstudy.measuring.sealed import has_trials
from benchstudy.measuring.sessionindex import is_held
from benchstudy.model import groups, hints, paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.names import nearest
from benchstudy.model.needs import programs_by_host
from benchstudy.model.rounding import listed
from benchstudy.model.study import is_stored, parse_study, with_systems
from benchstudy.provisioning.target import (
    asked_of_targets,
    facts_problems,
    files_that_install,
    has_what_is_asked,
    is_of_other_places,
    may_build,
)
from benchstudy.report.study.studypages import STUDY_PAGES

snakemake_adapter.check_place(workflow)
snakemake_adapter.end_on_sigterm()
snakemake_adapter.end_with_ctrl_c(workflow)
snakemake_adapter.print_short_lines(workflow)
snakemake_adapter.end_in_words_on_errors()
snakemake_adapter.accept_clocks_that_differ()

# A configfile directive would be merged, key by key, with the command line's: a mix of two studies.
if not snakemake_adapter.names_study(workflow):

    configfile: str(hints.EMBEDDED)


hints.announce(workflow.configfiles)

try:
    # Jobs get this one: a system's definition may have changed by the time they start.
    FILE = Path(workflow.configfiles[-1]) if workflow.configfiles else None
    DECLARED = with_systems(config, FILE.parent if FILE else None)
    STUDY = parse_study(DECLARED, stored=FILE is not None and is_stored(FILE))
    if STUDY.measure:
        STUDY.require_fit()
except BenchstudyError as error:
    raise WorkflowError(str(error))

PLANS = {(plan.target, plan.family_name): plan for plan in STUDY.sessions()}
# Groups of a study with many targets, each of which has its own jobs; empty for all other studies.
GROUPS = groups.groups(STUDY)
FAMILIES = list(STUDY.families)
PAGES = [*FAMILIES, *STUDY_PAGES]
WITH_FIRST_PAGE = [str(file) for file in paths.with_first_page(Path(), STUDY.study)]
SESSIONS_HELD = f"data/tidy/{STUDY.study}/sessions-held.txt"

KNOWN_PAGES = ["reports/index.html", *(f"reports/{STUDY.study}/{name}.html" for name in ("index", *PAGES))]
for page in snakemake_adapter.asked_pages(workflow):
    if page not in KNOWN_PAGES:
        raise WorkflowError(f"{page}: study {STUDY.study!r} has no such page: {nearest(page, KNOWN_PAGES)}")

# Jobs are scripts beside this workflow, under Snakemake's own interpreter, whatever the PATH.
scripts = paths.nearest(Path(), "workflow/scripts")
shell.prefix('script() {{ name=$1; shift; {sys.executable:q} {scripts:q}/"$name" "$@"; }}; ')


wildcard_constraints:
    study=re.escape(STUDY.study),
    target="|".join(map(re.escape, STUDY.targets)),
    family="|".join(FAMILIES),
    page="|".join(PAGES),


def session_index(target, family):
    return f"data/raw/{STUDY.study}/{target}/{family}/session.json"


def is_unlisted(target, family):
    """Whether a session left trials but no session.json: it was killed, or a trial was discarded since."""
    index = Path(session_index(target, family))
    return not index.exists() and has_trials(index.parent)


# Without measuring. By their number among all sessions, which stays the same when another one of them is listed.
UNLISTED = {number: plan for number, plan in enumerate(() if STUDY.measure else PLANS, start=1) if is_unlisted(*plan)}


def session_indexes(wildcards):
    """session.json of every session, or of one family's if the wildcards name one."""
    family = getattr(wildcards, "family", None)
    plans = [(target, plan_family) for target, plan_family in PLANS if family in (None, plan_family)]
    unmeasured = [
        f"{plan[1]} on {plan[0]}"
        for plan in plans
        if not (STUDY.measure or plan in UNLISTED.values() or Path(session_index(*plan)).exists())
    ]
    if unmeasured:
        snakemake_adapter.refuse_to_plan(
            f"measure is false, and study {STUDY.study!r} has no measured data of: {listed(unmeasured, 20)}. "
            "Leave measure=false out to measure it, or take these families or targets out of the study."
        )
    return [session_index(*plan) for plan in plans]


@cache
def is_altered(output, record, below=Path()):
    """Whether an output that exists, or what is made with it, is not as it was made. Says so once, and writes nothing."""
    found = made.altered(record, below) if Path(output).exists() else []
    if found:
        snakemake_adapter.say(f"Made again, because altered or removed: {listed([*map(str, found)], 3)}")
    return bool(found)


def sessions_of_tables(wildcards):
    """Indexes of the sessions. Tables that were altered or truncated since they were made are made again.

    So are those of an index that came with an older time than the tables have, as `rsync -a` brings it.
    """
    tables = f"data/tidy/{STUDY.study}/{wildcards.family}"
    others = made.altered(paths.read_for_tables(Path(tables)), Path())
    if others or is_altered(tables, paths.made_tables(Path(tables)), Path(tables)):
        snakemake_adapter.plan_again(workflow, tables)
    return session_indexes(wildcards)


def sessions_of_index(wildcards):
    """Indexes of the sessions. What is made with the first page is made again if it was altered."""
    page = WITH_FIRST_PAGE[0]
    if is_altered(page, paths.made(Path(), STUDY.study, paths.FIRST_PAGE)):
        snakemake_adapter.plan_again(workflow, page)
    return session_indexes(wildcards)


@cache
def doubtful_files():
    """Raw files that may have changed since they were last compared. Reads and writes none of them."""
    found = confirmed.doubtful(Path(), STUDY.stores(Path()))
    if found:
        snakemake_adapter.say(f"Raw files to compare with their SHA-256: {listed(found, 3)}")
    return found


def sessions_to_confirm(wildcards):
    """Indexes of the sessions. A doubtful raw file makes sessions be confirmed again, whatever else there is to do."""
    if doubtful_files():
        snakemake_adapter.plan_again(workflow, SESSIONS_HELD)
    return session_indexes(wildcards)


def sessions_to_pack(wildcards):
    """Indexes of the sessions. A doubtful raw file makes the crate be packed again, and so does an altered crate."""
    crate = str(paths.crate(Path(), STUDY.study))
    if doubtful_files() or is_altered(crate, paths.made(Path(), STUDY.study, paths.CRATE)):
        snakemake_adapter.plan_again(workflow, crate)
    return session_indexes(wildcards)


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


def facts_of_group(job, wildcards):
    """The facts of every session of a group."""
    return [facts for target in job.targets if (facts := needed_facts(target, job.family))]


def deploys_of_group(job, wildcards):
    """The deploys of a group's hosts for a family; the job leaves targets without a problem unchanged."""
    for facts in job.facts:
        if facts_problems(Path(facts)):
            snakemake_adapter.plan_again(workflow, facts)
    return deploys_of(job.family)


def plan_of_group(job, wildcards):
    return "\n".join(sorted({plan.digest for plan in job.plans}))


def asked_of_group(job, wildcards):
    """What the hosts of each target of a group should have for a family."""
    return [asked_of(job.family)[target] for target in job.targets]


@cache
def asked_of(family):
    return asked_of_targets(Path(), STUDY, [family], STUDY.targets)


def facts_file(target, family):
    """The file that says what a target's hosts have for a family."""
    return str(paths.provision_facts(Path(), STUDY.study, target, family))


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
    return [relative(file) for file in files_that_install(Path(), STUDY, [family])]


def hosts_of_target(wildcards):
    """Which host plays which role: a different host must be provisioned too."""
    return STUDY.targets[wildcards.target].roles


def programs_of_family(wildcards):
    """The programs that a family's sessions start on the hosts: a new server or generator may need installing."""
    return programs_by_host(STUDY, wildcards.target, wildcards.family)


def cases_of_family(wildcards):
    """What the study says to measure, and how to read it: a table has one row per case, measured or not.

    What counts as disturbed is marked in tables.
    """
    plans = [plan for plan in PLANS.values() if plan.family_name == wildcards.family]
    reading = plans[0].family.reading + plans[0].disturbance.model_dump_json()
    return [plan.digest + reading for plan in plans]


def tables_of_page(wildcards):
    """The tables that a page's notebook reads: the family's own first, or those of all families.

    A page whose notebook failed is made again; Snakemake takes the last good one, which it has put back, for a new one.
    So is a page that was altered, with its figures, tables and executed notebook.
    """
    page = f"reports/{STUDY.study}/{wildcards.page}.html"
    unfinished = paths.unfinished_page(Path(), STUDY.study, wildcards.page).exists()
    if unfinished or is_altered(page, paths.made(Path(), STUDY.study, wildcards.page)):
        snakemake_adapter.plan_again(workflow, page)
    return [f"data/tidy/{STUDY.study}/{family}" for family in families_of_page(wildcards.page)]


def families_of_page(page):
    """The families whose tables a page shows: its own first, then those that measure its ceilings."""
    if page in STUDY_PAGES:
        return FAMILIES
    ceilings = [c.measured.family for c in STUDY.ceilings if c.measured and c.family == page]
    return list(dict.fromkeys([page, *ceilings]))


def files_of_pages():
    """Every page with its figures, tables and executed notebook, and what is made from all of them."""
    each = ("{page}.html", "{page}", "notebooks/{page}.ipynb")
    return [*WITH_FIRST_PAGE, *(f"reports/{STUDY.study}/{file.format(page=page)}" for page in PAGES for file in each)]


def listed_studies(wildcards):
    """The first page of each study that has reports, with this one's. A list that was altered is made again."""
    if is_altered("reports/index.html", paths.made_list(Path())):
        snakemake_adapter.plan_again(workflow, "reports/index.html")
    return sorted({*map(str, paths.first_pages(Path())), f"reports/{STUDY.study}/index.html"})


def notebook_of_page(wildcards):
    """The project's own notebook, the one that ships, or the family's."""
    return str(registry.notebook(wildcards.page, Path()))


def declaration_of_page(wildcards):
    """What pages show of the study. It is not part of a measurement, so changes measure nothing."""
    return inputs.declaration_of_page(STUDY, families_of_page(wildcards.page))


def provision_facts():
    """The facts of every target for each family that is measured there."""
    return [facts_file(target, family) for (target, family), plan in PLANS.items() if not plan.config.import_only]


# A family's jobs come before those of the next one, so that its page is ready early. First come the families for which
# no program is built, and of these, the ones whose pages show no other family.
IN_TURN = sorted(FAMILIES, key=lambda family: (may_build(STUDY, family), len(families_of_page(family))))


def turn_of_family(wildcards):
    """The priority of a family's jobs; higher ones come earlier."""
    return turn_of(wildcards.family)


def turn_of(family):
    return len(IN_TURN) - IN_TURN.index(family)


def turn_of_tables(wildcards):
    """The priority of a family's tables: before all other jobs, and in the opposite order.

    Tables of many trials take the longest, and those of the last families longer than the others. Other jobs run beside
    them, but nothing runs beside the last job.
    """
    return len(IN_TURN) + IN_TURN.index(wildcards.family) + 1


def turn_of_page(wildcards):
    """The priority of a page: its family's, or the lowest for a page of the whole study, which needs all families."""
    return turn_of(wildcards.page) if wildcards.page in IN_TURN else 0


def relative(file):
    """The path that rules use: relative for the project's files, unchanged for others."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def files_below(folder, pattern):
    """Files below a folder to depend on, in a fixed order."""
    return sorted(
        str(path) for path in Path(folder).rglob(pattern) if path.is_file() and "__pycache__" not in path.parts
    )


def code_of_tables(wildcards):
    return inputs.code_of_tables(wildcards.family)


def content_of_tables(wildcards):
    return inputs.content_of(code_of_tables(wildcards))


def code_of_page(wildcards):
    page = wildcards.page
    return inputs.code_of_page(page, registry.notebook(page, Path()), families_of_page(page))


PUBLISHED = files_below(paths.published(Path()), "*.csv")


def content_of_page(wildcards):
    return inputs.content_of([notebook_of_page(wildcards), *PUBLISHED, *code_of_page(wildcards)])


def code_of_crate(wildcards):
    return inputs.code_of_crate()


def content_of_crate(wildcards):
    return inputs.content_of(code_of_crate(wildcards))


# A host, or a group of hosts if there are many, has many places. A job that measures or provisions there takes all of
# them, so that two such jobs never overlap, whatever the number of cores. If a host is this machine, jobs that compute
# here take one place each: they may run side by side, but never beside a measurement, which they would disturb. This
# is not in the profile, because `--resources` on the command line replaces all of a profile's limits.
ALL_PLACES = 1000
PLACES = groups.places(STUDY)


def distance_of_blocks(wildcards):
    """The least time from the start of one block to the start of the next."""
    return f"{PLANS[wildcards.target, wildcards.family].blocks_apart_s:g}s"


def places_taken(hosts, wildcards):
    """All places of `hosts` if the job's target uses one of them, else none."""
    return 0 if hosts.isdisjoint(STUDY.targets[wildcards.target].roles.values()) else ALL_PLACES


snakemake_adapter.limit_resources(workflow, dict.fromkeys(PLACES, ALL_PLACES))
WHOLE_HOSTS = {name: partial(places_taken, hosts) for name, hosts in PLACES.items()}
# Not a resource, but `snakemake -n` should show it, because it decides how long a session takes.
SPREAD = {"blocks_apart": distance_of_blocks} if any(plan.blocks_apart_s for plan in PLANS.values()) else {}
BESIDE_NO_MEASUREMENT = {name: 1 for name, hosts in PLACES.items() if any(STUDY.hosts[host].loopback for host in hosts)}


def is_forced(job, wildcards):
    return int(snakemake_adapter.is_forced(workflow, [job.name, *job.indexes, *job.facts]))


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


def jobs_of_groups(kind, *, hosts_needed):
    """One job per group and family. `hosts_needed`: without families that only have imported outputs."""
    for family, config in STUDY.families.items():
        for group in [] if hosts_needed and config.import_only else GROUPS:
            job = JobOfGroup(kind, group, family)
            if job.targets:
                yield job


# A group's job stands for one job per target. Maps the name of its rule to a function that returns their rules and
# wildcards.
STANDS_FOR = {}


def planned_jobs():
    """Rule and wildcards of each job of the command."""
    for rule, wildcards in snakemake_adapter.planned_jobs(workflow):
        yield from STANDS_FOR[rule]() if rule in STANDS_FOR else [(rule, wildcards)]


def sessions_of_group(job):
    return [("measure_session", {"target": target, "family": job.family}) for target in job.targets]


def provisionings_of_group(job):
    """The jobs of targets that it will provision: no other host needs to be asked what is built there."""
    return [
        ("provision_target", {"target": target, "family": job.family})
        for target, facts in zip(job.targets, job.facts, strict=True)
        if is_forced(job, {}) or not has_what_is_asked(Path(facts), STUDY, target, asked_of(job.family)[target])
    ]
