"""`benchstudy plan`: what a study would do now, and about how long that would take. Measures and writes nothing."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchstudy.measuring.progress import clock
from benchstudy.model import hints, paths, registry
from benchstudy.model.clients import StorageOfClients, client_roles
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Case
from benchstudy.model.grouping import grouped
from benchstudy.model.output import add_json, print_json
from benchstudy.model.rounding import plural
from benchstudy.model.study import SessionPlan, Study
from benchstudy.model.studyfile import in_file, load_study

_BELOW = ("data/raw", "data/provision", "data/tidy", "reports")


def add_command(commands: Any, study_help: str) -> None:
    """Add `benchstudy plan` to `commands`."""
    told = "show what a study would measure, build and write now, and how long it takes"
    plan = commands.add_parser("plan", help=told)
    plan.add_argument("study", nargs="?", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=study_help)
    plan.add_argument("--no-hosts", action="store_true", help="connect to no host; leave out what only hosts can tell")
    add_json(plan)
    plan.set_defaults(command=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    study = load_study(arguments.study)
    if study.measure:
        with in_file(arguments.study):
            study.require_fit()
    found = planned(study, paths.project_root(), look=study.measure and not arguments.no_hosts)
    if arguments.json:
        print_json(found)
    else:
        print(f"{arguments.study}: study {study.study}, {plural(len(found['sessions']), 'session')}")
        for line in _lines(found):
            print(f"  {line}")
    return 1 if found["unfit"] or any(session["problem"] for session in found["sessions"]) else 0


def planned(study: Study, root: Path, *, look: bool) -> dict[str, Any]:
    """The plan as plain data; times in seconds. `look`: ask the hosts what has to be installed and built there."""
    from benchstudy.provisioning.target import what_is_ahead

    plans = study.sessions()
    sessions = [_session(plan, root) for plan in plans]
    asked = [(p.target, p.family_name) for p in plans if not p.config.import_only] if look else []
    hosts = {name: asdict(ahead) for name, ahead in what_is_ahead(study, asked).items()}
    builds_s = sum(sum(host["builds"].values()) for host in hosts.values())
    return {
        "study": study.study,
        "sessions": sessions,
        "hosts": hosts,
        "seconds": builds_s + sum(session["seconds"] for session in sessions),
        "writes": _writes(study, plans),
        "unfit": list(_unfit_notebooks(study, root)),
    }


def _unfit_notebooks(study: Study, root: Path) -> Iterator[str]:
    """Why `report` would refuse notebooks of the study's pages."""
    from benchstudy.jobs.inputs import require_notebook
    from benchstudy.report.study.studypages import STUDY_PAGES

    for page in (*study.families, *STUDY_PAGES):
        try:
            require_notebook(registry.notebook(page, root))
        except BenchstudyError as error:
            yield f"no page can be made of {error}"


def _writes(study: Study, plans: list[SessionPlan]) -> dict[str, list[str]]:
    """Folders by host, and those of this project as `here`, which this machine may be called as a host, too."""
    writes = {"here": [f"{folder}/{study.study}" for folder in _BELOW]}
    for name, of_host in grouped((host, plan) for plan in plans for host in plan.hosts).items():
        place = "host here" if name == "here" and not study.hosts[name].loopback else name
        writes.setdefault(place, []).extend([study.hosts[name].work_dir, *_places(of_host, name)])
    return writes


def _session(plan: SessionPlan, root: Path) -> dict[str, Any]:
    from benchstudy.measuring import confirmed
    from benchstudy.measuring.expected import Expected, expected
    from benchstudy.measuring.raw import TrialStore

    store = TrialStore(plan.raw(root))
    problem = ""
    try:
        confirmed.confirm(root, [store.folder])  # as the measuring command does: a lost trial is not one to measure
        found = expected(plan, store) if plan.study.measure else Expected(0, 0, len(store.trials()), 0.0, 0, "")
    except BenchstudyError as error:
        found, problem = Expected(0, 0, 0, 0.0, 0, ""), str(error)
    of = {"family": plan.family_name, "target": plan.target, "timeout_s": plan.config.timeout}
    return {**of, **asdict(found), "problem": problem}


def _places(plans: list[SessionPlan], host: str) -> list[str]:
    """Folders on the host that cases write to, besides the work folder."""
    definitions = [case.definition for plan in plans for case in plan.cases if host in _hosts_of(plan, case)]
    named = (part.get("path") for d in definitions for part in (d, d.get("backend", {})) if isinstance(part, Mapping))
    return sorted({path for path in named if isinstance(path, str) and path.startswith(("/", "~"))})


def _hosts_of(plan: SessionPlan, case: Case) -> Iterable[str]:
    """The hosts that a case may write to."""
    if not isinstance(plan.config, StorageOfClients):
        return plan.hosts
    return [plan.roles[role] for role in (client_roles(case.levels, plan.roles) if plan.config.clients else ["sut"])]


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    for session in found["sessions"]:
        yield f"{session['family']} on {session['target']}: {_measured(session)}"
    for name, host in found["hosts"].items():
        if host["unknown"]:
            yield f"{name}: cannot tell what has to be built there: {host['unknown']}"
        if host["builds"]:
            each = ", ".join(f"{program} {clock(takes_s)}" for program, takes_s in host["builds"].items())
            yield f"builds on {name}, about {clock(sum(host['builds'].values()))}: {each}"
        if host["installs"]:
            yield f"installs on {name}: {', '.join(host['installs'])}"
        if host["downloads"] or host["installs"]:
            sources = [f"{of} of {program}" for program, of in host["downloads"].items()]
            sources += ["packages with their dependencies"] if host["installs"] else []
            yield f"downloads on {name}: {', '.join(sources)}"
    for place, folders in found["writes"].items():
        yield f"writes {'here' if place == 'here' else f'on {place}'}: {', '.join(folders)}"
    if not any(session["untold"] for session in found["sessions"]):
        total = f"about {clock(found['seconds'])}"
    elif found["seconds"]:
        total = f"at least {clock(found['seconds'])}"
    else:
        total = "not known before the first trials"
    yield f"in total {total}, plus a few seconds per page"
    yield from found["unfit"]


def _measured(session: Mapping[str, Any]) -> str:
    if session["problem"]:
        return str(session["problem"])
    if not session["trials"]:
        return f"nothing to measure, {plural(session['adopted'], 'trial')} adopted"
    most = f" (at most {session['most']})" if session["most"] > session["trials"] else ""
    told = [f"about {clock(session['seconds'])} as {session['source']}"] if session["source"] else []
    if session["untold"]:
        told.append(f"{session['untold']} with no declared time, at most {clock(session['timeout_s'])} each")
    return f"{plural(session['trials'], 'trial')} to measure{most}, {session['adopted']} adopted: {', and '.join(told)}"
