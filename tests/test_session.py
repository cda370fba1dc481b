"""What a session decides: the order, what counts, what is missing, what ends it.

No host is contacted: trials of the family write what the test says, and the session's connections find no host.
"""

import errno
import itertools
import json
import logging
import os
import random
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from benchstudy.hosts.errors import AgentKilled, LockLost
from benchstudy.hosts.remote import ConnectionLost, RemoteError
from benchstudy.jobs import running
from benchstudy.measuring import session
from benchstudy.measuring.progress import Progress
from benchstudy.measuring.raw import NOT_HELD, TrialStore
from benchstudy.measuring.schedule import Scheduled, adopt, missing_trials, results, schedule, set_aside, waiting_s
from benchstudy.measuring.sealed import check_folder, make_writable
from benchstudy.measuring.session import OneOfMany, hold_session
from benchstudy.measuring.sessionindex import is_held
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial
from benchstudy.measuring.trialrecord import CommandRecord, ToolRecord
from benchstudy.model import interference, paths, registry
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import BrokenPart, SessionFailed, TrialFailed
from benchstudy.model.family import Case, Family, FamilyConfig, Observation, Parsed, ParseError
from benchstudy.model.files import now
from benchstudy.model.metrics import Metric, declare
from benchstudy.model.rounding import plural
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import parse_study


@dataclass
class Ran:
    """What a trial's commands did, and how it ended then."""

    commands: list[CommandRecord]
    error: Exception | None = None


Happens = float | Exception | Callable[[Path], None] | Ran


def ran(host: str = "h", boot_id: str = "b", state: str = "exited") -> CommandRecord:
    return CommandRecord(
        label="command", role="sut", host=host, argv=["x"], tool=ToolRecord(name="x"), state=state, exit_status=0,
        signal=None, started="", finished="", duration_s=1.0, stdout_truncated=False, stderr_truncated=False,
        boot_id=boot_id, load_before=None, load_after=None, clock_offset_s=None,
    )  # fmt: skip


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
        return [Case({"what": name}, {"words": config.words}, most_blocks=most.get(name)) for name in config.cases]

    def run(self, case, trial) -> None:
        left = self.happens.get((case.levels["what"], trial.block))
        what = left.pop(0) if left else 1.0
        if isinstance(what, Ran):
            trial.commands += what.commands
            what = what.error or 1.0
        if isinstance(what, BaseException):
            raise what
        (trial.files / "stdout").write_text("1.0" if callable(what) else str(what))
        if callable(what):
            what(trial.files)

    def notes(self, files) -> dict[str, Any]:
        return {"words": len((files / "stdout").read_text())}

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
        return [(t.record.levels["what"], t.record.block, t.record.status) for t in trials]


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
    return [(each.case.levels["what"], each.block, each.position) for each in scheduled]


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
        entry = listed[f"what={name}", block]
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


def test_an_index_is_of_everything_that_there_is(lab):
    lab.hold(lab.plan("b"))
    index = lab.hold(lab.plan("a", "b", blocks=4))
    assert (index["study"], index["target"], index["family"], index["schema_version"]) == ("s", "t", "written", 1)
    assert [entry["path"] for entry in index["trials"]] == [
        f"{trial.folder.parent.name}/{trial.folder.name}" for trial in lab.store.trials()
    ]
    for entry in index["trials"]:
        (trial,) = (trial for trial in lab.store.trials() if trial.record.uuid == entry["uuid"])
        listed = {(file["name"], file["size"], file["sha256"]) for file in entry["files"]}
        assert listed == set(map(tuple, trial.files)) and trial.record.verified == {"words": 3}
        assert entry["session"] in {held["uuid"] for held in index["sessions"]}
    first, second = index["sessions"]
    assert first["started"] < second["started"] and first["finished"] >= first["started"]
    families = [held["declared"]["families"]["written"] for held in (first, second)]
    assert [family["cases"] for family in families] == [["b"], ["a", "b"]], "what only this family has is declared too"
    assert index["stopping"] is None and index["given_up"] == index["discarded"] == []
    for held in index["sessions"]:
        folder = lab.store.folder / "sessions" / held["uuid"][:8]
        assert json.loads((folder / "session.json").read_text()) == held
        assert not check_folder("", folder).differences


