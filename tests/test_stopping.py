"""Sessions that stop when every case is precise enough: the rule, its coverage, and real sessions over SSH."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import as_project
from one_host import study_on
from sshd_hosts import SshdHost
from waiting import interrupts_heard_in_waits, until

from benchstudy.commands import cli
from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import Command
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring import sealed
from benchstudy.measuring.progress import under_way
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.schedule import waiting_s
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial
from benchstudy.model import paths, registry
from benchstudy.model.criteria import LEVEL
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Case, Family, FamilyConfig, Observation, Parsed, ParseError
from benchstudy.model.metrics import Metric, declare
from benchstudy.model.stopping import FEWEST, Stopping
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import evidence
from benchstudy.statistics.stats import precision, smallest_n, summarise

# -- the rule ------------------------------------------------------------------------------------------------


def looks_of(rule: Stopping) -> list[int]:
    found = [rule.look_from(0)]
    while found[-1] < rule.most:
        found.append(rule.look_after(found[-1]))
    return found


def test_looks_are_few_and_end_at_the_most():
    assert looks_of(Stopping(6, 30, 0.05)) == [6, 9, 15, 23, 30]
    assert looks_of(Stopping(7, 8, 0.05)) == [7, 8]
    assert len(looks_of(Stopping(6, 10_000, 0.05))) < 20


def test_a_look_comes_after_all_that_was_begun():
    rule = Stopping(6, 30, 0.05)
    assert [rule.look_from(begun) for begun in (0, 6, 7, 9, 10, 30, 90)] == [6, 6, 9, 9, 15, 30, 30]


def test_looks_are_where_the_printed_interval_gets_narrower():
    def width(n: int) -> int:
        made = summarise(range(n))
        return int(made.interval_high - made.interval_low)

    for n in looks_of(Stopping(6, 90, 0.05))[1:-1]:
        assert width(n) < width(n - 1)
    assert smallest_n(50, LEVEL) == FEWEST


def test_the_fewest_blocks_follow_from_the_level_of_every_interval():
    script = (
        "from benchstudy.model import criteria; criteria.LEVEL = 0.9; from benchstudy.model.stopping import FEWEST; "
        "from benchstudy.statistics.stats import smallest_n; print(FEWEST, smallest_n(50))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["5", "5"]


def test_precision_is_half_the_interval_over_the_median():
    assert precision(summarise([9.0, 10.0, 10.0, 10.0, 10.0, 11.0])) == pytest.approx(0.1)
    assert precision(summarise([2.0] * 6)) == precision(summarise([0.0] * 6)) == 0
    for values in ([1.0] * 5, [0.0] * 4 + [1.0] * 2, [1.0, np.inf, 1.0, 1.0, 1.0, 1.0], []):
        assert precision(summarise(values)) is None


SHAPES: Mapping[str, Callable[[np.random.Generator, Any], np.ndarray]] = {
    "normal": lambda random, size: 1 + 0.09 * random.standard_normal(size),
    "lognormal": lambda random, size: np.exp(0.09 * random.standard_normal(size)),
    # Three in ten are slow.
    "bimodal": lambda random, size: 1 + 0.045 * random.standard_normal(size) + 0.18 * (random.random(size) < 0.3),
    "heavy tails": lambda random, size: np.exp(0.06 * random.standard_t(3, size)),
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_that_is_printed_still_covers_after_stopping_when_it_is_narrow(shape):
    """At the spreads where peeking hurts most. benchmarks/adaptive_stopping.py has all spreads, and more sessions."""
    random, rule, repeats = np.random.default_rng(11), Stopping(6, 30, 0.05), 2000
    truth = float(np.median(SHAPES[shape](random, 1_000_000)))
    sessions = SHAPES[shape](random, (repeats, rule.most))
    covered = early = 0
    for session in sessions:
        for blocks in looks_of(rule):
            made = summarise(session[:blocks])
            if precision(made) <= rule.until or blocks == rule.most:
                covered += made.interval_low <= truth <= made.interval_high
                early += blocks < rule.most
                break
    assert covered / repeats >= 0.93
    assert 0.2 < early / repeats < 0.95, "neither does every session stop early nor none"


# -- what a study says -----------------------------------------------------------------------------------------

ADAPTIVE = {"blocks": {"min": 6, "max": 15}, "until": "5 %"}
FIO = {"directories": [{"name": "d", "path": "/srv"}]}


def declared(fio: Mapping[str, Any] | None = None, **study: Any) -> Study:
    hosts = {"hosts": {"h": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "h"}}}}
    return parse_study({"study": "s", **hosts, "families": {"fio": FIO | dict(fio or {})}, **study})


def rule_of(study: Study) -> Stopping | None:
    return study.session("t", "fio").stopping


def test_a_fixed_number_stays_what_it_was():
    plan = declared(blocks=12).session("t", "fio")
    assert (plan.blocks, plan.fewest_blocks, plan.stopping) == (12, 12, None)
    assert "until" not in json.dumps(sorted(declared(blocks=12).model_dump(exclude_none=True)))


def test_a_family_may_have_a_rule_of_its_own():
    assert rule_of(declared(**ADAPTIVE)) == Stopping(6, 15, 0.05)
    assert rule_of(declared(ADAPTIVE, blocks=3)) == Stopping(6, 15, 0.05)
    assert rule_of(declared({"until": "2.5 %"}, **ADAPTIVE)) == Stopping(6, 15, 0.025)
    assert rule_of(declared({"blocks": {"max": 40}}, **ADAPTIVE)) == Stopping(6, 40, 0.05)
    study = declared({"blocks": {"max": 40}}, **ADAPTIVE)
    assert parse_study(study.model_dump(mode="json", serialize_as_any=True), stored=True).sha256 == study.sha256


@pytest.mark.parametrize(
    ("study", "says"),
    [
        ({"blocks": {"min": 6, "max": 30}}, "blocks: a range needs a precision beside it"),
        ({"blocks": 6, "until": "5 %"}, "until: the number of blocks is fixed"),
        ({"blocks": {"min": 6, "max": 6}, "until": "5 %"}, "blocks: max (6) must be above min (6)"),
        ({"blocks": {"min": 3, "max": 9}, "until": "5 %"}, "blocks: min: "),
        ({"blocks": {"mim": 6, "max": 9}, "until": "5 %"}, 'blocks: mim: unknown key: did you mean "min"?'),
        ({"blocks": {"min": 6, "max": 9}, "until": 5}, "until: 5 is not a precision"),
        ({"blocks": "many"}, "blocks: 'many': write a number of blocks"),
        ({"blocks": True}, "blocks: True: write a number of blocks"),
    ],
)
def test_half_a_rule_is_refused_with_the_other_half(study, says):
    with pytest.raises(StudyError) as error:
        declared(**study)
    assert says in str(error.value)
    if "families" not in str(error.value):
        with pytest.raises(StudyError, match=r"families\.fio\."):
            declared(study)


def test_the_plan_changes_with_the_rule_and_not_with_what_a_family_is_measured_for(monkeypatch):
    def digest(**changes):
        return declared(**ADAPTIVE | changes).session("t", "fio").digest

    assert len({digest(), digest(until="4 %"), digest(blocks={"max": 16}), digest(blocks={"min": 7, "max": 15})}) == 4
    before = digest()
    monkeypatch.setattr(type(registry.get("fio")), "metrics", measured_for("read_lat_mean"))
    assert digest() == before


# -- sessions --------------------------------------------------------------------------------------------------

QUIET = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0] * 5
# With nine trials or more, two wild ones are outside the interval.
WILD = [1.0, 0.6, 1.01, 1.5, 0.99, 1.0, *QUIET[6:]]
NEVER = [1.0, 2.0, 3.0] * 10
BROKEN = [None] * 30
MOST = {"short": 6}  # the blocks of a case


def measured_for(*primary: str) -> Mapping[str, Metric]:
    """Declared times, which are the primary metrics of the cases."""
    names = dict.fromkeys(["other", "duration", *primary])
    return declare(*(Metric(name, "s", name.capitalize(), "lower", primary=name in primary) for name in names))


class ScriptedConfig(FamilyConfig):
    values: dict[str, list[float | None]]


class Scripted(Family):
    """A command on the host prints the study's value for a case and block; without a value, it fails."""

    name, title, Config = "scripted", "Scripted", ScriptedConfig
    metrics: ClassVar[Mapping[str, Metric]] = measured_for("duration")
    # What an edit of the parser changes in every value.
    edited: Callable[[float], float] = staticmethod(lambda value: value)
    stop_at: ClassVar[list[tuple[str, int]]] = []

    def cases(self, config: ScriptedConfig) -> list[Case]:
        return [Case({"script": name}, most_blocks=MOST.get(name)) for name in config.values]

    def run(self, case, trial) -> None:
        name = case.levels["script"]
        if (name, trial.block) in self.stop_at:
            self.stop_at.clear()
            raise KeyboardInterrupt
        value = trial.config.values[name][trial.block - 1]
        trial.execute(Command(["echo", str(value)] if value is not None else ["false"])).require_success()

    def parse(self, case_levels, files) -> Parsed:
        value = type(self).edited(float((files / "stdout").read_text()))
        if value < 0:
            raise ParseError("a negative duration")
        return Parsed([Observation("other", 1.0, "s"), Observation("duration", value, "s")])


