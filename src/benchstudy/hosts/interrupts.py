"""Ctrl-C and SIGTERM, let through only where nothing can be left half done.

Python raises KeyboardInterrupt between any two instructions. In the middle of the SSH library that leaves a lock held
for ever, and the session's own cleanup then waits for it. So a session says where it may be interrupted: wherever it
waits for a host, which is where it spends nearly all of its time.
"""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("benchstudy")

_PIECE_S = 1.0


class _State:
    installed = waiting = raised = False
    asked = threading.Event()


def install() -> None:
    """Make an interrupt end this process at its next wait, once; a second one does not stop the cleanup."""
    _State.installed, _State.asked = True, threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: object) -> None:
    if _State.raised:
        return
    _State.asked.set()
    if _State.waiting:
        _State.raised = True
        raise KeyboardInterrupt


def asked() -> bool:
    """Whether an interrupt came: what still runs only cleans up, and need not be patient."""
    return _State.asked.is_set()


@contextmanager
def interruptible() -> Iterator[None]:
    """Allows interrupts during a wait of the main thread. Without `install`, they come at any time, as usual."""
    if not _State.installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.waiting = True
    try:
        if asked() and not _State.raised:
            _State.raised = True
            raise KeyboardInterrupt
        yield
    finally:
        _State.waiting = False


def join(thread: threading.Thread, timeout_s: float) -> None:
    """Wait for a thread to end, but let an interrupt through."""
    with interruptible():
        thread.join(timeout_s)


def pause(duration_s: float) -> None:
    """Sleep, but let an interrupt through. In another thread than the main one, it only ends the sleep."""
    if threading.current_thread() is not threading.main_thread():
        _State.asked.wait(duration_s)
        return
    with interruptible():
        # In pieces: a signal just before a sleep begins is heard only when it is over.
        whole, rest_s = divmod(duration_s, _PIECE_S)
        for piece_s in (*[_PIECE_S] * int(whole), rest_s):
            time.sleep(piece_s)
