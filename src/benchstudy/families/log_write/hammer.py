"""Tessera's hammer: the box on its terminal, recordings of the terminal, and its log.

The meaning of its figures, by the source of v1.0.4:
- Δ is the mean growth of the tree over the last 60 ticks of 0.5 s. Earlier in a run, it covers the ticks so far, but
  still says "over 30s". It starts and ends anywhere between two checkpoints. If a log publishes in steps, Δ therefore
  varies around the rate: compare it with the growth over the same 30 s.
- Time in queue and time to integrate are one mean per tick in which the tree grew, over about the first 100 leaves
  that were answered since the previous tick. min/avg/max are over the last 30 of these means. They are not times of
  single leaves, hide the variation within a tick, and span 30 checkpoints, not 30 s. The first leaves after a tick wait
  longest for the next one. A queue time starts when a writer picks up a leaf, not when the leaf was due.
- Oversupply is the number of writes in the last second for which no writer was free.
- The log also goes to the screen; `--stderrthreshold=INFO` sends it to stderr, too. With a screen, the hammer does not
  end at `--max_runtime` or `--leaf_write_goal`: the screen then stops changing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyte

from benchstudy.families.log_write.hammer_log import parse_log
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

TICK_S = 0.5  # how often the box is drawn
MEANS_KEPT = 30  # tick means that min/avg/max cover
_FRAME_ENDS = b"\x1b[?2026l"  # the program marks a complete frame
_FRAME_BEGINS = b"\x1b[?25l"  # the start of a frame in older versions
_SCREEN_BEGINS = b"\x1b[?1049h"
# Larger than any terminal, so that its size need not be known: every row is placed by its number.
_ROWS, _COLUMNS = 200, 400
_BOX_ROWS = 7

# A line of a box as a page or a chat shows it: borders of any kind, quoted or not. Quantifiers for blanks are
# possessive, because backtracking over a long row of blanks would take quadratic time.
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

    `write_max_per_s`: the offered rate. `qps`: the growth of the tree over `window_s` as printed (see `covered_s`). The
    six times are of tick means, not of single leaves. `at_s`: the time of the tick since the screen started, by the
    number of ticks; None for a box that is not from a recording.
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
        """The time in s that `qps` actually covers; None if it is unknown."""
        return None if self.at_s is None else min(self.window_s, self.at_s)

    @property
    def busy_writers(self) -> float:
        """The mean number of writers that wait for an answer, by Little's law from tick means, so approximate."""
        return self.qps * self.queue_avg_s

    def box(self) -> str:
        """Draw the box like the hammer, at its smallest width."""
        lines = [
            _rate_line("Read", self.read_workers, self.read_max_per_s, self.read_oversupply),
            _rate_line("Write", self.write_workers, self.write_max_per_s, self.oversupply),
            f"TreeSize: {self.tree_size} (Δ {self.qps}qps over {self.window_s}s)",
            _means_line("Time-in-queue", self.queue_min_s, self.queue_avg_s, self.queue_max_s),
            _means_line("Observed-time-to-integrate", self.integrate_min_s, self.integrate_avg_s, self.integrate_max_s),
        ]
        return framed(lines)


def framed(lines: Sequence[str]) -> str:
    """Draw lines in a box as the hammer does."""
    width = max(map(len, lines))
    body = "".join(f"│{line:<{width}}│\n" for line in lines)
    return f"┌{'─' * width}┐\n{body}└{'─' * width}┘\n"


def _rate_line(name: str, workers: int, most: int, oversupply: int) -> str:
    return f"{name} ({workers} workers): Current max: {most}/s. Oversupply in last second: {oversupply}"


def _means_line(name: str, *seconds: float) -> str:
    return f"{name}: {'/'.join(f'{1000 * value:.0f}ms' for value in seconds)} (min/avg/max)"


def recognise_box(text: str) -> bool:
    """Whether a text has a box of the hammer, whole or damaged, or is a terminal recording of one."""
    return sum(f"{name} (" in text or f"{name}: " in text for name in _LINES) >= 3 and "Oversupply" in text


@damaged("the hammer's screen is damaged")
def read_saved(content: bytes) -> list[HammerScreen]:
    """Parse a saved file: the screens of a recording, or the single box of a text. Raises ParseError."""
    if b"\x1b" in content:
        return replay(content)
    return [parse_box(content.decode("utf-8", "replace"))]