@pytest.mark.parametrize("blocks", [3, {"min": 6, "max": 9}], ids=["fixed", "adaptive"])
def test_a_damaged_index_is_made_again_and_a_session_that_did_not_finish_stays_due(lab, blocks):
    plan = lab.plan("a", "b", blocks=blocks, **({} if blocks == 3 else {"until": "5%"}))

    def made_again(plan: SessionPlan) -> dict[str, Any]:
        lab.store.index.write_text("{")
        running._mend_indexes(lab.root, plan.study)
        return json.loads(lab.store.index.read_text())

    lab.happens["b", 3] = [ConnectionLost("h: away")]
    assert lab.hold(plan)["problem"] == "h: away"
    assert made_again(plan)["problem"] == NOT_HELD and not is_held(lab.root, plan)
    lab.happens["b", 3] = [TrialFailed("no")]
    whole = lab.hold(plan)
    assert made_again(plan) == whole and is_held(lab.root, plan)
    if plan.stopping:
        make_writable(lab.store.folder / "looks")
        shutil.rmtree(lab.store.folder / "looks")
        assert made_again(plan)["problem"] == NOT_HELD, "it has to look first"
    assert "describes this case differently" in made_again(lab.plan("a", "b", words="anew"))["problem"]


def test_no_index_means_that_no_session_was_held(lab):
    plan = lab.plan("a")
    lab.hold(plan)
    lab.store.forget_index()
    assert not is_held(lab.root, plan)
    assert lab.hold(plan)["problem"] is None and is_held(lab.root, plan) and lab.connections == [1]


@pytest.mark.parametrize("content", ["[1]", "{", '{"uuid": "x"}', '{"uuid": 3, "started": "x"}', "7"])
def test_a_damaged_record_of_a_session_is_named(lab, content):
    lab.hold(lab.plan("a"))
    (path,) = lab.store.folder.glob("sessions/*/session.json")
    path.chmod(0o644)
    path.write_text(content)
    with pytest.raises(CorruptTrial, match=r"session\.json: damaged: not the record of a session"):
        lab.hold(lab.plan("a"))


def test_what_a_tool_says_in_no_unicode_is_kept_in_the_index(lab, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, logger="benchstudy")  # pytest's workers cannot pass on a log with it

    def refuse(self, stack):
        raise SessionFailed("no such host: \udcff")

    monkeypatch.setattr(session._Session, "_connect", refuse)
    assert lab.hold(lab.plan("a"))["problem"] == "no such host: \udcff"


def test_events_hold_no_secret(lab, monkeypatch, capsys):
    def tell(self, case, trial) -> None:
        trial.event(f"the server refused {trial.secret('KEY')}")
        (trial.files / "stdout").write_text("1.0")

    monkeypatch.setenv("KEY", "hunter2")
    monkeypatch.setattr(Written, "run", tell)
    (held,) = lab.hold(lab.plan("a", blocks=1))["sessions"]
    (event,) = held["events"]
    assert event.endswith("the server refused «redacted»")
    assert "hunter2" not in "".join(capsys.readouterr())


def test_an_output_that_is_no_longer_readable_without_a_secret_is_a_failure_and_says_so(lab, monkeypatch):
    def run(self, case, trial) -> None:
        (trial.files / "stdout").write_text(f"1.{trial.secret('KEY')}")

    def parse(self, levels, files) -> Parsed:
        text = f"stdout is no number: {(files / 'stdout').read_text()}"
        raise ParseError(text, Failure(cause=Cause.NOT_FOUND, name="rate"))

    monkeypatch.setattr(Written, "parse", parse)
    monkeypatch.setenv("KEY", "00000000")
    monkeypatch.setattr(Written, "run", run)
    lab.hold(lab.plan("a", blocks=1))
    (trial,) = lab.store.trials()
    assert trial.record.status == "failed"
    assert "secrets were removed from stdout: use values that occur nowhere else" in trial.record.cause
    assert trial.record.failure == Failure(cause=Cause.NOT_FOUND, name="rate"), "its kind is kept"


