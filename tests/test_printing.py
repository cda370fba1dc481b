"""`benchstudy pdf`: the whole report as one document, and its messages without a browser or without reports."""

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import browser
import first_pages
import pytest
from conftest import executed_in, pages_made_in
from tidy_fixture import HOSTILE, write_fio

from benchstudy.commands import printing
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study
from benchstudy.report import htmlpages
from benchstudy.report.overview import printed
from benchstudy.report.pagetemplates import page_style, template_text
from benchstudy.report.scrutiny import evidence
from benchstudy.report.tables import listings
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import Cell, Table
from benchstudy.report.texts import fold


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Study]]:
    """A project with the reports of one family, and its study."""
    root = tmp_path_factory.mktemp("project")
    tidy = write_fio(root)
    declared = {
        "study": "embedded",
        "title": f"On paper {HOSTILE}",
        "hosts": {"here": {"loopback": True}},
        "targets": {"this-machine": {"roles": {"sut": "here"}}},
        "families": {"fio": {"directories": [{"name": "data", "path": "/var/tmp"}], "size": "1MiB"}},
    }
    study = parse_study(declared)
    folder = root / "reports" / "embedded"
    with pages_made_in(root), chdir(root):
        htmlpages.render_notebook(executed_in(root, "fio"), folder / "fio.html", title=f"Random I/O – {study.title}")
        sessions = list((root / "data" / "raw").rglob("session.json"))
        first_pages.build(study, tidy={"fio": tidy}, sessions=sessions, reports=root / "reports")
        yield root, study


@pytest.fixture(scope="module")
def content(made: tuple[Path, Study]) -> bytes:
    """The whole report as PDF."""
    pdf = printing.print_study(*made)
    assert pdf == made[0] / "reports" / "embedded.pdf"
    return pdf.read_bytes()


def test_the_document_has_contents_numbers_heads_and_nothing_folded(made, content):
    anchors = printed.pages_of_anchors(content)
    text = document(made, anchors)
    # Overview and page each begin on a new sheet, after title and contents.
    assert 2 < anchors["part-1"] < anchors["part-2"] < anchors["p2-trials"]
    contents = text[text.index("<nav") : text.index("</nav>")]
    assert f"<span>2. Random I/O</span> <span>{anchors['part-2']}</span>" in contents
    front = text[text.index('class="front"') : text.index("<nav")]
    assert "Study <code>embedded</code>" in front and "measured 2" in front, "a title page is dated"
    for sentence in ("Figure 2.1.", "Table 2.1.", "Overview", 'counter(page) " of "'):
        assert sentence in text, sentence
    assert not re.search(r"<details(?![^>]*\sopen)|<script", text), "what is folded away is not on paper"
    # Each link leads to a part of the document.
    ids = set(re.findall(r'\bid="([^"]*)"', text))
    assert {href for href in re.findall(r'\bhref="([^"]*)"', text) if href[0] != "#" or href[1:] not in ids} == set()
    sheets = content.count(b"/Type /Page\n") - anchors["p2-trials"] + 1
    assert len(re.findall('<tr id="p2-trial-', text)) > 4 * sheets > 0, "no trial takes half a sheet"
    assert len(re.findall(r"[0-9a-f]{64}", text)) > 20, "the files of trials are on paper, too"


def test_a_long_name_in_a_legend_leaves_its_symbol_as_wide_as_it_is(tmp_path):
    page, symbol = tmp_path / "page.html", '<svg width="14" height="14"></svg>'
    button = f"<button>{symbol}{'a-name-of-many-parts-' * 6}</button>"
    page.write_text(f'<style>{page_style()}</style><ul class="legend"><li>{button}</li></ul>', encoding="utf-8")
    assert browser.ask(page, "return document.querySelector('svg').getBoundingClientRect().width") == 14


def test_without_trials_there_are_fewer_sheets_and_no_link_leads_to_a_trial(made, content):
    short = printing.print_study(*made, trials=False).read_bytes()
    assert short.count(b"/Type /Page\n") < content.count(b"/Type /Page\n")
    assert 'href="#p2-trial-' in document(made, {}) and 'href="#p2-trial-' not in document(made, {}, trials=False)


def document(made, numbers, **options):
    root, study = made
    return printed.document(root / "reports" / "embedded", ["fio"], study.title, "", numbers, **options)


