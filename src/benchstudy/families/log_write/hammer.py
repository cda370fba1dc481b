"""Tessera's hammer: the box it draws on its terminal, the bytes it drew it with, and its log.

What its figures are, by the source of v1.0.4:
- Δ is the mean growth of the tree over the last 60 ticks of 0.5 s; before there were so many, over those there were,
  and "over 30s" is printed all the same. It begins and ends anywhere between two checkpoints, so beside a log that
  publishes in steps it swings around the rate: compare it with the growth over the very same 30 s.
- Time in queue and time to integrate are kept as one mean for each tick in which the tree was seen to grow, of about
  the first 100 leaves that were answered since the tick before. min/avg/max are of the last 30 of these means: they are
  no leaf's times, hide what differs within a tick, and span 30 checkpoints, not 30 s. The first leaves after a tick
  wait longest for the next one. A queue time begins when a writer takes a leaf up, not when it was due.
- Oversupply is how many of the last second's writes no writer was free for.
- Its log goes to the screen too; `--stderrthreshold=INFO` has it on stderr as well. It does not end at `--max_runtime`
  or `--leaf_write_goal` while it has a screen: the screen then stands still.
"""

import re
from dataclasses import dataclass, replace

import pyte

from benchstudy.families.log_write.hammer_log import HammerLog, parse_log
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

__all__ = ["HammerLog", "HammerScreen", "parse_box", "parse_log", "read_saved", "recognise_box", "replay"]

TICK_S = 0.5  # how often the box is drawn
MEANS_KEPT = 30  # of ticks, behind min/avg/max
_FRAME_ENDS = b"\x1b[?2026l"  # the program says that a frame is whole
_FRAME_BEGINS = b"\x1b[?25l"  # what older versions begin a frame with
_SCREEN_BEGINS = b"\x1b[?1049h"
# Larger than any terminal, so that nobody needs to know how large it was: every row is placed by its number.
_ROWS, _COLUMNS = 200, 400
_BOX_ROWS = 7

# A line of a box as a page or a chat shows it: borders of any kind, quoted or not. Blanks are never given back, or a
# long row of them would take a time that grows with its square.
_LINE = r"^[ \t>]*+(?:[│|x][ \t]*+)?{}[ \t]*+[│|x]?[ \t\r]*+$"
_RATE = (
    r"\((?P<workers>\d{1,9}) workers\): Current max: (?P<max>\d{1,12})/s\. "
    r"Oversupply in last second: (?P<over>\d{1,12})"
)
_MEANS = r"(?P<min>\d{1,12})ms/(?P<avg>\d{1,12})ms/(?P<max>\d{1,12})ms \(min/avg/max\)"
_LINES = {
    "Read": "Read " + _RATE,
    "Write": "Write " + _RATE,
    # In a terminal without UTF-8 the Δ is a question mark.
    "TreeSize": r"TreeSize: (?P<size>\d{1,15}) \(\S (?P<qps>\d{1,12})qps over (?P<window>\d{1,6})s\)",
    "Time-in-queue": "Time-in-queue: " + _MEANS,
    "Observed-time-to-integrate": "Observed-time-to-integrate: " + _MEANS,
}
_PATTERNS = {name: re.compile(_LINE.format(pattern), re.M) for name, pattern in _LINES.items()}


@dataclass(frozen=True)
class HammerScreen:
    """One box. Rates in 1/s, times in s.

    `write_max_per_s` is what was asked for, `qps` by how much the tree grew, over `window_s` as printed (see
    `covered_s`). The six times are of means of ticks, not of leaves. `at_s`: the tick's time since the screen began, by
    the count of ticks; None for a box without a recording around it.
    """

    read_workers: int
    read_max_per_s: int
    read_oversupply: int
    write_workers: int
    write_max_per_s: int
    oversupply: int
    tree_size: int
    qps: int
    window_s: int
    queue_min_s: float
    queue_avg_s: float
    queue_max_s: float
    integrate_min_s: float
    integrate_avg_s: float
    integrate_max_s: float
    at_s: float | None = None

    @property
    def covered_s(self) -> float | None:
        """Over how long `qps` really is; None when it cannot be known."""
        return None if self.at_s is None else min(self.window_s, self.at_s)

    @property
    def busy_writers(self) -> float:
        """Writers waiting for an answer on average, by Little's law, as far as tick means allow that."""
        return self.qps * self.queue_avg_s

    def box(self) -> str:
        """The box as hammer draws it, as narrow as it can be."""
        lines = [
            _rate_line("Read", self.read_workers, self.read_max_per_s, self.read_oversupply),
            _rate_line("Write", self.write_workers, self.write_max_per_s, self.oversupply),
            f"TreeSize: {self.tree_size} (Δ {self.qps}qps over {self.window_s}s)",
            _means_line("Time-in-queue", self.queue_min_s, self.queue_avg_s, self.queue_max_s),
            _means_line("Observed-time-to-integrate", self.integrate_min_s, self.integrate_avg_s, self.integrate_max_s),
        ]
        width = max(len(line) for line in lines)
        body = "".join(f"│{line:<{width}}│\n" for line in lines)
        return f"┌{'─' * width}┐\n{body}└{'─' * width}┘\n"


def _rate_line(name: str, workers: int, most: int, oversupply: int) -> str:
    return f"{name} ({workers} workers): Current max: {most}/s. Oversupply in last second: {oversupply}"


def _means_line(name: str, *seconds: float) -> str:
    return f"{name}: {'/'.join(f'{1000 * value:.0f}ms' for value in seconds)} (min/avg/max)"


