"""What a session decides: the order, what counts, what is missing, what ends it.

No host is contacted: trials of the family write what the test says, and the session's connections find no host.
"""

import errno
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchstudy.hosts.agent import LockLost
from benchstudy.hosts.remote import ConnectionLost
from benchstudy.measuring import session
from benchstudy.measuring.raw import StoredTrial, TrialStore
from benchstudy.measuring.session import (
    OneOfMany,
    Scheduled,
    adopt,
    hold_session,
    is_held,
    missing_trials,
    schedule,
    set_aside,
)
from benchstudy.model import interference, paths, registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case, Family, FamilyConfig, Observation, Parsed, ParseError
from benchstudy.model.metrics import Metric, declare
from benchstudy.model.study import SessionPlan, parse_study

Happens = float | Exception | Callable[[Path], None]


class WrittenConfig(FamilyConfig):
    cases: list[str]
    words: str = "as it is"


class Written(Family):
    """The results of the trials of a case and block, one after the other; by default, a trial takes a second."""

    name, title, Config = "written", "Written", WrittenConfig
    metrics: ClassVar = declare(Metric("duration", "s", "Duration", "lower", primary=True))
    happens: ClassVar[dict[tuple[str, int], list[Happens]]] = {}

    def cases(self, config: WrittenConfig) -> list[Case]:
        most = {"early": 2}
        return [Case({"case": name}, {"words": config.words}, most_blocks=most.get(name)) for name in config.cases]

    def run(self, case, trial) -> None:
        left = self.happens.get((case.levels["case"], trial.block))
        what = left.pop(0) if left else 1.0
        if isinstance(what, BaseException):
            raise what
        (trial.files / "stdout").write_text("1.0" if callable(what) else str(what))
        if callable(what):
            what(trial.files)

    def parse(self, case_levels, files) -> Parsed:
        value = float((files / "stdout").read_text())
        if value < 0:
            raise ParseError("a negative duration")
        return Parsed([Observation("duration", value, "s")])


def beside(share: float) -> Callable[[Path], None]:
    """Others used this share of the host's processors."""
    about = {"shares": {"others_cpu": share}, "others_cpu": 2 * share, "cpus": 2, "busiest": ["backup"]}
    return lambda files: (files / interference.FILE).write_text(json.dumps({"commands": [], "seen": {"h": about}}))


@dataclass
class Lab:
    root: Path
    happens: dict[tuple[str, int], list[Happens]]
    connections: list[int] = field(default_factory=list)

    def plan(self, *cases: str, words: str = "as it is", **study: Any) -> SessionPlan:
        family = {"cases": list(cases or ("a", "b", "c")), "words": words}
        study = {"study": "s", "seed": 7, "blocks": 3, **study}
        hosts = {"hosts": {"h": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "h"}}}}
        return parse_study({**study, **hosts, "families": {"written": family}}).session("t", "written")

    def hold(self, plan: SessionPlan) -> dict[str, Any]:
        return json.loads(
            hold_session(self.root, plan, OneOfMany(lambda: self.connections.append(1), "0" * 64)).read_text()
        )

    @property
    def store(self) -> TrialStore:
        return TrialStore(paths.family_raw(self.root, "s", "t", "written"))

    @property
    def measured(self) -> list[tuple[str, int, str]]:
        """Case, block and status, in the order of measurement."""
        trials = sorted(self.store.trials(), key=lambda trial: (trial.record.finished, trial.record.position))
        return [(t.record.levels["case"], t.record.block, t.record.status) for t in trials]


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Lab:
    known = {**registry.packages(), "written": __name__}
    monkeypatch.setattr(registry, "packages", lambda: known)
    monkeypatch.setattr(registry, "get", lambda name: Written())
    monkeypatch.setattr(session, "instrument_sha256", lambda family: "0" * 64)
    monkeypatch.setattr(session._Session, "_connect", lambda self, stack: {})
    monkeypatch.setattr(Written, "happens", {})
    return Lab(tmp_path, Written.happens)


def names(scheduled: Sequence[Scheduled]) -> list[tuple[str, int, int]]:
    return [(each.case.levels["case"], each.block, each.position) for each in scheduled]


# -- the order -------------------------------------------------------------------------------------------------


