"""Faults of a host and its network, in sessions: a silent network, a restart, a clock that is set, a full disk."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from faulty_host import FaultyHost, faulty_host
from nothing_lost import Seen, nothing_lost, seen
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.hosts import ssh_transport
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.measuring.session import hold_session
from benchstudy.model.causes import Cause
from benchstudy.model.errors import TrialFailed
from benchstudy.model.host import Host
from benchstudy.model.services import Service
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import parse_study

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make a network and mount")
# The first trial ends at once; later ones begin, and wait for what a test does meanwhile.
WAITS = 'echo x >> "$1/begun"; [ "$(wc -l < "$1/begun")" = 1 ] || until [ -e "$1/go" ]; do sleep 0.05; done'


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyHost]:
    with faulty_host(tmp_path_factory.mktemp("faulty")) as host:
        yield host


class Lab:
    """A study of two trials on a host, the second of which waits; `root` has its raw files."""

    def __init__(
        self, root: Path, sshd: SshdHost, work: Path | None = None, command: dict[str, Any] | None = None, **times: str
    ):
        self.root, self.work = root, work or root / "work"
        waits = {"name": "waits", "argv": ["sh", "-c", WAITS, "sh", str(root)]}
        study = {
            "study": "faults",
            "blocks": 2,
            "thresholds": {"lease": "3s", "reconnect": "30s", **times},
            "hosts": {"far": sshd.described(self.work)},
            "targets": {"one": {"roles": {"sut": "far"}}},
            "families": {"command": {"commands": [command or waits]}},
        }
        self.study = study
        self.plan: SessionPlan = parse_study(study).session("one", "command")

    def hold(self, fault: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """The index of a session in which `fault` happens in the second trial."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(fault)
            index = hold_session(self.root, self.plan)
            done.result(60)
        return json.loads(index.read_text())

    def wait_for_trial(self, number: int) -> None:
        until(lambda: self.begun() >= number, 60)

    def begun(self) -> int:
        return len((self.root / "begun").read_text()) // 2 if (self.root / "begun").exists() else 0

    def go(self) -> None:
        (self.root / "go").touch()

    def seen(self) -> Seen:
        found = seen(self.root / "data/raw/faults", self.work)
        assert len(found.trials) == 1
        return found


def told(index: dict[str, Any]) -> str:
    return "\n".join(event for session in index["sessions"] for event in session["events"])


@needs_root
@pytest.mark.fault(7)
def test_a_host_that_is_away_for_ten_seconds_goes_on_with_the_same_trial(faulty, tmp_path):
    lab = Lab(tmp_path, faulty, lease="30s")

    def fault() -> None:
        lab.wait_for_trial(2)
        faulty.unplug()
        assert faulty.drop_connections()
        time.sleep(10)  # this is the fault
        faulty.plug()
        lab.go()

    index = lab.hold(fault)
    assert [trial["status"] for trial in index["trials"]] == ["ok", "ok"] and lab.begun() == 2
    assert "far: connected again after" in told(index)


@needs_root
@pytest.mark.fault(8)
def test_a_network_that_swallows_everything_ends_the_session_and_the_next_one_goes_on(faulty, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_transport, "PROBE_AFTER_S", 0.5)
    monkeypatch.setattr(ssh_transport, "SILENCE_LIMIT_S", 3.0)
    lab = Lab(tmp_path, faulty, reconnect="2s")
    before = []

    def fault() -> None:
        lab.wait_for_trial(2)
        before.append(lab.seen())
        faulty.unplug()

    try:
        index = lab.hold(fault)
        assert "far" in index["problem"]
        assert sorted(trial["status"] for trial in index["trials"]) == ["aborted", "ok"]
        until(lambda: not list(lab.work.glob("runs/*")), 60)  # the host got no heartbeat, and ended it by itself
    finally:
        faulty.plug()
    lab.go()
    assert lab.hold()["problem"] is None
    nothing_lost(before[0], good=2, lock=faulty.lock)


