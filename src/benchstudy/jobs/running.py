"""The commands that run in a project now: which of them may run at the same time, and what they tell each other.

Hosts and raw stores have their own locks, which hold against everybody. This module decides between commands of one
project before they begin. One command at a time works on a study. One command at a time measures a host. Nothing else
computes on a machine that is being measured, unless you set `beside=true`, which its trials record.
"""

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchstudy.hosts.controller import announce_controller
from benchstudy.jobs.preloaded import JOBS_ELSEWHERE
from benchstudy.measuring import confirmed, sealed
from benchstudy.measuring.progress import clock, forget_killed, under_way
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import (
    WHERE_LOCKS_HOLD,
    disk_trouble,
    keeps_locks,
    lock_if_free,
    now,
    sha256_of,
    write_atomically,
)
from benchstudy.model.groups import machines_of_targets
from benchstudy.model.host import THIS_MACHINE
from benchstudy.model.rounding import plural
from benchstudy.model.study import Study
from benchstudy.provisioning.target import may_build, usable_systems, what_is_ahead

# Rules that use the hosts of a target. All others compute on this machine, except those that only look.
_PROVISION = "provision_target"
_ON_HOSTS = {_PROVISION, "measure_session"}
_NO_MATTER_OF_RAW = {_PROVISION, "provision"}
_MOST_HOSTS_TOLD = 8
_MOST_LINES_AT_END = 20
_ONLY_LOOK = {"confirm_sessions", "report", "crate", "measure", "provision"}


@dataclass(frozen=True)
class Use:
    """What a command uses while it runs. `hosts`: addresses of the hosts that it provisions or measures.

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
    doubtful: Callable[[], Collection[str]],
    *,
    elsewhere: bool = False,
) -> None:
    """Called once by a command that is about to run `jobs` (rule and wildcards), in the project's folder.

    The study is its own until its process ends. Jobs find the study as `declared`. `say` gets what will be built.
    `doubtful`: the raw files that the plan found to have changed since they were compared; the command compares them.
    `elsewhere`: an executor runs the jobs on other machines.
    Raises BenchstudyError that names the conflicting command, its study, and when it may be done, and RawAltered that
    names raw files.
    """
    try:
        use = _begin(study, declared, list(jobs), doubtful, elsewhere)
        _warn_of_broken_parts(study, use)
        for line in _builds_ahead(study, use.provisions):
            say(line)
    except OSError as error:
        raise BenchstudyError(disk_trouble(error) or str(error)) from error


def _begin(
    study: Study,
    declared: Mapping[str, Any],
    jobs: Sequence[tuple[str, Mapping[str, str]]],
    doubtful: Callable[[], Collection[str]],
    elsewhere: bool,
) -> Use:
    root = Path.cwd()
    rules = {rule for rule, _ in jobs}
    targets = {wildcards["target"] for rule, wildcards in jobs if rule in _ON_HOSTS}
    machines = machines_of_targets(study)
    use = Use(
        pid=os.getpid(),
        study=study.study,
        since=now(),
        hosts=sorted({machine for target in targets for machine in machines[target]}),
        computes=bool(rules - _ON_HOSTS - _ONLY_LOOK),
        beside=study.beside,
        provisions=[(wildcards["target"], wildcards["family"]) for rule, wildcards in jobs if rule == _PROVISION],
    )
    paths.local_state(root).mkdir(exist_ok=True)
    if not keeps_locks(paths.local_state(root)):
        raise BenchstudyError(
            f"{root}: its file system has no locks, so two commands could run at once unnoticed. {WHERE_LOCKS_HOLD}"
        )
    if elsewhere:
        _refuse_this_machine(study, use)
        os.environ[JOBS_ELSEWHERE] = "1"
    _hold(root, use)
    announce_controller(paths.controller_beat(root, study.study), study.thresholds.lease)
    forget_killed(paths.progress(root, study.study), elsewhere=True)
    paths.confirmation_log(root, study.study).unlink(missing_ok=True)
    _mend_indexes(root, study)
    # The plan has just looked at all of them. What is altered later is found at the end or by the next plan.
    if rules - _NO_MATTER_OF_RAW and doubtful():
        confirmed.confirm(root, study.stores(root))
    _freeze(root, study.study, json.dumps(declared, default=str))
    indexes = (store / paths.SESSION_INDEX for store in study.stores(Path()))
    write_atomically(paths.declared_sessions(root, study.study), "".join(f"{index}\n" for index in indexes))
    return use


def _warn_of_broken_parts(study: Study, use: Use) -> None:
    """Here, because jobs do not repeat what their command has warned of."""
    for _ in registry.sound(registry.brought()):
        pass
    if use.provisions:
        usable_systems(study)


def _freeze(root: Path, study: str, declared: str) -> None:
    """For this command's jobs: none of them sees what a later command is told, even if it outlives this one."""
    os.environ.pop(paths.FROZEN_STUDY, None)
    write_atomically(paths.declared_study(root, study), declared)
    sha256 = hashlib.sha256(declared.encode()).hexdigest()
    frozen = paths.frozen_study(root, study, sha256)
    if not frozen.exists() or sha256_of(frozen) != sha256:
        frozen.parent.mkdir(exist_ok=True)
        write_atomically(frozen, declared)
        frozen.chmod(0o444)
    os.environ[paths.FROZEN_STUDY] = f"{study}/{sha256}"


def _refuse_this_machine(study: Study, use: Use) -> None:
    if THIS_MACHINE in use.hosts:
        names = " and ".join(repr(name) for name, host in study.hosts.items() if host.loopback)
        raise BenchstudyError(
            f"host {names} of study {study.study!r} is loopback, which means whatever machine an executor chooses. "
            "Name the machine instead of `loopback: true`, such as `address: bench1.example`, or "
            "leave --executor and --profile out to measure this machine"
        )