def test_a_block_has_its_own_order_from_the_studys_seed_whatever_comes_after_it(lab):
    expected = []
    for block in (1, 2, 3):
        cases = ["a", "b", "c", "early"] if block < 3 else ["a", "b", "c"]
        random.Random(f"7/t/written/{block}").shuffle(cases)
        expected += [(name, block, position) for position, name in enumerate(cases, start=1)]
    plan = lab.plan("a", "b", "c", "early")
    assert names(schedule(plan)) == expected == names(schedule(plan, 3))
    assert names(schedule(plan, 1)) == expected[:4] and schedule(plan, 0) == []


# -- what a session leaves ---------------------------------------------------------------------------------------


def test_a_session_measures_what_is_missing_in_the_order_and_tells_what_there_is(lab):
    lab.happens |= {("b", 1): [TrialFailed("no space left")], ("c", 2): [-1.0]}
    plan = lab.plan()
    assert not is_held(lab.root, plan)
    index = lab.hold(plan)
    assert is_held(lab.root, plan) and lab.connections == [1] and index["problem"] is None
    failed = {("b", 1): "no space left", ("c", 2): "a negative duration"}
    statuses = [
        (case, block, "failed" if (case, block) in failed else "ok") for case, block, _ in names(schedule(plan))
    ]
    assert lab.measured == statuses
    listed = {(entry["case"], entry["block"]): entry for entry in index["trials"]}
    assert [(e["case"], e["block"]) for e in index["trials"]] == sorted(listed) and len(listed) == 9
    for name, block, position in names(schedule(plan)):
        entry = listed[f"case={name}", block]
        assert (entry["position"], entry["cause"]) == (position, failed.get((name, block)))
        assert [f["name"] for f in entry["files"]] == ["stdout", "trial.json"][(name, block) == ("b", 1) :]
    (held,) = index["sessions"]
    assert {trial.record.session for trial in lab.store.trials()} == {held["uuid"]}
    assert (held["seed"], held["events"], held["hosts"]) == (7, [], {})
    assert lab.hold(plan) == index and lab.connections == [1], "nothing is missing, and no host is asked"


def test_an_index_holds_as_long_as_it_is_of_this_plan_and_of_these_discards(lab):
    lab.hold(plan := lab.plan("a"))
    assert not is_held(lab.root, lab.plan("a", "b")) and not is_held(lab.root, lab.plan("a", blocks=4))
    (first, *_) = lab.store.trials()
    index = lab.store.index.read_text()
    lab.store.discard(first, "a test")
    lab.store.index.write_text(index)
    assert not is_held(lab.root, plan)
    assert lab.hold(plan)["discarded"][0]["uuid"] == first.record.uuid and is_held(lab.root, plan)
    assert [block for _, block, _ in lab.measured] == [1, 2, 3, 1]
    lab.store.index.write_text(lab.store.index.read_text().replace('"problem": null', '"problem": "x"'))
    assert not is_held(lab.root, plan)


# -- what counts -------------------------------------------------------------------------------------------------


def test_results_count_and_what_is_discarded_aborted_or_of_no_case_does_not(lab):
    lab.happens[("a", 1)] = [TrialFailed("x")]
    lab.hold(plan := lab.plan("a", "b"))
    trials = lab.store.trials()
    by = {(t.record.case, t.record.block): t for t in trials}
    assert adopt(plan, trials, set()) == by and by["case=a", 1].record.status == "failed"
    aborted = replace(trials[0], facts=trials[0].facts.model_copy(update={"status": "aborted"}))
    assert len(adopt(plan, [aborted, *trials[1:]], {trials[1].record.uuid})) == 4
    assert set(adopt(lab.plan("b"), trials, set())) == {("case=b", 1), ("case=b", 2), ("case=b", 3)}
    missing = missing_trials(plan, lab.store, trials[1:], print)
    assert [(s.case.id, s.block) for s in missing] == [(trials[0].record.case, trials[0].record.block)]


