"""The commands that work in a project now: which may go on side by side, and what each tells the others.

Hosts and raw stores have locks of their own, which hold against everybody. Here two commands of one project are told
apart before either begins: the same study's files are made by one at a time, a host is measured for one at a time, and
nothing else computes on a machine that is being measured unless somebody says `beside=true`, which its trials record.
"""

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchstudy.hosts.controller import announce_controller
from benchstudy.jobs.preloaded import JOBS_ELSEWHERE
from benchstudy.measuring import confirmed, sealed
from benchstudy.measuring.progress import clock, forget_killed, under_way
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import WHERE_LOCKS_HOLD, disk_trouble, keeps_locks, lock_if_free, now, write_atomically
from benchstudy.model.study import Study
from benchstudy.provisioning.target import may_build, what_is_ahead

THIS_MACHINE = "this machine"
# Rules that use the hosts of a target; all others compute on this machine, but for those that only look.
_PROVISION = "provision_target"
_ON_HOSTS = {_PROVISION, "measure_session"}
_NO_MATTER_OF_RAW = {_PROVISION, "provision"}
_MOST_HOSTS_TOLD = 8
_ONLY_LOOK = {"confirm_sessions", "report", "crate", "measure", "provision"}


@dataclass(frozen=True)
class Use:
    """What a command uses for as long as it runs. `hosts`: addresses of those that it provisions or measures.

    `provisions`: targets and families that it provisions.
    """

    pid: int
    study: str
    since: str
    hosts: list[str]
    computes: bool
    beside: bool
    provisions: Sequence[tuple[str, str]] = ()
    machine: str = field(default_factory=socket.gethostname)


def begin(
    study: Study,
    declared: Mapping[str, Any],
    jobs: Iterable[tuple[str, Mapping[str, str]]],
    say: Callable[[str], None],
    *,
    elsewhere: bool = False,
) -> None:
    """Called once by a command that is about to run `jobs` (rule and wildcards), in the project's folder.

    Until its process ends the study is its own; jobs find the study as `declared`. What will be built is told by `say`.
    `elsewhere`: an executor brings the jobs to other machines.
    Raises BenchstudyError that names the command which is in the way, its study, and when it may be done; RawAltered
    that names raw files.
    """
    try:
        use = _begin(study, declared, list(jobs), elsewhere)
        for line in _builds_ahead(study, use.provisions):
            say(line)
    except OSError as error:
        raise BenchstudyError(disk_trouble(error) or str(error)) from error


def _begin(
    study: Study, declared: Mapping[str, Any], jobs: Sequence[tuple[str, Mapping[str, str]]], elsewhere: bool
) -> Use:
    root = Path.cwd()
    rules = {rule for rule, _ in jobs}
    targets = {wildcards["target"] for rule, wildcards in jobs if rule in _ON_HOSTS}
    use = Use(
        pid=os.getpid(),
        study=study.study,
        since=now(),
        hosts=sorted({_address(study, host) for target in targets for host in study.targets[target].roles.values()}),
        computes=bool(rules - _ON_HOSTS - _ONLY_LOOK),
        beside=study.beside,
        provisions=[(wildcards["target"], wildcards["family"]) for rule, wildcards in jobs if rule == _PROVISION],
    )
    paths.local_state(root).mkdir(exist_ok=True)
    if not keeps_locks(paths.local_state(root)):
        raise BenchstudyError(
            f"{root}: its file system keeps no locks, so nothing would keep two commands apart. {WHERE_LOCKS_HOLD}"
        )
    if elsewhere:
        _refuse_this_machine(study, use)
        os.environ[JOBS_ELSEWHERE] = "1"
    _hold(root, use)
    announce_controller(paths.controller_beat(root, study.study), study.thresholds.lease)
    forget_killed(paths.progress(root, study.study), elsewhere=True)
    _mend_indexes(root, study)
    if rules - _NO_MATTER_OF_RAW:
        confirmed.confirm(root, study.stores(root))
    write_atomically(paths.declared_study(root, study.study), json.dumps(declared, default=str))
    indexes = (paths.session_index(Path(), study.study, plan.target, plan.family_name) for plan in study.sessions())
    write_atomically(paths.declared_sessions(root, study.study), "".join(f"{index}\n" for index in indexes))
    return use


def _refuse_this_machine(study: Study, use: Use) -> None:
    if THIS_MACHINE in use.hosts:
        names = " and ".join(repr(name) for name, host in study.hosts.items() if host.loopback)
        raise BenchstudyError(
            f"host {names} of study {study.study!r} is loopback: whatever machine a session runs on, which an executor "
            "chooses. Write which one you mean in the place of `loopback: true`, such as `address: bench1.example`, or "
            "leave --executor and --profile out to measure this machine"
        )


