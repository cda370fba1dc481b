"""How far a session is: a live line for each session on a terminal, plain timestamped lines elsewhere.

Sessions run in processes of their own. Each writes its state to a small file; on a terminal the first of them to get
a lock draws the lines of all, and when it ends another takes over.
"""

import fcntl
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

log = logging.getLogger("benchstudy")

_REFRESH_S = 0.25


class Progress:
    """Use as a context manager around one session. `folder` is shared by the sessions of one controller."""

    def __init__(self, folder: Path, session: str, blocks: int):
        self._folder = folder
        self._state_file = folder / f"{os.getpid()}.json"
        self._state = {"session": session, "blocks": blocks, "done": 0, "total": 0, "failed": 0, "now": "connecting"}
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._drawer: threading.Thread | None = None
        self._writing = threading.Lock()
        self._live = sys.stderr.isatty()

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

    def begin(self, total: int, adopted: int) -> None:
        self._state |= {"total": total, "now": "preparing"}
        self.event(f"{total} trials to measure, {adopted} adopted")

    def trial_started(self, block: int, case: str) -> None:
        self._state |= {"block": block, "now": case}
        self._publish()

    def trial_finished(self, block: int, case: str, status: str, cause: str | None, duration_s: float) -> None:
        self._state["done"] += 1
        self._state["failed"] += status != "ok"
        self._publish()
        ending = f"{status}: {cause}" if cause else status
        log.log(
            logging.INFO if status == "ok" else logging.WARNING,
            "%s: trial %d/%d, block %d, %s: %s, %.1f s, %s left",
            self._state["session"],
            self._state["done"],
            self._state["total"],
            block,
            case,
            ending,
            duration_s,
            _clock(self._left_s()),
        )

    def event(self, text: str) -> None:
        self._publish()
        log.warning("%s: %s", self._state["session"], text)

    def _left_s(self) -> float | None:
        done = self._state["done"]
        return (time.monotonic() - self._begun) / done * (self._state["total"] - done) if done else None

    def _publish(self) -> None:
        state = self._state | {"elapsed_s": time.monotonic() - self._begun, "left_s": self._left_s()}
        with self._writing:  # the drawing thread publishes too, so that the time goes on during a trial
            temporary = self._state_file.with_suffix(".tmp")
            temporary.write_text(json.dumps(state))
            os.replace(temporary, self._state_file)

    def _draw(self) -> None:
        with (self._folder / "drawer.lock").open("a") as lock:
            while not self._stop.is_set():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._stop.wait(_REFRESH_S)
            if self._stop.is_set():
                return
            console = Console(stderr=True)
            with Live(console=console, refresh_per_second=4, transient=True) as live:
                while not self._stop.wait(_REFRESH_S):
                    self._publish()
                    live.update(_lines(self._folder))


def _lines(folder: Path) -> Table:
    table = Table.grid(padding=(0, 2))
    for path in sorted(folder.glob("*.json")):
        if not Path(f"/proc/{path.stem}").exists():  # left by a session that was killed
            path.unlink(missing_ok=True)
            continue
        try:
            state = json.loads(path.read_text())
        except FileNotFoundError:  # that session has just ended
            continue
        table.add_row(
            state["session"],
            f"block {state.get('block', '–')}/{state['blocks']}",
            f"trial {min(state['done'] + 1, state['total'])}/{state['total']}",
            state["now"],
            f"{_clock(state['elapsed_s'])} elapsed",
            f"{_clock(state['left_s'])} left",
            f"{state['failed']} failed" if state["failed"] else "",
        )
    return table


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def log_to(path: Path | None) -> Callable[[], None]:
    """One log file a job; the terminal gets warnings, or everything where no live line says it. Returns an undo."""
    handlers: list[logging.Handler] = []
    stream = logging.StreamHandler(sys.stderr)
    stream.setLevel(logging.WARNING if sys.stderr.isatty() else logging.INFO)
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
            handler.close()

    return undo