@dataclass
class Lab:
    """A host and a project folder, for sessions one after another."""

    root: Path
    host: SshdHost

    def study(self, values: Mapping[str, Sequence[float | None]], **changes: Any) -> Study:
        described = self.host.described(self.host.folder / "work")
        families = {"scripted": {"values": {name: list(given) for name, given in values.items()}}}
        return study_on(described, families, study="s", target="t", name="h", **{**ADAPTIVE, **changes})

    def hold(self, values: Mapping[str, Sequence[float | None]], **changes: Any) -> dict[str, Any]:
        """Hold one session and return its index."""
        return json.loads(hold_session(self.root, self.study(values, **changes).session("t", "scripted")).read_text())

    @property
    def store(self) -> TrialStore:
        return TrialStore(paths.family_raw(self.root, "s", "t", "scripted"))

    def results(self, case: str) -> list[int]:
        """The blocks in which a case has a result that counts."""
        discarded = self.store.discards()
        kept = [t.record for t in self.trials if t.record.uuid not in discarded and t.record.status != "aborted"]
        return [record.block for record in kept if record.case == f"script={case}"]

    @property
    def trials(self) -> list[StoredTrial]:
        return self.store.trials()


@pytest.fixture
def lab(tmp_path, sshd, monkeypatch) -> Lab:
    known, get = {**registry.packages(), "scripted": __name__}, registry.get
    monkeypatch.setattr(registry, "packages", lambda: known)
    monkeypatch.setattr(registry, "get", lambda name: Scripted() if name == "scripted" else get(name))
    monkeypatch.setattr(Scripted, "edited", staticmethod(lambda value: value))
    return Lab(tmp_path, sshd)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> dict[str, Path]:
    """Folders in which sessions were held, by what they measured."""
    return {}


