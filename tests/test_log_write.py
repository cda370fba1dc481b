"""The family log_write without a host: what a study says, the search, growth, the limit, imports."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from log_write_study import BACKEND, FAMILY, HAMMER, OPEN, SERVICES, family, plan_of, study_of
from scipy.stats import linregress

from benchstudy.commands import cli
from benchstudy.commands.importing import import_outputs
from benchstudy.families.log_write.causes import explained
from benchstudy.families.log_write.config import Backend, CapacitySearch, LogGenerator
from benchstudy.families.log_write.growth import growth
from benchstudy.families.log_write.limits import How, Limit, LimitedBy, limit_of, limited_by
from benchstudy.families.log_write.page import reasons
from benchstudy.families.log_write.page.limits import REST, told
from benchstudy.families.log_write.parse import reason_of
from benchstudy.families.log_write.samples import Found, Shares
from benchstudy.families.log_write.search import (
    Bracket,
    Missed,
    Reason,
    Step,
    Window,
    bracket,
    is_narrow,
    next_rate,
    tried,
    verdict,
)
from benchstudy.families.log_write.windows import growth_rows
from benchstudy.model import registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import StudyError
from benchstudy.model.family import ParseError
from benchstudy.statistics import within_trial

PAGE_BOXES = Path(__file__).parent / "data" / "tessera"


# --- what a study says --------------------------------------------------------------------------------------


def test_every_combination_is_a_case_with_all_factors():
    plan = plan_of(rates=["200/s", "500/s"], limits=[{"name": "e2-micro", "cpus": 1, "memory": "1GB"}])
    head = "backend=posix,antispam={},limits=e2-micro,front_ends=1,duplicates=0%,generator={},rate={}-per-s"
    assert [case.id for case in plan.cases] == [
        head.format(antispam, generator, rate)
        for antispam in ("no", "yes")
        for generator in ("open", "hammer")
        for rate in (200, 500)
    ]
    numbers = registry.get(FAMILY).numbers(plan.cases[0].levels)
    assert numbers == {"front_ends_n": 1, "duplicate_share": 0.0, "rate_per_s": 200.0}
    (search,) = plan_of(rates=["search"], generators=[OPEN], sweeps=[{"antispam": ["no"]}]).cases
    assert search.levels["rate"] == "search"
    assert registry.get(FAMILY).numeric_levels["rate"][1]("search") is None


def test_a_sweep_may_be_measured_in_the_first_blocks_only():
    sweeps = [{"antispam": ["no"]}, {"antispam": ["no"], "rates": ["200/s", "9000/s"], "blocks": 1}]
    often, once = plan_of(generators=[OPEN], sweeps=sweeps).cases
    assert (often.levels["rate"], once.levels["rate"]) == ("200-per-s", "9000-per-s")
    assert often.is_in(2) and once.is_in(1) and not once.is_in(2), "what two sweeps name is the first one's"


def test_a_variant_whose_server_changes_is_another_case_and_a_label_is_not():
    def of(**changes: Any) -> dict[str, str]:
        plan = plan_of(generators=[OPEN], **changes)
        return {case.levels["antispam"]: case.definition_sha256 for case in plan.cases}

    before = of()
    louder = {**SERVICES["posix-antispam"], "argv": [*SERVICES["posix-antispam"]["argv"], "-v=2"]}
    after = of(services={**SERVICES, "posix-antispam": louder})
    assert before["no"] == after["no"] and before["yes"] != after["yes"]
    assert of(backends=[{**BACKEND, "label": "POSIX, mirrored disks", "expect_fs": ["ext4"]}]) == before
    assert of(search={"window": "99s"}) == before, "the search is no part of a case at a fixed rate"
    assert of(backends=[{**BACKEND, "max_integrate_p99": "9s"}]) == before


def backend(**changes: Any) -> dict[str, Any]:
    return {"backends": [{key: value for key, value in {**BACKEND, **changes}.items() if value is not None}]}


def generator(**changes: Any) -> dict[str, Any]:
    return {"generators": [{**OPEN, **changes}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (backend(service=None, antispam_service=None), "give service, antispam_service or both"),
        (backend(service="posxi"), "no service 'posxi' below services: did you mean \"posix\"?"),
        (backend(port="web"), "service posix has no port 'web'"),
        (backend(store=None, several_front_ends=True), "several_front_ends needs a store"),
        (backend(read="/srv/log"), "give a URL that begins with http://, https:// or file://"),
        (backend(directory=None, expect_fs=["ext4"]), "expect_fs needs directory"),
        (backend(kind="cephfs"), "families.log_write.backends.0.kind"),
        (backend(publish_interval="0s"), "publish_interval: give a time above zero"),
        (backend(databases=["mariadb"]), "no service 'mariadb' below services"),
        (generator(tool="hammer"), "families.log_write.generators.0.tool"),
        (generator(writers=100), "generator open: writers is for tessera-hammer only"),
        (generator(duration="0s"), "duration: give a time above zero"),
        (
            {"timeout": "5s"},
            "timeout: 5 s is too short for generator open: its warm_up and window ",
        ),
        (generator(leaf="1B"), "give 16B to 64000B"),
        ({"generators": [OPEN, OPEN]}, "generators: the name 'open' is given twice"),
        ({"rates": []}, "rates are missing: give rates: [...]"),
        ({"rates": ["200"]}, "'200' is not a rate"),
        ({"rates": ["serach"]}, "'serach' is not a rate"),
        ({"duplicates": ["0.1"]}, "'0.1' is not a share: write it as \"10%\""),
        ({"duplicates": ["110%"]}, "'110%' is not a share"),
        ({"front_ends": [0]}, "front_ends.0: 0: give 1 or more"),
        ({"front_ends": [2]}, "2 front ends need a backend with several_front_ends: true"),
        ({"rates": ["search"]}, "hammer on posix: the capacity search needs an open loop"),
        ({"search": {"start": "10/s", "lowest": "20/s"}}, "start: 10/s is not between lowest 20/s and highest 50000/s"),
        ({"sweeps": [{"backends": ["posxi"]}]}, "sweeps[0].backends: 'posxi' is not declared: did you mean \"posix\"?"),
        ({"sweeps": [{"antispam": [True]}]}, 'write "yes" and "no" in quotes'),
        (
            backend(antispam_service=None) | {"sweeps": [{"antispam": ["yes"]}]},
            "needs antispam_service, which the backend does not have",
        ),
        ({"services": {**SERVICES, "posix": {**SERVICES["posix"], "needs": []}}}, "does not list its store in `needs`"),
        (
            {"services": {**SERVICES, "log": {**SERVICES["log"], "secrets": ["a"], "secret_env": {"a": "A"}}}},
            "'a' is in secrets, which are generated, and in secret_env",
        ),
    ],
)
def test_what_a_study_must_not_say(changes: dict[str, Any], message: str):
    with pytest.raises(StudyError) as caught:
        study_of(family(**changes)).session("bench", FAMILY).cases  # noqa: B018
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            generator(warm_up="500ms"),
            "families.log_write: generator open: warm_up: 0.5 s is shorter than a publish step of backend posix "
            "(publish_interval), 1 s: raise it to 1s or more",
        ),
        (generator() | backend(publish_interval="4s"), "generator open: warm_up: 1 s is shorter than a publish step"),
        (generator(warm_up="5s") | backend(kind="gcp"), "of backend posix (publish_interval), 10 s: raise it to 10s"),
        (generator() | {"rates": ["search"], "search": {"warm_up": "0s"}}, "families.log_write: search: warm_up: 0 s"),
    ],
)
def test_a_warm_up_shorter_than_a_publish_step_is_read_and_never_measured(changes: dict[str, Any], message: str):
    study = study_of(family(**changes))
    with pytest.raises(StudyError) as caught:
        study.require_fit()
    assert message in str(caught.value) and "measure=false" in str(caught.value)
    study_of(family()).require_fit()


def test_snakemake_refuses_such_a_study_unless_it_only_reads(project, capsys: pytest.CaptureFixture[str]):
    study = study_of(family(**generator(warm_up="500ms"), timeout="60s")).model_dump(
        mode="json", exclude_defaults=True, serialize_as_any=True
    )
    file = project.write_study(study, "study.json")  # with times as seconds, as only a stored study has them
    done = project.snakemake("-n", "--configfile", file, check=False)
    assert done.returncode and "generator open: warm_up: 0.5 s is shorter than a publish" in done.stdout + done.stderr
    assert cli.main(["check", "--no-hosts", str(file)]) == 1
    assert "  PROBLEM families.log_write: generator open: warm_up: 0.5 s" in capsys.readouterr().out
    project.write_study({**study, "measure": False}, "study.json")
    assert cli.main(["check", "--no-hosts", str(file)]) == 0


def test_too_few_writers_are_refused_with_the_arithmetic_and_enough_are_made_otherwise():
    with pytest.raises(StudyError) as caught:
        plan_of(generators=[{**HAMMER, "writers": 64}], rates=["500/s"]).cases  # noqa: B018
    for part in ("writers: 64 are too few: 500/s × 2 s = 1000 writes", "64 / 2 s = 32/s", "raise it to 1000"):
        assert part in str(caught.value)
    with pytest.raises(StudyError, match="max_in_flight: 64 are too few"):
        plan_of(generators=[{**OPEN, "max_in_flight": 64}], rates=["500/s"]).cases  # noqa: B018
    with pytest.raises(StudyError, match="max_in_flight: 64 are too few: 50000/s"):
        plan_of(generators=[{**OPEN, "max_in_flight": 64}], rates=["search"]).cases  # noqa: B018
    assert plan_of(generators=[{**HAMMER, "writers": 64, "write_time": "100ms"}], rates=["500/s"]).cases
    assert LogGenerator(**HAMMER).under_way(500) == 1000
    assert LogGenerator(**OPEN).under_way(1e6) == 16_000, "more connections than that are had nowhere"


@pytest.mark.parametrize(
    ("kind", "interval", "asked", "window"),
    [
        ("posix", "1s", 30.0, 30.0),
        ("posix", "1s", 30.2, 31.0),
        ("posix", "1s", 2.0, 3.0),
        ("mysql", "500ms", 3.1, 3.5),
        ("gcp", "10s", 30.0, 60.0),
        ("gcp", "10s", 61.0, 70.0),
    ],
)
def test_windows_are_whole_publish_steps_and_a_minute_at_least_for_gcp(kind, interval, asked, window):
    made = Backend(**{**BACKEND, "kind": kind, "publish_interval": interval})
    assert made.window_s(asked) == pytest.approx(window)


# --- the search ---------------------------------------------------------------------------------------------

OBJECTIVE = CapacitySearch(start="500/s", highest="20000/s")
FAILED = Reason(Missed.ACHIEVED, seen=0.8, bound=0.99)


def searched(passes: Callable[[float], bool], objective: CapacitySearch = OBJECTIVE) -> list[Step]:
    steps: list[Step] = []
    while (rate := next_rate(steps, objective)) is not None:
        steps.append(Step(rate, None if passes(rate) else FAILED))
    return steps


@pytest.mark.parametrize("capacity", [3.0, 17.0, 499.0, 501.0, 1234.0, 19_000.0])
def test_the_search_brackets_the_capacity_within_five_per_cent(capacity: float):
    steps = searched(lambda rate: rate <= capacity)
    found = bracket(steps)
    assert found.highest_pass <= capacity < found.lowest_fail
    assert is_narrow(found, OBJECTIVE) and found.lowest_fail <= 1.05 * found.highest_pass + 1e-6
    assert len(steps) <= 14
    assert len({step.rate_per_s for step in steps}) == len(steps), "no rate is tried twice"


def test_the_search_ends_where_its_range_does():
    upwards = searched(lambda _: True)
    assert [step.rate_per_s for step in upwards] == [500, 1000, 2000, 4000, 8000, 16_000, 20_000]
    assert bracket(upwards) == Bracket(20_000, None)
    downwards = searched(lambda _: False, CapacitySearch(start="500/s", lowest="100/s"))
    assert [step.rate_per_s for step in downwards] == [500, 250, 125, 100]
    assert bracket(downwards) == Bracket(None, 100)
    assert len(searched(lambda rate: rate <= 1234, CapacitySearch(start="500/s", max_steps=3))) == 3


@pytest.mark.parametrize(
    ("passes", "objective", "rates"),
    [
        (True, {"start": "5000/s", "highest": "12345/s"}, [5000, 10_000, 12_345]),
        (True, {"start": "5000/s", "highest": "19960/s"}, [5000, 10_000, 19_960]),
        (False, {"start": "5000/s", "lowest": "1236/s"}, [5000, 2500, 1250, 1236]),
        (False, {"start": "5000/s", "lowest": "1234/s"}, [5000, 2500, 1250, 1234]),
        (True, {"start": "5000/s", "highest": "5000/s"}, [5000]),
        (False, {"start": "5000/s", "lowest": "5000/s"}, [5000]),
    ],
)
def test_the_search_ends_at_exactly_the_bound_that_the_study_gives(passes, objective, rates):
    """A bound of more than three digits is tried once, and nothing beyond it."""
    assert [step.rate_per_s for step in searched(lambda _: passes, CapacitySearch(**objective))] == rates


@pytest.mark.parametrize(
    ("times", "expected"), [({}, 5 + 30), ({"duration": "3s"}, 5 + 3), ({"duration": "3s", "warm_up": "1s"}, 1 + 3)]
)
def test_a_rate_is_planned_with_the_times_of_its_generator_whether_given_or_not(times, expected):
    generator = {"name": "open", "tool": "logbench", **times}
    plan = plan_of(rates=["500/s"], generators=[generator], sweeps=[{"antispam": ["no"]}])
    assert [plan.family.declared_s(case) for case in plan.cases] == [expected]


@pytest.mark.parametrize(
    ("objective", "windows"),
    # 500, 1000 and 1410 pass, with two windows each. 2000, 1680, 1540 and 1470 fail, with a window per attempt.
    [({}, 14), ({"attempts": 1}, 10), ({"windows": 5}, 23), ({"within": 0.5}, 8), ({"max_steps": 3}, 6)],
)
def test_a_search_is_planned_with_the_time_of_all_its_windows(objective, windows):
    search = {"start": "500/s", "window": "20s", "warm_up": "4s", **objective}
    plan = plan_of(rates=["search"], generators=[OPEN], sweeps=[{"antispam": ["no"]}], search=search)
    assert [plan.family.declared_s(case) for case in plan.cases] == [windows * (4 + 20 + 1)]


def test_a_search_does_not_go_on_beyond_its_most_steps():
    steps = [Step(500), Step(1000), Step(2000), Step(4000)]
    assert next_rate(steps, CapacitySearch(max_steps=3)) is None


def test_a_rate_fails_only_when_every_attempt_does():
    stalled_once = tried(100.0, OBJECTIVE, lambda attempt: FAILED if attempt == 1 else None)
    assert stalled_once == Step(100.0) and stalled_once.passed
    too_fast = tried(100.0, OBJECTIVE, lambda attempt: replace(FAILED, seen=attempt / 10))
    assert too_fast == Step(100.0, replace(FAILED, seen=0.2)) and not too_fast.passed


def test_a_rate_is_attempted_until_it_passes_or_memory_is_exhausted():
    attempts = []

    def attempt(number: int) -> Reason | None:
        attempts.append(number)
        return endings[number - 1]

    often = OBJECTIVE.model_copy(update={"attempts": 3})
    out_of_memory = Reason(Missed.DIED, cause=Cause.OOM)
    tries = [([None], [1]), ([FAILED, None], [1, 2]), ([FAILED, out_of_memory], [1, 2]), ([out_of_memory], [1])]
    for endings, made in tries:
        attempts.clear()
        assert tried(100.0, often, attempt) == Step(100.0, endings[-1]) and attempts == made


def test_what_passes_above_a_failure_is_not_claimed():
    assert bracket([Step(100), Step(200, FAILED), Step(400)]) == Bracket(100, 200)
    assert bracket([Step(100), Step(100, FAILED), Step(50)]) == Bracket(50, 100)


GOOD = Window(
    offered_per_s=1000, sent=30_000, dropped=0, achieved_per_s=998, errors=0, pushback=0,
    integrate_p99_s=1.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "missed", "sentence"),
    [
        ({}, None, ""),
        ({"achieved_per_s": 989}, Missed.ACHIEVED, "achieved 98.9 % of the offered rate, not 99 %"),
        ({"achieved_per_s": 980, "pushback": 7}, Missed.ACHIEVED, "(7 pushed back)"),
        ({"sent": 29_000, "dropped": 1000, "achieved_per_s": 960}, Missed.ACHIEVED, "(1000 not sent)"),
        # The backlog of the warm-up keeps the tree growing, but the log no longer takes the rate.
        ({"sent": 29_700, "dropped": 300}, None, ""),
        ({"sent": 26_400, "dropped": 3600}, Missed.TAKEN, "took 88 % of the leaves, not 99 %, although"),
        ({"sent": 26_400, "dropped": 3600}, Missed.TAKEN, "(3600 not sent)"),
        ({"pushback": 301}, Missed.TAKEN, "(301 pushed back)"),
        ({"sent": 29_710, "dropped": 290}, None, ""),
        ({"sent": 29_710, "dropped": 290, "errors": 11}, Missed.TAKEN, "took 98.997 % of the leaves, not 99 %"),
        ({"errors": 30}, None, ""),
        ({"errors": 31}, Missed.ERRORS, "31 errors, 0.103 % of the leaves; the bound is 0.1 %"),
        ({"integrate_p99_s": 5.01}, Missed.INTEGRATE_TIME, "p99 of integration was 5.01 s; the bound is 5 s"),
        ({"integrate_p99_s": 5.0004}, Missed.INTEGRATE_TIME, "p99 of integration was 5.0004 s; the bound is 5 s"),
        ({"integrate_p99_s": None}, Missed.INTEGRATE_TIME, "no leaf was integrated"),
        ({"achieved_per_s": 989.999}, Missed.ACHIEVED, "achieved 98.9999 % of the offered rate, not 99 %"),
        ({"sent": 300_000, "errors": 301}, Missed.ERRORS, "301 errors, 0.1003 % of the leaves; the bound is 0.1 %"),
        ({"not_integrated": 2}, Missed.NOT_INTEGRATED, "2 accepted leaves were not integrated in time"),
        (
            {"achieved_per_s": 900, "generator_cpu": 0.99},
            Missed.ACHIEVED,
            "client-limited, the generator used 99 % of its CPU: achi",
        ),
        ({"generator_cpu": 0.99}, None, ""),
        ({"achieved_per_s": 500, "expected_share": 0.5}, None, ""),
    ],
)
def test_a_window_fails_with_its_reason(changes: dict[str, Any], missed: Missed | None, sentence: str):
    window = Window(**{**vars(GOOD), **changes})
    reason = verdict(window, OBJECTIVE)
    assert (reason and reason.missed) == missed
    assert sentence in reasons.told({**vars(window), **asdict(reason)} if reason else {"missed": None})


@pytest.mark.parametrize(
    ("changes", "seen", "bound"),
    [
        ({"achieved_per_s": 990}, None, None),
        ({"achieved_per_s": 989}, 0.989, 0.99),
        ({"achieved_per_s": 494, "expected_share": 0.5}, 0.988, 0.99),
        ({"errors": 60}, 0.002, 0.001),
        ({"not_integrated": 1}, 1, 0),
        ({"integrate_p99_s": 5.0}, None, None),
        ({"integrate_p99_s": 6.0}, 6.0, 5.0),
    ],
)
def test_a_reason_has_what_was_seen_and_the_bound_that_it_missed(changes, seen, bound):
    reason = verdict(Window(**{**vars(GOOD), **changes}), OBJECTIVE)
    assert (reason and reason.seen, reason and reason.bound) == (seen and pytest.approx(seen), bound)


@pytest.mark.parametrize(("cpu", "busy"), [(None, None), (0.0, None), (0.79, None), (0.8, 0.8), (1.0, 1.0)])
def test_a_generator_is_busy_from_80_per_cent_of_its_processors_on(cpu, busy):
    reason = verdict(Window(**{**vars(GOOD), "errors": 60, "generator_cpu": cpu}), OBJECTIVE)
    assert reason.busy_generator == busy


def test_a_reason_in_the_log_of_a_session_is_short():
    assert str(FAILED) == "achieved (seen 0.800, bound 0.990)"
    assert str(Reason(Missed.NOTHING_ACCEPTED)) == "nothing-accepted"
    assert str(Reason(Missed.DIED, said="it ended with signal 9")) == "it ended with signal 9"


def test_a_bracket_is_narrow_up_to_exactly_what_the_study_asks_for():
    assert is_narrow(Bracket(100, 105), OBJECTIVE) and not is_narrow(Bracket(100, 105.1), OBJECTIVE)
    assert not is_narrow(Bracket(None, 105), OBJECTIVE) and not is_narrow(Bracket(100, None), OBJECTIVE)


@pytest.mark.parametrize(
    ("low", "high", "rate"),
    [
        (1000, 2000, 1410),  # the geometric mean in three digits
        (1000, 1004, math.sqrt(1000 * 1004)),  # which would be an end of the bracket
        (999.2, 1000, math.sqrt(999.2 * 1000)),
        (9.994, 9.9995, math.sqrt(9.994 * 9.9995)),  # 10.0 would be above the bracket
    ],
)
def test_the_next_rate_lies_between_the_ends_and_is_short_if_it_can_be(low, high, rate):
    fine = CapacitySearch(start="500/s", highest="20000/s", within=0.0005)
    assert next_rate([Step(low), Step(high, FAILED)], fine) == pytest.approx(rate)


def test_a_reason_is_kept_as_a_value_and_an_old_one_as_it_was_told():
    reason = replace(FAILED, busy_generator=0.99)
    kept = json.loads(json.dumps({"reason": asdict(reason)}))
    assert reason_of(kept) == reason and reason_of({"reason": None}) is None
    assert reason_of({"why": ""}) is None
    old = reason_of({"why": "achieved 91.0% of the offered rate, not 99.0% (120 never begun)"})
    assert old.missed is Missed.TOLD and old.said.startswith("achieved 91.0%")
    died = reason_of({"why": "OOM: killed", "died": "OOM: killed"})
    assert (died.missed, died.cause, died.said) == (Missed.DIED, Cause.OOM, "OOM: killed") and died.is_final


# --- growth -------------------------------------------------------------------------------------------------


def test_growth_is_taken_over_whole_publish_steps():
    # 512 leaves per second, seen with a poll's delay. The window's ends cut two steps in two, which do not count.
    seen = [(n + 0.03 * (n % 2), 512 * n) for n in range(40)]
    found = growth(seen, 5.5, 35.5, 1.0)
    assert len(found.grew) == 29 and found.qps == pytest.approx(512, rel=0.002)
    low, high = within_trial.rate_interval(found.grew, found.took_s)
    assert low <= 512 <= high and high - low < 0.05 * 512
    rows = growth_rows(seen)
    assert rows[0] == {"t_s": 0, "size": 0, "qps": None} and rows[2]["qps"] == pytest.approx(512 / 0.97)


def test_a_rate_holds_nothing_of_the_warm_up():
    # The log is empty until its first checkpoint, which has the warm-up's leaves; the window begins before it.
    seen = [(0.0, 0), (1.02, 900), (2.02, 2900), (3.02, 4900)]
    assert growth(seen, 0.5, 3.5, 1.0).qps == pytest.approx(2000)
    assert growth(seen, 1.5, 2.5, 1.0) is None, "no two checkpoints lie inside"


def test_a_log_that_stops_does_not_look_fast():
    seen = [(float(n), 1000 * n) for n in range(11)]  # and then nothing
    assert growth(seen, 2, 32, 1.0).qps == pytest.approx(8000 / 30)
    assert growth(seen, 15, 45, 1.0).qps == 0
    assert growth([(0.0, 0), (20.0, 9000)], 10, 30, 1.0).qps < 9000 / 12
    assert growth([], 0, 30, 1.0) is None
    assert growth([(50.0, 7)], 0, 30, 1.0) is None


def test_a_log_that_stands_still_as_the_window_begins_does_not_look_fast():
    until_9, from_50 = [(float(n), 100 * n) for n in range(10)], range(50, 71)
    behind = growth([*until_9, *((float(n), 900 + 100 * (n - 50)) for n in from_50)], 10, 70, 1.0)
    assert (behind.qps, behind.duration_s) == (2000 / 60, 60.0) and behind.slope < 40
    # It integrates at once what waited: of these leaves, those of the warm-up are no growth of the window.
    caught_up = growth([*until_9[:3], *((float(n), 100 * n) for n in from_50)], 10, 70, 1.0)
    assert (caught_up.qps, caught_up.grew[0], caught_up.took_s[0]) == (100.0, 4000, 40.0)
    assert growth([(1000.0 + at, size) for at, size in until_9], 1005, 1070, 1.0).duration_s == 65.0
    late = [(1009.0, 900), *((float(n), 10 * n) for n in range(1050, 1071))]
    assert growth(late, 1010, 1070, 1.0).duration_s == 60.0
    # Two steps late is no stall, and without a checkpoint before the window nothing is known of its start.
    assert growth([(9.0, 900), (12.0, 1200), (13.0, 1300)], 10, 14, 1.0).duration_s == 1.0
    assert growth([(50.0, 0), (51.0, 100)], 10, 52, 1.0).qps == 100.0


def slow_log(gap_s: float, phase_s: float, until_s: float) -> list[tuple[float, int]]:
    """Checkpoints of a log that takes a leaf each `gap_s`, seen just after the next whole second."""
    count = int((until_s - phase_s) / gap_s) + 6
    leaves = ((phase_s + (n - 5) * gap_s, n) for n in range(count))
    return [*{math.ceil(at) + 0.05: n for at, n in leaves if at < until_s}.items()]


@pytest.mark.parametrize("gap_s", [1, 1.5, 2, 2.3, 2.6, 3, 3.5, 5, 5.5, 6, 7.3, 10, 13.7, 20, 25, 30])
def test_a_slow_log_that_takes_each_leaf_is_a_fraction_of_one_off_wherever_the_window_begins(gap_s: float):
    phases = [step / 20 for step in range(int(20 * gap_s))]
    found = [growth(slow_log(gap_s, phase_s, 90), 3.0, 63.0, 1.0) for phase_s in phases]
    assert max(abs(made.qps - 1 / gap_s) * 60 for made in found) < 0.5


@pytest.mark.parametrize("phase_s", range(10))
def test_a_slow_log_that_stood_still_for_half_of_the_window_does_not_look_fast(phase_s: int):
    """It takes a leaf each 10 s in the first half only, or in the second: three of six, or four if an edge has one."""
    stopped = growth(slow_log(10, phase_s, 33), 3.0, 63.0, 1.0)
    began = growth([row for row in slow_log(10, phase_s, 90) if row[0] < 3 or row[0] > 33], 3.0, 63.0, 1.0)
    lost = growth([(t, n - 3 * (t > 33)) for t, n in slow_log(10, phase_s, 90) if t < 3 or t > 33], 3.0, 63.0, 1.0)
    assert 60 * stopped.qps < 4 and 60 * lost.qps < 4
    assert 60 * began.qps == pytest.approx(6, abs=1), "it integrates at once what waited"


def test_growth_is_of_the_checkpoints_inside_and_its_slope_the_least_squares_of_all():
    seen = [(0.0, 0), (1.0, 900), (2.5, 3000), (3.1, 3300), (5.0, 6000), (7.0, 9000)]
    found = growth(seen, 1.0, 5.0, 2.0)
    line = linregress([1.0, 2.5, 3.1, 5.0], [900, 3000, 3300, 6000])
    assert found.slope == pytest.approx(line.slope, rel=1e-12)
    assert (found.qps, found.duration_s, found.grew) == ((6000 - 900) / 4, 4.0, (2100, 300, 2700))
    assert found.took_s == pytest.approx((1.5, 0.6, 1.9))


def test_an_empty_log_grew_by_nothing_and_no_time_is_no_rate():
    assert growth([(1.0, 0)], 0.5, 10.0, 1.0).qps == 0
    assert growth([(1.0, 5), (1.0, 9)], 0.0, 1.5, 1.0) is None
    assert growth([(1.0, 5), (1.0, 9), (3.0, 11)], 0.0, 3.5, 1.0).qps == 3
    assert growth_rows([(1.0, 5), (1.0, 9), (3.0, 9)]) == [
        {"t_s": 1.0, "size": 5, "qps": None},
        {"t_s": 1.0, "size": 9, "qps": None},
        {"t_s": 3.0, "size": 9, "qps": 0},
    ]


@pytest.mark.parametrize(("end", "stalled"), [(5.0, False), (5.1, True)])
def test_a_log_stalls_after_two_and_a_half_publish_steps(end, stalled):
    found = growth([(0.0, 0), (1.0, 10), (2.0, 20)], 0.0, end, 1.2)
    assert found.duration_s == (end if stalled else 2.0) and found.grew == ((10, 10, 0) if stalled else (10, 10))
    before = growth([(0.0, 0), (1.0, 10)], 1.0 + 1e-9, 1.0 + end - 2.0, 1.2)
    assert before is None if not stalled else (before.grew, before.qps) == ((0,), 0)


# --- what was the limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "generator", "database", "host", "own", "disk", "fsync", "by", "begins"),
    [
        (0.97, 0.3, None, 0.6, 0.6, 0.1, 0.0, "server-cpu", "server CPU"),
        (0.3, 0.95, None, 0.6, 0.6, 0.1, 0.0, "generator-cpu", "generator CPU (client-limited)"),
        (0.3, 0.85, None, 0.6, 0.6, 0.1, 0.0, "generator-cpu", "generator CPU (client-limited)"),
        (0.3, 0.2, 0.93, 0.7, 0.7, 0.1, 0.0, "database-cpu", "database"),
        (0.55, 0.42, None, 0.99, 0.97, 0.1, 0.0, "server-cpu", "server CPU, on a host with all CPUs busy"),
        (
            0.3,
            0.2,
            None,
            0.99,
            0.4,
            0.1,
            0.0,
            "neighbour",
            "unknown: processes other than server, database and generator used 59 %",
        ),
        (0.2, 0.1, None, 0.2, 0.2, 0.97, 0.1, "disk", "disk: busy 97 %"),
        (0.2, 0.1, None, 0.2, 0.2, 0.5, 0.9, "server-fsync", "fsync: the server waits for the disk"),
        (0.2, 0.1, None, 0.2, 0.2, 0.2, 0.1, "unknown", "unknown: no resource was exhausted (server"),
        (
            0.5,
            0.3,
            None,
            0.9,
            0.5,
            0.2,
            0.1,
            "unknown",
            f"unknown: no resource was exhausted, and {REST} used 40 % of",
        ),
    ],
)
def test_the_resource_that_was_used_up_is_named(server, generator, database, host, own, disk, fsync, by, begins):
    shares = {"server": Shares(server, 1.0, fsync), "generator": Shares(generator, 1.0, 0.0)}
    if database is not None:
        shares["database"] = Shares(database, 1.0, 0.0)
    found = Found(shares, {"samples-here": host}, {"samples-here": own}, 1e6, disk, [])
    limit = limited_by(found, at_its_limit=True)
    assert limit.by == by and told(limit).startswith(begins)
    assert told(limited_by(found, at_its_limit=False)) == "nothing: the log achieved the offered rate"


def test_a_processor_that_is_short_in_bursts_only_is_the_limit():
    shares = {"server": Shares(0.6, 1.0, 0.1, 1.4), "generator": Shares(0.3, 1.0, 0.0, 0.1)}
    limit = limited_by(Found(shares, {"here": 0.7}, {"here": 0.65}, None, 0.1, []), at_its_limit=True)
    assert (limit.by, limit.how, limit.waiting) == (LimitedBy.SERVER_CPU, How.IN_BURSTS, 1.4)
    said = told(limit)
    assert said.startswith("server CPU, in bursts: 1.4 of its threads were waiting for a CPU"), said
    said = told(limited_by(Found(shares, {"here": 0.9}, {"here": 0.65}, None, 0.1, []), at_its_limit=True))
    assert said.startswith(f"unknown: no resource was exhausted, and {REST} used 25 %"), said


def found_of(
    server: Shares, generator: Shares | None = None, database: Shares | None = None, host: float = 0.2,
    own: float = 0.2, disk: float | None = 0.1,
) -> Found:  # fmt: skip
    """Samples of one host, on which nothing is at its limit unless something says so."""
    quiet = Shares(0.1, 1.0, 0.0, 0.0)
    shares = {"server": server, "generator": generator or quiet, "database": database or quiet}
    return Found(shares, {"a": host}, {"a": own}, 1e6, disk, [])


CALM = Shares(0.2, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("below", "at", "by"),
    [
        (found_of(CALM, Shares(0.79, 1.0, 0.0)), found_of(CALM, Shares(0.8, 1.0, 0.0)), "generator-cpu"),
        (found_of(Shares(0.89, 1.0, 0.0)), found_of(Shares(0.9, 1.0, 0.0)), "server-cpu"),
        (
            found_of(CALM, database=Shares(0.89, 1.0, 0.0)),
            found_of(CALM, database=Shares(0.9, 1.0, 0.0)),
            "database-cpu",
        ),
        (found_of(CALM, host=0.94, own=0.94), found_of(CALM, host=0.95, own=0.95), "server-cpu"),  # uses the most
        (found_of(Shares(0.2, 1.0, 0.59)), found_of(Shares(0.2, 1.0, 0.6)), "server-fsync"),
        (
            found_of(CALM, database=Shares(0.1, 1.0, 0.59)),
            found_of(CALM, database=Shares(0.1, 1.0, 0.6)),
            "database-fsync",
        ),
        (found_of(CALM, disk=0.89), found_of(CALM, disk=0.9), "disk"),
        (found_of(Shares(0.2, 1.0, 0.0, 0.49)), found_of(Shares(0.2, 1.0, 0.0, 0.5)), "server-cpu"),  # in bursts
    ],
)
def test_a_resource_is_the_limit_from_its_threshold_on(below, at, by):
    calm = limited_by(below, at_its_limit=True)
    assert (calm.by, calm.how, calm.share, calm.disk_busy) == (LimitedBy.UNKNOWN, None, None, below.disk_busy)
    assert limited_by(at, at_its_limit=True).by == by


def test_other_processes_are_the_limit_only_on_a_full_host_and_explain_nothing_below_a_tenth():
    def limit(host: float, own: float) -> tuple[str, float | None]:
        found = limited_by(found_of(CALM, host=host, own=own), at_its_limit=True)
        return found.by, found.share and round(found.share, 9)

    assert limit(0.96, 0.65) == ("neighbour", 0.31) and limit(0.96, 0.67) == ("server-cpu", None)
    assert limit(0.94, 0.1) == ("unknown", 0.84)
    assert limit(0.1, 0.0) == ("unknown", 0.1) and limit(0.09, 0.0) == ("unknown", None)
    # The others are on a host that is not full.
    two = replace(found_of(CALM), host_cpu={"a": 0.96, "b": 0.8}, own_cpu={"a": 0.96, "b": 0.1})
    assert limited_by(two, at_its_limit=True).how is How.HOST_FULL


def test_the_generator_comes_first_because_it_hides_other_limits_and_the_database_waits_before_the_server():
    busy, syncs = Shares(1.0, 1.0, 0.0), Shares(0.2, 1.0, 1.0)
    assert limited_by(found_of(busy, busy, busy), at_its_limit=True).by is LimitedBy.GENERATOR_CPU
    assert limited_by(found_of(busy, database=busy), at_its_limit=True).by is LimitedBy.SERVER_CPU
    assert limited_by(found_of(syncs, database=syncs), at_its_limit=True).by is LimitedBy.DATABASE_FSYNC


def test_what_was_not_sampled_is_no_limit():
    unknown = Shares(None, None, None, None)
    limit = limited_by(found_of(unknown, unknown, unknown, disk=None), at_its_limit=True)
    assert (limit.by, limit.server_cpu, limit.disk_busy) == (LimitedBy.UNKNOWN, 0, None)
    full = Found({}, {"a": 1.0}, {"a": 1.0}, None, None, [])
    assert limited_by(full, at_its_limit=True) == Limit(LimitedBy.UNKNOWN)


@pytest.mark.parametrize(
    "limit", [Limit(LimitedBy.NOTHING), Limit(LimitedBy.SERVER_CPU, How.IN_BURSTS, waiting=1.5, server_cpu=0.7)]
)
def test_a_limit_is_read_from_the_row_that_it_gave(limit):
    assert limit_of(json.loads(json.dumps(asdict(limit)))) == limit


def test_samples_of_nothing_name_nothing():
    assert limited_by(Found({}, {}, {}, None, None, []), at_its_limit=True) == Limit(LimitedBy.UNKNOWN)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("F1121 listen tcp 127.0.0.1:80: bind: address already in use", "another program uses the port"),
        ("Error 1040 (08004): Too many connections", "the database has too few connections (max_connections)"),
        ("Error 1045 (28000): Access denied for user 'x'@'localhost'", "the database refused the server"),
        ("dial tcp 127.0.0.1:3306: connect: connection refused", "the database does not answer"),
        ("write /x/tile: no space left on device", "the disk of the log's directory or database is full"),
        ("exit status 7", "exit status 7"),
    ],
)
def test_known_causes_come_first(said: str, cause: str):
    assert explained(said).startswith(cause) and explained(said).endswith(said)
    assert explained(explained(said)) == explained(said)


# --- imports ------------------------------------------------------------------------------------------------


def test_the_pages_boxes_are_imported_as_trials(tmp_path: Path):
    study = study_of(family())
    outcome = import_outputs(tmp_path, study, None, sorted(PAGE_BOXES.glob("page-*.txt")))
    assert outcome.refused == [] and len(outcome.imported) == 5
    by_name = {path.stem: trial for path, trial in outcome.imported}
    posix, dedup = by_name["page-posix"], by_name["page-posix-antispam"]
    for trial in (posix, dedup):
        levels = trial.record.levels
        assert {levels[f] for f in ("backend", "antispam", "limits", "front_ends", "duplicates")} == {"unknown"}
    assert posix.record.levels["writers"] == "3000" and posix.record.case != dedup.record.case
    assert "antispam" in outcome.unknown[FAMILY]
    assert posix.record.levels["rate"] == "3000-per-s" and posix.record.levels["generator"] == "hammer"
    parsed = registry.get(FAMILY).parse(posix.record.levels, posix.folder)
    values = {one.metric: one.value for one in parsed.observations}
    assert values["qps"] == values["hammer_qps"] == 2927 and values["hammer_oversupply"] == 0
    assert values["hammer_queue_max"] == 1.356 and values["hammer_integrate_avg"] == 6.019
    assert math.isclose(values["achieved_share"], 2927 / 3000) and values["tree_size"] == 1_470_460
    assert any("tick means, not of single leaves" in note for note in posix.record.verified["notes"])
    again = import_outputs(tmp_path, study, None, [PAGE_BOXES / "page-posix.txt"])
    assert again.imported == [] and "already holds the same content" in again.refused[0][1]


def test_a_damaged_box_is_refused_and_other_texts_are_not_ours(tmp_path: Path):
    whole = (PAGE_BOXES / "page-posix.txt").read_text()
    cut = tmp_path / "cut.txt"
    cut.write_text(whole[: whole.index("Observed")])
    with pytest.raises(ParseError, match="truncated"):
        registry.get(FAMILY).parse_import(cut)
    other = tmp_path / "other.txt"
    other.write_text("Requests per second: 200\n")
    assert registry.get(FAMILY).parse_import(other) == []
