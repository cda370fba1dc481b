"""`benchstudy check`: try every host of a study without measuring anything."""

import argparse
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, chdir, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchstudy.commands.cases import from_to
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.remote import Remote, RemoteError
from benchstudy.measuring import neighbours
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.measuring.raw import TrialStore
from benchstudy.model import interference, paths, registry, rounding
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.criteria import DISTURBED
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.errors import BenchstudyError, as_line, plain
from benchstudy.model.host import Host
from benchstudy.model.output import print_json
from benchstudy.model.study import SessionPlan, Study
from benchstudy.model.studyfile import load_study, unbounding
from benchstudy.provisioning.target import deploy_files

_MIN_FREE_BYTES = 1 << 30
_MAX_CLOCK_OFFSET_S = 1.0
_LOOKED_AT_S = 1.0
_SESSIONS = 4  # on one connection: the keeper, the desk, a command, and a question beside it
_MOST_AT_ONCE = 32  # hosts; checking one is mostly waiting for it
# True: fine. False: a problem. The others spoil further trials: what is temporary, and a program that is another one
# than before. Then what was found; what to do.
Finding = tuple[bool | Literal["busy", "changed"], str, str]
_WORDS: dict[bool | str, str] = {True: "ok", False: "PROBLEM", "busy": "BUSY", "changed": "CHANGED"}


def check_study(arguments: argparse.Namespace) -> int:
    """Check every host of the study, and with `--try` every case. Prints findings one by one, or as JSON at the end."""
    study = load_study(arguments.study)
    with _in_project_of(arguments.study):
        return _checked(study, arguments)


def _in_project_of(file: Path) -> AbstractContextManager[None]:
    """The project of the study's file as the working folder, if this folder is in no project."""
    with suppress(FileNotFoundError):
        paths.project_root()
        return nullcontext()
    with suppress(FileNotFoundError):
        return chdir(paths.project_root(file.resolve().parent))
    return nullcontext()


def _checked(study: Study, arguments: argparse.Namespace) -> int:
    plans = study.sessions()
    trials = {
        "min": sum(plan.trials(plan.fewest_blocks) for plan in plans),
        "max": sum(plan.trials(plan.blocks) for plan in plans),
    }
    say: Callable[[str], None] = (
        (lambda line: None) if arguments.json else (lambda line: print(plain(line), flush=True))
    )
    say(
        f"{arguments.study}: study {study.study}, {rounding.plural(len(plans), 'session')}, "
        f"{from_to(trials['min'], trials['max'], 'trial')}"
    )
    unfit = study.unfit() if study.measure else []
    for text in unfit:
        say(f"  PROBLEM {text}")
    notes = [f"{text}. Only a case of an imported output may match it" for text in unbounding(study)]
    for text in notes:
        say(f"  note    {text}")
    facts: dict[str, Any] = {"study": study.study, "sessions": len(plans), "trials": trials, "unfit": unfit}
    facts |= {"notes": notes}
    facts |= {"hosts": [], "tried": []}
    if not arguments.no_hosts:
        facts["hosts"] = list(_checked_hosts(study, plans, say))
        results = [found["result"] for found in facts["hosts"]]
        bad = len(unfit) + results.count("problem")
        told = f", {results.count('busy')} of them busy" if "busy" in results else ""
        told += f"; {rounding.plural(results.count('changed'), 'program')} changed" if "changed" in results else ""
        untried = "; no case was tried" if arguments.trying else ""
        say(f"{rounding.plural(bad, 'problem')}{untried}" if bad else f"every host is ready{told}")
        if arguments.trying and not bad:
            facts["tried"] = list(_tried(study, say))
    problems = [part for part in (*facts["hosts"], *facts["tried"]) if part["result"] == "problem"]
    facts["problems"] = len(unfit) + len(problems)
    if arguments.json:
        print_json(facts)
    return 1 if facts["problems"] else 0