def _builds_ahead(study: Study, provisions: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What will be built on which host, and about how long that takes. Families that build nothing are not asked."""
    building = [(target, family) for target, family in provisions if may_build(study, family)]
    try:
        found = what_is_ahead(study, building)
    except BenchstudyError:  # the job will say it
        return
    alike: dict[str, list[str]] = {}
    for host, ahead in found.items():
        if ahead.builds:
            names = ", ".join(f"{name} {clock(takes_s)}" for name, takes_s in ahead.builds.items())
            told = f"about {clock(ahead.builds_s)} in all, after what needs no build: {names}"
            alike.setdefault(told, []).append(host)
    for told, hosts in alike.items():
        for where in hosts if len(hosts) <= _MOST_HOSTS_TOLD else [f"each of {len(hosts)} hosts"]:
            yield f"To build on {where}, {told}"


def others_build_soon(root: Path, study: Study, target: str, family: str) -> bool:
    """Whether the command that runs has yet to provision this target for another family whose programs are built.

    Called by the job that provisions it for `family`.
    """
    try:
        use = _read(paths.in_use(root, study.study))
    except (OSError, ValueError):  # a job that somebody called by hand
        return False
    others = [other for of, other in use.provisions if of == target and other != family and may_build(study, other)]
    return any(_provisioned(paths.provision_facts(root, study.study, target, o)) < use.since for o in others)


def _provisioned(facts: Path) -> str:
    """When; "" where that is not known."""
    try:
        return str(json.loads(facts.read_bytes())["provisioned"])
    except (OSError, ValueError, LookupError):
        return ""


def _mend_indexes(root: Path, study: Study) -> None:
    """What lists the trials is made from them, so one that was damaged costs nothing. Raises CorruptTrial."""
    for plan in study.sessions():
        folder = paths.family_raw(root, study.study, plan.target, plan.family_name)
        if (folder / paths.SESSION_INDEX).exists() and sealed.read_index(folder / paths.SESSION_INDEX) is None:
            from benchstudy.measuring.raw import TrialStore
            from benchstudy.measuring.session import write_index

            store = TrialStore(folder)
            write_index(plan, store, store.trials(), problem=None)


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """For the moment in which a command does what no other of the project may do meanwhile."""
    path = paths.local_state(root) / "studies" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _address(study: Study, name: str) -> str:
    host = study.hosts[name]
    return THIS_MACHINE if host.loopback else f"{host.address or name}:{host.port or 22}"


def _hold(root: Path, use: Use) -> None:
    own = paths.in_use(root, use.study)
    with one_at_a_time(root):
        own.parent.mkdir(exist_ok=True)
        descriptor = os.open(own, os.O_RDWR | os.O_CREAT, 0o644)  # open until the process ends, and not inherited
        if not lock_if_free(descriptor):
            _refuse(root, use, _read(own), "is already working on")
        try:
            beside = [other for other in _others(root, own) if _may_stay(root, use, other)]
        except BenchstudyError:
            os.close(descriptor)  # before anybody sees it held by a command that does not go on
            raise
        paths.beside(root, use.study).unlink(missing_ok=True)
        for other in beside:
            computing, measured = (use, other) if THIS_MACHINE in other.hosts else (other, use)
            with paths.beside(root, measured.study).open("a") as file:
                file.write(
                    json.dumps({"pid": computing.pid, "study": computing.study, "since": computing.since}) + "\n"
                )
        os.truncate(descriptor, 0)
        with open(descriptor, "w", closefd=False) as file:  # all of it, where a disk takes half at first
            json.dump(asdict(use), file)


def _may_stay(root: Path, use: Use, other: Use) -> bool:
    """Whether one of both computes on this machine while the other measures it; raises where that may not be."""
    for host in sorted({*use.hosts} & {*other.hosts}):
        _refuse(root, use, other, "is measuring", f" on {host}, which this command would use too")
    if THIS_MACHINE in other.hosts and use.computes:
        does, where = "is measuring", " on this machine, and making tables and pages would disturb that"
    elif THIS_MACHINE in use.hosts and other.computes:
        does, where = "is making tables and pages of", " on this machine, which would disturb measuring it"
    else:
        return False
    if not use.beside:
        _refuse(root, use, other, does, where, "or go on all the same with --config beside=true, which trials record")
    return True


def _refuse(root: Path, use: Use, other: Use, does: str, where: str = "", instead: str = "") -> None:
    told = "; ".join([f"since {other.since}", *under_way(paths.progress(root, other.study))])
    ways = ", ".join(["wait for it", "end it", *([instead] if instead else [])])
    process = f"process {other.pid}{'' if other.machine == use.machine else f' on {other.machine}'}"
    raise BenchstudyError(f"{process} {does} study {other.study!r}{where} ({told}): {ways}")


def _others(root: Path, own: Path) -> Iterator[Use]:
    """Commands that run now, but the one that holds `own`."""
    for path in sorted(own.parent.parent.glob(f"*/{own.name}")):
        if path == own:
            continue
        with path.open("rb") as file:
            if not lock_if_free(file.fileno()):
                yield _as_seen_here(_read(path))


def _as_seen_here(other: Use) -> Use:
    """What a command on another machine does there disturbs nothing here."""
    if other.machine == socket.gethostname():
        return other
    return replace(other, hosts=[host for host in other.hosts if host != THIS_MACHINE], computes=False)


def _read(path: Path) -> Use:
    return Use(**json.loads(path.read_text()))
