"""Limits that the kernel really enforces: servers and commands on a real sshd host, limited, killed and counted."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import runs, until

from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.trial import TrialContext
from benchstudy.model.errors import TrialFailed
from benchstudy.model.services import Confinement, Limits, Service
from benchstudy.model.studyfile import parse_study
from benchstudy.model.units import Size

AGENT = Path(__file__).parents[1] / "src" / "benchstudy" / "agent"
SESSION = "session-a"
OWNER = {"study": "tests"}
CPUS = sorted(os.sched_getaffinity(0))
MIB = 1 << 20

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups here")
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="one CPU is not enough for two places")

# A small server that does on request what servers do to their memory, their CPU and themselves.
SERVER = """
import http.server, os, sys, time
eaten = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        what, _, amount = self.path[1:].partition("/")
        if what == "eat":
            eaten.append(os.urandom(int(amount) << 20))
        if what == "spin":
            end = time.process_time() + float(amount)
            while time.process_time() < end:
                pass
        if what == "child" and os.fork() == 0:
            eaten.append(os.urandom(int(amount) << 20))
            os._exit(0)
        if what == "child":
            os.wait()
        if what == "die":
            sys.stderr.write("no more licences\\n")
            sys.stderr.flush()
            os._exit(int(amount))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""
WEB = {
    "ports": ["web"],
    "files": {"server.py": SERVER},
    "argv": ["python3", "-S", "{{dir}}/server.py", "{{bind}}", "{{port.web}}"],
    "ready": {"tcp": "web", "timeout": "20s"},
}
# Reaches its memory limit only when it is asked to end.
LATE = {
    **WEB,
    "stop": ["python3", "-c", "import urllib.request as r; r.urlopen('http://{{bind}}:{{port.web}}/eat/200')"],
}
# Never ready, and full of pages of a file that it wrote.
CRAMMED = {
    **WEB,
    "argv": ["sh", "-c", 'head -c 32M /dev/zero > "$0/file"; exec sleep 300', "{{dir}}"],
    "ready": {"tcp": "web", "timeout": "2s"},
}


def limits(cpus: int | None = None, memory: str | None = None) -> Limits:
    return Limits(cpus=cpus, memory=memory and Size(memory))


def get(running, path: str) -> None:
    url = f"http://{running.address}:{running.ports['web']}/{path}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        answer.read()


