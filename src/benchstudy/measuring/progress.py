"""The progress of sessions: one live line per session on a terminal, plain timestamped lines elsewhere.

Each session runs in its own process and writes its state to a small file. On a terminal, the first process to get a
lock draws the lines of all. When it ends, another takes over. Warnings scroll above, as Snakemake's output does.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from benchstudy.measuring.alive import still_runs
from benchstudy.measuring.statuslines import StatusLines, live_terminal
from benchstudy.model import machine
from benchstudy.model.errors import plain
from benchstudy.model.files import lock_if_free, whole_or_nothing
from benchstudy.model.rounding import plural

log = logging.getLogger("benchstudy")

_REFRESH_S = 0.25
_RESTS = 10  # pause between drawings, in durations of a drawing, so that a thousand sessions do not keep a core busy
_MANY = 12  # sessions; with more, nobody reads every line


class Progress:
    """Use as a context manager around one session. `folder` is shared by the sessions of one controller."""

    def __init__(
        self,
        folder: Path,
        session: str,
        blocks: int,
        *,
        adaptive: bool = False,
        apart_s: float = 0.0,
        draws: bool = True,
    ):
        """`adaptive`: `blocks` is a maximum, so the time left is a minimum. `apart_s`: the least time from the start of
        one block to the start of the next. `draws`: False if another process draws for this one."""
        self._folder = folder
        self._state_file = folder / f"{machine.process()}.json"
        # Times are from the monotonic clock, which all processes of a machine share, so any of them can draw durations.
        self._state: dict[str, Any] = {
            "unix": _unix(),
            "session": session,
            "blocks": f"≤{blocks}" if adaptive else str(blocks),
            "adaptive": adaptive,
            "total": 0,
            "done": 0,
            "failed": 0,
            "aborted": 0,
            "now": "connecting",
            "begun": time.monotonic(),
            "apart_s": apart_s,
            "waited_s": 0.0,
            "blocks_begun": 0,
            "blocks_to_do": blocks,
        }
        self._stop = threading.Event()
        self._publishing = threading.Lock()
        self._drawer: threading.Thread | None = None
        self._live = draws and live_terminal()

    def __enter__(self) -> "Progress":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._publish()
        if self._live:
            self._drawer = threading.Thread(target=self._draw, daemon=True)
            self._drawer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._drawer:
            self._drawer.join()
        self._state_file.unlink(missing_ok=True)

    def begin(self, total: int, adopted: int, *, blocks: int) -> None:
        self._state |= {"total": total, "now": "preparing", "blocks_to_do": blocks}
        self.event(f"{plural(total, 'trial')} to measure, {adopted} adopted")

    def extend(self, more: int, *, blocks: int) -> None:
        self._state["total"] += more
        self._state["blocks_to_do"] += blocks
        self._publish()

    def trial_started(self, block: int, case: str) -> None:
        self._state.setdefault("trials_begun", time.monotonic())
        if block != self._state.get("block"):
            self._state |= {"blocks_begun": self._state["blocks_begun"] + 1}
        self._state |= {"block": block, "now": case}
        self._publish()

    def wait(self, block: int, wait_s: float) -> None:
        """Announce a pause of `wait_s` seconds, because blocks have to be apart."""
        self._state |= {"now": f"waiting for block {block}", "wait_until": time.monotonic() + wait_s}
        self._publish()
        log.info("%s: block %d begins in %s", self._state["session"], block, clock(wait_s))

    def waited(self, wait_s: float) -> None:
        self._state |= {"waited_s": self._state["waited_s"] + wait_s}
        self._state.pop("wait_until")

    def trial_finished(self, block: int, case: str, status: str, cause: str | None, duration_s: float) -> None:
        number = self._state["done"] + 1
        if status == "aborted":  # not a result: the trial is repeated
            self._state["aborted"] += 1
        else:
            self._state |= {"done": number, "last_done": time.monotonic()}
            self._state["failed"] += status != "ok"
        self._publish()
        ending = f"{status}: {cause}" if cause else status
        log.log(
            logging.INFO if status == "ok" else logging.WARNING,
            "%s: trial %d/%d, block %d, %s: %s, %.1f s, %s left",
            self._state["session"],
            number,
            self._state["total"],
            block,
            case,
            ending,
            duration_s,
            _left(self._state),
        )

    def event(self, text: str) -> None:
        self._publish()
        log.warning("%s: %s", self._state["session"], text)

    def _publish(self) -> None:
        # Events come from several threads. A full disk is reported when the next trial is stored; this is not a result.
        with self._publishing, suppress(OSError), whole_or_nothing(self._state_file) as temporary:
            temporary.write_text(json.dumps(self._state), encoding="utf-8")

    def _draw(self) -> None:
        with Drawing(self._folder) as drawing:
            while not self._stop.wait(_REFRESH_S):
                drawing.step()


class Drawing:
    """Draws the lines of all sessions of a controller, in whichever process gets the lock first."""

    def __init__(self, folder: Path):
        self._folder, self._lines, self._next = folder, StatusLines(), 0.0
        self._lock: TextIO | None = None
        self._locked = False

    def __enter__(self) -> "Drawing":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "drawer.lock").open("a")
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        if self._lock:
            self._lock.close()

    def step(self) -> None:
        """Draw the present state, unless it was drawn a moment ago. Call it repeatedly."""
        began = time.monotonic()
        if began < self._next or self._lock is None:
            return
        self._locked = self._locked or lock_if_free(self._lock.fileno())
        if self._locked:
            self._lines.show(_rows(list(_states(self._folder))), keep=_IMPORTANT_FIRST, shrink=_CASE)
        took_s = time.monotonic() - began
        self._next = began + max(_REFRESH_S, took_s * _RESTS)


def _rows(states: list[dict[str, Any]]) -> list[list[str]]:
    """One line per session. If there are many: a line for all together, then those with problems first."""
    rows = [_cells(state) for state in states]
    if len(states) <= _MANY:
        return rows
    trouble = [state["failed"] + state["aborted"] for state in states]
    begun = [state for state in states if "block" in state]
    together = [
        f"{len(states)} sessions",
        f"{len(begun)} have begun",
        f"trial {sum(state['done'] for state in states)}/{sum(state['total'] for state in states)}",
        "",
        f"{clock(time.monotonic() - min(state['begun'] for state in states))} elapsed",
        f"{clock(max((left for state in begun if (left := _left_s(state)) is not None), default=None))} left",
        f"problems in {sum(map(bool, trouble))}" if any(trouble) else "",
    ]
    return [together, *(rows[at] for at in sorted(range(len(rows)), key=lambda at: -trouble[at]))]


def _states(folder: Path) -> Iterator[dict[str, Any]]:
    forget_killed(folder)
    for path in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError):  # that session has just ended
            state = json.loads(path.read_text(encoding="utf-8"))
            ahead_s = state["unix"] - _unix() if machine.pid_here(path.stem) is None else 0.0
            yield state | {name: state[name] + ahead_s for name in _MOMENTS if name in state}


_MOMENTS = ("begun", "trials_begun", "last_done", "wait_until")


def _unix() -> float:
    """Unix time minus this machine's monotonic clock, to compare moments on two machines."""
    return time.time() - time.monotonic()


