"""A pytest plugin of mutants.py: which lines each test executes, in any process, and how long that takes."""

import json
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import coverage
import pytest
from coverage.control import process_startup

FOLDER = "BENCHSTUDY_TEST_MUTANTS"
_IMPORTED = ""  # the context of lines that no test executes, only importing


def settings(folder: Path, source: Iterable[Path]) -> dict[str, str]:
    """Write coverage's configuration, and return the environment in which pytest and its children are traced."""
    text = (
        "[run]\nparallel = true\npatch = fork, _exit\n"
        # A process that a test starts knows which test that is, because pytest tells it.
        "context = ${PYTEST_CURRENT_TEST-}\n"
        f"data_file = {folder / 'lines'}\ninclude =\n" + "".join(f"  {path}\n" for path in source)
    )
    (folder / "coverage.ini").write_text(text)
    return {FOLDER: str(folder), "COVERAGE_PROCESS_START": str(folder / "coverage.ini")}


def read(folder: Path) -> tuple[dict[Path, dict[int, set[str]]], dict[str, float]]:
    """The tests that execute each line of each file, and what passed tests took of a processor in s.

    Files are as in the checkout. The test "" stands for importing.
    """
    told = json.loads((folder / "tests.json").read_text())
    took = {test: seconds for test, seconds in told["took_s"].items() if test not in told["failed"]}
    found: dict[Path, dict[int, set[str]]] = {}
    for part in folder.glob("lines*"):
        data = coverage.CoverageData(str(part))
        data.read()
        for file in data.measured_files():
            lines = found.setdefault(Path(file).relative_to(told["root"]), {})
            for line, contexts in data.contexts_by_lineno(file).items():
                tests = {context.rsplit(" (", 1)[0] if context.endswith(")") else context for context in contexts}
                lines.setdefault(line, set()).update(tests & {_IMPORTED, *took})
    return found, took


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Lines(Path(os.environ[FOLDER]), config.rootpath))


class _Lines:
    def __init__(self, folder: Path, root: Path):
        self._folder, self._root = folder, root
        self._took: dict[str, float] = {}
        self._failed: list[str] = []
        os.register_at_fork(after_in_child=self._forked)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        _SEEN.switch_context(item.nodeid)
        begun = sum(os.times()[:4])
        try:
            return (yield)
        finally:
            self._took[item.nodeid] = sum(os.times()[:4]) - begun
            _SEEN.switch_context(_IMPORTED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self._failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        _SEEN.stop()
        _SEEN.save()
        told = {"root": str(self._root), "took_s": self._took, "failed": self._failed}
        (self._folder / "tests.json").write_text(json.dumps(told))

    def _forked(self) -> None:
        """For pytest's own process: what was seen before the fork, the parent reports."""
        _SEEN._auto_save = False  # as coverage does after forks, if it was started by itself
        _SEEN.stop()
        process_startup(force=True)


# pytest's own process changes the context from test to test. It begins before anything is imported.
if _STARTED := getattr(process_startup, "coverage", None):
    _STARTED._auto_save = False
    _STARTED.stop()
_SEEN = coverage.Coverage(config_file=os.environ.get("COVERAGE_PROCESS_START", False))
if FOLDER in os.environ:
    _SEEN.set_option("run:patch", [])
    _SEEN.start()
