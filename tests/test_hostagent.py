"""The controller's side of the agent, against a real sshd."""

import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from agent_folders import agent_folder
from sshd_hosts import SshdHost
from waiting import interrupts_heard_in_waits, runs, until

from benchstudy.hosts import connection, heartbeats, line, transfer
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.errors import AgentKilled, HostBusy, HostRefused, LockLost, ServiceFailed
from benchstudy.hosts.heartbeats import Heartbeats
from benchstudy.hosts.remote import CommandTimeout, ConnectionLost, ContentRefused, Remote, TransferFailed, Unreachable
from benchstudy.measuring.execution import TrialExecution
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.measuring.neighbours import Neighbours
from benchstudy.measuring.progress import log_to
from benchstudy.measuring.state import SessionState
from benchstudy.model.errors import TrialFailed
from benchstudy.model.host import Host
from benchstudy.model.services import Limits, Ready, Service
from benchstudy.model.studyfile import parse_study

SESSION = "session-a"
OWNER = {"study": "tests", "controller": "here"}
# A lease that heartbeats extend, long enough that none of them is late on a busy machine.
KEPT_S = 10.0


@pytest.fixture
def events() -> list[str]:
    return []


@pytest.fixture
def remote(sshd, tmp_path) -> Iterator[Remote]:
    host = sshd.host.model_copy(update={"work_dir": str(tmp_path / "work")})
    with Remote("alpha", host) as remote:
        yield remote


@pytest.fixture
def deploy(remote, tmp_path, events) -> Callable[..., HostAgent]:
    def deploy(**options) -> HostAgent:
        settings = {"lease_s": 20.0, "reconnect_s": 10.0, "lock_path": str(tmp_path / "host.lock"), **options}
        return HostAgent.deploy(remote, on_event=events.append, **settings)

    return deploy


@pytest.fixture
def agent(deploy) -> HostAgent:
    return deploy()


@pytest.fixture
def held(agent) -> Iterator[HostAgent]:
    with agent.lock(SESSION, OWNER):
        yield agent


DIES = """
import os, wire

def at_first(arguments):
    if not os.path.exists(arguments[0]):
        os.mkdir(arguments[0])
        os.kill(os.getpid(), 15)
    wire.emit({"asked": "again"})

def always(arguments):
    os.kill(os.getpid(), 9)
"""


SAYS = """
import wire

def escapes(arguments):
    raise wire.AgentError("\\x1b]0;title\\a")
"""


def left_on_host(tmp_path: Path) -> list[str]:
    """What is still in the work folder's three kinds of marked folders."""
    return [str(path) for kind in ("runs", "services", "sessions") for path in (tmp_path / "work" / kind).glob("*")]


@contextmanager
def agent_on(sshd: SshdHost, tmp_path: Path, work_dir: str = "") -> Iterator[HostAgent]:
    settings = {"lease_s": 20.0, "reconnect_s": 10.0, "lock_path": str(tmp_path / "host.lock")}
    host = Host.model_validate({**sshd.host.model_dump(), "work_dir": work_dir or f"{tmp_path}/work"})
    with sshd, Remote("alpha", host) as remote:
        yield HostAgent.deploy(remote, on_event=print, **settings)


def test_the_cause_of_a_failed_python_program_is_its_error_without_the_traceback(deploy, tmp_path):
    agent = deploy()
    script = "try:\n 1 / 0\nexcept ZeroDivisionError:\n raise RuntimeError('no port')"
    with agent.lock(SESSION, OWNER):
        execution = agent.execute(Command([sys.executable, "-c", script]))
        agent.fetch(execution, tmp_path / "out")
    stdout, stderr, files = (tmp_path / "out" / name for name in ("stdout", "stderr", "files"))
    with pytest.raises(TrialFailed) as failed:
        TrialExecution(execution, stdout, stderr, files, "tool").require_success()
    assert str(failed.value) == "tool exited with status 1: RuntimeError: no port"
    assert "During handling of the above exception" in stderr.read_text()


