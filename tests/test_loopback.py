"""This machine as an SSH host: one sshd for all users of a state folder, which ends with the last of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchstudy.hosts import loopback
from benchstudy.hosts.remote import Remote
from benchstudy.model.host import Host

HOLD = """
import sys
from pathlib import Path
from benchstudy.hosts import loopback
with loopback.running(Path(sys.argv[1])) as found:
    print(found.port, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def hold(state: Path) -> subprocess.Popen:
    """Another process that holds the sshd until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert int(process.stdout.readline())
    return process


def end(process: subprocess.Popen) -> None:
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_remote_brings_it_up_and_takes_it_down(state):
    with Remote("here", Host(loopback=True), loopback_state=state) as remote:
        assert (
            remote.run(["cat", "/proc/sys/kernel/random/boot_id"]).text
            == Path("/proc/sys/kernel/random/boot_id").read_text()
        )
        assert loopback.running_sshd(state)
    assert loopback.running_sshd(state) is None


def test_its_folder_may_have_letters_of_any_language_and_blanks(tmp_path):
    state = tmp_path / "Läufe von 北京"
    with loopback.running(state):
        assert loopback.running_sshd(state)
    assert loopback.running_sshd(state) is None


def test_its_folder_may_have_a_percent_sign(tmp_path):
    """As the workspaces of Jenkins have it for a branch such as feature/x."""
    with Remote("here", Host(loopback=True), loopback_state=tmp_path / "feature%2Fx") as remote:
        assert remote.run(["echo", "in"]).text == "in\n"


@pytest.mark.fault(14)
@pytest.mark.parametrize("emptied", ["host_key", "host_key.pub", "user_key", "user_key.pub"])
def test_keys_that_a_full_disk_left_empty_are_made_again(state, emptied):
    with loopback.running(state):
        pass
    (state / emptied).write_text("")
    with Remote("here", Host(loopback=True), loopback_state=state) as remote:
        assert remote.run(["echo", "in"]).text == "in\n"


def test_nothing_of_the_users_own_is_read_or_written(state, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host *\n  Port 1\n  User nobody\n")
    monkeypatch.setenv("HOME", str(home))
    with Remote("here", Host(loopback=True), loopback_state=state) as remote:
        assert remote.run(["true"]).exit_status == 0
    assert [path.name for path in (home / ".ssh").iterdir()] == ["config"]
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "user_key").stat().st_mode & 0o777 == 0o600


def test_the_last_user_stops_it_and_the_port_stays(state):
    with loopback.running(state) as found:
        first = loopback.running_sshd(state)
        other = hold(state)
        assert loopback.running_sshd(state) == first
    assert loopback.running_sshd(state) == first, "the other process still holds it"
    end(other)
    assert loopback.running_sshd(state) is None
    with loopback.running(state) as again:
        assert again == found


def test_another_user_finds_the_keys_whole_at_every_moment(state, tmp_path):
    with loopback.running(state):
        read_meanwhile = [tmp_path / name for name in ("known_hosts", "authorized_keys")]
        for held in read_meanwhile:
            os.link(state / held.name, held)
        before = [held.stat().st_mtime_ns for held in read_meanwhile]
        end(hold(state))
        assert [held.stat().st_mtime_ns for held in read_meanwhile] == before, "no key was written over"
        assert [(state / held.name).read_bytes() for held in read_meanwhile] == [
            held.read_bytes() for held in read_meanwhile
        ]


def test_what_a_killed_user_left_is_adopted_and_then_stopped(state):
    killed = hold(state)
    left = loopback.running_sshd(state)
    killed.kill()
    killed.wait(20)
    killed.stdin.close()
    killed.stdout.close()
    assert loopback.running_sshd(state) == left
    with loopback.running(state):
        assert loopback.running_sshd(state) == left
    assert loopback.running_sshd(state) is None


def test_a_stranger_under_the_remembered_pid_is_left_alone(state):
    with loopback.running(state):
        os.kill(loopback.running_sshd(state), signal.SIGKILL)
        stranger = subprocess.Popen(["sleep", "1000"])
        try:
            (state / "sshd.pid").write_text(f"{stranger.pid}\n")
            with loopback.running(state):
                assert loopback.running_sshd(state) != stranger.pid
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()
    assert loopback.running_sshd(state) is None


def test_a_missing_sshd_names_the_package(state):
    # A mount namespace of its own, in which the program cannot be executed.
    script = 'mount --bind /dev/null "$(command -v sshd || echo /usr/sbin/sshd)" && exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable, HOLD, str(state)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode != 0 and "apt-get install openssh-server" in done.stderr


def test_a_plain_user_can_have_it_too(tmp_path):
    if os.getuid() != 0:  # in that case, every other test here has just shown it
        return
    user = "benchstudy-test"
    home = Path("/var/tmp") / f"{user}-{os.getpid()}"
    # UsePAM no refuses accounts whose password field is locked by "!", as useradd leaves it.
    subprocess.run(["useradd", "-m", "-d", str(home), "-s", "/bin/sh", "-p", "*", user], check=True)
    try:
        code = home / "code"
        subprocess.run(["cp", "-r", str(Path(loopback.__file__).parents[2]), str(code)], check=True)
        # It uses the system's interpreter, since other users need not be able to read this one. -S hides its packages,
        # because loopback needs only the standard library.
        script = (
            "import getpass, subprocess, pathlib\n"
            "from benchstudy.hosts import loopback\n"
            "with loopback.running(pathlib.Path.home() / 'state') as it:\n"
            "    argv = ['ssh', '-i', str(it.identity_file), '-p', str(it.port),\n"
            "            '-o', f'UserKnownHostsFile={it.known_hosts}',\n"
            "            '-o', f'HostKeyAlias={it.host_key_alias}', '-o', 'BatchMode=yes', it.address, 'id', '-un']\n"
            "    print(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)\n"
            "assert loopback.running_sshd(pathlib.Path.home() / 'state') is None\n"
        )
        done = subprocess.run(
            ["su", user, "-c", 'cd && PYTHONPATH=code exec python3 -S -c "$0"', script], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == user
    finally:
        subprocess.run(["userdel", "-r", user], check=True, capture_output=True)
