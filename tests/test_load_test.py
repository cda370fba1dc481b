"""The family load_test without a host: what a study may say, its cases, their order, and errors of a wrong study."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from load_test_study import (
    BOUNDED,
    LISTENS,
    PROMETHEUS,
    SOURCE,
    UNBOUNDED,
    WINDOWS,
    plan_of,
    run_here,
    scraped,
    study_of,
)

from benchstudy.families.load_test.clocks import Clock, clock_of, correction_s, require_steady
from benchstudy.families.load_test.facts import rate_window_s
from benchstudy.families.load_test.system import read_accounts
from benchstudy.measuring.schedule import schedule
from benchstudy.model.errors import StudyError, TrialFailed


def versions_in(plan: Any, block: int) -> list[str]:
    return [s.case.levels["version"] for s in schedule(plan) if s.block == block]


# --- cases and their order --------------------------------------------------------------------------------------


def test_base_and_new_take_turns():
    plan = plan_of(scraped())
    assert plan.blocks == 2
    assert (versions_in(plan, 1), versions_in(plan, 2)) == (["base", "new"], ["new", "base"])


def test_versions_of_one_load_stay_together_and_loads_are_at_random():
    block = run_here(loads=[BOUNDED, {**BOUNDED, "name": "more", "users": 40}], blocks=20)
    firsts = set()
    for number in range(1, 21):
        order = [s.case.levels for s in schedule(plan_of(block)) if s.block == number]
        turn = ["old", "new"] if number % 2 else ["new", "old"]
        assert [levels["version"] for levels in order] == turn * 2
        assert order[0]["load"] == order[1]["load"] != order[2]["load"] == order[3]["load"]
        firsts.add(order[0]["load"])
    assert firsts == {"bounded", "more"}


def test_three_versions_go_there_and_back():
    again = {"name": "old-again", "same_as": "old"}
    plan = plan_of(run_here(versions=[*run_here()["versions"], again], loads=[BOUNDED]))
    assert versions_in(plan, 1) == ["old", "new", "old-again"]
    assert versions_in(plan, 2) == ["old-again", "new", "old"]
    cases = {case.levels["version"]: case for case in plan.cases}
    assert cases["old"].definition == cases["old-again"].definition != cases["new"].definition


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({"users": 20, "ramp": "4s", "duration": "12s"}, 4 + 12),
        ({"users": 20, "duration": "12s"}, 30 + 12),
        ({"rule": {"max_users": 50, "window": "20s", "at_most": "60s"}}, 60),
        ({"rule": {"max_users": 50, "window": "20s"}}, 4 * 3600),
    ],
)
def test_a_load_is_planned_with_its_longest_time_whether_given_or_not(load, expected):
    plan = plan_of(run_here(loads=[{"name": "load", **load}], timeout="5h"))
    assert {plan.family.declared_s(case) for case in plan.cases} == {expected}


def test_a_load_may_be_measured_in_the_first_blocks_only():
    plan = plan_of(run_here())
    loads = [(s.block, s.case.levels["load"]) for s in schedule(plan)]
    assert loads.count((1, "unbounded")) == loads.count((1, "bounded")) == 2
    assert loads.count((2, "bounded")) == 2 and (2, "unbounded") not in loads
    assert plan_of(run_here(loads=[BOUNDED, {**UNBOUNDED, "blocks": 2}])).digest != plan.digest


def test_levels_come_in_the_order_of_the_contract_and_of_the_study():
    cases = plan_of(run_here()).cases
    assert [list(case.levels) for case in cases] == [["database", "version", "load"]] * 4
    listed = scraped(versions=[{"name": "new"}, {"name": "base"}])
    assert [case.levels["version"] for case in plan_of(listed).cases] == ["new", "base"]


def test_each_block_takes_its_own_window():
    first, second = [s.case for s in schedule(plan_of(scraped())) if s.case.levels["version"] == "base"]
    assert first.definition["window"]["start"] == "2024-09-10T10:00:00+00:00"
    assert second.definition["window"]["start"] == "2024-09-11T10:00:00+00:00"
    assert first.definition_sha256 != second.definition_sha256


def test_a_further_window_leaves_the_others_what_they_were():
    short, long = plan_of(scraped(windows=WINDOWS[:2])), plan_of(scraped())
    assert (short.blocks, long.blocks) == (1, 2)
    assert short.digest != long.digest
    was = {s.case.id: s.case.definition_sha256 for s in schedule(short)}
    assert was == {s.case.id: s.case.definition_sha256 for s in schedule(long) if s.block == 1}


def test_who_may_read_a_source_is_no_part_of_what_is_measured():
    secret = {**SOURCE, "user": "reader", "password_env": "PROM_PASSWORD"}
    assert plan_of(scraped(sources=[secret])).digest == plan_of(scraped()).digest
    elsewhere = {**SOURCE, "url": "http://127.0.0.1:10"}
    assert plan_of(scraped(sources=[elsewhere])).digest != plan_of(scraped()).digest


def test_times_mean_the_same_however_they_are_written():
    dated = datetime(2024, 9, 10, 12, tzinfo=UTC)
    spelt = [
        {**WINDOWS[0], "start": "2024-09-10T12:00:00+02:00"},
        {**WINDOWS[1], "start": dated, "end": str(dated + timedelta(hours=1))},
        *WINDOWS[2:],
    ]
    assert plan_of(scraped(windows=spelt)).digest == plan_of(scraped()).digest


# --- errors -----------------------------------------------------------------------------------------------------

TWO = WINDOWS[:2]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"windows": WINDOWS[:3]}, ["windows:", "postgres / base / bounded has 2", "postgres / new / bounded has 1"]),
        ({"blocks": 3}, ["windows:", "has 2", "3 blocks", "add windows"]),
        ({"blocks": {"min": 6, "max": 9}}, ["blocks:", "leave it out"]),
        ({"sources": []}, ["windows:", "sources:"]),
        ({"windows": [{**TWO[0], "start": "2024-09-10T10:00:00"}]}, ["windows.0.start", "no time zone", "Z"]),
        ({"windows": [{**TWO[0], "start": 1725962400}]}, ["windows.0.start", "is not a time"]),
        ({"windows": [{**TWO[0], "start": "yesterday"}]}, ["windows.0.start", "'yesterday' is not a time"]),
        ({"windows": [{**TWO[0], "end": "2024-09-10T09:00:00Z"}]}, ["windows.0", "before it starts"]),
        ({"windows": [{**TWO[0], "end": "2024-09-10T10:00:05Z"}]}, ["windows.0", "5 s long"]),
        ({"windows": [TWO[0], {**TWO[0], "end": "2024-09-10T12:00:00Z"}]}, ["windows[0] and windows[1]", "one case"]),
        ({"windows": [TWO[0], {**TWO[1], "start": "2024-09-10T10:59:59Z"}]}, ["windows[1] overlap", "same servers"]),
        ({"windows": [{**TWO[0], "end": "2999-01-01T00:00:00Z"}]}, ["windows[0]", "lies in the future", "2999"]),
        ({"windows": [{**TWO[0], "select": "instance=x"}]}, ["windows.0.select", "set of label matchers"]),
        ({"windows": [{**TWO[0], "select": '{"a.b"}'}]}, ["windows.0.select", "set of label matchers"]),
        ({"windows": [{**TWO[0], "select": '{a="b"} or vector(1)'}]}, ["windows.0.select", "set of label matchers"]),
        ({"windows": [{**TWO[0], "source": "grafna"}]}, ["windows[0].source", 'did you mean "grafana"?']),
        ({"windows": [{**TWO[0], "strat": 1}]}, ["windows.0.strat", 'did you mean "start"?']),
        ({"sources": [SOURCE, {**SOURCE, "name": "b"}]}, ["windows[0].source", "read from: grafana, b"]),
        ({"sources": [SOURCE, SOURCE]}, ["sources:", "'grafana' is given twice"]),
        ({"versions": [{"name": "bse"}]}, ["windows[0].version", 'did you mean "bse"?']),
        ({"loads": [BOUNDED]}, ["windows:", "no use for loads"]),
        ({"sources": [{"name": "p"}]}, ["sources.0", "exactly one of url, file"]),
        ({"sources": [{**SOURCE, "file": "x.gz"}]}, ["exactly one of url, file"]),
        ({"sources": [{"name": "p", "url": "prometheus:9090"}]}, ["sources.0.url: ", "http://prometheus.example:9090"]),
        ({"sources": [{"name": "p", "url": ""}]}, ["sources.0.url: '' is not an address"]),
        ({"sources": [{"name": "p", "file": "/srv/x.gz"}]}, ["below the project's folder"]),
        ({"sources": [{"name": "p", "file": "a/../../x.gz"}]}, ["below the project's folder"]),
        ({"sources": [{"name": "p", "file": "x.gz", "user": "u"}]}, ["a file needs no user"]),
        ({"sources": [{**SOURCE, "user": "u"}]}, ["user and password_env go together"]),
        ({"sources": [{**SOURCE, "user": "u", "password_env": "P", "bearer_env": "B"}]}, ["not both"]),
    ],
)
def test_windows_that_cannot_be(changes: Mapping[str, Any], says: list[str]):
    with pytest.raises(StudyError) as refused:
        study_of(scraped(**changes))
    assert "families.load_test" in str(refused.value)
    for text in says:
        assert text in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        {**SOURCE, "url": "http://reader:canary-7f3@127.0.0.1:9"},
        {**SOURCE, "bearer_env": "canary-7f3.eyJhbGciOi"},
        {**SOURCE, "user": "reader", "password_env": "canary-7f3!"},
    ],
)
def test_a_secret_in_the_study_is_refused_and_not_repeated(source: Mapping[str, Any]):
    with pytest.raises(StudyError) as refused:
        study_of(scraped(sources=[source]))
    assert "canary-7f3" not in str(refused.value)


def services(**changes: Any) -> dict[str, Any]:
    return {"services": {**run_here()["services"], **changes}}


def with_file(text: str) -> dict[str, Any]:
    return services(prometheus={**PROMETHEUS, "files": {"prometheus.yml": text}})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"system": {"accounts": "{{database.nope}}/accounts.json"}},
         'system.accounts: service server-old has no {{database.nope}}: did you mean "database.dir"?'),
        (services(**{name: {**LISTENS, "needs": []} for name in ("server-old", "server-new")}),
         "system.accounts: service server-old has no {{dataset.dir}}: "),
        (with_file("{{server.port.metric}} {{server.port.metrics}} {{load.port.metrics}} {{load.bind}}"),
         'services.prometheus: service prometheus has no {{server.port.metric}}: did you mean "server.port.metrics"?'),
        (with_file("{{load.port.http}}"), "services.prometheus: service prometheus has no {{load.port.http}}: "),
    ],
)  # fmt: skip
def test_placeholders_that_no_trial_fills_are_refused_before_it_begins(changes, told):
    def unfit(**changes):
        return study_of(run_here(loads=[BOUNDED], **changes)).unfit()

    assert any(text.startswith(f"families.load_test: {told}") for text in unfit(**changes))
    assert not unfit() and not unfit(system={"accounts": "{{postgres.dir}}/accounts.json"})


OLD = run_here()["versions"][0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"versions": []}, ["versions: missing", "windows and sources"]),
        ({"prometheus": None, "loads": []}, ["loads, prometheus:"]),
        ({"databases": [{"name": "postgres"}]}, ["database postgres", "give service"]),
        ({"databases": [{"name": "postgres", "service": "postgers"}]}, ['did you mean "postgres"?']),
        ({"versions": [{**OLD, "services": {}}]}, ["version old", "none for database postgres"]),
        ({"versions": [{**OLD, "services": {"postgres": "server-odl"}}]}, ['did you mean "server-old"?']),
        ({"versions": [{**OLD, "services": {"mysql": "server-old"}}]}, ["'mysql' is not among the databases"]),
        ({"versions": [OLD, {"name": "again", "same_as": "new"}]}, ["version again", "'new' is not an earlier"]),
        ({"versions": [OLD, {**OLD, "name": "again", "same_as": "old"}]}, ["remove its services"]),
        ({"versions": [OLD, OLD]}, ["versions:", "'old' is given twice"]),
        (services(**{"server-old": {**LISTENS, "ports": ["www"], "ready": {"tcp": "www"}}}), ["no port 'http'"]),
        (services(prometheus={**PROMETHEUS, "needs": ["node"]}), ["service prometheus", "no service 'node'"]),
        (with_file("global: {scrape_interval: 5s}\n"), ["scrape_interval: 1 s", "prometheus.yml", "says 5s"]),
        (with_file("global:\n  scrape_interval: 15s # the default\n"), ["scrape_interval: 1 s", "says 15s"]),
        ({"loads": [{**BOUNDED, "duration": "90min"}]}, ["load bounded", "5404 s", "set timeout to at least 5524s"]),
        ({"sources": [SOURCE]}, ["sources:", "with windows only"]),
    ],
)
def test_runs_that_cannot_be(changes: Mapping[str, Any], says: list[str]):
    with pytest.raises(StudyError) as refused:
        study_of(run_here(**changes))
    for text in says:
        assert text in str(refused.value)


# --- clocks -----------------------------------------------------------------------------------------------------


def test_the_clock_of_prometheus_is_known_against_this_machines():
    clock = clock_of({"offset_s": 2.0, "uncertainty_s": 0.01}, host_offset_s=-1.5)
    assert (clock.from_host_s, clock.from_here_s) == (2.0, 0.5)


def test_a_wrong_clock_is_refused_unless_the_study_says_whose_the_times_are():
    wrong = Clock(0.0, 3600.0, 0.01)
    assert correction_s(Clock(0.0, 0.4, 0.01), None, "grafana") == 0.0
    assert correction_s(wrong, "prometheus", "grafana") == 0.0
    assert correction_s(wrong, "utc", "grafana") == 3600.0
    with pytest.raises(TrialFailed, match=r"source grafana: the clock of Prometheus is \+3600.000 s.*`clock: utc`"):
        correction_s(wrong, None, "grafana")


def test_accounts_that_cannot_be_read_are_told():
    for users, told in {
        '["anna"]': "no JSON",
        '{"anna": {}}': "no JSON",
        "7": "no JSON",
        '[{"password": ["x"]}]': "no JSON",
        "[]": "the data set has no users",
    }.items():
        with pytest.raises(TrialFailed, match=f"^system.accounts: a.json: .*{told.removeprefix('no ')}"):
            read_accounts("system.accounts: a.json", f'{{"users": {users}}}')
    assert read_accounts("a.json", '{"password": 7, "users": [{"username": "anna"}]}')[1] == {"7"}


def test_a_clock_that_is_set_during_a_trial_makes_no_window():
    before = Clock(0.0, 0.0, 0.001)
    assert require_steady(before, Clock(0.0, 0.02, 0.001)) == pytest.approx(0.02)
    with pytest.raises(TrialFailed, match=r"was set by -5.000 s"):
        require_steady(before, Clock(0.0, -5.0, 0.001))


@pytest.mark.parametrize(("length_s", "interval_s", "width_s"), [(5400, 1, 60), (30, 1, 5), (30, 15, 60), (300, 5, 60)])
def test_rates_are_over_a_minute_or_over_five_scrapes_in_a_short_window(
    length_s: float, interval_s: float, width_s: float
):
    assert rate_window_s(length_s, interval_s) == width_s
