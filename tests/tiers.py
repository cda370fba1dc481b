"""Which tier a test belongs to, derived from what it can reach, the guard of the fast tier, and the order of files.

`server`: it may start a server or a host. `build`: it may compile or install programs. `slow`: it runs the workflow,
notebooks or a browser. What has none of these marks is `make test-fast`.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parent
# Helper modules of the tests by what their functions and classes start.
DOORS = {
    "server": {"sshd_hosts", "two_hosts", "prometheus_server", "http_study", "tessera_logs"},
    "build": {"provisioning", "tessera_logs", "mattermost_small", "two_hosts"},
    "slow": {"browser", "crate_study"},
}
# Of modules that hold more than that: what is named.
NAMES = {
    **dict.fromkeys(("Popen", "Remote", "HostAgent", "loopback", "provision_target"), "server"),
    **dict.fromkeys(("Project", "copy_project", "pages_made_in"), "slow"),
}
# A test without a mark must not start these.
SERVERS_AND_BUILDERS = re.compile(
    "apache2|caddy|cargo|cc|chromium|debootstrap|gcc|go|google-chrome|lighttpd|locust|mariadbd|mattermost|mysqld|nginx|"
    "papermill|postgres|prometheus|rclone|sftpgo|snakemake|sshd"
)

# Files that take minutes, longest first: a worker that begins one last would be the only one at work in the end.
LONGEST = (
    "test_load_test_mattermost.py",
    "test_log_write_sessions.py",
    "test_load_test_users_mattermost.py",
    "test_load_test_run.py",
    "test_workflow.py",
    "test_http_concurrency.py",
    "test_two_hosts.py",
    "test_reproduce.py",
    "test_provenance.py",
    "test_limits.py",
    "test_hostagent.py",
    "test_large_reports.py",
    "test_setup.py",
)


def put_long_files_first(items: list[pytest.Item]) -> None:
    """The longest files, then others by how many of their tests are not fast, so that the quickest fill the end.

    Tests that want the machine for themselves come between: beside quick ones they wait, and are waited for, least.
    """
    not_fast = Counter(item.path for item in items if any(item.get_closest_marker(mark) for mark in DOORS))
    alone = {item.path for item in items if item.get_closest_marker("alone")}
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[int, int, int, str]:
        path = item.path
        group = 1 if path in alone else 0 if not_fast[path] else 2
        return group, places.get(path.name, len(LONGEST)), -not_fast[path], path.name

    items.sort(key=place)


def marks_of(item: pytest.Function) -> set[str]:
    """The tiers of a test, from the code that it and its fixtures reach within tests/."""
    definitions = item._fixtureinfo.name2fixturedefs  # pytest offers no public way from a test to its fixtures
    functions = [item.function, *(each.func for name in item.fixturenames for each in definitions.get(name, ()))]
    seen: set[int] = set()
    return {mark for function in functions for mark in _reached(function, seen)}


def _reached(thing: Any, seen: set[int]) -> Iterator[str]:
    thing = getattr(thing, "__wrapped__", getattr(thing, "__func__", thing))
    if id(thing) in seen or not isinstance(thing, FunctionType | type):
        return
    seen.add(id(thing))
    yield from (mark for mark, modules in DOORS.items() if thing.__module__ in modules)
    if thing.__name__ in NAMES:
        yield NAMES[thing.__name__]
    if isinstance(thing, type):
        if _is_ours(sys.modules[thing.__module__]):
            for member in vars(thing).values():
                yield from _reached(member, seen)
    elif Path(thing.__code__.co_filename).parent == TESTS:
        for name in _names(thing.__code__):
            if name in NAMES:
                yield NAMES[name]
            value = thing.__globals__.get(name)
            if isinstance(value, ModuleType) and _is_ours(value):
                for attribute in _names(thing.__code__):
                    yield from _reached(getattr(value, attribute, None), seen)
            else:
                yield from _reached(value, seen)


def _is_ours(module: ModuleType) -> bool:
    return Path(getattr(module, "__file__", None) or "/").parent == TESTS


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Guard:
    """Refuses servers and compilers to the tests that are said to start none."""

    def __init__(self) -> None:
        self.fast = False
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.fast and event == "subprocess.Popen":
            program = Path(str(arguments[0] or arguments[1][0])).name
            if SERVERS_AND_BUILDERS.fullmatch(program):
                raise RuntimeError(f"{program} is started by a test of the fast tier: see tests/tiers.py")