def groups(uuid: str) -> list[Path]:
    """The folders of a command's control group, wherever they are mounted."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    points = [Path(fields[1]) for fields in lines if fields[2] in ("cgroup", "cgroup2")]
    return [folder for point in points for folder in point.rglob(f"benchstudy-{uuid}")]


@pytest.fixture
def remote(sshd, tmp_path) -> Iterator[Remote]:
    with Remote("server", sshd.host.model_copy(update={"work_dir": str(tmp_path / "work")})) as remote:
        yield remote


@pytest.fixture
def agent(remote, tmp_path) -> Iterator[HostAgent]:
    agent = HostAgent.deploy(
        remote, lease_s=60.0, reconnect_s=10.0, on_event=print, lock_path=str(tmp_path / "host.lock")
    )
    with agent.lock(SESSION, OWNER):
        yield agent


@pytest.fixture
def trial(agent, tmp_path) -> Iterator[TrialContext]:
    """A trial of a study with the servers of this file, on one host."""
    yield from trial_of(agent, tmp_path, {"server": {}}, {"sut": "server"})


def trial_of(agent, tmp_path, hosts: dict, roles: dict) -> Iterator[TrialContext]:
    described = agent.remote.host.model_dump(exclude_none=True)
    backend = {"name": "local", "kind": "path", "path": str(tmp_path)}
    study = parse_study(
        {
            "study": "limits",
            "hosts": {name: described | changed for name, changed in hosts.items()},
            "targets": {"here": {"roles": roles}},
            "families": {
                "file_size": {
                    "backends": [backend],
                    "sizes": ["1MB"],
                    "sync": ["none"],
                    "services": {"web": WEB, "late": LATE, "crammed": CRAMMED},
                }
            },
        }
    )
    agent.remote.host = study.hosts["server"]
    state = SessionState(SESSION, study.session("here", "file_size"), {"server": agent}, tmp_path / "s", print)
    (tmp_path / "trial").mkdir()
    try:
        yield TrialContext(state, "trial-uuid", tmp_path / "trial", 1)
    finally:
        state.close()


# --- a trial's own server ----------------------------------------------------------------------------------------


@needs_root
def test_a_limited_server_is_held_by_the_kernel_from_its_first_instruction(trial):
    with trial.server("web", limits=limits(1, "64MiB")) as running:
        assert running.limits["effective"] | {"open_files": 0} == {
            "cpus": CPUS[:1],
            "memory_bytes": 64 * MIB,
            "open_files": 0,
        }
        record = json.loads(Path(running.folder, "supervisor.json").read_text())
        assert os.sched_getaffinity(record["pid"]) == set(CPUS[:1])
        held = [folder for folder in groups(running.uuid) if str(record["pid"]) in _members(folder)]
        assert held == groups(running.uuid) != []
        said = {p.read_text().strip() for f in held for p in (*f.glob("memory.max"), *f.glob("memory.limit_in_bytes"))}
        assert said == {str(64 * MIB)}
        running.check()
    assert groups(running.uuid) == []


def _members(folder: Path) -> list[str]:
    return (folder / "cgroup.procs").read_text().split()


@needs_root
def test_peak_memory_and_cpu_time_are_those_of_the_server_also_without_a_limit(trial):
    with trial.server("web") as running:
        get(running, "eat/60")
        before = running.usage()
        get(running, "spin/0.3")
        after = running.usage()
    spun_s = after["cpu_user_s"] + after["cpu_system_s"] - before["cpu_user_s"] - before["cpu_system_s"]
    assert 0.29 < spun_s < 0.6, "that of a part of its life"
    assert 0.3 < after["monotonic"] - before["monotonic"] < 20
    used = running.record["limits"]
    assert used["effective"]["cpus"] == CPUS
    assert used["effective"]["memory_bytes"] is None
    assert 60 * MIB < used["peak_memory_bytes"] < 90 * MIB
    assert used["oom_kills"] == 0
    assert 0.3 <= used["cpu_user_s"] + used["cpu_system_s"] < 3.0
    (server,) = trial.commands
    assert (server.label, server.role, server.host, server.state) == ("server", "sut", "server", "ended")
    assert server.tool.name == "python3"
    assert len(server.tool.sha256) == 64
    assert server.limits == used
    assert {"stdout", "stderr", "supervisor.json"} <= {p.name for p in (trial.files / "server").iterdir()}
    assert json.loads((trial.files / "server" / "supervisor.json").read_text())["limits"] == used


@needs_root
@pytest.mark.fault(19)
def test_a_server_killed_at_its_limit_is_oom_and_not_the_refused_connection_that_followed(trial):
    with (
        pytest.raises(TrialFailed, match=r"^OOM: killed by the kernel at its memory limit of 48 MiB \(peak 4[78]") as e,
        trial.server("web", limits=limits(memory="48MiB"), label="sut-server") as running,
    ):
        get(running, "eat/200")
    assert isinstance(e.value.__cause__, OSError), "what the block raised was only the symptom"
    assert running.record["signal"] == signal.SIGKILL
    assert running.record["limits"]["oom_kills"] == 1
    assert (trial.files / "sut-server" / "supervisor.json").is_file()
    assert trial.commands[0].limits["oom_kills"] == 1
    assert groups(running.uuid) == []


@needs_root
def test_who_was_killed_while_its_end_was_asked_for_is_no_lost_worker(trial):
    with (
        pytest.raises(TrialFailed, match=r"^OOM: killed by the kernel at its memory limit of 48 MiB"),
        trial.server("late", limits=limits(memory="48MiB")),
    ):
        pass
    (server,) = trial.commands
    assert (server.state, server.signal) == ("ended", signal.SIGKILL)


@needs_root
def test_a_process_that_was_killed_while_the_kernel_ended_another_one_is_not_said_to_be_that_one(trial, tmp_path):
    waits = Command(
        ["sh", "-c", 'touch "$1/begun"; until [ -e "$1/go" ]; do sleep 0.05; done; kill -9 $$', "sh", str(tmp_path)]
    )
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(trial.execute, waits)
        until((tmp_path / "begun").exists)
        with pytest.raises(TrialFailed, match=r"^OOM: "), trial.server("web", limits=limits(memory="64MiB")) as running:
            get(running, "child/200")
        (tmp_path / "go").touch()
        execution = done.result().execution
    assert (execution.signal, execution.cause_kind) == (signal.SIGKILL, None)
    assert execution.cause.startswith("perhaps killed by the kernel")


@needs_root
@pytest.mark.fault(19)
def test_a_lost_worker_is_oom_although_the_server_itself_went_on(trial):
    with (
        pytest.raises(
            TrialFailed, match=r"^OOM: 1 of its processes killed by the kernel at its memory limit of 64 MiB"
        ),
        trial.server("web", limits=limits(memory="64MiB")) as running,
    ):
        get(running, "child/200")
        running.check()


@needs_root
def test_a_limit_below_what_the_server_needs_to_start_is_oom(trial):
    with (
        pytest.raises(TrialFailed, match=r"^OOM: killed by the kernel at its memory limit of 4 MiB"),
        trial.server("web", limits=limits(memory="4MiB")),
    ):
        pytest.fail("it cannot have started")
    assert trial.commands[0].limits["oom_kills"] == 1
    assert (trial.files / "server" / "supervisor.json").is_file()


@needs_root
def test_a_server_that_is_never_ready_because_its_memory_is_full_says_so(trial):
    message = r"^service crammed: its memory limit of 8 MiB was used up: not ready within 2 s"
    with pytest.raises(TrialFailed, match=message), trial.server("crammed", limits=limits(memory="8MiB")):
        pytest.fail("it cannot be ready")
    with pytest.raises(TrialFailed, match=r"^service crammed: not ready within 2 s"), trial.server("crammed"):
        pytest.fail("it cannot be ready")


def test_a_server_that_ends_by_itself_is_the_cause_with_its_last_words(trial):
    message = r"the server web died during the trial: it ended with exit status 7: no more licences"
    with pytest.raises(TrialFailed, match=message), trial.server("web") as running:
        with suppress(OSError):
            get(running, "die/7")
        until(lambda: running.status()["state"] != "running")
        with pytest.raises(TrialFailed, match=r"exit status 7(.|\n)*no more licences"):
            running.check()


def test_an_error_beside_a_healthy_server_stays_what_it_is(trial):
    with pytest.raises(ZeroDivisionError), trial.server("web") as running:
        get(running, "")
        raise ZeroDivisionError
    assert running.record["state"] == "stopped"
    assert trial.commands[0].state == "ended"
    assert not Path(running.folder).exists()


def test_each_trial_gets_a_server_of_its_own(trial):
    with trial.server("web", label="one") as one:
        Path(one.dir, "left").touch()
    with trial.server("web", label="two") as two:
        assert two.uuid != one.uuid
        assert not Path(two.dir, "left").exists()
    assert [c.label for c in trial.commands] == ["one", "two"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            limits(cpus=len(CPUS) + 3),
            rf"limits\.cpus: {len(CPUS) + 3} CPUs are requested, but this host has {len(CPUS)}",
        ),
        (limits(memory="900TiB"), r"limits\.memory: 900 TiB are requested, but this host has [\d.]+ [MG]iB"),
    ],
)
def test_a_limit_that_the_host_does_not_have_is_refused_with_the_numbers(trial, asked, message):
    with pytest.raises(TrialFailed, match=message), trial.server("web", limits=asked):
        pytest.fail("it was not refused")


# --- commands ----------------------------------------------------------------------------------------------------

WHERE = "import os, resource; print(sorted(os.sched_getaffinity(0)), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


@needs_two_cpus
def test_a_generator_runs_on_other_cpus_than_the_server(trial):
    with trial.server("web", limits=limits(cpus=1)) as running:
        others = tuple(cpu for cpu in CPUS if cpu not in running.limits["effective"]["cpus"])
        done = trial.execute(Command(["python3", "-c", WHERE], cpu_list=others, limits=Limits(), label="load"))
    assert done.stdout.read_text().split("]")[0] == str(list(others)).rstrip("]")
    assert done.execution.limits["effective"]["cpus"] == list(others)
    assert done.execution.limits["kind"] is not None
    assert trial.commands[0].limits == done.execution.limits


def test_cpus_that_are_not_there_are_refused(agent):
    execution = agent.execute(Command(["true"], cpu_list=(4095,)))
    assert execution.state == "start-failed"
    assert execution.cause == f"cpu_list: CPU 4095 does not exist; this host has {CPUS}"


@needs_root
@pytest.mark.fault(19)
def test_a_command_at_its_limit_says_oom(trial):
    eat = "x = bytearray(200 << 20)"
    done = trial.execute(Command(["python3", "-c", eat], limits=limits(memory="32MiB")))
    assert done.execution.limits["oom_kills"] == 1
    with pytest.raises(TrialFailed, match=r"^OOM: killed by the kernel at its memory limit of 32 MiB"):
        done.require_success()
    # If a shell hides its child's death behind an exit status, the group still shows it.
    done = trial.execute(Command(["sh", "-c", f"python3 -c '{eat}'; exit 0"], limits=limits(memory="32MiB"), label="b"))
    with pytest.raises(TrialFailed, match=r"^OOM: 1 of its processes killed by the kernel"):
        done.require_success()


@needs_root
def test_whoever_is_killed_while_another_group_runs_out_of_memory_did_not_run_out_of_it(agent, tmp_path):
    up, go = tmp_path / "up", tmp_path / "go"
    script = f"touch {up}; until [ -e {go} ]; do sleep 0.05; done; kill -9 $$"
    with ThreadPoolExecutor(1) as thread:
        killed = thread.submit(
            agent.execute, Command(["sh", "-c", script], limits=limits(memory="64MiB"), label="killed")
        )
        until(lambda: up.exists() or killed.done())
        assert up.exists(), killed.result()
        eats = Command(["python3", "-c", "x = bytearray(200 << 20)"], limits=limits(memory="32MiB"), label="eats")
        assert agent.execute(eats).limits["oom_kills"] == 1
        go.touch()
        execution = killed.result()
    assert (execution.signal, execution.limits["oom_kills"]) == (signal.SIGKILL, 0)
    assert execution.cause is None


@needs_root
@pytest.mark.fault(18)
def test_the_group_is_gone_after_a_timeout_with_everything_that_hid_in_it(agent):
    script = "env -i setsid sh -c \"trap '' TERM; echo $$ > hidden; exec sleep 300\" & sleep 300"
    execution = agent.execute(Command(["sh", "-c", script], limits=limits(1, "64MiB"), timeout_s=1, grace_s=0.2))
    assert execution.state == "timeout"
    assert not runs(int(Path(execution.run_dir, "files", "hidden").read_text()))
    assert groups(execution.uuid) == []
    assert execution.limits["peak_memory_bytes"] > 0


@needs_root
@pytest.mark.fault(35)
def test_the_next_session_removes_the_group_of_a_killed_supervisor_and_who_hides_in_it(agent):
    # It has none of our marks, and its parent is no longer one of ours; only its group shows to whom it belongs.
    script = "env -i setsid sh -c 'echo $$ > hidden; exec sleep 300' & touch ready; sleep 300"
    service = Service(argv=["sh", "-c", script], ready={"mount": "/proc"})
    running = agent.start_service("web", service, confinement=Confinement(limits(1, "64MiB")))
    until(lambda: Path(running.dir, "hidden").exists() and Path(running.dir, "hidden").read_text())
    hidden = int(Path(running.dir, "hidden").read_text())
    os.kill(json.loads(Path(running.folder, "supervisor.json").read_text())["supervisor_pid"], signal.SIGKILL)
    assert runs(hidden)
    assert groups(running.uuid)
    marker = Path(running.folder, ".benchstudy")  # as if it were an earlier session's
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "session": "old"}))
    assert running.folder in agent.sweep()["removed"]
    assert not runs(hidden)
    assert groups(running.uuid) == []


# --- as the agent alone sees it ----------------------------------------------------------------------------------


RUNS_AGENT = (sys.executable, "-I", "-S", AGENT)


def supervised(folder: Path, agent=RUNS_AGENT, before: Callable[[], None] | None = None, **spec) -> dict:
    """The agent's last message about a command. It runs without SSH, so that a test can prepare what it inherits."""
    given = {"uuid": folder.name, "session": "s", "lock": "", "lease_s": 20.0, "timeout_s": 20.0, **spec}
    argv = [*agent, "run", str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=before) as process:
        process.stdin.write(json.dumps(given).encode() + b"\n")
        process.stdin.flush()
        return [json.loads(line) for line in process.stdout][-1]


