"""Tables for readers: one model, written as HTML with a link per cell, CSV, reStructuredText, Markdown and LaTeX."""

import csv
import html
import io
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from benchstudy.report.tables import latex
from benchstudy.report.texts import numbered, unbroken

# The files of a table, by suffix.
TABLE_FORMATS = ("csv", "rst", "md", "tex")

# What a spreadsheet would compute: a cell may begin with the sign of a number, but then calls and names nothing.
FORMULA = r"(?s)^\s*(?:[=@]|[+-](?:\D|$|.*(?:[|!]|\w\()))"
# Beginnings of reStructuredText that are a list, an option, a field, a comment or directive, a test or a rule.
_RST_BLOCK = re.compile(
    r"(?:[-+•‣⁃]|\(?(?:\d+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)[.)]|\.\.)(?: |$)"
    r"|--?[A-Za-z]|/[A-Z]|:[^:]+:|>>> |\+-|([!-/:-@[-^{-~])\1\1"
)
_CELL_WIDTH = 34  # characters; at which lines of a cell break in formats that do not wrap them
# Rows on a page of tables with at least one row per trial.
MOST_OF_TRIALS = 200
# The class for smaller type of tables with at least so many columns, so that a wide screen shows the whole table.
_DENSE = {"dense": 7, "denser": 10}
_FIGURES = {"number", "published", "failed"}  # kinds of cells
_LONG_HEADING = 24  # characters; a longer heading of a row gets a minimum width in a wide table


@dataclass(frozen=True)
class Cell:
    """One cell: `lines` of plain text, of which the first is the figure and the others are its evidence.

    `href` leads to the trials that it was made from. `kind` is a CSS class: number, text, failed, missing, published.
    `marks` are reservations about the figure in one or two words, such as "client-limited", which a legend explains.
    """

    lines: tuple[str, ...]
    href: str | None = None
    kind: str = "number"
    title: str = ""
    marks: tuple[str, ...] = ()

    @property
    def all_lines(self) -> tuple[str, ...]:
        """All lines for formats that have only text, with the marks."""
        return (*self.lines, *self.marks)

    @classmethod
    def text(cls, text: str, href: str | None = None, kind: str = "text") -> "Cell":
        """A cell with one line of text."""
        return cls((text,), href, kind)


MISSING = Cell(("–",), kind="missing", title="not part of the study")


@dataclass(frozen=True)
class Table:
    """A table. Each of the `rows` has as many cells as there are `columns`; its first cell is its heading.

    `most_shown` limits the rows on a page, for tables that grow with the number of trials; the files have all rows.
    Raises ValueError if a row has another number of cells.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    most_shown: int | None = None
    # Whether another table of the page has the same cells. It is folded.
    repeats: bool = False

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name}: a row has {wrong[0]} cells for {len(self.columns)} columns")

    @property
    def is_undecided(self) -> bool:
        """Whether it is a table of verdicts without a single verdict."""
        verdicts = [cell.kind for row in self.rows for cell in row if "verdict" in cell.kind.split()]
        return bool(verdicts) and all("missing" in kind.split() for kind in verdicts)

    def without_empty_columns(self) -> "Table":
        """Without columns that are not part of the study in any row; the same table if nothing else would be left."""
        by_column = zip(*self.rows, strict=True)
        kept = [i for i, column in enumerate(by_column) if i == 0 or any(cell != MISSING for cell in column)]
        if len(kept) < 2:
            return self
        columns = tuple(self.columns[i] for i in kept)
        return replace(self, columns=columns, rows=tuple(tuple(row[i] for i in kept) for row in self.rows))

    def html(self, number: str = "") -> str:
        """The table in a scrolling frame, so that a phone scrolls the table and not the page.

        `number` begins the caption: "Table 2".
        """
        # A self-explanatory column has no heading; screen readers would read out an empty `<th>`.
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' if c else "<td></td>" for c in self.columns)
        shown = [_marked_once(row) for row in self.rows[: self.most_shown]]
        body = "".join(
            f"<tr>{_html_cell(row[0], heading=True)}{''.join(map(_html_cell, row[1:]))}</tr>" for row in shown
        )
        sizes = [name for name, columns in _DENSE.items() if len(self.columns) >= columns]
        if "denser" in sizes:  # where a whole range has no room, it breaks at its dash: no number has to break
            body = re.sub(r"([\d.,]+–)\N{WORD JOINER}([^ <]+)", r'<span class="range">\1\2</span>', body)
        cut = f" (the first {len(shown):,} of {len(self.rows):,} rows; its files have all)"
        dense = f' class="{" ".join(sizes)}"' if sizes else ""
        caption = html.escape(self.caption + (cut if len(shown) < len(self.rows) else ""))
        return (
            f'<div class="table-frame" id="{anchor("table", self.name)}" role="region" tabindex="0" '
            f'aria-label="{html.escape(number) or caption}">'
            f"<table{dense}><caption>{numbered(number)}{caption}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def csv(self) -> str:
        """CSV of the text as displayed, with line breaks within cells. No cell can act as a spreadsheet formula."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_inert(c) for c in self.columns])
        writer.writerows([[_inert("\n".join(cell.all_lines)) for cell in row] for row in self.rows])
        return out.getvalue()

    def rst(self) -> str:
        """A reStructuredText grid table."""
        grid = [[_rst_lines(c) for c in self.columns]]
        grid += [[[part for line in cell.all_lines for part in _rst_lines(line)] for cell in row] for row in self.rows]
        widths = [max(_columns(line) for row in grid for line in row[i]) for i in range(len(self.columns))]

        def rule(character: str) -> str:
            return "+" + "+".join(character * (width + 2) for width in widths) + "+"

        lines = [rule("-")]
        for index, row in enumerate(grid):
            for k in range(max(map(len, row))):
                cells = (cell[k] if k < len(cell) else "" for cell in row)
                padded = (f" {c}{' ' * (w - _columns(c))} " for c, w in zip(cells, widths, strict=True))
                lines.append(f"|{'|'.join(padded)}|")
            lines.append(rule("=" if index == 0 else "-"))
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """A pipe table; HTML in names is escaped, because Markdown lets it through."""
        rows = [[_markdown(c) for c in self.columns], ["---"] * len(self.columns)]
        rows += [["<br>".join(map(_markdown, cell.all_lines)) for cell in row] for row in self.rows]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def latex(self) -> str:
        """A LaTeX table that fits an A4 page; see `latex.document`."""
        texts = [[cell.all_lines for cell in row] for row in self.rows]
        figures = [any(row[index].kind == "number" for row in self.rows) for index in range(len(self.columns))]
        return latex.document(self.name, self.caption, self.columns, texts, figures)

    def write(self, folder: Path) -> None:
        """Write the table into `folder` in each of `TABLE_FORMATS`."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = (self.csv(), self.rst(), self.markdown(), self.latex())
        for suffix, text in zip(TABLE_FORMATS, texts, strict=True):
            (folder / f"{self.name}.{suffix}").write_text(text, encoding="utf-8")


def _marked_once(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The row with the marks that all of its figures have at its name only, if it has several."""
    figures = [cell for cell in row if _FIGURES & set(cell.kind.split())]
    if len(figures) < 2:
        return row
    common = [mark for mark in figures[0].marks if all(mark in cell.marks for cell in figures)]
    name, *others = (replace(cell, marks=tuple(mark for mark in cell.marks if mark not in common)) for cell in row)
    return (replace(name, marks=(*name.marks, *common)), *others)