def recognise_box(text: str) -> bool:
    """Whether a text holds a box of hammer, whole or damaged, or is what a terminal with one received."""
    return sum(f"{name} (" in text or f"{name}: " in text for name in _LINES) >= 3 and "Oversupply" in text


@damaged("the hammer's screen is damaged")
def read_saved(content: bytes) -> list[HammerScreen]:
    """A saved file: the screens of a recording, or the one box of a text. Raises ParseError."""
    if b"\x1b" in content:
        return replay(content)
    return [parse_box(content.decode("utf-8", "replace"))]


@damaged("the hammer's screen is damaged")
def parse_box(text: str) -> HammerScreen:
    """The box in a text, in which other words may stand before and after; its borders may be of any kind or missing.

    Raises ParseError when there is none, more than one, or one that is cut off.
    """
    found = {name: list(pattern.finditer(text)) for name, pattern in _PATTERNS.items()}
    for name, matches in found.items():
        if len(matches) > 1:
            raise ParseError(f"{len(matches)} boxes of hammer are in one text: give each a file of its own")
        if not matches:
            raise ParseError(_what_is_missing(text, name))
    lines = {name: matches[0] for name, matches in found.items()}
    places = [line.start() for line in lines.values()]
    if places != sorted(places):
        raise ParseError("hammer's box has its lines in another order than hammer draws them")
    read, write, tree, queue, integrate = lines.values()
    return HammerScreen(
        read_workers=int(read["workers"]),
        read_max_per_s=int(read["max"]),
        read_oversupply=int(read["over"]),
        write_workers=int(write["workers"]),
        write_max_per_s=int(write["max"]),
        oversupply=int(write["over"]),
        tree_size=int(tree["size"]),
        qps=int(tree["qps"]),
        window_s=int(tree["window"]),
        **{f"queue_{name}_s": int(queue[name]) / 1000 for name in ("min", "avg", "max")},
        **{f"integrate_{name}_s": int(integrate[name]) / 1000 for name in ("min", "avg", "max")},
    )


def _what_is_missing(text: str, name: str) -> str:
    if not recognise_box(text):
        return "this is no box of hammer"
    if f"{name} (" in text or f"{name}: " in text:
        return f"hammer's box is cut off or damaged in its line {name!r}; a terminal needs 80 columns for it"
    return f"hammer's box is cut off: its line {name!r} is missing"


def replay(recording: bytes) -> list[HammerScreen]:
    """What a terminal showed that received these bytes: a screen for each box that differs from the one before.

    The size of the terminal need not be known. A frame that is cut off at the end is left out, and so is one in which
    something else wrote over the box. Without its beginning the figures are right, but their `at_s` is None.

    Raises ParseError for a damaged recording, and when there is no box at all, with what hammer said instead.
    """
    terminal = pyte.Screen(_COLUMNS, _ROWS)
    stream = pyte.ByteStream(terminal)
    marked = _FRAME_ENDS in recording
    timed = marked and _SCREEN_BEGINS in recording[: recording.index(_FRAME_ENDS)]
    screens: list[HammerScreen] = []
    shown, ticks = "", 0
    # What comes after the last mark is not whole.
    for part in recording.split(_FRAME_ENDS if marked else _FRAME_BEGINS)[:-1]:
        try:
            stream.feed(part)
        except Exception as error:  # pyte meets a damaged sequence with whatever its handler raises
            raise ParseError(f"the recording of hammer's screen is damaged after {ticks} ticks: {error}") from error
        box = _top(terminal)
        if "TreeSize" not in box:
            continue  # drawn before the first tick
        ticks += 1
        if box == shown:
            continue
        shown = box
        try:
            screen = parse_box(box)
        except ParseError as error:
            damage = error
            continue
        screens.append(replace(screen, at_s=ticks * TICK_S) if timed else screen)
    if screens:
        return screens
    if shown:
        raise ParseError(f"none of hammer's {ticks} screens can be read: {damage}")
    raise ParseError(f"there is no screen of hammer in {len(recording)} B of output; {_said(recording)}")


def _top(terminal: pyte.Screen) -> str:
    """The first rows, read from the sparse buffer: rendering all of a large screen at each tick would take long."""
    rows = []
    for number in range(_BOX_ROWS):
        cells = terminal.buffer[number]
        rows.append("".join(cells[column].data if column in cells else " " for column in range(_COLUMNS)).rstrip())
    return "\n".join(rows)


def _said(recording: bytes) -> str:
    text = recording.decode("utf-8", "replace").replace("\r", "")
    log = parse_log(text)
    return f"it said: {log.fatal}" if log.fatal else "it gives no reason"


def screen_values(screen: HammerScreen) -> dict[str, tuple[float | None, str]]:
    """Every figure of a screen as a metric, so that a report can draw it again; the times are of means of ticks."""
    values: dict[str, tuple[float | None, str]] = {
        "hammer_qps": (screen.qps, "1/s"),
        "hammer_window": (screen.window_s, "s"),
        "hammer_tree_size": (screen.tree_size, "1"),
        "hammer_oversupply": (screen.oversupply, "1"),
        "hammer_writers": (screen.write_workers, "1"),
        "hammer_write_max": (screen.write_max_per_s, "1/s"),
        "hammer_read_workers": (screen.read_workers, "1"),
        "hammer_read_max": (screen.read_max_per_s, "1/s"),
        "hammer_read_oversupply": (screen.read_oversupply, "1"),
    }
    for kind in ("queue", "integrate"):
        for name in ("min", "avg", "max"):
            values[f"hammer_{kind}_{name}"] = (getattr(screen, f"{kind}_{name}_s"), "s")
    return values