@pytest.fixture
def held(lab, kept, tmp_path_factory) -> Callable[..., dict[str, Any]]:
    """Like `lab.hold`, for sessions with which tests begin: each is held once, and each test gets a copy."""

    def held(values: Mapping[str, Sequence[float | None]], **changes: Any) -> dict[str, Any]:
        key = json.dumps([values, changes])
        if key not in kept:
            kept[key] = tmp_path_factory.mktemp("held")
            Lab(kept[key], lab.host).hold(values, **changes)
        shutil.copytree(kept[key], lab.root, dirs_exist_ok=True)
        return lab.hold(values, **changes)

    return held


def first(n: int) -> list[int]:
    return list(range(1, n + 1))


def test_a_session_stops_when_every_case_is_known_well_enough_and_the_same_again_does_nothing(lab, caplog):
    index = lab.hold({"quiet": QUIET, "wild": WILD})
    assert lab.results("quiet") == lab.results("wild") == first(9), "cases stay in the same blocks"
    stopping = index["stopping"]
    assert (stopping["blocks"], stopping["reached"]) == (9, True)
    assert [look["blocks"] for look in stopping["looks"]] == [6, 9]
    precisions = {known["case"]: known["precision"] for known in stopping["known"]}
    assert precisions["script=quiet"] <= 0.05 and precisions["script=wild"] <= 0.05
    assert (
        "after 6 blocks 1 of 2 cases is not known to ±5 %, on to 9 blocks (script=wild: duration ±45 %)" in caplog.text
    )
    assert "after 9 blocks every case is known to ±5 % (the least: script=quiet: duration ±1 %)" in caplog.text
    assert any("after 9 blocks" in event for event in index["sessions"][0]["events"])
    again = lab.hold({"quiet": QUIET, "wild": WILD})
    assert again == index, "nothing was measured, no host was asked, and no look was taken"