def test_no_word_of_a_host_is_a_command_to_a_terminal(deploy, tmp_path, capfd):
    """Such as OSC 52, which sets the clipboard. Files keep what the tool wrote."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "says.py").write_text(SAYS)
    agent = deploy(extensions=[tmp_path / "more"])
    script = r"printf '\033[31mno\033[0m \033]52;c;QQ==\007 \342\200\256 \ttab' >&2; exit 1"
    with agent.lock(SESSION, OWNER):
        execution = agent.execute(Command(["sh", "-c", script]))
        agent.fetch(execution, tmp_path / "out")
    stdout, stderr, files = (tmp_path / "out" / name for name in ("stdout", "stderr", "files"))
    with pytest.raises(TrialFailed) as failed:
        TrialExecution(execution, stdout, stderr, files, "tool").require_success()
    assert b"\x1b[31mno" in stderr.read_bytes()
    assert str(failed.value) == "tool exited with status 1: no \ufffd]52;c;QQ==\ufffd \ufffd \ttab"
    with pytest.raises(HostRefused) as refused:
        agent.call("says:escapes")
    undo = log_to(tmp_path / "job.log")
    logging.getLogger("benchstudy").warning("an event of a host: %s", "\x1b]0;title\a")
    undo()
    for text in (str(refused.value), capfd.readouterr().err, (tmp_path / "job.log").read_text()):
        assert "\ufffd]0;title\ufffd" in text and "\x1b" not in text


@pytest.mark.parametrize("written", ["{folder}/work/", "{folder}//work/./", "~/work/"])
def test_a_work_folder_and_a_home_may_end_with_a_slash(tmp_path, written):
    sshd = SshdHost(tmp_path / "sshd", environment={"HOME": f"{tmp_path}/"})
    with agent_on(sshd, tmp_path, written.format(folder=tmp_path)) as agent, agent.lock(SESSION, OWNER):
        execution = agent.execute(Command(["true"]))
        agent.discard(execution)
    assert (execution.state, agent.work_dir) == ("exited", f"{tmp_path}/work")
    assert left_on_host(tmp_path) == []


def test_a_command_may_have_more_processes_than_its_supervisor_may_open_files(tmp_path):
    script = "n=0; while [ $n -lt 400 ]; do sleep 60 & n=$((n + 1)); done; sleep 2; ulimit -Sn"
    options = ['ForceCommand ulimit -Sn 512; exec sh -c "$SSH_ORIGINAL_COMMAND"']
    with agent_on(SshdHost(tmp_path / "sshd", options=options), tmp_path) as agent, agent.lock(SESSION, OWNER):
        execution = agent.execute(Command(["sh", "-c", script]))
        agent.fetch(execution, tmp_path / "out")
    assert (execution.state, execution.exit_status) == ("exited", 0)
    assert (tmp_path / "out" / "stdout").read_text() == "512\n"
    assert max(len(reading["ours_pids"]) for reading in execution.readings) > 400
    assert all(reading["ours_io"] for reading in execution.readings)


def test_arguments_keep_their_bytes_whatever_the_locale_of_the_host(tmp_path):
    name = "de_DE.ISO-8859-1"
    made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(tmp_path / name)]
    if subprocess.run(made, capture_output=True).returncode:
        pytest.skip("no locale can be made here: the package locales is missing")
    environment = {"LC_ALL": name, "LOCPATH": str(tmp_path)}
    sshd = SshdHost(tmp_path / "sshd", environment=environment)
    with agent_on(sshd, tmp_path) as agent, agent.lock(SESSION, OWNER):
        execution = agent.execute(Command(["printf", "%s", "ü ☃ 名"]))
        agent.fetch(execution, tmp_path / "out")
    assert (execution.cause, (tmp_path / "out" / "stdout").read_text()) == (None, "ü ☃ 名")


# --- deploying ---------------------------------------------------------------------------------------------------


def test_the_agent_is_put_once_and_an_altered_one_is_refused(deploy):
    first = deploy()
    probe = Path(first.directory, "probe")
    probe.touch()
    assert deploy().directory == first.directory
    assert probe.exists(), "it was put again although it was there"
    with open(Path(first.directory, "facts.py"), "a") as file:
        file.write("\n")
    with pytest.raises(HostRefused, match=r"agent-\w{12} was altered; remove that folder"):
        deploy()


@pytest.mark.fault(23)
def test_a_work_folder_that_is_a_link_is_refused_and_its_target_survives(deploy, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostRefused, match=r"alpha: the work folder .*work is a symbolic link; set work_dir"):
        deploy()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.fault(33)
def test_a_missing_python_is_named_with_the_way_out(sshd, tmp_path):
    host = sshd.host.model_copy(update={"work_dir": str(tmp_path / "work"), "python": "python3.0"})
    with (
        Remote("alpha", host) as remote,
        pytest.raises(HostRefused, match=r"no 'python3.0'; install.*hosts\.alpha\.python"),
    ):
        HostAgent.deploy(remote, lease_s=5, reconnect_s=5, on_event=print)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "#!/bin/sh\necho libpython: cannot open shared object file >&2; exit 1\n",
            "cannot run there: .*libpython.*fix it",
        ),
        ("#!/bin/sh\necho hello\n", "is not a Python"),
        ("#!/bin/sh\nexec python3 -c 'print(\"{}\")'\n", "is not a Python"),
    ],
)
@pytest.mark.fault(33)
def test_a_python_that_cannot_run_is_not_called_missing(sshd, tmp_path, text, words):
    python = tmp_path / "python"
    python.write_text(text)
    python.chmod(0o755)
    host = sshd.host.model_copy(update={"work_dir": str(tmp_path / "work"), "python": str(python)})
    with Remote("alpha", host) as remote, pytest.raises(HostRefused, match=words):
        HostAgent.deploy(remote, lease_s=5, reconnect_s=5, on_event=print)


def test_a_work_folder_that_cannot_be_made_is_named_with_the_way_out(sshd):
    host = sshd.host.model_copy(update={"work_dir": "/proc/none/work"})
    with Remote("alpha", host) as remote, pytest.raises(HostRefused, match=r"alpha: .*/proc/none/work .*set work_dir"):
        HostAgent.deploy(remote, lease_s=5, reconnect_s=5, on_event=print)


def test_limits_that_the_host_has_not_got_are_found_by_check(agent):
    look = HostCheck(agent, roles=["sut"])
    look.limits([Limits(cpus=1), Limits(memory="1MiB")], "limits")
    assert look.findings == []
    look.limits([Limits(cpus=4096), Limits(memory="900TiB")], "limits")
    cpus, memory = (text for _, text, _ in look.findings)
    assert "asks for 4096 CPUs, but" in cpus and "asks for 989560464998400 bytes, but" in memory


def test_who_ended_before_it_was_spoken_to_is_heard_out(remote):
    with remote.open(["sh", "-c", "echo gone; exit 3"]) as process:
        assert process.wait(10) == 3
        process.write_line(b"hello?")
        assert (process.read_line(10), process.read_line(10)) == (b"gone\n", b"")


@pytest.mark.fault(39)
def test_what_a_host_sends_is_bounded_and_only_files(remote, tmp_path, monkeypatch):
    """Whatever it answers: if its files are refused, the trial has failed, and only that trial is lost."""
    monkeypatch.setattr(connection, "LONGEST_LINE", 1 << 16)
    endless = ["sh", "-c", "while :; do printf 0123456789abcdef; done"]
    with remote.open(endless) as process, pytest.raises(ContentRefused, match="a line of more than 65536 bytes"):
        process.read_line(30)
    source = tmp_path / "left"
    source.mkdir()
    os.mkfifo(source / "pipe")
    with pytest.raises(ContentRefused, match="neither a file, a folder nor a link"):
        remote.get_tree(str(source), tmp_path / "a")
    (source / "pipe").unlink()
    (source / "out").symlink_to("../../etc/passwd")
    with pytest.raises(TrialFailed, match="outside"):
        remote.get_tree(str(source), tmp_path / "b")
    monkeypatch.setattr(transfer, "MOST_FILES", 20)
    for number in range(20):
        (source / f"{number}").touch()
    with pytest.raises(ContentRefused, match="more than 20 files"):
        remote.get_tree(str(source), tmp_path / "c")


# --- commands ----------------------------------------------------------------------------------------------------


def test_a_command_that_is_told_to_stop_has_ended_and_is_no_result_that_was_cut_off(held, tmp_path):
    told = threading.Event()
    begun = tmp_path / "begun"
    done = []
    command = Command(["sh", "-c", f"touch {begun}; echo so far; exec sleep 600"], stop_when=told)
    thread = threading.Thread(target=lambda: done.append(held.execute(command)))
    thread.start()
    until(begun.exists)
    told.set()
    thread.join(timeout=60)
    (execution,) = done
    assert execution.state == "ended" and execution.duration_s < 60
    held.fetch(execution, tmp_path / "here")
    assert (tmp_path / "here" / "stdout").read_text() == "so far\n"
    held.discard(execution)
    # A command that has already ended keeps its result.
    assert held.execute(Command(["true"], stop_when=threading.Event())).state == "exited"


def test_a_command_and_its_files_come_back_and_nothing_stays(held, tmp_path):
    script = "cat; echo $A-$B; echo made > made.txt; exit 5"
    command = Command(["sh", "-c", script], env={"A": "a"}, secret_env={"B": "b"}, stdin=b"in ")
    execution = held.execute(command)
    assert (execution.state, execution.exit_status, execution.signal) == ("exited", 5, None)
    assert execution.argv == tuple(command.argv)
    assert execution.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert execution.started <= execution.finished
    held.fetch(execution, tmp_path / "here")
    assert (tmp_path / "here" / "stdout").read_text() == "in a-b\n"
    assert (tmp_path / "here" / "files" / "made.txt").read_text() == "made\n"
    assert {p.name for p in (tmp_path / "here").iterdir()} == {"stdout", "stderr", "files", "supervisor.json"}
    held.discard(execution)
    held.discard(execution)
    assert [Path(path).name for path in left_on_host(tmp_path)] == [SESSION]


def test_output_that_somebody_removed_from_the_host_is_said_to_be_gone(held, tmp_path):
    execution = held.execute(Command(["echo", "x"]))
    Path(execution.run_dir, "stdout").unlink()
    with pytest.raises(TransferFailed, match=f"the output in {execution.run_dir} was removed before it was copied"):
        held.fetch(execution, tmp_path / "here")


@pytest.mark.parametrize("argument", ["; rm -rf x", "$(touch x)", "a\nb", "-rf", "../x", "`id`", "ü€", "'\""])
@pytest.mark.fault(22)
def test_hostile_arguments_stay_arguments(held, argument, tmp_path):
    execution = held.execute(Command(["printf", "%s", argument]))
    held.fetch(execution, tmp_path / "here")
    assert (tmp_path / "here" / "stdout").read_bytes() == argument.encode()


@pytest.mark.fault(16)
def test_50_mb_on_both_streams_are_capped_and_marked(held, tmp_path):
    script = "head -c 50000000 /dev/zero | tee /dev/stderr"
    execution = held.execute(Command(["sh", "-c", script], max_output_bytes=1000, timeout_s=60))
    assert (execution.state, execution.exit_status) == ("exited", 0)
    assert execution.stdout_truncated
    assert execution.stderr_truncated
    held.fetch(execution, tmp_path / "here")
    assert (tmp_path / "here" / "stdout").stat().st_size == 1000
    assert json.loads((tmp_path / "here" / "supervisor.json").read_text())["stderr_bytes"] == 50_000_000


@pytest.mark.fault(17)
def test_a_hanging_command_that_ignores_term_is_a_timeout_without_survivors(held):
    script = "trap '' TERM; setsid sleep 300 & echo $! > left; while :; do sleep 1; done"
    execution = held.execute(Command(["sh", "-c", script], timeout_s=0.7, grace_s=0.3))
    assert (execution.state, execution.signal) == ("timeout", signal.SIGKILL)
    assert 0.7 <= execution.duration_s < 5
    assert not runs(int(Path(execution.run_dir, "files", "left").read_text()))


TERMINAL_PROBE = """
import os, sys, tty
tty.setraw(1)
os.close(os.open("/dev/tty", os.O_RDWR))
shown = os.ttyname(0) == os.ttyname(1), os.isatty(2)
leads = os.getsid(0) == os.getpid() == os.tcgetpgrp(0)
print(os.get_terminal_size(0), os.environ["TERM"], shown, leads, file=sys.stderr)
blob = bytes(range(256)) * 2000
while blob:
    blob = blob[os.write(1, blob):]
