"""A pytest plugin of mutants.py: after collecting, each mutant is tested in a fork by the tests that reach it.

A fork has everything imported, so the mutant's functions replace the original ones. If a mutant is more than a
function, or is executed by importing, a fresh pytest imports the mutated file. Processes that a test starts read that
file, too.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import psutil
import pytest

ORDERS, RESULTS = "BENCHSTUDY_TEST_ORDERS", "BENCHSTUDY_TEST_RESULTS"
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"
_LIMITS = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)  # how a process ends that computes, waits or takes too much
_PR_SET_PDEATHSIG = 1
_OF_A_FUNCTION = 0x1  # CO_OPTIMIZED, which the code of modules and classes is not
_MOST_BYTES = 6 << 30
_LOOK_S = 0.02
# A mutant of a loop may never end. Times were measured with a tracer.
_LEAST_S, _TIMES = 10.0, 2.0
_WAITING = 6  # times the processor time, as a limit of wall time, because other processes compute, too

Order = Mapping[str, Any]
Functions = Mapping[tuple[str, str, int], list[FunctionType]]
Swaps = list[tuple[FunctionType, CodeType]]


def pytest_configure(config: pytest.Config) -> None:
    _die_with_parent()
    config.pluginmanager.register(_Forks(Path(os.environ.pop(ORDERS)), int(os.environ.pop(RESULTS))))


class _Forks:
    """`orders`: one mutant per line, with path, text, imported, and took_s: the tests in order, with processor time.

    A line with the outcome of each goes to the pipe `results`.
    """

    def __init__(self, orders: Path, results: int):
        self._orders, self._results = orders, os.fdopen(results, "w", buffering=1)
        os.set_inheritable(results, False)
        self._failed = orders.with_name("failed")
        importlib.import_module("polars")  # begins threads that a fork can do without
        self._harmless = _threads()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if threads := _threads() - self._harmless:
            raise pytest.UsageError(f"tests began {sorted(threads)} while they were collected, which no fork has")
        items, functions = {item.nodeid: item for item in session.items}, _functions()
        gc.collect()
        gc.freeze()  # a fork's garbage collector would write to all of it, and so copy it
        for number, line in enumerate(self._orders.read_text().splitlines(), start=1):
            order, begun = json.loads(line), time.monotonic()
            took_s = order["took_s"]
            with _mutated(Path(order["path"]), order["text"], number) as original:
                swaps = None if order["imported"] else _swaps(order["path"], original, order["text"], functions)
                self._failed.write_text("")
                if swaps is None:
                    child = self._fresh(order)
                else:
                    child = self._fork([(items[test], took_s[test]) for test in took_s], swaps)
                outcome = _outcome(child, begun + _WAITING * _most(sum(took_s.values())))
            how = {"fresh": swaps is None, "failed": self._failed.read_text(), "took_s": time.monotonic() - begun}
            self._results.write(json.dumps({"outcome": outcome, **how}) + "\n")
        return True

    def _fork(self, tests: list[tuple[pytest.Item, float]], swaps: Swaps) -> int:
        if child := os.fork():
            return child
        try:
            self._results.close()
            _begin_alone()
            for function, code in swaps:
                function.__code__ = code
            for (item, took_s), (following, _) in pairwise([*tests, (None, 0.0)]):
                _end_after(_most(took_s))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if item.session.testsfailed:
                    self._failed.write_text(item.nodeid)
                    os._exit(1)
            os._exit(0)
        except BaseException as error:
            self._failed.write_text(repr(error))
        finally:
            os._exit(1)

    def _fresh(self, order: Order) -> int:
        if child := os.fork():
            return child
        try:
            _begin_alone()
            _end_after(_most(sum(order["took_s"].values())))
            options = ("-x", "-q", "-p", "no:cacheprovider", f"--basetemp={self._failed.with_name('fresh')}")
            os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, *order["took_s"]])
        finally:
            os._exit(1)


def _most(took_s: float) -> float:
    """The processor time in s that tests may take with a mutant."""
    return _LEAST_S + _TIMES * took_s


def _threads() -> set[str]:
    """The names of this process's threads, those of libraries included."""
    return {comm.read_text().strip() for comm in Path("/proc/self/task").glob("*/comm")}


def _die_with_parent() -> None:
    """So that nothing computes on if `make mutants` is ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _begin_alone() -> None:
    os.setsid()
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))


def _end_after(seconds: float) -> None:
    """End this process if it computes for so long from now on, or waits for some times as long."""
    limit = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _WAITING * seconds)


@contextlib.contextmanager
def _mutated(path: Path, text: str, number: int) -> Iterator[str]:
    original, times = path.read_text(), path.stat()
    path.write_text(text)
    # Python identifies a compiled module by size and mtime in seconds of its source.
    os.utime(path, (times.st_atime, times.st_mtime + number))
    try:
        yield original
    finally:
        path.write_text(original)
        os.utime(path, (times.st_atime, times.st_mtime))


def _outcome(child: int, until: float) -> str:
    """End it and everything that it started."""
    ended, status = 0, 0
    while not ended and time.monotonic() < until:
        time.sleep(_LOOK_S)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        for process in (*psutil.Process(child).children(recursive=True), psutil.Process(child)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in _LIMITS):
        return TIMEOUT
    return KILLED if status else SURVIVED


def _functions() -> Functions:
    """All functions that exist, by where their code comes from."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            found.setdefault(_place(thing.__code__), []).append(thing)
    return found


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _swaps(path: str, original: str, text: str, functions: Functions) -> Swaps | None:
    """The functions that become the mutant's; None if the mutant changes more than existing functions."""
    if not any(getattr(module, "__file__", None) == path for module in list(sys.modules.values())):
        return []  # a test imports it, and the import reads the mutant
    swaps: Swaps = []
    for old, new in _changed(*(compile(each, path, "exec", dont_inherit=True) for each in (original, text))):
        mutated = functions.get(_place(old), ()) if old.co_flags & _OF_A_FUNCTION else ()
        if not mutated or old.co_freevars != new.co_freevars:
            return None
        swaps += ((function, new) for function in mutated)
    return swaps


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The outermost functions that differ, and modules or classes that differ outside functions."""
    if old == new:
        return
    inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
    own = [[each for each in code.co_consts if not isinstance(each, CodeType)] for code in (old, new)]
    itself = own[0] != own[1] or (old.co_code, old.co_names) != (new.co_code, new.co_names)
    if old.co_flags & _OF_A_FUNCTION or itself:
        yield old, new
    else:
        for pair in zip(*inner, strict=True):
            yield from _changed(*pair)
