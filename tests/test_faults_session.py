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


# Each time it asks the server, except where it first ends it, or the supervisor above it.
_ASKS = """
echo x >> "$1/asked"; server=$(cat "$1/server")
case $(wc -l < "$1/asked") in
2) kill "$server" ;;
3) kill -9 "$(cut -d ' ' -f 4 "/proc/$server/stat")" ;;
*) exec python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()' "$2" ;;
esac
while [ -e "/proc/$server" ]; do sleep 0.05; done
"""
# Ends the server once, and does not use it.
_ENDS = """
[ -e "$1/server" ] && mkdir "$1/ended" 2> /dev/null || exit 0
server=$(cat "$1/server"); kill "$server"; while [ -e "/proc/$server" ]; do sleep 0.05; done
"""


def test_a_service_that_ends_in_mid_session_fails_the_trial_that_used_it_and_runs_again_for_the_next(tmp_path):
    server = 'echo "$$" > "$1/server"; exec python3 -m http.server --bind "$2" "$3"'
    web = {
        "ports": ["web"],
        "argv": ["sh", "-c", server, "sh", str(tmp_path), "{{bind}}", "{{port.web}}"],
        "ready": {"tcp": "web"},
    }
    address = "http://{{system.bind}}:{{system.port.web}}/"
    commands = [
        {"name": "asks", "system": "web", "argv": ["sh", "-c", _ASKS, "sh", str(tmp_path), address]},
        {"name": "ends", "argv": ["sh", "-c", _ENDS, "sh", str(tmp_path)]},
    ]
    with SshdHost(tmp_path / "sshd") as sshd:
        study = {
            "study": "ends",
            "blocks": 4,
            "hosts": {"far": sshd.described(tmp_path / "work")},
            "targets": {"far": {"roles": {"sut": "far"}}},
            "families": {"command": {"services": {"web": web}, "commands": commands}},
        }
        index = json.loads(hold_session(tmp_path, parse_study(study).session("far", "command")).read_text())
        assert (index["problem"], len(index["sessions"])) == (None, 4)
        assert not list(tmp_path.glob("work/*/*-*-*"))
    status = {name: [t["status"] for t in index["trials"] if t["case"].endswith(name)] for name in ("asks", "ends")}
    assert sorted(status["asks"]) == ["aborted", "failed", "ok", "ok", "ok"] and status["ends"] == ["ok"] * 4
    cause = {trial["status"]: trial["cause"] for trial in index["trials"]}
    assert cause["failed"].startswith("the service web died during the trial: it ended with signal 15")
    assert cause["aborted"].startswith("the service web died during the trial: lost: the supervisor was killed")
    records = (json.loads(path.read_text()) for path in tmp_path.glob("data/raw/ends/**/[!.]*/trial.json"))
    failures = {record["status"]: record["failure"] and record["failure"]["cause"] for record in records}
    assert failures == {"ok": None, "failed": "server-died", "aborted": "lost"}