def test_the_traceback_of_a_defect_holds_no_secret(lab, monkeypatch, capsys, caplog):
    def run(self, case, trial) -> None:
        raise ValueError(f"Invalid header value {trial.secret('KEY')!r}")

    monkeypatch.setenv("KEY", "hunter2\n")
    monkeypatch.setattr(Written, "run", run)
    lab.hold(lab.plan("a", blocks=1))
    said = caplog.text + "".join(capsys.readouterr())
    assert "ValueError: Invalid header value" in said and "hunter2" not in said


def test_what_was_announced_is_what_was_done(lab, monkeypatch):
    """Trials and blocks, also when some are repeated, given up, or asked for by a look."""
    announced, begun, results, at_least = [], [], [], []

    class Heard(Progress):
        def __init__(self, path: Path, session: str, blocks: int, *, adaptive: bool = False, **others: Any):
            at_least.append(adaptive)
            super().__init__(path, session, blocks, adaptive=adaptive, **others)

        def begin(self, total: int, adopted: int, *, blocks: int) -> None:
            announced.append((total, blocks, adopted))
            super().begin(total, adopted, blocks=blocks)

        def extend(self, more: int, *, blocks: int) -> None:
            announced.append((more, blocks, 0))
            super().extend(more, blocks=blocks)

        def trial_finished(self, block: int, case: str, status: str, cause: str | None, duration_s: float) -> None:
            begun.append(block)
            results.append(status != "aborted")
            super().trial_finished(block, case, status, cause, duration_s)

    def added_up(plan: SessionPlan) -> tuple[int, int, int]:
        for heard in (announced, begun, results):
            heard.clear()
        assert lab.hold(plan)["problem"] is None
        total, blocks, adopted = map(sum, zip(*announced, strict=True))
        assert total == sum(results) and blocks == len(set(begun))
        return total, blocks, adopted

    monkeypatch.setattr(session, "Progress", Heard)
    assert added_up(lab.plan("a", "b", study="plain")) == (6, 3, 0)
    assert added_up(lab.plan("a", "b", "c", study="plain", blocks=4)) == (6, 4, 6)
    lab.happens |= {("a", 1): [beside(0.5), beside(0.0)], ("b", 2): [beside(0.5)] * 2 + [beside(0.0)]}
    repeat = {"limit": "5 %", "then": "repeat", "at_most": 2}
    assert added_up(lab.plan("a", "b", study="disturbed", disturbance=repeat)) == (9, 3, 0)
    lab.happens |= {("a", block): [TrialFailed("no such file")] for block in (1, 2)}
    assert added_up(lab.plan("a", "b", study="given-up", blocks=4, give_up_after=2)) == (6, 4, 0)
    lab.happens |= {("a", block): [1.0 + block % 2] for block in range(1, 10)}
    assert not any(at_least)
    assert added_up(lab.plan("a", "b", study="adaptive", **UNTIL)) == (18, 9, 0)
    assert at_least[-1], "more blocks may follow, so what is announced is the least"


# -- looks ---------------------------------------------------------------------------------------------------------

UNTIL = {"blocks": {"min": 6, "max": 9}, "until": "5 %"}


def test_an_adaptive_session_goes_on_until_each_case_is_known_or_there_are_no_more_blocks(lab):
    # Case a takes 1 s or 2 s, which no number of blocks makes precise; case b always takes 1 s.
    lab.happens |= {("a", block): [1.0 + block % 2] for block in range(1, 10)}
    plan = lab.plan("a", "b", **UNTIL)
    stopping = lab.hold(plan)["stopping"]
    assert [look["blocks"] for look in stopping["looks"]] == [6, 9] and stopping["blocks"] == 9
    assert stopping["reached"] is False and len(lab.measured) == 18
    assert stopping["verdict"].startswith("after 9 blocks 1 of 2 cases is not known to ±5 %")
    precision = {known["case"]: known["precision"] for known in stopping["known"]}
    assert precision["what=b"] == 0 and precision["what=a"] > 0.05
    assert is_held(lab.root, plan) and lab.hold(plan)["stopping"] == stopping, "no look is taken again"


