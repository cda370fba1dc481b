"""The family log_write on Tessera's real servers: one session with good logs and with every kind of bad one."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import log_write_study
import polars as pl
import pytest
from conftest import CHECKOUT
from held_session import start_session
from log_write_study import BACKEND, FAMILY, HAMMER, LOG, OPEN, POSIX, POSIX_ARGV, SERVICES
from nothing_lost import left_on_host
from one_host import findings_of
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.families.log_write.growth import growth
from benchstudy.families.log_write.page.limits import told
from benchstudy.families.log_write.parse import note_trial
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.model.criteria import ACHIEVED
from benchstudy.model.study import Study
from benchstudy.model.studyfile import with_systems
from benchstudy.provisioning.target import provision_target

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups and mounts here")
RATE = "200/s"
# The hammer's screens cover half a minute; some of them must have seen a whole one.
SLOW_HAMMER = {**HAMMER, "warm_up": "4s", "duration": "36s", "cpus": 1}
SHORT = {"window": "5s", "warm_up": "1s", "windows": 1}
BRIEF = {**OPEN, "name": "brief", "warm_up": "0s", "duration": "1s", "request_timeout": "2s"}
BURST = {**BRIEF, "name": "burst", "leaf": "16kB", "duration": "3s", "drain": "3s"}


def of_systems() -> dict[str, Any]:
    """Services of the catalogue, as studies start them: mysql, aws, posix-sshfs and the services that they need."""
    aws = {"database": "mariadb", "objects": "rclone"}
    declared = {
        "backends": [
            {"name": "mysql", "system": "tessera-mysql", "with": {"log": "log-database"}},
            {"name": "aws", "system": "tessera-aws-emulated", "with": aws},
            {"name": "posix-sshfs", "system": "tessera-posix", "with": {"log": "log-on-sshfs"}},
        ],
        "services": {
            "mariadb": {"system": "mariadb", "with": {"max_connections": 8000}},
            "log-database": {"system": "tessera-log-mariadb", "with": {"database": "mariadb"}},
            "rclone": {"system": "rclone-s3", "with": {"listen": "{{bind}}"}},
            "log-on-sshfs": {"system": "tessera-log-on-sshfs"},
        },
    }
    services: dict[str, Any] = with_systems({"families": {FAMILY: declared}})["families"][FAMILY]["services"]
    return services


def with_(service: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**service, **changes}


def replaced(service: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    text = json.dumps(service)
    assert old in text
    return json.loads(text.replace(old, new))


def posix_in(store: str) -> dict[str, Any]:
    return {**replaced(POSIX, "log.dir", f"{store}.dir"), "needs": [store]}


def backend(name: str, service: str, **changes: Any) -> dict[str, Any]:
    plain = {key: value for key, value in BACKEND.items() if key != "antispam_service"}
    return {**plain, "name": name, "service": service, **changes}


def block(taken_port: int) -> dict[str, Any]:
    """Good logs, and logs that are each set up wrongly in one way."""
    shared = of_systems()
    few = replaced(shared["mariadb"], "--max-connections=8000", "--max-connections=12")
    of_few = {"mariadb": "few", "aws-log": "few-bucket"}
    bucket, aws = shared["aws-log"], shared["aws-antispam"]
    for old, new in of_few.items():
        bucket, aws = (json.loads(json.dumps(s).replace(f"{{{{{old}.", f"{{{{{new}.")) for s in (bucket, aws))
    listen = "--listen={{bind}}:{{port.http}}"
    services = {
        **SERVICES,
        **{name: shared[name] for name in ("mariadb", "log-database", "mysql", "rclone")},
        "other-key": with_(LOG, setup=[*LOG["setup"], *_second_key()]),
        "wrong-key": posix_in("other-key"),
        "newline-key": with_(LOG, setup=[*LOG["setup"], ["sh", "-c", "echo >> $1/log.key", "sh", "{{dir}}"]]),
        "newline": posix_in("newline-key"),
        "newline-pub": with_(LOG, setup=[*LOG["setup"], ["sh", "-c", "echo >> $1/log.pub", "sh", "{{dir}}"]]),
        "public-newline": posix_in("newline-pub"),
        "port-taken": with_(POSIX, argv=[a.replace(listen, f"--listen=127.0.0.1:{taken_port}") for a in POSIX_ARGV]),
        "tiny": with_(
            LOG,
            setup=[*LOG["setup"], ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", "{{dir}}/log"]],
            stop=["umount", "-l", "{{dir}}/log"],
        ),
        "disk-full": posix_in("tiny"),
        "refused": replaced(shared["mysql"], ":{{mariadb.secret.password}}@", ":guessed@"),
        "no-database": replaced(shared["mysql"], "{{mariadb.port.sql}}", "9"),
        "few": few,
        "few-bucket": {**bucket, "needs": ["few", "rclone"]},
        "few-connections": {**aws, "needs": ["few", "rclone", "few-bucket"]},
    }
    database = {"store": "log-database", "kind": "mysql", "databases": ["mariadb"]}
    database |= {"public_key": "{{log-database.dir}}/log.pub", "directory": "{{log-database.dir}}"}
    backends = [
        BACKEND,
        backend("mariadb", "mysql", **database, several_front_ends=True),
        backend("wrong-key", "wrong-key", **(_in("other-key") | {"public_key": "{{other-key.dir}}/other.pub"})),
        backend("newline-key", "newline", **_in("newline-key")),
        backend("public-newline", "public-newline", **_in("newline-pub")),
        backend("port-taken", "port-taken"),
        backend("disk-full", "disk-full", **_in("tiny"), expect_fs=["tmpfs"]),
        backend("not-mounted", "posix", expect_fs=["nfs4"]),
        backend("refused", "refused", **database),
        backend("no-database", "no-database", **database),
        {
            **backend("few-connections", "few-connections", kind="aws", store="few-bucket"),
            "read": "file://{{rclone.dir}}/data/log-{{few-bucket.secret.name}}",
            "public_key": "{{few-bucket.dir}}/log.pub",
            "directory": "{{rclone.dir}}/data",
            "databases": ["few"],
        },
    ]
    bad = ["wrong-key", "newline-key", "public-newline", "port-taken", "not-mounted", "refused", "no-database"]
    return log_write_study.family(
        backends=backends,
        services=services,
        generators=[OPEN, SLOW_HAMMER, BRIEF, BURST],
        rates=[RATE],
        timeout="120s",
        # A bar so low that a busy machine passes it.
        search={**SHORT, "start": "100/s", "highest": "150/s", "min_achieved": 0.5},
        limits=[{"name": "1-core", "cpus": 1, "memory": "1GB"}],
        sweeps=[
            {"backends": ["posix"], "generators": ["open"], "duplicates": ["20%"]},
            {"backends": ["posix"], "antispam": ["no"], "generators": ["hammer"], "limits": ["none"]},
            {"backends": ["posix"], "antispam": ["no"], "generators": ["open"], "rates": ["search"]},
            {"backends": ["mariadb"], "generators": ["open"], "front_ends": [2]},
            {"backends": bad, "generators": ["brief"], "limits": ["none"]},
            {"backends": ["disk-full"], "generators": ["burst"], "limits": ["none"]},
            # So fast that more than a dozen leaves access the database at once, on any machine.
            {"backends": ["few-connections"], "generators": ["brief"], "limits": ["none"], "rates": ["3000/s"]},
        ],
    )


def _second_key() -> list[list[str]]:
    keys = ["--private", "{{dir}}/other.key", "--public", "{{dir}}/other.pub"]
    return [["{{tools}}/logbench", "keygen", "--name", "tests", *keys]]


def _in(store: str) -> dict[str, str]:
    return {
        "store": store,
        "public_key": f"{{{{{store}.dir}}}}/log.pub",
        "directory": f"{{{{{store}.dir}}}}/log",
    }


@dataclass(frozen=True)
class Session:
    root: Path
    work: Path
    study: Study
    trials: list[StoredTrial]

    def trial(self, backend: str, **levels: str) -> StoredTrial:
        wanted = {"backend": backend, **levels}
        (found,) = [t for t in self.trials if wanted.items() <= t.record.levels.items()]
        return found

    def values(self, backend: str, **levels: str) -> dict[str, float]:
        trial = self.trial(backend, **levels)
        assert trial.record.status == "ok", trial.record.cause
        parsed = registry.get(FAMILY).parse(trial.record.levels, trial.folder)
        return {one.metric: one.value for one in parsed.observations}

    def cause(self, backend: str) -> str:
        record = self.trial(backend).record
        assert record.status == "failed"
        return record.cause


@pytest.fixture(scope="module")
def everything(sshd: SshdHost, tmp_path_factory: pytest.TempPathFactory) -> Session:
    if os.getuid() != 0:
        pytest.skip("only root may make control groups and mounts here")
    root = tmp_path_factory.mktemp("everything")
    host = sshd.described(root / "work")
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        family = block(foreign.getsockname()[1])
        study = log_write_study.study_of(family, host)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(CHECKOUT)
            provision_target(study, "bench", root / "facts.json")
        trials = log_write_study.hold(root, family, host)
    return Session(root, root / "work", study, trials)


def test_the_open_loop_writes_what_it_was_asked_to_and_the_log_has_it(everything: Session):
    for antispam in ("no", "yes"):
        values = everything.values("posix", antispam=antispam, rate="200-per-s", generator="open")
        assert values["offered"] == pytest.approx(200, rel=0.01)
        assert values["errors"] == values["pushback"] == values["dropped"] == 0
        assert values["accepted"] == values["offered"] * 5
        assert values["proofs_proved"] == values["proofs_asked"] == 100
        assert 0 < values["queue_p50"] <= values["queue_p99"] <= values["queue_max"] < values["integrate_max"]
        assert 0 < values["server_cpu"] < 1 and 0 < values["generator_cpu"] < 1
        assert 1 << 20 < values["server_peak_memory"] < 1e9
        # A fifth of the leaves came twice. Even without antispam, the servers remember the latest ones.
        assert values["duplicates"] == pytest.approx(200, rel=0.35)
        assert values["qps"] == pytest.approx(160, rel=_uncertain(values))
        assert values["achieved_share"] == pytest.approx(1, rel=_uncertain(values))
        trial = everything.trial("posix", antispam=antispam, rate="200-per-s", generator="open")
        written = json.loads((trial.folder / "load/files/result.json").read_text())
        seen = [(one["t_s"], one["size"]) for one in written["checkpoints"]]
        assert values["qps"] == pytest.approx(growth(seen, 1.0, 6.0, 1.0).qps)
        assert seen[-1][1] == written["total"]["accepted"] - written["total"]["duplicates"]
    record = trial.record
    assert record.commands[0].tool.name == "logbench" and record.commands[0].tool.sha256
    # If the suite's own other work slowed the log down, it says that instead.
    met = values["achieved_share"] >= ACHIEVED
    limit = told(note_trial(trial.folder)["limited_by"])
    assert limit.startswith("nothing: the log achieved the offered rate" if met else "unknown: ")
    assert {command.label for command in record.commands} >= {"load", "server", "store", "samples-here"}


def _uncertain(values: dict[str, float]) -> float:
    """How far the growth within the window of 5 s may be from the offered rate, as a share.

    A leaf that was offered just before the window begins or ends may be in the log as late as the latest leaf was: a
    publish step on an idle machine, seconds on a busy one. Besides, five publish steps are few.
    """
    return 0.15 + values["integrate_max"] / 5


def test_growth_is_what_the_hammer_says_of_the_same_run(everything: Session):
    values = everything.values("posix", generator="hammer")
    assert values["qps_of_hammer_window"] == pytest.approx(values["hammer_qps_mean"], rel=0.03)
    assert values["qps"] == pytest.approx(200, rel=0.05)
    assert values["hammer_writers"] == 400 and values["hammer_oversupply"] == 0
    assert 0 < values["hammer_queue_min"] <= values["hammer_queue_avg"] <= values["hammer_queue_max"]
    assert values["proofs_proved"] == values["proofs_asked"] == 100
    trial = everything.trial("posix", generator="hammer")
    assert any(note["rule"] == "means" for note in trial.record.verified["problems"])


def test_two_servers_of_one_log(everything: Session):
    values = everything.values("mariadb")
    assert values["errors"] == 0 and values["proofs_proved"] == 100
    assert 0 < values["database_cpu"] < 1
    commands = everything.trial("mariadb").record.commands
    assert {"server", "server-2", "store"} <= {command.label for command in commands}
    schemas = {line for line in _argv_of(commands, "server") if "mysql_uri" in line}
    assert schemas == {line for line in _argv_of(commands, "server-2") if "mysql_uri" in line}


def _argv_of(commands: Any, label: str) -> list[str]:
    (command,) = [command for command in commands if command.label == label]
    return command.argv


def test_a_search_ends_where_the_study_says(everything: Session):
    values = everything.values("posix", rate="search")
    assert values["capacity_pass"] == 150 and "capacity_fail" not in values
    assert values["qps"] == pytest.approx(150, rel=_uncertain(values))
    trial = everything.trial("posix", rate="search")
    assert told(note_trial(trial.folder)["limited_by"]).endswith("every rate up to 150/s met the objective")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("wrong-key", ["the public key belongs to another log", "does not verify"]),
        ("public-newline", ["the key file", "ends with a newline"]),
        ("port-taken", ["another program uses the port", "address already in use"]),
        ("disk-full", ["the disk of the log's directory or database is full"]),
        ("not-mounted", ["and the study expects nfs4: is the mount missing?"]),
        ("refused", ["the database refused the server", "Access denied"]),
        ("no-database", ["the database does not answer"]),
        ("few-connections", ["the database has too few connections (max_connections)"]),
    ],
)
def test_what_is_set_up_wrongly_is_the_cause(everything: Session, name: str, parts: list[str]):
    cause = everything.cause(name)
    for part in parts:
        assert part in cause


def test_a_newline_after_the_private_key_is_none_of_the_servers_concern(everything: Session):
    assert everything.values("newline-key")["proofs_proved"] == 100


def test_the_tables_have_every_trial(everything: Session):
    plan = everything.study.session("bench", FAMILY)
    folder = everything.root / "tidy"
    tidy_family(everything.root, [plan], folder)
    observations = pl.read_parquet(folder / "observations.parquet")
    assert observations["case"].n_unique() == len(plan.cases)
    cases = pl.read_parquet(folder / "cases.parquet")
    assert cases.filter(pl.col("rate") == "search")["rate_per_s"].to_list() == [None]
    assert set(cases["duplicate_share"]) == {0.0, 0.2}
    steps = pl.read_parquet(folder / "steps.parquet")
    assert steps["offered_per_s"].to_list() == [100, 150] and steps["passed"].all()
    growth = pl.read_parquet(folder / "growth.parquet")
    assert growth.filter(pl.col("size") > 0)["case"].n_unique() == 6
    assert set(pl.read_parquet(folder / "resources.parquet")["process"]) == {"server", "generator", "database", "disk"}


def test_nothing_of_a_session_is_left(everything: Session):
    assert left_on_host(everything.work) == []
    text = "".join(path.read_text(errors="replace") for path in everything.root.glob("data/raw/**/*") if path.is_file())
    assert "PRIVATE+KEY" not in text


def test_check_looks_for_programs_and_variables_without_measuring(
    everything: Session, sshd: SshdHost, monkeypatch: pytest.MonkeyPatch
):
    dsn = {**LOG, "secret_env": {"dsn": "BENCHSTUDY_TEST_DSN"}}
    absent = {**POSIX, "argv": ["{{tools}}/tessera-cephfs"]}
    config = log_write_study.study_of(
        log_write_study.family(services={**SERVICES, "log": dsn, "posix-antispam": absent})
    ).families[FAMILY]
    host = sshd.host.model_copy(update={"work_dir": str(everything.work)})
    monkeypatch.delenv("BENCHSTUDY_TEST_DSN", raising=False)
    findings = findings_of(registry.get(FAMILY), config, host, "sut")
    problems = {what for fine, what, _ in findings if not fine}
    assert problems == {"BENCHSTUDY_TEST_DSN is not set", "service posix-antispam: tessera-cephfs is missing"}
    found = {what.partition(":")[0] for fine, what, _ in findings if fine}
    assert {"generator logbench", "generator tessera-hammer", "service posix", "service log"} <= found


@needs_root
def test_nothing_survives_a_controller_that_was_killed(sshd: SshdHost, everything: Session, tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "tools").symlink_to(everything.work / "tools")
    services = of_systems()
    family = log_write_study.family(
        services={n: services[n] for n in ("file-tree", "openssh", "log-on-sshfs", "posix-sshfs", "mariadb")},
        backends=[
            {
                **backend("sshfs", "posix-sshfs", store="log-on-sshfs", expect_fs=["fuse.sshfs"]),
                "public_key": "{{log-on-sshfs.dir}}/log.pub",
                "directory": "{{log-on-sshfs.dir}}/mount",
                "databases": ["mariadb"],
            }
        ],
        generators=[{**OPEN, "duration": "300s"}],
        timeout="400s",
    )
    host = sshd.described(work)
    study = {
        "study": "small",
        "blocks": 1,
        "thresholds": {"lease": "3s", "reconnect": "3s"},
        "hosts": {"here": host},
        "targets": {"bench": {"roles": {"sut": "here"}}},
        "families": {FAMILY: family},
    }
    controller = start_session(tmp_path / "project", study)
    try:
        until(
            lambda: controller.poll() is not None or any("logbench write" in line for line in left_on_host(work)), 120
        )
        assert controller.poll() is None
        there_was = " ".join(left_on_host(work))
    finally:
        controller.kill()
        controller.wait(60)
        until(lambda: not left_on_host(work), 90)
    for what in ("tessera-posix", "mariadbd", "sshfs", "/mount"):
        assert what in there_was, f"{what} could have survived"
