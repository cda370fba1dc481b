"""The system under test of load_test: real releases of Mattermost from pins, on real databases with a data set.

The builds take minutes, once per machine; all tests share them (conftest.py).
"""

import ast
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager

import pytest
import yaml
from conftest import CHECKOUT, copy_project
from load_test_study import checked
from ports import free_ports
from provisioning import provision_here
from waiting import until

from benchstudy.families.load_test.system_files import ACCOUNTS_SCHEMA
from benchstudy.model.needs import named_tools, started_programs
from benchstudy.model.services import PLACEHOLDER
from benchstudy.model.studyfile import load_study, parse_study, with_systems

ON_HOST = CHECKOUT / "envs" / "mattermost" / "data"
SEED = ON_HOST / "seed.py"
# Variables of the trial, in addition to those that a service needs; see docs/families/load_test.md.
OF_THE_TRIAL = {"server.bind", "server.port.metrics", "load.bind", "load.port.metrics"}
SMALL = {"users": 8, "teams": 2, "channels": 3, "posts": 120, "direct-posts": 20, "seed": 7}


@pytest.fixture(scope="module")
def studies():
    """The blocks of load_test that ship with the project and run something, by file."""
    files = [CHECKOUT / "config" / "config.yaml", *sorted((CHECKOUT / "config" / "studies").glob("*.yaml"))]
    blocks = {file.name: with_systems(yaml.safe_load(file.read_text()))["families"].get("load_test") for file in files}
    return {name: block for name, block in blocks.items() if block and block.get("services")}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Folder of the real servers and of the import, provisioned as for a study that starts them."""
    root = tmp_path_factory.mktemp("mattermost")
    project = copy_project(root / "project")
    services = {
        "server": {"argv": ["{{tools}}/mattermost-9.9", "server"]},
        "newer": {"argv": ["{{tools}}/mattermost-10.2", "server"]},
        "data": {"argv": ["sleep"], "setup": [["{{tools}}/mattermost-9.9-import"]]},
        "database": {"argv": ["sh", "{{library.load-data}}/unprivileged.sh", "postgres"]},
        "other": {"argv": ["mariadbd"], "setup": [["mariadb-install-db"]]},
        "metrics": {"argv": ["prometheus"]},
        "machine": {"argv": ["prometheus-node-exporter"]},
        "elsewhere": {"role": "storage", "argv": ["/usr/sbin/sshd"]},
    }
    facts = provision_here(
        project.root,
        "load_test",
        {"services": services},
        root / "work",
        target_roles=["sut", "load"],  # so that this host needs no Locust
        environment=project.environment,
    )
    packages = {"postgresql", "mariadb-server", "prometheus", "prometheus-node-exporter"}
    assert set(facts["packages"]) == packages and all(facts["packages"].values())
    assert set(facts["tools"]) == {"mattermost-9.9", "mattermost-10.2", "mattermost-9.9-import"}
    return root / "work" / "tools" / "bin"


# --- what is in it ---------------------------------------------------------------------------------------------------


def data_set(**changes):
    """The lines of a data set, made with a Python version that a host may have."""
    sizes = {name.replace("-", "_"): number for name, number in {**SMALL, **changes}.items()}
    script = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import content\n"
        "for line in content.lines(content.Size(**json.loads(sys.argv[2]))): print(json.dumps(line))"
    )
    argv = [sys.executable, "-I", "-S", "-c", script, str(ON_HOST), json.dumps(sizes)]
    text = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    return [json.loads(line) for line in text.splitlines()]


def test_a_data_set_is_the_same_everywhere_for_the_same_sizes_and_seed():
    lines = data_set()
    assert lines == data_set()
    # A change of this data changes the basis of every published figure.
    digest = hashlib.sha256("\n".join(json.dumps(line) for line in lines).encode()).hexdigest()
    assert digest.startswith("50a3e0cf28f13a27")
    assert data_set(seed=8) != lines


def test_a_data_set_has_the_sizes_asked_for_and_only_members_speak():
    lines = data_set()
    kinds = Counter(line["type"] for line in lines)
    posts = [line["post"] for line in lines if line["type"] == "post"]
    assert lines[0] == {"type": "version", "version": 1}
    assert (kinds["team"], kinds["channel"], kinds["user"], kinds["direct_post"]) == (2, 6, 8, 20)
    assert sum(1 + len(post.get("replies", ())) for post in posts) == 120
    member = {
        (team["name"], channel["name"], user["username"])
        for user in (line["user"] for line in lines if line["type"] == "user")
        for team in user["teams"]
        for channel in team["channels"]
    }
    spoken = [
        (post["team"], post["channel"], said["user"]) for post in posts for said in [post, *post.get("replies", ())]
    ]
    assert set(spoken) <= member
    moments = [said["create_at"] for post in posts for said in [post, *post.get("replies", ())]]
    assert moments == sorted(set(moments))
    assert {post["channel"] for post in posts} >= {"town-square", "off-topic"}


@pytest.mark.parametrize("file", sorted(path.name for path in ON_HOST.glob("*.py")))
def test_what_runs_on_a_host_is_python_3_9(file):
    ast.parse((ON_HOST / file).read_text(), feature_version=(3, 9))


# --- the studies -----------------------------------------------------------------------------------------------------


def test_every_placeholder_of_a_shipped_study_is_filled(studies):
    for name, block in studies.items():
        services = block["services"]
        for label, service in services.items():
            known = {"tools", "dir", "bind", *(f"library.{library}" for library in service.get("libraries", ()))}
            known |= {f"port.{port}" for port in service.get("ports", ())}
            known |= {f"secret.{secret}" for secret in service.get("secrets", ())}
            for other in service.get("needs", ()):
                known |= {f"{other}.dir", f"{other}.bind"}
                known |= {f"{other}.port.{port}" for port in services[other].get("ports", ())}
                known |= {f"{other}.secret.{secret}" for secret in services[other].get("secrets", ())}
            if label == block["prometheus"]["service"]:
                known |= OF_THE_TRIAL
            used = {found[1] for found in PLACEHOLDER.finditer(json.dumps(service))}
            assert used <= known, (name, label, used - known)


def test_every_release_of_a_shipped_study_finds_its_own_tables(studies):
    """The database address of a server names the database of its own release, as the seeder does."""
    for name, block in studies.items():
        for version in block["versions"]:
            for database, label in version.get("services", {}).items():
                service = block["services"][label]
                release = re.search(r"mattermost-([\d.]+)", service["argv"][0])[1]
                assert f"/mattermost_{release.replace('.', '_')}?" in service["env"]["MM_SQLSETTINGS_DATASOURCE"], (
                    name,
                    label,
                )
                data = block["services"][service["needs"][-1]]["setup"][0]
                assert f"--release={release}={{{{tools}}}}/mattermost-{release}" in data
                assert f"--database={database}" in data


def test_the_study_with_verdicts_starts_what_the_embedded_one_starts(studies):
    """Both must stay the same."""

    def but_sizes(block):
        setup = json.dumps({name: block[name] for name in ("services", "system", "prometheus", "databases")})
        return re.sub(r"--(users|posts|direct-posts)=\d+", "", setup)

    assert but_sizes(studies["mattermost-this-machine.yaml"]) == but_sizes(studies["config.yaml"])
    plan = load_study(CHECKOUT / "config" / "studies" / "mattermost-this-machine.yaml").session(
        "this-machine", "load_test"
    )
    bounded = [case for case in plan.cases if case.levels["load"] == "bounded"]
    assert len(bounded) == 3 and plan.blocks >= 6, "a median of six has an interval of 95 %"


def test_the_full_study_is_whole_and_its_programs_go_where_they_run():
    study = load_study(CHECKOUT / "config" / "studies" / "mattermost-releases.yaml")
    plan = study.session("bench", "load_test")
    assert len(plan.cases) == 2 * 3 * 2  # databases, versions with the base again, loads
    block = plan.config.model_dump(mode="json", serialize_as_any=True)
    servers = {"mattermost-9.9", "mattermost-10.2"}
    assert named_tools(block, ["sut"]) == servers
    assert named_tools(block, ["db"]) == {*servers, "mattermost-9.9-import"}
    assert {"postgres", "mariadbd"} <= started_programs(block, ["db"])
    assert "prometheus" in started_programs(block, ["monitor"])
    assert "prometheus-node-exporter" in started_programs(block, ["sut"])


def test_check_names_what_a_host_lacks(studies, tmp_path):
    """A host that nobody provisioned, with only what its packages bring."""
    block = studies["config.yaml"]
    study = parse_study(
        {
            "study": "check",
            "hosts": {"here": {"loopback": True, "work_dir": str(tmp_path / "work")}},
            "targets": {"bench": {"roles": {"sut": "here", "load": "here"}}},
            "families": {"load_test": block},
        }
    )
    plan = study.session("bench", "load_test")
    found = checked(plan, ["sut", "load"])
    lacking = {text.removesuffix(" is missing") for good, text, _ in found if not good}
    tools = {"mattermost-9.9", "mattermost-10.2", "mattermost-9.9-import"}
    assert lacking >= {*(f"services: {tool}" for tool in tools), "users: locust"}
    assert any(good and text.startswith("services: /") and text.endswith("/cp") for good, text, _ in found)


# --- the real servers -----------------------------------------------------------------------------------------------


def seed(folder, database, releases, *options, **environment):
    """Like the service `dataset`: (how it ended, password of the database, ports of database and server)."""
    folder.mkdir()
    sql, http, metrics = free_ports(3)
    password = secrets.token_hex(16)
    sizes = [f"--{name}={number}" for name, number in SMALL.items()]
    where = [f"--database={database}", "--address=127.0.0.1", f"--port={sql}", f"--url=http://127.0.0.1:{http}"]
    done = subprocess.run(
        [sys.executable, SEED, folder, *where, *(f"--release={r}" for r in releases), *sizes, *options],
        env={**os.environ, **settings(http, metrics), "DATABASE_PASSWORD": password, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done, password, (sql, http, metrics)


def settings(http, metrics):
    return {
        "MM_SERVICESETTINGS_LISTENADDRESS": f"127.0.0.1:{http}",
        "MM_SERVICESETTINGS_SITEURL": f"http://127.0.0.1:{http}",
        "MM_METRICSSETTINGS_ENABLE": "true",
        "MM_METRICSSETTINGS_LISTENADDRESS": f"127.0.0.1:{metrics}",
        "MM_SERVICESETTINGS_ENABLESECURITYFIXALERT": "false",
        "MM_LOGSETTINGS_ENABLEDIAGNOSTICS": "false",
        "MM_LOGSETTINGS_ENABLESENTRY": "false",
        "MM_LOGSETTINGS_CONSOLELEVEL": "WARN",
        "MM_LOGSETTINGS_ENABLEFILE": "false",
        "MM_PLUGINSETTINGS_ENABLE": "false",
    }


@contextmanager
def running(argv, number, answers, **options):
    """A server, started and waited for; ended by a signal of that number."""
    process = subprocess.Popen([str(part) for part in argv], stdin=subprocess.DEVNULL, **options)
    try:
        until(lambda: process.poll() is not None or answers(), 60.0)
        assert process.poll() is None
        yield
    finally:
        process.send_signal(number)
        process.wait(60)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(url, content=None, token=""):
    """(answer, headers); None while nothing answers."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    if content is not None:
        request.data = json.dumps(content).encode()
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.read().decode(), answer.headers
    except urllib.error.URLError:
        return None


