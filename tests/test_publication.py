"""Material for a writer: tables as LaTeX, figures as files, all of it as one archive, the same on every run."""

import os
import re
import zipfile
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

import altair
import first_pages
import polars as pl
import pytest
import vl_convert
import yaml
from conftest import CHECKOUT
from tex import NEEDS_TEX, overfull
from tidy_fixture import Tables, write_file_size, write_fio

from benchstudy.model.authorship import Author
from benchstudy.model.studyfile import load_study
from benchstudy.report.figures import pdf
from benchstudy.report.figures.styles import Style
from benchstudy.report.figures.vega import FIGURE_FORMATS, VEGALITE_VERSION
from benchstudy.report.page import Page
from benchstudy.report.study.citation import Citation
from benchstudy.report.tables.tables import MISSING, TABLE_FORMATS, Cell, Table

STUDY = load_study(CHECKOUT / "config" / "config.yaml")
ESCAPES = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textasciigrave{}": "`",
    r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|", r"\char34{}": '"', r"\ensuremath{\geq}": "≥",
    "{[}": "[", "{*}": "*", r"\allowbreak{}": "", "{}": "", **{f"\\{sign}": sign for sign in "{}$&#_%"},
}  # fmt: skip
SPECIAL = r"""[a_b] *50 % & {x} #1 $HOME ~ ^ \end{table} <b> "q" `c` --size=4k '' ,, ≥ ± 3 µs | no"""


def read(line):
    """The cells of one row of a LaTeX table, as a reader sees them; markup that was not escaped stays visible."""
    pattern = "|".join(map(re.escape, sorted(ESCAPES, key=len, reverse=True)))
    cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
    return [re.sub(pattern, lambda m: ESCAPES[m[0]], cell.replace(r"\footnotesize ", "").strip()) for cell in cells]


def rows_of(latex):
    """The rows of a LaTeX table, including its head."""
    return [read(line) for line in latex.splitlines() if line.endswith(r"\\") and not line.startswith(r"\caption")]


# -- LaTeX ----------------------------------------------------------------------


def test_a_latex_table_says_what_the_table_says():
    figure = Cell(("0.57 ms (±0.26 ms, p50: 0.63 ms)", "n = 6, 95 %: 0.31–0.90 ms"), "#case-1", marks=("emulated",))
    rows = ((Cell.text("100KB"), figure, Cell.text("x")), (Cell.text("1MB"), MISSING, Cell.text("<b> & 2")))
    text = Table("a_b", "50 % of {all}", ("Size", "local_disk", "Note"), rows).latex()
    assert text.startswith("% \\usepackage{booktabs}\n\\begin{table*}\n\\centering\n")
    assert r"\caption{50 \% of \{all\}}\label{tab:a_b}" in text
    assert r"\begin{tabular}{lrl}" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\addlinespace")] == [1, 1, 1, 1]
    assert rows_of(text) == [
        ["Size", "local_disk", "Note"],
        ["100KB", "0.57 ms", "x"],
        ["", "(±0.26 ms, p50: 0.63 ms)", ""],
        ["", "n = 6, 95 %: 0.31–0.90 ms", ""],
        ["", "emulated", ""],
        ["1MB", "–", "<b> & 2"],
    ]


def test_nothing_in_a_cell_is_markup_of_latex():
    words = SPECIAL.split()
    text = Table("t", SPECIAL, ("[a]", "*"), tuple((Cell.text(word), Cell.text(word)) for word in words)).latex()
    assert rows_of(text) == [["[a]", "*"], *([word, word] for word in words)]
    (caption,) = re.findall(r"^\\caption{(.*)}\\label{tab:t}$", text, re.MULTILINE)
    assert read(caption) == [SPECIAL]
    assert text.count(r"\end{table}") == 1 and text.rstrip().endswith(r"\end{table}")
    for ligature in ("--", "''", ",,", "\n[", "\n*"):
        assert ligature not in text
    assert r"\size" not in text and r"\ensuremath{\geq}" in text


def test_a_citation_is_valid_whatever_the_title_and_the_names_hold():
    authors = [Author(name=name) for name in ("Doe, Jane", "Ada Example", "Lab{", "Van Beethoven, Ludwig")]
    cited = Citation("s", "A } brace \\{", authors, "2026-11-20", "0" * 64, "")
    text = cited.bibtex()
    assert cited.key == "s-2026-11-20-00000000" and text.startswith("@misc{s-2026-11-20-00000000,")
    later = replace(cited, digest="1" * 64)
    assert later.key == "s-2026-11-20-11111111", "another edition of the same day is another entry"
    assert r"raw data 00000000\allowbreak{}00000000" in text, "a column is narrower than a digest"
    depths = list(accumulate({"{": 1, "}": -1}.get(sign, 0) for sign in text))  # BibTeX counts escaped ones, too
    assert min(depths) == 0 and depths.index(0, text.index("{")) == len(text) - 2
    assert r"author = {Doe, Jane and Ada Example and Lab\textbraceleft{} and Van Beethoven, Ludwig}" in text
    assert r"title = {{A \textbraceright{} brace \textbackslash{}\textbraceleft{}}}" in text
    assert yaml.safe_load(cited.cff())["authors"] == [
        {"family-names": "Doe", "given-names": "Jane"},
        {"family-names": "Example", "given-names": "Ada"},
        {"name": "Lab{"},
        {"family-names": "Van Beethoven", "given-names": "Ludwig"},
    ]


def test_long_texts_are_broken_and_long_tables_go_on_on_the_next_page():
    cause = "failed: sshfs: write failed: No space left on device (6 of 6)"
    text = Table("t", "c", ("a", "b"), ((Cell.text("x"), Cell((cause,), kind="failed")),)).latex()
    assert " ".join(row[1] for row in rows_of(text)[1:]) == cause
    assert all(len(cell) <= 34 for row in rows_of(text) for cell in row)
    body = tuple((Cell.text(str(n)), Cell((str(n),))) for n in range(60))
    text = Table("t", "c", ("a", "b"), body).latex()
    assert text.startswith("% \\usepackage{booktabs,longtable}\n\\begin{longtable}{lr}\n\\caption{c}\\label{tab:t}")
    assert text.count("a & b") == 2, "the head, and the one of further pages"
    assert [row[0] for row in rows_of(text) if row[0].isdigit()] == [str(n) for n in range(60)]


def test_columns_wrap_the_page_turns_and_columns_go_to_further_tables_where_they_have_no_room():
    def table(columns, text="n = 6, 95 %: 0.31–0.90 ms"):
        cells = tuple(Cell(("100 MB/s", text)) for _ in range(columns))
        return Table(f"t{columns}", "c", tuple(f"Heading {n}" for n in range(columns)), (cells, cells)).latex()

    assert table(2).startswith("% \\usepackage{booktabs}\n")
    assert table(4).startswith("% \\usepackage{array,booktabs}\n") and r"\raggedright" in table(4)
    assert table(7).startswith("% \\usepackage{array,booktabs,longtable,pdflscape}\n")
    many = table(40)
    assert len(re.findall(r"\\caption", many)) > 1 and "part 1 of" in many and "{tab:t40-2}" in many
    assert all(f"Heading {n} " in many for n in range(40))
    # The whole content of a cell is there, wherever it breaks.
    assert "".join("0123456789abcdef" * 4) in table(8, "0123456789abcdef" * 4).replace(r"\allowbreak{}", "")


@NEEDS_TEX
@pytest.mark.parametrize("columns", [1, 2])
def test_no_table_is_wider_than_an_a4_page_or_a_column_of_two(tmp_path, columns):
    words = (
        "a",
        "n = 6, 95 %: 0.31–0.90 ms",
        "0123456789abcdef" * 4,
        "/var/lib/benchstudy/a-long-path.json",
        "WWWWWW " * 9,
    )
    rows = {n: tuple(tuple(Cell((w, w)) for w in (words * 9)[:n]) for _ in range(3)) for n in (1, 2, 3, 5, 9, 14, 20)}
    for n, body in rows.items():
        Table(f"t{n}", SPECIAL, tuple((words * 9)[:n]), body).write(tmp_path)
    Table("long", "c", ("a", "b", "c"), tuple(tuple(map(Cell.text, words[:3])) for _ in range(200))).write(tmp_path)
    Table("narrow", "c", ("a", "b"), ((Cell.text("x"), Cell(("1 ms",))),)).write(tmp_path)
    assert r"\begin{table}" in next(tmp_path.rglob("narrow.tex")).read_text()
    assert overfull(tmp_path, columns) == {}


# -- the same data, the same bytes ----------------------------------------------------------------------


def files_of_a_page(bare_project, output):
    """Every table and figure of a run on these tables."""
    page = Page("file_size", study="embedded", tidy="data/tidy/embedded/file_size", output=output)
    where = {"op": "write"}
    page.table("write", "duration", rows="size", columns=["backend", "sync"], where=where, caption="Time of a write")
    page.metrics_table("all", {"duration": "Time", "throughput": "Rate"}, rows=["size"], caption="All")
    page.compare("against", {"duration": "Time"}, factor="backend", base="local", caption="Against", where=where)
    page.trend(
        "trend", "duration", x="size_bytes", x_title="Size", y_title="Time", series="backend", caption="Times",
        views=page.views("Write", "sync", shared=["server"], op="write"),
    )  # fmt: skip
    page.trials(["duration"])
    fio = Page("fio", study="embedded", tidy="data/tidy/embedded/fio", output=output)
    fio.latency_table("latency", [50, 99], kind="clat", caption="Latency")
    return {
        str(path.relative_to(bare_project / output)): path.read_bytes() for path in (bare_project / output).rglob("*.*")
    }


def shuffle(folder, seed):
    """Rows of all tables in another order. The cases stay, because their order is the study's."""
    for path in sorted(folder.rglob("*.parquet")):
        if path.stem != "cases":
            rows = pl.read_parquet(path)
            mixed = rows.sample(fraction=1, shuffle=True, seed=seed)
            assert not mixed.equals(rows)
            mixed.write_parquet(path)


@pytest.mark.long
def test_tables_and_drawings_are_the_same_bytes_on_every_run_and_in_any_order_of_rows(bare_project):
    write_file_size(bare_project, blocks=7)
    write_fio(bare_project)
    first = files_of_a_page(bare_project, "reports/embedded/first")
    names = {"all", "write", "against", "latency"}
    assert {f"tables/{name}.{suffix}" for name in names for suffix in TABLE_FORMATS} < set(first)
    assert {f"figures/{name}.{suffix}" for name in ("trend", "against") for suffix in FIGURE_FORMATS} < set(first)
    assert first["figures/trend.pdf"].startswith(b"%PDF-")
    assert_fit_for_a_paper(first["figures/trend-85mm.svg"], first["figures/trend-85mm.pdf"], 85)
    assert_fit_for_a_paper(first["figures/trend.svg"], first["figures/trend.pdf"], 170)
    again = files_of_a_page(bare_project, "reports/embedded/again")
    assert [name for name in first if first[name] != again[name]] == []
    assert first.keys() == again.keys()
    for seed in (1, 2):
        shuffle(bare_project / "data" / "tidy", seed)
        mixed = files_of_a_page(bare_project, f"reports/embedded/mixed-{seed}")
        assert [name for name in first if name.startswith("tables/") and first[name] != mixed[name]] == []


def assert_fit_for_a_paper(svg, printed, width_mm):
    """The width is as documented, the height at most a page, all type is 8 pt, and the font is inside."""
    text = svg.decode()
    width, height = (float(side) for side in re.search(r'<svg [^>]*viewBox="0 0 (\S+) (\S+)"', text).groups())
    assert f'width="{width_mm}mm"' in text and height / width * width_mm < 240
    sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)px"', text)}
    (points,) = {round(size / width * width_mm / 25.4 * 72, 2) for size in sizes}
    assert points == 8
    assert re.search(r"@font-face{[^}]*url\(data:font/woff2;base64,", text) and "href=" not in text
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert float(box[1]) == pytest.approx(width_mm / 25.4 * 72, abs=0.01)
    fonts = set(re.findall(rb"/BaseFont /([^\s/]+)", printed))
    assert fonts and all(b"LiberationSans" in font for font in fonts) and b"/FontFile2" in printed


def test_series_differ_in_grey_by_shape_and_by_dash():
    style = Style(tuple("abcdef"))

    def lightness(colour):
        """L* of CIELAB: what grey print leaves of a colour. Steps of five can be distinguished side by side."""
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 116 * sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) ** (1 / 3) - 16

    for count, least in ((4, 12), (6, 3.5)):
        levels = sorted(map(lightness, style.colours[:count]))
        assert min(after - before for before, after in pairwise(levels)) > least, levels
        # A contrast of 3:1 with white is an L* of 61.6.
        assert levels[-1] < 61.6
    assert len(set(style.shapes)) == len({tuple(dash) for dash in style.dashes}) == 6


def test_figures_are_drawn_by_the_version_that_they_are_written_for():
    assert altair.SCHEMA_VERSION.startswith(f"v{VEGALITE_VERSION}.")


def test_a_pdf_of_the_converter_gets_one_order_and_stays_whole():
    """The converter's own order is random: among eight runs, it is almost certain that two differ."""
    shapes = "".join(
        f'<g opacity="0.{k}"><text x="9" y="{9 * k}" font-weight="{k}00">µ{k}</text></g>' for k in range(1, 9)
    )
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90" font-family="sans-serif">{shapes}</svg>'
    drawn = [bytes(vl_convert.svg_to_pdf(svg)) for _ in range(8)]
    assert len(set(drawn)) > 1, "the converter is stable by itself now, and pdf.py has no more purpose"
    (fixed,) = {pdf.in_fixed_order(one) for one in drawn}
    assert pdf.in_fixed_order(fixed) == fixed and fixed.startswith(b"%PDF-1.5\n"), "pdfLaTeX warns of a newer one"
    table = fixed[int(fixed.split()[-2]) :].splitlines()
    offsets = [int(line.split()[0]) for line in table if line.endswith(b" n")]
    assert [fixed[at:].split(b" ", 1)[0] for at in offsets] == [b"%d" % n for n in range(1, len(offsets) + 1)]
    for word in (b"/Type /Font\n", b"/Type /Page\n", b"endstream", b"/FontFile2"):
        assert fixed.count(word) == drawn[0].count(word) > 0
    with pytest.raises(ValueError, match="without a plain cross-reference table"):
        pdf.in_fixed_order(b"%PDF-1.7\n\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\nstartxref\n10\n%%EOF")


def test_of_two_equally_frequent_failures_the_same_one_is_named_in_any_order_of_trials(tmp_path):
    levels, named = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}, set()
    for causes in (["no space left", "connection lost"], ["connection lost", "no space left"]):
        tables = Tables(tmp_path, "study", "file_size")
        for block, cause in enumerate(causes, start=1):
            tables.add(levels, block, {}, numbers={"size_bytes": 1_000_000}, status="failed", cause=cause)
        (estimate,) = tables.results().estimates("duration")
        named.add(estimate.failure)
    assert named == {"failed: connection lost (1 of 2, and 1 for other causes)"}


# -- one file for upload ----------------------------------------------------------------------


def test_the_archive_of_a_study_has_its_reports_and_nothing_else(bare_project):
    tidy = write_file_size(bare_project, study="embedded")
    reports = bare_project / "reports"
    page = Page("file_size", study="embedded", tidy=tidy, output="reports/embedded/file_size")
    page.table("write", "duration", rows="size", columns=["backend"], where={"op": "write"}, caption="Time of a write")
    (reports / "embedded" / "notebooks").mkdir()
    for name in ("file_size.html", "notebooks/file_size.ipynb", "dropped.html", "notebooks/dropped.ipynb"):
        (reports / "embedded" / name).write_text('{"cells": []}' if name.endswith(".ipynb") else name)
    pack = partial(first_pages.build, STUDY, tidy={"file_size": tidy}, sessions=[], reports=reports)
    pack()
    archive = reports / "embedded.zip"
    first = archive.read_bytes()
    with zipfile.ZipFile(archive) as packed:
        assert packed.testzip() is None
        names = packed.namelist()
        assert packed.read("embedded/file_size.html") == b"file_size.html"
        index = packed.read("embedded/index.html").decode()
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o100644}
    tables = [f"embedded/file_size/tables/write.{suffix}" for suffix in sorted(TABLE_FORMATS)]
    citing = [f"embedded/{name}" for name in ("CITATION.cff", "citation.bib", "methods.md", "methods.tex")]
    pages = [*citing, "embedded/file_size.html", "embedded/index.html", "embedded/notebooks/file_size.ipynb"]
    assert names == sorted([*tables, *pages])
    for path in reports.rglob("*.*"):
        os.utime(path, (2_000_000_000, 2_000_000_000))
    pack()
    assert archive.read_bytes() == first
    outside = (reports / "index.html").read_text()
    assert '<a href="./embedded.zip" download>embedded.zip</a> (' in outside
    assert "embedded.zip" not in index, "a page in the archive would lead out of it"
    for suffix in TABLE_FORMATS:
        link = f'<a href="./embedded/file_size/tables/write.{suffix}" download aria-label="write, {suffix.upper()}">'
        assert link in outside and link.replace("./embedded/", "./") in index
    assert "<summary>1 tables and figures</summary>" in outside