def _builds_ahead(study: Study, provisions: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What will be built on which host, and about how long that takes. Skips families that build nothing."""
    building = [(target, family) for target, family in provisions if may_build(study, family)]
    try:
        found = what_is_ahead(study, building)
    except BenchstudyError:  # the job will report it
        return
    alike: dict[str, list[str]] = {}
    for host, ahead in found.items():
        if ahead.builds:
            names = ", ".join(f"{name} {clock(takes_s)}" for name, takes_s in ahead.builds.items())
            told = f"about {clock(ahead.builds_s)} in total, after everything that needs no build: {names}"
            alike.setdefault(told, []).append(host)
    for told, hosts in alike.items():
        for where in hosts if len(hosts) <= _MOST_HOSTS_TOLD else [f"each of {len(hosts)} hosts"]:
            yield f"To build on {where}, {told}"


def not_confirmed(root: Path, study: str) -> list[str]:
    """The last lines of a failed command, about sessions and raw files; none if these did not cause the failure."""
    log = paths.confirmation_log(root, study)
    if not log.exists():
        return []
    lines = log.read_text().splitlines() or _cannot_be_written(log)
    left = len(lines) - _MOST_LINES_AT_END
    return lines if left <= 0 else [*lines[:_MOST_LINES_AT_END], f"… and {plural(left, 'more line')} in {log}"]


def _cannot_be_written(log: Path) -> list[str]:
    """Why nothing is in a log: on a full disk, the job could not write the reason there."""
    try:
        with log.open("r+b", buffering=0) as file:
            file.write(b"\n")
            file.truncate(0)
    except OSError as error:
        told = OSError(error.errno, error.strerror, str(log))
        return [disk_trouble(told) or str(told)]
    return []


def others_build_soon(root: Path, study: Study, target: str, family: str) -> bool:
    """Whether the running command will still provision this target for another family whose programs are built.

    Called by the job that provisions it for `family`.
    """
    try:
        use = _read(paths.in_use(root, study.study))
    except (OSError, ValueError):  # somebody ran the job by hand
        return False
    others = [other for of, other in use.provisions if of == target and other != family and may_build(study, other)]
    return any(_provisioned(paths.provision_facts(root, study.study, target, o)) < use.since for o in others)


def _provisioned(facts: Path) -> str:
    """The time of provisioning; "" if unknown."""
    try:
        return str(json.loads(facts.read_bytes())["provisioned"])
    except (OSError, ValueError, LookupError):
        return ""


def _mend_indexes(root: Path, study: Study) -> None:
    """Make damaged indexes again. They are derived from the trials, so nothing is lost. Raises CorruptTrial."""
    for plan in study.sessions():
        folder = plan.raw(root)
        if (folder / paths.SESSION_INDEX).exists() and sealed.read_index(folder / paths.SESSION_INDEX) is None:
            from benchstudy.measuring.raw import TrialStore
            from benchstudy.measuring.sessionindex import write_index_only

            store = TrialStore(folder)
            write_index_only(plan, store, store.trials())


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """A lock for the short time in which no other command of the project may do the same."""
    path = paths.local_state(root) / "studies" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
            os.close(descriptor)  # before anybody sees it held by a command that gives up
            raise
        paths.beside(root, use.study).unlink(missing_ok=True)
        for other in beside:
            computing, measured = (use, other) if THIS_MACHINE in other.hosts else (other, use)
            with paths.beside(root, measured.study).open("a") as file:
                file.write(
                    json.dumps({"pid": computing.pid, "study": computing.study, "since": computing.since}) + "\n"
                )
        os.truncate(descriptor, 0)
        with open(descriptor, "w", closefd=False) as file:  # writes everything, even if a first write is partial
            json.dump(asdict(use), file)


def _may_stay(root: Path, use: Use, other: Use) -> bool:
    """Whether one of the two computes on this machine while the other measures it. Raises if that is not allowed."""
    for host in sorted({*use.hosts} & {*other.hosts}):
        _refuse(root, use, other, "is measuring", f" on {host}, which this command would use too")
    if THIS_MACHINE in other.hosts and use.computes:
        does, where = "is measuring", " on this machine, and making tables and pages would disturb it"
    elif THIS_MACHINE in use.hosts and other.computes:
        does, where = "is making tables and pages of", " on this machine, which would disturb measuring it"
    else:
        return False
    if not use.beside:
        _refuse(root, use, other, does, where, "or continue anyway with --config beside=true, which trials record")
    return True


def _refuse(root: Path, use: Use, other: Use, does: str, where: str = "", instead: str = "") -> None:
    told = "; ".join([f"since {other.since}", *under_way(paths.progress(root, other.study))])
    ways = ", ".join(["wait for it", "end it", *([instead] if instead else [])])
    process = f"process {other.pid}{'' if other.machine == use.machine else f' on {other.machine}'}"
    raise BenchstudyError(f"{process} {does} study {other.study!r}{where} ({told}): {ways}")


def _others(root: Path, own: Path) -> Iterator[Use]:
    """Commands that run now, except the one that holds `own`."""
    for path in sorted(own.parent.parent.glob(f"*/{own.name}")):
        if path == own:
            continue
        with path.open("rb") as file:
            if not lock_if_free(file.fileno()):
                yield _as_seen_here(_read(path))


def _as_seen_here(other: Use) -> Use:
    """A command on another machine, without what it does there, which disturbs nothing here."""
    if other.machine == socket.gethostname():
        return other
    return replace(other, hosts=[host for host in other.hosts if host != THIS_MACHINE], computes=False)


def _read(path: Path) -> Use:
    return Use(**json.loads(path.read_text()))