def test_both_releases_find_the_same_rows_on_a_copy_of_what_was_made_once(programs, tmp_path):
    releases = [f"{name}={programs}/mattermost-{name}" for name in ("9.9", "10.2")]
    data = tmp_path / "data-set"
    done, password, (sql, http, metrics) = seed(
        data, "postgres", releases, f"--importer={programs}/mattermost-9.9-import"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in data.iterdir()) == ["accounts.json", "data"]
    accounts = json.loads((data / "accounts.json").read_text())
    counts = accounts["counts"]
    assert accounts["schema"] == ACCOUNTS_SCHEMA
    assert (counts["users"], counts["teams"], counts["posts"], counts["direct_posts"]) == (8, 2, 120, 20)
    assert counts["channels"] == 2 * (3 + 2)  # in each team: its own, and those that every team has
    assert accounts["database"].startswith("PostgreSQL ")

    shutil.copytree(data / "data", tmp_path / "trial", symlinks=True)
    (tmp_path / "trial").chmod(0o700)
    database = ["sh", ON_HOST / "unprivileged.sh", "postgres", "-D", tmp_path / "trial", "-c", f"port={sql}"]
    database += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    said = {}
    with (tmp_path / "log").open("wb") as log, running(database, signal.SIGINT, lambda: listens(sql), stderr=log):
        for name in ("9.9", "10.2"):
            source = f"postgres://mattermost:{password}@127.0.0.1:{sql}/{accounts['databases'][name]}?sslmode=disable"
            said[name] = as_a_user_sees_it(
                programs / f"mattermost-{name}", tmp_path / name, source, http, metrics, accounts
            )
    assert [said[name]["version"] for name in ("9.9", "10.2")] == ["9.9.0", "10.2.0"]
    # Including ids: the rows were made once.
    assert said["9.9"]["posts"] == said["10.2"]["posts"]
    assert len(said["9.9"]["posts"]) > 3
    assert all("mattermost_db_store_time_bucket" in said[name]["metrics"] for name in said)


