"""Writes LaTeX tables that fit an A4 page, by an estimate of the width of their texts.

The first of these forms that fits is used: as wide as its texts; columns that wrap, together as wide as the line;
smaller type; a page turned by 90°; the columns split into several tables, each with the headings of the rows.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchstudy.report.texts import unbroken, with_whole_brackets

# Points between the margins of the class `article` on A4 paper, upright and turned, less one per cent.
_LINE, _TURNED_LINE = 345 * 0.99, 592 * 0.99
_COLUMN = 221 * 0.99  # if the class has two columns
_GAP, _NARROW_GAP = 12.0, 8.0  # points between two columns: LaTeX's default, and if columns wrap
_LONG = 45  # lines; a table with more is a longtable, which may continue on the next page
_FIRST_WIDTH, _CELL_WIDTH = 28, 34  # characters of a cell's first line and of the others, if columns do not wrap
_BREAKABLE_WORD = 12  # characters; a longer word may break after the punctuation between its parts
_LONGEST_PART = 16  # characters; a longer part, such as a checksum, may break anywhere
# Widths of characters in Computer Modern in em, rounded up, and points per em: small sizes are relatively wider.
_EMS = {**dict.fromkeys("fijlrstI.,:;'!|()[]·’ \N{NO-BREAK SPACE}", 0.4), **dict.fromkeys("mwMW%@—→−", 0.95)}
_LOWER, _OTHER = 0.56, 0.8
_EM = {"normalsize": 10.0, "small": 9.3, "footnotesize": 8.5, "scriptsize": 8.0, "tiny": 6.8}
_SMALLER = {"small": "footnotesize", "footnotesize": "scriptsize", "scriptsize": "tiny"}
# Sizes of type for columns that wrap, and whether the page is turned.
_FORMS = (("small", False), ("footnotesize", False), ("small", True), ("footnotesize", True), ("scriptsize", True))

# A cell: lines of plain text, of which the first is the main one.
Lines = Sequence[str]


def document(
    name: str, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Lines]], figures: Sequence[bool]
) -> str:
    """The table as a file for `\\input`, with caption and the label `tab:<name>`. UTF-8, for any LaTeX since 2020.

    The first line names the packages that it needs. `figures` says which columns are numbers, which are right-aligned.
    """
    label = re.sub(r"[^A-Za-z0-9._-]", "-", name)
    whole = _as_wide_as_its_texts(columns, rows, figures) or _in_columns_that_wrap(columns, rows)
    parts = [whole] if whole else _dealt(columns, rows)
    texts = []
    for number, part in enumerate(parts, start=1):
        which = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        texts.append(part.table(caption + which, label if number == 1 else f"{label}-{number}"))
    packages = dict.fromkeys(package for part in parts for package in part.packages)
    return f"% \\usepackage{{{','.join(packages)}}}\n{''.join(texts)}"


@dataclass(frozen=True)
class _Layout:
    """A table's layout: the `preamble` of its columns, its rows as LaTeX, and the number of lines."""

    preamble: str
    head: str
    body: Sequence[str]
    lines: int
    size: str = ""
    turned: bool = False
    spans: bool = True  # is wider than a column of two, so it takes both; the same in a document with one

    @property
    def _long(self) -> bool:
        return self.turned or self.lines > _LONG

    @property
    def packages(self) -> list[str]:
        wanted = {"array": bool(self.size), "booktabs": True, "longtable": self._long, "pdflscape": self.turned}
        return [package for package, needed in wanted.items() if needed]

    def table(self, caption: str, label: str) -> str:
        titled = f"\\caption{{{escaped(caption)}}}\\label{{tab:{label}}}"
        top, bottom = f"\\toprule\n{self.head}\\midrule\n", "\\bottomrule\n"
        inner = "\\addlinespace\n".join(self.body)
        form = f"\\{self.size}\\setlength{{\\tabcolsep}}{{{_NARROW_GAP / 2:g}pt}}\n" if self.size else ""
        if not self._long:
            float_ = "table*" if self.spans else "table"
            return (
                f"\\begin{{{float_}}}\n\\centering\n{titled}\n{form}"
                f"\\begin{{tabular}}{{{self.preamble}}}\n{top}{inner}{bottom}\\end{{tabular}}\n\\end{{{float_}}}\n"
            )
        text = (
            f"\\begin{{longtable}}{{{self.preamble}}}\n{titled}\\\\\n"
            f"{top}\\endfirsthead\n{top}\\endhead\n{bottom}\\endfoot\n{inner}\\end{{longtable}}\n"
        )
        # The group limits size and gap to this table, which is not a float.
        text = f"\\begingroup\n{form}{text}\\endgroup\n" if form else text
        return f"\\begin{{landscape}}\n{text}\\end{{landscape}}\n" if self.turned else text


