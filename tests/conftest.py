"""Fixtures for every test, and the check that the tests leave nothing behind."""

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import builds
import fault_table
import machine
import nothing_lost
import pytest
import tiers
import two_hosts
import warm_snakemake
import yaml
from sshd_hosts import SshdHost

CHECKOUT = Path(__file__).resolve().parents[1]
# Everything that a test starts inherits this mark, except what an sshd starts; that is recognised by its folder.
TEST_RUN = "BENCHSTUDY_TEST_RUN"
TOOL_STORE = "BENCHSTUDY_TOOL_STORE"

# Containers set this variable. With it, each process would compile again what it imports from tests/ and from copies.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell script that starts the suite in the background lets it ignore Ctrl-C. Whatever a test starts would do so, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The PATH of a plain user does not contain the folder of sshd and ip.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Project:
    """A copy of the project to run the workflow in: nothing that a test does reaches the checkout's data."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands in the copy: they use the copy's own package."""
        return {**os.environ, "PYTHONPATH": str(self.root / "src")}

    def run(self, *argv: str | Path, check: bool = True, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a command in the copy and return its output as text. `check`: the test fails if the command does."""
        done = subprocess.run(
            [str(part) for part in argv],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return _succeeded(done) if check else done

    def snakemake(
        self, *arguments: str | Path, check: bool = True, timeout_s: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run `snakemake --cores 8 …`, as a user types it."""
        done = warm_snakemake.run(["--cores", "8", *map(str, arguments)], self.root, self.environment, timeout_s)
        return _succeeded(done) if check else done

    def start(self, *arguments: str | Path) -> warm_snakemake.Started:
        """Start `snakemake --cores 8 …` without waiting for it, in a process group of its own, as a shell does."""
        return warm_snakemake.Started(["--cores", "8", *map(str, arguments)], self.root, self.environment)

    def write_study(self, study: Mapping[str, Any], name: str = "study.yaml") -> Path:
        file = self.root / "config" / name
        file.write_text(yaml.safe_dump(dict(study), sort_keys=False))
        return file


def _succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    if done.returncode != 0:
        pytest.fail(f"{' '.join(done.args)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


@pytest.fixture
def own_host_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another suite on the same machine must not look like a second controller."""
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path / "host.lock"))


@pytest.fixture
def bare_project(tmp_path, monkeypatch):
    """A folder that counts as a project, and in which notebooks run."""
    monkeypatch.chdir(as_project(tmp_path))
    return tmp_path


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The HTML of what pages show, one text per output."""
    found: list[str] = []
    monkeypatch.setattr("benchstudy.report.exhibits.exhibits.display", lambda made: found.append(made.data))
    return found


def as_project(root: Path) -> Path:
    """Make `root` count as a project; create it if it is missing."""
    (root / "workflow").mkdir(parents=True)
    (root / "workflow" / "Snakefile").touch()
    return root


def as_owner(command: list[Any], folder: Path) -> "subprocess.CompletedProcess[str]":
    """A command by somebody who is not root, in a folder. Root reads every file, unless it lacks the capabilities."""
    lacks = "-dac_override,-dac_read_search"
    drop = [] if os.getuid() else ["setpriv", f"--inh-caps={lacks}", f"--bounding-set={lacks}"]
    return subprocess.run([*drop, *command], cwd=folder, capture_output=True, text=True)


@contextmanager
def pages_made_in(root: Path) -> Iterator[None]:
    """Execute notebooks in `root`, a project with the published figures, with this checkout's code."""
    shutil.copytree(CHECKOUT / "data" / "published", as_project(root) / "data" / "published")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PYTHONPATH", str(CHECKOUT / "src"))
        yield


def executed_in(root: Path, page: str, study: str = "embedded", tidy: str = "") -> Path:
    """The notebook of a page, executed in `root` as the workflow does it. `tidy`: if its tables are elsewhere."""
    from benchstudy.jobs import notebooks

    parameters = {"study": study, "tidy": tidy or f"data/tidy/{study}/{page}", "output": f"reports/{study}/{page}"}
    executed = root / f"reports/{study}/notebooks/{page}.ipynb"
    notebooks.execute(CHECKOUT / f"notebooks/{page}.ipynb", root / "trace.ipynb", executed, parameters)
    return executed


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh copy of the project without any data."""
    return copy_project(tmp_path / "project")


def copy_project(root: Path) -> Project:
    """A copy at `root`, for tests that need it for longer than one test."""
    root.mkdir(parents=True)
    # Includes the compiled modules; without them, each copy's first commands would spend seconds on compiling.
    folders = ["workflow", "notebooks", "config", "envs", "setup", "src", "data/published"]
    files = ["LICENSE", "Makefile", "pyproject.toml", "requirements.lock"]
    subprocess.run(["cp", "-a", "--parents", *folders, *files, root.absolute()], cwd=CHECKOUT, check=True)
    # The script that draws figures in pages is made once; each copy would spend two seconds on its own.
    scripts = CHECKOUT / ".benchstudy" / "cache"
    scripts.mkdir(parents=True, exist_ok=True)
    (root / ".benchstudy").mkdir()
    (root / ".benchstudy" / "cache").symlink_to(scripts)
    return Project(root)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdHost]:
    """This machine as a host that the tests of a file share."""
    with SshdHost(tmp_path_factory.mktemp("sshd")) as host:
        yield host


@pytest.fixture(scope="session")
def bare_debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file system of a bare machine, without Python and fio. Changes to it remain for later tests."""
    folder = tmp_path_factory.mktemp("debian")
    yield two_hosts.make_debian(folder, Path(os.environ[TOOL_STORE]))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bare_host(bare_debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[two_hosts.BareHost]:
    """That bare machine, up and reachable by SSH."""
    with two_hosts.running(bare_debian, tmp_path_factory.mktemp("bare-host")) as host:
        yield host


def use_common_tool_store() -> None:
    """Share builds of k6 and the like, which take minutes, among all tests on this machine."""
    os.environ.setdefault(TOOL_STORE, str(CHECKOUT / ".benchstudy" / "tools"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--build-tools", action="store_true", help="first build the programs that tests start")
    parser.addoption("--fault-table", type=Path, help="write the results of tests marked `fault` to this file")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("--fault-table"):
        config.pluginmanager.register(fault_table.FaultTable(file))
    if TEST_RUN not in os.environ:
        os.environ[TEST_RUN] = str(uuid.uuid4())
        gather_temporary_files()
    use_common_tool_store()
    if config.getoption("--build-tools") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(builds.Builds(Path(os.environ[TOOL_STORE])))


def gather_temporary_files() -> None:
    """Remove in the end what programs left that tests killed. `tmp_path` stays, to look at."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True)
    os.chmod(folder.name, 0o755)  # for programs of other users
    os.environ["TMPDIR"] = folder.name
    atexit.register(folder.cleanup)


GUARD = tiers.Guard()
ENDS_S = 15.0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> tiers.Dealer:
    return tiers.Dealer(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Let one worker collect the tests before the others, which then find them compiled."""
    with machine.first_alone(Path(os.environ["TMPDIR"]) / "tests-compiled"):
        gc.disable()  # a fifth of the time would go into looking for garbage among thousands of tests
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in tiers.marks_of(item):
                item.add_marker(mark)
    tiers.in_order(items, building=builds.pending())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give a test marked `alone` the whole machine, with its fixtures; keep a fast test from starting a server."""
    fast = not any(item.get_closest_marker(mark) for mark in tiers.DOORS)
    if tiers.needs_builds(item):
        builds.wait()
    with machine.shared_or_alone(Path(os.environ[TOOL_STORE]).parent, item.get_closest_marker("alone") is not None):
        GUARD.fast = fast
        try:
            return (yield)
        finally:
            GUARD.fast = False


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the suite if it leaves processes, mounts or network devices behind, even if all tests passed."""
    warm_snakemake.end()
    browser.end()
    if hasattr(session.config, "workerinput"):
        return  # one of several pytest-xdist workers: others may still be running
    base = session.config._tmp_path_factory.getbasetemp()  # pytest offers no public way outside a fixture
    # What the last test left by closing its connection may need a moment to end.
    deadline = time.monotonic() + ENDS_S
    while (left := left_behind(base)) and time.monotonic() < deadline:
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            end_processes(base)  # pytest-xdist kills its workers, which then cannot end what they started
        time.sleep(0.1)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line("\nleft behind by the tests:\n  " + "\n  ".join(left), red=True)


def left_behind(base: Path) -> list[str]:
    return [*left_processes(str(base)), *nothing_lost.mounts_below(base), *left_cables()]


def left_processes(base: str) -> set[str]:
    """What `started_here` finds, except Python's own multiprocessing helpers, which end with pytest."""
    found = set(map(str, started_here(base)))
    return {process for process in found if "from multiprocessing." not in process}


def started_here(base: str) -> Iterator[nothing_lost.Process]:
    """Processes that have this run's mark, or one of its folders in their command, environment or working directory."""
    yield from nothing_lost.running(f"{TEST_RUN}={os.environ[TEST_RUN]}")
    yield from nothing_lost.running(base)


def end_processes(base: Path) -> None:
    for process in started_here(str(base)):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)


def left_cables() -> list[str]:
    """Network devices that tests/two_hosts.py made, in this process or in one that has ended."""
    return [
        f"network device {device.name}"
        for device in Path("/sys/class/net").glob(f"{two_hosts.CABLE}*")
        if not Path(f"/proc/{device.name.removeprefix(two_hosts.CABLE)}").exists()
    ]
