"""What the page of HTTP servers says about figures that need context, from tidy tables with known values."""

import html
import json
import re
from pathlib import Path

import polars as pl
import pytest
from conftest import CHECKOUT
from http_fixture import HttpTables, levels_of
from test_disturbed import SEEN

from benchstudy.families.http_concurrency.load_result import parse_load
from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.families.http_concurrency.page.open_loop import OpenAgainstClosed
from benchstudy.families.http_concurrency.page.tables import CLIENT_LIMITED, LITTLE_BROKEN, NO_CEILING, TOO_SHORT
from benchstudy.families.http_concurrency.page.tables import HttpTables as Drawn
from benchstudy.report.exhibits import figuredata

FILES = levels_of("files", "1-core", "list", "ab", concurrency="20")
NOTHING = levels_of("nothing", "none", "null", "ab", concurrency="20")


def marks(root: Path, requests: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tables of a server with 6,000/s, and of the null server with 9,000/s, which got this many requests."""
    tables = HttpTables(root)
    for block in range(1, 7):
        tables.closed(FILES, block, tables.noisy(6000.0, 0.01))
        tables.closed(NOTHING, block, tables.noisy(9000.0, 0.01), requests=requests)
    load = HttpLoad(tables.results())
    drawn, (sweep,), (ceiling,) = Drawn(load), load.sweeps(), load.ceilings()
    return tuple(drawn.throughput_cell(s.points[0]).marks for s in (sweep, ceiling))


def test_runs_of_milliseconds_are_no_ceiling(tmp_path):
    assert marks(tmp_path / "a-second", 10_000) == ((CLIENT_LIMITED,), ())
    assert marks(tmp_path / "milliseconds", 500) == ((NO_CEILING,), (TOO_SHORT,))


def test_a_null_server_is_not_measured_against_itself(tmp_path):
    tables = HttpTables(tmp_path)
    for block in range(1, 7):
        tables.closed(NOTHING, block, 9000.0 + block, requests=10_000, generator_cpu=0.95)
    load = HttpLoad(tables.results())
    (ceiling,) = load.ceilings()
    assert Drawn(load).throughput_cell(ceiling.points[0]).title == "the generator used 95 % of its CPUs"


def test_points_that_only_the_null_server_shows_to_be_limited_are_noted(tmp_path):
    """Lints know those whose generator had no processor time left."""
    tables = HttpTables(tmp_path)
    for block in range(1, 7):
        tables.closed(FILES, block, 6000.0 + block, generator_cpu=0.5)
        tables.closed(FILES | {"server": "busy"}, block, 6000.0 + block, generator_cpu=0.9)
        tables.closed(FILES | {"server": "slow"}, block, 100.0 + block, generator_cpu=0.5)
        tables.closed(NOTHING, block, 9000.0 + block, requests=10_000)
    load = HttpLoad(tables.results())
    assert load.at_ceiling() == [
        "files · 1-core · list · ab · 20: 66.7 % of the same generator's throughput with the null server"
    ]
    assert next(load.weaknesses()).startswith("2 of 3 points client-limited"), "with the one that lints know"


def test_cases_without_errors_have_the_widest_of_their_intervals_and_not_that_of_all_requests(tmp_path):
    tables = HttpTables(tmp_path)
    for connections, requests in (("5", 100), ("20", 1_000_000)):
        tables.closed(FILES | {"concurrency": connections}, 1, 6000.0, requests=requests)
    (row,) = Drawn(HttpLoad(tables.results())).errors().rows
    assert [cell.lines for cell in row[:3]] == [
        ("every case (2)",), ("1,000,100",),
        ("0 (0 %)", "95 %: 0–3.7 % in the case with the fewest requests (100)"),
    ]  # fmt: skip


def test_errors_that_an_output_does_not_count_are_no_zeros(tmp_path):
    """Locust does not say which requests failed how, and old summaries of k6 do not say how many failed."""
    tables = HttpTables(tmp_path)
    told = {"throughput": (97.0, "1/s"), "requests": (1000.0, "1"), "duration": (10.0, "s")}
    for block in range(1, 4):
        tables.closed(FILES, block, 6000.0)
        counted = {name: value for name, value in told.items() if name != "throughput"}
        unchecked = dict.fromkeys(("errors", "errors_status", "errors_timeout", "errors_connect"), (0.0, "1"))
        for tool, known in (
            ("locust", told | {"errors": (30.0, "1")}),
            ("k6", counted),
            ("wrk", told | unchecked),
        ):
            levels = levels_of("imported", "unknown", tool, tool, concurrency="7")
            tables.add(levels, block, known, numbers={"concurrency_n": 7}, imported=True, tool=tool)
    drawn = Drawn(HttpLoad(tables.results())).errors()
    assert [[cell.lines[0] for cell in row] for row in drawn.rows] == [
        ["imported · unknown · locust · locust · 7", "3,000", "90 (3 %)", *"––––", "0 of 3"],
        ["imported · unknown · k6 · k6 · 7", "3,000", "not counted", *"––––", "0 of 3"],
        ["imported · unknown · wrk · wrk · 7", "3,000", "0 (0 %)", *"0–00", "0 of 3"],
        ["every other case (1)", "15,000", "0 (0 %)", *"0000", "none"],
    ]


def test_broken_connections_of_wrk_are_a_share_of_all_requests(tmp_path):
    """A server that closes most connections: 538 answers, and 16,863 requests without one."""
    (tmp_path / "stdout").write_bytes((CHECKOUT / "tests/data/http/wrk-full.txt").read_bytes())
    tables = HttpTables(tmp_path / "tidy")
    levels = levels_of("full", "none", "e", "wrk", concurrency="20")
    tables.add(levels, 1, parse_load("wrk", tmp_path).values, numbers={"concurrency_n": 20}, tool="wrk")
    drawn = Drawn(HttpLoad(tables.results())).errors()
    assert [cell.lines[0] for cell in drawn.rows[0][1:]] == ["17,401", "16,863 (96.9 %)", *"000", "16,863", "0 of 1"]


def test_an_answer_of_two_modes_says_so(tmp_path):
    tables = HttpTables(tmp_path)
    for block, throughput in enumerate((240.0, 239.0, 2900.0, 241.0, 3000.0, 240.0), 1):
        tables.closed(FILES, block, throughput)
    load = HttpLoad(tables.results())
    (answer,) = load.answers()
    assert "; two modes: 4 near 240/s, 2 near 2,950/s" in answer["lines"][0]["evidence"]


def test_an_answer_of_a_server_that_always_failed_leads_to_its_trials(tmp_path):
    tables = HttpTables(tmp_path)
    tables.add(FILES, 1, {}, numbers={"concurrency_n": 20}, status="failed", cause="killed", tool="ab")
    (answer,) = HttpLoad(tables.results()).answers()
    (line,) = answer["lines"]
    assert line["value"] == "–" and line["href"].startswith("#case-")


def test_the_legend_of_a_distribution_has_what_is_drawn_in_the_order_of_its_numbers(bare_project: Path, capsys):
    tables = HttpTables(bare_project)
    for limits, connections in (("1-core", "20"), ("2-cores", "1"), ("2-cores", "5")):
        tables.closed(levels_of("files", limits, "list", "ab", concurrency=connections), 1, 6000.0)
    page = tables.page()
    seen = [("a", "5"), ("a", "20"), ("b", "1")]
    steps = page.results.cases.select("target", "case", "concurrency").join(
        pl.DataFrame(seen, schema=["sweep", "concurrency"], orient="row"), on="concurrency"
    )
    steps = steps.with_columns(lower_s=pl.lit(0.001), upper_s=pl.lit(0.002), count=pl.lit(10))
    page.cdf("cdf", steps, series="concurrency", panels=["sweep"], ordered=True, caption="Latencies.")
    figures = bare_project / "reports/embedded/http_concurrency/figures"
    texts = [
        re.findall(r"<text\b[^>]*>([^<]+)<", (figures / f"{name}.svg").read_text()) for name in ("cdf", "cdf-single")
    ]
    assert texts[0][:4] == ["Concurrency:", "5", "20", "a"] and texts[1][:3] == ["Concurrency:", "1", "b"]


def test_a_distribution_rises_where_its_operations_are(tmp_path):
    """Most requests take less than 0.5 ms, and the few others up to 20 ms."""
    tables = HttpTables(tmp_path)
    tables.closed(FILES, 1, 6000.0)
    results = tables.results()
    bins = [(0.0, 0.0005, 9700), *((ms / 1000, (ms + 1) / 1000, 2) for ms in range(1, 20)), (0.02, 0.021, 262)]
    edges = pl.DataFrame(bins, schema=["lower_s", "upper_s", "count"], orient="row")
    steps = figuredata.cumulative_steps(results, results.cases.join(edges, how="cross"), "concurrency", ["server"])
    assert steps.select("x", "fraction").rows()[0] == (0.0005, 0.97)
    assert steps["x"][-1] == 0.021 and steps["fraction"][-1] == 1.0


@pytest.mark.parametrize(
    ("more", "names"), [({}, ("laptop", "server")), ({"clients": "2"}, ("this-machine",) * 2)]
)  # fmt: skip
def test_distributions_of_several_targets_or_numbers_of_clients_are_drawn(bare_project: Path, capsys, more, names):
    tables = HttpTables(bare_project)
    for target, of in zip(names, ({"clients": None}, {"clients": None} | more), strict=True):
        for connections in ("20", "5"):
            levels = levels_of("files", "1-core", "list", "ab", concurrency=connections) | of
            tables.closed(levels, 1, 6000.0, target=target)
    page = tables.page()
    steps = HttpLoad(page.results).histogram()
    page.cdf("cdf", steps, series="concurrency", panels=["server"], ordered=True, caption="Latencies.")
    drawn = (bare_project / "reports/embedded/http_concurrency/figures/cdf.svg").read_text()
    legend = re.findall(r"<text\b[^>]*>([^<]+)<", drawn)[1:5]
    last = [f" on {names[0]}", f" on {names[1]}"] if not more else ["", ", 2 clients"]
    assert sorted(legend) == sorted(f"{connections}{end}" for connections in ("5", "20") for end in last)
    assert [re.match(r"\d+", name)[0] for name in legend] == ["5", "5", "20", "20"]


def test_servers_under_the_same_load_are_lines_of_one_panel(bare_project: Path):
    """The first panel has both servers, the others one each, which the legend names all the same."""
    tables = HttpTables(bare_project)
    for server, endpoint in (("nginx", "static"), ("sftpgo", "static"), ("sftpgo", "list"), ("nothing", "null")):
        for connections in ("1", "20"):
            tables.closed(levels_of(server, "1-core", endpoint, "ab", concurrency=connections), 1, 6000.0)
    page = tables.page()
    load = HttpLoad(page.results)
    assert load.series == "server"
    assert {view: where["server"] for view, where in load.views().items()} == {
        "1-core · static · ab": ["nginx", "sftpgo"], "1-core · list · ab": ["sftpgo"],
    }  # fmt: skip
    assert [(table.caption, table.columns[1:]) for table in Drawn(load).throughput()] == [
        ("Requests per second: 1-core · static (ab, closed loop)", ("nginx", "sftpgo")),
        ("Requests per second: 1-core · list (ab, closed loop)", ("sftpgo",)),
    ]
    views = {view: where for view, where in load.views().items() if "list" in view}
    page.trend(
        "t", "throughput", x="concurrency_n", x_unit="1", x_title="Connections", series=load.series, views=views,
        caption="Throughput.",
    )  # fmt: skip
    drawn = (bare_project / "reports/embedded/http_concurrency/headline.html").read_text()
    assert re.findall(r"<li>.*?([a-z]+)</li>", drawn[: drawn.index("</ul>") + 5]) == ["sftpgo"]


def test_endpoints_of_a_single_server_are_lines_of_one_panel(tmp_path):
    tables = HttpTables(tmp_path)
    for server, endpoint in (("sftpgo", "static"), ("sftpgo", "list"), ("nothing", "null")):
        tables.closed(levels_of(server, "1-core", endpoint, "ab", concurrency="20"), 1, 6000.0)
    load = HttpLoad(tables.results())
    assert load.series == "endpoint"
    assert [where["endpoint"] for where in load.views().values()] == [["static", "list"]]
    (table,) = Drawn(load).throughput()
    assert (table.caption, table.columns) == (
        "Requests per second: sftpgo · 1-core (ab, closed loop)", ("Concurrency", "static", "list"),
    )  # fmt: skip


def test_open_loops_answer_if_there_is_no_closed_one(tmp_path):
    tables = HttpTables(tmp_path)
    levels = levels_of("files", "1-core", "list", "k6")
    for block in range(1, 7):
        tables.opened(levels | {"rate": "500/s"}, block, 500.0, 0.002)
        tables.opened(levels | {"rate": "900/s"}, block, 800.0, 0.02)
    (answer,) = HttpLoad(tables.results()).answers()
    (line,) = answer["lines"]
    assert line["value"] == "800/s" and line["evidence"].startswith("at an offered rate of 900/s; n = 6")


@pytest.mark.parametrize(
    ("fields", "said"),
    [({}, "No trial gave a figure for a short answer."), ({"status": "failed"}, "No trial gave a result.")],
)
def test_a_page_without_an_answer_says_whether_trials_gave_results(bare_project: Path, displayed, fields, said):
    tables = HttpTables(bare_project)
    tables.closed(FILES, 1, 6000.0, **fields)
    page = tables.page()
    page.verdicts({"Which server?": {"name": "servers", "factor": "server"}}, ["throughput"])
    assert not displayed, "a single server is compared with none"
    page.show_answers([])
    assert said in "".join(displayed)


def test_a_verdict_among_the_answers_leads_to_its_comparison(bare_project: Path, displayed):
    tables = HttpTables(bare_project)
    for server, rate in (("fast", 6000.0), ("slow", 3000.0)):
        for block in range(1, 7):
            tables.closed({**FILES, "server": server}, block, tables.noisy(rate))
    servers = {"name": "servers", "factor": "server"}
    page = tables.page()
    page.verdicts({"Which server?": servers}, ["throughput"])
    assert '<a href="#table-servers">worse</a>' in "".join(displayed)
    page.compare(metrics=["throughput"], caption="Servers", **servers)
    assert 'id="table-servers"' in "".join(displayed)


def test_the_table_of_littles_law_says_that_rounding_is_left_out(tmp_path):
    """`little_error` is smaller than |L − λW| / L if rounding may explain a part."""
    tables = HttpTables(tmp_path)
    tables.closed(FILES, 1, 9000.0)
    assert "less what rounding may explain" in Drawn(HttpLoad(tables.results())).little().caption


def test_a_point_that_rounding_leaves_unchecked_is_not_shown_as_one_that_was_not_measured(tmp_path):
    tables = HttpTables(tmp_path)
    tables.closed(FILES, 1, 9000.0)
    tables.observations = [row for row in tables.observations if row["metric"] != "little_error"]
    ((_, cell),) = Drawn(HttpLoad(tables.results())).little().rows
    assert cell.lines[0] == "unknown" and cell.lines[2] == "rounding may hide a deviation"
    assert cell.href


def test_ceilings_that_break_littles_law_are_marked_and_counted(tmp_path):
    tables = HttpTables(tmp_path)
    wrk = NOTHING | {"generator": "wrk"}
    for levels, little in ((FILES, 0.2), (NOTHING, -0.18), (wrk, 0.3), (wrk | {"concurrency": "1"}, 0.0)):
        tables.closed(levels, 1, 9000.0, little=little, requests=10_000)
    load = HttpLoad(tables.results())
    (table,) = Drawn(load).ceilings()
    assert [[cell.marks for cell in row[1:]] for row in table.rows] == [[(), ()], [(LITTLE_BROKEN,)] * 2]
    assert [text for text in load.weaknesses() if "Little" in text] == [
        "1 of 1 closed-loop point and 2 of 3 closed-loop points of the null server break Little's law by more than "
        "5 %. In 2, λW is below L: fewer requests were in flight than there are connections, the run was too short "
        "for so many connections, or a clock is wrong. In 1, λW is above L, so the mean latency is overestimated."
    ]


def test_a_generator_that_took_cpu_time_from_the_server_is_a_weakness(tmp_path):
    tables = HttpTables(tmp_path)
    for block, shared in enumerate((True, False, True), start=1):
        verified = json.dumps({"placement": {"shared": shared}})
        tables.closed(FILES, block, 9000.0, requests=10_000, verified=verified)
    load = HttpLoad(tables.results())
    assert [text for text in load.weaknesses() if "shared CPUs" in text] == [
        "In 2 of 3 trials server and generator shared CPUs, and each took time from the other."
    ]


def test_a_tail_of_too_few_requests_is_neither_printed_nor_drawn(tmp_path):
    """p99 needs 368 requests in each trial. The open loops have ten times their rate."""
    tables = HttpTables(tmp_path)
    opened = levels_of("files", "1-core", "list", "k6")
    for block, requests in ((1, 5_000), (2, 5_000), (3, 367)):
        tables.closed(FILES, block, 6000.0, requests=368)
        tables.closed(FILES | {"concurrency": "5"}, block, 5500.0, requests=requests)
        for rate in (36, 37):
            tables.opened(opened | {"rate": f"{rate}/s"}, block, float(rate), 0.003)
    load = HttpLoad(tables.results())
    few, enough = (load.sweeps(is_open=False)[0].points[i].case for i in (0, 1))
    assert [view["case"] for view in (*load.views().values(), *load.views(99).values())] == [[few, enough], [enough]]
    (said,) = load.not_drawn(99)
    assert said == "p99 needs 368 requests per trial. Not drawn: files · 1-core · list · ab · 5."
    assert [*load.not_drawn(50)] == []
    against = OpenAgainstClosed(load)
    printed = [[row[3].lines[0], row[7].lines[0]] for row in against.table().rows]
    assert [[text == "needs 368 requests" for text in row] for row in printed] == [[True, True], [False, True]]
    (panel,) = against.panels()
    assert panel.trials == 6


@pytest.mark.parametrize("untimed", ["errors_connect", "errors_timeout"])
def test_requests_without_a_time_are_no_samples_of_a_tail(tmp_path, untimed: str):
    """wrk counted 16,000 refused connections beside 368 answers, or 367."""
    tables = HttpTables(tmp_path)
    for connections, answers in (("20", 368), ("5", 367)):
        for block in (1, 2, 3):
            tables.closed(FILES | {"concurrency": connections}, block, 6000.0, requests=16_000 + answers)
    opened = levels_of("files", "1-core", "list", "k6", rate="37/s")
    tables.opened(opened, 1, 37.0, 0.003)
    for observation in tables.observations:
        if observation["metric"] == untimed:
            observation["value"] = 16_000.0
    # k6 times these, too; and an imported output may not tell them.
    tables.observations.append(tables.observations[-1] | {"metric": untimed, "value": 370.0, "unit": "1"})
    tables.observations = [o for o in tables.observations if not (o["block"] == 3 and o["metric"] == untimed)]
    load = HttpLoad(tables.results())
    (closed,), (kept,) = load.sweeps(is_open=False), load.sweeps(is_open=True)
    assert [load.too_few(99, point) for point in closed.points] == [True, False]
    assert not load.too_few(99, kept.points[0])


def test_a_time_that_ab_rounds_to_zero_is_no_zero(tmp_path):
    """ab prints its report in whole milliseconds, deviations in tenths. k6 does not round, and tells no deviation."""
    tables = HttpTables(tmp_path)
    tables.closed(FILES, 1, 6000.0)
    tables.opened(levels_of("files", "1-core", "list", "k6", rate="50/s"), 1, 50.0, 0.003)
    untold = ("connect_sd", "processing_sd")
    tables.observations = [o for o in tables.observations if "k6" not in o["case"] or o["metric"] not in untold]
    told = {"connect_mean": 0.0, "connect_median": 0.0, "connect_max": 1e-3, "latency_mean": 4e-4, "latency_sd": 2e-4}
    for observation in tables.observations:
        observation["value"] = told.get(observation["metric"], observation["value"])
    load = HttpLoad(tables.results())
    cells = [{row[0].lines[0]: row[1].lines for row in table.rows} for table in Drawn(load).details()]
    assert [of["Connect: mean ± sd"] for of in cells] == [
        ("< 0.5 ms", "median < 0.5 ms, max 1 ms"), ("0 s", "median 0 s, max 1.00 ms"),
    ]  # fmt: skip
    assert cells[0]["Total: mean ± sd"][0] == "0.4 ± 0.2 ms", "deviations have tenths of a millisecond"


@pytest.mark.parametrize("imported", [False, True])
def test_a_page_says_how_finely_ab_tells_latencies(tmp_path, imported):
    tables = HttpTables(tmp_path)
    tables.closed(FILES, 1, 6000.0, imported=imported)
    load = HttpLoad(tables.results())
    assert load.steps() == " ab rounds each latency to the nearest millisecond, so its lines have steps."
    said = " ".join(load.precision())
    assert said.startswith("ab reports the parts of a request (connect, processing, waiting) in whole milliseconds")
    assert ("percentiles are from ab's file in microseconds" in said) is not imported
    assert ("In imported reports of ab, percentiles and means are whole milliseconds." in said) is imported
    open_loop = HttpTables(tmp_path / "k6")
    open_loop.opened(levels_of("files", "1-core", "list", "k6", rate="50/s"), 1, 50.0, 0.003)
    other = HttpLoad(open_loop.results())
    assert (other.steps(), [*other.precision()]) == ("", []), "k6 does not round"


def test_latencies_of_the_pages_caption_and_text_have_the_generators_resolution():
    notebook = (CHECKOUT / "notebooks" / "http_concurrency.ipynb").read_text()
    assert "number of connections.{load.steps()}" in notebook and "page.say(load.precision())" in notebook


def test_ceilings_are_of_closed_loops_and_a_saturated_server_says_at_which_number(tmp_path):
    tables = HttpTables(tmp_path)
    for n, rate in (("1", 2700.0), ("5", 2820.0), ("20", 2740.0), ("50", 2550.0)):
        for block in range(1, 4):
            tables.closed(FILES | {"concurrency": n}, block, tables.noisy(rate, 0.001))
    tables.closed(NOTHING, 1, 9000.0, requests=10_000)
    tables.opened(levels_of("nothing", "none", "null", "k6", rate="100/s"), 1, 100.0, 0.001)
    drawn = Drawn(HttpLoad(tables.results()))
    assert [table.caption.rpartition(", ")[2] for table in drawn.ceilings()] == [
        "closed loop: the ceiling", "open loop: only the requested rate",
    ]  # fmt: skip
    law = drawn.scalability()
    assert (law.columns[1], law.rows[0][1].lines) == ("Reaches 95 % of its maximum", ("at 1 connection",))


def test_a_fitted_law_says_how_many_of_its_trials_were_disturbed(tmp_path):
    """One disturbed trial of 425/s beside five of 1,900/s moves the law; every other table marked that trial."""
    tables = HttpTables(tmp_path)
    for n, rate in (("1", 2700.0), ("5", 2820.0), ("20", 2740.0), ("50", 2550.0)):
        for block in range(1, 4):
            fields = {"disturbed": (n, block) == ("1", 2), "disturbance": json.dumps(SEEN)}
            tables.closed(FILES | {"concurrency": n}, block, tables.noisy(rate, 0.001), **fields)
    (row,) = Drawn(HttpLoad(tables.results())).scalability().rows
    assert row[0].marks == ("disturbed 1 of 12",)


@pytest.mark.parametrize("fits", [True, False])
def test_the_caption_tells_a_fitted_law_from_a_line_of_medians(bare_project: Path, fits):
    tables = HttpTables(bare_project)
    for n, rate in (("1", 2700.0), ("5", 2820.0), ("20", 2740.0), ("50", 2550.0)):
        for block in range(1, 4):
            tables.closed(FILES | {"concurrency": n}, block, tables.noisy(rate, 0.001))
    page = tables.page()
    load = HttpLoad(page.results)
    page.trend(
        "t", "throughput", x="concurrency_n", x_unit="1", x_title="Connections", series=load.series,
        views=load.views(), fitted=load.fitted() if fits else None, caption="Throughput.",
    )  # fmt: skip
    drawn = (bare_project / "reports/embedded/http_concurrency/headline.html").read_text()
    assert ("medians (a line with a band: the fitted law, with its 95 % interval);" in drawn) is fits


def test_a_folded_panel_does_not_decide_the_scale_of_the_others(bare_project: Path):
    """In one figure with 30/s, a line near 6,000/s would be flat."""
    tables = HttpTables(bare_project)
    for endpoint, connections, rate in (("static", "1", 5500.0), ("static", "20", 6000.0), ("transcode", "5", 30.0)):
        tables.closed(levels_of("sftpgo", endpoint, "page", "ab", concurrency=connections), 1, rate)
    page = tables.page()
    load = HttpLoad(page.results)
    page.trend(
        "t", "throughput", x="concurrency_n", x_unit="1", x_title="Connections", series=load.series,
        views=load.views(), caption="Throughput.",
    )  # fmt: skip
    figures = bare_project / "reports/embedded/http_concurrency/figures"
    assert {file.stem for file in figures.glob("*.png")} == {"t", "t-single"}
    drawn = (figures / "t.svg").read_text()
    assert ">5,000/s<" in drawn and not re.search(r">(50|100|1,000)/s<", drawn)


@pytest.mark.parametrize("closed", [True, False])
def test_figures_over_connections_have_a_place_without_a_line_or_a_closed_loop(bare_project: Path, closed, displayed):
    """One point is drawn under the figure's own name. Without a closed loop, the figure says so."""
    tables = HttpTables(bare_project)
    if closed:
        tables.closed(FILES, 1, 6000.0)
    else:
        tables.opened(levels_of("files", "1-core", "list", "k6", rate="50/s"), 1, 50.0, 0.003)
    page = tables.page()
    load = HttpLoad(page.results)
    displayed.clear()
    page.trend(
        "t", "throughput", x="concurrency_n", x_unit="1", x_title="Connections", series=load.series,
        views=load.views(), caption="Throughput.",
    )  # fmt: skip
    figures = bare_project / "reports/embedded/http_concurrency/figures"
    assert [file.stem for file in figures.glob("*.png")] == (["t"] if closed else [])
    assert ("Throughput: no trial gave a figure." in "".join(displayed)) is not closed


def test_a_closed_loop_whose_trials_had_other_rates_is_not_near(tmp_path):
    """Its median is near the open loop's rate, and its trials are not."""
    tables = HttpTables(tmp_path)
    for block, wide in enumerate((63.0, 80.0, 180.0, 200.0, 400.0, 420.0), 1):
        tables.closed(FILES, block, wide)
        tables.closed(FILES | {"server": "even"}, block, 188.0 + block)
        for server in ("files", "even"):
            tables.opened(levels_of(server, "1-core", "list", "k6", rate="200/s"), block, 200.0, 0.003)
    load = HttpLoad(tables.results())
    near = {pair.point.sweep.server: pair.is_near for pair in OpenAgainstClosed(load).pairs()}
    assert near == {"files": False, "even": True}


@pytest.mark.parametrize(("rate", "is_near"), [(100.0, False), (5900.0, True)])
def test_open_loops_without_a_closed_loop_near_them_are_folded(bare_project: Path, displayed, rate, is_near):
    tables = HttpTables(bare_project)
    tables.closed(FILES, 1, 6000.0)
    tables.opened(levels_of("files", "1-core", "list", "k6", rate=f"{rate:.0f}/s"), 1, rate, 0.003)
    page = tables.page()
    displayed.clear()
    OpenAgainstClosed(HttpLoad(page.results)).show(page)
    reason = "No closed loop has a throughput within 25 % of an open loop's, so their latencies cannot be compared"
    assert ["figure-open-closed" in part for part in displayed] == ([True, False] if is_near else [True])
    assert displayed[0].startswith(f'<details class="fold"><summary>{html.escape(reason)}') != is_near
    assert "table-open-closed" in displayed[-1]


@pytest.mark.parametrize(
    ("rates", "peak"),
    [
        ({1: 1000.0, 2: 1950.0, 4: 3700.0, 8: 6700.0}, "outside of the sweep: throughput still rises at 8"),
        ({10: 900.0, 20: 600.0, 40: 350.0, 80: 190.0}, "outside of the sweep: throughput falls from 10 on"),
        ({1: 900.0, 2: 600.0, 4: 350.0, 8: 190.0}, "1"),
    ],
)
def test_a_peak_outside_of_what_was_measured_is_told_in_words(tmp_path, rates, peak):
    tables = HttpTables(tmp_path)
    for n, rate in rates.items():
        for block in range(1, 4):
            tables.closed(FILES | {"concurrency": str(n)}, block, tables.noisy(rate, 0.001))
    tables.closed(FILES | {"concurrency": "100"}, 1, 1.0, status="failed")
    law = Drawn(HttpLoad(tables.results())).scalability()
    (row,) = law.rows
    assert row[law.columns.index("Peak at")].lines[0] == peak
