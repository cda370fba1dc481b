"""Which server, limit or generator is better? Verdicts of the page of load tests, only between like cases."""

import json
import re

import pytest
from conftest import executed_in, pages_made_in
from http_fixture import HttpTables, levels_of

from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.lints import lint
from benchstudy.report.comparisons.comparison import Comparisons
from benchstudy.report.results import material


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Two servers of one file with two limits, by ab, wrk and k6. With 50 connections, ab is at its limit."""
    root = tmp_path_factory.mktemp("project")
    tables = HttpTables(root)
    speeds = {"nginx": 1000.0, "lighttpd": 1500.0}
    for block in range(1, 7):
        for n in (5, 50):
            levels = levels_of("nothing", "none", "null", "ab", concurrency=str(n))
            tables.closed(levels, block, tables.noisy(20000.0, 0.01))
            for server, rate in speeds.items():
                for limits, cores in (("1-core", 1.0), ("2-cores", 1.8)):
                    levels = levels_of(server, limits, "static", "ab", concurrency=str(n))
                    cpu = 0.95 if n == 50 else 0.3
                    tables.closed(levels, block, tables.noisy(rate * cores, 0.01), generator_cpu=cpu)
        for server, rate in speeds.items():
            levels = levels_of(server, "1-core", "static", "wrk", concurrency="5")
            tables.closed(levels, block, tables.noisy(rate * 1.2, 0.01))
            levels = levels_of(server, "1-core", "static", "k6", rate="400/s")
            tables.opened(levels, block, tables.noisy(400, 0.001), tables.noisy(2.0 / rate, 0.01))
    levels = levels_of("caddy", "1-core", "other", "ab", concurrency="5")
    tables.closed(levels, 1, 10.0)
    tables.write()
    with pages_made_in(root):
        executed = executed_in(root, "http_concurrency")
    return root / "reports/embedded/http_concurrency", executed.read_text(encoding="utf-8")


def lines(exports, table):
    found = json.loads((exports[0] / "overview.json").read_text(encoding="utf-8"))["comparisons"][table]
    return {line["name"]: line["verdict"] for line in found["lines"]}


def test_servers_are_judged_under_the_same_load_and_not_where_the_client_decided(exports):
    said = lines(exports, "servers")
    assert said == {
        # ab at 5 connections under both limits, wrk, and k6 at a rate that both answer; ab at 50 is client-limited.
        "lighttpd against nginx, successful responses per second": "better in 3, without a verdict in 3 of 6",
        "lighttpd against nginx, latency, p50": "better in 4, without a verdict in 2 of 6",
    }
    table = (exports[0] / "tables/servers.csv").read_text(encoding="utf-8")
    assert "nginx: client-limited, the generator used 95 % of its CPUs" in table
    # The study set the rate of the open loop, so that it says nothing about the servers.
    assert table.count("both achieved the offered rate") == 1 and "equivalent" not in table
    assert re.search("1-core · .*ab · concurrency 5", table) and re.search("1-core · .*k6", table)


def test_a_server_that_fails_requests_is_not_compared_by_its_latency(tmp_path):
    """Errors are answered sooner than files, or not at all."""
    tables = HttpTables(tmp_path)
    for block in range(1, 7):
        for server, rate, errors in (("nginx", 1000.0, 0), ("busy", 1500.0, 1000), ("fine", 1500.0, 50)):
            levels = levels_of(server, "1-core", "static", "wrk", concurrency="5")
            tables.closed(levels, block, tables.noisy(rate, 0.01), errors=errors, requests=5_000)
    results = tables.results()
    made = Comparisons(results, [], ["throughput", "latency_p50"], factor="server", unfit=HttpLoad(results).unfit)
    assert {(row.level, row.metric): row.outcome.verdict for row in made.rows} == {
        ("busy", "throughput"): "better", ("busy", "latency_p50"): "none",
        ("fine", "throughput"): "better", ("fine", "latency_p50"): "better",
    }  # fmt: skip
    (why,) = (row.outcome.why for row in made.rows if row.outcome.verdict == "none")
    assert why == "busy: 20 % of its requests failed, so its latencies are not compared"
    (answer,) = HttpLoad(results).answers()
    said = {line["name"]: line["evidence"].partition("; errors ")[2] for line in answer["lines"]}
    assert said == {"nginx": "", "busy": "20 %", "fine": "1 %"}


def test_a_server_that_answers_a_few_connections_is_not_compared_by_its_median_latency(tmp_path):
    """It is slower, but most of its responses go to connections that it serves at once, and the others wait."""
    tables = HttpTables(tmp_path)
    for block in range(1, 7):
        for server, rate, little in (("nginx", 5000.0, 0.0), ("hungry", 800.0, 0.95)):
            levels = levels_of(server, "1-core", "static", "ab", concurrency="20")
            tables.closed(levels, block, tables.noisy(rate, 0.01), little=little)
    results = tables.results()
    load = HttpLoad(results)
    made = Comparisons(results, [], ["throughput", "latency_p50"], factor="server", unfit=load.unfit)
    said = {row.metric: (row.outcome.verdict, row.outcome.why) for row in made.rows}
    assert said["throughput"][0] == "worse"
    verdict, why = said["latency_p50"]
    assert verdict == "none" and why.startswith("hungry: the faster half of its requests took at most ")
    assert why.endswith(" of its connections' time, so its p50 is not compared")
    (told,) = (sentence for sentence in load.weaknesses() if "faster half" in sentence)
    assert told.startswith("In 1 of 2 closed-loop points, ")


def test_a_server_to_which_requests_were_not_sent_is_not_compared_by_the_latency_of_the_others(tmp_path):
    """Latencies of such a load count from sending, and those of another from when a request was due."""
    tables = HttpTables(tmp_path)
    for block in range(1, 7):
        for server, achieved in (("nginx", 400.0), ("full", 300.0)):
            levels = levels_of(server, "1-core", "static", "k6", rate="400/s")
            tables.opened(levels, block, achieved, tables.noisy(0.002 if server == "nginx" else 0.001, 0.01))
    results = tables.results()
    load = HttpLoad(results)
    choice = {"factor": "server", "unfit": load.unfit, "settled": load.settled}
    made = Comparisons(results, [], ["throughput", "latency_p50"], **choice)
    said = {row.metric: (row.outcome.verdict, row.outcome.why) for row in made.rows}
    why = "full: 25 % of its requests were not sent, so its latencies are not compared"
    assert said["latency_p50"] == ("none", why)
    assert said["throughput"][0] != "none", "one server did not keep up"


def test_limits_and_generators_are_judged_too(exports):
    assert "2-cores against 1-core, successful responses per second" in lines(exports, "limits")
    assert lines(exports, "generators")["wrk against ab, successful responses per second"] == "better in 2 of 2"


def test_the_short_answer_stands_at_the_head_of_the_page(exports):
    page = exports[1]
    first = page.index("Which server?")
    assert first < page.index("Requests per second") and re.search(r"lighttpd against nginx.{0,300}better in 3", page)


def test_servers_that_send_much_more_than_others_for_one_endpoint_are_named(tmp_path):
    """12 bytes against 11,413: a ratio of requests per second is not one of servers."""
    tables = HttpTables(tmp_path)
    for endpoint, server, length in (
        ("page", "nginx", 11_413),
        ("page", "own", 12),
        ("list", "nginx", 5_000),
        ("list", "own", 9_000),
    ):
        tables.closed(levels_of(server, "none", endpoint, "wrk", concurrency="20"), 1, 1000.0, length=length)
    found = [(f.where, f.what) for f in lint(material.read(tables.results())) if f.lint == "unequal-responses"]
    assert found == [("http_concurrency: page", "nginx sends 11.4 KB per response, and own 12 B")]
