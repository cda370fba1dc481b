"""The file that `prometheus-fetch` writes, read without a server: its windows, its samples, and what is refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from prometheus_file import every, figures, write_trial

from benchstudy.families.load_test.load_metrics import Window, read_metrics
from benchstudy.families.load_test.parse import METRICS
from benchstudy.families.load_test.prometheus_raw import cut, raw_lines, sections
from benchstudy.families.load_test.prometheus_samples import pages, read_matrix
from benchstudy.model.family import ParseError

TRIAL = Path(__file__).parent / "data" / "promql" / "trial"
A = {"instance": "a"}
METRICS_OF = {
    "go_goroutines": [(A, every(10, 940, range(17)))],
    "mattermost_http_requests_total": [(A, every(10, 940, range(0, 170, 10)))],
    "never_seen_total": [],
    "also_never_seen_total": [],
}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A window from 1000 to 1100, in pages that end at 1000, 1030, 1060 and 1100."""
    return write_trial(tmp_path / "export", METRICS_OF, (1000, 1100), borders=(1000, 1030, 1060)) / METRICS


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


# --- windows ----------------------------------------------------------------------------------------------------


def test_a_section_is_what_the_file_says(export: Path):
    lines = lines_of(export)
    lines[1:1] = [b'{"kind":"clock","offset_s":0.25,"uncertainty_s":0.01,"now_s":9,"asked_wall_s":8.5,"answer":{}}\n']
    lines[-1] = b'{"kind":"end","pages":8,"series":2,"samples":40,"missing":[],"problems":["a","b"]}\n'
    export.write_bytes(gzip.compress(b"".join(lines)))
    (section,) = sections(export)
    assert (section.url, section.start_s, section.end_s, section.margin_s) == ("http://p", 1000, 1100, 60)
    assert (section.select, section.scrape_interval_s, section.version) == (None, None, "2.42.0")
    assert section.clock == {"offset_s": 0.25, "uncertainty_s": 0.01, "asked_wall_s": 8.5}
    assert section.metrics == {name: len(series) for name, series in METRICS_OF.items()}
    assert section.missing == ("also_never_seen_total", "never_seen_total")
    assert (section.samples, section.problems) == (40, ("a", "b"))


def test_lines_are_apart_from_their_answers_byte_for_byte(export: Path):
    found = list(raw_lines(export))
    assert [line.text for line in found] == lines_of(export)
    for line in found:
        told = json.loads(line.text)
        assert (line.answer is None) == ("answer" not in told)
        assert line.answer is None or json.loads(line.answer) == told.pop("answer")
        assert line.head == told


@pytest.mark.parametrize(
    ("window", "is_held"),
    [
        ((1000, 1100), True),
        ((1040, 1050), True),
        ((999.9995, 1100.0005), True),  # times are whole milliseconds
        ((999.998, 1100), False),
        ((1000, 1100.002), False),
        ((900, 950), False),
    ],
)
def test_a_section_holds_a_window_to_a_millisecond(export: Path, window: tuple[float, float], is_held: bool):
    assert sections(export)[0].holds(*window) is is_held


def test_a_file_of_two_windows_is_no_trial(export: Path):
    export.write_bytes(export.read_bytes() * 2)
    assert len(sections(export)) == 2
    with pytest.raises(ParseError, match=r"metrics\.ndjson\.gz holds 2 windows, but a trial has one: cut it out"):
        read_metrics(export, Window(1_000_000, 1_100_000, 1_000_000, 1_100_000, 60_000, 10_000))


def test_a_file_whose_heading_lacks_something_is_damaged(export: Path):
    lines = lines_of(export)
    header = json.loads(lines[0])
    del header["margin_s"]
    export.write_bytes(gzip.compress(b"".join([json.dumps(header).encode() + b"\n", *lines[1:]])))
    with pytest.raises(ParseError, match=r"^the samples of Prometheus are damaged: KeyError: 'margin_s'"):
        read_metrics(export, Window(1_000_000, 1_100_000, 1_000_000, 1_100_000, 60_000, 10_000))


