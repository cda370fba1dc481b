"""Every metric is declared once, by its family: captured outputs give no others, and docs list the declared ones."""

import gzip
import itertools
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import CHECKOUT

from benchstudy.commands import reference
from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.families.http_concurrency.load_result import parse_load as parse_http
from benchstudy.families.load_test.locust import parse_load as parse_locust
from benchstudy.model import registry
from benchstudy.model.family import ParseError
from benchstudy.model.metrics import Metric, declare

DATA = Path(__file__).parent / "data"
Units = set[tuple[str, str]]


def parsed(family: str, levels: Mapping[str, str], folder: Path) -> Units:
    return {(o.metric, o.unit) for o in registry.get(family).parse(levels, folder).observations}


def files(folder: Path, **contents: Path | str) -> Path:
    """A trial of these files, by their paths, with `__` for a slash and `_dot_` for a dot."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in contents.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read_bytes() if isinstance(content, Path) else content.encode())
    return folder


def file_size(folder: Path) -> Units:
    found: Units = set()
    for answer in sorted((DATA / "file_size").glob("*.json")):
        levels = {"size": f"{json.loads(answer.read_text())['request']['size']}B"}
        found |= parsed("file_size", levels, files(folder, stdout=answer))
    return found


def fio(folder: Path) -> Units:
    readers: dict[str, Callable] = {".json": parse_fio_json, ".txt": parse_fio_text}
    several = ("disk-full", "interrupted", "stonewall", "appended")  # not a single result: see test_importing
    captured = [path for path in (DATA / "fio").glob("fio-*.*") if path.suffix in readers]
    runs = [path for path in captured if not any(part in path.name for part in several)]
    found = {(o.metric, o.unit) for path in runs for o in observe(readers[path.suffix](path.read_text())).observations}
    loop = files(folder, stdout=DATA / "fio/shell-loop.stdout", stderr=DATA / "fio/shell-loop.stderr")
    found |= parsed("fio", {"test": "small-files", "job": "shell-loop"}, loop)
    return found | parsed(
        "fio", {"test": "small-files", "job": "no-fork"}, files(folder, stdout=DATA / "fio/no-fork.stdout")
    )


def http_concurrency(folder: Path) -> Units:
    made = {
        "ab": files(
            folder / "ab", stdout=DATA / "http/ab-ok.txt", stderr="", files__ab_dot_csv=DATA / "http/ab-ok.csv"
        ),
        "wrk": files(folder / "wrk", stdout=DATA / "http/wrk-ok.txt"),
        "k6": files(folder / "k6", **{"files__k6-summary_dot_json": DATA / "http/k6-ok.json"}),
    }
    (made["ab"] / "files" / "ab.tsv").write_bytes(gzip.decompress((DATA / "http/ab-ok.tsv.gz").read_bytes()))
    found = {(m, unit) for tool, of in made.items() for m, (_, unit) in parse_http(tool, of).values.items()}
    return found | parsed("http_concurrency", {"concurrency": "10"}, files(folder, ab_dot_txt=DATA / "http/ab-ok.txt"))


def load_test(folder: Path) -> Units:
    found: Units = set()
    for trial in ("mattermost-9.9", "mattermost-10.2"):
        found |= parsed("load_test", {}, DATA / "prometheus" / trial)
    for kind in ("bounded", "unbounded"):
        load = DATA / "load_users" / kind
        said = json.loads((load / "load.json").read_text())
        began, phase = said["started_unix_s"], said["phases"][1]
        values = parse_locust(load, began, (began + phase["start_s"], began + phase["end_s"])).values
        found |= {(metric, unit) for metric, (_, unit) in values.items()}
    return found


def log_write(folder: Path) -> Units:
    facts = {
        "schema": 1, "tool": "logbench", "mode": "open", "rate_per_s": 500, "duplicate_share": 0.0, "front_ends": 1,
        "deduplicates": False, "publish_interval_s": 1.0, "cpus": {"server": 2, "generator": 2},
        "servers": [{"peak_memory_bytes": 90_000_000}],
    }  # fmt: skip
    result = DATA / "tessera/logbench-posix.json"
    trial = files(folder, log_dot_json=json.dumps(facts), load__files__result_dot_json=result)
    found = parsed("log_write", {"rate": "500-per-s", "front_ends": "1"}, trial)
    screen = files(folder, **{"hammer-screen_dot_txt": DATA / "tessera/page-e2-micro.txt"})
    return found | parsed("log_write", {}, screen)


def command(folder: Path) -> Units:
    exported = {"hyperfine_dot_json": DATA / "command/hyperfine/pair.json", "part_dot_json": '{"result": 1}'}
    found = parsed("command", {}, files(folder, **exported))
    return found | parsed("command", {}, files(folder, stdout=DATA / "command/command_runs.json"))


# Metrics that come from other files of a trial than captured outputs are checked where trials are measured.
NOT_CAPTURED = {
    "command": set(),
    "file_size": {"client_"},
    "fio": {"client_", "trim_", "_slat_p", "read_lat_p", "write_lat_p", "sync_lat_p99.9"},
    "http_concurrency": {"client_", "generator_cpu", "server_cpu", "server_peak_memory", "achieved_share"},
    # The recorded search began with the load, and users swung.
    "load_test": {"users_high", "users_low", "supported_users"},
    "log_write": {
        "client_",
        "capacity_",
        "_cpu",
        "disk_",
        "hammer_qps_mean",
        "qps_of_hammer_window",
        "qps_low",
        "qps_high",
    },
}


@pytest.mark.parametrize("outputs", [command, file_size, fio, http_concurrency, load_test, log_write])
def test_captured_outputs_give_what_their_family_declares(outputs, tmp_path):
    family = registry.get(outputs.__name__)
    declared = {(metric.name, metric.unit) for metric in family.metrics.values()}
    given = outputs(tmp_path / "trial")
    assert given - declared == set()
    left = {name for name, _ in declared - given if not any(part in name for part in NOT_CAPTURED[family.name])}
    assert left == set(), "declared, and no output gives it"


def test_a_metric_that_is_not_declared_in_this_unit_is_refused(tmp_path, monkeypatch):
    family = registry.get("file_size")
    levels = {"size": "1MB"}
    trial = files(tmp_path / "trial", stdout=DATA / "file_size/local-write.json")
    monkeypatch.setattr(type(family), "metrics", {**family.metrics, "duration": Metric("duration", "ms", "Time")})
    with pytest.raises(ParseError, match="file_size declares no metric 'duration' in 's'"):
        family.parse(levels, trial)


def test_a_name_is_declared_once_and_every_family_says_what_it_measures_for():
    with pytest.raises(ValueError, match="declared twice: time"):
        declare(Metric("time", "s", "Time"), Metric("time", "s", "Duration"))
    for name in registry.names():
        metrics = registry.get(name).metrics.values()
        assert any(metric.primary for metric in metrics)
        assert all(metric.better for metric in metrics if metric.primary)
        assert all(metric.meaning and metric.title for metric in metrics)


@pytest.mark.parametrize("family", registry.names())
def test_the_tables_of_metrics_in_the_docs_are_current(family):
    text = (CHECKOUT / "docs" / "families" / f"{family}.md").read_text()
    assert f"<!-- metrics of {family}: begin -->" in text
    assert reference.written_into(text) == text, "run python -m benchstudy.commands.reference docs/families/*.md"


@pytest.mark.parametrize("family", registry.names())
def test_a_table_of_metrics_shows_the_primary_ones_and_no_others_in_bold(family):
    primary = [name for name, metric in registry.get(family).metrics.items() if metric.primary]
    bold = re.findall(r"^\| \*\*(.+?)\*\* \|", reference.metrics(family), re.MULTILINE)
    assert [name for row in bold for shown in re.findall("`(.+?)`", row) for name in _spelt_out(shown)] == primary


def _spelt_out(shown: str) -> list[str]:
    """`{read,write}_iops` in full."""
    parts = re.split(r"\{(.+?)\}", shown)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def test_each_link_of_the_reference_of_keys_leads_to_one_heading():
    text = reference.tables()
    headings = Counter(
        re.sub("[^a-z0-9_ -]", "", line.lower()).replace(" ", "-") for line in re.findall("^##+ (.*)$", text, re.M)
    )
    links = re.findall(r"\]\(#(.+?)\)", text)
    assert links and {headings[link] for link in links} == {1}
    assert {"expect-of-command", "expect-of-http_concurrency"} <= set(links)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("above", "share or duration or number"),
        ("rate", "text"),
        ("timeout", "duration"),
        ("replies", "share or number"),
        ("start", "time"),
        ("expect_fs", "text or list of texts"),
    ],
)
def test_the_reference_says_what_is_written_and_not_what_it_becomes(key, written):
    assert f"\n| `{key}` | {written} |" in reference.tables()