def as_a_user_sees_it(program, folder, source, http, metrics, accounts):
    """What a release gives the first user of the data set: version, posts of a channel by id; and its metrics."""
    for name in ("client/plugins", "config"):
        (folder / name).mkdir(parents=True)
    (folder / "client" / "root.html").touch()
    for part in (program.parents[1] / "share" / program.name).iterdir():
        (folder / part.name).symlink_to(part)
    environment = {
        **os.environ,
        **settings(http, metrics),
        "MM_CONFIG": str(folder / "config" / "config.json"),
        "MM_SQLSETTINGS_DRIVERNAME": "postgres",
        "MM_SQLSETTINGS_DATASOURCE": source,
    }
    api = f"http://127.0.0.1:{http}/api/v4"
    with (
        (folder / "log").open("wb") as log,
        running(
            [program, "server"],
            signal.SIGTERM,
            lambda: ask(f"{api}/system/ping"),
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        ),
    ):
        who = {"login_id": accounts["users"][0]["username"], "password": accounts["password"]}
        _, headers = ask(f"{api}/users/login", who)
        token = headers["Token"]
        team = json.loads(ask(f"{api}/users/me/teams", token=token)[0])[0]["id"]
        channels = json.loads(ask(f"{api}/users/me/teams/{team}/channels", token=token)[0])
        square = next(channel["id"] for channel in channels if channel["name"] == "town-square")
        posts = json.loads(ask(f"{api}/channels/{square}/posts", token=token)[0])["posts"]
        return {
            "version": json.loads(ask(f"{api}/config/client?format=old")[0])["Version"],
            "posts": {identity: post["message"] for identity, post in posts.items() if post["type"] == ""},
            "metrics": ask(f"http://127.0.0.1:{metrics}/metrics")[0],
        }