@damaged("the hammer's screen is damaged")
def parse_box(text: str) -> HammerScreen:
    """Parse the box in a text, which may have other words before and after it. Borders may be of any kind or missing.

    Raises ParseError if there is no box, more than one, or a truncated one.
    """
    found = {name: list(pattern.finditer(text)) for name, pattern in _PATTERNS.items()}
    for name, matches in found.items():
        if len(matches) > 1:
            raise ParseError(f"one text has {len(matches)} boxes of the hammer: give each box its own file")
        if not matches:
            raise ParseError(_what_is_missing(text, name))
    lines = {name: matches[0] for name, matches in found.items()}
    places = [line.start() for line in lines.values()]
    if places != sorted(places):
        raise ParseError("the lines of the hammer's box are out of order")
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
        return "this is not a box of the hammer"
    if f"{name} (" in text or f"{name}: " in text:
        return f"the hammer's box is truncated or damaged in its line {name!r}: use a terminal with 80 columns or more"
    return f"the hammer's box is truncated: its line {name!r} is missing"


def replay(recording: bytes) -> list[HammerScreen]:
    """Replay a terminal recording: one screen per box that differs from the previous one.

    The size of the terminal need not be known. A frame that is truncated or overwritten is left out. If the start of
    the recording is missing, the figures are right, but their `at_s` is None.

    Raises ParseError for a damaged recording, and for one without a box, with the hammer's own reason.
    """
    terminal = pyte.Screen(_COLUMNS, _ROWS)
    stream = pyte.ByteStream(terminal)
    marked = _FRAME_ENDS in recording
    timed = marked and _SCREEN_BEGINS in recording[: recording.index(_FRAME_ENDS)]
    screens: list[HammerScreen] = []
    shown, ticks = "", 0
    # The part after the last mark is incomplete.
    for part in recording.split(_FRAME_ENDS if marked else _FRAME_BEGINS)[:-1]:
        try:
            stream.feed(part)
        except Exception as error:  # pyte raises any exception for a damaged sequence
            raise ParseError(f"the recording of the hammer's screen is damaged after {ticks} ticks: {error}") from error
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
        raise ParseError(f"none of the hammer's {ticks} screens can be read: {damage}")
    raise ParseError(f"{len(recording)} B of output have no screen of the hammer; {_said(recording)}")


def _top(terminal: pyte.Screen) -> str:
    """Return the first rows from the sparse buffer, because rendering the whole screen at each tick would be slow."""
    rows = []
    for number in range(_BOX_ROWS):
        cells = terminal.buffer[number]
        rows.append("".join(cells[column].data if column in cells else " " for column in range(_COLUMNS)).rstrip())
    return "\n".join(rows)


def _said(recording: bytes) -> str:
    text = recording.decode("utf-8", "replace").replace("\r", "")
    log = parse_log(text)
    return f"it said: {log.fatal}" if log.fatal else "it gives no reason"


# The figures of a screen as metrics, with the field and the unit of each, so that a report can redraw the screen. Times
# are of tick means.
SCREEN_METRICS = {
    "hammer_qps": ("qps", "1/s"),
    "hammer_window": ("window_s", "s"),
    "hammer_tree_size": ("tree_size", "1"),
    "hammer_oversupply": ("oversupply", "1"),
    "hammer_writers": ("write_workers", "1"),
    "hammer_write_max": ("write_max_per_s", "1/s"),
    "hammer_read_workers": ("read_workers", "1"),
    "hammer_read_max": ("read_max_per_s", "1/s"),
    "hammer_read_oversupply": ("read_oversupply", "1"),
    **{
        f"hammer_{kind}_{name}": (f"{kind}_{name}_s", "s")
        for kind in ("queue", "integrate")
        for name in ("min", "avg", "max")
    },
}


def screen_values(screen: HammerScreen) -> dict[str, tuple[float | None, str]]:
    return {metric: (getattr(screen, field), unit) for metric, (field, unit) in SCREEN_METRICS.items()}


def screen_of(values: Mapping[str, float]) -> HammerScreen | None:
    """Return the screen that a trial's metrics were taken from; None if a metric is missing."""
    if not SCREEN_METRICS.keys() <= values.keys():
        return None
    fields: dict[str, Any] = {
        field: round(values[metric]) if HammerScreen.__annotations__[field] is int else values[metric]
        for metric, (field, _) in SCREEN_METRICS.items()
    }
    return HammerScreen(**fields)
