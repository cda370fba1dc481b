"""The tier of a test, derived from what it can reach; the guard of the fast tier; and the order of tests.

`server`: it may start a server or a host, as the workflow does. `build`: it may compile or install programs. `slow`: it
runs notebooks or a browser. Tests without these marks belong to `make test-fast`, but for those marked `long` by hand.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
# Helper modules of the tests, by what their functions and classes start.
DOORS = {
    "server": {
        "sshd_hosts",
        "two_hosts",
        "prometheus_server",
        "http_study",
        "tessera_logs",
        "s3_server",
        "injections",
        "crate_study",
    },
    "build": {"provisioning", "tessera_logs", "mattermost_small", "two_hosts", "injections"},
    "slow": {"browser", "webtools"},
}
# For modules with several kinds of contents, the kind is given per name.
NAMES = {
    **dict.fromkeys(
        ("Popen", "Remote", "HostAgent", "loopback", "provision_target", "Project", "copy_project"), "server"
    ),
    "built_versitygw": "build",
    "pages_made_in": "slow",
}
# A test without a mark must not start these.
SERVERS_AND_BUILDERS = re.compile(
    "apache2|caddy|cargo|cc|chromium|gcc|go|google-chrome|lighttpd|locust|mariadbd|mattermost|mmdebstrap|mysqld|nginx|"
    "papermill|postgres|prometheus|rclone|sftpgo|snakemake|sshd|versitygw"
)

# Files whose set-up or tests take longest, by `--durations`: if a worker began one last, it would work alone.
LONGEST = (
    "test_log_write_sessions.py",
    "test_load_test_users_mattermost.py",
    "test_load_test_mattermost.py",
    "test_pages.py",
    "test_two_hosts.py",
    "test_workflow.py",
    "test_reproduce.py",
    "test_side_by_side.py",
    "test_http_concurrency_file_servers.py",
    "test_faults.py",
    "test_interrupted.py",
    "test_only_what_is_asked.py",
    "test_systems.py",
    "test_systems_project.py",
    "test_tools.py",
    "test_sixth_family.py",
    "test_init.py",
    "test_load_test_run.py",
    "test_http_concurrency.py",
    "test_hostagent.py",
    "test_log_write_logbench.py",
    "test_remote.py",
    "test_stopping.py",
)


def needs_builds(item: pytest.Item) -> bool:
    """Whether a test may start what is built for the tests, or fail because a compiler takes the processors."""
    return any(item.get_closest_marker(mark) for mark in ("server", "build"))


def in_order(items: list[pytest.Item], *, building: bool) -> None:
    """The longest first, then files that one worker gets as a whole, then tests that are dealt one by one.

    Fast ones fill the gaps, and those that need the machine for themselves are last.

    A test that runs alone waits for all others, and none begins meanwhile; earlier in the run, this would cost minutes.
    `building`: tests that need the builds cannot begin yet, so they come after all others.
    """
    places = {name: place for place, name in enumerate(LONGEST)}
    waiting = {scope_of(item.nodeid) for item in items if building and needs_builds(item)}

    def place(item: pytest.Item) -> tuple[int, int, bool, str]:
        fast = not any(item.get_closest_marker(mark) for mark in DOORS)
        turn = 3 if item.get_closest_marker("alone") else 2 if scope_of(item.nodeid) in waiting else int(fast)
        is_whole = scope_of(item.nodeid) != item.nodeid
        return turn, places.get(item.path.name, len(LONGEST)), not is_whole, item.path.name

    items.sort(key=place)


class Dealer(LoadScopeScheduling):
    """Deals tests to workers one by one, but tests of a file that share a set-up go to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return file if _shares(file) else nodeid


@cache
def _shares(file: str) -> bool:
    """By its text, because the process that deals does not import the tests."""
    shared = r"""scope=["'](module|session)|bare_host|def \w+\((?:[^()]*\s)?sshd[,:)]"""
    return bool(re.search(shared, (TESTS.parent / file).read_text()))


def marks_of(item: pytest.Function) -> set[str]:
    """The tiers of a test, from the code that it and its fixtures reach within tests/."""
    definitions = item._fixtureinfo.name2fixturedefs  # pytest offers no public way from a test to its fixtures
    return _reached(item.function, *(func for name in item.fixturenames for func in _used(definitions.get(name, ()))))


@cache
def _reached(*functions: Any) -> set[str]:
    """The marks of everything that these functions use. Cached, because a test has the same ones for all parameters."""
    todo = [*functions]
    seen: set[Any] = set()
    marks: set[str] = set()
    while todo:
        thing = todo.pop()
        thing = getattr(thing, "__wrapped__", getattr(thing, "__func__", thing))
        if isinstance(thing, FunctionType | type) and thing not in seen:
            seen.add(thing)
            own, used = _step(thing)
            marks |= own
            todo += used
    return marks


def _used(definitions: Sequence[Any]) -> Iterator[Any]:
    """The last definition of a fixture, and those before it that it takes as an argument."""
    for each in reversed(definitions):
        yield each.func
        if each.argname not in each.argnames:
            break


@cache
def _step(thing: FunctionType | type) -> tuple[set[str], list[Any]]:
    """The marks that a function or class has by itself, and the parts of tests/ that it uses."""
    marks = {mark for mark, modules in DOORS.items() if thing.__module__ in modules}
    if marks:
        return marks, []
    if thing.__name__ in NAMES:
        marks.add(NAMES[thing.__name__])
    used: list[Any] = []
    if isinstance(thing, type):
        if _is_ours(sys.modules[thing.__module__]):
            used += vars(thing).values()
    elif Path(thing.__code__.co_filename).parent == TESTS:
        names = set(_names(thing.__code__))
        marks |= {NAMES[name] for name in names if name in NAMES}
        for value in (thing.__globals__.get(name) for name in names):
            if isinstance(value, ModuleType) and _is_ours(value):
                used += (getattr(value, name, None) for name in names)
            else:
                used.append(value)
    return marks, used


def _is_ours(module: ModuleType) -> bool:
    return Path(getattr(module, "__file__", None) or "/").parent == TESTS


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Guard:
    """Refuse servers and compilers to tests whose tier starts none."""

    def __init__(self) -> None:
        self.fast = False
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.fast and event == "subprocess.Popen":
            program = Path(str(arguments[0] or arguments[1][0])).name
            if SERVERS_AND_BUILDERS.fullmatch(program):
                raise RuntimeError(f"{program} is started by a test of the fast tier: see tests/tiers.py")