def test_a_finished_session_stays_finished_whatever_a_parser_says_later(lab, held, monkeypatch):
    index = held({"quiet": QUIET})
    assert lab.results("quiet") == first(6)
    for edited in (lambda value: value**40, lambda value: -value):
        monkeypatch.setattr(Scripted, "edited", staticmethod(edited))
        assert lab.hold({"quiet": QUIET}) == index
    monkeypatch.setattr(Scripted, "metrics", measured_for("something new"))
    lab.store.index.unlink()
    assert lab.hold({"quiet": QUIET}) == index


def test_an_interrupted_session_goes_on_to_the_same_end(lab, monkeypatch):
    monkeypatch.setattr(Scripted, "stop_at", [("wild", 8)])
    with pytest.raises(KeyboardInterrupt):
        lab.hold({"quiet": QUIET, "wild": WILD})
    assert not lab.store.index.exists() or 9 not in lab.results("wild")
    index = lab.hold({"quiet": QUIET, "wild": WILD})
    assert lab.results("quiet") == lab.results("wild") == first(9)
    assert [look["blocks"] for look in index["stopping"]["looks"]] == [6, 9], "no look at what the interrupt left"


def forget_looks(lab: Lab) -> None:
    """As if the controller had been killed between the last trial and the look."""
    for look in (lab.store.folder / "looks").iterdir():
        look.chmod(0o755)
        for file in look.iterdir():
            file.unlink()
        look.rmdir()


def test_killed_between_the_last_trial_and_the_look_it_is_taken_next_time_and_no_host_is_asked(lab, held):
    index = held({"quiet": QUIET})
    forget_looks(lab)
    again = lab.hold({"quiet": QUIET})
    assert again["stopping"]["known"] == index["stopping"]["known"]
    assert again["sessions"] == index["sessions"]


def test_nothing_is_decided_on_trials_that_can_no_longer_be_read(lab, held, monkeypatch):
    index = held({"quiet": QUIET})
    forget_looks(lab)
    with monkeypatch.context() as newer:
        newer.setattr(Scripted, "edited", staticmethod(lambda value: -value))
        broken = lab.hold({"quiet": QUIET})
    assert "was parsed when it was measured, but now: ParseError: a negative duration" in broken["problem"]
    assert broken["sessions"] == index["sessions"] and lab.store.looks() == []
    mended = lab.hold({"quiet": QUIET})
    assert mended["problem"] is None and mended["stopping"]["known"] == index["stopping"]["known"]


