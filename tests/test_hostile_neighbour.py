"""A hostile user of the host and of the controller, during a session: what he plants, reaches, reads and locks."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nothing_lost import running
from test_agent import AGENT, ask, lock_spec, spec
from waiting import until

from benchstudy.hosts import loopback
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.errors import HostBusy, HostRefused, LockLost
from benchstudy.hosts.remote import Remote
from benchstudy.jobs import preloaded
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.model import registry
from benchstudy.model.services import Service

NEIGHBOUR = 61234  # needs no account
OWNER = {"study": "tests", "controller": "here"}
CANARY = "canary-4711-secret"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user, too")

# What he tries, as one program: how each attempt ended.
ATTEMPTS = """
import json, os, socket, sys
told = json.loads(sys.argv[1])
ended = {}
def attempt(name, call):
    try:
        ended[name] = "done: %r" % (call(),)
    except OSError as error:
        ended[name] = type(error).__name__
for path in told["paths"]:
    attempt("list " + path, lambda: os.listdir(path))
    attempt("read " + path, lambda: open(path, "rb").read(9))
    attempt("write " + path, lambda: open(path, "ab"))
    attempt("remove " + path, lambda: os.unlink(path))
    attempt("plant below " + path, lambda: os.symlink("/etc/passwd", path + "/planted"))
for path in told["sockets"]:
    os.chdir(os.path.dirname(path))
    attempt("connect " + path, lambda: socket.socket(socket.AF_UNIX).connect(os.path.basename(path)))
for pid in told["pids"]:
    for name in ("environ", "mem", "maps"):
        attempt("%s of %d" % (name, pid), lambda: open("/proc/%d/%s" % (pid, name), "rb").read(9))
    for name in ("fd", "cwd"):
        attempt("%s of %d" % (name, pid), lambda: os.listdir("/proc/%d/%s" % (pid, name)))
    attempt("signal %d" % pid, lambda: os.kill(pid, 0))
arguments = []
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            arguments.append(open("/proc/%s/cmdline" % pid, "rb").read().decode(errors="replace"))
        except OSError:
            pass
print(json.dumps({"ended": ended, "in arguments": [a for a in arguments if told["canary"] in a]}))
"""


def as_neighbour(code: str, *words: str) -> subprocess.Popen:
    argv = ["/usr/bin/python3", "-I", "-S", "-c", code, *words]
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    return subprocess.Popen(
        argv, user=NEIGHBOUR, group=NEIGHBOUR, extra_groups=[], text=True, start_new_session=True, **pipes
    )


def told_by(code: str, *words: str) -> str:
    with as_neighbour(code, *words) as process:
        return process.communicate(timeout=60)[0]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder for everybody, like /tmp."""
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.fixture
def remote(sshd, shared) -> Iterator[Remote]:
    with Remote("alpha", sshd.host.model_copy(update={"work_dir": str(shared / "home" / "work")})) as remote:
        yield remote


def deployed(remote: Remote, shared: Path) -> HostAgent:
    return HostAgent.deploy(
        remote, lease_s=20.0, reconnect_s=5.0, on_event=lambda _: None, lock_path=str(shared / "host.lock")
    )


@pytest.mark.fault(41)
def test_he_reads_nothing_reaches_nothing_and_sees_no_secret(remote, shared, monkeypatch):
    """His targets: a server with a secret, the sshd of loopback hosts, and the process that jobs fork from."""
    project = shared / "project"
    state = project / ".benchstudy" / "loopback"
    state.mkdir(parents=True)
    monkeypatch.chdir(project)
    service = Service(
        secret_env={"key": "KEY"}, env={"KEY": "{{secret.key}}"}, argv=["sleep", "300"], ready={"file": "{{dir}}"}
    )
    agent = deployed(remote, shared)
    with agent.lock("session-a", OWNER), loopback.running(state), subprocess.Popen(["sleep", "300"]) as command:
        server = agent.start_service("server", service, secrets={"key": CANARY})
        folders = [agent.work_dir, server.folder, f"{server.folder}/.lease", server.dir, state]
        keys = [state / name for name in ("user_key", "host_key", "sshd_config")]
        socket = preloaded.socket_of(str(command.pid))
        ours = [*running("BENCHSTUDY_SESSION=session-a")]
        with preloaded.connect(socket, str(command.pid)):
            told = {
                "paths": [*map(str, (*folders, agent.scratch(str(shared)), *keys))],
                "sockets": [str(socket.absolute())],
                "pids": [os.getpid(), *(process.pid for process in ours)],
                "canary": CANARY,
            }
            seen = json.loads(told_by(ATTEMPTS, json.dumps(told)))
        command.kill()
        lived = {process.pid for process in running("BENCHSTUDY_SESSION=session-a")}
        assert any(CANARY in process.traces for process in ours if process.pid in lived), "the server has the secret"
    until(lambda: not list(running(str(project))))
    assert not seen["in arguments"], "which every user can read"
    # Everybody may read the empty `maps` of a process that has ended and is not yet reaped.
    ended = {str(process.pid) for process in ours if process.pid not in lived}
    judged = {name: how for name, how in seen["ended"].items() if name.rpartition(" ")[2] not in ended}
    done = [f"{name}: {how}" for name, how in judged.items() if how.startswith("done")]
    assert not done and len(judged) > 50


