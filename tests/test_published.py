"""Every published figure, derived again from the text from which it was digitised."""

import html
import re
from collections import Counter
from functools import cache
from pathlib import Path

import nbformat
import polars as pl
import pytest
from conftest import executed_in, pages_made_in

from benchstudy.families.fio.family import Fio
from benchstudy.families.fio.fio_result import observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.families.fio.page.small_files import limits
from benchstudy.model import registry
from benchstudy.model.units import Size
from benchstudy.report import htmlpages
from benchstudy.report.figures import vega

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
STORAGE, GITLAB, TESSERA, RELEASES = "mattermost-storage", "gitlab-filesystem", "tessera", "mattermost-v9.11-v10.0"
SECONDS = {"s": 1.0, "ms": 1e-3, "msec": 1e-3, "milliseconds": 1e-3, "minutes": 60.0}


@cache
def published(page: str) -> pl.DataFrame:
    """Not read while tests are collected: mutants.py forks that process, and polars' threads are not in a fork."""
    return pl.read_csv(PUBLISHED / f"{page}.csv")


def storage_value(printed: str) -> float:
    number, unit = re.fullmatch(r"±?([\d.]+) (m?s)", printed).groups()
    return float(number) * SECONDS[unit]


def gitlab_value(printed: str, *, decimal: bool, iops: bool) -> float:
    """`decimal`: the page's sentences use decimal K, M, G; fio's output and options use binary, except for iops."""
    if match := re.fullmatch(r"(\d+)m([\d.]+)s", printed):
        return int(match[1]) * 60 + float(match[2])
    if match := re.fullmatch(r"\{(\d+)\.\.(\d+)\}", printed):
        return int(match[2]) - int(match[1]) + 1
    number, unit = re.fullmatch(r"([\d.,]+)\s*(\S*?)(?:/s)?", printed).groups()
    value = float(number.replace(",", ""))
    if unit in ("msec", "seconds"):
        return value * (1e-3 if unit == "msec" else 1)
    if unit == "%":
        return value / 100
    power = {"": 0, "k": 1, "K": 1, "KB": 1, "M": 2, "MB": 2, "G": 3, "GB": 3}[unit]
    return value * (1000 if decimal or iops else 1024) ** power


def test_every_figure_of_the_storage_page():
    for row in published(STORAGE).iter_rows(named=True):
        assert row["value"] == pytest.approx(storage_value(row["as_printed"]), rel=1e-12), row
        assert row["as_printed"].startswith("±") == (row["statistic"] == "sd")
        assert row["unit"] == "s"


def test_the_storage_tables_are_complete():
    cells = Counter(published(STORAGE).select("backend", "op", "size", "statistic").rows())
    assert len(cells) == 3 * 2 * 6 * 3 and set(cells.values()) == {1}
    sizes = published(STORAGE)["size"].unique(maintain_order=True).to_list()
    assert sizes == ["100KB", "1MB", "10MB", "100MB", "1GB", "10GB"]
    assert all(Size(size).bytes for size in sizes)


def test_every_figure_of_the_file_system_page():
    for row in published(GITLAB).iter_rows(named=True):
        decimal = row["section"].endswith(": text")
        derived = gitlab_value(row["as_printed"], decimal=decimal, iops=row["unit"] == "1/s")
        if row["statistic"] == "share" and not row["as_printed"].endswith("%"):
            derived /= 100  # --rwmixread=75
        assert row["value"] == pytest.approx(derived, rel=1e-12), row


def reference(name: str, statistic: str, op: str | None, section: str = "") -> list[float]:
    return (
        published(GITLAB)
        .filter(
            (pl.col("reference") == name)
            & (pl.col("statistic") == statistic)
            & pl.col("section").str.contains(section)
            & (pl.col("op").is_null() if op is None else pl.col("op") == op)
        )["value"]
        .to_list()
    )


def test_reference_points_and_contradictions_are_there():
    for op, ssd, disk in (("read", 33415, 2000), ("write", 11219, 700)):
        assert reference("ssd", "iops", op) == [ssd, ssd], "in the output and in the text"
        assert reference("spinning disk", "iops", op) == [disk]
    assert reference("command", "size", None, "command") == [4 * 1024**3]
    assert reference("ssd", "size", None) == [1024**3], "the example was made with a quarter of it"
    assert reference("small files", "files", None) == [1000]
    assert reference("small files", "files", "write") == [1001]


def test_the_example_output_says_the_same_as_the_digitised_figures():
    captured = Path(__file__).parent / "data" / "fio" / "fio-2.2.10-page.txt"
    found = {o.metric: o.value for o in observe(parse_fio_text(captured.read_text())).observations}
    for op in ("read", "write"):
        assert int(found[f"{op}_iops"]) == reference("ssd", "iops", op)[0]
        for metric in ("bandwidth", "bytes", "runtime", "ios"):
            assert [found[f"{op}_{metric}"]] == reference("ssd", metric, op)
    (imported,) = Fio().parse_import(captured)
    assert imported.levels["job"] == "test"


