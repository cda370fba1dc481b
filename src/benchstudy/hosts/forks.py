"""Work on many hosts from one process: one fork per host, started after all imports.

Forks cannot disturb each other, need no lock, and share memory that nobody writes (decisions/030). A fork has only
the thread that made it, so other threads of the caller must only wait: a lock that one of them holds would stay
locked in the fork.
"""

import gc
import logging
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FrameType

from benchstudy.hosts.controller import controlled_by_this_process, watched_controller

log = logging.getLogger("benchstudy")

Tell = Callable[[bytes], None]
INTERRUPTED = 130
_ENDS = (signal.SIGINT, signal.SIGTERM)
_A_MOMENT_MS = 250
_MOST_BEGINNING = 8  # at once: a hundred simultaneous logins would outlast their timeouts


@dataclass
class _Fork:
    """`rest`: the names to work on after this one. `unread`: the start of an incomplete line."""

    name: str
    rest: deque[str]
    pid: int
    begun: bool = False
    unread: bytes = b""


@dataclass
class _Running:
    by_pipe: dict[int, _Fork] = field(default_factory=dict)
    ended: bool = False

    def end(self, *_: int | FrameType | None) -> None:
        self.ended = True
        for fork in self.by_pipe.values():
            os.kill(fork.pid, signal.SIGTERM)


def exit_status(end: SystemExit) -> int:
    """The interpreter's exit status; prints a text as the interpreter would."""
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
    return end.code if isinstance(end.code, int) else int(bool(end.code))


def in_forks(
    turns: Iterable[Sequence[str]],
    work: Callable[[str, Tell], None],
    heard: Callable[[str, bytes], None] = lambda name, line: None,
    *,
    ended: Callable[[str, int], None] = lambda name, status: None,
    meanwhile: Callable[[], None] = lambda: None,
    at_once: int = 1 << 20,
) -> dict[str, int]:
    """Do `work` for each name, in a fork of its own. Returns the exit status by name, negative for a signal.

    Args:
        turns: names in one entry are worked on one after another, those in different entries side by side.
        work: gets the name, and a function that sends a line to `heard` in this process. The first line says that it
            has begun.
        ended: gets the name and the exit status of each fork that has ended.
        meanwhile: called several times per second.
        at_once: the most forks side by side.

    Raises KeyboardInterrupt, once all forks have ended, if this process was told to end or its controller is gone.
    """
    waiting, running, statuses = deque(deque(names) for names in turns if names), _Running(), dict[str, int]()
    before = {number: signal.signal(number, running.end) for number in _ENDS}
    poll, controller_has_gone = select.poll(), watched_controller()
    gc.collect()
    gc.freeze()  # the collector writes to the objects that it visits, and written memory is no longer shared
    try:
        while running.by_pipe or (waiting and not running.ended):
            forks = running.by_pipe.values()
            while (
                waiting
                and not running.ended
                and len(forks) < at_once
                and sum(not fork.begun for fork in forks) < _MOST_BEGINNING
            ):
                _begin(waiting.popleft(), work, running, poll)
            for pipe, _ in poll.poll(_A_MOMENT_MS):
                fork = running.by_pipe[pipe]
                if _hear(pipe, fork, heard):
                    continue
                poll.unregister(pipe)
                del running.by_pipe[pipe]
                os.close(pipe)
                statuses[fork.name] = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
                ended(fork.name, statuses[fork.name])
                if fork.rest:
                    waiting.append(fork.rest)
            if not running.ended and controller_has_gone():
                running.end()
            meanwhile()
    finally:
        gc.unfreeze()
        for number, handler in before.items():
            signal.signal(number, handler)
    if running.ended:
        raise KeyboardInterrupt
    return statuses


def _hear(pipe: int, fork: _Fork, heard: Callable[[str, bytes], None]) -> bool:
    """Pass on its lines; False after the last one."""
    told = os.read(pipe, 1 << 16)
    *lines, fork.unread = (fork.unread + told).split(b"\n")
    fork.begun = fork.begun or bool(lines)
    for line in lines:
        heard(fork.name, line)
    return bool(told)


def _begin(names: deque[str], work: Callable[[str, Tell], None], running: _Running, poll: "select.poll") -> None:
    name = names.popleft()
    reads, writes = os.pipe()
    # Until the fork has its own handlers, a signal to it would be handled as one to this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    parent, pid = controlled_by_this_process(), os.fork()
    if pid == 0:
        _work(name, work, writes, [reads, *running.by_pipe], parent)
    running.by_pipe[reads] = _Fork(name, names, pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    os.close(writes)
    poll.register(reads, select.POLLIN | select.POLLHUP)


def _work(
    name: str, work: Callable[[str, Tell], None], pipe: int, of_others: Iterable[int], parent: dict[str, str]
) -> None:
    """Does not return."""
    status = 1
    try:
        for other in of_others:
            os.close(other)
        for number in _ENDS:
            signal.signal(number, signal.default_int_handler)
        os.environ |= parent  # the fork ends with that process, which ends with the command
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        work(name, lambda line: _write(pipe, line + b"\n"))
        status = 0
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as end:
        status = exit_status(end)
    except BaseException:
        log.exception("%s: internal error", name)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status & 0xFF)


def _write(pipe: int, told: bytes) -> None:
    while told:
        told = told[os.write(pipe, told) :]
