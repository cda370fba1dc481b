"""Every available system of the catalogue, started for real: installed or built, started, and ready."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT
from one_host import trials_held
from sshd_hosts import SshdHost

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.studyfile import parse_study
from benchstudy.provisioning.target import provision_target

CATALOGUE = Catalogue()
# Systems that cannot run alone, because their files refer to the trial's own server; other tests have these.
OF_A_TRIAL = {"prometheus"}
GIVEN = {"mattermost": {"release": "9.9"}}
SMALL = {"users": 10, "teams": 1, "channels": 3, "posts": 40, "direct_posts": 5}
SERVICES = {
    "mattermost-data": {"system": "mattermost-data", "with": SMALL},
    "data-in-mariadb": {"system": "mattermost-data", "with": {**SMALL, "database": "mariadb"}},
}
SERVICES["too-many-files"] = {"argv": ["sleep", "infinity"], "open_files": 2_000_000_000, "ready": {"file": "{{dir}}"}}
GIVEN["mattermost-mariadb"] = {"data": "data-in-mariadb"}
# Logs in at the SFTP server with the data of Filestash's configuration, and lists the files.
LISTED = """
import json, os, subprocess, sys
made = json.loads(subprocess.check_output(sys.argv[1:]))
session = json.loads(made["middleware"]["attribute_mapping"]["params"])[made["connections"][0]["label"]]
with open(os.open("key", os.O_WRONLY | os.O_CREAT, 0o600), "w") as key:
    key.write(session["password"])