os._exit(7)
"""


def test_a_terminal_of_its_own_whose_bytes_come_back_verbatim(held, tmp_path):
    execution = held.execute(Command(["python3", "-c", TERMINAL_PROBE], terminal=(40, 120)))
    assert (execution.state, execution.exit_status, execution.stdout_truncated) == ("exited", 7, False)
    held.fetch(execution, tmp_path / "here")
    said = (tmp_path / "here" / "stderr").read_text()
    assert said == "os.terminal_size(columns=120, lines=40) xterm-256color (True, False) True\n"
    assert (tmp_path / "here" / "stdout").read_bytes() == bytes(range(256)) * 2000, "up to the last byte before the end"
    assert json.loads((tmp_path / "here" / "supervisor.json").read_text())["terminal"] == [40, 120]


def test_what_runs_in_a_terminal_is_capped_and_ended_with_all_that_came_of_it(held, tmp_path):
    script = (
        "trap '' TERM HUP INT; setsid sleep 300 & echo $! > left; echo drawn; cat /dev/zero & while :; do wait; done"
    )
    command = Command(
        ["sh", "-c", script], env={"TERM": "dumb"}, terminal=(24, 80), max_output_bytes=1000, timeout_s=0.7, grace_s=0.3
    )
    execution = held.execute(command)
    assert (execution.state, execution.stdout_truncated) == ("timeout", True)
    assert not runs(int(Path(execution.run_dir, "files", "left").read_text()))
    assert not any("could not be ended" in event for event in execution.events)
    drawn = Path(execution.run_dir, "stdout").read_bytes()
    assert len(drawn) == 1000 and drawn.startswith(b"drawn\r\n"), "as a terminal gets it"


@pytest.mark.parametrize("wrong", [{"terminal": (0, 80)}, {"terminal": (24,)}, {"terminal": (24, 80), "stdin": b"x"}])
def test_a_terminal_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="terminal:"):
        Command(["true"], **wrong)


def test_a_program_that_is_not_there_is_start_failed(held):
    execution = held.execute(Command(["no-such-program"]))
    assert execution.state == "start-failed"
    assert "no-such-program" in execution.cause


@pytest.mark.fault(7)
def test_the_same_command_goes_on_through_dropped_connections(agent, sshd, events, tmp_path):
    go = tmp_path / "go"
    script = f"echo once >> {tmp_path}/starts; until [ -e {go} ]; do sleep 0.05; done; echo done"
    found = []
    with agent.lock(SESSION, OWNER):
        worker = threading.Thread(target=lambda: found.append(agent.execute(Command(["sh", "-c", script]))))
        worker.start()
        until((tmp_path / "starts").exists)
        for _ in range(2):
            before = agent.generation
            assert sshd.drop_connections()
            until(lambda before=before: agent.generation > before)
        go.touch()
        worker.join(20)
        (execution,) = found
        assert (execution.state, execution.exit_status) == ("exited", 0)
        assert (tmp_path / "starts").read_text() == "once\n"
        agent.fetch(execution, tmp_path / "here")
        assert (tmp_path / "here" / "stdout").read_text() == "done\n"
    assert sum("connected again" in event for event in events) == 2
    assert left_on_host(tmp_path) == []


@pytest.fixture
def state(agent, remote, tmp_path, events) -> SessionState:
    backend = {"name": "local", "kind": "path", "path": str(tmp_path)}
    study = parse_study(
        {
            "study": "s",
            "hosts": {"alpha": remote.host.model_dump(exclude_none=True)},
            "targets": {"here": {"roles": {"sut": "alpha"}}},
            "families": {"file_size": {"backends": [backend], "sizes": ["1MB"], "sync": ["none"]}},
        }
    )
    return SessionState(SESSION, study.session("here", "file_size"), {"alpha": agent}, tmp_path / "s", events.append)


@pytest.mark.parametrize(
    "ask",
    [
        lambda state: abs(state.host("sut").clock().offset_s) < 0.05,
        lambda state: state.tool_path("sh", "sut").endswith("/sh"),
        lambda state: state.library("boto3", "sut").startswith(state.host("sut").work_dir),
    ],
    ids=["clock", "tool", "library"],
)
def test_what_a_trial_asks_a_host_is_asked_again_after_a_dropped_connection(state, sshd, events, ask):
    assert sshd.drop_connections()
    assert ask(state)
    assert sum("connected again" in event for event in events) == 1


def test_commands_that_start_together_ask_for_a_version_once(state, tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho program 1.0\n")
    program.chmod(0o755)
    together = threading.Barrier(4)

    def ask(_) -> str | None:
        together.wait()
        return state.tool("sut", str(program)).version

    with ThreadPoolExecutor(together.parties) as threads:
        assert set(threads.map(ask, range(together.parties))) == {"program 1.0"}
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_broken_agent_is_told_and_not_taken_for_a_lost_connection(held):
    Path(held.directory, "watcher.py").write_text("raise RuntimeError('broken on purpose')\n")
    with pytest.raises(HostRefused, match="broken on purpose"):
        held.execute(Command(["true"]))


@pytest.mark.fault(35)
def test_questions_are_answered_by_one_process_which_is_replaced_when_it_dies(agent, sshd, events):
    def desks() -> set[int]:
        return {pid for pid, argv in _processes() if argv[-1:] == ["serve"] and agent.directory in argv}

    cpus = agent.call("cpus")
    assert agent.call("cpus") == cpus
    (desk,) = desks()
    for unknown in ("no-such-command", "no_such_module:run", "facts:no_such_function"):
        with pytest.raises(HostRefused, match="no such command"):
            agent.call(unknown)
    threads = [threading.Thread(target=agent.call, args=("cpus",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert desks() == {desk} and events == []

    os.kill(desk, signal.SIGKILL)
    until(lambda: not runs(desk))
    assert agent.call("cpus") == cpus
    assert len(desks() - {desk}) == 1 and events == []


def test_a_question_that_takes_too_long_is_ended_and_the_next_one_gets_its_own_answer(agent, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    with pytest.raises(CommandTimeout, match=r"tool was ended after 0\.5 s"):
        agent.ask("tool", str(slow), timeout_s=0.5)
    until(lambda: not any(str(slow) in argv for _, argv in _processes()))
    assert agent.call("cpus")["cpus"] == sorted(os.sched_getaffinity(0))


def test_a_host_that_gives_no_reading_in_time_costs_no_trial(held, tmp_path, monkeypatch):
    held.call("cpus")
    (desk,) = (pid for pid, argv in _processes() if argv[-1:] == ["serve"] and held.directory in argv)
    os.kill(desk, signal.SIGSTOP)
    monkeypatch.setattr(held, "call", partial(held.call, timeout_s=0.5))
    neighbours = Neighbours({"measured": held, "alpha": held})
    with neighbours.around("command", "measured", True) as observed:
        observed([])
    neighbours.keep(tmp_path)
    (command,) = json.loads((tmp_path / "interference.json").read_text())["commands"]
    assert list(command["hosts"]) == ["measured"]


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(folder.name), (folder / "cmdline").read_text().split("\0")[:-1]


def test_the_clock_of_this_very_machine_has_no_offset(agent):
    assert abs(agent.clock().offset_s) < 0.05
    assert abs(agent.facts(["sh"])["clock"]["offset_s"]) < 0.05


# --- lock and lease ----------------------------------------------------------------------------------------------


def test_a_lock_that_somebody_else_holds_in_silence_names_the_process_and_its_user(tmp_path):
    """Any user of the host may lock a file in /tmp, and the agent's own module, which asks, finds out who did."""
    lock = tmp_path / "somebodys.lock"
    ask = "import sys; sys.path[:0] = [sys.argv[1]]; import keeper; print(keeper.holder(keeper.open_lock(sys.argv[2])))"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        told = subprocess.run([sys.executable, "-c", ask, agent_folder("fio"), lock], capture_output=True, text=True)
    assert told.stdout == f"process {os.getpid()} of user {os.getuid()}\n"