def test_an_adaptive_session_ends_at_the_first_look_that_is_enough(lab):
    plan = lab.plan("b", **UNTIL)
    said: list[str] = []
    assert [block for _, block, _ in names(missing_trials(plan, lab.store, [], said.append))] == [1, 2, 3, 4, 5, 6]
    stopping = lab.hold(plan)["stopping"]
    assert (stopping["blocks"], stopping["reached"], len(lab.measured)) == (6, True, 6)
    assert missing_trials(plan, lab.store, lab.store.trials(), said.append) == [] == said
    # Without its look, the same trials are not yet enough, and a look is taken if that is allowed.
    shutil.rmtree(lab.store.folder / "looks")
    assert missing_trials(plan, lab.store, lab.store.trials()) == [] == said
    assert not (lab.store.folder / "looks").exists()
    assert missing_trials(plan, lab.store, lab.store.trials(), said.append) == []
    assert len(said) == 1 and said[0].startswith("after 6 blocks every case is known to ±5 %")
    assert len(lab.store.looks()) == 1


def test_an_adaptive_study_whose_case_is_described_anew_has_looked_at_nothing(lab):
    lab.hold(lab.plan("b", **UNTIL))
    index = lab.hold(lab.plan("b", words="otherwise", **UNTIL))
    assert "describes this case differently" in index["problem"] and not is_held(lab.root, lab.plan("b", **UNTIL))
    assert (index["stopping"]["looks"], index["stopping"]["verdict"]) == ([], None)


# -- what counts -------------------------------------------------------------------------------------------------


def test_results_count_and_what_is_discarded_aborted_or_of_no_case_does_not(lab):
    lab.happens[("a", 1)] = [TrialFailed("x")]
    lab.hold(plan := lab.plan("a", "b"))
    trials = lab.store.trials()
    by = {(t.record.case, t.record.block): t for t in trials}
    assert adopt(plan, trials, set()) == by and by["what=a", 1].record.status == "failed"
    aborted = replace(trials[0], facts=trials[0].facts.model_copy(update={"status": "aborted"}))
    assert len(adopt(plan, [aborted, *trials[1:]], {trials[1].record.uuid})) == 4
    assert set(adopt(lab.plan("b"), trials, set())) == {("what=b", 1), ("what=b", 2), ("what=b", 3)}
    missing = missing_trials(plan, lab.store, trials[1:], print)
    assert [(s.case.id, s.block) for s in missing] == [(trials[0].record.case, trials[0].record.block)]


def test_a_case_that_is_described_anew_stops_the_session_and_says_what_changed(lab):
    lab.hold(lab.plan("a"))
    index = lab.hold(lab.plan("a", words="otherwise"))
    assert "what=a: the study now describes this case differently (words changed)" in index["problem"]
    assert len(index["trials"]) == 3 and lab.connections == [1]
    imported = [replace(t, facts=t.facts.model_copy(update={"imported_from": "x"})) for t in lab.store.trials()]
    assert len(adopt(lab.plan("a", words="otherwise"), imported, set())) == 3, "it is what somebody else ran"


def test_all_cases_that_are_described_anew_are_counted(lab):
    lab.hold(lab.plan("a", "b", "c"))
    told = lab.hold(lab.plan("a", "b", "c", words="otherwise"))["problem"]
    assert "the study now describes this case differently" in told
    assert told.endswith("The same is true of 2 more cases")


def test_the_only_result_of_a_case_is_taken_without_reading_its_files(lab):
    """Ten thousand trials are adopted before a session begins."""
    lab.happens[("a", 1)] = [beside(0.5)]
    lab.hold(plan := lab.plan("a", blocks=1))
    (held,) = lab.store.trials()
    unread = replace(held, folder=held.folder.with_name("nothing is here"))
    assert adopt(plan, [unread], set()) == {("what=a", 1): unread}