def cut_trial(export: Path, into: Path, window: tuple[float, float], margin_s: float) -> Path:
    folder = write_trial(into, {}, window, width_s=20)
    cut(export, *window, folder / METRICS, margin_s)
    return folder


def test_what_is_cut_out_gives_the_figures_of_the_whole_and_has_no_page_more(export: Path, tmp_path: Path):
    window = (1030, 1050)
    facts = json.loads((export.parents[2] / "load_test.json").read_text())
    steady = {"steady": {"start_s": 1030, "end_s": 1050}, "rate_window_s": 20}
    (export.parents[2] / "load_test.json").write_text(json.dumps({**facts, **steady}))
    whole, series = figures(export.parents[2])
    cut_out = cut_trial(export, tmp_path / "cut", window, 20)
    values, of_cut = figures(cut_out)
    assert values["samples"] < whole.pop("samples")
    assert {name: value for name, value in values.items() if name != "samples"} == whole
    points = {(row["panel"], row["t_s"] + 1000): row["value"] for row in series["panels"]}
    assert {(row["panel"], row["t_s"] + 1030): row["value"] for row in of_cut["panels"]}.items() <= points.items()
    (section,) = sections(cut_out / METRICS)
    assert (section.start_s, section.end_s, section.margin_s) == (1030, 1050, 20)
    assert (section.url, section.version, section.metrics) == ("http://p", "2.42.0", sections(export)[0].metrics)
    heads = [line.head for line in raw_lines(cut_out / METRICS)]
    spans = [(h["start_s"], h["end_s"]) for h in heads if h["kind"] == "page" and h["metric"] == "go_goroutines"]
    assert spans == [(1000, 1030), (1030, 1060)]
    assert (heads[-1]["pages"], heads[-1]["cut_from_pages"]) == (8, 0)


@pytest.mark.parametrize(
    ("window", "margin_s", "spans"),
    [
        ((1030, 1060), 0, [(1000, 1030), (1030, 1060), (1060, 1100)]),  # a border belongs to both pages
        ((1031, 1059), 0, [(1030, 1060)]),
        ((1031, 1059), 1, [(1000, 1030), (1030, 1060)]),
        ((1031, 1059), 0.9, [(1030, 1060)]),
        ((1000, 1020), 60, [(940, 1000), (1000, 1030)]),
        ((1061, 1100), 0, [(1060, 1100)]),
    ],
)
def test_pages_that_a_window_and_its_margin_touch_are_kept(export, tmp_path, window, margin_s, spans):
    cut(export, *window, tmp_path / "out.gz", margin_s)
    heads = [line.head for line in raw_lines(tmp_path / "out.gz")]
    of_metric = [h for h in heads if h["kind"] == "page" and h["metric"] == "mattermost_http_requests_total"]
    assert [(h["start_s"], h["end_s"]) for h in of_metric] == spans
    assert [h["pages"] for h in heads if h["kind"] == "end"] == [len([h for h in heads if h["kind"] == "page"])]


@pytest.mark.parametrize(
    ("start_s", "asked_s", "there_s"), [(1000, 60, 60), (1000, 61, 60), (1010, 80, 70), (1010, 5, 5)]
)
def test_a_margin_is_as_long_as_the_file_has_it(export, tmp_path, start_s, asked_s, there_s):
    assert cut(export, start_s, 1050, tmp_path / "out.gz", asked_s).margin_s == there_s


def test_the_extra_time_of_a_later_start_is_margin_at_any_time(tmp_path: Path):
    path = write_trial(tmp_path / "export", METRICS_OF, (10, 100)) / METRICS
    assert cut(path, 30, 50, tmp_path / "out.gz", 200).margin_s == 60 + 20