def test_the_most_is_the_end_and_it_is_said_what_was_not_reached(lab, held, monkeypatch, capsys):
    values, blocks = {"quiet": QUIET, "never": NEVER}, {"min": 6, "max": 7}
    index = held(values, blocks=blocks)
    assert lab.results("never") == first(7)
    assert index["stopping"]["reached"] is False
    assert "1 of 2 cases is not known to ±5 %, and that is the most allowed" in index["stopping"]["verdict"]
    study = as_project(lab.root) / "study.json"
    study.write_text(json.dumps(lab.study(values, blocks=blocks).model_dump(mode="json", serialize_as_any=True)))
    monkeypatch.chdir(lab.root)
    assert cli.main(["cases", str(study)]) == cli.main(["check", "--no-hosts", str(study)]) == 0
    said = capsys.readouterr().out
    assert "2 cases, 6 to 7 blocks until every case is known to ±5 %" in said
    assert "script=never  7 ok, duration ±50 %" in said
    assert "1 session, 12 to 14 trials" in said


def test_a_case_that_never_gives_a_value_holds_nobody_up(lab):
    index = lab.hold({"quiet": QUIET, "broken": BROKEN})
    assert lab.results("broken") == first(6)
    assert index["stopping"]["reached"] is True
    nothing = "nothing to wait for: script=broken: no trial gave a value"
    known = "after 6 blocks 1 of 2 cases is known to ±5 % (the least: script=quiet: duration ±1 %)"
    assert index["stopping"]["verdict"] == f"{known}; {nothing}"
    most = lab.hold({"quiet": QUIET, "broken": BROKEN, "never": NEVER}, blocks={"min": 6, "max": 7})
    short = "2 of 3 cases are not known to ±5 %, and that is the most allowed (script=never: duration ±50 %)"
    assert most["stopping"]["verdict"] == f"after 7 blocks {short}; {nothing}"


def test_if_no_case_gives_a_value_none_is_known(lab):
    said = lab.hold({"broken": BROKEN})["stopping"]["verdict"]
    nothing = "nothing to wait for: script=broken: no trial gave a value"
    assert said == f"after 6 blocks 0 of 1 case is known to ±5 %; {nothing}"


def test_a_case_that_has_no_further_blocks_holds_nobody_up(lab):
    index = lab.hold({"wild": WILD, "short": NEVER})
    assert (lab.results("wild"), lab.results("short")) == (first(9), first(6))
    assert index["stopping"]["reached"] is False
    verdict = "after 9 blocks 1 of 2 cases is not known to ±5 %, and there are no more (script=short: duration ±50 %)"
    assert index["stopping"]["verdict"] == verdict


def test_a_case_with_too_few_values_waits_for_more(lab):
    lab.hold({"half": [None, *QUIET[1:]]})
    assert lab.results("half") == first(9)


def test_a_changed_rule_goes_by_what_was_seen_before_it_measures(lab, monkeypatch):
    index = lab.hold({"wild": WILD})
    monkeypatch.setattr(Scripted, "edited", staticmethod(lambda value: value**40))
    looser = lab.hold({"wild": WILD}, until="60 %", blocks={"min": 6, "max": 30})
    assert looser["sessions"] == index["sessions"] and looser["stopping"]["reached"] is True
    stricter = lab.hold({"wild": WILD}, until="0.6 %")
    assert lab.results("wild") == first(15)
    assert [look["until"] for look in stricter["stopping"]["looks"]] == [0.05, 0.05, 0.006]
    lab.hold({"wild": WILD}, blocks={"min": 16, "max": 18})
    assert lab.results("wild")[15:] in ([16], [16, 17, 18]), "at least the new least"