@pytest.mark.fault(41)
def test_what_he_plants_where_a_scratch_folder_will_be_is_not_taken_for_ours(remote, shared):
    """He sees the session's name in our arguments, and knows what a marker looks like."""
    marker = {"uuid": "session-a", "session": "session-a", "kind": "scratch", "lock": str(shared / "host.lock")}
    plant = "import os, sys; os.mkdir(sys.argv[1]); open(sys.argv[1] + '/.benchstudy', 'w').write(sys.argv[2])"
    agent = deployed(remote, shared)
    with agent.lock("session-a", OWNER):
        told_by(plant, str(shared / "benchstudy-session-a"), json.dumps(marker))
        ours = Path(agent.scratch(str(shared)))
        assert ours.stat().st_uid == os.getuid() and ours.stat().st_mode & 0o777 == 0o700
    assert not ours.exists()
    assert (shared / "benchstudy-session-a" / ".benchstudy").exists(), "it is his"


@pytest.mark.fault(41)
def test_a_folder_of_his_in_the_place_of_ours_is_not_removed(shared):
    """He knows its name, because it is listed, and the name tells what its marker says."""
    planted = shared / "benchstudy-4711"
    marker = {"uuid": "4711", "session": "session-a", "kind": "scratch", "lock": ""}
    plant = (
        "import os, sys; os.mkdir(sys.argv[1]); open(sys.argv[1] + '/.benchstudy', 'w').write(sys.argv[2])\n"
        "open(sys.argv[1] + '/file', 'w')"
    )
    told_by(plant, str(planted), json.dumps(marker))
    assert "belongs to another user" in ask("remove", "4711", str(planted))["error"]
    os.chown(planted, os.getuid(), -1)  # a folder of ours that he may write, moved there
    assert "no .benchstudy marker of ours" in ask("remove", "4711", str(planted))["error"]
    assert {path.name for path in planted.iterdir()} == {".benchstudy", "file"}


# Removes the folder argv[1], which he replaces by a link to the folder argv[2] once the first file is gone.
REPLACED = """
import os, sys
sys.path.insert(0, sys.argv[3])
import folders
ours, home, unlink = sys.argv[1], sys.argv[2], os.unlink
def and_replace(*path, **how):
    unlink(*path, **how)
    os.unlink = unlink
    os.rename(ours, ours + "-moved")
    os.symlink(home, ours)
os.unlink = and_replace
folders.remove(ours, "4711")
"""


@pytest.mark.fault(41)
def test_a_folder_that_he_replaces_by_a_link_while_it_is_removed_leads_nowhere(shared):
    ours, home = shared / "benchstudy-4711", shared / "home"
    names = ["notes", "thesis", "documents/letter", "documents/deep/letter"]
    for folder in (ours, home):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    marker = {"uuid": "4711", "session": "session-a", "kind": "scratch", "lock": ""}
    (ours / ".benchstudy").write_text(json.dumps(marker))
    (home / ".benchstudy").touch()
    argv = [sys.executable, "-I", "-c", REPLACED, str(ours), str(home), str(AGENT)]
    assert "Not a directory" in subprocess.run(argv, capture_output=True, text=True, timeout=60).stderr
    assert all((home / name).exists() for name in (*names, ".benchstudy"))
    assert not list((shared / "benchstudy-4711-moved").iterdir()), "ours is emptied wherever it is"


MEASURED = {
    "fio": lambda path: {"directories": [{"name": "d", "path": path}], "size": "1MiB"},
    "file_size": lambda path: {"backends": [{"name": "b", "kind": "path", "path": path}], "sizes": ["1KB"]},
}


@pytest.mark.fault(41)
@pytest.mark.parametrize("name", MEASURED)
def test_check_names_a_measured_folder_in_which_he_may_rename(remote, shared, name):
    family = registry.get(name)
    look = HostCheck(deployed(remote, shared), roles=["sut"])
    for mode in (0o777, 0o1777):
        shared.chmod(mode)
        family.check(family.Config.model_validate(MEASURED[name](str(shared))), look)
    told = [(fine, what.partition(str(shared))[2]) for fine, what, _ in look.findings if str(shared) in what]
    (refused, why), (fine, _) = told
    assert not refused and fine and "others may replace folders" in why