def _checked_hosts(study: Study, plans: Iterable[SessionPlan], say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    of_hosts: dict[str, list[SessionPlan]] = {host: [] for plan in plans for host in plan.hosts}
    for plan in plans:
        for host in of_hosts.keys() & plan.roles.values():
            of_hosts[host].append(plan)
    pool = ThreadPoolExecutor(min(_MOST_AT_ONCE, len(of_hosts) or 1))
    try:
        findings_of_hosts = pool.map(partial(check_host, study), of_hosts, of_hosts.values())
        for name, findings in zip(of_hosts, findings_of_hosts, strict=True):
            for fine, text, fix in findings:
                say(f"  {name}: {_WORDS[fine]:7} {text}" + (f"\n      -> {fix}" if fix else ""))
                yield {"host": name, "result": _WORDS[fine].lower(), "found": text, "remedy": fix}
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for a thousand hosts


def _tried(study: Study, say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    from benchstudy.commands.trying import try_study

    logging.getLogger("benchstudy").addHandler(logging.NullHandler())  # each failure is printed once, below
    failed = 0
    for fine, came_of_it, tried in try_study(study, paths.project_root()):
        failed += not fine
        say(f"  {_WORDS[fine]:7} {tried}: {came_of_it}")
        yield {"case": tried, "result": _WORDS[fine].lower(), "outcome": came_of_it}
    say(f"{failed} could not be measured" if failed else "every case can be measured")


def check_host(study: Study, name: str, plans: Sequence[SessionPlan]) -> list[Finding]:
    """Check key, login, Python, work folder, space and clock, then what each family measured there (`plans`) needs."""
    host = study.hosts[name]
    try:
        with Remote(name, host) as other, ExitStack() as sessions:  # raises where the SSH server allows fewer
            for _ in range(_SESSIONS):
                sessions.enter_context(other.open(["cat"]))
        with Remote(name, host) as remote:
            findings: list[Finding] = [(True, "reached; its host key matches the pinned one; the login works", "")]
            agent = HostAgent.deploy(
                remote,
                lease_s=study.thresholds.lease,
                reconnect_s=0,
                on_event=lambda _: None,
                extensions=list(dict.fromkeys(folder for plan in plans for folder in plan.family.extensions)),
            )
            return (
                findings
                + _check_sudo(remote, host)
                + _check_machine(agent)
                + _check_neighbours(agent, study.disturbance or DisturbancePolicy())
                + _check_families(plans, agent)
            )
    except BenchstudyError as error:
        return [(False, str(error).removeprefix(f"{name}: ").removeprefix(f"{name}, "), "")]  # each line begins with it


def _check_sudo(remote: Remote, host: Host) -> list[Finding]:
    """Whether provisioning may use sudo as the study says. Root needs none."""
    if not host.sudo or remote.is_root():
        return []
    refused = remote.sudo_refused()
    if not refused:
        return [(True, "password-less sudo works", "")]
    fix = "allow every command with password-less sudo there, or remove `sudo: true` and install packages by hand"
    return [(False, f"hosts.{remote.name}.sudo: true, but the host refuses it: {refused}", fix)]


def _check_machine(agent: HostAgent) -> list[Finding]:
    findings: list[Finding] = []
    free = agent.call("path-info", agent.work_dir)["free_bytes"]
    enough = free is not None and free >= _MIN_FREE_BYTES
    findings.append(
        (
            enough,
            f"{agent.work_dir}: {rounding.shown((free or 0) / 1e9, trim=True)} GB free",
            "" if enough else "free at least 1 GiB",
        )
    )
    offset = agent.clock().offset_s
    steady = abs(offset) <= _MAX_CLOCK_OFFSET_S
    findings.append((steady, f"clock {offset:+.3f} s off this machine's", "" if steady else "synchronise it (chrony)"))
    return findings


def _check_neighbours(agent: HostAgent, policy: DisturbancePolicy) -> list[Finding]:
    """Whether others use the host now."""
    seen = interference.seen(neighbours.watch(agent, _LOOKED_AT_S))
    found = interference.worst(seen)
    if found is None or found.share <= min(policy.limit, DISTURBED):
        (host,) = seen.values()
        cpus = rounding.plural(host["cpus"], "processor")
        return [(True, f"quiet: other programs use {rounding.few(host['others_cpu'])} of {cpus}", "")]
    names = f" ({', '.join(found.busiest)})" if found.busiest else ""
    cpus = rounding.plural(found.cpus, "processor")
    said = {
        "others_cpu": f"other programs use {rounding.few(found.others_cpu)} of {cpus} now{names}",
        "steal": f"the hypervisor takes {rounding.percent(found.share)} of the processors now",
        "others_disk": f"other programs keep the disks busy {rounding.percent(found.share)} of the time now",
    }
    if found.share <= policy.limit:
        return [(True, f"{said[found.what]}, within the study's limit of {rounding.percent(policy.limit)}", "")]
    return [("busy", said[found.what], "end it before you measure, or declare `disturbance: {then: repeat}`")]


def _check_families(plans: Sequence[SessionPlan], agent: HostAgent) -> list[Finding]:
    findings: list[Finding] = []
    for plan in plans:
        roles = [role for role, name in plan.roles.items() if name == agent.remote.name]
        check = HostCheck(agent, roles, plan.roles, partial(_is_provisioned, plan))
        _ask_family(plan, check)
        check.services(plan.config.services)
        found = [*check.findings, *_changed_programs(plan, roles, agent)]
        findings += [(fine, f"{plan.family_name}: {text}", fix) for fine, text, fix in found]
    return findings


def _is_provisioned(plan: SessionPlan, program: str) -> bool:
    """Whether provisioning may install a program: a system has it, the family's own deploy speaks of it, or the study
    lists packages, one of which may have it.
    """
    if getattr(plan.config, "packages", ()):
        return True
    for found in Catalogue([Path(folder) for folder in plan.study.systems]).sound():
        of_packages = (name for package in found.system.packages.values() for name in package.programs)
        if program in (*found.system.builds, *of_packages):
            return True
    try:
        root = paths.project_root()
    except FileNotFoundError:
        root = paths.shipped()
    word = re.compile(rf"\b{re.escape(program)}\b")
    return any(word.search(deploy.read_text("utf-8", "replace")) for deploy in deploy_files(root, [plan.family_name]))


def _ask_family(plan: SessionPlan, check: HostCheck) -> None:
    """Let the family check the host. A defect of its code is a finding, and ends no other check."""
    try:
        plan.family.check(plan.config, check)
    except RemoteError:  # nothing else can be checked on this host either
        raise
    except BenchstudyError as error:
        check.problem(str(error), "")
    except Exception as error:
        folder = registry.folder(plan.family_name)
        said = as_line(error, folder)
        check.problem(f"its check of hosts fails: {said}", f"correct the code of the family, {folder}")


def _changed_programs(plan: SessionPlan, roles: Container[str], agent: HostAgent) -> Iterator[Finding]:
    """Programs and files that are not those with which the study's cases were measured last.

    Nothing is measured again because of them, and further trials of a case would mix two versions.
    """
    try:
        root = paths.project_root()
    except FileNotFoundError:
        return
    measured = _last_programs(plan, TrialStore(plan.raw(root)), roles)
    now = agent.call("digests", *measured) if measured else {}
    for path, by_content in measured.items():
        cases = sum(count for content, count in by_content.items() if content != now[path])
        if now[path] and cases:
            yield (
                "changed",
                f"{path} is not what {rounding.plural(cases, 'case')} were measured with",
                "their trials count as before; further ones would mix both: discard them, or make the version a factor",
            )


def _last_programs(plan: SessionPlan, store: TrialStore, roles: Container[str]) -> dict[str, Counter[str]]:
    """By path and SHA-256: with how many of the plan's cases, by the last trial of each, that file was measured."""
    definitions = {case.id: case.definition_sha256 for case in plan.cases}
    discarded = store.discards()
    last = {
        trial.facts.case: trial
        for trial in store.trials()
        if definitions.get(trial.facts.case) == trial.facts.definition_sha256 and trial.facts.uuid not in discarded
    }
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in last.values():
        for role, path, sha256 in trial.record.programs:
            if role in roles:
                found[path][sha256] += 1
    return found
