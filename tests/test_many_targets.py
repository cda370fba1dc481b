"""A study of many targets: its page says which targets differ, on what evidence, and links to a page for each."""

import copy
import csv
import html
import json
import re
from pathlib import Path

import first_pages
import polars as pl
import pytest
from conftest import CHECKOUT, executed_in, pages_made_in
from page_links import followed
from tidy_fixture import DEAD, LAME, NOISY, SLOW, write_fleet

from benchstudy.model.criteria import MANY_TARGETS
from benchstudy.model.differences import environment_diff
from benchstudy.model.studyfile import load_study
from benchstudy.report import htmlpages
from benchstudy.report.results.over_targets import ALL, OverTargets, as_shown, each_target
from benchstudy.report.results.results import Results
from benchstudy.report.results.sessions import read_indexes
from benchstudy.report.scrutiny.evidence import session_facts

TARGETS = 30
WRITE = "backend=local,op=write,size=1MB,sync=fsync"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Tables, the page, the pages of its targets, and the first page."""
    root = tmp_path_factory.mktemp("fleet")
    tidy = write_fleet(root, TARGETS)
    with pages_made_in(root):
        folder = root / "reports" / "embedded"
        htmlpages.render_notebook(executed_in(root, "file_size"), folder / "file_size.html", title="Fleet")
        published = executed_in(root, "published", tidy="data/tidy/embedded")
        htmlpages.render_notebook(published, folder / "published.html", title="Published")
        first_pages.build(
            load_study(CHECKOUT / "config" / "config.yaml"),
            tidy={"file_size": tidy},
            sessions=sorted(root.glob("data/raw/embedded/*/file_size/session.json")),
            reports=root / "reports",
        )
    return root


@pytest.fixture(scope="module")
def folder(root):
    return root / "reports" / "embedded"


@pytest.fixture(scope="module")
def measured(root):
    return Results(root / "data/tidy/embedded/file_size", study="embedded", family="file_size")


def text_of(path: Path) -> str:
    without = re.sub(r"<(script|style|svg)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", without)).replace("\N{WORD JOINER}", "").split())


def rows_of(folder: Path, name: str) -> list[list[str]]:
    with (folder / "file_size" / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_targets_that_stand_out_are_named_with_what_tells_that_they_do(folder):
    slow, noisy, *others = rows_of(folder, "targets-outlying")
    assert [slow[0], noisy[0], others] == [SLOW, NOISY, []]
    assert slow[1].splitlines() == ["10 of 10", "10 certain"]
    assert slow[5].endswith("the whole interval is beyond the limit")
    # Half of its trials are slow, so they do not agree.
    assert noisy[1].splitlines() == ["10 of 10", "0 certain"]
    assert "two modes" in noisy[5] and noisy[5].endswith("the interval reaches back to the limit")
    assert f"2 of 30 targets stand out ({SLOW}, {NOISY})" in text_of(folder / "file_size.html")


def test_targets_that_failed_are_named_with_how_much_of_them(folder):
    dead, lame = rows_of(folder, "targets-lost")
    assert dead[:3] == [DEAD, "10 of 10", "60 of 60"] and lame[:3] == [LAME, "2 of 10", "12 of 60"]
    assert lame[3] == f"no space left on {LAME}"
    row = next(row for row in rows_of(folder, "targets-spread") if row[0] == "sshfs · write · 1MB · fsync")
    assert row[2].splitlines() == ["28", "2 without a figure"]


def test_a_target_counts_once_with_the_median_of_its_trials(measured):
    over = OverTargets(measured)
    estimate = over.estimate("duration", ALL, WRITE)
    own = [e.summary.median for e in measured.estimates("duration") if e.case == WRITE and e.summary.n]
    assert estimate.summary.n == TARGETS - 1 and estimate.failed == 1
    assert sorted(estimate.values) == pytest.approx(sorted(own))
    assert estimate.summary.median == pytest.approx(pl.Series(own).median())


def test_each_target_has_its_own_rows_in_their_order_wherever_they_are_in_the_tables(measured):
    mixed = copy.copy(measured)
    mixed.trials = measured.trials.sample(fraction=1, shuffle=True, seed=1)
    for one in each_target(mixed):
        assert one.trials.equals(mixed.trials.filter(pl.col("target") == one.target))
        assert one.observations.equals(measured.observations.filter(pl.col("target") == one.target))
        assert one.cases.equals(measured.cases.filter(pl.col("target") == one.target))
    assert [one.target for one in each_target(mixed)] == measured.targets


def test_records_of_sessions_share_what_all_declare_and_nothing_else(root, tmp_path):
    first, *_ = sorted(root.glob("data/raw/embedded/*/file_size/session.json"))
    for name, repeats in (("a", 6), ("b", 6), ("c", 7)):
        index = json.loads(first.read_text())
        index["sessions"][0]["declared"] = {"families": {"file_size": {"repeats": repeats}}}
        (tmp_path / name).write_text(json.dumps(index))
    a, b, c = (index["sessions"][0]["declared"]["families"] for index in read_indexes(sorted(tmp_path.iterdir())))
    assert a is b and c == {"file_size": {"repeats": 7}}


def test_a_host_that_was_lost_has_not_changed(root, tmp_path):
    first, *_ = sorted(root.glob("data/raw/embedded/*/file_size/session.json"))
    index = json.loads(first.read_text())
    (host,) = index["sessions"][0]["hosts"].values()
    host |= {"after": None, "diff": environment_diff(host["before"], {})}
    (tmp_path / "lost.json").write_text(json.dumps(index))
    (read,) = read_indexes([tmp_path / "lost.json"])
    told = dict(session_facts(read, several=False))
    (name,) = index["sessions"][0]["hosts"]
    assert told["Environment, before against after"] == f"{name}: unknown after the session"


def test_no_number_is_out_of_reach(folder, measured):
    """Every estimate and every trial of each target, in files and on the target's own page."""
    with (folder / "file_size" / "tables" / "estimates.csv").open(newline="") as file:
        estimates = {(row["target"], row["case"], row["metric"]) for row in csv.DictReader(file)}
    given = measured.observations.filter(pl.col("value").is_not_null()).select("target", "case", "metric")
    assert set(given.unique().iter_rows()) <= estimates
    trials = pl.read_csv(folder / "file_size" / "tables" / "trials.csv")
    assert set(trials["trial"]) == set(measured.trials["trial"])
    for target in measured.targets:
        page = (folder / "file_size" / "targets" / f"{target}.html").read_text()
        listed = set(re.findall(r'id="trial-(\w+)"', page))
        assert listed == set(measured.trials.filter(pl.col("target") == target)["trial"])


