"""The pages as a reader gets them: executed notebooks and the index, opened in a browser without network.

The notebooks run in our own process, and once more in a Jupyter kernel with papermill's standard engine.
"""

import html
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import browser
import first_pages
import nbformat
import nbformat.v4 as v4
import pytest
import yaml
from conftest import CHECKOUT, pages_made_in
from http_fixture import write_http
from load_fixture import write_load
from log_fixture import write_log
from notebook_outputs import code_of, told
from page_links import followed, without_scripts
from page_looks import CASE, Shown, show
from tex import NEEDS_TEX, overfull
from tidy_fixture import HOSTILE, write_command, write_file_size, write_fio
from webtools import invalid_html

from benchstudy.jobs import notebooks
from benchstudy.model import paths
from benchstudy.model.studyfile import load_study
from benchstudy.report import htmlpages
from benchstudy.report.pagetemplates import page_style
from benchstudy.report.study.studypages import STUDY_PAGES

FAMILIES = ("file_size", "fio", "log_write", "load_test")
PAGES = (
    *(f"embedded/{name}.html" for name in (*FAMILIES, *STUDY_PAGES)),
    "embedded/index.html",
    "index.html",
)
# The two indexes differ only in their links, so a browser need not open both.
SHOWN = PAGES[:-1]
NOTEBOOKS = sorted(path.stem for path in (CHECKOUT / "notebooks").glob("*.ipynb"))
BLOCKS = 8
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Made:
    """What the notebooks made from two made-up studies. By notebook: `executed`, and the `files` that it wrote."""

    root: Path
    executed: dict[str, Path] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One study with every kind of failure and evil names; the other has the families that are not shown here."""
    root = tmp_path_factory.mktemp("project")
    write_file_size(root, blocks=BLOCKS)
    write_fio(root)
    write_log(root)
    write_load(root, databases=("mariadb",))
    write_file_size(root, study="other", blocks=3, hostile=False)
    write_command(root, study="other", blocks=3)
    write_http(root, study="other", blocks=3, under=("1-core-32MiB",))
    declare_ceilings(root)
    made = Made(root)
    with pages_made_in(root):
        for page in NOTEBOOKS:
            parameters = parameters_of(page)
            made.executed[page] = Path(root / parameters["output"]).parent / "notebooks" / f"{page}.ipynb"
            notebook = CHECKOUT / "notebooks" / f"{page}.ipynb"
            notebooks.execute(notebook, root / f"{page}-trace.ipynb", made.executed[page], parameters)
            made.files[page] = files_below(root / parameters["output"])
    return made


def parameters_of(page: str) -> dict[str, Any]:
    if page == "two_studies":
        return {"base": "embedded", "other": "other", "tidy": "data/tidy", "output": "reports/embedded/two_studies"}
    study = "embedded" if page in (*FAMILIES, *STUDY_PAGES) else "other"
    tidy = f"data/tidy/{study}/{'' if page in STUDY_PAGES else page}"
    return {"study": study, "tidy": tidy, "output": f"reports/{study}/{page}"}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def reports(made: Made) -> Path:
    folder = made.root / "reports" / "embedded"
    with chdir(made.root):
        for page in (*FAMILIES, *STUDY_PAGES):
            htmlpages.render_notebook(made.executed[page], folder / f"{page}.html", title=f"A title {HOSTILE}")
        first_pages.build(
            load_study(CHECKOUT / "config" / "config.yaml"),
            tidy={family: made.root / "data" / "tidy" / "embedded" / family for family in FAMILIES},
            sessions=[made.root / f"data/raw/embedded/this-machine/{family}/session.json" for family in FAMILIES],
            reports=made.root / "reports",
        )
    return made.root / "reports"


def declare_ceilings(root):
    """The study as it is declared now: a disk that cannot read so fast, and one of its cases acknowledged."""
    declared = yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text(encoding="utf-8"))
    ceiling = {"family": "file_size", "op": "read", "rate": "200MB/s", "source": f"label {HOSTILE}"}
    declared["ceilings"] = [ceiling | {"where": "backend=local,*"}]
    declared["acknowledge"] = [
        {"lint": "cache-speed-reads", "where": "file_size: local, read, 10MB*", "reason": f"it has a cache {HOSTILE}"}
    ]
    path = paths.declared_study(root, declared["study"])
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(declared), encoding="utf-8")


@pytest.fixture(scope="module")
def texts(reports):
    return {page: (reports / page).read_text(encoding="utf-8") for page in PAGES}


@pytest.fixture(scope="module")
def by_kernel(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The same cells, of all notebooks in one kernel, because its start and imports take as long as a page."""
    import papermill  # not at the top, because each worker collects the tests

    again = Made(tmp_path_factory.mktemp("kernel"))
    cells = {page: code_of(executed) for page, executed in made.executed.items()}
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    every = v4.new_notebook(cells=[v4.new_code_cell(c.source) for of in cells.values() for c in of], metadata=python)
    with pages_made_in(again.root):
        shutil.copytree(made.root, again.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("reports"))
        nbformat.write(every, again.root / "every.ipynb")
        # Saving after each cell would take longer than the cells.
        papermill.execute_notebook(
            "every.ipynb",
            "executed.ipynb",
            request_save_on_cell_execute=False,
            progress_bar=False,
            start_timeout=180,
        )
    executed = iter(code_of(again.root / "executed.ipynb"))
    for page, of_page in cells.items():
        again.executed[page] = again.root / f"{page}.ipynb"
        nbformat.write(v4.new_notebook(cells=[next(executed) for _ in of_page]), again.executed[page])
        again.files[page] = files_below(again.root / parameters_of(page)["output"])
    return again


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_every_page_is_the_same_by_a_kernel_of_jupyter(made: Made, by_kernel: Made, page: str):
    assert told(code_of(made.executed[page])) == told(code_of(by_kernel.executed[page]))
    ours, theirs = made.files[page], by_kernel.files[page]
    assert ours and [name for name in ours | theirs if ours.get(name) != theirs.get(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_small_and_names_nothing_outside_itself(texts, page):
    text = texts[page]
    assert len(text.encode()) < 3 * MEGABYTE
    markup = without_scripts(text)
    assert not re.findall(r'(?:src|href|action|poster|srcset)="(?:[a-z]+:)?//[^"]*', markup)
    assert not re.findall(r"@import|url\((?!['\"]?data:)", re.search(r"<style>.*?</style>", text, re.DOTALL)[0])
    assert not re.findall(r'<(?:link|img|iframe)[^>]+(?:src|href)="(?!data:)', markup)
    assert not re.findall(r"<script[^>]*\bsrc=", text)


@pytest.fixture(scope="module")
def shown(reports: Path) -> Callable[[str], Shown]:
    """A page, opened once for all tests, because that takes seconds of processor time."""
    return cache(lambda page: show(reports / page))


COMPLAINTS = {
    "said": "<script>console.log('said')</script>",
    "thrown": "<script>setTimeout(() => { throw Error('thrown'); })</script>",
    "ERR_FILE_NOT_FOUND": '<img src="nothing.png">',
    "https://elsewhere.invalid/": '<script src="https://elsewhere.invalid/"></script>',
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_a_complaint_of_a_page_is_heard(tmp_path, what):
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><title>A page</title>{COMPLAINTS[what]}")
    with browser.opened(page) as tab:
        tab.ask("await pause();")
        assert what in str(tab.console())


@pytest.mark.parametrize("page", SHOWN)
@pytest.mark.fault(24)
def test_a_page_without_network_shows_everything_and_complains_of_nothing(shown, texts, page):
    visit = shown(page)
    assert visit.console == []
    panels = 0 if page.endswith("index.html") else visit.dom.count('class="panel"')  # the overview's figures are static
    assert visit.dom.count('data-rendered="yes"') == visit.dom.count('class="spec"') == panels
    assert visit.title != "owned"
    assert HOSTILE not in texts[page] and HOSTILE not in without_scripts(visit.dom)


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_has_no_barrier_that_axe_knows_and_no_tab_stop_in_a_figure(shown, page):
    assert shown(page).barriers == []
    assert shown(page).stops == 0


def test_a_pale_text_in_one_row_of_one_of_many_tables_is_a_barrier(tmp_path):
    page, row = tmp_path / "page.html", '<tr><td style="color: %s">a text</td></tr>'
    plain, table = row % "black", '<div class="table-frame"><table>%s</table></div>'
    tables = table % (plain * 9) * 3 + table % (plain * 9 + row % "silver")
    page.write_text(f"<style>{page_style()}</style>{tables}")
    (found,) = (barrier for barrier in show(page).barriers if barrier.startswith("color-contrast"))
    assert "silver" in found


def test_findings_fill_two_columns_and_one_alone_between_wide_ones_the_whole_width(tmp_path):
    wide, narrow = '<li><div><table class="pairs"><tr><td>1</td></tr></table></div></li>', "<li><div>a text</div></li>"
    page = tmp_path / "page.html"
    found = f'<ul class="found">{wide}{narrow}{wide}{narrow}{narrow}{narrow}</ul>'
    page.write_text(f"<!DOCTYPE html><title>A page</title><style>{page_style()}</style>{found}")
    widths = browser.ask(
        page, "return [...document.querySelectorAll('.found > li')].map((li) => li.offsetWidth)", width=1440
    )
    assert widths[0] == widths[1] == widths[2] and {width < widths[0] / 2 for width in widths[3:]} == {True}


def test_pages_are_valid_html(reports, tmp_path):
    trials = sorted(reports.rglob("trials/*.html"))[:1]
    assert invalid_html([*(reports / page for page in PAGES), *trials], tmp_path) == {}


def test_the_archive_unpacked_elsewhere_has_no_dead_link_and_says_where_raw_files_are(reports, tmp_path):
    with zipfile.ZipFile(reports / "embedded.zip") as archive:
        archive.extractall(tmp_path)
    pages = {path: html.unescape(without_scripts(path.read_text())) for path in tmp_path.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]*)"', text)) for path, text in pages.items()}
    dead = []
    for page, text in pages.items():
        for href in re.findall(r'\bhref="(?!data:)([^"]*)"', text):
            path, _, anchor = map(unquote, href.partition("#"))
            target = (page.parent / path).resolve() if path else page
            if not target.is_file() or (anchor and anchor not in anchors[target]):
                dead.append((page.name, href))
    assert dead == []
    (page,) = tmp_path.rglob("embedded/file_size.html")
    assert "They are in the study's crate, embedded.crate.zip" in pages[page]
    assert 'href="../../data/raw/' in (reports / "embedded" / "file_size.html").read_text()


def test_a_writer_finds_methods_and_a_citation(reports, texts):
    folder = reports / "embedded"
    study = load_study(CHECKOUT / "config" / "config.yaml")
    index = html.unescape(without_scripts(texts["embedded/index.html"]))
    said = (folder / "methods.md").read_text()
    for fact in (
        "each measured once per block in",
        "in random order within a block",
        "exact 95 % confidence",
        "fio 3.33",
    ):
        assert fact in said and fact in index, fact
    cited = set(re.findall(r"\\cite{([^}]*)}", (folder / "methods.tex").read_text()))
    entries = set(re.findall(r"^@\w+{([^,]*),", (folder / "citation.bib").read_text(), re.MULTILINE))
    assert cited == entries and len(entries) > 3
    cff = yaml.safe_load((folder / "CITATION.cff").read_text())
    assert cff["cff-version"] == "1.2.0" and cff["title"] == study.title and cff["license"] == study.license
    (digest,) = {one["value"].removeprefix("sha256:") for one in cff["identifiers"]}
    assert re.fullmatch("[0-9a-f]{64}", digest) and digest in index
    assert "The study names no authors" in index


@NEEDS_TEX
def test_every_table_of_the_pages_fits_an_a4_page(reports):
    assert overfull(reports) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_figures_are_there_without_scripts(texts, family):
    views = re.findall(r'<div[^>]*class="view"[^>]*>\s*(<\w+)', texts[f"embedded/{family}.html"])
    assert len(views) >= 4
    assert set(views) == {"<svg"}


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_is_never_wider_than_its_window(shown, page):
    assert shown(page).widths == [390, 1440]


@pytest.mark.parametrize("page", SHOWN)
def test_a_wide_screen_shows_all_of_a_table_and_a_phone_legible_text(shown, page):
    assert shown(page).wide == []
    assert shown(page).least >= 11


@pytest.mark.parametrize("page", SHOWN)
def test_a_table_that_scrolls_on_a_phone_has_no_narrow_columns(shown, page):
    """A cell of a few letters per line would make its whole row very high."""
    assert shown(page).squeezed == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_by_a_screen_reader(texts, page):
    markup = without_scripts(texts[page])
    assert re.search(r'<html[^>]* lang="en"', markup) and "<h1>" in markup
    assert 'class="skip"' in markup and 'id="content"' in markup
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", markup)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert markup.count("<caption>") + markup.count('class="trials"') == markup.count("<table")
    assert not re.findall(r"<th(?![^>]*scope=)[ >]", markup)
    for view in re.findall(r'<div[^>]*class="view"[^>]*>', markup):
        # Not `img`: it contains links, if no script draws it again.
        assert 'role="group"' in view and len(re.search(r"""aria-label=("[^"]*"|'[^']*')""", view)[1]) > 22


def test_every_link_leads_somewhere(reports):
    pages = (path for path in reports.rglob("*.html") if path.name != "headline.html")  # that is a part of the index
    assert followed({path: path.read_text(encoding="utf-8") for path in pages})


@pytest.mark.parametrize("family", FAMILIES)
def test_every_figure_of_a_table_leads_to_its_trials(texts, family):
    markup = without_scripts(texts[f"embedded/{family}.html"]).split('id="trials"')[0]
    cells = re.findall(r'<td class="(?:number|number warning|failed)"[^>]*>(.{9})', markup, re.DOTALL)
    assert len(cells) > 20
    assert {cell[:9] for cell in cells} == {'<a href="'}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_figure_of_an_answer_leads_to_its_trials_from_the_page_and_from_the_index(texts, family):
    answer = r'<th scope="row">[^<]*</th><td>(?!worse|better|equivalent|inconclusive|no verdict|it depends|–)(.*?)</td>'
    own = re.findall(answer, texts[f"embedded/{family}.html"].split('id="trials"')[0])
    first = texts["embedded/index.html"].split('id="metrics"')[0]
    beside = [cell for cell in re.findall(answer, first) if f"{family}.html#" in cell]
    assert own and all(re.match('<a href="#(?:case|table)-', cell) for cell in own), own
    assert beside and all(cell.replace(f"./{family}.html", "") in own for cell in beside), beside


def test_a_link_to_trials_opens_them(shown):
    assert shown("embedded/file_size.html").seen["open"] == [CASE]
    assert shown("embedded/fio.html").seen is True


def test_the_legend_hides_a_series(shown):
    before, after = shown("embedded/file_size.html").seen["marks"]
    assert 0 < after < before
    assert shown("embedded/file_size.html").seen["off"] == "line-through", "colours may be forced, or not be seen"


def test_a_failure_is_a_cell_and_a_row_of_the_index(texts):
    assert "failed: sshfs: write failed: No space left on device" in texts["embedded/file_size.html"]
    index = without_scripts(texts["index.html"])
    row = re.search(
        r'<tr>\s*<th scope="row"><a href="(?:./)?(embedded/file_size.html#trial-\w+)">sshfs · .*?</tr>',
        index,
        re.DOTALL,
    )
    assert row and f"{BLOCKS} of {BLOCKS} trials" in row[0] and "No space left on device" in row[0]


@pytest.mark.fault(32)
def test_the_index_says_what_was_changed_and_set_aside(texts):
    index = html.unescape(without_scripts(texts["embedded/index.html"]))
    study = load_study(CHECKOUT / "config" / "config.yaml")
    assert study.question in index and study.sha256 in index
    assert "post hoc: it was edited since" in index
    assert 'swappiness: "60"' in index
    assert "discarded: the host was being backed up" in index
    assert "aborted: the host was restarted during the trial" in index
    (repeated,) = re.findall(r"<details[^>]*><summary>1 aborted trial: kept, .*?</details>", index, re.DOTALL)
    assert "aborted: " in repeated and "discarded: " not in repeated, "a decision of people is always in view"


def test_published_figures_stand_apart_and_the_impossible_one_is_flagged(texts):
    text = html.unescape(without_scripts(texts["embedded/file_size.html"]))
    assert "Published, other hardware" in text
    assert "Local (EBS), write, 10GB: impossible mean/median pair" in text


def test_reference_lines_are_drawn(texts):
    for label in ("published SSD: 33,400/s", "published spinning disk: 2,000/s", "11,200/s", "700/s"):
        assert label in texts["embedded/fio.html"]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_figure_of_a_page_has_more_than_three_digits_an_exponent_or_a_zero_with_a_sign(texts, family):
    """Figures that others published, and figures in files, keep their digits."""
    page = (
        without_scripts(texts[f"embedded/{family}.html"])
        .replace("\N{NO-BREAK SPACE}", " ")
        .replace("\N{WORD JOINER}", "")
    )
    page = re.sub(
        r'<td class="published.*?</td>|<p class="flag">.*?</p>|<pre.*?</pre>', "", page[: page.index('id="trials"')]
    )
    page = re.sub(r'<h2 id="published-figures".*?<h2 ', "<h2 ", page, flags=re.DOTALL)
    said = html.unescape(re.sub("<[^>]+>", " ", page)) + " ".join(re.findall(r'aria-label="([^"]*)"', page))
    figures = re.findall(
        r"(?<![\w.,/:-])([-−+±]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)(?: ?(?:[mµn]?s|[KMG]?B|%)\b|/s|×)", said
    )
    assert len(figures) > 20
    wrong = [f for f in figures if "e" in f or ("." in f and len(re.sub(r"\D", "", f).lstrip("0")) > 3)]
    assert not wrong and not re.search(r"[-−]0(\.0+)? ?(?:[mµ]?s\b|%|×|/s|users)", said), wrong[:10]


def test_backends_and_antispam_of_logs_have_verdicts_on_the_page_and_on_the_overview(reports, texts):
    notes = json.loads((reports / "embedded/log_write/overview.json").read_text(encoding="utf-8"))["comparisons"]
    assert set(notes) == {"backends", "antispam"} and all(made["tests"] > 3 for made in notes.values())
    page, overview = (without_scripts(texts[f"embedded/{name}.html"]) for name in ("log_write", "index"))
    assert "Which backend?" in page and "What does antispam cost?" in page
    # There is no verdict on a log that lost leaves, nor on the hammer, which its writers limited.
    assert "mariadb: it lost accepted leaves" in page and "writers-bound" in page
    assert "mariadb against posix" in overview and "a log with deduplication against one without" in overview


def test_percentiles_are_printed_only_where_there_are_enough_operations(texts):
    text = without_scripts(texts["embedded/fio.html"])
    assert "needs 3,688 operations" in text


def test_figures_and_tables_are_files_too(reports):
    exports = reports / "embedded" / "file_size"
    names = {path.name for path in exports.rglob("*.*")}
    for name in ("duration.svg", "duration.png", "write-sync-fsync.csv", "write-sync-fsync.rst", "estimates.csv"):
        assert name in names
    svg = (exports / "figures" / "duration.svg").read_text(encoding="utf-8")
    assert "href" not in svg and "<script" not in svg
    assert (exports / "figures" / "duration.png").read_bytes().startswith(b"\x89PNG")
    grid = (exports / "tables" / "write-sync-fsync.rst").read_text(encoding="utf-8")
    assert grid.startswith("+---") and f"n = {BLOCKS}, 95 %" in grid


@pytest.mark.parametrize("family", FAMILIES)
def test_a_notebook_shows_and_does_nothing_else(family):
    notebook = nbformat.read(CHECKOUT / "notebooks" / f"{family}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(len(cell.source.splitlines()) for cell in code) <= 120
    assert not [cell for cell in code if cell.outputs or cell.execution_count]
    assert not re.search(r"^\s*(def|class) ", "\n".join(cell.source for cell in code), re.MULTILINE)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1


def findings(text, rule):
    """The list items under a rule's heading."""
    section = re.search(rf"<h[34]>{rule} <span.*?(?=<h[234]|<details|</div>)", text, re.DOTALL)
    return re.findall(r"<li>(.*?)</li>", section[0], re.DOTALL) if section else []


def test_every_family_page_has_a_section_of_lints(texts):
    for family in FAMILIES:
        assert '<h2 id="lints">Lints</h2>' in texts[f"embedded/{family}.html"]
    page = without_scripts(texts["embedded/file_size.html"])
    found = [re.sub("<[^>]+>", "", item) for item in findings(page, "cache-speed-reads")]
    assert found and all(item.startswith("file_size: local, read, ") and ", cold: " in item for item in found)
    assert not any("10MB" in item for item in found), "acknowledged"
    (settled,) = re.findall(r"<summary>1 acknowledged in the study</summary>.*?</details>", page, re.DOTALL)
    assert "10MB" in settled and f"Acknowledged: it has a cache {html.escape(HOSTILE)}" in settled


def test_a_cross_hair_tells_what_every_line_says_at_the_time_under_the_pointer(shown):
    said = shown("embedded/load_test.html").seen
    assert re.fullmatch(r"time [\d.]+ s 9\.11\.0 [\d.]+ ms 10\.0\.0-rc2 [\d.]+ ms", said), said


def test_published_tables_stand_beside_ours_and_lead_to_our_trials(reports, texts):
    page = without_scripts(texts["embedded/published.html"]).replace("\N{NO-BREAK SPACE}", " ")
    assert "Published: Local (EBS)" in page and "Measured: local, fsync" in page and "Measured: local, cold" in page
    assert "70.66 s" in page and "3,802,036" in page and "33,400/s" in page and "not done" in page
    assert "mean 0" not in page and re.search(r'\d (?:ms|s)</a><span class="evidence">n = 6, 95 %', page), "medians"
    links = set(re.findall(r'href="\./([a-z_]+\.html)#([^"]+)"', page))
    assert {target for target, _ in links} == {"file_size.html", "fio.html", "log_write.html", "load_test.html"}
    for target, anchor in links:
        assert f'id="{html.unescape(anchor)}"' in html.unescape(texts[f"embedded/{target}"]), anchor
    for file in ("storage-write.csv", "storage-read.rst", "file-system.md", "log-qps.csv", "transcripts.csv"):
        assert (reports / "embedded" / "published" / "tables" / file).is_file(), file
    assert page.count("figures as printed</summary>") == 6, "every file of data/published with figures of a page"
    for rule in ("impossible-mean-median", "lowest-bucket", "keep-alive-none", "window-of-means", "loose-threshold"):
        assert findings(page, rule), rule
    assert re.search(r'href="\./(?:embedded/)?published\.html"', texts["index.html"])