def _html_cell(cell: Cell, heading: bool = False) -> str:
    first, *rest = (html.escape(unbroken(line)) for line in cell.lines)
    if heading:  # the name of a row breaks only between its levels: "1-core-256MiB" is one word
        first = re.sub(r"(?<=\w)-(?=\w)", "-\N{WORD JOINER}", first)
    if cell.href is not None:
        first = f'<a href="{html.escape(cell.href)}">{first}</a>'
    text = first + "".join(f'<span class="evidence">{line}</span>' for line in rest)
    text += "".join(f' <span class="mark">{html.escape(mark)}</span>' for mark in cell.marks)
    title = f' title="{html.escape(cell.title)}"' if cell.title else ""
    if heading:
        long = ' class="long"' if len(cell.lines[0]) > _LONG_HEADING else ""
        return f'<th scope="row"{long}{title}>{text}</th>'
    return f'<td class="{html.escape(cell.kind)}"{title}>{text}</td>'


def _inert(text: str) -> str:
    return f"'{text}" if re.match(FORMULA, text) else text


def _rst_lines(text: str) -> list[str]:
    # A backslash, a star or underscores at the end of a word are markup; so are two colons at the end of the text.
    escaped = re.sub(r"([\\*`|]|_(?=_*(?:\W|$))|:(?=:$))", r"\\\1", " ".join(text.split()))
    escaped = f"\\{escaped}" if _RST_BLOCK.match(escaped) else escaped
    return textwrap.wrap(escaped, _CELL_WIDTH, break_long_words=False) or [""]


def _columns(text: str) -> int:
    """The width of `text` in columns of a terminal, by which parsers of reStructuredText find the borders of cells."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _markdown(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escaped).replace("\n", " ")


def anchor(prefix: str, text: str) -> str:
    """An id for an element, made from `text`. Only letters, digits and `._=,+-` are kept as they are."""
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9._=,+-]', '_', text)}"


def slug(title: str) -> str:
    """A file name made from a title: "Write, sync fsync" becomes "write-sync-fsync"."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


@lru_cache(maxsize=1024)
def link(path: str) -> str:
    """A relative path as a link. Nothing in it can become a scheme, a query or a fragment."""
    quoted = quote(path, safe="/=,+-._~")
    return quoted if quoted.startswith((".", "/")) else f"./{quoted}"


def definition_list(pairs: Sequence[tuple[str, str]]) -> str:
    """HTML of names and values, both plain text."""
    inner = "".join(f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(unbroken(v))}</dd></div>" for k, v in pairs)
    return f'<dl class="facts">{inner}</dl>'