def test_of_several_disturbed_results_the_first_counts_and_nothing_replaces_it(lab):
    lab.happens[("a", 1)] = [beside(0.5), beside(0.6)]
    plan = lab.plan("a", blocks=1, disturbance={"limit": "5 %", "then": "repeat", "at_most": 1})
    lab.hold(plan)
    first, second = lab.store.trials()
    assert adopt(plan, [first, second], set()) == {("what=a", 1): first}
    assert set_aside(plan, results(plan, [first, second], set())) == {second.record.uuid: first.record.uuid}
    assert missing_trials(plan, lab.store, [first, second], print) == []
    assert [s.block for s in missing_trials(plan, lab.store, [first], print)] == [1]
    marked = lab.plan("a", blocks=1, disturbance={"limit": "5 %"})
    assert missing_trials(marked, lab.store, [first], print) == [], "it is only marked"


# -- trials without a result --------------------------------------------------------------------------------------


def test_a_trial_that_was_aborted_is_done_once_more_at_the_end(lab):
    lab.happens[("a", 1)] = [RuntimeError("a defect"), 2.0]
    index = lab.hold(lab.plan("a", "b"))
    assert index["problem"] is None and len(index["trials"]) == 7
    assert lab.measured[-1] == ("a", 1, "ok") and [s for *_, s in lab.measured].count("aborted") == 1
    (aborted,) = (trial for trial in lab.store.trials() if trial.record.status == "aborted")
    cause = r"internal error: RuntimeError: a defect, line \d+ of test_session\.py"
    assert re.fullmatch(cause, aborted.record.cause)
    assert aborted.record.failure.cause is Cause.INTERNAL


def test_a_family_whose_code_cannot_be_imported_ends_the_session_without_a_result(lab, caplog):
    lab.happens[("a", 1)] = [BrokenPart("my.run: NameError: x, line 7 of run.py; correct it")]
    assert lab.hold(lab.plan("a", "b"))["problem"] == "my.run: NameError: x, line 7 of run.py; correct it"
    (aborted,) = (trial for trial in lab.store.trials() if trial.record.status != "ok")
    assert (aborted.record.status, aborted.record.failure.cause) == ("aborted", Cause.INTERNAL)
    assert "line 7 of run.py" in aborted.record.cause and "Traceback" not in caplog.text


@pytest.mark.parametrize(("count", "told"), [(1, "block 1"), (5, "block 5"), (7, "block 5 and 2 more")])
def test_trials_that_were_aborted_twice_are_named_five_at_most(lab, count, told):
    lab.happens |= {("a", block): [RuntimeError("x"), RuntimeError("y")] for block in range(1, count + 1)}
    problem = lab.hold(lab.plan("a", blocks=7))["problem"]
    assert problem.startswith(f"{plural(count, 'trial')} aborted twice and got no result: what=a in block 1")
    assert re.search(rf"{told}; lastly: internal error: RuntimeError: y, line \d+ of test_session\.py$", problem)
    assert problem.count("what=a") == min(count, 5)
    assert not is_held(lab.root, lab.plan("a", blocks=7))


def raised(error: Exception, because: Exception) -> Exception:
    error.__cause__ = because
    return error