def test_the_limits_of_the_small_file_test():
    page, strict = limits(PUBLISHED / "gitlab-filesystem.csv")
    assert page == 10.0
    assert strict == pytest.approx(0.116 * 10 / 3.118)
    assert page / reference("small files", "real", "write")[0] == pytest.approx(86.2, abs=0.05)


def tessera_value(printed: str, unit: str) -> float:
    """The one number in it: "> 3,000", "around 2900 writes/s", "8GB", "Δ 2927qps", "136ms", "over 30s"."""
    (number,) = re.findall(r"\d[\d,]*", printed)
    value = float(number.replace(",", ""))
    if unit == "s":
        return value * {"ms": 1e-3, "s": 1.0}[re.search(r"\d(m?s)$", printed)[1]]
    if unit == "B":
        return value * {"GB": 1e9}[re.search(r"\d([A-Z]+)$", printed)[1]]
    return value


def test_every_figure_of_the_log_page():
    """test_log_write_hammer.py has the boxes once more, in the parser's own words."""
    for row in published(TESSERA).iter_rows(named=True):
        if row["status"] == "ok":
            assert row["value"] == pytest.approx(tessera_value(row["as_printed"], row["unit"]), rel=1e-12), row
            bound = {">": ">", "around": "~"}.get(row["as_printed"].split()[0], "=")
            assert row["relation"] == bound, row
        else:
            assert row["value"] is None and row["relation"] is None, "nothing measured is no zero"
            assert row["status"] == row["as_printed"].lower().rstrip(".")


def test_the_log_page_is_complete():
    rates = published(TESSERA).filter((pl.col("statistic") == "qps") & ~pl.col("section").str.ends_with(": box"))
    found = rates.select("backend", "resources", "antispam", "front_ends", "value", "relation").rows()
    assert found == [
        ("gcp", "spanner-100-pu", "no", 1, 3000, ">"),
        ("gcp", "spanner-100-pu", "yes", 1, 800, ">"),
        ("gcp", "spanner-200-pu", "no", 1, None, None),
        ("gcp", "spanner-200-pu", "yes", 1, 1500, ">"),
        ("gcp", "spanner-300-pu", "no", 1, None, None),
        ("gcp", "spanner-300-pu", "yes", 1, 3000, ">"),
        ("gcp", "spanner-300-pu", "no", 2, None, None),
        ("gcp", "spanner-300-pu", "yes", 2, 5000, ">"),
        ("posix", "12-core-8GB-sas", "no", 1, 2900, "~"),
        ("posix", "12-core-8GB-sas", "yes", 1, 1600, "~"),
        ("posix", "cephfs-4-node-e2", None, None, 1000, ">"),
        ("posix", "e2-micro", None, 1, 1500, ">"),
        ("mysql", "e2-micro-cloudsql", None, 1, 2000, "~"),
        ("mysql", "e2-micro-mysql", None, 1, 300, "~"),
        ("aws", None, None, None, None, None),
    ]
    boxes = published(TESSERA).filter(pl.col("section").str.ends_with(": box"))
    cells = Counter(boxes.select("resources", "antispam", "op", "statistic").rows())
    assert len(cells) == 5 * (3 + 3 + 3 + 6) and set(cells.values()) == {1}


def release_value(printed: str, *, percent: bool) -> float:
    """ "-2.96%", "3802035.679" (of a column of %), "12M posts", "2 x c5.2xlarge", "1.9 milliseconds slower", "5ms"."""
    if " x " in printed:
        return float(printed.split(" x ")[0])
    number, unit, which = re.fullmatch(r"(-?[\d.]+) ?([A-Za-z%]*)(?: (slower|faster|posts))?", printed).groups()
    value = float(number) * {"faster": -1.0}.get(which, 1.0)
    if percent or unit == "%":
        return value / 100
    return value * {"": 1.0, "M": 1e6, **SECONDS}[unit]


def test_every_figure_of_the_release_comparison():
    for row in published(RELEASES).iter_rows(named=True):
        percent = row["statistic"].endswith("_change")
        assert row["value"] == pytest.approx(release_value(row["as_printed"], percent=percent), rel=1e-9), row
        assert (row["unit"] == "s") == row["statistic"].endswith(("mean", "p99", "_difference", "duration")), row


def test_the_release_comparison_is_complete_and_its_table_is_arithmetic():
    table = published(RELEASES).filter(pl.col("section") == "Supported users in unbounded tests")
    users = {(test, version): value for test, version, value in table.select("test", "version", "value").iter_rows()}
    for test in ("unbounded-mysql", "unbounded-postgres"):
        change = users[test, "v10.0.0-rc2"] / users[test, "v9.11.0"] - 1
        assert users[test, None] == pytest.approx(change, abs=0.00005), "-0.45% and -2.96%"
    report = published(RELEASES).filter(pl.col("section").str.starts_with("Attached: report"))
    cells = Counter(report.select("series", "statistic", "version").rows())
    assert len(cells) == 27 * 2 * 3 and set(cells.values()) == {1}
    attached = published(RELEASES).filter(pl.col("section") == "Attached: results.txt")
    assert len(attached) == 4 * 2 * 2
    comments = published(RELEASES).filter(pl.col("section") == "Comments")
    assert sorted(comments["source_line"]) == [9, 9, 9, 11, 12, 15, 16]