@needs_root
@pytest.mark.fault(10)
def test_a_restarted_host_has_its_trial_measured_again(faulty, tmp_path):
    lab = Lab(tmp_path, faulty)
    before = []

    def fault() -> None:
        lab.wait_for_trial(2)
        before.append(lab.seen())
        faulty.restart()
        lab.wait_for_trial(3)
        lab.go()

    index = lab.hold(fault)
    (aborted,) = (trial for trial in index["trials"] if trial["status"] != "ok")
    assert aborted["status"] == "aborted"
    (record,) = tmp_path.glob(f"data/raw/**/*-{aborted['uuid'][:8]}/trial.json")
    assert json.loads(record.read_text())["failure"]["cause"] == "host-restarted"
    assert index["problem"] is None
    nothing_lost(before[0], good=2, lock=faulty.lock)


@needs_root
@pytest.mark.fault(21)
def test_a_clock_that_is_set_during_a_trial_changes_no_duration_and_is_an_event(faulty, tmp_path):
    lab = Lab(tmp_path, faulty)

    def fault() -> None:
        lab.wait_for_trial(2)
        faulty.set_clock(3600)
        time.sleep(2)  # until a heartbeat told the time
        lab.go()

    try:
        index = lab.hold(fault)
    finally:
        faulty.set_clock(0)
    assert [trial["status"] for trial in index["trials"]] == ["ok", "ok"]
    assert "far: its clock was set by +3600" in told(index)
    records = [json.loads(path.read_text()) for path in tmp_path.glob("data/raw/**/trial.json")]
    commands = [command for record in records for command in record["commands"]]
    assert all(0 < each["duration_s"] < 60 for each in (*records, *commands))
    assert max(command["clock_offset_s"] for command in commands) == pytest.approx(3600, abs=2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@needs_root
@pytest.mark.fault(14)
def test_a_full_disk_of_the_host_is_the_cause_and_its_folder_is_removed(small_disk, tmp_path):
    fills = {"name": "fills", "argv": ["head", "-c", "20000000", "/dev/zero"]}
    with SshdHost(tmp_path / "sshd") as sshd:
        index = Lab(tmp_path, sshd, small_disk / "work", fills).hold()
    assert [trial["status"] for trial in index["trials"]] == ["failed", "failed"]
    assert {trial["cause"].partition(";")[0] for trial in index["trials"]} == {
        "head: the disk of the work folder was full: stdout is incomplete"
    }
    assert not list(small_disk.glob("work/runs/*"))


@needs_root
def test_a_disk_of_the_host_that_is_too_full_to_begin_is_the_cause(small_disk, tmp_path):
    sleeper = Service(argv=["sleep", "300"], ready={"mount": "/proc"})
    with SshdHost(tmp_path / "sshd") as sshd, Remote("far", Host(**sshd.described(small_disk / "work"))) as remote:
        agent = HostAgent.deploy(remote, lease_s=30, reconnect_s=0, on_event=print)
        with agent.lock("5e55", {}):
            with pytest.raises(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            for begin in (lambda: agent.execute(Command(["true"])), lambda: agent.start_service("sleeper", sleeper)):
                with pytest.raises(TrialFailed, match=r"No space left .*; free some space there$") as refused:
                    begin()
                assert refused.value.failure.cause is Cause.DISK_FULL


@needs_root
@pytest.mark.fault(15)
def test_a_full_disk_of_the_controller_ends_the_session_and_the_next_one_goes_on(small_disk, tmp_path):
    with SshdHost(tmp_path / "sshd") as sshd:
        lab = Lab(small_disk, sshd, tmp_path / "work")
        filler, before = small_disk / "filler", []

        def fault() -> None:
            lab.wait_for_trial(2)
            before.append(lab.seen())
            with pytest.raises(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            (small_disk / "go").symlink_to("/")  # needs no space

        with pytest.raises(OSError, match="No space left on device"):
            lab.hold(fault)
        filler.unlink()
        assert lab.hold()["problem"] is None
        nothing_lost(before[0], good=2)