@pytest.mark.parametrize(
    ("what", "status", "cause", "words"),
    [
        (Ran([ran(state="timeout")], TrialFailed("x")), "timeout", Cause.TOLD, "x"),
        (Ran([ran(), ran(state="exited")], TrialFailed("x")), "failed", Cause.TOLD, "x"),
        (Ran([ran(), ran(state="lost")], TrialFailed("x")), "aborted", Cause.TOLD, "x"),
        (Ran([ran(state="timeout"), ran(state="stopped")], TrialFailed("x")), "aborted", Cause.TOLD, "x"),
        (Ran([ran(state="lease-expired")], ParseError("x")), "aborted", Cause.PARSE, "x"),
        (Ran([ran(), ran(boot_id="c")]), "aborted", Cause.HOST_RESTARTED, "the host was restarted during the trial"),
        (Ran([ran(), ran("other", "c"), ran()]), "ok", None, None),
        (Ran([ran(), ran("other", "c"), ran("other", "d")]), "ok", None, None),  # only that of the first is measured
        (Ran([ran(), ran(boot_id="c"), ran("other")]), "aborted", Cause.HOST_RESTARTED, "the host was restarted"),
        (RemoteError("files arrived damaged"), "aborted", Cause.CONNECTION, "files arrived damaged"),
        (AgentKilled("its agent was killed"), "aborted", Cause.CONNECTION, "its agent was killed"),
        (raised(TrialFailed("a service"), AgentKilled("x")), "aborted", Cause.CONNECTION, "a service"),
        (OSError("no disk's"), "aborted", Cause.INTERNAL, "internal error: OSError: no disk's"),
    ],
)
def test_how_a_trial_ended_follows_from_what_its_commands_did(lab, what, status, cause, words):
    lab.happens[("a", 1)] = [what]
    index = lab.hold(lab.plan("a", blocks=1))
    first = min(lab.store.trials(), key=lambda trial: trial.record.finished).record
    assert (first.status, first.failure and first.failure.cause) == (status, cause)
    assert first.cause == words or first.cause.startswith(words)
    assert [command.state for command in first.commands] == [c.state for c in getattr(what, "commands", [])]
    assert index["problem"] is None and len(index["trials"]) == (2 if status == "aborted" else 1)


def test_a_case_that_fails_twice_in_the_same_way_is_given_up(lab):
    lab.happens |= {("a", block): [TrialFailed("no such file")] for block in (1, 2, 3, 4)}
    index = lab.hold(lab.plan("a", "b", blocks=4, give_up_after=2))
    assert {(case, block) for case, block, _ in lab.measured if case == "a"} == {("a", 1), ("a", 2)}
    assert sum(case == "b" for case, *_ in lab.measured) == 4
    (given,) = index["given_up"]
    assert (given["case"], given["trials"], given["left_out"]) == ("what=a", 2, 2)
    (event,) = index["sessions"][0]["events"]
    assert "what=a: given up after its first 2 trials failed in the same way (no such file); 2 were left out" in event


# -- what ends it --------------------------------------------------------------------------------------------------


def test_half_a_note_of_a_command_beside_it_costs_no_trial(lab):
    """Another command wrote it on a disk that was full."""
    noted = paths.beside(lab.root, "s")
    noted.parent.mkdir(parents=True)
    whole = json.dumps({"pid": os.getpid(), "study": "other", "since": now()})
    noted.write_text(f"{whole}\n{whole[:20]}")
    index = lab.hold(lab.plan("a"))
    assert index["problem"] is None and len(lab.measured) == 3
    assert sum("makes tables and pages of study other" in event for event in index["sessions"][0]["events"]) == 1


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