@pytest.mark.fault(21)
def test_a_clock_that_is_set_in_mid_session_is_told_once(agent, events):
    told, beats = len(events), Heartbeats()
    for ahead_s in (0.0, 0.1, 7200.0, 7200.1):
        asked = json.loads(beats.question())
        agent.note_clock(beats, {**asked, "wall": time.time() + ahead_s})
    assert [event for event in events[told:] if "clock" in event] == ["alpha: its clock was set by +7200.0 s"]
    assert agent.last_clock_offset_s == pytest.approx(7200, abs=1)


def test_a_clock_is_known_while_another_thread_begins_to_ask_for_it(agent, monkeypatch):
    begun, answered, asks = threading.Event(), threading.Event(), agent.remote.open
    other = threading.Thread(target=agent.clock)

    def opened(argv):
        if threading.current_thread() is other:
            begun.set()
            assert answered.wait(30)
            return asks(argv)
        process = asks(argv)
        closes = process.close

        def close():
            other.start()
            assert begun.wait(30)
            closes()

        process.close = close
        return process

    monkeypatch.setattr(agent.remote, "open", opened)
    assert agent.clock().offset_s == pytest.approx(0.0, abs=0.1)
    answered.set()
    other.join(30)
    assert agent.last_clock_offset_s == pytest.approx(0.0, abs=0.1)


