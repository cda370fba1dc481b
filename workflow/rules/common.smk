"""Load and validate the study, and name what several stages read. No rules."""

import re
import sys
from functools import cache, partial
from pathlib import Path

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
from benchstudy.model.studyfile import in_file, is_stored, parse_study, with_systems
from benchstudy.provisioning.target import (
    asked_of_targets,
    facts_problems,
    files_that_install,
    has_what_is_asked,
    is_of_other_places,
    may_build,
    pins_and_systems,
)
from benchstudy.report.study.studypages import STUDY_PAGES

snakemake_adapter.collect_rarely()
snakemake_adapter.end_in_words_on_errors(workflow)
snakemake_adapter.check_place(workflow)
snakemake_adapter.end_on_sigterm()
snakemake_adapter.end_with_ctrl_c(workflow)
snakemake_adapter.print_short_lines(workflow)
snakemake_adapter.accept_clocks_that_differ()
snakemake_adapter.leave_indexes_of_failed_jobs()

# A configfile directive would be merged, key by key, with the command line's: a mix of two studies.
if not snakemake_adapter.names_study(workflow):

    configfile: str(hints.EMBEDDED)


hints.announce(workflow.configfiles, snakemake_adapter.asked_profile(workflow))

# Jobs get this one: a system's definition may have changed by the time they start.
FILE = Path(workflow.configfiles[-1])
with in_file(FILE, snakemake_adapter.given_config(workflow)):
    DECLARED = with_systems(config, FILE.parent)
    STUDY = parse_study(DECLARED, stored=is_stored(FILE))
    if STUDY.measure:
        STUDY.require_fit()

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
        raise BenchstudyError(f"{page}: study {STUDY.study!r} has no such page: {nearest(page, KNOWN_PAGES)}")

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


@cache
def doubtful_files():
    """Raw files that may have changed since they were last compared. Reads and writes none of them."""
    found = confirmed.doubtful(Path(), STUDY.stores(Path()))
    if found:
        snakemake_adapter.say(f"Raw files to compare with their SHA-256: {listed(found, 3)}")
    return found


def facts_file(target, family):
    """The file that says what a target's hosts have for a family."""
    return str(paths.provision_facts(Path(), STUDY.study, target, family))


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


def provision_facts():
    """The facts of every target for each family that is measured there."""
    return [facts_file(target, family) for (target, family), plan in PLANS.items() if not plan.config.import_only]
