"""A study with more targets than groups: planned in groups, measured side by side; targets do not affect each other."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Project
from sshd_hosts import SshdHost
from waiting import runs, until

from benchstudy.model.groups import GROUPS, connected, groups, places
from benchstudy.model.studyfile import parse_study

# Groups of two or three: one is complete, one has a dead host, and of one, only one target is measured.
TARGETS, ALIVE, DEAD = 11, ("t0", "t1", "t2", "t9"), "t10"
COMMANDS = {"commands": [{"name": "x", "argv": ["true"], "warm_up": 0, "repeat": 1}]}


def declared(roles: dict[str, dict[str, str]], hosts: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    named = {host: {} for target in roles.values() for host in target.values()}
    return {
        "study": "fleet",
        "blocks": 1,
        "hosts": hosts or named,
        "targets": {name: {"roles": target} for name, target in roles.items()},
        "families": {"command": COMMANDS},
    } | more


def test_targets_that_share_hosts_are_together_and_no_two_groups_share_one():
    ring = {"a": ["1", "2"], "b": ["3"], "c": ["2", "4"], "d": ["5", "3"], "e": ["6"]}
    assert connected(ring) == [["a", "c"], ["b", "d"], ["e"]]
    pairs = {f"t{n}": {"sut": f"h{n // 2}", "load": f"l{n}"} for n in range(36)}
    study = parse_study(declared(pairs))
    found = groups(study)
    assert sorted(target for group in found for target in group.targets) == sorted(pairs)
    assert {len(group.targets) for group in found} == {8, 10} and len(found) == GROUPS
    hosts = places(study)
    assert sum(map(len, hosts.values())) == len(set().union(*hosts.values())) == 54
    more = groups(parse_study(declared(pairs | {"t36": {"sut": "h36"}})))
    assert sum(old != new for old, new in zip(found, more, strict=True)) == 1, "a target at the end moves no other"


def test_a_small_study_has_jobs_of_its_own_and_places_by_host():
    ring = {f"t{n}": {"sut": f"h{n}", "load": f"h{(n + 1) % 20}"} for n in range(20)}
    assert groups(parse_study(declared(ring))) == []
    assert places(parse_study(declared(ring))) == {f"host_h{n}": {f"h{n}"} for n in range(20)}


def test_two_names_of_one_machine_are_measured_in_turns():
    one, other = {"loopback": True}, {"loopback": True, "work_dir": "/srv/other"}
    named = {
        "a": one,
        "b": other,
        "c": {"address": "h"},
        "h": {"user": "me", "port": 22},
        "d": {"address": "h", "port": 2},
    }
    few = parse_study(declared({f"on-{name}": {"sut": name} for name in named}, named))
    assert places(few) == {"host_a": {"a", "b"}, "host_c": {"c", "h"}, "host_d": {"d"}}
    many = {f"h{n}": {"address": f"m{n // 2}"} for n in range(40)}
    for group in groups(parse_study(declared({f"t{n}": {"sut": f"h{n}"} for n in range(40)}, many))):
        assert all(len(part) == 2 for part in group.parts)


@pytest.fixture
def fleet(project: Project, tmp_path: Path) -> Iterator[tuple[Project, dict[str, Any]]]:
    """Real hosts, and others that answer nobody, one of which is to be measured."""
    with contextlib.ExitStack() as stack:
        hosts = {f"h{n}": {"address": f"127.0.1.{n}", "port": 1, "known_hosts": os.devnull} for n in range(TARGETS)}
        for target in ALIVE:
            number = target.removeprefix("t")
            folder = tmp_path / f"h{number}"
            sshd = stack.enter_context(SshdHost(folder / "sshd"))
            hosts[f"h{number}"] = sshd.described(folder / "work")
        roles = {f"t{number}": {"sut": f"h{number}"} for number in range(TARGETS)}
        family = {"command": COMMANDS | {"targets": [*ALIVE, DEAD]}}
        yield project, declared(roles, hosts, thresholds={"lease": "4s"}, families=family)
    until(lambda: subprocess.run(["pgrep", "-f", str(tmp_path)], stdout=subprocess.DEVNULL).returncode == 1)


def indexes(project: Project) -> dict[str, dict[str, Any]]:
    found = (project.root / "data" / "raw" / "fleet").glob("*/command/session.json")
    return {path.parents[1].name: json.loads(path.read_text()) for path in found}


def test_one_dead_host_holds_no_other_and_what_is_complete_is_left_alone(fleet):
    project, study = fleet
    file = project.write_study(study)
    plan = project.snakemake("-n", "measure", "--configfile", file).stdout
    assert len(plan.splitlines()) < 50 and "measure_group_command_*" in plan and "measure_session" not in plan

    commands = project.snakemake("-n", "-p", "report", "--configfile", file).stdout.splitlines()
    of_all = [line for line in commands if "script " in line and "t1/" in line and "t2/" in line]
    assert of_all == [], "a shell takes no command of a thousand targets"

    done = project.snakemake("measure", "--configfile", file, check=False)
    assert done.returncode == 1 and f"command on {DEAD}: " in done.stdout + done.stderr
    first = indexes(project)
    assert first.keys() == {*ALIVE, DEAD}
    assert {target for target, index in first.items() if index["problem"]} == {DEAD}
    assert all(len(index["trials"]) == 1 for target, index in first.items() if target != DEAD)
    logs = project.root / "logs"
    assert re.search(r"trial 1/1, block 1, command=x: ok", (logs / "measure_session/fleet/t0/command.log").read_text())
    assert "127.0.1.10 port 1" in (logs / f"provision_target/fleet/{DEAD}/command.log").read_text()

    # The next run tries the dead host again, does what is forced, and contacts no other host.
    written = {path: path.read_bytes() for path in (logs / "measure_session/fleet").glob("*/command.log")}
    facts = {target: provisioned(project, target) for target in first}
    force = ("--forcerun", "provision_group_command_2")
    done = project.snakemake("measure", "--configfile", file, *force, check=False)
    assert done.returncode == 1 and f"command on {DEAD}: " in done.stdout + done.stderr
    assert {target for target, when in facts.items() if provisioned(project, target) != when} == {"t1", "t9", DEAD}
    assert {path.parent.name for path, text in written.items() if path.read_bytes() != text} == {DEAD}
    assert {t: i["trials"] for t, i in indexes(project).items()} == {t: i["trials"] for t, i in first.items()}


def provisioned(project: Project, target: str) -> str:
    return json.loads((project.root / f"data/provision/fleet/{target}/command.json").read_text())["provisioned"]


def test_a_session_that_had_ended_is_listed_when_another_of_its_group_is_interrupted(fleet, tmp_path):
    project, study = fleet
    two, slow = ["t1", "t9"], tmp_path / "slow"  # of one group
    waits = f"case $PWD in *h9*) while [ -e {slow} ]; do sleep 0.1; done;; esac"
    commands = [{"name": "x", "argv": ["sh", "-c", waits], "warm_up": 0, "repeat": 1}]
    study |= {"families": {"command": {"commands": commands, "targets": two}}}
    file = project.write_study(study)
    project.snakemake("measure", "--configfile", file)
    slow.touch()
    project.write_study(study | {"blocks": 2})
    command = project.start("measure", "--configfile", file)
    until(lambda: len(indexes(project).get("t1", {"trials": ()})["trials"]) == 2)
    os.killpg(command.pid, signal.SIGINT)
    said, _ = command.communicate(timeout=60)
    assert command.returncode != 0 and "Restored" not in said, said
    assert len(indexes(project)["t1"]["trials"]) == 2
    slow.unlink()
    project.snakemake("measure", "--configfile", file)
    ended = {target: [trial["status"] for trial in index["trials"]] for target, index in indexes(project).items()}
    assert {target: sorted(statuses) for target, statuses in ended.items()} == {
        "t1": ["ok", "ok"],
        "t9": ["aborted", "ok", "ok"],
    }


FORKS = """
import os, sys
from benchstudy.hosts import interrupts
from benchstudy.hosts.controller import ends_with_controller
from benchstudy.hosts.forks import in_forks
def work(name, tell):
    with ends_with_controller():
        tell(str(os.getpid()).encode())
        interrupts.pause(1000 if name != "third" else 0)
        os._exit(7)
def heard(name, line):
    print(name, line.decode(), flush=True)
print(in_forks([["first", "never"], ["second"], ["third", "fourth"]], work, heard))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_forks_end_with_their_parent_however_it_ends(number):
    parent = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun = dict(parent.stdout.readline().split() for _ in range(4))
    assert begun.keys() == {"first", "second", "third", "fourth"}, (
        "the third has ended, so that the fourth has its turn"
    )
    parent.send_signal(number)
    said, errors = parent.communicate(timeout=60)
    assert said == "" and ("KeyboardInterrupt" in errors) == (number == signal.SIGTERM)
    until(lambda: not any(runs(int(pid)) for pid in begun.values()))