def test_a_late_answer_belongs_to_its_own_heartbeat_and_sets_no_clock(agent, events, monkeypatch):
    told, beats, began = len(events), Heartbeats(), time.time()
    now = SimpleNamespace(time=lambda: began, monotonic=time.monotonic)
    for module in (heartbeats, line):
        monkeypatch.setattr(module, "time", now)

    def answered(question, at_s):
        return {**json.loads(question), "wall": began + at_s}

    agent.note_clock(beats, answered(beats.question(), 0.0))
    # The host answers at once. The path then holds the answer back until just after the next heartbeat was sent.
    late = answered(beats.question(), 0.0)
    now.time = lambda: began + 30.0
    in_time = answered(beats.question(), 30.0)
    agent.note_clock(beats, late)
    agent.note_clock(beats, in_time)
    assert not events[told:] and agent.last_clock_offset_s == pytest.approx(0.0, abs=0.001)
    with pytest.raises(HostRefused, match="answers the heartbeat 2, which was not sent or is answered already"):
        agent.note_clock(beats, late)


@pytest.mark.fault(5, 6)
def test_a_second_controller_is_refused_by_name_while_the_first_lives(deploy):
    first, second = deploy(lease_s=KEPT_S), deploy(lease_s=KEPT_S)
    with first.lock(SESSION, {**OWNER, "controller": "vega"}):
        time.sleep(KEPT_S + 0.5)  # the heartbeats extend it
        with pytest.raises(HostBusy, match=r"alpha is in use by .*controller vega") as refused:
            second.lock("session-b", OWNER).__enter__()
        assert refused.value.owner["controller"] == "vega"
    with second.lock("session-b", OWNER):
        pass


CONTROLLER = """
import sys
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.remote import CommandTimeout, Remote
from benchstudy.model.services import Service
from benchstudy.model.study import Host
host, lock, scratch, script = Host.model_validate_json(sys.argv[1]), *sys.argv[2:5]
with Remote("alpha", host) as remote:
    agent = HostAgent.deploy(remote, lease_s=5.0, reconnect_s=5.0, on_event=print, lock_path=lock)
    with agent.lock("killed", {"controller": "doomed"}):
        print(agent.scratch(scratch), flush=True)
        server = ["python3", "-m", "http.server", "-b", "127.0.0.1", "{{port.web}}"]
        service = Service(ports=["web"], argv=server, ready={"tcp": "web", "timeout": "20s"})
        print(agent.start_service("web", service).ports["web"], flush=True)
        agent.execute(Command(["sh", "-c", script], grace_s=0.3))
"""


@pytest.fixture
def doomed(remote, tmp_path) -> Iterator[tuple[subprocess.Popen, str, int, int]]:
    """A controller during a command: its scratch folder, its service's port, and the pid of a double-forked child."""
    hidden = tmp_path / "hidden"
    script = f"trap '' TERM; (setsid sh -c 'echo $$ > {hidden}; exec sleep 300' &); while :; do sleep 1; done"
    argv = [remote.host.model_dump_json(), str(tmp_path / "host.lock"), str(tmp_path), script]
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, *argv], stdout=subprocess.PIPE, text=True) as process:
        try:
            scratch, port = process.stdout.readline().strip(), int(process.stdout.readline())
            until(lambda: hidden.exists() and hidden.read_text())
            yield process, scratch, port, int(hidden.read_text())
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@pytest.mark.fault(1, 5)
def test_a_killed_controller_leaves_nothing_behind_and_its_silent_lock_is_waited_for(doomed, agent, events, tmp_path):
    process, scratch, port, hidden = doomed
    assert runs(hidden)
    process.kill()
    process.wait()
    with agent.lock("session-b", OWNER):
        assert any("controller doomed" in event and "is silent; waiting" in event for event in events)
        assert not runs(hidden)
        assert not Path(scratch).exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        assert [Path(path).name for path in left_on_host(tmp_path)] == ["session-b"]


@pytest.mark.fault(4)
def test_an_interrupted_controller_ends_its_command_at_once(doomed, tmp_path):
    process, _, _, hidden = doomed
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    assert not runs(hidden)
    assert left_on_host(tmp_path) == []


def test_ctrl_c_ends_a_session_whose_host_is_away(deploy, sshd, events):
    agent = deploy(reconnect_s=120.0)

    def press():
        sshd.stop()
        until(lambda: any("reconnecting" in event for event in events))
        pressed.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    pressed: list[float] = []
    presser = threading.Thread(target=press)
    try:
        with interrupts_heard_in_waits(), pytest.raises(KeyboardInterrupt), agent.lock(SESSION, OWNER):
            presser.start()
            try:
                agent.execute(Command(["sleep", "300"]))
            finally:  # as a session cleans up
                with pytest.raises(Unreachable):
                    agent.remove_scratch()
        assert time.monotonic() - pressed[0] < 20
    finally:
        presser.join()
        sshd.start()