def test_a_title_cannot_leave_the_style_of_its_running_head(made):
    assert re.search(r'@top-left { content: "[^"<>{}]*";', document(made, {}))
    part = printed.Part(3, 'a"; } </style><b>', printed.Markup(""))
    assert '"; }' not in part.style.split("font:")[0].removesuffix('"; ') and "<" not in part.style


def test_without_a_browser_it_says_what_to_install(made, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BenchstudyError, match="apt-get install chromium"):
        printing.print_study(*made)


def test_without_reports_it_says_what_makes_them(tmp_path, made, capsys):
    with pytest.raises(BenchstudyError, match=r"no reports to print.*snakemake"):
        printing.print_study(tmp_path, made[1])


def test_a_browser_that_fails_is_told_with_its_last_words(made, monkeypatch, tmp_path):
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho 'no display' >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BenchstudyError, match=r"printed no PDF \(exit 3\): no display"):
        printing.print_study(*made)


def test_a_figure_on_paper_is_the_static_one_that_fits_with_all_of_its_series(made):
    seen = browser.ask_paper(
        made[0] / "reports" / "embedded" / "fio.html",
        """
        const shown = (panel) => [...panel.querySelectorAll("svg")].filter((svg) => svg.checkVisibility());
        const ofPanels = [...document.querySelectorAll("figure.chart .panel")].map(shown);
        const live = ofPanels.flat().filter((svg) => svg.closest(".view[data-rendered]"));
        const wide = ofPanels.flat().filter((svg) => svg.getBoundingClientRect().right > 673);
        const off = document.querySelector(".legend button[aria-pressed=false]");
        const style = window.getComputedStyle(off);
        const alone = ofPanels.every((panel) => panel.length === 1);
        const { opacity } = window.getComputedStyle(off.querySelector("svg"));
        const isAsOthers = style.color === window.getComputedStyle(off.closest("ul")).color;
        return [alone, live.length, wide.length, opacity, isAsOthers, style.textDecorationLine].join();
        """,
        before='document.querySelector(".legend button").click();',
    )
    assert seen == "true,0,0,1,true,none"


def test_labels_of_a_static_figure_are_not_cut_off_by_the_edge_of_the_sheet(made):
    """A browser's letters may be wider than those with which the figure was laid out, and a sheet shows no overflow."""
    seen = browser.ask_paper(
        made[0] / "reports" / "embedded" / "fio.html",
        """
        const texts = [...document.querySelectorAll(".on-paper svg text")].filter((text) => text.textContent.trim());
        const left = document.querySelector("main").getBoundingClientRect().left;
        const cut = texts.filter((text) => text.getBoundingClientRect().left < left);
        return [texts.length > 20, cut.map((text) => text.textContent)].join();
        """,
    )
    assert seen == "true,"


@pytest.mark.parametrize("page", ["index", "fio"])
def test_folds_of_a_page_are_open_on_paper_without_a_marker_and_closed_again_afterwards(made, page):
    seen = browser.ask_paper(
        made[0] / "reports" / "embedded" / f"{page}.html",
        """
        const folds = [...document.querySelectorAll("details")];
        const isOpen = () => folds.filter((fold) => fold.open).length;
        const marker = (fold) => window.getComputedStyle(fold.querySelector("summary")).listStyleType;
        const onPaper = isOpen();
        window.dispatchEvent(new window.Event("afterprint"));
        const markers = [...new Set(folds.map(marker))];
        return [top.before < folds.length, onPaper === folds.length, isOpen() === top.before, markers].join();
        """,
        before="top.before = document.querySelectorAll('details[open]').length;",
    )
    assert seen == "true,true,true,none"


def page_of(tmp_path, content, *, whole=False):
    """A page with the style of a report's page, or of the whole report."""
    page = tmp_path / "page.html"
    style = page_style() + (template_text("print.css") if whole else "")
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style><main>{content}</main>')
    return page


@pytest.mark.parametrize("whole", [False, True])
def test_listings_on_paper_have_7_points_and_no_line_is_cut(tmp_path, whole):
    listing = Listing("nginx", "Transfer rate: " * 20)
    seen = browser.ask_paper(
        page_of(tmp_path, listings.side_by_side("Output", [listing, listing]) + f"<pre>{'a' * 300}</pre>", whole=whole),
        """
        return [...document.querySelectorAll("pre")].map((pre) =>
          [window.getComputedStyle(pre).fontSize, pre.scrollWidth - pre.clientWidth]).join(" ");
        """,
    )
    assert seen == " ".join(["9.33333px,0"] * 3)


