"""Load and validate the study; helpers that name files and resources. No rule."""

import json
import re
import sys
import threading
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError

from benchstudy.jobs import inputs
from benchstudy.model import paths, registry
from benchstudy.hosts.controller import announce_controller, hold_project
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.needs import programs_by_host
from benchstudy.report.studypages import STUDY_PAGES
from benchstudy.provisioning.target import deploy_files, drop_problem_facts
from benchstudy.measuring.raw import drop_problem_index
from benchstudy.model.files import write_atomically
from benchstudy.model.study import parse_study, refuse_repeated_keys

# Snakemake has nbformat tell a script's language; below it, a JSON schema library builds a grammar of IRIs that nobody
# here needs, for more than a second at each start. Without this optional part it goes on.
sys.modules.setdefault("rfc3987_syntax", None)

# A configfile directive would be merged with the one of the command line, key by key: two studies mixed into one.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


try:
    for file in workflow.configfiles if workflow.is_main_process else ():
        refuse_repeated_keys(Path(file))
    STUDY = parse_study(config)
    if workflow.is_main_process and not workflow.dryrun:
        announce_controller()
        hold_project()
        write_atomically(paths.declared_study(Path()), json.dumps(config, default=str))
        # What could not be done is tried again, but not by a run that takes what there is.
        for target in STUDY.targets if STUDY.measure else ():
            drop_problem_facts(Path("data/provision") / STUDY.study / f"{target}.json")
        for plan in STUDY.sessions() if STUDY.measure else ():
            drop_problem_index(paths.session_index(Path(), STUDY.study, plan.target, plan.family_name))
except BenchstudyError as error:
    raise WorkflowError(str(error))

PLANS = {(plan.target, plan.family_name): plan for plan in STUDY.sessions()}
FAMILIES = list(STUDY.families)
PAGES = [*FAMILIES, *STUDY_PAGES]

if not STUDY.measure:
    unmeasured = [
        f"{family} on {target}"
        for target, family in PLANS
        if not paths.session_index(Path(), STUDY.study, target, family).exists()
    ]
    if unmeasured:
        raise WorkflowError(
            f"measure is false, and study {STUDY.study!r} has no measured data of: {', '.join(unmeasured)}. "
            "Leave measure=false out to measure it, or take these families or targets out of the study."
        )


wildcard_constraints:
    study=re.escape(STUDY.study),
    target="|".join(map(re.escape, STUDY.targets)),
    family="|".join(FAMILIES),
    page="|".join(PAGES),


def end_timers():
    """Let the command end with its last job: Python waits for timers that nobody waits for any more."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()


def session_indexes(wildcards=None):
    """session.json of every session, or of one family's where the wildcards say so."""
    family = getattr(wildcards, "family", None)
    return [
        f"data/raw/{STUDY.study}/{plan_target}/{plan_family}/session.json"
        for plan_target, plan_family in PLANS
        if family in (None, plan_family)
    ]


def cases_of_family(wildcards):
    """What the study says there is to measure: its tables have a row for each case, measured or not."""
    return [plan.digest for plan in PLANS.values() if plan.family_name == wildcards.family]


def tables_of_page(wildcards):
    """The tables that a page's notebook reads: the family's own first, or those of all families."""
    if wildcards.page in STUDY_PAGES:
        families = FAMILIES
    else:
        ceilings = [c.measured.family for c in STUDY.ceilings if c.measured and c.family == wildcards.page]
        families = dict.fromkeys([wildcards.page, *ceilings])
    return [f"data/tidy/{STUDY.study}/{family}" for family in families]


def notebook_of_page(wildcards):
    """The project's own, or what the family brings."""
    return str(registry.notebook(wildcards.page, Path()))


def acknowledged_findings():
    """What pages print beside findings of lints; it belongs to no measurement, so nothing is measured again for it."""
    return [entry.model_dump_json() for entry in STUDY.acknowledge]


def provision_facts():
    """The facts of every target that is measured."""
    return [f"data/provision/{STUDY.study}/{target}.json" for target in dict.fromkeys(t for t, _ in PLANS)]


def files_below(folder, pattern):
    """Files to depend on, in a fixed order."""
    return sorted(
        str(path) for path in Path(folder).rglob(pattern) if path.is_file() and "__pycache__" not in path.parts
    )


def code_of_tables(wildcards):
    return inputs.code_of_tables(wildcards.family)


def code_of_notebook(wildcards):
    return inputs.code_of_notebook(wildcards.page, registry.notebook(wildcards.page, Path()), FAMILIES)


def code_of_page(wildcards):
    return inputs.code_of_page(wildcards.page)


def code_of_crate(wildcards):
    return inputs.code_of_crate()


# A host has many places. A job that measures or provisions there takes them all, so that no two ever overlap whatever the
# number of cores. Where a host is this very machine, the jobs that compute here take one each: they may run side by
# side, and never beside a measurement, which they would disturb. Registered here and not in the profile, because
# `--resources` on the command line replaces a profile's limits as a whole.
ALL_PLACES = 1000


def places_taken(host, wildcards):
    """All places on the hosts of the job's target, none on the others."""
    return ALL_PLACES if host in STUDY.targets[wildcards.target].roles.values() else 0


for host in STUDY.hosts:
    workflow.register_resource(f"host_{host}", ALL_PLACES)
WHOLE_HOSTS = {f"host_{host}": partial(places_taken, host) for host in STUDY.hosts}
BESIDE_NO_MEASUREMENT = {f"host_{name}": 1 for name, host in STUDY.hosts.items() if host.loopback}