def test_a_transfer_tries_to_connect_again_for_as_long_as_the_study_says(deploy, remote, sshd, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for number in range(64):
        (source / str(number)).write_bytes(bytes(1 << 20))
    deploy(reconnect_s=1.0)

    def leave():
        until(lambda: len(list(target.glob("*"))) >= 8)
        sshd.stop()

    leaving = threading.Thread(target=leave)
    leaving.start()
    began = time.monotonic()
    try:
        with pytest.raises(Unreachable) as told:
            remote.get_tree(str(source), target)
    finally:
        leaving.join()
        sshd.start()
    assert told.value.host == "alpha" and time.monotonic() - began < 30


@pytest.mark.fault(35)
def test_a_lost_lock_stops_the_session(deploy):
    agent = deploy()
    with agent.lock(SESSION, OWNER) as lock:
        os.kill(_keeper_of(agent), signal.SIGKILL)
        until(lambda: _raises(lock.confirm))
        with pytest.raises(LockLost, match="alpha: the lock was lost"):
            agent.execute(Command(["true"]))


@pytest.mark.parametrize("late_s", [0.0, 1.0])
def test_a_lock_is_not_confirmed_while_nobody_answers_for_it(deploy, late_s):
    """`late_s`: so long after the question, a busy controller reads the answer to an earlier one."""
    agent = deploy(lease_s=3.0)
    with agent.lock(SESSION, OWNER) as lock:
        answering = lock._process.pid
        os.kill(answering, signal.SIGSTOP)
        lock._heard += late_s
        try:
            with pytest.raises(LockLost, match="lease expired"):
                lock.confirm()
        finally:
            os.kill(answering, signal.SIGCONT)


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.fault(35)
def test_what_a_killed_keeper_would_have_removed_is_removed_without_it(deploy, tmp_path, noticed):
    """The last session on a host has no other one after it that would do so."""
    agent = deploy()
    with agent.lock(SESSION, OWNER) as lock:
        folder = tmp_path / "work" / "sessions" / SESSION
        run = Path(agent.execute(Command(["true"])).run_dir)
        os.kill(_keeper_of(agent), signal.SIGKILL)
        if noticed:
            until(lambda: _raises(lock.confirm))
        assert folder.is_dir() and run.is_dir(), "outputs can be fetched as long as the session goes on"
    assert not folder.exists() and not run.exists()
    with agent.lock("next", OWNER):
        assert agent.sweep() == {"ended": [], "removed": [], "kept": []}


def test_a_session_without_its_keeper_is_not_ended_while_another_one_has_the_lock(deploy, tmp_path):
    agent = deploy()
    folder = tmp_path / "work" / "sessions" / SESSION
    with agent.lock(SESSION, OWNER):
        assert agent.call("end-session", str(folder)) == {"left": True} and folder.is_dir()
    assert agent.call("end-session", str(folder)) == {"left": False}


def _keeper_of(agent) -> int:
    return next(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and agent.lock_path in _open_files(p))


def _open_files(process: Path) -> list[str]:
    found = []
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.append(os.readlink(descriptor))
    return found


def _raises(check: Callable[[], None]) -> bool:
    try:
        check()
    except LockLost:
        return True
    return False


def test_an_agent_that_is_killed_is_asked_again_and_no_answer_is_told(deploy, tmp_path, events):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "dies.py").write_text(DIES)
    agent = deploy(extensions=(tmp_path / "more",))
    assert agent.call("dies:at_first", str(tmp_path / "asked")) == {"asked": "again"}
    assert events == ["alpha: the agent's dies:at_first was killed (status -15); it is asked again"]
    with pytest.raises(AgentKilled, match=r"alpha: the agent's dies:always was killed \(status -9\)"):
        agent.call("dies:always")


def test_a_clock_that_is_killed_is_asked_again(agent, tmp_path, events):
    asked, module = tmp_path / "asked", Path(agent.directory, "watcher.py")
    dies = f"if not os.path.exists({str(asked)!r}):\n    os.mkdir({str(asked)!r})\n    os.kill(os.getpid(), 9)\n"
    module.write_text(module.read_text() + dies)
    assert abs(agent.clock().offset_s) < 0.05
    assert events == ["alpha: the agent's clock was killed; it is asked again"]


@pytest.mark.fault(35)
def test_sweeping_ends_and_removes_what_a_lost_keeper_left_and_nothing_else(agent, remote, tmp_path):
    with agent.lock("session-b", OWNER):
        orphan = agent.execute(Command(["true"]))
        lock = agent.lock_path
        # As if keeper and supervisor of an earlier session had been killed: a marked folder and a marked process.
        marker = Path(orphan.run_dir, ".benchstudy")
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "session": "old"}))
        runs = tmp_path / "work" / "runs"
        (runs / "not-ours").mkdir()
        # As if a process had been killed after it made a folder, or after it removed its marker.
        unmarked = [runs / name for name in sorted([str(uuid4()), str(uuid4())])]
        for folder in unmarked:
            folder.mkdir()
        # Or before it had written anything into the marker.
        (unmarked[0] / ".benchstudy").touch()
        # As a power cut may leave it; and as another process may just be making it.
        emptied, young = (runs / str(uuid4()) for _ in range(2))
        for folder in (emptied, young):
            (folder / "files").mkdir(parents=True)
            (folder / "files" / "data").write_text("measured")
            (folder / ".benchstudy").touch()
        os.utime(emptied / ".benchstudy", (time.time() - 7200,) * 2)
        unmarked = sorted([*unmarked, emptied])
        # What another host that shares the work folder does there.
        elsewhere = Path(agent.execute(Command(["true"])).run_dir) / ".benchstudy"
        elsewhere.write_text(json.dumps({**json.loads(elsewhere.read_text()), "session": "old", "host": "other"}))
        (runs / str(uuid4()) / "of somebody").mkdir(parents=True)
        info = os.stat(lock)
        marks = {"BENCHSTUDY_RUN": "x", "BENCHSTUDY_LOCK": f"{lock}:{info.st_dev}:{info.st_ino}"}
        with (
            subprocess.Popen(["sleep", "300"], env={**marks, "BENCHSTUDY_SESSION": "old"}) as old,
            subprocess.Popen(["sleep", "300"], env={**marks, "BENCHSTUDY_SESSION": "session-b"}) as mine,
        ):
            swept = agent.sweep()
            assert old.wait(10) == -signal.SIGTERM
            assert mine.poll() is None
            mine.kill()
        assert swept["ended"] == [f"sleep ({old.pid})"]
        assert [swept["removed"][0], *sorted(swept["removed"][1:])] == [orphan.run_dir, *map(str, unmarked)]
        assert (runs / "not-ours").exists() and [*runs.glob("*/of somebody")]
        assert not any(folder.exists() for folder in unmarked)
        assert (young / "files" / "data").exists() and elsewhere.exists()


def test_a_service_is_swept_under_a_lock_that_only_its_host_names(deploy, monkeypatch):
    monkeypatch.delenv("BENCHSTUDY_HOST_LOCK", raising=False)
    agent = deploy(lock_path="")
    with agent.lock(SESSION, OWNER):
        running = agent.start_service("sleeper", Service(argv=["sleep", "300"], ready={"mount": "/proc"}))
        marker = Path(running.folder, ".benchstudy")
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "session": "old"}))
        assert agent.sweep()["removed"] == [running.folder]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts file systems")
@pytest.mark.parametrize("why", ["is a mount point", "is not mounted"])
@pytest.mark.fault(35)
def test_a_scratch_folder_that_cannot_be_removed_yet_is_not_forgotten(deploy, tmp_path, events, why):
    """Another file system may be mounted in it, or its own may not be mounted yet after a restart of the host."""
    agent = deploy()
    disk, data = tmp_path / "disk", tmp_path / "data"
    disk.mkdir()
    data.mkdir()
    with ExitStack() as mounts:
        mounts.enter_context(bound(disk, data))
        with agent.lock(SESSION, OWNER):
            scratch = Path(agent.scratch(str(data)))
            (scratch / "inner").mkdir()
            if why == "is a mount point":
                mounts.enter_context(bound(disk, scratch / "inner"))
            else:
                mounts.close()
        with agent.lock("second", OWNER):
            assert [reason for reason in agent.sweep()["kept"] if str(scratch) in reason and why in reason]
        assert any(why in event for event in events)
        if why == "is a mount point":
            subprocess.run(["umount", scratch / "inner"], check=True)
        else:
            mounts.enter_context(bound(disk, data))
            assert scratch.exists()
        with agent.lock("third", OWNER):
            assert str(scratch) in agent.sweep()["removed"]
        assert not scratch.exists() and not list((tmp_path / "work" / "sessions").iterdir())