# -- as wide as its texts ----------------------------------------------------------------------


def _as_wide_as_its_texts(
    columns: Sequence[str], rows: Sequence[Sequence[Lines]], figures: Sequence[bool]
) -> _Layout | None:
    """A layout without wrapping: the lines of a cell become rows, all but the first in smaller type."""
    head = [_broken((column,)) for column in columns]
    body = [[_broken(lines) for lines in row] for row in rows]
    widths = [
        max(
            *(_width(line, "normalsize") for line in (*head[index], "")),
            *(_width(line, "footnotesize" if n else "normalsize") for row in body for n, line in enumerate(row[index])),
        )
        for index in range(len(columns))
    ]
    width = sum(widths) + _GAP * len(columns)
    if width > _LINE:
        return None
    preamble = "l" + "".join("r" if figure else "l" for figure in figures[1:])
    stacked = [_stacked(row) for row in body]
    return _Layout(
        preamble, "".join(_stacked(head, small=False)), list(map("".join, stacked)), sum(map(len, stacked)),
        spans=width > _COLUMN,
    )  # fmt: skip


def _broken(lines: Lines) -> list[str]:
    found: list[str] = []
    for line in lines:
        width = _CELL_WIDTH if found else _FIRST_WIDTH
        whole = with_whole_brackets(line).replace("\N{WORD JOINER}", "")
        found += textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return found


def _stacked(cells: Sequence[Lines], small: bool = True) -> list[str]:
    """The lines of a row's cells as rows of LaTeX, all but the first in `small` type."""
    cells = [[line.replace("\N{NO-BREAK SPACE}", " ") for line in cell] for cell in cells]
    rows = []
    for index in range(max(1, *map(len, cells))):
        texts = (escaped(cell[index]) if index < len(cell) else "" for cell in cells)
        rows.append(" & ".join(f"\\footnotesize {t}" if t and index and small else t for t in texts) + " \\\\\n")
    return rows


# -- columns that wrap ----------------------------------------------------------------------


def _in_columns_that_wrap(columns: Sequence[str], rows: Sequence[Sequence[Lines]]) -> _Layout | None:
    """The layout in the first of the `_FORMS` in which no word is wider than its column; None if there is none."""
    grid = [[_Paragraph(lines) for lines in row] for row in ([(column,) for column in columns], *rows)]
    return next((found for form in _FORMS if (found := _wrapped(grid, *form))), None)


def _wrapped(grid: Sequence[Sequence["_Paragraph"]], size: str, turned: bool) -> _Layout | None:
    """A layout as wide as the line, whatever its width is in the document that includes the table."""
    gaps = _NARROW_GAP * (len(grid[0]) - 1)
    room = (_TURNED_LINE if turned else _LINE) - gaps
    least = [max(paragraph.least(size) for paragraph in column) for column in zip(*grid, strict=True)]
    wanted = [max(paragraph.whole(size) for paragraph in column) for column in zip(*grid, strict=True)]
    if sum(least) > room:
        return None
    # Remaining width is shared among the columns in proportion to what they lack.
    more = (room - sum(least)) / max(sum(wanted) - sum(least), 1.0)
    widths = [low + more * (high - low) for low, high in zip(least, wanted, strict=True)]
    shares = [math.floor(10_000 * width / max(sum(widths), room)) / 10_000 for width in widths]
    line = f"\\dimexpr\\linewidth-{gaps:g}pt\\relax"
    preamble = "".join(f">{{\\raggedright\\arraybackslash}}p{{{share:.4f}{line}}}" for share in shares)
    texts = [" & ".join(paragraph.text(size) for paragraph in row) + " \\\\\n" for row in grid]
    lines = sum(max(p.lines(size, width) for p, width in zip(row, widths, strict=True)) for row in grid[1:])
    return _Layout(f"@{{}}{preamble}@{{}}", texts[0], texts[1:], lines, size, turned)