def test_a_window_is_cut_from_the_first_fetch_that_holds_all_of_it(tmp_path: Path):
    parts = []
    for name, span in [("1", (800, 900)), ("2", (1000, 1100)), ("3", (900, 1200)), ("4", (1000, 1200))]:
        path = write_trial(tmp_path / name, METRICS_OF, span, version=f"2.{name}.0") / METRICS
        parts.append(path.read_bytes())
    whole = tmp_path / "all.gz"
    whole.write_bytes(b"".join(parts))
    assert [part.start_s for part in sections(whole)] == [800, 1000, 900, 1000]
    for window, version in {(1000, 1100): "2.2.0", (1000, 1101): "2.3.0", (800, 810): "2.1.0"}.items():
        section = cut(whole, *window, tmp_path / "out.gz")
        assert (section.version, section.margin_s) == (version, 0)
    said = (
        "all.gz does not hold the window 850 to 950 .Unix s., but 800 to 900, 1000 to 1100, 900 to 1200, 1000 to 1200"
    )
    with pytest.raises(ParseError, match=said):
        cut(whole, 850, 950, tmp_path / "out.gz")


# --- damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], r"is cut off: it does not say that all was fetched"),
        (lambda lines: [], r"is not an export of Prometheus data as `prometheus-fetch` writes it"),
        (lambda lines: lines[1:], r"is not an export of Prometheus data"),
        (lambda lines: [b"[]\n", *lines], r"is not an export of Prometheus data"),
        (lambda lines: [*lines[:3], *lines], r"another window begins where the one before is cut off"),
        (lambda lines: [*lines, *lines[:-1]], r"is cut off"),
        (lambda lines: [lines[0].replace(b'"schema":1', b'"schema":2'), *lines[1:]], r"schema 2; only 1 is known"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], r"gz is truncated or damaged: "),
        (lambda lines: [lines[0], b"words\n", *lines[1:]], r"gz is truncated or damaged: "),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_its_name(export, change: Callable[[list[bytes]], list[bytes]], said):
    export.write_bytes(gzip.compress(b"".join(change(lines_of(export)))))
    with pytest.raises(ParseError, match=said) as refused:
        sections(export)
    assert str(refused.value).startswith("metrics.ndjson.gz")


@pytest.mark.parametrize(
    "change", [lambda raw: raw[:-20], lambda raw: raw[:60] + b"\0" * 30 + raw[90:], lambda _: b"no gzip"]
)
def test_a_file_whose_compression_is_damaged_is_refused(export: Path, change: Callable[[bytes], bytes]):
    export.write_bytes(change(gzip.compress(gzip.decompress(export.read_bytes()), mtime=0)))
    with pytest.raises(ParseError, match=r"metrics\.ndjson\.gz is truncated or damaged: "):
        sections(export)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ParseError, match=r"the file none\.gz is missing"):
        sections(tmp_path / "none.gz")


# --- samples ----------------------------------------------------------------------------------------------------

SERIES = b'{"metric":{"__name__":"m","a":"x\\"},{\\"metric\\":"},"values":[[1.5,"+Inf"],[2,"1e-07"],[3.001,"-4"]]}'
OTHER = b'{"metric":{"__name__":"m"},"values":[[7,"0"]]}'
NEXT = b'{"metric":{"__name__":"n","b":"[[1,2]]"},"values":[[7.25,"8"],[8.25,"NaN"]]}'


def answer(*series: bytes, status: bytes = b"success", kind: bytes = b"matrix") -> bytes:
    return b'{"status":"%s","data":{"resultType":"%s","result":[%s]}}' % (status, kind, b",".join(series))


def by_name(text: bytes) -> list[tuple[dict[str, str], list[int], list[float]]]:
    return [(series.labels, series.times_ms.tolist(), series.values.tolist()) for series in read_matrix(text)]