def test_a_new_case_is_measured_in_every_block_and_then_all_are_looked_at(lab, held):
    held({"quiet": QUIET})
    index = lab.hold({"quiet": QUIET, "new": WILD})
    assert lab.results("new") == lab.results("quiet") == first(9)
    assert len(index["stopping"]["known"]) == 2
    fewer = lab.hold({"quiet": QUIET})
    assert fewer["sessions"] == index["sessions"] and len(fewer["stopping"]["known"]) == 1


def test_a_discarded_trial_is_replaced_and_what_was_seen_with_it_no_longer_counts(lab, held):
    held({"quiet": QUIET})
    (chosen,) = [trial for trial in lab.trials if trial.record.block == 2]
    lab.store.discard(chosen, "a backup was running")
    index = lab.hold({"quiet": QUIET})
    assert sorted(lab.results("quiet")) == first(6)
    assert [look["blocks"] for look in index["stopping"]["looks"]] == [6, 6]
    assert chosen.record.uuid not in json.dumps(lab.store.looks()[-1])


def test_an_altered_look_is_named(lab, held):
    held({"quiet": QUIET})
    (path,) = lab.store.folder.glob("looks/*/look.json")
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"blocks": 6', '"blocks": 9'))
    with pytest.raises(CorruptTrial, match=r"look\.json: altered.*; it belongs to a look: restore it from a copy"):
        lab.hold({"quiet": QUIET})