def forget_killed(folder: Path, *, elsewhere: bool = False) -> None:
    """Remove what killed sessions left: their states, and files that they were writing.

    `elsewhere`: also what sessions on other machines left. The caller must know that none is running there.
    """
    for path in folder.glob("*.json*"):
        pid = machine.pid_here(path.name.strip(".").partition(".")[0])
        with suppress(FileNotFoundError):
            if elsewhere if pid is None else not still_runs(pid, path.stat().st_mtime):
                path.unlink()


def under_way(folder: Path) -> list[str]:
    """Each running session with its expected time left: `FAMILY on TARGET, 0:42 left`."""
    return [f"{state['session']}, {_left(state)} left" for state in _states(folder)]


_CASE = 3
_IMPORTANT_FIRST = (2, 5, 0, 6, 4, 1, _CASE)


def _cells(state: Mapping[str, Any]) -> list[str]:
    begun = "block" in state
    return [
        state["session"],
        f"block {state['block']}/{state['blocks']}" if begun else "",
        f"trial {min(state['done'] + 1, state['total'])}/{state['total']}" if begun else "",
        state["now"],
        f"{clock(time.monotonic() - state['begun'])} elapsed",
        f"{_left(state)} left",
        ", ".join(f"{state[what]} {what}" for what in ("failed", "aborted") if state[what]),
    ]


def _left(state: Mapping[str, Any]) -> str:
    return f"{'≥' if state['adaptive'] else ''}{clock(_left_s(state))}"


def _left_s(state: Mapping[str, Any]) -> float | None:
    """Seconds left, estimated from the trials so far; None before the first is done."""
    if not state["done"]:
        return None
    each_s = (state["last_done"] - state["trials_begun"] - state["waited_s"]) / state["done"]
    now = time.monotonic()
    of_this_s = 0.0 if "wait_until" in state else now - state["last_done"]
    work_s = max(0.0, each_s * (state["total"] - state["done"]) - of_this_s)
    return work_s + _waits_s(state, each_s, now)


def _waits_s(state: Mapping[str, Any], each_s: float, now: float) -> float:
    """Seconds still to be spent waiting between blocks: the distance of blocks minus the duration of their trials."""
    blocks = state["blocks_to_do"]
    if not state["apart_s"] or not blocks:
        return 0.0
    a_wait_s = max(0.0, state["apart_s"] - each_s * state["total"] / blocks)
    if "wait_until" in state:
        return max(0.0, state["wait_until"] - now) + a_wait_s * max(0, blocks - state["blocks_begun"] - 1)
    return a_wait_s * max(0, blocks - state["blocks_begun"])


def clock(seconds: float | None) -> str:
    """A duration as on a stopwatch: `1:05`, `2:01:05`; `?` if unknown."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


def log_to(path: Path | None, *, one_of_many: bool = False) -> Callable[[], None]:
    """One log file per job. The terminal gets warnings, or everything if it shows no live line and this is not one of
    many jobs. Returns a function that undoes it.
    """
    handlers: list[logging.Handler] = []
    stream = logging.StreamHandler(sys.stderr)
    stream.setLevel(logging.WARNING if one_of_many or live_terminal() else logging.INFO)
    handlers.append(stream)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(path, mode="w"))
    formatter = _Plain("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
        log.addHandler(handler)
    log.setLevel(logging.DEBUG)  # for the file

    def undo() -> None:
        for handler in handlers:
            log.removeHandler(handler)
            with suppress(OSError):  # a full disk is reported elsewhere
                handler.close()

    return undo