def test_samples_are_those_of_the_answer_however_it_is_laid_out():
    text = answer(SERIES, OTHER, NEXT)
    expected = [
        (row["metric"], [round(1000 * at) for at, _ in row["values"]], [float(value) for _, value in row["values"]])
        for row in json.loads(text)["data"]["result"]
    ]
    spaced = text.replace(b'{"metric":{', b'{ "metric":{')
    layouts = [text, spaced, spaced.replace(b'"values":[[', b'"values": [[')]
    for layout in (*layouts, json.dumps(json.loads(text)).encode(), json.dumps(json.loads(text), indent=2).encode()):
        assert repr(by_name(layout)) == repr(expected)
    assert by_name(answer()) == by_name(json.dumps(json.loads(answer())).encode()) == []


def test_all_numbers_of_an_answer_of_prometheus_are_parsed_in_one_pass():
    """A page has millions of them. The series are parts of one array."""
    first, *others = read_matrix(answer(SERIES, OTHER, NEXT))
    assert first.times_ms.base is not None and first.values.base is not None
    assert all(series.times_ms.base is first.times_ms.base for series in others)
    assert all(series.values.base is first.values.base for series in others)
    assert first.key == b'{"__name__":"m","a":"x\\"},{\\"metric\\":"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (answer(status=b"error", kind=b"matrix").replace(b":[", b": ["), "it is not a matrix but error, matrix"),
        (answer(kind=b"vector").replace(b":[", b": ["), "it is not a matrix but success, vector"),
        (answer(OTHER).replace(b'"values"', b'"histograms"'), "native histograms, which are not read"),
        (answer(b'{"metric":{},"values":[[2,"1"],[1,"2"]]}'), "not in order of time"),
        (answer(b'{"metric":{},"values":[[2,"1"],[2,"2"]]}'), "not in order of time"),
        (answer(b'{"metric":{},"values":[[1000000000000,"1"]]}'), "a sample has no time"),
        (answer(b'{"metric":{},"values":[[NaN,"1"]]}'), "a sample has no time"),
        (answer(b'{"metric":{},"values":[[1,"1"],[2]]}'), "the answer of Prometheus is damaged"),
        (answer(b'{"metric":{},"values":[[1,"one"]]}'), "the answer of Prometheus is damaged"),
        (answer(OTHER)[:-9], "the answer of Prometheus is damaged"),
        (b'{"status":"success"}', "the answer of Prometheus is damaged"),
        (b"", "the answer of Prometheus is damaged"),
    ],
)
def test_an_answer_that_is_no_matrix_of_samples_is_refused(text: bytes, said: str):
    with pytest.raises(ParseError, match=said):
        read_matrix(text)


def test_the_latest_time_that_is_one_is_read():
    ((_, times_ms, values),) = by_name(answer(b'{"metric":{},"values":[[999999999999,"1"]]}'))
    assert (times_ms, values) == ([999_999_999_999_000], [1])


def test_pages_have_their_metric_and_their_span(export: Path):
    found = list(pages(export, {"go_goroutines"}))
    assert [(page.metric, page.start_ms, page.end_ms) for page in found] == [
        ("go_goroutines", start_ms, end_ms)
        for start_ms, end_ms in [
            (940_000, 1_000_000),
            (1_000_000, 1_030_000),
            (1_030_000, 1_060_000),
            (1_060_000, 1_100_000),
        ]
    ]
    assert [page.metric for page in pages(export)][::4] == list(METRICS_OF)
    together = np.unique(np.concatenate([page.series[0].times_ms for page in found]))
    assert together.tolist() == [1000 * at for at in range(940, 1101, 10)]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (b'"matrix","result":[', b'"vector","result": [', "it is not a matrix but success, vector"),
        (b"[950,", b"[930,", "samples of a series are not in order of time"),
    ],
)
def test_a_page_that_cannot_be_read_is_named_by_its_query(export: Path, was: bytes, now: bytes, said: str):
    export.write_bytes(gzip.compress(gzip.decompress(export.read_bytes()).replace(was, now)))
    with pytest.raises(ParseError, match=rf"metrics\.ndjson\.gz: the answer to go_goroutines: .*{said}"):
        list(pages(export))
