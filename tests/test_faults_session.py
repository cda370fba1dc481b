"""Faults on the way to a host and on it, in one session: each has its right name, and costs only its own trial."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import calm_study
import pytest
from nothing_lost import Seen, nothing_lost, seen
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.measuring.session import hold_session
from benchstudy.model.studyfile import parse_study


class Faults(threading.Thread):
    """First the supervisor of a trial is killed, then the host is unreachable for longer than the lease."""

    def __init__(self, sshd: SshdHost, work: Path):
        super().__init__(daemon=True)
        self._sshd, self._work = sshd, work
        self._seen: list[int] = []
        self.problem: BaseException | None = None
        self.before: Seen | None = None

    def run(self) -> None:
        try:
            os.kill(self._supervisor(), signal.SIGKILL)
            self._supervisor()
            self.before = seen(self._work.parent / "data/raw/faults", self._work)
            self._sshd.stop()
            # The keeper empties the lock when its lease is over and everything that the session left has ended.
            until(lambda: not self._sshd.lock.read_bytes().strip(), 30)
            self._sshd.start()
        except BaseException as error:
            self.problem = error

    def _supervisor(self) -> int:
        """A command that runs now and did not run at the previous call."""
        found: list[int] = []

        def running() -> bool:
            for file in self._work.glob("runs/*/supervisor.json"):
                with suppress(OSError, ValueError):  # it has just ended
                    told = json.loads(file.read_text())
                    if told["state"] == "running" and told["supervisor_pid"] not in self._seen:
                        found.append(told["supervisor_pid"])
            return bool(found)

        until(running, 60)
        self._seen += found
        return found[-1]


@pytest.fixture(scope="module")
def held(tmp_path_factory) -> Iterator[tuple[dict, Path]]:
    """The index of the session and the folder of its trials; nothing was lost."""
    root = tmp_path_factory.mktemp("faults")
    with SshdHost(root / "sshd") as sshd:
        study = {
            "study": "faults",
            "blocks": 2,
            "thresholds": {"lease": "2s", "reconnect": "60s"},
            "hosts": {"far": sshd.described(root / "work")},
            "targets": {"far": {"roles": {"sut": "far"}}},
            "families": calm_study.calm(root / "data"),
        }
        faults = Faults(sshd, root / "work")
        faults.start()
        index = hold_session(root, parse_study(study).session("far", calm_study.FAMILY))
        faults.join(60)
        assert faults.problem is None, faults.problem
        nothing_lost(faults.before, good=4, lock=sshd.lock, scratch=root / "data")
    yield json.loads(index.read_text()), index.parent


@pytest.mark.fault(34, 35)
def test_each_fault_is_named_and_is_no_result(held):
    index, folder = held
    assert index["problem"] is None
    failed = [t for t in index["trials"] if t["status"] != "ok"]
    causes = {t["cause"]: json.loads((folder / t["path"] / "trial.json").read_text())["failure"] for t in failed}
    assert {t["status"] for t in failed} == {"aborted"} and len(failed) == 2, causes
    killed = next(cause for cause in causes if "the supervisor was killed on the host" in cause)
    expired = next(cause for cause in causes if "lease expired: the host heard nothing from here for" in cause)
    assert causes[killed]["cause"] == "lost" and causes[expired]["cause"] == "lease-expired"
    assert not any("internal error" in cause for cause in causes)


@pytest.mark.fault(34)
def test_both_sessions_are_on_record_with_what_happened(held):
    index, folder = held
    assert len(index["sessions"]) == 2
    told = "\n".join(event for session in index["sessions"] for event in session["events"])
    assert "reconnecting" in told and "the lock was lost: lease expired" in told
    of_trials = {json.loads(record.read_text())["session"] for record in folder.glob("*=*/[!.]*/trial.json")}
    assert of_trials == {session["uuid"] for session in index["sessions"]}