def test_the_overview_on_paper_says_where_the_facts_of_hosts_are_instead_of_printing_their_json(made):
    page = made[0] / "reports" / "embedded" / "index.html"
    text = "return document.querySelector('main').innerText;"
    said, on_screen = browser.ask_paper(page, text), browser.ask(page, text)
    where = "Each session.json below data/raw/embedded has all recorded facts about the host."
    assert where in said and "All recorded facts about the host\n" not in said
    assert where not in on_screen and "All recorded facts about the host\n" in on_screen


HEADING, PANEL = (
    '<h2 id="from">Results</h2>',
    '<p class="panel-title"{at}>nginx</p><svg width="348" height="300"{to} />',
)
FIGURE = f"""<figure class="chart"><ul class="legend"><li id="from">nginx</li></ul><div class="panels many">
  <div class="panel">{PANEL.format(at="", to="")}</div><div class="panel">{PANEL.format(at="", to="")}</div></div>
  <figcaption id="to">Caption</figcaption></figure>"""
TABLE = Table("t", "Rates", ("Case", "Rate"), tuple((Cell.text(f"c{n}"), Cell(("1 ms", "n = 6"))) for n in range(9)))
ROWS = TABLE.html().replace("<tbody><tr>", '<tbody><tr id="to">')
LISTED = listings.side_by_side("Output", [Listing("nginx", "a\n" * 8)]).replace("<pre", '<pre id="to"')
# By name: what has an element "from" that must not end a sheet before an element "to".
TOGETHER = {
    "a heading and the first row": HEADING + ROWS,
    "a heading with its paragraph, and the first row": f"{HEADING}<p>Text.</p>{ROWS}",
    "the heading of a fold and the first row": fold("Results", ROWS).replace("<details", "<details open")
    .replace("<summary", '<summary id="from"'),
    "the caption of a table and the first row": ROWS.replace("<caption", '<caption id="from"'),
    "the head of a table and the first row": ROWS.replace("<thead><tr>", '<thead><tr id="from">'),
    "a heading with badges, and the first row": f'{HEADING}<ul class="badges"><li>6 ok</li></ul>{ROWS}',
    "a heading and a figure": HEADING + FIGURE.replace('id="from"', ""),
    "a legend and the caption of its figure": FIGURE,
    "the title of a panel and its drawing": PANEL.format(at=' id="from"', to=' id="to"'),
    "a heading and its listing": LISTED.replace("<h3", '<h3 id="from"'),
    "the title of a listing and its text": LISTED.replace('class="panel-title"', 'class="panel-title" id="from"'),
}  # fmt: skip


@pytest.mark.parametrize("whole", [False, True])
def test_no_heading_stands_alone_at_the_end_of_a_sheet(tmp_path, whole):
    content, links = "", ""
    heights = range(190, 280, 5)  # mm of the sheet above it; a sheet has 259 or 277
    for number, made in enumerate(TOGETHER.values()):
        for height in heights:
            own = re.sub(r'id="(from|to)"', rf'id="\1-{number}-{height}"', made)
            content += f'<section style="break-before: page"><div style="height: {height}mm"></div>{own}</section>'
            # The PDF names only places that links lead to.
            links += "".join(f'<a href="#{end}-{number}-{height}">.</a> ' for end in ("from", "to"))
    pages = printed.pages_of_anchors(browser.pdf_of(page_of(tmp_path, f"<p>{links}</p>{content}", whole=whole)))
    places = [(name, n, height) for n, name in enumerate(TOGETHER) for height in heights]
    parted = {name for name, n, height in places if pages[f"from-{n}-{height}"] != pages[f"to-{n}-{height}"]}
    assert parted == set()


def test_each_sheet_of_a_table_has_its_head_also_if_it_can_be_sorted(tmp_path):
    head = '<thead><tr><th scope="col">Case</th></tr></thead>'
    rows = "".join(f"<tr><th>case {number}</th></tr>" for number in range(90))
    table = f'<div class="table-frame tall"><table class="primary">{head}<tbody>{rows}</tbody></table></div>'
    link = "document.querySelector('th').firstChild.innerHTML = '<a href=\\'https://x.invalid\\'>Case</a>';"
    scripts = f"<script>{template_text('index.js')}{link}</script>"
    pdf = browser.pdf_of(page_of(tmp_path, table + scripts))
    sheets = pdf.count(b"/Type /Page\n")
    assert sheets > 2
    # Only a sheet with the head has a link.
    assert pdf.count(b"/Annots [") == sheets


