"""docs/faults.md: what each fault costs, which test causes it, and how that test ended last.

faults.toml lists faults and promises. A test is marked `@pytest.mark.fault(7, 9)`. `make faults` runs the marked tests
and writes the table; so does any run of tests with `--fault-table=docs/faults.md`. For a test that did not run this
time, the table keeps its previous result.
"""

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NOT_RUN = "not run"
_ENTRY = re.compile(r"\[`(?P<name>[\w:]+)`\]\(\.\./(?P<file>tests/\w+\.py)\) \| (?P<result>.*) \|$", re.MULTILINE)
_INTRO = """# Faults that benchstudy survives

This page lists what can go wrong, what benchstudy promises for it, and the tests that cause it in real processes, disks
and networks. It shows the last result of each test with its date and commit (`+`: with uncommitted changes).
`make faults` runs the tests and writes this page. Nothing on it is written by hand.

**Nothing lost** means: no finished trial is lost, altered or measured twice; the host is left clean; the next run
measures only what is missing; and the report names what failed. `tests/nothing_lost.py` checks it.

| # | fault | promise | test | last result |
|---|---|---|---|---|
"""


def faults() -> dict[int, dict[str, str]]:
    """`fault` and `promise` for each number."""
    rows = tomllib.loads((TESTS / "faults.toml").read_text())
    return {int(number): row for number, row in rows.items()}


def marked() -> dict[str, list[int]]:
    """The numbers in each test's mark, by id such as "tests/test_raw.py::test_x". It imports nothing for this."""
    return {
        f"tests/{file.name}::{name}": numbers
        for file in sorted(TESTS.glob("test_*.py"))
        for name, numbers in _marked_in(ast.parse(file.read_text()))
    }


def _marked_in(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, list[int]]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _marked_in(node, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
                    yield f"{prefix}{node.name}", [ast.literal_eval(number) for number in mark.args]


def results_in(text: str) -> dict[str, str]:
    """What an existing table says about each test in it."""
    return {f"{entry['file']}::{entry['name']}": entry["result"] for entry in _ENTRY.finditer(text)}


def table(results: dict[str, str]) -> str:
    """The page, with these results per test."""
    tests = marked()
    lines = []
    for number, row in faults().items():
        first = f"{number} | {row['fault']} | {row['promise']}".replace("`|`", "`\\|`")
        for test in (test for test, numbers in tests.items() if number in numbers):
            file, _, name = test.partition("::")
            lines.append(f"| {first} | [`{name}`](../{file}) | {results.get(test, NOT_RUN)} |")
            first = " | | "
    return _INTRO + "\n".join(lines) + "\n"


class FaultTable:
    """The part of pytest that writes the table to `file` at the end."""

    def __init__(self, file: Path):
        self._file = file
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports[report.nodeid.partition("[")[0]].append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return  # a worker of pytest-xdist sends its reports to the process that writes
        ran = f"{datetime.now(UTC):%Y-%m-%d}, {_commit(session.config.rootpath, self._file)}"
        before = results_in(self._file.read_text()) if self._file.exists() else {}
        now = {test: f"{_outcome(reports)}, {ran}" for test, reports in self._reports.items()}
        self._file.write_text(table(before | now))


def _outcome(reports: list[pytest.TestReport]) -> str:
    """The result of a test with all of its parameters: failed if any of them failed."""
    if any(report.failed for report in reports):
        return "failed"
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple)}
    passed = ["passed"] if any(report.when == "call" and report.passed for report in reports) else []
    skipped = [f"skipped: {'; '.join(sorted(reasons))}"] if reasons else []
    return ", ".join(passed + skipped).replace("|", "/")


def _commit(root: Path, table: Path) -> str:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)

    commit = git("rev-parse", "--short", "HEAD").stdout.strip() or "no commit"
    changed = git("status", "--porcelain", "--", ".", f":(exclude,glob)**/{table.name}").stdout
    return f"`{commit}{'+' if changed else ''}`"