@pytest.mark.fault(41)
@pytest.mark.parametrize("mode", [0o777, 0o775], ids=["everybody", "a group"])
def test_a_folder_in_which_he_may_rename_is_no_place_for_scratch(remote, shared, mode):
    data = shared / "data"
    (data / "below").mkdir(parents=True)
    os.chown(data, -1, NEIGHBOUR)
    data.chmod(mode)
    agent = deployed(remote, shared)
    with agent.lock("session-a", OWNER):
        for place in (data, data / "below"):
            with pytest.raises(HostRefused, match=f"others may replace folders in {data}: `chmod \\+t {data}`"):
                agent.scratch(str(place))
        assert [path.name for path in data.iterdir()] == ["below"]
        data.chmod(mode | 0o1000)
        assert Path(agent.scratch(str(data))).is_dir()
        data.chmod(mode)
        shared.chmod(0o700)  # nobody reaches what is in it
        assert Path(agent.scratch(str(data / "below"))).is_dir()


PLANTED = {
    "a link to the folder": "os.symlink(other, work)",
    "a folder of his": "os.mkdir(work, 0o777)",
    "our folder in one of his": "work += '/inner'; os.mkdir(os.path.dirname(work), 0o777)",
}


@pytest.mark.fault(41)
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_work_folder_that_he_could_exchange_is_refused(sshd, shared, planted):
    place = told_by(
        f"import os, sys\nwork = sys.argv[1] + '/work'; other = sys.argv[1] + '/other'\n{planted}\nprint(work, end='')",
        str(shared),
    )
    with (
        Remote("alpha", sshd.host.model_copy(update={"work_dir": place})) as remote,
        pytest.raises(HostRefused, match="set work_dir"),
    ):
        deployed(remote, shared)
    assert not (shared / "other").exists()


@pytest.mark.fault(41)
@pytest.mark.parametrize("mode", [0o777, 0o775], ids=["everybody", "a group"])
def test_a_folder_that_others_may_change_is_no_place_for_a_work_folder(sshd, shared, mode):
    changed = shared / "open"
    changed.mkdir()
    changed.chmod(mode)
    os.chown(changed, -1, NEIGHBOUR)
    for work, why in {
        changed / "work": f"lies in {changed}, where another user may replace it",
        changed: f"others may have written what is in the work folder {changed}, because its mode is {mode:04o}",
    }.items():
        with (
            Remote("alpha", sshd.host.model_copy(update={"work_dir": str(work)})) as remote,
            pytest.raises(HostRefused, match=why),
        ):
            deployed(remote, shared)
    os.chown(changed, -1, os.getgid())
    changed.chmod(0o775)  # a group of our own, as many distributions have it
    with Remote("alpha", sshd.host.model_copy(update={"work_dir": str(changed / "work")})) as remote:
        deployed(remote, shared)
    assert (changed / "work").stat().st_mode & 0o7777 == 0o700


LINKED = {"link": "os.symlink(victim, path)", "name": "os.link(victim, path)", "pipe": "os.mkfifo(path)"}


@pytest.mark.fault(41)
@pytest.mark.parametrize("linked", LINKED.values(), ids=LINKED)
def test_a_lock_that_leads_elsewhere_destroys_nothing(tmp_path, shared, linked):
    """Root makes it, as a kernel without protected_hardlinks would let him do."""
    victim, path = shared / "victim", shared / "host.lock"
    victim.write_text("ours")
    exec(linked, {"os": os, "victim": victim, "path": path})
    given = lock_spec(tmp_path, "a") | {"lock": str(path)}
    said = ask("lock", str(tmp_path / "sessions" / "a"), input=json.dumps(given).encode() + b"\n")
    assert "remove it" in said["error"]
    assert victim.read_text() == "ours"


HOLD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
os.fchmod(file, 0o666)
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.fault(41)
def test_who_holds_the_lock_to_hinder_us_is_named(remote, shared):
    with as_neighbour(HOLD, str(shared / "host.lock")) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostBusy, match=f"process {holder.pid} of user {NEIGHBOUR} holds"):
            deployed(remote, shared).lock("session-a", OWNER).__enter__()
        holder.communicate("\n")


@pytest.mark.fault(41)
def test_a_lock_file_that_he_made_and_takes_away_ends_the_session(remote, shared):
    """Otherwise, another session would get the lock of a new file, and its load would overlap with ours."""
    told_by(HOLD, str(shared / "host.lock"))
    agent = deployed(remote, shared)
    with agent.lock("session-a", OWNER) as lock:
        told_by("import os, sys; os.unlink(sys.argv[1])", str(shared / "host.lock"))
        with pytest.raises(LockLost, match="was the lock file removed"):
            until(lock.confirm)


@pytest.mark.fault(41)
def test_what_crashes_leaves_no_memory_behind(tmp_path):
    """Although the host's limits allow it: a server's secrets would be among the files of a trial."""
    run = tmp_path / "runs" / "u-1"
    given = spec("sh", "-c", "kill -SEGV $$", secret_env={"KEY": CANARY})
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    argv = [sys.executable, "-I", "-S", str(AGENT), "run", str(run)]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited),
    ) as process:
        process.stdin.write(json.dumps(given).encode() + b"\n")
        process.stdin.flush()
        record = [json.loads(line) for line in process.stdout][-1]
    assert record["signal"] == 11
    assert not [path for path in run.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert not list((run / "files").iterdir())
