"""The family load_test with somebody else's load: windows of a real Prometheus, and of a file exported before."""

import base64
import contextlib
import io
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import polars as pl
import pytest
import yaml
from conftest import CHECKOUT, as_project
from load_test_study import FAMILY, checked, history, hold, plan_of, scraped, window
from ports import free_ports
from prometheus_server import Prometheus, backfill, prometheus
from sshd_hosts import SshdHost

from benchstudy.commands.cli import main
from benchstudy.families.load_test.facts import FACTS
from benchstudy.families.load_test.fetch import RAW
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry

pytestmark = pytest.mark.usefixtures("own_host_lock")
PASSWORD, WRONG = "canary-7f3-of-the-reader", "canary-c40-of-nobody"


@dataclass(frozen=True)
class Past:
    """Somebody's load on two releases. `t0`: the start of the first one, in Unix seconds."""

    server: Prometheus
    t0: float

    def window(self, version: str, begin: float, end: float, **changes: Any) -> dict[str, Any]:
        return window(version, self.t0 + begin, self.t0 + end, **changes)

    @property
    def windows(self) -> list[dict[str, Any]]:
        selects = {name: f'{{instance="{name}"}}' for name in ("old", "new")}
        return [
            self.window("base", 60, 160, select=selects["old"]),
            self.window("new", 360, 460, select=selects["new"]),
        ]

    @property
    def source(self) -> dict[str, Any]:
        return {"name": "p", "url": self.server.url, "scrape_interval": "1s"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The folder of a Prometheus that has seen two releases under load, and the time at which that began."""
    folder = tmp_path_factory.mktemp("past")
    t0 = float(int(time.time()) - 7200)
    backfill(folder, history({"old": (t0, t0 + 200), "new": (t0 + 300, t0 + 500)}))
    return folder, t0


@pytest.fixture(scope="module")
def past(data: tuple[Path, float]) -> Iterator[Past]:
    folder, t0 = data
    with prometheus(folder) as server:
        yield Past(server, t0)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with SshdHost(tmp_path / "sshd") as sshd:
        yield sshd.described(tmp_path / "work" / "benchstudy")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project for sessions. It includes what a load would send to hosts, like everything that measures."""
    monkeypatch.chdir(as_project(tmp_path / "project"))
    shutil.copytree(CHECKOUT / "envs" / "mattermost", tmp_path / "project" / "envs" / "mattermost")
    return tmp_path / "project"


def facts_of(trial: StoredTrial) -> dict[str, Any]:
    return json.loads((trial.folder / FACTS).read_text())


def values_of(trial: StoredTrial) -> dict[str, float | None]:
    assert trial.record.status == "ok", trial.record.cause
    parsed = registry.get(FAMILY).parse(trial.record.levels, trial.folder)
    return {one.metric: one.value for one in parsed.observations}


def read(
    root: Path, host: Mapping[str, Any], asked: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> dict[str, StoredTrial]:
    """Trials of one session by a name, because each session takes half a second. `asked`: a window and its source."""
    windows = [{**one, "version": name, "source": name} for name, (one, _) in asked.items()]
    block = scraped(windows=windows, sources=[{**source, "name": name} for name, (_, source) in asked.items()])
    return {trial.record.levels["version"]: trial for trial in hold(root, block, host)}


def cause(trial: StoredTrial) -> str:
    assert trial.record.status == "failed"
    return trial.record.cause or ""


def test_windows_become_trials_and_the_server_is_never_asked_again(
    past: Past, data: tuple[Path, float], host: dict[str, Any], root: Path
):
    block = scraped(windows=past.windows, sources=[past.source])
    trials = hold(root, block, host)
    for trial in trials:
        values = values_of(trial)
        assert values["store_mean"] == pytest.approx(0.007, rel=1e-6)
        assert (values["store_p99_low"], values["store_p99_high"]) == (0.005, 0.01)
        assert values["api_rate"] == pytest.approx(10.0, rel=0.02)
        facts = facts_of(trial)
        assert (facts["mode"], facts["rate_window_s"]) == ("scrape", 5.0)
        assert facts["window"]["end_s"] - facts["window"]["start_s"] == 100.0
        assert abs(facts["clock"]["prometheus_minus_here_s"]) < 1.0 and facts["clock"]["correction_s"] == 0.0
        assert facts["prometheus"]["version"] and facts["source"]["url"] == past.server.url
        assert trial.record.verified["load_test"] == facts
        assert {command.label for command in trial.record.commands} == {"clock", "metrics"}
    # Nothing is missing, so no host is contacted: this one does not exist.
    nowhere = {**host, "port": free_ports(1)[0]}
    index = hold_session(root, plan_of(block, nowhere))
    assert json.loads(index.read_text())["problem"] is None
    # A window that was read is not silently replaced by another one.
    moved = {**block, "windows": [past.window("base", 70, 160), past.windows[1]]}
    index = hold_session(root, plan_of(moved, nowhere))
    assert "describes this case differently (select, window changed)" in json.loads(index.read_text())["problem"]


def export(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`benchstudy export …`, in this process, because a new one would spend more time on imports than on work."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["export", *words])
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def test_the_shipped_export_makes_tables_without_any_server(host: dict[str, Any], root: Path):
    study = yaml.safe_load((CHECKOUT / "config" / "studies" / "prometheus-export.yaml").read_text())
    (root / "tests").symlink_to(CHECKOUT / "tests")
    older, newer = (values_of(trial) for trial in hold(root, study["families"][FAMILY], host))
    assert older["store_mean"] > 0 and newer["store_mean"] > 0 and older["rps"] > 0 and newer["node_cpu"] > 0


def test_a_file_gives_what_its_server_gave(past: Past, host: dict[str, Any], root: Path):
    words: list[str] = []
    for number, one in enumerate(past.windows):
        words = ["data/exports/load.gz", "--url", past.server.url, "--scrape-interval", "1s", "--margin", "10s"]
        words += ["--start", one["start"], "--end", one["end"], "--select", one["select"]]
        done = export(root, *words, "--json", *(["--append"] if number else []))
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["samples"] > 0 and told["series"] > 0 and told["file"] == words[0]
    again = export(root, *words)
    assert again.returncode == 1 and "exists already" in again.stderr
    exported = root / "data" / "exports" / "load.gz"
    exported.with_name("cut.gz").write_bytes(exported.read_bytes()[:-400])
    files = {name: {"file": f"data/exports/{name}.gz", "scrape_interval": "1s"} for name in ("load", "cut", "none")}
    old, new = past.windows
    asked = {f"{name}-{one['version']}": (one, source) for name, source in files.items() for one in (old, new)}
    asked |= {"server-base": (old, past.source), "server-new": (new, past.source)}
    asked["elsewhere"] = (past.window("base", -900, -800), files["load"])
    trials = read(root, host, asked)
    for version in ("base", "new"):
        # Pages are kept whole, so more was exported than a trial asks for.
        from_file, from_server = (values_of(trials[f"{source}-{version}"]) for source in ("load", "server"))
        assert from_file | {"samples": None} == from_server | {"samples": None}
    facts = facts_of(trials["load-base"])
    assert facts["source"]["kind"] == "file" and facts["source"]["url"] == past.server.url
    assert not trials["load-base"].record.commands
    # A window that is not in the file, and a file that is none.
    said = cause(trials["elsewhere"])
    assert "source elsewhere: data/exports/load.gz" in said and "does not hold the window" in said
    for name, why in (("cut", "is cut off|truncated"), ("none", "there is no file data/exports/none.gz")):
        for version in ("base", "new"):
            assert re.search(why, cause(trials[f"{name}-{version}"])), cause(trials[f"{name}-{version}"])


def test_what_was_kept_of_two_real_releases_becomes_tables(host: dict[str, Any], root: Path):
    """A fallback for machines where no server can be built."""
    windows, sources = [], []
    for version in ("9.9", "10.2"):
        folder = CHECKOUT / "tests" / "data" / "prometheus" / f"mattermost-{version}"
        shutil.copy(folder / RAW, root / f"{version}.gz")
        steady = json.loads((folder / FACTS).read_text())["steady"]
        windows.append(window(version, steady["start_s"], steady["end_s"], source=version))
        sources.append({"name": version, "file": f"{version}.gz", "scrape_interval": "1s"})
    block = scraped(windows=windows, sources=sources)
    trials = hold(root, block, host)
    assert {trial.record.status for trial in trials} == {"ok"}
    tidy_family(root, [plan_of(block, host)], root / "tidy")
    labels = pl.read_parquet(root / "tidy" / "labels.parquet").filter(pl.col("group") == "store", pl.col("count") > 0)
    called = {version: set(labels.filter(pl.col("case").str.contains(version))["label"]) for version in ("9.9", "10.2")}
    assert "RoleStore.GetByNames" in called["9.9"] - called["10.2"] and len(called["9.9"] & called["10.2"]) > 20
    assert set(registry.get(FAMILY).series_schemas) <= {path.stem for path in (root / "tidy").glob("*.parquet")}


def test_what_a_prometheus_cannot_be_asked_fails_with_the_cause(past: Past, host: dict[str, Any], root: Path):
    gone = f"http://127.0.0.1:{free_ports(1)[0]}"
    foreign = f"http://127.0.0.1:{host['port']}"
    never, nobody = past.window("new", -900, -800), past.window("new", 360, 460, select='{instance="nobody"}')
    cases = {
        "gone": (past.windows[0], gone, [gone, "refused", "can this host reach it"]),
        "foreign": (past.windows[0], foreign, [foreign]),  # an SSH server
        "never": (never, past.server.url, ["no sample", "mattermost"]),
        "nobody": (nobody, past.server.url, ["no sample", "mattermost"]),
    }
    trials = read(root, host, {name: (one, {**past.source, "url": url}) for name, (one, url, _) in cases.items()})
    for name, (_, _, says) in cases.items():
        for text in says:
            assert text in cause(trials[name]), cause(trials[name])


@pytest.mark.fault(25)
def test_credentials_are_needed_sent_and_never_kept(
    data: tuple[Path, float], host: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, t0 = data
    web = root / "web.yml"
    web.write_text(
        json.dumps({"basic_auth_users": {"metrics": bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}})
    )
    basic = "Basic " + base64.b64encode(f"metrics:{PASSWORD}".encode()).decode()
    shutil.copytree(folder / "data", root / "guarded" / "data", ignore=shutil.ignore_patterns("lock"))
    with prometheus(root / "guarded", None, f"--web.config.file={web}", authorization=basic) as server:
        past = Past(server, t0)
        one = past.windows[0]
        asked = {"none": (one, past.source)}
        for name in ("unset", "wrong", "right"):
            variable = f"PROM_PASSWORD_{name.upper()}"
            asked[name] = (one, {**past.source, "user": "metrics", "password_env": variable})
        monkeypatch.setenv("PROM_PASSWORD_WRONG", WRONG)
        monkeypatch.setenv("PROM_PASSWORD_RIGHT", PASSWORD)
        trials = read(root, host, asked)
        assert "refused a question without credentials (401" in cause(trials["none"])
        assert cause(trials["unset"]) == "the environment variable PROM_PASSWORD_UNSET is not set where snakemake runs"
        wrong = cause(trials["wrong"])
        assert "refused the user and password (401" in wrong and "password_env" in wrong
        words = ["x.gz", "--url", server.url, "--start", one["start"], "--end", one["end"]]
        refused = export(root, *words, "--user", "metrics", "--password-env", "PROM_PASSWORD_WRONG")
        assert refused.returncode == 1 and "refused the user and password" in refused.stderr
        assert values_of(trials["right"])["store_mean"] == pytest.approx(0.007, rel=1e-6)
        (summary,) = trials["right"].folder.glob("metrics/stdout")
        assert '"file": "metrics.ndjson.gz"' in summary.read_text(), "the name of the user is no secret"
    (root / "said").write_text(refused.stdout + refused.stderr + wrong)
    for path in (path for path in root.rglob("*") if path.is_file() and "guarded" not in path.parts):
        assert not [secret for secret in (PASSWORD, WRONG) if secret.encode() in path.read_bytes()], path


@pytest.mark.fault(21)
def test_a_clock_that_is_an_hour_off_is_refused_or_corrected(
    past: Past, host: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
):
    ahead_s = 3600.0
    true_time = time.time
    # This machine's clock is wrong; the host's and Prometheus' clocks are right.
    monkeypatch.setattr(time, "time", lambda: true_time() + ahead_s)

    def asked(shift_s: float, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        one = past.window("base", 60 + shift_s, 160 + shift_s, select='{instance="old"}')
        return one, {**past.source, **changes}

    windows = {
        "refused": asked(0.0),
        "as-shown": asked(0.0, clock="prometheus"),
        "corrected": asked(ahead_s, clock="utc"),
    }
    trials = read(root, host, windows)
    said, as_shown, corrected = cause(trials["refused"]), trials["as-shown"], trials["corrected"]
    assert re.search(r"the clock of Prometheus is -3(599|600)\.\d+ s from this machine's", said)
    assert "`clock: prometheus`" in said and "`clock: utc`" in said
    assert facts_of(as_shown)["window"]["start_s"] == pytest.approx(past.t0 + 60)
    assert facts_of(corrected)["window"]["start_s"] == pytest.approx(past.t0 + 60, abs=1.0)
    assert facts_of(corrected)["clock"]["correction_s"] == pytest.approx(-ahead_s, abs=1.0)
    for trial in (as_shown, corrected):
        assert values_of(trial)["store_mean"] == pytest.approx(0.007, rel=1e-6)


def test_check_says_what_a_session_would_find(
    past: Past, host: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
):
    gone = f"http://127.0.0.1:{free_ports(1)[0]}"
    sources = [
        past.source,
        {"name": "gone", "url": gone},
        {"name": "file", "file": "none.gz"},
        {"name": "secret", "url": gone, "bearer_env": "PROM_TOKEN"},
    ]
    plan = plan_of(scraped(windows=[{**one, "source": "p"} for one in past.windows], sources=sources), host)
    monkeypatch.delenv("PROM_TOKEN", raising=False)
    found = checked(plan, ["sut"])
    fine = [text for good, text, _ in found if good]
    wrong = [text for good, text, _ in found if not good]
    assert len(fine) == 1 and fine[0].startswith("source p: Prometheus answers")
    assert [text.partition(":")[0] for text in wrong] == ["source gone", "source file", "source secret"]
    assert "PROM_TOKEN is not set" in wrong[2] and all(fix for good, _, fix in found if not good)