def test_ceilings_say_of_which_page_and_column_and_where_they_stand():
    for row in published("ceilings").iter_rows(named=True):
        number = float(row["as_printed"].removesuffix(" MiB/s").replace(",", ""))
        assert row["value"] == number * 1024**2 and row["unit"] == "B/s" and row["source"]
        assert published(STORAGE).filter((pl.col("page") == row["page"]) & (pl.col("backend") == row["backend"])).height


@pytest.mark.parametrize("page", [STORAGE, GITLAB, TESSERA, RELEASES])
def test_each_figure_names_its_line_and_a_base_unit(page: str):
    frame = published(page)
    assert frame["source_line"].min() > 0
    assert set(frame["unit"]) <= {"s", "B", "B/s", "1/s", "1"}
    if "status" in frame.columns:
        frame = frame.filter(pl.col("status") == "ok")
    assert frame.select("page", "section", "value", "as_printed").null_count().sum_horizontal().item() == 0


# -- the page ------------------------------------------------------------------------------------------

SECTION = """
from benchstudy.report.published.published_page import Section

def show(page, results):
    page.say([f"Read from {page.folder.name}, measured: {results}."])

SECTION = Section("Sixth <em>kind</em>", "Of *others*.", {"sixth.csv": "A sixth page"}, show)
"""


@pytest.fixture
def sixth(tmp_path, monkeypatch):
    """A family of another installed package, of which only the published part exists."""
    site = tmp_path / "site"
    files = {
        "sixth/__init__.py": "",
        "sixth/page/__init__.py": "",
        "sixth/page/published.py": SECTION,
        "sixth-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: sixth\nVersion: 1\n",
        "sixth-1.dist-info/entry_points.txt": "[benchstudy.families]\nsixth = sixth\n",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(site)
    registry.packages.cache_clear()
    registry.left_out.cache_clear()
    yield
    registry.packages.cache_clear()
    registry.left_out.cache_clear()


def published_page(root: Path) -> str:
    """What the page of a study that measured nothing shows."""
    executed = executed_in(root, "published", study="none", tidy="data/tidy/none")
    outputs = [o for cell in nbformat.read(executed, as_version=4).cells for o in cell.get("outputs", ())]
    return "\n".join(o["data"].get("text/html") or o["data"]["text/markdown"] for o in outputs)


def test_a_family_of_another_package_has_its_section_after_ours(sixth, tmp_path):
    root = tmp_path / "project"
    with pages_made_in(root):
        without = published_page(root)
        assert "## Sixth" in without and "data/published has no sixth.csv." in without and "Read from" not in without
        (root / "data/published/sixth.csv").write_text(
            "page,section,statistic,value,unit,as_printed,source_line\nhttps://example.org,Results,mean,1.5,s,1.5 s,7\n"
        )
        hostile = "[Own](javascript:alert(1)) <script>alert(2)</script>"
        (root / "data/published/own.csv").write_text(
            f"page,section,statistic,value,unit,as_printed\n{hostile},Results,mean,1.5,s,1.5 s\n"
        )
        page = published_page(root)
    assert f"<h2>{html.escape(hostile)}</h2>" in page and "<script>alert" not in page  # not as Markdown
    titles = ("Backing storage", "File system", "HTTP server", "Transparency log", "Two releases", "Sixth")
    assert re.findall(r"^## (\w+(?: \w+)?)", page, re.MULTILINE) == list(titles)
    assert "Read from published, measured: None." in page and "Not in" not in page
    assert "A sixth page: all 1 figures as printed" in page
    assert "Problems in the tables and the transcripts" in page and "cells say only “failed”" in page


def test_what_is_wrong_and_what_is_printed_stand_side_by_side_and_so_do_three_tables_of_one_kind(tmp_path):
    root = tmp_path / "project"
    with pages_made_in(root):
        page = published_page(root)
    together = page.split("What is wrong with the published figures</h3>")[1:]
    assert len(together) == 5
    for part in together:
        begin, printed = part.split('<div class="cases"><details')[1:3]
        assert re.search(r"\d findings? by \d rules?</summary>", begin) and "figures as printed</summary>" in printed
    three = re.search(r'<div class="beside">(.*?)Published transcripts of ab', page, re.DOTALL)[1]
    assert re.findall(r"Filestash, (\d+MB)", three) == ["32MB", "128MB", "512MB"]
    assert re.search(r"<summary>The published boxes</summary>.*Time-in-queue", page, re.DOTALL)


@pytest.mark.parametrize("drawn", [True, False])
def test_only_a_page_with_something_to_draw_carries_the_script_that_draws(tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(vega, "bundle", lambda: "(()=>{the bundle})();")
    shown = f"<script {vega.SPEC}>{{}}</script>" if drawn else "<p>a table</p>"
    output = nbformat.v4.new_output("display_data", {"text/html": shown})
    executed = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    nbformat.write(executed, tmp_path / "page.ipynb")
    htmlpages.render_notebook(tmp_path / "page.ipynb", tmp_path / "page.html", title="A page")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert shown in text and ("the bundle" in text) is drawn
