"""The embedded study's real file servers in front of a real SFTP server, loaded from another host; and its k6."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import http_study
import pytest
import yaml
from conftest import CHECKOUT, Project
from http_study import FAMILY
from sshd_hosts import SshdHost

from benchstudy.commands import cli
from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.families.http_concurrency.page.tables import HttpTables
from benchstudy.families.http_concurrency.scripts import SCRIPTS
from benchstudy.families.shared.levels import Rate
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.model.study import Study
from benchstudy.model.studyfile import load_study, parse_study, with_systems
from benchstudy.provisioning.target import provision_target
from benchstudy.report.results.results import Results

HTTP = registry.get(FAMILY)
CPUS = len(os.sched_getaffinity(0))
SERVICE_ADDRESS = "127.0.0.2"  # not the one on which everything listens by default
FULL_SIZE = CHECKOUT / "config/studies/filestash-http.yaml"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups here")


def embedded() -> dict[str, Any]:
    """The family's block as in the embedded study."""
    return with_systems(yaml.safe_load((CHECKOUT / "config/config.yaml").read_text()))["families"][FAMILY]


@dataclass(frozen=True)
class Held:
    """A session that was held: its trials by "server endpoint limits generator", its study, and its tools' folder."""

    trials: Mapping[str, StoredTrial]
    root: Path
    study: Study
    tools: Path
    tables: HttpTables

    def values(self, name: str) -> dict[str, float]:
        trial = self.trials[name]
        assert trial.record.status == "ok", f"{name}: {trial.record.cause}"
        parsed = HTTP.parse(trial.record.levels, trial.folder)
        return {observation.metric: observation.value for observation in parsed.observations}

    def answer(self, name: str) -> Mapping[str, Any]:
        """What the server answered to the check before the load."""
        return json.loads((self.trials[name].folder / "http.json").read_text())["checks"]["before"]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """One block of a few cases, with the servers on one host and the generators on another, both provisioned."""
    if os.getuid() != 0:
        pytest.skip("only root may make control groups here")
    root = tmp_path_factory.mktemp("file-servers")
    block = embedded()
    block["servers"] = [server for server in block["servers"] if not server.get("ceiling")]
    block |= {
        "timeout": "60s",
        "limits": [*block["limits"], {"name": "a-cpu-too-many", "cpus": CPUS + 1}],
        "generators": [
            {"name": "ab", "tool": "ab", "requests": 400, "warm_up": 50},
            {"name": "wrk", "tool": "wrk", "duration": "2s"},  # a busy machine makes two to four thumbnails per second
            {"name": "k6", "tool": "k6", "duration": "1s", "max_in_flight": 20},
        ],
        "concurrency": [10],
        "sweeps": [
            {"servers": ["sftpgo"], "limits": ["1-core-256MiB"], "generators": ["ab"]},
            {
                "servers": ["sftpgo"],
                "endpoints": ["list"],
                "limits": ["1-core-256MiB"],
                "generators": ["k6"],
                "rates": ["50/s"],
            },
            {"servers": ["copyparty"], "limits": ["1-core-256MiB"], "generators": ["wrk"], "concurrency": [5]},
            {
                "servers": ["sftpgo"],
                "endpoints": ["static"],
                "limits": ["1-core-32MiB", "a-cpu-too-many"],
                "generators": ["ab"],
            },
        ],
    }
    with (
        SshdHost(root / "sshd-near") as near,
        SshdHost(root / "sshd-far") as far,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("BENCHSTUDY_HOST_LOCK", raising=False)  # each host has its own
        patch.chdir(CHECKOUT)
        hosts = {
            "near": near.described(root / "near", service_address=SERVICE_ADDRESS),
            "far": far.described(root / "far"),
        }
        roles = {"sut": "near", "load": "far"}
        declared = {**http_study.declared(block), "hosts": hosts, "targets": {"bench": {"roles": roles}}}
        study = parse_study(declared)
        assert provision_target(study, "bench", root / "facts.json").problems == []
        trials = {}
        for trial in http_study.measure(root / "project", study):
            levels = trial.record.levels
            trials[" ".join(levels[factor] for factor in ("server", "endpoint", "limits", "generator"))] = trial
    tidy_family(root / "project", [study.session("bench", FAMILY)], root / "tidy")
    tables = HttpTables(HttpLoad(Results(root / "tidy", study="http", family=FAMILY)))
    yield Held(trials, root, study, root / "far/tools/bin", tables)


def test_a_folder_is_listed_through_the_sftp_server(held: Held):
    values, answer = held.values("sftpgo list 1-core-256MiB ab"), held.answer("sftpgo list 1-core-256MiB ab")
    assert values["requests"] == 400 and values["errors"] == 0
    # 100 names are no login page and no error: SFTPGo's JSON has some 70 bytes for each.
    assert answer["content_type"].startswith("application/json") and values["document_length"] > 100 * len("file-1.txt")
    assert values["document_length"] == answer["length"]
    assert 20 << 20 < values["server_peak_memory"] <= 256 << 20
    assert 0 < values["server_cpu"] <= 1.1
    static = held.values("sftpgo static 1-core-256MiB ab")
    assert static["errors"] == 0 and static["document_length"] == 14_091


def test_every_thumbnail_that_was_answered_was_made(held: Held):
    name = "copyparty transcode 1-core-256MiB wrk"
    trial, values = held.trials[name], held.values(name)
    assert values["errors"] == 0 and values["requests"] >= 5
    assert trial.record.verified["left_by_the_load"] >= values["requests"]
    before, after = (trial.record.verified["checked"][when] for when in ("before", "after"))
    assert before["content_type"] == after["content_type"] == "image/jpeg"


def test_the_load_came_from_the_other_host(held: Held):
    for trial in held.trials.values():
        if trial.record.status == "ok":
            hosts = {command.label: (command.role, command.host) for command in trial.record.commands}
            assert hosts["load"] == ("load", "far") and hosts["server"] == ("sut", "near")
            assert trial.record.verified["url"].startswith(f"http://{SERVICE_ADDRESS}:")
            assert trial.record.verified["placement"]["same_host"] is False
    k6 = held.trials["sftpgo list 1-core-256MiB k6"].record.commands[0]
    assert k6.argv[0] == str(held.tools / "k6") and held.values("sftpgo list 1-core-256MiB k6")["errors"] == 0


def test_a_limit_that_is_too_small_or_too_large_is_told_in_the_table(held: Held):
    small, large = (held.trials[f"sftpgo static {limits} ab"].record for limits in ("1-core-32MiB", "a-cpu-too-many"))
    killed = small.cause.startswith("OOM: killed by the kernel at its memory limit of 32 MiB (peak 3")
    # On a busy disk, it only reads its own pages again, and the kernel sees no reason to kill it.
    starved = "service sftpgo: its memory limit of 32 MiB was used up: not ready within 30 s"
    assert killed or small.cause.startswith(starved)
    held_to = small.commands[-1].limits
    assert bool(held_to["oom_kills"]) == killed
    assert held_to["peak_memory_bytes"] == pytest.approx(32 << 20, rel=0.03)
    refused = f"limits.cpus: {CPUS + 1} CPUs are requested, but this host has {CPUS}"
    assert refused in large.cause
    shown = {}
    for table in held.tables.throughput():
        for limits in ("1-core-32MiB", "1-core-256MiB", "a-cpu-too-many"):
            if f"{limits} · static" in table.caption:
                column = table.columns.index(next(name for name in table.columns if "sftpgo" in name))
                shown[limits] = next(row[column].lines for row in table.rows if row[column].kind != "missing")
    told = "OOM (1 of 1)" if killed else "failed: its memory limit of 32 MiB was used up"
    assert shown["1-core-32MiB"][0].startswith(told)
    assert shown["a-cpu-too-many"] == (f"failed: {refused} (1 of 1)",)
    assert re.match(r"[\d,.]+ ?/s", shown["1-core-256MiB"][0])


@pytest.mark.parametrize(
    ("rate", "arrivals", "unit"),
    [("300/s", 300, "1s"), ("100/min", 100, "1m0s"), ("12.345/s", 12_345, "16m40s"), ("0.125/min", 125, "16h40m0s")],
)
def test_k6_asks_at_exactly_the_rate(held: Held, rate: str, arrivals: int, unit: str):
    environment = http_study.load("k6", rate_per_s=Rate(rate).per_s, duration=1.0).environment()
    inspected = subprocess.run(
        [held.tools / "k6", "inspect", "--include-system-env-vars", str(SCRIPTS["k6"])],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        timeout=60,
    )
    load = json.loads(inspected.stdout)["scenarios"]["load"]
    assert (load["rate"], load["timeUnit"]) == (arrivals, unit)


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ({"duration_s": 1.4}, 0.5),  # at most; so there was room, whatever k6 did to prepare
        ({"duration_s": 1.4, "cpu_user_s": 0.7}, None),  # 0.95 at most, 0.55 at least: k6 may have been the limit
        ({"duration_s": 1.4, "cpu_user_s": 1.2}, 1),  # at least 1.05
        ({"cpu_user_s": None}, None),
    ],
)
def test_what_a_generator_used_is_told_unless_that_leaves_open_whether_it_was_the_limit(
    held: Held, edited: dict[str, Any], told: float | None, tmp_path: Path
):
    trial = held.trials["sftpgo list 1-core-256MiB ab"]
    folder = tmp_path / "copy"
    shutil.copytree(trial.folder, folder)
    record = json.loads((folder / "load/supervisor.json").read_text())
    load_s = held.values("sftpgo list 1-core-256MiB ab")["duration"]
    for path in (folder / "load", folder / "load/supervisor.json"):
        path.chmod(0o755)

    def share(**changed: Any) -> float | None:
        (folder / "load/supervisor.json").write_text(json.dumps({**record, **changed}))
        found = {o.metric: o.value for o in HTTP.parse(trial.record.levels, folder).observations}
        return found.get("generator_cpu")

    busy = {"cpu_user_s": load_s / 4, "cpu_system_s": load_s / 4, "duration_s": load_s * 1.1}
    assert share(**busy) == pytest.approx(0.5)
    assert share(**busy | {"cpu_user_s": load_s * 2}) == 1
    unknown = {name: value if value is None else value * load_s for name, value in edited.items()}
    assert share(**busy | unknown) == (told and pytest.approx(told))


