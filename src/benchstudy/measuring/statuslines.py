"""Lines that stay at the bottom of a terminal while other processes write above them.

Snakemake, the sessions and their loggers are separate processes on one terminal, and none knows what another has
printed. Redrawing at the cursor would overwrite or split their output. Instead, only the upper part of the terminal
scrolls (DECSTBM), as under apt's progress bar, and the cursor stays there.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from rich.cells import cell_len, set_cell_size

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_LEAST_ABOVE = 4  # rows left for the output of others
_GAP = "  "
_LEAST_CUT = 12  # a shorter text means nothing


def live_terminal() -> bool:
    """Whether standard error is a terminal that can hold such lines."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and _size() is not None


def _size() -> os.terminal_size | None:
    """The terminal's size; None if it is too small or unknown, as in some containers."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        return None
    return size if size.lines > _LEAST_ABOVE and size.columns > 0 else None


class StatusLines:
    """The last rows of the terminal on standard error. One process at a time; `close` gives them back."""

    def __init__(self) -> None:
        self._held: tuple[os.terminal_size, int] | None = None  # the terminal's size then, and the number of rows

    def show(self, rows: Sequence[Sequence[str]], keep: Sequence[int], shrink: int) -> None:
        """Show `rows` instead of the present ones, laid out by `fitted`. Rows without room are only counted."""
        size = _size()
        if size is None:
            return
        lines = fitted(rows, size.columns - 1, keep, shrink)  # some terminals wrap after the last column
        room = min(size.lines - _LEAST_ABOVE, size.lines // 2)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… and {len(lines) - room + 1} more"[: size.columns - 1]]
        text = "" if self._held == (size, len(lines)) else self._take(size, len(lines))
        first = size.lines - len(lines) + 1
        drawn = "".join(f"\x1b[{row};1H\x1b[2K{line}" for row, line in enumerate(lines, start=first))
        _write(f"{text}{_SAVE}{drawn}{_RESTORE}" if lines else text)

    def close(self) -> None:
        if self._held:
            _write(self._give_back())
            self._held = None

    def _take(self, size: os.terminal_size, count: int) -> str:
        text = self._give_back()
        self._held = (size, count)
        if not count:
            return text
        # Scrolls if the cursor is where the lines will be, then moves the cursor back below the previous output.
        return text + "\n" * count + f"\x1b[{count}A{_SAVE}\x1b[1;{size.lines - count}r{_RESTORE}"

    def _give_back(self) -> str:
        """The text that releases the rows, even if none is held: a killed process may have left its own."""
        text = ""
        size = _size()
        if self._held and size == self._held[0]:
            text = "".join(f"\x1b[{size.lines - row};1H\x1b[2K" for row in range(self._held[1]))
        elif self._held:  # the terminal was resized and has moved rows; everything below the cursor is ours
            text = "\x1b[J"
        return f"{_SAVE}{text}\x1b[r{_RESTORE}"


def fitted(rows: Sequence[Sequence[str]], width: int, keep: Sequence[int], shrink: int) -> list[str]:
    """Rows of cells as lines of at most `width` columns, with cells aligned.

    Args:
    keep: indexes of the cells, the most important first; cells without room are left out of all lines.
    shrink: index of the cell that is cut to the remaining room.
    """
    if not rows:
        return []
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    shown: list[int] = []
    for index in keep:
        used = sum(widths[i] + len(_GAP) for i in shown)
        if index == shrink and used + widths[index] > width:
            widths[index] = width - used if width - used >= _LEAST_CUT else 0
        if widths[index] and used + widths[index] <= width:
            shown.append(index)
    shown.sort()
    return [_GAP.join(_cut(row[i], widths[i]) for i in shown).rstrip() for row in rows]


def _cut(text: str, width: int) -> str:
    """Cut out the middle: names of cases differ as often at the end as at the beginning."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    tail = (width - 1) // 2
    head = width - 1 - tail
    return set_cell_size(f"{text[:head]}…{text[-tail:]}", width)


def _write(text: str) -> None:
    """Write in one call, so that no other output comes between the parts."""
    with suppress(OSError):  # the terminal is gone; the session continues without it
        sys.stderr.flush()
        os.write(sys.stderr.fileno(), text.encode())
