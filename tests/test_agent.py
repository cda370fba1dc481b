"""The agent on its own, through its command line, as a host runs it."""

import ast
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from agent_folders import agent_folder
from waiting import runs, until

AGENT = Path(__file__).parents[1] / "src" / "benchstudy" / "agent"
# A lease that heartbeats extend, long enough that none of them is late on a busy machine.
LEASE_S = 10.0
# A shell that ignores TERM, with a child that detached for good: own session, parent gone.
STUBBORN = (
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 300 & echo $! > hidden; wait' &) ; while :; do sleep 1; done"
)


def ask(command: str, *arguments: str, **options) -> dict:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(AGENT), command, *arguments], capture_output=True, timeout=60, **options
    )
    return json.loads(done.stdout)


class Conversation:
    """A process for `run`, `watch`, `lock` or `hold`, with the controller's way to talk to it."""

    def __init__(self, command: str, folder: Path, spec: dict | None = None):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(AGENT), command, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if spec is not None:
            self.say(spec)

    def say(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def final(self) -> dict:
        return [json.loads(line) for line in self.process.stdout][-1]

    def hang_up(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(BrokenPipeError):  # what was written to a process that had ended is still in the buffer
            self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def conversations() -> Iterator[Callable[..., Conversation]]:
    begun: list[Conversation] = []

    def begin(*arguments, **options) -> Conversation:
        begun.append(Conversation(*arguments, **options))
        return begun[-1]

    yield begin
    for conversation in begun:
        if conversation.process.poll() is None:
            with suppress(BrokenPipeError):
                conversation.say({"stop": True})
            conversation.process.wait(30)
        conversation.hang_up()


def spec(*argv: str, **other) -> dict:
    return {
        # Supervisors end everything with the number of their run, including what a parallel test started.
        "uuid": f"u-{uuid.uuid4()}",
        "session": "s-1",
        "lock": "",
        "lease_s": 20.0,
        "argv": list(argv),
        "timeout_s": 30.0,
        "grace_s": 0.3,
        **other,
    }


def test_every_module_is_python_3_9():
    for source in AGENT.glob("*.py"):
        ast.parse(source.read_text(), feature_version=(3, 9))


def test_an_unknown_command_is_named():
    assert "known: run" in ask("no-such-command")["error"]


# --- supervised commands -----------------------------------------------------------------------------------------


def test_a_command_leaves_output_files_and_a_record(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    script = "cat; pwd > here; echo $COLOUR $KEY; echo bad >&2; exit 3"
    begun = conversations(
        "run",
        folder,
        spec=spec("sh", "-c", script, stdin="aGk=", env={"COLOUR": "red"}, secret_env={"KEY": "canary"}),
    )
    record = begun.final()
    assert (record["state"], record["exit_status"], record["signal"]) == ("exited", 3, None)
    assert (folder / "stdout").read_text() == "hired canary\n"
    assert (folder / "stderr").read_text() == "bad\n"
    assert (folder / "files" / "here").read_text().strip() == str(folder / "files")
    assert json.loads((folder / "supervisor.json").read_text()) == record
    assert "canary" not in json.dumps(record)
    assert record["env"] == {"COLOUR": "red"}
    assert record["secret_env"] == ["KEY"]
    assert 0 < record["duration_s"] < 10
    assert abs(record["clock_step_s"]) < 0.5
    assert record["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(
    "command",
    ["nonsense", "no_such_module:run", "no.such:run", "facts:no_such_function", "wire:json", ":run", "facts:"],
)
def test_a_command_that_there_is_not_is_told_without_a_traceback(command):
    done = subprocess.run([sys.executable, "-I", "-S", str(AGENT), command], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, b"")
    assert json.loads(done.stdout)["error"].startswith(f"no such command: {command!r}; known: run, ")


def test_servers_are_found_though_the_path_of_a_user_does_not_lead_to_them(tmp_path, conversations, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert ask("tool", "chroot")["path"] == "/usr/sbin/chroot"
    record = conversations("run", tmp_path / "u-1", spec=spec("chroot", "--version")).final()
    assert (record["state"], record["exit_status"]) == ("exited", 0)


def test_a_command_that_cannot_start_says_why(tmp_path, conversations):
    record = conversations("run", tmp_path / "runs" / "u-1", spec=spec("/no/such/program")).final()
    assert record["state"] == "start-failed"
    assert record["cause"] == "cannot start '/no/such/program': No such file or directory"


@pytest.mark.fault(17, 18)
def test_a_timeout_ends_a_double_forked_child_that_ignores_term(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    record = conversations("run", folder, spec=spec("sh", "-c", STUBBORN, timeout_s=1.0)).final()
    assert (record["state"], record["signal"]) == ("timeout", 9)
    assert 1.0 <= record["duration_s"] < 5.0
    assert not runs(int((folder / "files" / "hidden").read_text()))


@pytest.mark.fault(18)
def test_what_outlives_the_command_is_ended_with_it(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    script = "setsid sleep 300 & echo $! > left; exit 0"
    record = conversations("run", folder, spec=spec("sh", "-c", script)).final()
    assert (record["state"], record["exit_status"]) == ("exited", 0)
    assert len(record["survivors"]) == 1
    assert record["duration_s"] < 5.0
    assert not runs(int((folder / "files" / "left").read_text()))


def test_the_lease_ends_everything_when_the_controller_falls_silent(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    begun = conversations("run", folder, spec=spec("sh", "-c", STUBBORN, lease_s=3.0))
    begun.hear()
    until((folder / "files" / "hidden").exists)
    # The connection stays; only the heartbeats stop.
    record = begun.final()
    assert record["state"] == "lease-expired"
    assert not runs(int((folder / "files" / "hidden").read_text()))


def test_heartbeats_renew_the_lease_and_tell_the_time(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    waiting = "until [ -e go ]; do sleep 0.05; done"
    begun = conversations("run", folder, spec=spec("sh", "-c", waiting, lease_s=LEASE_S))
    assert begun.hear()["state"] in ("starting", "running")
    answers, over = [], time.monotonic() + LEASE_S + 0.5
    while time.monotonic() < over:
        begun.say({"beat": len(answers)})
        answers.append(begun.hear())
        time.sleep(0.25)
    (folder / "files" / "go").touch()
    assert [answer["beat"] for answer in answers] == list(range(len(answers)))
    assert abs(answers[0]["wall"] - time.time()) < 60
    assert begun.final()["state"] == "exited"


def test_watching_is_taken_up_again_and_hears_the_same_end(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    begun = conversations("run", folder, spec=spec("sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo done"))
    begun.hear()
    begun.hang_up()
    again = conversations("watch", folder)
    assert again.hear()["state"] in ("starting", "running")
    # The controller does not know whether its specification arrived, so the same run is not started twice.
    third = conversations("run", folder, spec=spec("false"))
    (folder / "files" / "go").touch()
    assert again.final() == third.final() == conversations("watch", folder).final()
    assert (folder / "stdout").read_text() == "done\n"


def test_a_request_to_stop_ends_the_command(tmp_path, conversations):
    begun = conversations("run", tmp_path / "runs" / "u-1", spec=spec("sleep", "300"))
    begun.hear()
    begun.say({"stop": True})
    assert begun.final()["state"] == "stopped"


def test_a_question_that_came_together_with_the_specification_is_answered(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    asked = conversations("run", folder)
    both = (spec("sleep", "300", lease_s=LEASE_S), {"beat": 7})
    asked.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in both))
    asked.process.stdin.flush()
    # Without any further line. If it waited for one, the lease would run out, and the record would come instead.
    assert any("beat" in asked.hear() for _ in range(2))


@pytest.mark.fault(35)
def test_a_killed_supervisor_is_noticed_at_once_and_nothing_runs_on(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    begun = conversations("run", folder, spec=spec("sh", "-c", "setsid sleep 300 & echo $! > left; wait"))
    until(lambda: (folder / "files" / "left").exists() and (folder / "files" / "left").read_text() != "")
    until(lambda: "supervisor_pid" in json.loads((folder / "supervisor.json").read_text()))
    os.kill(json.loads((folder / "supervisor.json").read_text())["supervisor_pid"], 9)
    record = begun.final()
    assert record["state"] == "lost"
    assert record["cause"] == "the supervisor was killed on the host"
    assert not runs(int((folder / "files" / "left").read_text()))


@pytest.mark.fault(10)
def test_a_reboot_in_between_is_told(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    conversations("run", folder, spec=spec("true")).final()
    record = json.loads((folder / "supervisor.json").read_text())
    (folder / "supervisor.json").write_text(json.dumps({**record, "state": "running", "boot_id": "another"}))
    assert conversations("watch", folder).final()["cause"] == "the host was rebooted"
    assert conversations("watch", tmp_path / "runs" / "u-2").final()["state"] == "absent"


def test_cleanup_steps_run_after_a_timeout_and_a_failing_one_is_an_event(tmp_path, conversations):
    folder = tmp_path / "runs" / "u-1"
    steps = [["sh", "-c", "echo no >&2; exit 4"], ["touch", "cleaned"]]
    record = conversations("run", folder, spec=spec("sleep", "60", timeout_s=0.2, cleanup=steps)).final()
    assert record["state"] == "timeout"
    assert (folder / "files" / "cleaned").exists()
    (event,) = [e for e in record["events"] if e["event"] == "cleanup step failed"]
    assert "exit status 4\nno" in event["detail"]


GIVES_AWAY = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
    "print('given', flush=True); socket.send_fds(s, [b'x'], [1, 2]); s.recv(1)"
)


@pytest.mark.parametrize("goes_on", [False, True], ids=["holds it", "writes for ever"])
def test_cleanup_steps_run_though_a_process_of_others_holds_the_output_open(tmp_path, conversations, goes_on):
    folder = tmp_path / "runs" / "u-1"
    steps = [["sh", "-c", f"sleep 0.1; touch {name}"] for name in ("one", "two")]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        argv = [sys.executable, "-c", GIVES_AWAY, str(tmp_path / "s")]
        begun = conversations("run", folder, spec=spec(*argv, max_output_bytes=1000, cleanup=steps))
        connection, _ = listening.accept()
        with connection:
            _, held, _, _ = socket.recv_fds(connection, 1, 2)
            writer = threading.Thread(target=_write_for_ever, args=(held[0],), daemon=True)
            if goes_on:
                writer.start()
            connection.send(b"x")
        record = begun.final()
    assert (record["state"], record["exit_status"]) == ("exited", 0)
    assert sorted(path.name for path in (folder / "files").iterdir()) == ["one", "two"]
    assert record["events"] == []
    assert (folder / "stdout").read_text().startswith("given\n")
    if goes_on:
        writer.join(10)
    for fd in held:
        os.close(fd)


def _write_for_ever(fd: int) -> None:
    """Until nobody reads it any more."""
    with suppress(BrokenPipeError):
        while True:
            os.write(fd, bytes(4096))


@pytest.mark.fault(14)
@pytest.mark.parametrize("setup", [[], [["sh", "-c", "cat /dev/zero > before; true"]]], ids=["full", "full twice"])
def test_a_full_disk_does_not_hang_the_command_and_is_told(setup):
    # A file system of 256 KiB in a mount namespace of its own, which ends with the process.
    folder = "/mnt/runs/u-1"
    given = json.dumps(spec("sh", "-c", "head -c 5000000 /dev/zero; cat /dev/zero > fill; exit 7", setup=setup))
    run = f"'{sys.executable}' -I '{AGENT}' run {folder}"
    script = f'mount -t tmpfs -o size=256k none /mnt && echo "$1" | (cat; sleep 1) | {run}'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", given],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    record = json.loads(done.stdout.splitlines()[-1])
    assert (record["state"], record["exit_status"]) == ("exited", 7)
    assert record["stdout_bytes"] == 5_000_000
    assert record["stdout_truncated"] and record["cause_kind"] == "disk-full"
    events = [event["event"] for event in record["events"]]
    assert "stdout incomplete" in events and events.count("disk full") == 1


# --- lock --------------------------------------------------------------------------------------------------------


def lock_spec(tmp_path: Path, session: str, lease_s: float = 20.0) -> dict:
    lock = str(tmp_path / "host.lock")
    owner = {"controller": f"host of {session}"}
    return {"session": session, "owner": owner, "lease_s": lease_s, "beat_s": 0.2, "lock": lock}


@pytest.mark.fault(5)
def test_a_live_owner_is_named_and_never_robbed(tmp_path, conversations):
    first = conversations("lock", tmp_path / "sessions" / "a", spec=lock_spec(tmp_path, "a"))
    assert first.hear()["state"] == "held"
    rival = conversations("lock", tmp_path / "sessions" / "b", spec=lock_spec(tmp_path, "b"))
    verdict = None
    while verdict is None:
        first.say({"beat": 1})
        first.hear()
        if rival.process.poll() is not None:
            verdict = rival.final()
        time.sleep(0.1)
    assert verdict == {"state": "busy", "owner": {"controller": "host of a"}}
    first.say({"stop": True})
    assert first.final() == {"state": "released"}
    assert conversations("lock", tmp_path / "sessions" / "c", spec=lock_spec(tmp_path, "c")).hear()["state"] == "held"


@pytest.mark.fault(5)
def test_a_silent_owner_is_waited_for_and_everything_of_its_session_is_gone(tmp_path, conversations):
    first = conversations("lock", tmp_path / "sessions" / "a", spec=lock_spec(tmp_path, "a", lease_s=4.0))
    first.hear()
    scratch = Path(ask("scratch", str(tmp_path / "sessions" / "a"), str(tmp_path))["path"])
    (scratch / "data").write_text("x")
    orphan = conversations(
        "run",
        tmp_path / "runs" / "u-1",
        spec=spec("sh", "-c", STUBBORN, session="a", lock=lock_spec(tmp_path, "a")["lock"]),
    )
    hidden = tmp_path / "runs" / "u-1" / "files" / "hidden"
    until(lambda: hidden.exists() and hidden.read_text() != "")
    pid = int(hidden.read_text())
    first.say({"beat": 0})  # its lease begins again
    first.hear()
    orphan.hang_up()
    first.hang_up()
    rival = conversations("lock", tmp_path / "sessions" / "b", spec=lock_spec(tmp_path, "b"))
    waiting = rival.hear()
    assert waiting["state"] == "waiting"
    assert waiting["owner"] == {"controller": "host of a"}
    assert 0 < waiting["seconds_left"] <= 5.0
    assert rival.hear()["state"] == "held"
    # Its own lease is five times longer: the keeper ended it before it released the lock.
    assert not runs(pid)
    assert not scratch.exists()
    assert not hidden.exists()


def test_a_lock_path_that_is_no_plain_file_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "host.lock").symlink_to(victim)
    given = json.dumps(lock_spec(tmp_path, "a")).encode() + b"\n"
    assert "cannot open the lock file" in ask("lock", str(tmp_path / "sessions" / "a"), input=given)["error"]
    assert victim.read_text() == "precious"


@pytest.mark.fault(14)
def test_a_lock_whose_file_system_is_full_is_told_before_the_session_begins(tmp_path):
    given = json.dumps({**lock_spec(tmp_path, "a"), "lock": "/mnt/host.lock"})
    script = (
        "mount -t tmpfs -o size=64k none /mnt && cat /dev/zero > /mnt/fill 2> /dev/null;"
        f" echo '{given}' | '{sys.executable}' -I '{AGENT}' lock '{tmp_path}/sessions/a'"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    full = "cannot write the lock file /mnt/host.lock: No space left on device; free space on the file system of /mnt"
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"error": full}]
    assert not (tmp_path / "sessions").exists()


@pytest.mark.fault(14)
def test_a_folder_whose_marker_has_no_room_is_told_and_does_not_stay(tmp_path):
    """Nothing would ever remove it."""
    script = (
        "mount -t tmpfs -o size=64k none /mnt && mkdir /mnt/runs && cat /dev/zero > /mnt/fill 2> /dev/null;"
        f" echo '{json.dumps(spec('true'))}' | '{sys.executable}' -I '{AGENT}' run /mnt/runs/u-1; ls -A /mnt/runs"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    (said,) = done.stdout.splitlines()
    why = "run: [Errno 28] No space left on device: '/mnt/runs/u-1/.benchstudy'; free some space there"
    assert json.loads(said) == {"error": why, "disk_full": True}


IN_THE_BOOKS = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
from accounts import Accounts
session = sys.argv[2]
books = Accounts(session)
books.open()
books.join(os.getpid())
for change in (lambda: Accounts(session).join(os.getpid()), lambda: Accounts(session).leave()):
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        change()
        os._exit(0)
    os.wait()
    print(os.getpid() in Accounts(session).roots()[0])
"""


@pytest.mark.fault(14)
def test_a_full_disk_makes_no_process_of_ours_one_of_others(tmp_path):
    """An entry or a sum that was half-written would hide all of them."""
    argv = [sys.executable, "-I", "-c", IN_THE_BOOKS, AGENT, tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "True"]


# --- removal -----------------------------------------------------------------------------------------------------


def marked_folder(path: Path, run: str = "u-1") -> Path:
    path.mkdir(parents=True)
    marker = {"uuid": run, "session": "s", "kind": "run", "lock": ""}
    (path / ".benchstudy").write_text(json.dumps(marker))
    return path


def test_a_marked_folder_is_removed_and_links_in_it_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "sentinel").touch()
    folder = marked_folder(tmp_path / "ours")
    (folder / "link").symlink_to(outside)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").touch()
    (folder / "deep" / "er").chmod(0o500)
    assert ask("remove", "u-1", str(folder)) == {"removed": [str(folder)]}
    assert not folder.exists()
    assert (outside / "sentinel").exists()
    assert ask("remove", "u-1", str(folder)) == {"removed": []}


def test_a_folder_that_is_being_removed_can_be_removed_again(tmp_path):
    """As after a lost connection: the first removal still goes on when the same is asked again."""
    for _ in range(4):
        folder = marked_folder(tmp_path / "u-1")
        for number in range(2000):
            (folder / str(number % 20)).mkdir(exist_ok=True)
            (folder / str(number % 20) / str(number)).touch()
        with ThreadPoolExecutor(2) as both:
            answers = [*both.map(lambda _, path=str(folder): ask("remove", "u-1", path), range(2))]
        assert not [answer["error"] for answer in answers if "error" in answer] and not folder.exists()


@pytest.mark.fault(23)
def test_an_empty_folder_of_its_name_is_removed_without_a_marker_too(tmp_path):
    """Whoever made or removed it was killed; with anything in it, it may be somebody's."""
    folder = tmp_path / "benchstudy-u-1"
    folder.mkdir()
    (folder / "file").touch()
    assert "no .benchstudy marker" in ask("remove", "u-1", str(folder))["error"]
    (folder / "file").unlink()
    assert ask("remove", "u-1", str(folder)) == {"removed": [str(folder)]} and not folder.exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "root folder or a home"),
        ("~", "root folder or a home"),
        ("real", "must be an absolute path"),
        ("{tmp}/real/../real", "without '..'"),
        ("{tmp}/link", "symbolic link"),
        ("{tmp}/unmarked", "no .benchstudy marker"),
        ("{tmp}/another", "its marker has the UUID u-2"),
        ("{tmp}/link-marker", "no .benchstudy marker"),
        ("/proc", "no .benchstudy marker"),
    ],
)
@pytest.mark.fault(23)
def test_anything_else_is_refused_and_survives(tmp_path, path, reason):
    home = marked_folder(tmp_path / "home")
    real = marked_folder(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "unmarked").mkdir()
    marked_folder(tmp_path / "another", "u-2")
    (tmp_path / "link-marker").mkdir()
    (tmp_path / "link-marker" / ".benchstudy").symlink_to(real / ".benchstudy")
    sentinels = [folder / "sentinel" for folder in tmp_path.iterdir()]
    for sentinel in sentinels:
        sentinel.touch()
    target = str(home) if path == "~" else path.format(tmp=tmp_path)
    answer = ask("remove", "u-1", target, cwd=tmp_path, env={**os.environ, "HOME": str(home)})
    assert reason in answer["error"]
    assert all(sentinel.exists() for sentinel in sentinels)


@pytest.mark.fault(23)
def test_a_folder_with_a_mount_in_it_is_refused(tmp_path):
    folder = marked_folder(tmp_path / "ours")
    (folder / "mnt").mkdir()
    script = f"mount -t tmpfs none '{folder}/mnt' && '{sys.executable}' -I '{AGENT}' remove u-1 '{folder}'"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, timeout=30)
    assert "is a mount point" in json.loads(done.stdout)["error"]
    assert folder.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system")
def test_where_a_file_system_gives_our_files_to_another_user_a_scratch_folder_is_still_ours(tmp_path):
    """As NFS does with those of root. In a namespace of its own, which ends with the process."""
    session, shared, mount = (tmp_path / name for name in ("session", "shared", "mount"))
    marked_folder(session)
    for folder in (session / "scratch", shared, mount):
        folder.mkdir()
    server = tmp_path / "sftp"
    server.write_text("#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n")
    server.chmod(0o700)
    agent = f"'{sys.executable}' -I '{AGENT}'"
    script = (
        f"sshfs -o ssh_command='{server}',uid=4711 none:'{shared}' '{mount}' &&"
        f" {agent} scratch '{session}' '{mount}' && {agent} scratch '{session}' '{mount}' && touch '{mount}'/*/file;"
        f" stat -c %u '{mount}'/*; {agent} remove-scratch '{session}'; umount '{mount}'"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    made, again, owner, removed = map(json.loads, done.stdout.splitlines())
    assert owner == 4711 and made == again
    assert removed == {"removed": [made["path"]]} and not list(shared.iterdir())


# --- facts -------------------------------------------------------------------------------------------------------


def test_facts_of_this_machine():
    facts = ask("facts", "sh", "no-such-tool")
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["memory_total_bytes"] > 1 << 28
    assert any(mount["point"] == "/" for mount in facts["mounts"])
    assert len(facts["tools"]["sh"]["sha256"]) == 64
    assert facts["tools"]["no-such-tool"] == {"path": None, "version": None, "sha256": None}


def test_a_program_tells_its_version_even_where_it_ends_with_a_status_or_was_built_here(tmp_path):
    program = tmp_path / "bin" / "wrk"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho wrk 4.2\nexit 1\n")
    silent = program.with_name("logbench")
    silent.write_text("#!/bin/sh\nexit 2\n")
    for path in (program, silent):
        path.chmod(0o755)
    assert ask("tool", str(program))["version"] == "wrk 4.2"
    assert ask("tool", str(silent))["version"] is None
    built = {"version": "v1", "sha256": hashlib.sha256(silent.read_bytes()).hexdigest()}
    (tmp_path / "tool.json").write_text(json.dumps(built))
    assert ask("tool", str(silent))["version"] == "v1"
    silent.write_text("#!/bin/sh\nexit 3\n")
    assert ask("tool", str(silent))["version"] is None, "what was built is no longer what lies there"


def test_nothing_goes_on_of_a_program_that_works_instead_of_telling_its_version(tmp_path):
    program = tmp_path / "bench"
    begins = "sleep 60 > /dev/null 2>&1 &\nsetsid sleep 61 > /dev/null 2>&1 &\n"
    program.write_text(f"#!/bin/sh\n{begins}echo $! $(jobs -p) >> {tmp_path}/begun\n")
    program.chmod(0o755)
    ask("tool", str(program))
    begun = [int(pid) for pid in (tmp_path / "begun").read_text().split()]
    assert begun and not any(map(runs, begun))


def test_facts_without_any_tool_are_null_and_no_error(tmp_path):
    facts = ask("facts", "fio", env={"PATH": str(tmp_path)})
    assert facts["lscpu"] is None
    assert facts["lsblk"] is None
    assert facts["tools"]["fio"]["path"] is None


def test_path_info_of_something_that_is_not_there_tells_about_its_parent(tmp_path):
    info = ask("path-info", str(tmp_path / "not" / "there"))
    assert (info["exists"], info["is_dir"], info["writable"]) == (False, False, True)
    assert info["free_bytes"] > 0
    assert info["fs_type"] is not None
    assert str(tmp_path).startswith(info["mount_point"])


# --- services ----------------------------------------------------------------------------------------------------


def test_a_mount_that_its_server_leaves_behind_is_unmounted(tmp_path):
    service = {
        "argv": ["sh", "-c", "mkdir '{{dir}}/mnt' && mount -t tmpfs none '{{dir}}/mnt' && exec sleep 300"],
        "ready": {"tcp": None, "http": None, "mount": "{{dir}}/mnt", "timeout": 10.0},
        **{"ports": [], "files": {}, "setup": [], "env": {}, "stop": None},
    }
    folder = tmp_path / "services" / "u-1"
    given = {"uuid": "u-1", "session": "s", "lock": "", "lease_s": 20.0, "name": "store", "service": service}
    (tmp_path / "spec").write_text(json.dumps({**given, "secrets": {}, "others": {}, "libraries": {}}) + "\n")
    agent = f"'{sys.executable}' -I '{AGENT}'"
    script = (
        f"{agent} start-service '{folder}' < '{tmp_path}/spec'; grep -c '{folder}' /proc/mounts;"
        f"{agent} stop-service '{folder}'; {agent} remove u-1 '{folder}'"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    started, mounts, stopped, removed = done.stdout.splitlines()
    assert json.loads(started)["ready"]
    assert mounts == "1"
    assert [event["event"] for event in json.loads(stopped)["events"]][-1] == "unmounted"
    assert json.loads(removed) == {"removed": [str(folder)]}


def test_no_service_gets_a_port_that_was_chosen_for_what_starts_later():
    folder = agent_folder("load_test")
    names = [f"p{number}" for number in range(20)]
    chosen = [sys.executable, "-I", "-S", folder, "load_site:free_ports", *names]
    later = json.loads(subprocess.run(chosen, capture_output=True, check=True).stdout)["ports"]
    script = "import json, sockets, sys; print(json.dumps(sockets.free_ports(list(map(str, range(500))))))"
    of_services = json.loads(
        subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, check=True).stdout
    )
    assert len(set(later.values())) == 20 and len(set(of_services.values())) == 500
    assert max(of_services.values()) < min(later.values())
