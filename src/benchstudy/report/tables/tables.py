"""Tables a person reads: one model, written as HTML with a link per cell, CSV, reStructuredText, Markdown and LaTeX."""

import csv
import html
import io
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchstudy.report.tables import latex
from benchstudy.report.tables.lines import unbroken as unbroken  # of tables, for who shows texts beside them

# The files of a table, by their suffixes.
TABLE_FORMATS = ("csv", "rst", "md", "tex")

_SPREADSHEET_FORMULA = re.compile(r"[=+@-](?!\d)")
_CELL_WIDTH = 34  # characters; where lines of a cell are broken that no reader's window breaks
# Of a table with a row or more for each trial, on a page.
MOST_OF_TRIALS = 200
# By class, the columns from which a table is set smaller on a page, so that a wide screen shows all of it.
_DENSE = {"dense": 7, "denser": 10}
_LONG_HEADING = 24  # characters; above it a row's heading gets room of its own in a wide table


@dataclass(frozen=True)
class Cell:
    """One cell: `lines` of plain text (the first is the figure, the others say what stands behind it).

    `href` leads to the trials it was made from. `kind` is a CSS class: number, text, failed, missing, published.
    `marks` are reservations about the figure in a word or two each, which a legend explains: "client-limited".
    """

    lines: tuple[str, ...]
    href: str | None = None
    kind: str = "number"
    title: str = ""
    marks: tuple[str, ...] = ()

    @property
    def all_lines(self) -> tuple[str, ...]:
        """What the cell says where there is only text."""
        return (*self.lines, *self.marks)

    @classmethod
    def text(cls, text: str, href: str | None = None, kind: str = "text") -> "Cell":
        return cls((text,), href, kind)


MISSING = Cell(("–",), kind="missing", title="not part of the study")


@dataclass(frozen=True)
class Table:
    """`rows` hold as many cells as `columns` has headings; the first cell of each row is its heading.

    `most_shown`: rows on a page, for tables that grow with the number of trials; files have all of them.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    most_shown: int | None = None

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name}: a row of {wrong[0]} cells under {len(self.columns)} headings")

    @property
    def is_undecided(self) -> bool:
        """Whether it is one of verdicts, and has none."""
        verdicts = [cell.kind for row in self.rows for cell in row if "verdict" in cell.kind.split()]
        return bool(verdicts) and all("missing" in kind.split() for kind in verdicts)

    def html(self, number: str = "") -> str:
        """A table in its own scrolling frame, so that a phone scrolls the table and not the page.

        `number`: what its caption begins with, such as "Table 2".
        """
        # A column that says itself what it holds has no heading, and an empty one would be read out.
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' if c else "<td></td>" for c in self.columns)
        shown = self.rows[: self.most_shown]
        body = "".join(
            f"<tr>{_html_cell(row[0], heading=True)}{''.join(map(_html_cell, row[1:]))}</tr>" for row in shown
        )
        cut = f" (the first {len(shown):,} of {len(self.rows):,} rows; its files have all)"
        numbered = f'<b class="number">{html.escape(number)}.</b> ' if number else ""
        sizes = [name for name, columns in _DENSE.items() if len(self.columns) >= columns]
        dense = f' class="{" ".join(sizes)}"' if sizes else ""
        caption = html.escape(self.caption + (cut if len(shown) < len(self.rows) else ""))
        return (
            f'<div class="table-frame" id="{anchor("table", self.name)}" role="region" tabindex="0" '
            f'aria-label="{html.escape(number) or caption}">'
            f"<table{dense}><caption>{numbered}{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def csv(self) -> str:
        """As displayed, the lines of a cell parted by a line break; nothing in it can act as a spreadsheet formula."""
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
        """A table that fits an A4 page: see `latex.document`."""
        texts = [[cell.all_lines for cell in row] for row in self.rows]
        figures = [any(row[index].kind == "number" for row in self.rows) for index in range(len(self.columns))]
        return latex.document(self.name, self.caption, self.columns, texts, figures)

    def write(self, folder: Path) -> None:
        """Writes the table into `folder` in each of `TABLE_FORMATS`."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = (self.csv(), self.rst(), self.markdown(), self.latex())
        for suffix, text in zip(TABLE_FORMATS, texts, strict=True):
            (folder / f"{self.name}.{suffix}").write_text(text, encoding="utf-8")


def _html_cell(cell: Cell, heading: bool = False) -> str:
    first, *rest = (html.escape(unbroken(line)) for line in cell.lines)
    if heading:  # a row's name breaks between its levels only: "1-core-256MiB" is one word
        first = re.sub(r"(?<=\w)-(?=\w)", "-\N{WORD JOINER}", first)
    if cell.href is not None:
        first = f'<a href="{html.escape(cell.href)}">{first}</a>'
    text = first + "".join(f'<span class="evidence">{line}</span>' for line in rest)
    text += "".join(f'<span class="mark">{html.escape(mark)}</span>' for mark in cell.marks)
    title = f' title="{html.escape(cell.title)}"' if cell.title else ""
    if heading:
        long = ' class="long"' if len(cell.lines[0]) > _LONG_HEADING else ""
        return f'<th scope="row"{long}{title}>{text}</th>'
    return f'<td class="{html.escape(cell.kind)}"{title}>{text}</td>'


def _inert(text: str) -> str:
    return f"'{text}" if _SPREADSHEET_FORMULA.match(text) else text


def _rst_lines(text: str) -> list[str]:
    # A backslash, a star or an underscore at the end of a word would be markup.
    escaped = re.sub(r"([\\*`|]|_(?=\W|$))", r"\\\1", text)
    return textwrap.wrap(escaped, _CELL_WIDTH, break_long_words=False) or [""]


def _columns(text: str) -> int:
    """Columns of a terminal that `text` takes, by which readers of reStructuredText find the borders of a cell."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _markdown(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escaped).replace("\n", " ")


def anchor(prefix: str, text: str) -> str:
    """An id for an element, made of `text`; only letters, digits and `._=,+-` stay as they are."""
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9._=,+-]', '_', text)}"


def slug(title: str) -> str:
    """A file name out of a title: "Write, sync fsync" is "write-sync-fsync"."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def link(path: str) -> str:
    """A relative path as a link; nothing in it can become another scheme, query or fragment."""
    quoted = quote(path, safe="/=,+-._~")
    return quoted if quoted.startswith((".", "/")) else f"./{quoted}"


def definition_list(pairs: Sequence[tuple[str, str]]) -> str:
    """HTML of names and values, both plain text."""
    inner = "".join(f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in pairs)
    return f'<dl class="facts">{inner}</dl>'
