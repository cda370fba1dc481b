"""Programs built on a host: from real pins, by real builds over SSH; the small ones in seconds.

The builds of k6, SFTPGo and copyparty take minutes, once per machine; all tests share them (conftest.py).
"""

import ast
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import TOOL_STORE
from provisioning import provision_here
from small_tools import (
    GO_SUM,
    GO_TOOL,
    HELLO,
    HELLO_HASH,
    PYTHON_TOOL,
    REQUIREMENTS,
    WHEEL_HASH,
    build,
    provision,
    study_of,
    with_pins,
)
from sshd_hosts import SshdHost

from benchstudy.hosts.remote import Remote
from benchstudy.model.needs import generator_tools, programs_by_host
from benchstudy.model.studyfile import parse_study
from benchstudy.provisioning import toolbuilder
from benchstudy.provisioning.target import ProvisionFailed, provision_target, what_is_ahead
from benchstudy.provisioning.tools import missing_tools

# With these, a host can reach no registry, and fails at once.
OFFLINE = {"GOPROXY": "off", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nowhere"}


@pytest.fixture
def here(project, monkeypatch):
    """A project with the pins of two small tools, and no deploys except those of a test."""
    return with_pins(project.root, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """This machine, with an sshd whose commands reach no registry."""
    with SshdHost(tmp_path_factory.mktemp("offline"), environment=OFFLINE) as sshd:
        yield {name: value for name, value in sshd.host.model_dump(exclude_defaults=True).items() if name != "loopback"}


@pytest.fixture(scope="module")
def store(built, tmp_path_factory):
    """For the tests in which it does not matter who built a tool."""
    store = tmp_path_factory.mktemp("store")
    for tool in (built.work / "tools").glob("*-*"):
        shutil.copytree(tool, store / tool.name, symlinks=True)
    return store


def output(*argv):
    # Nothing from the environment in which the tests run.
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run([str(part) for part in argv], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def everything_below(folder):
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def test_a_python_that_prints_something_of_its_own_is_named(here, offline, tmp_path):
    chatty = tmp_path / "python"
    chatty.write_text(f"#!/bin/sh\necho 'Welcome to the lab'\nexec {sys.executable} \"$@\"\n")
    chatty.chmod(0o755)
    [problem] = provision(here, PYTHON_TOOL, tmp_path / "work", python=str(chatty), **offline)["problems"]
    assert f"{chatty} there says b'Welcome to the lab\\n' instead of" in problem and "hosts.here.python" in problem


def test_tools_are_built_below_the_work_folder_once_and_need_no_registry_afterwards(here, built, offline):
    work, first = built.work, built.facts
    assert first["problems"] == []
    assert first["changed"] == 2
    assert work.stat().st_mode & 0o777 == 0o700
    tools = work / "tools"
    assert output(tools / "bin" / "hello", "you") == "Hello, you!\n"
    assert output(tools / "bin" / "wheel", "version") == "wheel 0.45.1\n"
    assert (tools / "share" / "hello" / "reverse" / "reverse.go").is_file()
    hello, wheel = first["tools"]["hello"], first["tools"]["wheel"]
    assert hello["version"] == HELLO
    assert hello["sha256"] == toolbuilder.sha256_of(tools / "bin" / "hello")
    assert hello["path"] == str(tools / "bin" / "hello")
    assert re.fullmatch(r"go1\.\d+\S*", hello["go"])
    assert wheel["version"] == "0.45.1"
    assert wheel["sha256"] == toolbuilder.sha256_of(tools / "bin" / "wheel")
    # A trial records the launcher's hash, which stands for everything that is launched.
    assert wheel["contents_sha256"] in (tools / "bin" / "wheel").read_text()
    said = "\n".join(built.said)
    assert f"hello {HELLO}: building in {tools}" in said
    assert re.search(rf"hello {HELLO}: built in \d+ s", said)
    assert not list(tools.glob(".building-*"))

    before = everything_below(work)
    second = provision(here, GO_TOOL + PYTHON_TOOL, work, **offline)
    assert (second["changed"], second["problems"]) == (0, [])
    assert second["tools"] == first["tools"]
    assert everything_below(work) == before


def test_a_go_tool_of_our_own_sources_has_the_values_that_the_deploy_defines(here, tmp_path, built, store, monkeypatch):
    monkeypatch.setenv(TOOL_STORE, str(store))
    (here / "envs" / "hello" / "says").mkdir()
    program = 'package main\n\nvar version, commit = "none", "none"\n\nfunc main() { println(version, commit) }\n'
    (here / "envs" / "hello" / "says" / "main.go").write_text(program)
    deploy = (
        "from pathlib import Path\n"
        "from benchstudy.provisioning.deploy import go_tool\n"
        "go_tool('what it was told', 'says', 'test.invalid/hello', 'v1', package='./says', pins=Path('envs/hello'),\n"
        "        sources=['says'], defines={'main.version': 'dev', 'main.commit': '63c97f5a6d8f'})\n"
    )
    built.lend_compiled(store)
    facts = provision(here, deploy, tmp_path / "work")
    assert facts["problems"] == [] and not (store / "cache").exists()
    assert output(tmp_path / "work" / "tools" / "bin" / "says") == "dev 63c97f5a6d8f\n"
    built.lend_compiled(store)
    other = provision(here, deploy.replace("'dev'", "'release'"), tmp_path / "work")
    assert (other["changed"], other["problems"]) == (1, [])
    assert output(tmp_path / "work" / "tools" / "bin" / "says") == "release 63c97f5a6d8f\n"


def test_folders_of_one_machine_share_builds_by_what_they_are_made_from(here, tmp_path, store, offline, monkeypatch):
    monkeypatch.setenv(TOOL_STORE, str(store))
    first = provision(here, PYTHON_TOOL, tmp_path / "first")
    assert (first["changed"], first["problems"]) == (1, [])
    second = provision(here, PYTHON_TOOL, tmp_path / "second", **offline)
    assert (second["changed"], second["problems"]) == (1, [])
    assert second["tools"]["wheel"]["contents_sha256"] == first["tools"]["wheel"]["contents_sha256"]
    assert output(tmp_path / "second" / "tools" / "bin" / "wheel", "version") == "wheel 0.45.1\n"
    # Other pins mean another build, which needs the registry.
    (here / "envs" / "wheel-requirements.txt").write_text(REQUIREMENTS.replace("0.45.1", "0.45.0"))
    third = provision(here, PYTHON_TOOL, tmp_path / "second", **offline)
    assert third["tools"] == {"wheel": None}
    # An existing build stays until there is a better one.
    assert output(tmp_path / "second" / "tools" / "bin" / "wheel", "version") == "wheel 0.45.1\n"


def test_a_store_that_was_moved_still_works_and_its_launchers_have_the_same_hash(
    here, tmp_path, store, offline, monkeypatch
):
    monkeypatch.setenv(TOOL_STORE, str(store))
    first = provision(here, PYTHON_TOOL, tmp_path / "first")
    moved = store.rename(tmp_path / "a moved store")
    try:
        monkeypatch.setenv(TOOL_STORE, str(moved))
        second = provision(here, PYTHON_TOOL, tmp_path / "second", **offline)
        assert second["problems"] == [] and second["tools"]["wheel"]["sha256"] == first["tools"]["wheel"]["sha256"]
        assert output(tmp_path / "second" / "tools" / "bin" / "wheel", "version") == "wheel 0.45.1\n"
    finally:
        moved.rename(store)


def test_a_folder_that_has_its_tools_waits_for_no_other_build(here, tmp_path, store, monkeypatch, caplog):
    caplog.set_level("INFO", logger="benchstudy")
    monkeypatch.setenv(TOOL_STORE, str(store))
    provision(here, PYTHON_TOOL, tmp_path / "work")
    (store / "cache").mkdir()  # as during a build
    with open(store / ".lock", "a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ends = threading.Timer(20, other.close)
        ends.start()
        assert provision(here, PYTHON_TOOL, tmp_path / "work")["problems"] == []
        ends.cancel()
        assert "waiting for another build" not in caplog.text and (store / "cache").is_dir()
    (store / "cache").rmdir()


def test_a_program_that_was_altered_is_built_again(here, tmp_path, store, monkeypatch):
    monkeypatch.setenv(TOOL_STORE, str(store))
    before = provision(here, PYTHON_TOOL, tmp_path / "work")
    launcher = tmp_path / "work" / "tools" / "bin" / "wheel"
    launcher.write_text(launcher.read_text() + "# altered\n")
    again = provision(here, PYTHON_TOOL, tmp_path / "work")
    assert again["changed"] == 1
    assert again["tools"]["wheel"]["contents_sha256"] == before["tools"]["wheel"]["contents_sha256"]
    assert "# altered" not in launcher.read_text() and output(launcher, "version") == "wheel 0.45.1\n"


def test_a_tool_that_cannot_be_built_is_named_with_its_cause_and_keeps_no_other_away(
    here, tmp_path, store, offline, monkeypatch
):
    monkeypatch.setenv(TOOL_STORE, str(store))
    nobodys = "go_tool('a tool of nobody', 'none', 'golang.org/x/example/none', 'v1.0.0')\n"
    deploy = "from benchstudy.provisioning.deploy import go_tool\n" + nobodys + PYTHON_TOOL
    facts = provision(here, deploy, tmp_path / "work")
    assert facts["tools"]["none"] is None
    [problem] = facts["problems"]
    assert re.match(r"a tool of nobody: none v1\.0\.0: go install ended with .*golang\.org/x/example/none", problem)
    assert output(tmp_path / "work" / "tools" / "bin" / "wheel", "version") == "wheel 0.45.1\n"

    monkeypatch.delenv(TOOL_STORE)
    unreachable = provision(here, GO_TOOL + PYTHON_TOOL, tmp_path / "other", **offline)
    assert unreachable["tools"] == {"hello": None, "wheel": None}
    go, python = unreachable["problems"]
    assert re.match(rf"a greeting: hello {HELLO}: go build ended with .*GOPROXY=off", go), go
    assert re.match(r"a tool for wheels: wheel 0\.45\.1: pip install ended with status 1: .*wheel", python), python
    assert not list((tmp_path / "other" / "tools").glob(".building-*"))


def test_what_is_not_the_pinned_thing_is_refused(here, tmp_path):
    (here / "envs" / "hello" / "go.sum").write_text(GO_SUM.replace(HELLO_HASH, "h1:" + "A" * 43 + "="))
    (here / "envs" / "wheel-requirements.txt").write_text(REQUIREMENTS.replace(WHEEL_HASH, "0" * 64))
    facts = provision(here, GO_TOOL + PYTHON_TOOL, tmp_path / "work")
    assert facts["tools"] == {"hello": None, "wheel": None}
    go, python = facts["problems"]
    assert re.match(r"a greeting: hello .*: go build ended with .*checksum mismatch", go), go
    assert re.match(r"a tool for wheels: .*: pip install ended with .*HASHES", python), python


def test_pins_of_another_version_are_an_error_that_names_both(here, tmp_path):
    deploy = GO_TOOL.replace(HELLO, "v9.9.9")
    with pytest.raises(ProvisionFailed, match=rf"hello: v9\.9\.9 is asked for, but envs/hello/go\.mod .* {HELLO}"):
        provision(here, deploy, tmp_path / "work")
    (here / "envs" / "wheel-requirements.txt").write_text("other==1.0\n")
    with pytest.raises(ProvisionFailed, match=r"wheel-requirements\.txt does not pin wheel"):
        provision(here, PYTHON_TOOL, tmp_path / "work")


@pytest.mark.fault(33)
def test_a_host_whose_python_is_missing_says_so(here, tmp_path, offline):
    facts = provision(here, GO_TOOL, tmp_path / "work", **{**offline, "python": "/nowhere/python3"})
    assert facts["tools"] == {"hello": None}
    assert any("hello: the builder (/nowhere/python3) ended with status 127" in text for text in facts["problems"])


# The work of a job, in a process of its own.
_PROVISIONING = """
import json, sys
from pathlib import Path
from benchstudy.provisioning.host import provision_hosts
provision_hosts(Path(sys.argv[1]), {"here": json.loads(sys.argv[2])}, lambda *_: None, lambda *_: None)
"""


@pytest.mark.fault(29)
def test_a_build_ends_with_its_controller(here, tmp_path, built):
    """Even of a job that was killed: nothing continues to run on the host, and the next run goes on."""
    (here / "envs" / "file_size.py").write_text(GO_TOOL)
    work = tmp_path / "work"
    built.lend_compiled(work / "tools")
    with SshdHost(tmp_path / "sshd") as sshd:
        request = {
            "name": "here",
            "host": {**sshd.host.model_dump(mode="json"), "work_dir": str(work)},
            "roles": ["sut"],
            "target_roles": ["sut"],
            "deploys": [{"path": str(here / "envs" / "file_size.py"), "family": {}}],
        }
        worker = subprocess.Popen(
            [sys.executable, "-c", _PROVISIONING, here, json.dumps(request)], stderr=subprocess.PIPE
        )
        try:
            _until(lambda: any("go" in argv for argv in _at_work(work)), "the build does not start")
        finally:
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
            worker.stderr.close()
        _until(lambda: not _at_work(work), "the build goes on without its controller")
    facts = provision(here, GO_TOOL, work)
    assert facts["problems"] == []
    assert not (work / "tools" / "cache").exists() and not list((work / "tools").glob(".building-*"))


def test_a_build_begins_although_one_that_was_killed_has_not_quite_ended(here, tmp_path):
    """Its compilers, killed a moment ago, may still write into its folder, which the next build removes."""
    work = tmp_path / "work"
    left = work / "tools" / ".building-1" / "tmp"
    left.mkdir(parents=True)
    writes = "import itertools, pathlib, sys\nfor n in itertools.count(): pathlib.Path(sys.argv[1], str(n)).touch()"
    with subprocess.Popen([sys.executable, "-c", writes, left], stderr=subprocess.DEVNULL) as writer:
        try:
            _until(lambda: any(left.iterdir()), "nothing is written")
            assert provision(here, PYTHON_TOOL, work)["problems"] == []
        finally:
            writer.kill()


def _at_work(work):
    """Command lines of processes in `work`, or with a path below it in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(work).encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
    return found


def _until(true, otherwise, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def test_the_builder_is_python_3_9():
    ast.parse(Path(toolbuilder.__file__).read_text(), feature_version=(3, 9))


def test_requirements_for_a_newer_python_are_refused_in_a_sentence(tmp_path):
    compiled = "#    uv pip compile --universal -p 9.10 x.in -o x.txt\nclick==8.5.1\n"
    with pytest.raises(toolbuilder.BuildFailed, match=r"^needs Python 9\.10 or newer, but .* set `python` of the host"):
        toolbuilder.make_venv({"name": "x"}, tmp_path / "venv", compiled)


@pytest.mark.build
def test_where_pip_does_not_lie_as_a_wheel_it_is_installed(tmp_path, monkeypatch):
    """As in old distributions: a folder beside the environment, with the pip that Python makes."""
    monkeypatch.setattr("sysconfig.get_config_var", lambda _: "/nowhere")
    folder = toolbuilder.pip_below(tmp_path, {"name": "x"}, dict(os.environ))
    assert folder.name == "site-packages" and (folder / "pip" / "__main__.py").is_file()


def test_a_python_tool_has_the_version_that_is_pinned_for_the_hosts_python(here, tmp_path):
    """`uv pip compile --universal` pins several, the one for the oldest Python first."""
    pinned = here / "envs" / "wheel-requirements.txt"
    old = f"wheel==0.37.0 ; python_full_version < '3.9' \\\n    --hash=sha256:{'0' * 64}\n"
    pinned.write_text(old + REQUIREMENTS.replace("==0.45.1", "==0.45.1 ; python_full_version >= '3.9'"))
    facts = provision(here, PYTHON_TOOL, tmp_path / "work")
    assert (facts["tools"]["wheel"]["version"], facts["problems"]) == ("0.45.1", [])

    pinned.write_text(old + old.replace("0.37", "0.38"))
    with pytest.raises(ProvisionFailed, match=r"pins no wheel for the host's Python 3\.\d+\.\d+: compile it for"):
        provision(here, PYTHON_TOOL, tmp_path / "work")


def test_a_python_tool_for_a_newer_python_is_a_problem_in_a_sentence(here, tmp_path):
    (here / "envs" / "wheel-requirements.txt").write_text("#    uv pip compile -p 9.10 x.in\n" + REQUIREMENTS)
    [problem] = provision(here, PYTHON_TOOL, tmp_path / "work")["problems"]
    assert re.match(r"a tool for wheels: wheel 0\.45\.1: needs Python 9\.10 or newer, but ", problem), problem


def test_programs_are_those_of_the_hosts_own_roles():
    service = {"ports": ["ssh"], "argv": ["/usr/sbin/sshd"], "setup": [["ssh-keygen"]], "ready": {"tcp": "ssh"}}
    tool = {"ports": ["http"], "argv": ["sh", "-c", "exec {{ tools }}/sftpgo serve"], "role": "load"}
    launched = {"ports": ["sql"], "argv": ["sh", "{{dir}}/as-another-user.sh", "postgres", "-D", "x"]}
    for started in (tool, launched):
        started["ready"] = {"tcp": started["ports"][0]}
    study = parse_study(
        {
            "study": "programs",
            "hosts": {"one": {}, "two": {}},
            "targets": {"bench": {"roles": {"sut": "one", "load": "two"}}},
            "families": {
                "file_size": {
                    "backends": [{"name": "disk", "kind": "path", "path": "/var/tmp"}],
                    "sizes": ["1MB"],
                    "services": {"sshd": service, "sftpgo": tool, "postgres": launched},
                }
            },
        }
    )
    assert programs_by_host(study, "bench") == {
        "one": ["postgres", "sh", "ssh-keygen", "sshd"],
        "two": ["sftpgo", "sh"],
    }


def test_generators_run_where_the_load_is_or_beside_the_server():
    family = {"generators": [{"name": "page", "tool": "ab"}, {"name": "open", "tool": "k6"}]}
    assert generator_tools(family, ["sut"], ["sut"]) == {"ab", "k6"}
    assert generator_tools(family, ["sut"], ["sut", "load"]) == set()
    assert generator_tools(family, ["load"], ["sut", "load"]) == {"ab", "k6"}


def test_the_servers_and_generators_of_http_concurrency_are_installed_and_run(project, tmp_path):
    """The real pins, and only those named here."""
    services = {
        "nginx": {"argv": ["nginx", "-g", "daemon off;"]},
        "sftpgo": {"argv": ["{{tools}}/sftpgo", "serve"]},
        "copyparty": {"argv": ["{{tools}}/copyparty"]},
        "sshfs": {"argv": ["sshfs", "-f"], "stop": ["fusermount3", "-u", "x"]},
        "elsewhere": {"role": "storage", "argv": ["/usr/sbin/sshd"]},
    }
    family = {"services": services, "generators": [{"name": tool, "tool": tool} for tool in ("ab", "wrk", "k6")]}
    facts = provision_here(project.root, "http_concurrency", family, tmp_path / "work", environment=project.environment)
    assert set(facts["packages"]) == {"nginx-light", "sshfs", "fuse3", "apache2-utils", "wrk"}
    assert all(facts["packages"].values())
    assert set(facts["programs"]) == {"nginx", "sshfs", "fusermount3", "ab", "wrk"}
    assert all(len(program["sha256"]) == 64 for program in facts["programs"].values())
    bin = tmp_path / "work" / "tools" / "bin"
    assert {path.name for path in bin.iterdir()} == set(facts["tools"]) == {"k6", "sftpgo", "copyparty"}
    assert f"k6 {facts['tools']['k6']['version']} " in output(bin / "k6", "version")
    assert "SFTPGo 2.6.4 +metrics" in output(bin / "sftpgo", "--version")
    assert f"copyparty v{facts['tools']['copyparty']['version']} " in output(bin / "copyparty", "--version")
    shared = tmp_path / "work" / "tools" / "share" / "sftpgo"
    assert {path.name for path in shared.iterdir()} == {"templates", "static", "openapi"}
    assert "nginx version" in output(facts["programs"]["nginx"]["path"], "-v")
    assert "ApacheBench" in output(facts["programs"]["ab"]["path"], "-V")


def test_who_only_looks_builds_nothing_and_knows_what_others_took(here, tmp_path, built):
    """Before anything is built, the builder's own figures count; then those of the newest build of each name."""
    envs, work = here / "envs", tmp_path / "work"
    (envs / "file_size.py").write_text(GO_TOOL + PYTHON_TOOL)
    (envs / "fio.py").write_text("import no_such_module\n")
    study = study_of(work)
    ahead = what_is_ahead(study, [("bench", "file_size")])["here"]
    assert (ahead.builds, ahead.installs, ahead.unknown) == ({"hello": 60.0, "wheel": 8.0}, [], "")
    assert ahead.downloads["wheel"] == "1 wheel" and not (work / "tools").exists()
    shutil.copytree(built.work, work, symlinks=True, dirs_exist_ok=True)
    provision_target(study, "bench", here / "facts.json", ["file_size"])  # the deploy of the other family is broken
    assert json.loads((here / "facts.json").read_text())["families"] == ["file_size"]
    assert what_is_ahead(study, [("bench", "file_size")])["here"].builds == {}
    (envs / "file_size.py").write_text(GO_TOOL + PYTHON_TOOL.replace("txt'))", "txt'), module='wheel.cli')"))
    (wheel,) = (work / "tools").glob("wheel-*/tool.json")
    seen = what_is_ahead(study, [("bench", "file_size")])["here"].builds
    assert seen == {"wheel": json.loads(wheel.read_text())["built_in_s"]}


def test_downloads_stay_for_the_next_family_that_builds(here, tmp_path, built):
    assert any(built.downloads.iterdir()), "they were to be kept"
    work = tmp_path / "work"
    shutil.copytree(built.work, work, symlinks=True)
    built.lend_compiled(work / "tools")
    assert provision(here, GO_TOOL, work)["changed"] == 0
    assert not (work / "tools" / "cache").exists()


def test_the_builder_takes_no_module_from_a_folder_of_the_users(tmp_path):
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')")
    tool = {"name": "small", "kind": "python", "requirements": REQUIREMENTS, "module": "small", "pins": {}, "why": "x"}
    with (
        SshdHost(tmp_path / "sshd", environment={"PYTHONPATH": str(tmp_path)}) as sshd,
        Remote("here", sshd.host.model_copy(update={"work_dir": str(tmp_path / "work")})) as remote,
    ):
        assert list(missing_tools(remote, [tool])) == ["small"]
    assert not (tmp_path / "taken").exists()