@contextmanager
def bound(source: Path, point: Path) -> Iterator[None]:
    """`source` mounted at `point`."""
    subprocess.run(["mount", "--bind", source, point], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", point], check=False, capture_output=True)


def test_a_folder_that_a_killed_controller_was_copying_is_swept_a_day_later(agent, sshd, tmp_path):
    """The copy of another controller may still be growing, perhaps from another host that shares the folder."""
    library, work = tmp_path / "library", Path(agent.work_dir)
    library.mkdir()
    with (library / "binary").open("wb") as file:
        file.truncate(200 << 20)
    host = sshd.host.model_dump_json()
    copies = f"""
from pathlib import Path
from benchstudy.hosts.remote import Remote
from benchstudy.model.host import Host
with Remote("alpha", Host.model_validate_json({host!r})) as remote:
    remote.put_folder(Path({str(library)!r}), {f"{work}/lib-example-0123456789ab"!r})
"""
    with subprocess.Popen([sys.executable, "-c", copies]) as controller:
        until(lambda: [*work.glob("lib-*/binary")])
        controller.kill()
    (left,) = work.glob("lib-*")
    until(lambda: not runs(str(left)))
    yesterday = time.time() - 90_000
    with agent.lock("session-b", OWNER):
        assert agent.sweep()["removed"] == [] and left.exists()
        os.utime(left, (yesterday, yesterday))
        os.utime(agent.directory, (yesterday, yesterday))
        assert agent.sweep()["removed"] == [str(left)]
    assert not left.exists() and Path(agent.directory).exists()


def test_scratch_is_made_once_and_gone_with_the_lock(agent, tmp_path):
    with agent.lock(SESSION, OWNER):
        path = Path(agent.scratch(str(tmp_path)))
        assert path.parent == tmp_path and path.name.startswith("benchstudy-")
        assert agent.scratch(str(tmp_path)) == str(path)
        (path / "file").write_text("x")
        with pytest.raises(HostRefused, match="cannot make a folder in /proc"):
            agent.scratch("/proc")
    assert not path.exists()
    with pytest.raises(HostRefused, match="does not hold this host's lock"):
        agent.scratch(str(tmp_path))


# --- services ----------------------------------------------------------------------------------------------------

WEB = ["python3", "-m", "http.server", "-b", "127.0.0.1", "-d", "{{dir}}/site", "{{port.web}}"]
BUSY_WEB = [
    "python3",
    "-c",
    "from http.server import *; import sys\nclass Busy(BaseHTTPRequestHandler):\n"
    " do_GET = lambda self: self.send_error(503)\n"
    "HTTPServer(('127.0.0.1', int(sys.argv[1])), Busy).serve_forever()",
    "{{port.web}}",
]
AT_ONCE = {"http": "http://127.0.0.1:{{port.web}}/", "timeout": "500ms"}


@pytest.mark.fault(9)
def test_a_service_whose_start_lost_its_connection_does_not_run_beside_the_next_one(held, tmp_path, monkeypatch):
    """Heartbeats of the session would keep it running beside all trials."""
    ask, asked = held.ask, []

    def loses_the_first_answer(command, *arguments, **given):
        answer = ask(command, *arguments, **given)
        asked.append((command, *arguments))
        if command == "start-service" and len(asked) == 1:
            raise ConnectionLost("alpha: gone")
        return answer

    monkeypatch.setattr(held, "ask", loses_the_first_answer)
    running = held.start_service("sleeper", Service(argv=["sleep", "300"], ready={"mount": "/proc"}))
    _, lost = asked[0]
    assert [str(path) for path in (tmp_path / "work" / "services").iterdir()] == [running.folder] != [lost]
    assert not runs(lost) and running.status()["state"] == "running"
    running.stop()


def test_a_service_is_ready_filled_in_kept_alive_and_stopped_with_its_log(deploy, tmp_path):
    agent = deploy(lease_s=KEPT_S)
    service = Service(
        ports=["web"],
        secrets=["key"],
        files={"site/secret.txt": "{{secret.key}}"},
        setup=[["sh", "-c", "echo set up"]],
        argv=WEB,
        ready={"http": "http://127.0.0.1:{{port.web}}/", "timeout": "20s"},
    )
    with agent.lock(SESSION, OWNER):
        running = agent.start_service("web", service)
        key = Path(running.dir, "site", "secret.txt")
        assert key.read_text() == running.secrets["key"]
        assert len(running.secrets["key"]) >= 20
        assert key.stat().st_mode & 0o777 == 0o600
        assert running.fill("{{dir}} {{port.web}}") == f"{running.dir} {running.ports['web']}"
        assert running.secrets["key"] not in Path(running.folder, "supervisor.json").read_text()
        time.sleep(KEPT_S + 0.5)
        assert running.status()["state"] == "running"
        running.stop(tmp_path / "logs")
        assert "GET / HTTP" in (tmp_path / "logs" / "stderr").read_text()
        assert (tmp_path / "logs" / "setup.log").read_text() == "set up\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.ports["web"]))
        assert not Path(running.folder).exists()


def test_the_log_of_a_service_that_fails_holds_no_end_of_a_secret_that_begins_like_another(held):
    service = Service(
        secret_env={"user": "USER_OF", "password": "PASSWORD_OF"}, env={"P": "{{secret.password}}"},
        argv=["sh", "-c", "echo refused $P; exit 3"], ready={"mount": "/proc/none", "timeout": "20s"},
    )  # fmt: skip
    with pytest.raises(ServiceFailed, match=r"refused «redacted»$"):
        held.start_service("web", service, secrets={"user": "bench", "password": "bench-hunter2"})


def test_the_log_of_a_service_does_not_end_within_a_secret(held, tmp_path):
    says = "echo waiting >&2; printf 'key: hunter'; until [ -e end ]; do sleep 0.05; done; exit 6"
    service = Service.model_validate(
        {"secret_env": {"key": "KEY"}, "argv": ["sh", "-c", says], "ready": {"file": "up"}}
    )
    hung = service.model_copy(update={"ready": Ready(file="up", timeout=0.5)})
    with pytest.raises(ServiceFailed, match=r"key: «redacted»\nwaiting$"):
        held.start_service("web", hung, secrets={"key": "hunter2"})
    up = service.model_copy(update={"ready": Ready(mount="/proc")})
    running = held.start_service("web", up, secrets={"key": "hunter2"})
    Path(running.dir, "end").touch()
    until(lambda: running.status()["state"] == "exited")
    with pytest.raises(ServiceFailed, match=r"key: «redacted»\nwaiting$"):
        running.check()


def test_a_service_that_dies_later_is_seen_to_be_dead(held, tmp_path):
    service = Service(argv=["sh", "-c", "until [ -e end ]; do sleep 0.05; done; exit 6"], ready={"mount": "/proc"})
    running = held.start_service("mortal", service)
    assert running.status()["state"] == "running"
    Path(running.dir, "end").touch()
    until(lambda: running.status()["state"] == "exited")
    running.stop(tmp_path / "logs")
    assert json.loads((tmp_path / "logs" / "supervisor.json").read_text())["exit_status"] == 6


def test_a_service_uses_what_another_one_has(held, tmp_path):
    web = Service(
        ports=["web"], secrets=["key"], files={"site/x": ""}, argv=WEB, ready={"tcp": "web", "timeout": "20s"}
    )
    first = held.start_service("store", web)
    second = Service(
        needs=["store"],
        setup=[["sh", "-c", "echo $0 $1 > {{dir}}/seen", "{{store.port.web}}", "{{store.secret.key}}"]],
        argv=["sleep", "300"],
        ready={"mount": "/proc"},
    )
    running = held.start_service("user", second, {"store": first})
    seen = Path(running.dir, "seen").read_text().split()
    assert seen == [str(first.ports["web"]), first.secrets["key"]]
    assert running.fill("{{store.dir}}") == first.dir


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"argv": ["sh", "-c", "echo no licence >&2; exit 9"]}, r"ended before.*exit status 9(.|\n)*no licence"),
        ({"setup": [["sh", "-c", "echo bad disk; exit 2"]]}, r"setup-failed: [^\n]*exit status 2\nbad disk$"),
        ({"setup": [["sleep", "300"]], "setup_timeout": "300ms"}, r"setup-failed: setup step 'sleep': timeout"),
        ({"argv": ["no-such-server"]}, r"start-failed: cannot start 'no-such-server'"),
        ({"argv": ["sleep", "300"]}, r"not ready within 0\.5 s \(nothing listens on port \d+, 'web'\)"),
        ({"argv": ["sh", "-c", "echo {{secret.key}}; exit 1"]}, r"exit status 1(.|\n)*«redacted»"),
        ({"ready": {"mount": "{{dir}}", "timeout": "500ms"}}, r"is not a mount point"),
        ({"argv": ["sleep", "300"], "ready": AT_ONCE}, r"http://127\.0\.0\.1:\d+/ does not answer\)"),
        (
            {"argv": BUSY_WEB, "ready": {**AT_ONCE, "timeout": "2s"}},
            r"http://127\.0\.0\.1:\d+/ answers with status 503\)",
        ),
    ],
)
def test_a_service_that_does_not_come_up_says_why_and_is_gone(held, tmp_path, changes, message):
    web = {"ports": ["web"], "secrets": ["key"], "files": {"site/x": ""}, "argv": WEB}
    service = Service.model_validate({**web, "ready": {"tcp": "web", "timeout": "500ms"}, **changes})
    with pytest.raises(ServiceFailed, match=message):
        held.start_service("web", service)
    assert not list((tmp_path / "work" / "services").iterdir())