def test_a_release_fills_mariadb_by_its_own_job_where_there_is_no_import(programs, tmp_path):
    data = tmp_path / ("in-a-folder-whose-path-is-longer-than-that-of-a-socket-can-be-" + "x" * 50)
    done, _, _ = seed(data, "mariadb", [f"10.2={programs}/mattermost-10.2"])
    assert done.returncode == 0, done.stderr
    accounts = json.loads((data / "accounts.json").read_text())
    assert (accounts["counts"]["users"], accounts["counts"]["posts"]) == (8, 120)
    assert accounts["database"].startswith("MariaDB ")


def test_a_data_set_that_cannot_be_made_says_why(programs, tmp_path):
    done, _, _ = seed(tmp_path / "a", "postgres", ["9.9=/nowhere/mattermost"])
    assert done.returncode == 1
    assert done.stderr == "the data set could not be made: /nowhere/mattermost: No such file or directory\n"
    done, _, _ = seed(tmp_path / "b", "postgres", ["9.9=/bin/false"])
    assert done.returncode == 1
    assert done.stderr == "the data set could not be made: false: ended with status 1: it said nothing\n"
    done, _, _ = seed(tmp_path / "c", "postgres", [f"9.9={programs}/mattermost-9.9"], "--users=1")
    assert done.stderr == "the data set could not be made: users: at least 2, not 1\n"
    done, _, _ = seed(tmp_path / "d", "postgres", [f"9.9={programs}/mattermost-9.9"], MM_SQLSETTINGS_MAXOPENCONNS="0")
    assert done.returncode == 1
    assert "mattermost-9.9: ended with status" in done.stderr
