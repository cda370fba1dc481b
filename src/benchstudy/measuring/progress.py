"""How far a session is: a live line for each session on a terminal, plain timestamped lines elsewhere.

Sessions run in processes of their own. Each writes its state to a small file; on a terminal the first of them to get
a lock draws the lines of all, and when it ends another takes over. Warnings scroll above them, as Snakemake's lines do.
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
from benchstudy.model.files import lock_if_free, whole_or_nothing

log = logging.getLogger("benchstudy")

_REFRESH_S = 0.25
_RESTS = 10  # times as long as it draws: a controller of a thousand sessions has other things to do
_MANY = 12  # sessions, of which nobody reads every line


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
        """`adaptive`: `blocks` is the most there can be, and what is left only the least. `apart_s`: from the beginning
        of a block to that of the next, at least. `draws`: False where another process draws for this one."""
        self._folder = folder
        self._state_file = folder / f"{machine.process()}.json"
        # Times are of the monotonic clock, which all processes of a machine share: who draws can tell how long ago.
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
        """`total` trials in so many blocks."""
        self._state |= {"total": total, "now": "preparing", "blocks_to_do": blocks}
        self.event(f"{total} trials to measure, {adopted} adopted")

    def extend(self, more: int, *, blocks: int) -> None:
        """So many trials, in so many blocks, besides those told so far."""
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
        """Nothing is measured for so long, because blocks are to be apart."""
        self._state |= {"now": f"waiting for block {block}", "wait_until": time.monotonic() + wait_s}
        self._publish()
        log.info("%s: block %d begins in %s", self._state["session"], block, clock(wait_s))

    def waited(self, wait_s: float) -> None:
        self._state |= {"waited_s": self._state["waited_s"] + wait_s}
        self._state.pop("wait_until")

    def trial_finished(self, block: int, case: str, status: str, cause: str | None, duration_s: float) -> None:
        number = self._state["done"] + 1
        if status == "aborted":  # no result: it is done again
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
        # Events come from several threads. A full disk is told where the next trial is stored, and this is no result.
        with self._publishing, suppress(OSError), whole_or_nothing(self._state_file) as temporary:
            temporary.write_text(json.dumps(self._state))

    def _draw(self) -> None:
        with Drawing(self._folder) as drawing:
            while not self._stop.wait(_REFRESH_S):
                drawing.step()


class Drawing:
    """The lines of all sessions of a controller, drawn by whichever process is the first to have their lock."""

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
        """Draw what there is now, unless that was done a moment ago; to be called again and again."""
        began = time.monotonic()
        if began < self._next or self._lock is None:
            return
        self._locked = self._locked or lock_if_free(self._lock.fileno())
        if self._locked:
            self._lines.show(_rows(list(_states(self._folder))), keep=_IMPORTANT_FIRST, shrink=_CASE)
        took_s = time.monotonic() - began
        self._next = began + max(_REFRESH_S, took_s * _RESTS)


def _rows(states: list[dict[str, Any]]) -> list[list[str]]:
    """A line a session. Of many, those first that have trouble, below a line of all of them together."""
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
        f"trouble in {sum(map(bool, trouble))}" if any(trouble) else "",
    ]
    return [together, *(rows[at] for at in sorted(range(len(rows)), key=lambda at: -trouble[at]))]


def _states(folder: Path) -> Iterator[dict[str, Any]]:
    forget_killed(folder)
    for path in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError):  # that session has just ended
            state = json.loads(path.read_text())
            ahead_s = state["unix"] - _unix() if machine.pid_here(path.stem) is None else 0.0
            yield state | {name: state[name] + ahead_s for name in _MOMENTS if name in state}


_MOMENTS = ("begun", "trials_begun", "last_done", "wait_until")


def _unix() -> float:
    """What this machine's monotonic clock lacks to the time of day, by which moments of two machines are compared."""
    return time.time() - time.monotonic()


def forget_killed(folder: Path, *, elsewhere: bool = False) -> None:
    """Remove what sessions left that were killed: their states, and what they were writing.

    `elsewhere`: all that sessions on other machines left, too. Who says so knows that none is held there.
    """
    for path in folder.glob("*.json*"):
        pid = machine.pid_here(path.name.strip(".").partition(".")[0])
        with suppress(FileNotFoundError):
            if elsewhere if pid is None else not still_runs(pid, path.stat().st_mtime):
                path.unlink()


def under_way(folder: Path) -> list[str]:
    """Each session that is being held, and when it may be done: `FAMILY on TARGET, 0:42 left`."""
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
    """By the trials so far; None before the first is done."""
    if not state["done"]:
        return None
    each_s = (state["last_done"] - state["trials_begun"] - state["waited_s"]) / state["done"]
    now = time.monotonic()
    of_this_s = 0.0 if "wait_until" in state else now - state["last_done"]
    work_s = max(0.0, each_s * (state["total"] - state["done"]) - of_this_s)
    return work_s + _waits_s(state, each_s, now)


def _waits_s(state: Mapping[str, Any], each_s: float, now: float) -> float:
    """What is still to be waited for between blocks: of a block's distance, what its own trials do not take."""
    blocks = state["blocks_to_do"]
    if not state["apart_s"] or not blocks:
        return 0.0
    a_wait_s = max(0.0, state["apart_s"] - each_s * state["total"] / blocks)
    if "wait_until" in state:
        return max(0.0, state["wait_until"] - now) + a_wait_s * max(0, blocks - state["blocks_begun"] - 1)
    return a_wait_s * max(0, blocks - state["blocks_begun"])


def clock(seconds: float | None) -> str:
    """As on a stop watch: `1:05`, `2:01:05`; `?` of what nobody knows."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def log_to(path: Path | None, *, one_of_many: bool = False) -> Callable[[], None]:
    """One log file a job; the terminal gets warnings, or everything where no live line says it, unless there are many
    beside it that would say as much. Returns an undo.
    """
    handlers: list[logging.Handler] = []
    stream = logging.StreamHandler(sys.stderr)
    stream.setLevel(logging.WARNING if one_of_many or live_terminal() else logging.INFO)
    handlers.append(stream)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(path, mode="w"))
    formatter = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S")
    for handler in handlers:
        handler.setFormatter(formatter)
        log.addHandler(handler)
    log.setLevel(logging.INFO)

    def undo() -> None:
        for handler in handlers:
            log.removeHandler(handler)
            with suppress(OSError):  # what a full disk did not take of it is told elsewhere
                handler.close()

    return undo