def test_the_page_at_full_size_has_all_of_its_cells(capsys: pytest.CaptureFixture[str]):
    study = load_study(FULL_SIZE)
    (plan,) = study.sessions()
    cells: dict[tuple[str, str, str], set[int]] = {}
    for case in plan.cases:
        levels = case.levels
        if "concurrency" in levels:
            key = (levels["server"], levels["limits"], levels["endpoint"])
            cells.setdefault(key, set()).add(int(levels["concurrency"]))
    page = {1, 5, 10, 20, 50, 100, 500, 1000}
    offered = {"nginx": ["static", "list"], "sftpgo": ["static", "list"]}
    offered |= {server: ["static", "list", "transcode"] for server in ("copyparty", "filestash")}
    for server, endpoints in offered.items():
        for endpoint in endpoints:
            for limits in ("1-core-32MiB", "2-cores-128MiB", "4-cores-512MiB"):
                assert cells[server, limits, endpoint] == page
    assert 4000 in cells["nginx", "none", "static"] and cells["null-server", "none", "null"] == page | {4000}
    assert cli.main(["cases", str(FULL_SIZE)]) == 0
    assert "server=filestash,limits=4-cores-512MiB,endpoint=transcode,generator=wrk" in capsys.readouterr().out


@needs_root
def test_the_study_among_the_examples_runs_as_written(project: Project, monkeypatch: pytest.MonkeyPatch):
    """One block of it, and its own page; the code for more of them is the same for all studies."""
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(project.root / "host.lock"))
    examples = (CHECKOUT / "docs" / "examples.md").read_text()
    [(name, example)] = re.findall(r"```yaml\n# (config/studies/web-server\.yaml)\n(.*?)```", examples, re.DOTALL)
    assert f"\nsnakemake --cores 8 report --configfile {name}\n" in examples
    (project.root / name).write_text(example)
    page = project.root / "reports/web-server/http_concurrency.html"
    project.snakemake(page.relative_to(project.root), "--configfile", name, "--config", "blocks=1")
    study = load_study(project.root / name)
    root = project.root / "data/raw" / study.study / "this-machine" / FAMILY
    index = json.loads((root / "session.json").read_text())
    assert [trial["status"] for trial in index["trials"]] == ["ok"] * 3
    assert "python · 1-core-64MiB" in page.read_text() and "no ceiling" in page.read_text()