def test_open_files_are_raised_to_what_is_asked_or_refused_with_the_number(tmp_path):
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 4000))

    folder = tmp_path / "runs" / f"raised-{os.getpid()}"
    record = supervised(folder, before=lower, argv=["sh", "-c", "ulimit -Sn"], open_files=3000)
    assert (folder / "stdout").read_text() == "4000\n", "to all that it may have"
    assert record["limits"]["effective"]["open_files"] == 4000
    folder = tmp_path / "runs" / f"more-{os.getpid()}"
    record = supervised(folder, before=lower, argv=["sh", "-c", "ulimit -Sn"], open_files=5000)
    if _may_raise_limits():
        assert (folder / "stdout").read_text() == "5000\n"
    else:
        assert record["state"] == "start-failed"
        assert "open_files: 5000 are requested, but" in record["cause"]
        assert "may have 4000 on this host" in record["cause"]
    bound = int(Path("/proc/sys/fs/nr_open").read_text())
    record = supervised(tmp_path / "runs" / f"most-{os.getpid()}", argv=["true"], open_files=bound + 1)
    assert record["state"] == "start-failed"
    assert f"fs.nr_open is {bound}" in record["cause"]


def _may_raise_limits() -> bool:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    return bool(int(line.split()[1], 16) >> 24 & 1)  # CAP_SYS_RESOURCE


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of nobody's, with an agent that nobody may read."""
    folder = Path(tempfile.mkdtemp(prefix="benchstudy-test-"))
    shutil.copytree(AGENT, folder / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_a_user_without_a_group_is_refused_limits_but_not_accounting(open_folder):
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    as_nobody = [*nobody, python, "-I", "-S", open_folder / "agent"]
    folder, nothing = open_folder / "runs", {"cpus": None, "memory_bytes": None}
    refused = supervised(folder / "refused", as_nobody, argv=["true"], limits={**nothing, "cpus": 1})
    assert refused["state"] == "start-failed"
    assert "cannot enforce limits for nobody" in refused["cause"]
    assert "no permission to make a group in /sys/fs/cgroup" in refused["cause"]
    assert "connect as root" in refused["cause"]
    counted = supervised(folder / "counted", as_nobody, argv=["true"], limits=nothing)
    assert (counted["state"], counted["exit_status"]) == ("exited", 0)
    assert counted["limits"]["kind"] is None
    assert "no permission" in counted["limits"]["why_no_group"]
    assert counted["limits"]["peak_memory_bytes"] is None, "unknown, and not zero"


# --- addresses and tools -----------------------------------------------------------------------------------------


def test_a_server_for_other_hosts_listens_at_the_hosts_service_address(agent, tmp_path):
    hosts = {"server": {"service_address": "127.0.0.2"}, "other": {}}
    for trial in trial_of(agent, tmp_path, hosts, {"sut": "server", "load": "other"}):
        with trial.server("web") as running:
            assert running.address == "127.0.0.2"
            assert running.fill("http://{{bind}}:{{port.web}}") == f"http://127.0.0.2:{running.ports['web']}"
            get(running, "")


def test_a_server_for_other_hosts_needs_to_be_told_its_address(agent, tmp_path):
    fix = r"hosts\.server\.service_address must be the address of server at which the others reach it"
    for trial in trial_of(agent, tmp_path, {"server": {}, "other": {}}, {"sut": "server", "load": "other"}):
        with pytest.raises(TrialFailed, match=fix), trial.server("web"):
            pytest.fail("it was not refused")


def test_a_provisioned_tool_goes_before_one_on_the_path(trial, agent):
    assert trial.tool_path("cat") == shutil.which("cat")
    tools = Path(agent.tools_dir)
    tools.mkdir(parents=True)
    (tools / "mine").write_text("#!/bin/sh\n")
    (tools / "mine").chmod(0o755)
    assert trial.tool_path("mine") == str(tools / "mine")
    with pytest.raises(TrialFailed, match=r"no-such-tool is missing on server: provisioning puts it into .*tools/bin"):
        trial.tool_path("no-such-tool")


# --- ways that this kernel offers only in part --------------------------------------------------------------------


@pytest.fixture
def cgroups(monkeypatch):
    """The adapter's own module, as it runs on a host."""
    monkeypatch.syspath_prepend(str(AGENT))
    import cgroups

    return cgroups


def unified_point() -> Path | None:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((Path(fields[1]) for fields in lines if fields[2] == "cgroup2"), None)


@needs_root
@pytest.mark.skipif(unified_point() is None, reason="no unified hierarchy is mounted here")
def test_a_real_v2_group_holds_counts_and_is_removed(cgroups, tmp_path):
    """On the kernel's own v2 tree. If v1 has the memory controller, as here, memory is not counted in it."""
    group = cgroups.UnifiedGroup(str(tmp_path), f"benchstudy-{tmp_path.name}", None, None)
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as process:
        group.admit(process.pid)
        assert group.folder.startswith(str(unified_point()))
        process.stdout.readline()
        used = group.usage()
        assert 0.2 < used["cpu_user_s"] + used["cpu_system_s"] < 5.0
        assert group.close() is None
        assert process.wait(10) == -signal.SIGKILL
    assert not Path(group.folder).exists()
    assert list(tmp_path.iterdir()) == [], "no group is registered any more"


V2_FILES = {
    "cgroup.procs": "",
    "cgroup.controllers": "cpuset cpu memory",
    "cgroup.subtree_control": "",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "0-1",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.peak": "33554432",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 0\n",
}


def test_what_is_said_to_and_read_from_a_v2_tree_with_all_controllers(cgroups, tmp_path, monkeypatch):
    """Only the protocol of the files, in a folder that looks like such a tree: this kernel's has no memory controller.

    v1 shows that such a limit holds; the real v2 group above shows that a group admits, counts and is removed.
    """
    tree = tmp_path / "cgroup"
    own = tree / "user.slice" / "session.scope"
    make_folder = os.mkdir

    def make_group(path: str, mode: int = 0o777) -> None:
        make_folder(path, mode)
        for name, text in V2_FILES.items():
            Path(path, name).write_text(text)

    for folder in (tree, own.parent, own):
        make_group(str(folder))
    # Our own group has processes and delegates nothing; the one above has no such controller to delegate.
    (own / "cgroup.controllers").write_text("memory")
    (own.parent / "cgroup.controllers").write_text("memory")
    (tree / "cgroup.subtree_control").write_text("cpuset memory")
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    monkeypatch.setattr(cgroups.os, "mkdir", make_group)
    here = cgroups.Hierarchy(str(tree), str(own), [])
    group = cgroups.UnifiedGroup(str(run_folder), "benchstudy-x", [0, 1], 32 * MIB, here)
    folder = tree / "benchstudy-x"
    assert group.folder == str(folder), "below the nearest group that can give both"
    said = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "cpuset.cpus")}
    assert said == {"memory.max": str(32 * MIB), "memory.swap.max": "0", "cpuset.cpus": "0,1"}
    assert json.loads((run_folder / ".cgroup").read_text()) == {"folders": [str(folder)]}
    group.admit(123456)
    assert (folder / "cgroup.procs").read_text() == "123456"
    assert (group.effective_cpus(), group.effective_memory_bytes()) == ([0, 1], 32 * MIB)
    (tree / "memory.max").write_text(str(16 * MIB))
    assert group.effective_memory_bytes() == 16 * MIB, "a lower limit above it is the one that counts"
    assert group.usage() == {
        "peak_memory_bytes": 32 * MIB,
        "oom_kills": 1,
        "cpu_user_s": 1.0,
        "cpu_system_s": 0.5,
    }
    (tree / "cgroup.controllers").write_text("cpu")
    (tree / "cgroup.subtree_control").write_text("")
    with pytest.raises(cgroups.Unavailable, match=r"cgroup has no controller memory and cpuset"):
        cgroups.UnifiedGroup(str(run_folder), "benchstudy-y", [0], MIB, here)


def test_systemd_is_asked_for_a_scope_with_the_limits_and_left_alone_where_it_does_not_run(cgroups, tmp_path):
    """With systemd in charge, its scope is used. Here, its command takes the options and says that it does not run."""
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here: the tests above went through it if this host has no v1")
    with pytest.raises(cgroups.Unavailable, match="systemd is not running here"):
        cgroups.ScopeGroup(str(tmp_path), "benchstudy-x", [0], MIB)
    argv = cgroups.ScopeGroup.command("benchstudy-x", [0, 2], 32 * MIB)
    assert {"--property=MemoryMax=33554432", "--property=MemorySwapMax=0", "--property=AllowedCPUs=0,2"} < set(argv)
    if shutil.which("systemd-run"):
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        assert done.returncode != 0
        assert "option" not in done.stderr, done.stderr
        assert "systemd" in done.stderr or "bus" in done.stderr, done.stderr


@pytest.mark.parametrize(("text", "cpus"), [("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("", [])])
def test_lists_of_cpus_are_read_as_the_kernel_writes_them(cgroups, text, cpus):
    assert cgroups.cpus_in(text + "\n") == cpus