def test_a_case_that_is_described_anew_stops_the_session_and_says_what_changed(lab):
    lab.hold(lab.plan("a"))
    index = lab.hold(lab.plan("a", words="otherwise"))
    assert "case=a: the study now describes this case differently (words changed)" in index["problem"]
    assert len(index["trials"]) == 3 and lab.connections == [1]
    imported = [replace(t, facts=t.facts.model_copy(update={"imported_from": "x"})) for t in lab.store.trials()]
    assert len(adopt(lab.plan("a", words="otherwise"), imported, set())) == 3, "it is what somebody else ran"


# -- trials without a result --------------------------------------------------------------------------------------


def test_a_trial_that_was_aborted_is_done_once_more_at_the_end(lab):
    lab.happens[("a", 1)] = [RuntimeError("a defect"), 2.0]
    index = lab.hold(lab.plan("a", "b"))
    assert index["problem"] is None and len(index["trials"]) == 7
    assert lab.measured[-1] == ("a", 1, "ok") and [s for *_, s in lab.measured].count("aborted") == 1
    (aborted,) = (trial for trial in lab.store.trials() if trial.record.status == "aborted")
    assert aborted.record.cause == "internal error: RuntimeError: a defect"
    assert aborted.record.failure.cause is Cause.INTERNAL


@pytest.mark.parametrize(("count", "told"), [(1, "block 1"), (5, "block 5"), (7, "block 5 and 2 more")])
def test_trials_that_were_aborted_twice_are_named_five_at_most(lab, count, told):
    lab.happens |= {("a", block): [RuntimeError("x"), RuntimeError("y")] for block in range(1, count + 1)}
    problem = lab.hold(lab.plan("a", blocks=7))["problem"]
    assert problem.startswith(f"{count} trials were aborted twice and have no result: case=a in block 1")
    assert problem.endswith(told) and problem.count("case=a") == min(count, 5)
    assert not is_held(lab.root, lab.plan("a", blocks=7))


def test_a_case_that_fails_twice_in_the_same_way_is_given_up(lab):
    lab.happens |= {("a", block): [TrialFailed("no such file")] for block in (1, 2, 3, 4)}
    index = lab.hold(lab.plan("a", "b", blocks=4, give_up_after=2))
    assert {(case, block) for case, block, _ in lab.measured if case == "a"} == {("a", 1), ("a", 2)}
    assert sum(case == "b" for case, *_ in lab.measured) == 4
    (given,) = index["given_up"]
    assert (given["case"], given["trials"], given["left_out"]) == ("case=a", 2, 2)
    (event,) = index["sessions"][0]["events"]
    assert "case=a: given up after its first 2 trials failed in the same way (no such file); 2 were left out" in event


# -- what ends it --------------------------------------------------------------------------------------------------


def test_a_session_that_lost_its_lock_is_followed_by_one_that_goes_on(lab):
    lab.happens |= {("a", block): [LockLost("lease expired")] for block in (1, 2, 3)}
    lab.happens |= {("a", 4): [LockLost("lease expired"), LockLost("lease expired")]}
    index = lab.hold(lab.plan("a", blocks=5))
    assert index["problem"] is None and len(index["sessions"]) == len(lab.connections) == 6
    lost = [trial.record for trial in lab.store.trials() if trial.record.status == "aborted"]
    assert [record.block for record in lost] == [1, 2, 3, 4, 4]
    assert {(record.cause, record.failure.cause) for record in lost} == {("lease expired", Cause.LEASE_EXPIRED)}


def test_a_lock_that_is_lost_three_times_before_anything_was_measured_ends_it(lab):
    lab.happens[("a", 2)] = [LockLost("lease expired")] * 4
    index = lab.hold(lab.plan("a"))
    assert index["problem"] == "lease expired" and len(lab.happens[("a", 2)]) == 0
    # The first of the four came after a result.
    assert [(block, status) for _, block, status in lab.measured] == [(1, "ok"), *[(2, "aborted")] * 4]