def test_every_link_between_the_pages_leads_to_an_id(root, folder):
    pages = [folder / f"{name}.html" for name in ("file_size", "published", "index")]
    pages += (folder / "file_size" / "targets").glob("*.html")
    # Every target is reached from a point or a cell, except one that gave no figure.
    assert {path.stem for path in followed({path: path.read_text() for path in pages})} >= {"file_size", SLOW, NOISY}


def test_published_figures_are_beside_one_figure_of_all_targets(folder, measured):
    with (folder / "published" / "tables" / "storage-write.csv").open(newline="") as file:
        heads = next(csv.reader(file))
    ours = [head for head in heads if head.startswith("Measured: ")]
    assert len(measured.targets) == TARGETS and len(ours) == 5, "a column per backend and sync, not per target"
    assert "Ours are over 30 targets: a target's value is the median" in text_of(folder / "published.html")


def test_each_target_is_judged_by_itself_too_and_counted(folder):
    rows = rows_of(folder, "fsync-each-target")
    notes = json.loads((folder / "file_size" / "overview.json").read_text())
    assert len(notes["judged"]["fsync-each-target"]) == sum(int(cell) for row in rows for cell in row[2:6])
    local = next(row for row in rows if "local" in row[0])
    # Overall, fsync costs time; so it does on each target with figures, and noise hides it on NOISY only.
    assert local[1] == "worse" and int(local[3]) >= TARGETS - 2


def test_the_first_page_has_hosts_and_sessions_in_few_rows(folder):
    said = text_of(folder / "index.html")
    assert "30 targets" in said and "30 sessions" in said
    assert said.count("All recorded facts about the host") == 1
    assert f"on 2 targets: {LAME}, {DEAD}" in said


def test_a_page_of_few_targets_stays_as_it_is(tmp_path):
    tidy = write_fleet(tmp_path, MANY_TARGETS, blocks=1)
    shown = as_shown(Results(tidy, study="embedded", family="file_size"))
    assert type(shown) is Results and shown.places.detail != "apart"