# Numbers with a unit, and intervals, that are on two lines.
PARTED = r"""
  const found = [], range = document.createRange();
  const walker = document.createTreeWalker(document.querySelector("main"), window.NodeFilter.SHOW_TEXT);
  const whole = /\d(?:[\s\u00a0](?:[µmn]?s|[kKMGT]?i?B|%)(?![A-Za-z])|–\u2060?\d)/g;
  for (let node; (node = walker.nextNode()); ) {
    if (node.parentElement.closest("svg, pre, code, script, figcaption, blockquote")) continue;
    for (const { index, 0: text } of node.data.matchAll(whole)) {
      range.setStart(node, index);
      range.setEnd(node, index + text.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1)
        found.push(node.parentElement.outerHTML);
    }
  }
  const wide = [...document.querySelectorAll("table")].filter((table) => table.offsetWidth > window.innerWidth);
  return [...found, wide.length].join();
"""


@pytest.mark.parametrize("page", ["index", "fio"])
def test_numbers_keep_their_units_and_intervals_their_ends_in_a_line(made, page):
    path = made[0] / "reports" / "embedded" / f"{page}.html"
    assert browser.ask_paper(path, PARTED) == "0", "on paper, where no table is wider than the sheet"
    assert browser.ask(path, PARTED).rpartition(",")[0] == "", "on a phone"


def test_the_value_of_an_answer_stays_in_one_line_on_paper_and_no_word_of_its_name_breaks(tmp_path):
    """Two answers stand side by side, so a column of each has room for a few letters only."""
    line = {"name": "PostgreSQL 15, unbounded (users are added until an alert)", "value": "0.242 ms → 0.227 ms"}
    answer = {"what": "Store times", "lines": [line | {"evidence": "only 2 trials; " * 9}], "note": ""}
    broken = """
      const words = document.createTreeWalker(document.querySelector(".answers"), window.NodeFilter.SHOW_TEXT);
      const found = [];
      for (let node; (node = words.nextNode()); )
        for (const { 0: text, index } of node.data.matchAll(/0.242.*ms|[A-Za-z]+/g)) {
          const range = document.createRange();
          range.setStart(node, index); range.setEnd(node, index + text.length);
          if (range.getClientRects().length > 1) found.push(text);
        }
      const [name, value] = document.querySelector(".answers tr").children;
      if (value.getBoundingClientRect().left - name.getBoundingClientRect().right < 5) found.push("no gap");
      return found.join();
    """
    for whole in (False, True):
        assert browser.ask_paper(page_of(tmp_path, evidence.answers([answer] * 2), whole=whole), broken) == ""


def test_no_number_breaks_in_a_table_of_many_columns(tmp_path):
    cell = Cell(("33,415/s", "n = 6, 95 %: 31,234–35,678/s"))
    table = Table("wide", "Wide", tuple("abcdefghijklmn"), ((Cell.text("nginx"), *[cell] * 13),))
    parted = """
      const words = document.createTreeWalker(document.querySelector("tbody"), window.NodeFilter.SHOW_TEXT);
      const found = [];
      for (let node; (node = words.nextNode()); )
        for (const { 0: number, index } of node.data.matchAll(/[0-9][0-9,]+/g)) {
          const range = document.createRange();
          range.setStart(node, index); range.setEnd(node, index + number.length);
          if (range.getClientRects().length > 1) found.push(number);
        }
      const frame = document.querySelector(".table-frame");
      return [...found, frame.scrollWidth - frame.clientWidth].join();
    """
    assert browser.ask(page_of(tmp_path, table.html()), parted, width=1168) == "0"


def test_a_figure_of_several_rows_of_panels_leaves_no_half_of_a_sheet_empty(tmp_path):
    panel = f'<div class="panel">{PANEL.format(at="", to="")}</div>'
    figure = f'<figure class="chart" id="figure"><div class="panels many">{panel * 4}</div></figure>'
    above = '<a href="#above">.</a> <a href="#figure">.</a><div id="above" style="height: 120mm"></div>'
    pages = printed.pages_of_anchors(browser.pdf_of(page_of(tmp_path, above + figure)))
    assert pages["figure"] == pages["above"], "a row of its panels still fits"