account = f"{session['username']}@{session['hostname']}:{session['path']}/files"
options = ["IdentityFile=key", "IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
words = [word for option in options for word in ("-o", option)]
subprocess.run(["sftp", "-b", "-", "-P", session["port"], *words, account], input=b"ls -1", check=True)
"""
FILESTASH_CONFIG = ["python3", str(CHECKOUT / "envs/filestash/config.py")]
STORAGE = ["{{system.dir}}/user_key", "{{system.port.ssh}}", "{{file-tree.dir}}/export"]


def startable() -> list[str]:
    """Systems with a service that needs no program or account of the user."""
    return [
        name
        for name, found in CATALOGUE.items()
        if found.system.services
        and name not in OF_A_TRIAL
        and {p for p, parameter in found.system.parameters.items() if parameter.required} <= GIVEN.get(name, {}).keys()
    ]


def commands() -> list[dict[str, Any]]:
    """One command per system, which runs for its trial, and others that print their levels.

    Rows take long to make, and belong to the servers that use them.
    """
    plain: list[dict[str, Any]] = [{"name": name, "system": name, "argv": ["true"]} for name in startable()]
    for each in plain:
        each |= {} if each["name"] in SERVICES else {"system_for": "trial"}
        each |= {"with": GIVEN[each["name"]]} if each["name"] in GIVEN else {}
    return [
        *plain,
        {
            "name": "buffers",
            "system": "postgresql",
            "with": {"shared_buffers": ["16MB", "32MB"]},
            "argv": ["psql", "-tAc", "show shared_buffers", "postgres"],
        },
        {
            "name": "bench",
            "system": "postgresql",
            "argv": ["pgbench", "-n", "-t", "20", "postgres"],
            "prepare": [["pgbench", "-i", "-q", "postgres"]],
            "metrics": {"tps": {"regex": "tps = ([0-9.]+)", "unit": "1/s", "better": "higher"}},
        },
        {
            "name": "gets",
            "system": "redis",
            "with": {"appendfsync": "always"},
            "argv": "redis-benchmark -h {{system.bind}} -p {{system.port.redis}} -n 500 -t set --csv".split(),  # noqa: SIM905
            "metrics": {"sets": {"regex": '"SET","([0-9.]+)"', "unit": "1/s", "better": "higher"}},
        },
        {"name": "files", "system": "too-many-files", "argv": ["true"]},
        {
            "name": "filestash-files",
            "system": "openssh",
            "argv": ["python3", "-c", LISTED, *FILESTASH_CONFIG, *STORAGE],
        },
        {"name": "rows", "system": "mariadb", "argv": ["mariadb", "-u", "bench", "-e", "select 6 * 7 as answer"]},
    ]  # fmt: skip


@dataclass(frozen=True)
class Held:
    trials: Mapping[str, StoredTrial]
    facts: Mapping[str, Any]
    values: Any

    def out(self, case: str) -> str:
        trial = self.trials[case]
        assert trial.record.status == "ok", trial.record.cause
        return (trial.folder / "files/run-1/stdout").read_text()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    if os.getuid() != 0:
        pytest.skip("only root may mount and install here")
    folder = tmp_path_factory.mktemp("systems")
    with (
        SshdHost(folder / "sshd") as sshd,
        tempfile.TemporaryDirectory(prefix="benchstudy-") as work,  # short: socket names have at most 107 characters
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(CHECKOUT)
        study = parse_study(
            {
                "study": "systems",
                "blocks": 1,
                "hosts": {"here": sshd.described(f"{work}/w")},
                "targets": {"bench": {"roles": {"sut": "here"}}},
                "families": {"command": {"commands": commands(), "services": SERVICES, "timeout": "60s"}},
            }
        )
        provisioned = provision_target(study, "bench", folder / "facts.json")
        assert provisioned.problems == []
        plan = study.session("bench", "command")
        trials = trials_held(folder, plan)

        def values(case: str) -> dict[str, float | None]:
            trial = by_case[case]
            assert trial.record.status == "ok", trial.record.cause
            parsed = plan.family.parse(trial.record.levels, trial.folder)
            return {seen.metric: seen.value for seen in parsed.observations}

        by_case = {trial.record.case.removeprefix("command="): trial for trial in trials}
        yield Held(by_case, provisioned.hosts["here"], values)


@pytest.mark.parametrize("name", startable())
def test_it_is_installed_started_and_ready(held: Held, name: str):
    record = held.trials[name].record
    assert record.status == "ok", record.cause


def test_only_what_the_study_starts_is_installed(held: Held):
    started = {name for name in startable() if CATALOGUE[name].system.services}
    wanted = {package for name in started for package in CATALOGUE[name].system.packages}
    # What a client brings is needed for the commands that name it.
    common = {"python3", "python3-venv", "util-linux"}
    assert set(held.facts["packages"]) - common <= wanted | {"redis-tools", "mariadb-client"}
    assert not {"wrk", "apache2-utils"} & set(held.facts["packages"])
    assert "k6" not in held.facts["tools"] and {"sftpgo", "tessera-posix", "logbench"} <= set(held.facts["tools"])


def test_a_level_of_a_parameter_is_what_the_server_runs_with(held: Held):
    for level in ("16MB", "32MB"):
        assert held.out(f"buffers,shared_buffers={level}") == f"{level}\n"


def test_programs_find_the_server_by_what_its_system_offers(held: Held):
    assert held.values("bench")["tps"] > 10
    assert held.values("gets")["sets"] > 10
    assert "42" in held.out("rows")


def test_filestash_is_configured_with_an_account_of_the_storage(held: Held):
    assert "file-100.txt" in held.out("filestash-files").split()


def test_sessions_leave_what_each_service_said(held: Held, tmp_path_factory: pytest.TempPathFactory):
    """A level has a server of its own, and an unnamed one is shared: each is in the case's definition once."""
    services = {case: trial.record.definition["services"] for case, trial in held.trials.items()}
    assert set(services["copyparty"]) == {"copyparty", "file-tree"}
    assert set(services["sftpgo"]) == {"sftpgo", "openssh", "file-tree"}
    [one, other] = (json.dumps(services[f"buffers,shared_buffers={level}"]) for level in ("16MB", "32MB"))
    assert one != other and one.replace("16MB", "32MB") == other


def test_a_service_that_may_not_open_the_files_it_needs_does_not_start(held: Held):
    record = held.trials["files"].record
    assert record.status == "failed"
    assert "service too-many-files: start-failed: open_files: 2000000000 are requested" in record.cause


def test_every_family_that_takes_systems_has_one_to_take():
    offered = {(family, key) for f in CATALOGUE.values() for family, lists in f.system.offers.items() for key in lists}
    for family in registry.names():
        for key in registry.get(family).Config.takes_systems:
            assert (family, key) in offered or key == "databases", f"{family}.{key}"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change its root")
@pytest.mark.parametrize("script", ["mattermost/data/unprivileged.sh", "postgresql/run.sh"])
def test_where_root_may_make_no_user_namespace_postgresql_names_the_way_out(script: str, tmp_path: Path):
    """As in a chroot, and in many containers."""
    steps = 'mount --rbind / "$0" && exec chroot "$0" sh "$1" true'
    there = ["unshare", "--mount", "sh", "-c", steps, tmp_path, CHECKOUT / "envs" / script]
    done = subprocess.run(there, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "refuses to run as root" in done.stderr and "hosts.HOST.user" in done.stderr
