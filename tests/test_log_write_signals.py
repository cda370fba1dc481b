"""A capacity search whose server is killed, or made to hang, from outside."""

import os
import signal
import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from log_write_search import Host, Searched, block, provisioned

from benchstudy.families.log_write.page.limits import told
from benchstudy.families.log_write.parse import note_trial


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with provisioned(tmp_path_factory) as host:
        yield host


def searched_with_a_signal(host: Host, number: signal.Signals, **search: Any) -> Searched:
    """A search of two rates that any machine reaches; its server gets the signal during the second rate's load."""
    sent: list[int] = []
    over = Event()

    def send() -> None:
        generators: set[int] = set()
        while not over.wait(0.05) and not sent:
            running = host.running()
            generators |= {pid for pid, words in running.items() if "/logbench write " in words}
            servers = [pid for pid, words in running.items() if words.split()[0].endswith("/tessera-posix")]
            if len(generators) == 2 and servers:
                time.sleep(0.5)  # any moment of its four seconds will do
                os.kill(servers[0], number)
                sent.append(servers[0])

    thread = Thread(target=send, daemon=True)
    thread.start()
    try:
        searched = host.search(block([], start="100/s", highest="150/s", window="3s", **search))
    finally:
        over.set()
        thread.join()
    assert sent
    return searched


def test_a_server_that_somebody_killed_costs_an_attempt_and_not_the_trial(host: Host):
    searched = searched_with_a_signal(host, signal.SIGKILL)
    passed, died, again = searched.steps
    assert passed["passed"] and again["passed"] and (again["step"], again["attempt"]) == (2, 2)
    assert died["said"] == "server died: it ended with signal 9" and (died["step"], died["attempt"]) == (2, 1)
    assert searched.values["capacity_pass"] == 150 and "capacity_fail" not in searched.values
    said = told(note_trial(searched.trial.folder)["limited_by"])
    assert said.startswith("nothing: every rate up to ") and said.endswith(" met the objective")
    problems = searched.trial.record.verified["problems"]
    assert any((note["rule"], note.get("died"), note.get("windows")) == ("died", 1, 3) for note in problems)
    assert {"server", "server-start-2"} <= searched.labels


def test_a_server_that_hangs_before_the_next_load_begins_is_started_afresh_too(host: Host):
    searched = searched_with_a_signal(host, signal.SIGSTOP, attempts=3)
    first, stopped, hung, again = searched.steps
    assert first["passed"] and not stopped["passed"]
    assert hung["said"] == "server hung: no checkpoint came before the load started"
    assert "achieved_per_s" not in hung, "its generator left no result"
    assert again["passed"] and (again["step"], again["attempt"]) == (2, 3)
    assert {"server", "server-start-2"} <= searched.labels