def test_a_lost_connection_ends_it_and_a_defect_of_ours_takes_no_other_target_along(lab, monkeypatch):
    lab.happens[("a", 2)] = [ConnectionLost("gone")]
    assert lab.hold(lab.plan("a"))["problem"] == "gone"
    assert [(block, status) for _, block, status in lab.measured] == [(1, "ok"), (2, "aborted")]
    monkeypatch.setattr(session._Session, "_connect", lambda self, stack: 1 / 0)
    assert lab.hold(lab.plan("a"))["problem"] == "internal error: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("error", "cause"),
    [(OSError(errno.ENOSPC, "No space left", "/x"), "/x: No space left"), (KeyboardInterrupt(), "interrupted")],
)
def test_a_full_disk_and_ctrl_c_end_it_and_what_was_measured_stays(lab, error, cause):
    lab.happens[("a", 2)] = [error]
    with pytest.raises(type(error)):
        lab.hold(lab.plan("a"))
    ok, aborted = lab.store.trials()
    assert (ok.record.block, aborted.record.status) == (1, "aborted") and aborted.record.cause.startswith(cause)
    assert not lab.store.index.exists()
    assert lab.hold(lab.plan("a"))["problem"] is None


# -- others on the host ----------------------------------------------------------------------------------------------


def test_a_disturbed_trial_is_repeated_at_the_end_of_its_block_and_figures_are_of_the_first_that_was_not(lab):
    lab.happens |= {("a", 1): [beside(0.5), beside(0.04), beside(0.0)], ("b", 2): [beside(0.5)] * 4}
    plan = lab.plan("a", "b", blocks=2, disturbance={"limit": "5 %", "then": "repeat", "at_most": 2})
    index = lab.hold(plan)
    blocks = [(case, block) for case, block, _ in lab.measured]
    assert blocks[2] == ("a", 1) and [case for case, block in blocks if block == 1].count("a") == 2
    assert blocks[-2:] == [("b", 2)] * 2 and blocks.count(("b", 2)) == 3, "no oftener than the study says"
    disturbed, calm = (t for t in lab.store.trials() if (t.record.case, t.record.block) == ("case=a", 1))
    assert set_aside(plan, lab.store.trials(), set())[disturbed.record.uuid] == calm.record.uuid
    assert adopt(plan, lab.store.trials(), set())["case=a", 1] == calm
    assert disturbed.record.uuid in index["disturbance"]["repeated"] and len(index["disturbance"]["repeated"]) == 3
    events = [event.partition(" ")[2] for event in index["sessions"][0]["events"]]
    assert (
        events
        == ["block 1: others disturbed case=a: measuring again"]
        + ["block 2: others disturbed case=b: measuring again"] * 2
    )


# -- blocks apart ----------------------------------------------------------------------------------------------------


def test_a_block_waits_until_the_newest_one_began_so_long_ago_as_the_study_says(lab):
    lab.hold(lab.plan("a", "b", blocks=2))
    start = datetime(2026, 1, 2, 3, tzinfo=UTC)

    def begun(trial: StoredTrial, minutes: float, **also: Any) -> StoredTrial:
        moment = (start + timedelta(minutes=minutes)).isoformat()
        return replace(trial, facts=trial.facts.model_copy(update={"started": moment, **also}))

    ones = [t for t in lab.store.trials() if t.record.block == 1]
    (two, _) = (t for t in lab.store.trials() if t.record.block == 2)
    trials = [begun(ones[0], 1), begun(ones[1], 0), begun(two, 12), begun(two, 10)]
    plan = lab.plan(blocks_apart="30min")

    def wait_s(block: int, minutes: float, of: Sequence[StoredTrial] = trials) -> float:
        return session.waiting_s(plan, of, block, start + timedelta(minutes=minutes))

    assert wait_s(3, 15) == 25 * 60 and wait_s(3, 40) == 0 and wait_s(3, 41) == 0
    assert wait_s(1, 15) == wait_s(2, 15) == 0, "it was begun before"
    assert wait_s(2, 15, trials[:2]) == 15 * 60 and wait_s(3, 5) == 30 * 60, "a clock that was set back"
    assert wait_s(1, 15, []) == wait_s(3, 15, [begun(two, 10, imported_from="x")]) == 0
    assert session.waiting_s(lab.plan(), trials, 3, start) == 0


def test_a_session_waits_so_long_before_a_block(lab, monkeypatch):
    waited = []
    monkeypatch.setattr(session.time, "sleep", waited.append)
    lab.hold(lab.plan("a", blocks=2, blocks_apart="1h"))
    assert len(waited) == 1 and 3590 < waited[0] <= 3600