class _Paragraph:
    """A cell whose lines may break, in any size of type. All lines but the first are in smaller type."""

    def __init__(self, cell: Lines) -> None:
        self._lines = [_parts(line) for line in cell]
        # In em, of each line's widest word and of the whole line: a table is tried in several sizes.
        self._words = [max((_ems(part.strip()) for part in parts), default=0.0) for parts in self._lines]
        self._wholes = [_ems("".join(parts)) for parts in self._lines]

    @staticmethod
    def _in_points(ems: Sequence[float], size: str) -> Iterator[float]:
        return (_EM[_SMALLER[size] if n else size] * width for n, width in enumerate(ems))

    def least(self, size: str) -> float:
        """The width of its widest word in points."""
        return max(self._in_points(self._words, size), default=0.0)

    def whole(self, size: str) -> float:
        """The width of its widest line in points."""
        return max(self._in_points(self._wholes, size), default=0.0)

    def lines(self, size: str, width: float) -> int:
        """How many lines it has in a column of this width in points."""
        # Line breaks are not predicted, so a fifth of each line is assumed to be blank.
        return sum(math.ceil(points / width * 1.2) for points in self._in_points(self._wholes, size))

    def text(self, size: str) -> str:
        """The cell as LaTeX."""
        first, *others = map(_breakable, self._lines)
        small = f"\\{_SMALLER[size]} "
        return first + "".join(f"\\newline {{{small}{line}}}" for line in others)


def _breakable(parts: Sequence[str]) -> str:
    """The parts with allowed line breaks between them. A part that ends with a space needs no other break."""
    last = len(parts) - 1
    return "".join(
        escaped(part) + ("" if n == last or part.endswith(" ") else "\\allowbreak{}") for n, part in enumerate(parts)
    )


def _parts(line: str) -> list[str]:
    """`line` split where it may break. A space belongs to the part before it."""
    parts: list[str] = []
    for word in unbroken(line).replace("\N{WORD JOINER}", "").split(" "):
        cuts = re.split(r"(?<=[/_=,:.+-])(?=\w)", word) if len(word) > _BREAKABLE_WORD else [word]
        parts += [cut[at : at + _LONGEST_PART] for cut in cuts for at in range(0, max(len(cut), 1), _LONGEST_PART)]
        parts[-1] += " "
    return [*parts[:-1], parts[-1].removesuffix(" ")]


def _dealt(columns: Sequence[str], rows: Sequence[Sequence[Lines]]) -> list[_Layout]:
    """The columns split into several tables on turned pages, as many in each as fit beside the first column."""
    parts: list[_Layout] = []
    start = 1
    while start < len(columns):
        found = None
        # From few columns to many: a part has a dozen at most, while the table may have a thousand.
        for end in range(start + 1, len(columns) + 1):
            chosen = [0, *range(start, end)]
            wider = _in_columns_that_wrap([columns[i] for i in chosen], [[row[i] for i in chosen] for row in rows])
            if wider is None:
                break
            found, beyond = wider, end
        assert found is not None, "two columns with breakable words fit any page"
        parts.append(found)
        start = beyond
    return parts


# -- texts ----------------------------------------------------------------------


def _width(text: str, size: str) -> float:
    """The width of a text in points, rounded up."""
    return _EM[size] * _ems(text)


def _ems(text: str) -> float:
    """The width of a text in em, rounded up."""
    return sum(_EMS.get(c, _LOWER if c.islower() or c.isdigit() else _OTHER) for c in text)


_MATHS = r"- \geq \leq \approx \infty \rightarrow \ll \gg \Delta \kappa \lambda \sigma"
# Markup in LaTeX. A bracket or a star after the end of a row would be an argument of it. The last are characters that
# no text font of LaTeX has.
_MARKUP = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    **{sign: f"{{{sign}}}" for sign in "[*"},
    **{sign: f"\\ensuremath{{{name}}}" for sign, name in zip("−≥≤≈∞→«»Δκλσ", _MATHS.split(), strict=True)},
}
# Two hyphens, commas or quotes would become one character, so an option --like-this would lose a hyphen.
_TO_ESCAPE = re.compile("|".join(map(re.escape, _MARKUP)) + r"|(?<=-)-|(?<=,),|(?<=')'")


def prose(text: str) -> str:
    """`text` escaped for LaTeX. A line may break within a checksum."""
    parts = re.split(r"([0-9a-f]{64})", text)
    sums = (r"\allowbreak{}".join(part[at : at + 8] for at in range(0, 64, 8)) for part in parts[1::2])
    return "".join(f"{escaped(plain)}{next(sums, '')}" for plain in parts[::2])


def escaped(text: str) -> str:
    """`text` escaped for LaTeX, on one line."""
    plain = re.sub(r"[\x00-\x20\x7f]+", " ", text)
    return _TO_ESCAPE.sub(lambda match: _MARKUP.get(match[0]) or f"{{}}{match[0]}", plain)