def test_an_unknown_placeholder_is_named(held):
    service = Service(argv=["echo", "{{port.nope}}"], ready={"mount": "/proc"})
    with pytest.raises(ServiceFailed, match=r"unknown placeholder \{\{port\.nope\}\}"):
        held.start_service("web", service)


def test_a_port_is_the_servers_own_whatever_it_opens_and_closes_meanwhile(held):
    busy = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    for descriptor in [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]:
        os.close(descriptor)
"""
    argv = [sys.executable, "-c", busy, "{{port.web}}"]
    service = Service(ports=["web"], argv=argv, ready={"tcp": "web", "timeout": "30s"})
    running = held.start_service("busy", service)
    port = str(running.ports["web"])
    said = [held.call("server-listens", running.folder, "web", port)["problem"] for _ in range(25)]
    running.stop()
    assert said == [None] * len(said)


def test_a_port_that_somebody_else_took_is_not_ready(held):
    # A server of ours, which is not part of the service, answers on its port before the service says anything.
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        url = f"http://127.0.0.1:{foreign.getsockname()[1]}/"
        answering = threading.Thread(target=_answer_once, args=(foreign,), daemon=True)
        answering.start()
        late = ["sh", "-c", "sleep 0.3; echo I cannot listen there >&2; exec sleep 300"]
        service = Service(argv=late, ready={"http": url, "timeout": "10s"})
        said = rf"port \d+ belongs to another process, .* \({os.getpid()}\).*I cannot listen there"
        with pytest.raises(ServiceFailed, match=f"(?s){said}"):
            held.start_service("web", service)


def _answer_once(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")


def test_what_only_sleeps_is_not_waited_for_after_its_stop_command(held, tmp_path):
    sleep = tmp_path / "sleep"
    sleep.write_text("#!/bin/sh\ntrap 'echo ended; exit' TERM\nfor i in $(seq 80); do sleep 0.05; done\necho slept\n")
    sleep.chmod(0o755)
    service = Service(argv=[str(sleep), "infinity"], stop=["true"], ready={"mount": "/proc"})
    held.start_service("sleeps", service).stop(tmp_path / "logs")
    assert (tmp_path / "logs" / "stdout").read_text() == "ended\n"


def test_the_stop_command_runs_before_anything_is_killed(held, tmp_path):
    service = Service(
        argv=["sh", "-c", "trap '' TERM; until [ -e stop ]; do sleep 0.05; done; echo polite"],
        stop=["touch", "{{dir}}/stop"],
        ready={"mount": "/proc"},
    )
    running = held.start_service("polite", service)
    running.stop(tmp_path / "logs")
    assert (tmp_path / "logs" / "stdout").read_text() == "polite\n"