class Clock:
    """Waits take no time, and the clock says that they did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now_s, self.waited, self.then = 1000.0, 0, lambda: None
        monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(session.interrupts, "pause", self.pause)

    def pause(self, duration_s: float) -> None:
        assert duration_s < 0.5, "several times a second"
        self.now_s += 0.25
        self.waited += 1
        self.then()


def test_another_session_is_waited_for_until_its_lease_must_have_ended_twice(lab, monkeypatch, caplog):
    plan, clock = lab.plan("a", thresholds={"lease": "20s"}), Clock(monkeypatch)
    caplog.set_level("INFO", "benchstudy")
    with (
        lab.store.exclusive(),
        pytest.raises(SessionFailed, match="another session is writing here"),
    ):
        lab.hold(plan)
    assert clock.now_s == 1040
    assert caplog.text.count("written on t: waiting for another session of it to end") == 1


def test_a_session_begins_as_soon_as_another_one_has_ended(lab, monkeypatch):
    clock, other = Clock(monkeypatch), lab.store.exclusive()
    other.__enter__()
    steps = itertools.count(1)
    clock.then = lambda: other.__exit__(None, None, None) if next(steps) == 3 else None
    assert lab.hold(lab.plan("a"))["problem"] is None and clock.waited == 3


def test_a_host_is_described_before_and_after_a_session(lab, monkeypatch):
    answers = iter([{"cpus_allowed": 2}, {"cpus_allowed": 1}, {"cpus_allowed": 1}, ConnectionLost("h: gone")])

    def facts() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    host = SimpleNamespace(facts=facts, remote=SimpleNamespace(name="h"))
    monkeypatch.setattr(session._Session, "_connect", lambda self, stack: {"h": host})
    (first,) = lab.hold(lab.plan("a", blocks=1))["sessions"]
    assert (first["hosts"]["h"]["before"], first["hosts"]["h"]["after"]) == ({"cpus_allowed": 2}, {"cpus_allowed": 1})
    assert "cpus_allowed" in json.dumps(first["hosts"]["h"]["diff"]) and first["events"] == []
    _, second = lab.hold(lab.plan("a", blocks=2))["sessions"]
    assert (second["hosts"]["h"]["before"], second["hosts"]["h"]["after"]) == ({"cpus_allowed": 1}, None)
    (event,) = second["events"]
    assert event.endswith("h: the environment after the session is unknown: h: gone")


# -- the record of a session -----------------------------------------------------------------------------------------


def on_disk(record: SessionRecord) -> dict[str, Any] | None:
    path = record.folder / "session.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_a_record_declares_its_own_target_and_hosts_only(lab):
    hosts = {name: {"address": name} for name in ("server", "client", "elsewhere")}
    targets = {"t": {"roles": {"sut": "server", "load": "client"}}, "other": {"roles": {"sut": "elsewhere"}}}
    families = {"written": {"cases": ["a"], "words": "as it is"}}
    study = parse_study({"study": "s", "hosts": hosts, "targets": targets, "families": families})
    record = SessionRecord(lab.store.folder, "01234567-89ab", study.session("t", "written"), "1" * 64)
    record.begin({"server": {}, "client": {}})
    declared = on_disk(record)["declared"]
    assert set(declared["hosts"]) == {"server", "client"} and declared["targets"].keys() == {"t"}
    rest = {**declared, "hosts": {**study.model_dump(mode="json")["hosts"]}, "targets": targets}
    said = {name: value for name, value in rest.items() if value is not None}
    assert parse_study(said, stored=True).sha256 == study.sha256


def test_a_record_is_on_disk_from_the_beginning_and_has_every_event(lab):
    record = SessionRecord(lab.store.folder, "01234567-89ab", lab.plan("a"), "1" * 64)
    record.event("before there was a host")
    assert on_disk(record) is None
    record.begin({"h": {"cpus_allowed": 2}, "other": {}})
    begun = on_disk(record)
    assert [event.partition(" ")[2] for event in begun["events"]] == ["before there was a host"]
    assert (begun["uuid"], begun["seed"], begun["instrument"]) == ("01234567-89ab", 7, "1" * 64)
    assert begun["hosts"]["h"] == {"before": {"cpus_allowed": 2}, "after": None, "diff": begun["hosts"]["h"]["diff"]}
    assert begun["started"] <= begun["finished"] and "measure" not in begun["declared"]
    record.event("something happened")
    assert len(on_disk(record)["events"]) == 2
    record.end({"h": {"cpus_allowed": 2}, "other": None})
    final = lab.store.folder / "sessions" / "01234567"
    ended = (final / "session.json").read_text()
    assert json.loads(ended)["hosts"]["h"]["after"] == {"cpus_allowed": 2} and not record.folder.exists()
    assert json.loads(ended)["hosts"]["h"]["diff"] == [] and not check_folder("", final).differences
    record.event("a thread that outlives it")
    record.save()
    assert (final / "session.json").read_text() == ended


def test_a_killed_session_is_sealed_by_the_next_one_and_told_once(lab):
    record = SessionRecord(lab.store.folder, "01234567-89ab", lab.plan("a"), "1" * 64)
    record.begin({"h": {}})
    last = on_disk(record)["finished"]
    kept, partial = lab.store.folder / "sessions" / "01234567", record.folder
    killed = f"{last} its controller was killed: what follows is not known"
    (partial / ".session.json.host-123").write_text("half")
    (partial / "service.log").write_text("a log")
    for _ in range(2):
        with lab.store.exclusive():
            pass
        assert json.loads((kept / "session.json").read_text())["events"] == [killed]
        assert {path.name for path in kept.iterdir()} == {"session.json", "service.log", "SHA256SUMS"}
        assert not check_folder("", kept).differences
        partial.exists() or kept.rename(partial)  # as if it was killed again, between sealing and renaming
    (partial / "session.json").chmod(0o644)
    (partial / "session.json").write_text(
        json.dumps({**json.loads((partial / "session.json").read_text()), "events": ["x"]})
    )
    with lab.store.exclusive():
        pass
    assert json.loads((kept / "session.json").read_text())["events"] == ["x", killed]
    kept.rename(partial)
    with lab.store.exclusive():
        pass
    assert json.loads((kept / "session.json").read_text())["events"] == ["x", killed]


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", "7", '{"events": [], "finished": "x"}', '{"events": 7, "uuid": "x"}']
)
def test_a_session_that_left_no_record_is_removed(lab, content):
    record = SessionRecord(lab.store.folder, "01234567-89ab", lab.plan("a"), "1" * 64)
    if content is not None:
        (record.folder / "session.json").write_text(content)
    with lab.store.exclusive():
        pass
    assert list((lab.store.folder / "sessions").iterdir()) == []


# -- others on the host ----------------------------------------------------------------------------------------------


def test_a_disturbed_trial_is_repeated_at_the_end_of_its_block_and_figures_are_of_the_first_that_was_not(lab):
    lab.happens |= {("a", 1): [beside(0.5), beside(0.04), beside(0.0)], ("b", 2): [beside(0.5)] * 4}
    plan = lab.plan("a", "b", blocks=2, disturbance={"limit": "5 %", "then": "repeat", "at_most": 2})
    index = lab.hold(plan)
    blocks = [(case, block) for case, block, _ in lab.measured]
    assert blocks[2] == ("a", 1) and [case for case, block in blocks if block == 1].count("a") == 2
    assert blocks[-2:] == [("b", 2)] * 2 and blocks.count(("b", 2)) == 3, "no oftener than the study says"
    disturbed, calm = (t for t in lab.store.trials() if (t.record.case, t.record.block) == ("what=a", 1))
    assert set_aside(plan, results(plan, lab.store.trials(), set()))[disturbed.record.uuid] == calm.record.uuid
    assert adopt(plan, lab.store.trials(), set())["what=a", 1] == calm
    assert disturbed.record.uuid in index["disturbance"]["repeated"] and len(index["disturbance"]["repeated"]) == 3
    events = [event.partition(" ")[2] for event in index["sessions"][0]["events"]]
    assert (
        events
        == ["block 1: other work disturbed what=a: measuring again"]
        + ["block 2: other work disturbed what=b: measuring again"] * 2
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
        return waiting_s(plan, of, block, start + timedelta(minutes=minutes))

    assert wait_s(3, 15) == 25 * 60 and wait_s(3, 40) == 0 and wait_s(3, 41) == 0
    assert wait_s(1, 15) == wait_s(2, 15) == 0, "it was begun before"
    assert wait_s(2, 15, trials[:2]) == 15 * 60 and wait_s(3, 5) == 30 * 60, "a clock that was set back"
    assert wait_s(1, 15, []) == wait_s(3, 15, [begun(two, 10, imported_from="x")]) == 0
    assert waiting_s(lab.plan(), trials, 3, start) == 0


def test_a_session_waits_so_long_before_a_block(lab, monkeypatch):
    waited, here = [], threading.get_ident()  # threads that an earlier test left may sleep, too
    monkeypatch.setattr(session.time, "sleep", lambda s: waited.append(s) if threading.get_ident() == here else None)
    lab.hold(lab.plan("a", blocks=2, blocks_apart="1h"))
    assert 3590 < sum(waited) <= 3600
    assert max(waited) <= 1, "a signal just before a sleep is heard only after it"