def test_a_look_that_cannot_be_read_is_not_called_altered(lab, held, monkeypatch):
    held({"quiet": QUIET})

    def broken(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(sealed, "sha256_of", broken)
    with pytest.raises(CorruptTrial, match=r"look\.json: .*Input/output error: find out what .*; it belongs to a look"):
        lab.store.looks()


def test_a_fixed_number_of_blocks_takes_no_look(lab):
    index = lab.hold({"wild": WILD}, blocks=2, until=None)
    assert lab.results("wild") == first(2)
    assert index["stopping"] is None and lab.store.looks() == []


def test_trials_without_a_named_metric_are_judged_by_their_first_time(lab, monkeypatch):
    monkeypatch.setattr(Scripted, "metrics", measured_for())
    (known,) = lab.hold({"wild": WILD})["stopping"]["known"]
    assert (known["metric"], known["precision"]) == ("other", 0.0)
    assert "all values are equal" in known["why"]


def test_a_page_says_by_what_rule_it_stopped_what_was_not_reached_and_what_a_newer_parser_makes_of_it(
    lab, held, monkeypatch
):
    values = {"quiet": QUIET, "never": NEVER}
    index = held(values, blocks={"min": 6, "max": 7})

    def page() -> tuple[str, str]:
        plan = lab.study(values).session("t", "scripted")
        # Parts belong to the files of their parser, and this one is edited in memory.
        shutil.rmtree(paths.parts(lab.root, "s", "scripted"), ignore_errors=True)
        tidy_family(lab.root, [plan], lab.root / "tidy")
        results = Results(lab.root / "tidy", study="s", family="scripted")
        weak = evidence.weakness_list(evidence.weak_points(results, [index]))
        method = evidence.method(results, [index])
        return method.replace("\N{NO-BREAK SPACE}", " "), weak.replace("\N{NO-BREAK SPACE}", " ")

    method, weak = page()
    assert "6 to 7, until every case is known to ±5 %" in method
    assert "The precision was checked after 6, 7 blocks, and at no other time." in method
    # Simulated with two equal modes or an autocorrelation, the worst is far lower (benchmarks/adaptive_stopping.py).
    assert "93.6 of 100 sessions at worst if trials are independent and gather around it." in method
    assert "never, duration: ±5 % was declared, but 7 blocks gave ±50 %." in weak
    (never,) = (known for known in index["stopping"]["known"] if known["case"] == "script=never")
    never["precision"], seen = 0.050004, never["precision"]
    assert "never, duration: ±5 % was declared, but 7 blocks gave ±5.0004 %." in page()[1]
    never["precision"] = seen
    assert "when the session stopped" not in weak
    monkeypatch.setattr(Scripted, "edited", staticmethod(lambda value: value**40))
    method, weak = page()
    assert "quiet, duration: known to ±1 % when the session stopped, and to ±41 % on this page" in weak
    older = {name: value for name, value in index.items() if name != "stopping"}
    assert "until" not in evidence.method(Results(lab.root / "tidy", study="s", family="scripted"), [older])


# -- blocks apart ----------------------------------------------------------------------------------------------

FIXED = {"blocks": 3, "until": None}


def test_blocks_begin_as_far_apart_as_the_study_wants_and_an_adopted_one_waits_for_nothing(lab):
    lab.hold({"quiet": QUIET}, **{**FIXED, "blocks": 2}, blocks_apart="400ms")
    lab.hold({"quiet": QUIET, "new": QUIET}, **FIXED, blocks_apart="400ms")
    begun = {}
    for trial in lab.trials:
        begun.setdefault((trial.record.session, trial.record.block), datetime.fromisoformat(trial.record.started))
    held = {session: moment for (session, _), moment in begun.items()}
    first_held = min(held, key=held.get)
    of_first = sorted(moment for (session, _), moment in begun.items() if session == first_held)
    assert len(of_first) == 2 and (of_first[1] - of_first[0]).total_seconds() >= 0.4
    plan = lab.study({"quiet": QUIET}, **FIXED, blocks_apart="1h").session("t", "scripted")
    last = max(datetime.fromisoformat(trial.record.started) for trial in lab.trials if trial.record.block == 3)
    soon = last + timedelta(minutes=10)
    assert waiting_s(plan, lab.trials, 2, soon) == 0, "it was begun before"
    assert waiting_s(plan, lab.trials, 4, soon) == pytest.approx(50 * 60, abs=5)
    assert waiting_s(plan, lab.trials, 4, last + timedelta(hours=2)) == waiting_s(plan, [], 1, soon) == 0
    assert waiting_s(plan, lab.trials, 4, last - timedelta(hours=9)) == 3600, "a clock that was set back"


def test_ctrl_c_ends_a_wait_and_what_was_measured_counts(lab):
    seen = []

    def press():
        try:
            until(lambda: any("waiting for block 2" in path.read_text() for path in progress_folder.glob("*.json")))
            seen.extend(under_way(progress_folder))
        finally:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    progress_folder = paths.progress(lab.root, "s")
    presser = threading.Thread(target=press)
    with interrupts_heard_in_waits():
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            lab.hold({"quiet": QUIET}, **FIXED, blocks_apart="20s")
        presser.join()
    assert re.fullmatch(r"scripted on t, 0:[34]\d left", seen[0]), seen
    assert lab.results("quiet") == [1]
    index = lab.hold({"quiet": QUIET}, **FIXED)
    assert lab.results("quiet") == first(3) and len(index["sessions"]) == 2 and index["problem"] is None


def test_ctrl_c_is_heard_while_a_thread_is_awaited():
    over = threading.Event()
    awaited = threading.Thread(target=over.wait, args=(30.0,))
    with interrupts_heard_in_waits():
        awaited.start()
        signal.raise_signal(signal.SIGINT)  # between two waits, where it is only noted
        with pytest.raises(KeyboardInterrupt):
            interrupts.join(awaited, 30.0)
        assert awaited.is_alive()
        over.set()
        awaited.join()


def test_the_distance_of_blocks_is_declared_and_hashed_and_plans_no_measurement():
    plain, spread = declared(**FIXED), declared(**FIXED, blocks_apart="10min")
    assert spread.sha256 != plain.sha256 and "blocks_apart" in spread.model_dump()
    assert spread.session("t", "fio").digest == plain.session("t", "fio").digest
    assert (spread.session("t", "fio").blocks_apart_s, plain.session("t", "fio").blocks_apart_s) == (600, 0)
    with pytest.raises(StudyError, match="blocks_apart"):
        declared(**FIXED, blocks_apart=10)
