"""A page made from an executed notebook: what it folds, and what it keeps."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from benchstudy.report.htmlpages import render_notebook
from benchstudy.report.scrutiny.evidence import weakness_list
from benchstudy.report.tables.tables import MISSING, Cell, Table

EXPLANATION = "A *capacity* is searched."
NOTHING = '<p class="none">No capacity was searched for.</p>'


def page(tmp_path, *cells: str | list[str]) -> str:
    """The content of a page. Each cell is Markdown, or a list with the outputs of code."""
    made = []
    for cell in cells:
        if isinstance(cell, str):
            made.append(new_markdown_cell(cell))
        else:
            made.append(new_code_cell(outputs=[new_output("display_data", {"text/html": html}) for html in cell]))
    nbformat.write(new_notebook(cells=made), tmp_path / "made.ipynb")
    render_notebook(tmp_path / "made.ipynb", tmp_path / "made.html", title="Made")
    return re.search("<main.*</main>", (tmp_path / "made.html").read_text(encoding="utf-8"), re.DOTALL)[0]


def test_parts_that_show_nothing_are_listed_at_the_end_with_why_and_their_explanation_folded(tmp_path):
    agree = "### Does Δ < 1 agree?\n\nIt should."
    parts = ["## A box", ["<p>box</p>"], agree, ['<p class="none">It was not run.</p>'], "## Next", ["<p>1</p>"]]
    shown = page(tmp_path, f"## Capacity\n\n{EXPLANATION}", [NOTHING], ['<p class="none"></p>'], *parts)
    assert re.findall(r"<h2 id=.([\w-]+)", shown) == ["a-box", "next", "not-part-of-this-study"] and "<h3" not in shown
    fold = r'<details class="fold nothing" id="([\w-]+)"><summary>(.*?)</summary>\s*(.*?)\s*</details>'
    assert re.findall(fold, shown) == [
        ("capacity", "<b>Capacity:</b> No capacity was searched for.", "<p>A <em>capacity</em> is searched.</p>"),
        ("does-lt-1-agree", "<b>Does Δ &lt; 1 agree?</b> It was not run.", "<p>It should.</p>"),
    ]
    assert 'class="none"' not in shown and "<p>1</p>" in shown


def test_a_part_that_shows_nothing_stays_above_its_own_parts(tmp_path):
    shown = page(tmp_path, f"## Capacity\n\n{EXPLANATION}", [NOTHING], "### Its steps", ["<p>1</p>"])
    assert re.findall(r"<h[23][^>]*>(.*?)<", shown) == ["Capacity", "Its steps"] and NOTHING in shown


@pytest.mark.parametrize(
    ("explanation", "outputs"),
    [
        (EXPLANATION, [NOTHING, "<table></table>"]),
        (EXPLANATION, []),
        ("", [NOTHING]),
        (f"{EXPLANATION}\n\n### Its steps", [NOTHING]),
    ],
    ids=["something is shown", "nothing says why", "there is no explanation", "a part follows in it"],
)
def test_other_parts_stay_as_they_are(tmp_path, explanation, outputs):
    shown = page(tmp_path, f"## Capacity\n\n{explanation}", outputs)
    assert "<details" not in shown and all(output in shown for output in outputs)


def test_a_part_lies_in_the_part_before_it_and_a_heading_in_a_box_begins_none(tmp_path):
    box = '<div class="rule"><h3>Not a part</h3></div>'
    text = page(tmp_path, "## First", [box], "### Below", ["<p>a</p>"], "### Beside", "## Second", "### Last")
    parts = re.findall(r'<section class="topic">|</section>|<h2[^>]*>[^<]*|<h3>[^<]*', text)
    told = " ".join(part.replace('<section class="topic">', "(").replace("</section>", ")") for part in parts)
    told = re.sub(r"<h\d[^>]*>", "", told)
    assert told == "( First Not a part ( Below ) ( Beside ) ) ( Second ( Last ) )"


def test_what_stands_between_backticks_is_code_and_the_rest_is_text():
    assert weakness_list(["`blocks_apart` spreads <b> blocks of 1 MB. `"]).endswith(
        '<ul class="weak"><li><code>blocks_apart</code> spreads &lt;b&gt; blocks of 1\N{NO-BREAK SPACE}MB. `</li></ul>'
    )


def test_in_a_narrow_cell_a_line_may_end_before_the_median_of_brackets_but_not_within_a_figure():
    cell = Cell(("181.59 ms (±39.05 ms, p50: 174.83 ms)",), kind="published")
    shown = Table("t", "T", ("", *"abcdefgh"), ((Cell.text("x"), *[cell] * 8),)).html()
    (said,) = set(re.findall(r"181.59.*?\)", shown))
    assert said.replace("\N{NO-BREAK SPACE}", "_").split(" ") == ["181.59_ms", "(±39.05_ms,", "p50:", "174.83_ms)"]


def test_a_mark_that_all_figures_of_a_row_have_stands_once_at_its_name_and_in_files_at_each():
    def marked(kind: str, *marks: str) -> Cell:
        return Cell(("1 s",), kind=kind, marks=marks)

    rows = {
        "same": (marked("number", "d"), marked("number warning", "d", "e"), Cell.text("closed loop"), MISSING),
        "other": (marked("number", "d"), marked("number"), MISSING, MISSING),
        "published": (marked("number", "d"), marked("published"), MISSING, MISSING),
        "single": (marked("number", "d"), Cell.text("closed loop"), MISSING, MISSING),
    }
    columns = ("", *"abcd")
    table = Table("t", "T", columns, tuple((Cell.text(name), *cells) for name, cells in rows.items()))
    shown = re.findall(r"<tr><th[^>]*>(\w+)(.*?)</th>(.*?)</tr>", table.html())
    assert {name: [re.findall('mark">(.)', each) for each in found] for name, *found in shown} == {
        "same": [["d"], ["e"]], "other": [[], ["d"]], "published": [[], ["d"]], "single": [[], ["d"]],
    }  # fmt: skip
    assert 'same,"1 s\nd","1 s\nd\ne",closed loop,–\n' in table.csv()


def test_a_column_that_is_not_part_of_the_study_in_any_row_is_left_out():
    def cells(*texts: str) -> tuple[Cell, ...]:
        return tuple(MISSING if text == "–" else Cell((text,)) for text in texts)

    rows = (cells("one", "1 s", "–", "–"), cells("two", "–", "–", "2 s"))
    table = Table("t", "T", ("", "a", "b", "c"), rows).without_empty_columns()
    assert table.csv() == ",a,c\none,1 s,–\ntwo,–,2 s\n"
    failed = Table("t", "T", ("", "a"), (cells("one", "no value"),))
    for kept in (Table("t", "T", ("", "a"), (cells("one", "–"),)), Table("t", "T", ("", "a"), ()), failed):
        assert kept.without_empty_columns() == kept
