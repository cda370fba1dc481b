"""SSH connections to real OpenSSH servers on loopback."""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko
import pytest
from sshd_hosts import SshdHost, make_key
from waiting import until

from benchstudy.hosts import ssh_transport, transfer, user_keys
from benchstudy.hosts.remote import (
    AuthenticationFailed,
    CommandEnded,
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    ContentRefused,
    HostKeyChanged,
    HostKeyUnknown,
    Remote,
    RemoteError,
    TransferFailed,
    Unreachable,
)
from benchstudy.model.host import Host

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Re-keying every 16 MiB, so that every test of bulk data includes it.
    with SshdHost(tmp_path_factory.mktemp("sshd"), options=["RekeyLimit 16M"]) as host:
        yield host


@pytest.fixture
def remote(server):
    with Remote("box", server.host) as connected:
        yield connected


def random_folder(path: Path, size: int) -> Path:
    """A folder with one file of this size."""
    path.mkdir()
    (path / "file").write_bytes(os.urandom(size))
    return path


def assert_same(one: Path, other: Path) -> None:
    subprocess.run(["diff", "-r", str(one), str(other)], check=True)


def move(remote: Remote, direction: str, source: Path, target: Path) -> None:
    if direction == "put":
        remote.put_tree(source, str(target))
    else:
        remote.get_tree(str(source), target)


def there_and_back(remote: Remote, source: Path) -> None:
    there, back = source.with_name("there"), source.with_name("back")
    remote.put_tree(source, str(there))
    remote.get_tree(str(there), back)
    assert_same(source, back)


def authentications(server: SshdHost) -> int:
    """The number of attempts to authenticate that the server saw."""
    log = server.log.read_text()
    return log.count("Failed publickey") + log.count("Accepted publickey")


class TestHostKeys:
    @pytest.mark.fault(12)
    def test_unknown_key_stops_before_authentication_and_says_how_to_pin(self, tmp_path):
        with SshdHost(tmp_path) as server:
            server.known_hosts.write_text("")
            with pytest.raises(HostKeyUnknown) as caught:
                Remote("box", server.host).connect()
            fingerprint = subprocess.run(
                ["ssh-keygen", "-lf", str(tmp_path / "host_key.pub")], capture_output=True, text=True
            ).stdout.split()[1]
            assert "box" in str(caught.value) and fingerprint in str(caught.value)
            assert authentications(server) == 0

            pin = next(line for line in str(caught.value).splitlines() if line.lstrip().startswith("echo "))
            subprocess.run(["sh", "-c", pin], check=True)
            with Remote("box", server.host) as remote:
                assert remote.run(["echo", "in"]).text == "in\n"

    @pytest.mark.fault(11)
    def test_changed_key_stops_before_authentication_with_both_fingerprints(self, tmp_path):
        with SshdHost(tmp_path) as server:
            with Remote("box", server.host) as remote:
                server.change_host_key()
                server.restart()
                with pytest.raises(ConnectionLost):  # before it is noticed, there is nothing to connect again
                    remote.run(["true"])
                started = time.monotonic()
                with pytest.raises(HostKeyChanged) as caught:
                    remote.reconnect()
            assert time.monotonic() - started < 5, "a changed key must not be tried again"
            assert str(caught.value).count("SHA256:") == 2
            assert authentications(server) == 0

    def test_revoked_key_is_refused(self, tmp_path):
        with SshdHost(tmp_path) as server:
            server.known_hosts.write_text("@revoked " + server.known_hosts.read_text())
            with pytest.raises(HostKeyChanged, match="@revoked"):
                Remote("box", server.host).connect()

    def test_hashed_names_are_understood(self, tmp_path):
        with SshdHost(tmp_path) as server:
            subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(server.known_hosts)], check=True, capture_output=True)
            assert server.address not in server.known_hosts.read_text()
            with Remote("box", server.host) as remote:
                assert remote.run(["true"]).exit_status == 0


class TestConnecting:
    def test_wrong_user_is_told_without_a_storm(self, server):
        host = server.host.model_copy(update={"user": "nobody"})
        before = authentications(server)
        with pytest.raises(AuthenticationFailed, match="nobody"):
            Remote("box", host).reconnect()
        assert authentications(server) - before <= 1

    @pytest.mark.fault(13)
    def test_revoked_user_key_is_final(self, tmp_path):
        with SshdHost(tmp_path) as server, Remote("box", server.host) as remote:
            (tmp_path / "authorized_keys").write_text("")
            server.drop_connections()
            with pytest.raises(ConnectionLost):
                remote.run(["true"])
            before = authentications(server)
            with pytest.raises(AuthenticationFailed, match="authorized_keys"):
                remote.reconnect()
            assert authentications(server) - before <= 1

    def test_a_connection_lost_during_login_is_not_a_refused_key_and_is_tried_again(self, tmp_path, monkeypatch):
        log_in, times = ssh_transport.Transport.auth_publickey, []

        def lost_at_first(transport, *given):
            times.append(transport)
            if len(times) <= 2:
                server.drop_connections()
            return log_in(transport, *given)

        monkeypatch.setattr(ssh_transport.Transport, "auth_publickey", lost_at_first)
        with SshdHost(tmp_path) as server:
            with pytest.raises(Unreachable, match="was lost during login"):
                Remote("box", server.host).connect()
            with Remote("box", server.host).reconnect() as remote:
                assert remote.run(["true"]).exit_status == 0
        assert len(times) == 3

    def test_a_host_that_allows_too_few_tries_leads_to_identity_file(self, tmp_path):
        with SshdHost(tmp_path, options=["MaxAuthTries 1"]) as server:
            other = tmp_path / "other"
            make_key(other)
            with pytest.raises(Unreachable, match="name the right one with identity_file"):
                Remote("box", server.host.model_copy(update={"identity_file": str(other)})).connect()

    def test_key_with_passphrase_names_ssh_add(self, server, tmp_path):
        key = tmp_path / "locked"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
        with pytest.raises(AuthenticationFailed, match="ssh-add"):
            Remote("box", server.host.model_copy(update={"identity_file": str(key)})).connect()

    def test_nothing_listens(self, tmp_path):
        server = SshdHost(tmp_path)
        told = rf"box: nothing answers at 127\.0\.0\.1 port {server.port}: .*; check that it is up, and its address and"
        with pytest.raises(Unreachable, match=told):
            Remote("box", server.host).connect()

    def test_a_name_without_an_address_says_what_to_mend(self, tmp_path):
        host = SshdHost(tmp_path).host.model_copy(update={"address": "nowhere.invalid"})
        with pytest.raises(Unreachable, match=r"no address is known for 'nowhere\.invalid'.* fix the host's `address`"):
            Remote("box", host).connect()

    def test_a_server_that_never_speaks_is_given_up(self, tmp_path):
        server = SshdHost(tmp_path)
        with socket.create_server((server.address, server.port)):
            started = time.monotonic()
            with pytest.raises(Unreachable, match="not as an SSH server should: it was silent for 1 s"):
                Remote("box", server.host, connect_timeout_s=1.0).connect()
            assert time.monotonic() - started < 5

    def test_agent_key_is_used(self, server, monkeypatch, tmp_path):
        agent = subprocess.run(["ssh-agent", "-s", "-a", str(tmp_path / "agent")], capture_output=True, text=True)
        pid = agent.stdout.split("SSH_AGENT_PID=")[1].split(";")[0]
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            subprocess.run(["ssh-add", "-q", str(server.identity_file)], check=True, capture_output=True)
            monkeypatch.setenv("HOME", str(tmp_path))
            with Remote("box", server.host.model_copy(update={"identity_file": None})) as remote:
                assert remote.run(["true"]).exit_status == 0
        finally:
            subprocess.run(["kill", pid], check=True)

    def test_reconnect_waits_for_a_host_that_comes_back(self, tmp_path):
        with SshdHost(tmp_path) as server, Remote("box", server.host) as remote:
            server.stop()
            with pytest.raises(ConnectionLost):
                remote.run(["true"])
            back = threading.Timer(0.5, server.start)
            back.start()
            remote.reconnect()
            back.join()
            assert remote.run(["echo", "again"]).text == "again\n"

    def test_a_connection_that_ends_while_a_command_is_being_started_is_known_to_be_lost(self, tmp_path, monkeypatch):
        with SshdHost(tmp_path) as server, Remote("box", server.host) as remote:
            finish = paramiko.Channel._set_transport

            def finish_late(channel, transport):
                monkeypatch.undo()
                server.stop()
                until(lambda: not (transport.active and transport.is_alive()))
                finish(channel, transport)

            monkeypatch.setattr(paramiko.Channel, "_set_transport", finish_late)
            with pytest.raises(ConnectionLost):
                remote.run(["true"])
            server.start()
            remote.reconnect()
            assert remote.run(["echo", "again"]).text == "again\n"

    def test_a_command_whose_connection_ends_while_it_is_asked_for_does_not_wait_for_ever(self, tmp_path, monkeypatch):
        forget = paramiko.Channel._event_pending

        def forget_late(channel):
            server.stop()
            until(lambda: channel.closed)
            forget(channel)

        ended = []
        with SshdHost(tmp_path) as server, Remote("box", server.host) as remote:
            monkeypatch.setattr(paramiko.Channel, "_event_pending", forget_late)

            def run() -> None:
                with pytest.raises(ConnectionLost):
                    remote.run(["true"])
                ended.append(True)

            asking = threading.Thread(target=run, daemon=True)
            asking.start()
            asking.join(20)
            assert ended

    def test_a_connection_that_a_command_could_not_be_started_on_is_replaced(self, server, monkeypatch):
        """The host stalls for longer than a command waits, and goes on before it counts as silent."""
        monkeypatch.setattr(ssh_transport, "SILENCE_LIMIT_S", 2.0)
        monkeypatch.setattr(ssh_transport, "PROBE_AFTER_S", 60.0)
        with Remote("box", server.host) as remote:
            remote.connect_timeout_s = 1.0
            connection, stalled = remote.run(["sh", "-c", "echo $PPID"]).text, server.session_pids()
            for pid in stalled:
                os.kill(pid, signal.SIGSTOP)
            with pytest.raises(ConnectionLost):
                remote.run(["true"])
            for pid in stalled:
                os.kill(pid, signal.SIGCONT)
            remote.connect_timeout_s = 15.0
            remote.reconnect()
            assert remote.run(["sh", "-c", "echo $PPID"]).text != connection

    def test_a_login_that_takes_too_long_is_tried_again_and_refuses_no_key(self, tmp_path):
        slow = ["AuthorizedKeysCommand /bin/sleep 30", "AuthorizedKeysCommandUser root"]
        with SshdHost(tmp_path, options=slow) as server:
            (tmp_path / "authorized_keys").write_text("")
            with pytest.raises(Unreachable, match="during login"):
                Remote("box", server.host, connect_timeout_s=2.0).connect()

    def test_a_key_agent_that_never_answers_is_done_without(self, server, tmp_path, monkeypatch):
        monkeypatch.setattr(user_keys, "_AGENT_S", 0.5)
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(tmp_path / "agent"))
            deaf.listen()
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            with Remote("box", server.host) as remote:
                assert remote.run(["echo", "in"]).text == "in\n"


class TestClientConfiguration:
    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        (tmp_path / ".ssh").mkdir(mode=0o700)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        return tmp_path / ".ssh"

    def test_alias_port_user_and_key_come_from_the_file(self, server, home):
        (home / "more").write_text(f"  IdentityFile {server.identity_file}\n")
        (home / "config").write_text(
            f"Host lab\n  HostName {server.address}\n  Port {server.port}\n  User {server.user}\n"
            f"  UserKnownHostsFile {server.known_hosts}\nInclude {home}/more\n"
        )
        with Remote("lab", Host()) as remote:
            assert remote.run(["echo", "by alias"]).text == "by alias\n"

    @pytest.mark.parametrize("form", ["RFC4716", "PEM", "binary", "empty"])
    def test_a_public_key_in_a_form_that_ssh_ignores_does_no_harm(self, server, tmp_path, form):
        key = tmp_path / "key"
        key.write_bytes(server.identity_file.read_bytes())
        key.chmod(0o600)
        exported = ["ssh-keygen", "-e", "-m", form, "-f", str(server.identity_file)]
        forms = {"binary": b"\xff\xfe key", "empty": b""}
        public = forms[form] if form in forms else subprocess.run(exported, capture_output=True).stdout
        key.with_name("key.pub").write_bytes(public or b"---- BEGIN SSH2 PUBLIC KEY ----\nComment: x\n")
        with Remote("box", server.host.model_copy(update={"identity_file": str(key)})) as remote:
            assert remote.run(["echo", "in"]).text == "in\n"

    def test_host_key_alias(self, server, home, tmp_path):
        pinned = tmp_path / "pinned"
        pinned.write_text("the-box " + server.known_hosts.read_text().split(" ", 1)[1])
        (home / "config").write_text("Host *\n  HostKeyAlias the-box\n")
        with Remote("box", server.host.model_copy(update={"known_hosts": str(pinned)})) as remote:
            assert remote.run(["true"]).exit_status == 0

    def test_each_hop_of_a_proxy_jump_is_checked(self, server, home, tmp_path):
        with SshdHost(tmp_path / "first") as first, SshdHost(tmp_path / "second") as second:
            block = (
                "Host {0}\n  HostName {1.address}\n  Port {1.port}\n  IdentityFile {1.identity_file}\n  User {1.user}\n"
            )
            block += "  UserKnownHostsFile {1.known_hosts}\n"
            (home / "config").write_text(
                block.format("first", first)
                + block.format("second", second)
                + f"Host {server.address}\n  ProxyJump first,second\n"
            )
            with Remote("box", server.host) as remote:
                assert remote.run(["echo", "far"]).text == "far\n"
                remote.put_tree(random_folder(tmp_path / "here", 3 * MIB), str(tmp_path / "there"))
                assert_same(tmp_path / "here", tmp_path / "there")
                assert first.session_pids() and second.session_pids()
            second.known_hosts.write_text("")
            with pytest.raises(HostKeyUnknown, match="jump host"):
                Remote("box", server.host).connect()
            assert authentications(second) == 1
        (home / "config").write_text(f"Host {server.address}\n  ProxyJump nowhere.invalid\n")
        with pytest.raises(Unreachable, match=r"for 'nowhere\.invalid'.* fix the name in the host's ProxyJump, or add"):
            Remote("box", server.host).connect()

    @staticmethod
    def behind(bridge: str, server: SshdHost, home: Path, *arguments: Path) -> Host:
        """The server, reachable only through this Python program, which gets the server's address and port first."""
        (home / "bridge.py").write_text(bridge)
        command = ["python3", home / "bridge.py", server.address, "%p", *arguments]
        (home / "config").write_text(
            f"Host hidden\n  Port {server.port}\n  HostKeyAlias {server.key_name}\n"
            f"  ProxyCommand {shlex.join(map(str, command))}\n"
        )
        return server.host.model_copy(update={"address": "hidden", "port": None})

    def test_proxy_command(self, server, home):
        bridge = (
            "import os, socket, sys, threading\n"
            "far = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "def outward():\n"
            "    while data := os.read(0, 65536): far.sendall(data)\n"
            "threading.Thread(target=outward, daemon=True).start()\n"
            "while data := far.recv(65536): os.write(1, data)\n"
        )
        with Remote("box", self.behind(bridge, server, home)) as remote:
            assert remote.run(["echo", "through"]).text == "through\n"

    def test_a_packet_that_was_altered_on_its_way_is_a_lost_connection(self, server, home, tmp_path):
        bridge = (
            "import os, pathlib, socket, sys, threading\n"
            "far = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "alter = pathlib.Path(sys.argv[3])\n"
            "def outward():\n"
            "    while data := os.read(0, 65536): far.sendall(data)\n"
            "threading.Thread(target=outward, daemon=True).start()\n"
            "while data := far.recv(65536):\n"
            "    if alter.exists():\n"
            "        alter.unlink()\n"
            "        data = data[:-1] + bytes([data[-1] ^ 1])\n"
            "    os.write(1, data)\n"
        )
        with Remote("box", self.behind(bridge, server, home, tmp_path / "alter")) as remote:
            assert remote.run(["echo", "whole"]).text == "whole\n"
            (tmp_path / "alter").touch()
            with pytest.raises(ConnectionLost):
                remote.run(["echo", "altered"])
            assert not (tmp_path / "alter").exists()
            remote.reconnect()
            assert remote.run(["echo", "whole"]).text == "whole\n"

    @pytest.mark.parametrize("direction", ["put", "get"])
    def test_a_line_that_breaks_one_way_only_is_replaced(self, server, home, tmp_path, direction):
        """Nothing can be sent any more, not even acknowledgements, and the reading side gets no sign of it."""
        bridge = (
            "import pathlib, socket, sys, threading\n"
            "near, far = socket.socket(fileno=0), socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "first = not (broken := pathlib.Path(sys.argv[3])).exists()\n"
            "def carry(source, target):\n"
            "    passed = 0\n"
            "    while data := source.recv(65536):\n"
            "        target.sendall(data)\n"
            "        passed += len(data)\n"
            "        if first and passed > 8 << 20:\n"
            "            broken.touch()\n"
            "            near.shutdown(socket.SHUT_RD)\n"
            "threading.Thread(target=carry, args=(near, far), daemon=True).start()\n"
            "carry(far, near)\n"
        )
        source, target = random_folder(tmp_path / "source", 24 * MIB), tmp_path / "target"
        with Remote("box", self.behind(bridge, server, home, tmp_path / "broken")) as remote:
            move(remote, direction, source, target)
        assert (tmp_path / "broken").exists()
        assert_same(source, target)


class TestCommands:
    @pytest.mark.parametrize(
        "argument",
        [
            "; rm -rf /tmp/none",
            "$(touch /tmp/none)",
            "`id`",
            "a\nb",
            "-rf",
            'it\'s "quoted"',
            "ü ☃ 名",
            "",
            "*",
            "\\",
            "!x",
        ],
    )
    def test_hostile_arguments_are_inert(self, remote, argument):
        assert remote.run(["printf", "%s|", argument, "end"]).text == f"{argument}|end|"

    def test_a_login_shell_with_other_rules_for_quotes_changes_nothing(self, tmp_path):
        """As csh, which refuses newlines and `!` between quotes, and as fish, for which two backslashes are one."""
        (tmp_path / "shell.py").write_text(
            "import os, sys\n"
            "command = os.environ['SSH_ORIGINAL_COMMAND']\n"
            "if set(command) & set('\\n!'): sys.exit('Unmatched quote.')\n"
            "os.execvp('sh', ['sh', '-c', command.replace('\\\\\\\\', '\\\\')])\n"
        )
        options = [f"ForceCommand python3 {tmp_path}/shell.py"]
        with SshdHost(tmp_path / "sshd", options=options) as server, Remote("box", server.host) as remote:
            argument = 'it\'s a\nb !c \\\\d "e" \\n $(f) ü'
            assert remote.run(["printf", "%s|", argument, "end"]).text == f"{argument}|end|"
            there_and_back(remote, random_folder(tmp_path / "here", MIB))

    def test_a_start_up_file_that_ends_the_login_shell_is_no_answer(self, tmp_path):
        """As with `exit 0` in ~/.bashrc: each command seems to succeed."""
        with (
            SshdHost(tmp_path, options=["ForceCommand echo hello"]) as server,
            Remote("box", server.host) as remote,
            pytest.raises(CommandFailed, match=r"box: no command can be run there;.* ~/.bashrc,"),
        ):
            remote.run(["python3", "--version"], check=False)

    def test_a_server_that_allows_too_few_sessions_is_no_lost_connection(self, tmp_path):
        with (
            SshdHost(tmp_path, options=["Match User *", "MaxSessions 1"]) as server,
            Remote("box", server.host) as remote,
            remote.open(["cat"]) as process,
        ):
            with pytest.raises(RemoteError, match=r"\(Connect failed\): .*MaxSessions") as caught:
                remote.run(["true"])
            assert not isinstance(caught.value, ConnectionLost)
            process.write_line(b"still here")
            assert process.read_line(10.0) == b"still here\n"

    def test_nul_and_strings_are_refused(self, remote):
        with pytest.raises(ValueError, match="argument"):
            remote.run(["echo", "a\0b"])
        with pytest.raises(ValueError, match="list"):
            remote.run("echo a")

    def test_failure_carries_status_and_message(self, remote):
        with pytest.raises(CommandFailed, match=r"box: .* status 3: oh no") as caught:
            remote.run(["sh", "-c", "echo oh no >&2; exit 3"])
        assert caught.value.completed.exit_status == 3
        assert remote.run(["sh", "-c", "exit 4"], check=False).exit_status == 4
        assert remote.run(["no-such-program"], check=False).exit_status == 127
        assert remote.run(["sh", "-c", "kill -9 $$"], check=False).exit_status == -1

    @pytest.mark.fault(16)
    def test_fifty_megabytes_on_both_streams(self, remote):
        size = 50 * 1000 * 1000
        script = f"head -c {size} /dev/zero & head -c {size} /dev/zero >&2; wait"
        completed = remote.run(["sh", "-c", script])
        assert (len(completed.stdout), len(completed.stderr)) == (size, size)

    def test_output_beyond_the_cap_ends_the_command(self, remote):
        with pytest.raises(CommandFailed, match="more than 1000000 bytes to stderr") as caught:
            remote.run(["sh", "-c", "yes >&2"], max_output_bytes=1_000_000)
        assert len(caught.value.completed.stderr) == 1_000_000
        assert remote.run(["pgrep", "-x", "yes"], check=False).text == ""

    def test_large_input_beside_large_output(self, remote):
        data = os.urandom(8 * MIB)
        assert remote.run(["cat"], input=data).stdout == data
        assert remote.run(["head", "-c", "1"], input=data).stdout == data[:1]

    def test_an_ended_command_is_written_nothing_while_its_child_keeps_the_channel(self, remote):
        with remote.open(["sh", "-c", "sleep 1000 & echo $!"]) as process:
            child = process.read_line(10).decode().strip()
            try:
                assert process.wait(10) == 0 and not process.channel.closed
                with pytest.raises(CommandEnded):
                    process.write(b"to nobody")
            finally:
                remote.run(["kill", child])

    def test_timeout_ends_the_whole_group(self, remote, tmp_path):
        started = time.monotonic()
        script = 'trap "" TERM; echo $$ > "$1"; sleep 1000 & wait; sleep 1000'
        with pytest.raises(CommandTimeout, match=r"after 0\.5 s"):
            remote.run(["sh", "-c", script, "sh", str(tmp_path / "pid")], timeout_s=0.5)
        assert time.monotonic() - started < 10
        # It is dead when run() returns, but sshd, its parent, still has to collect it.
        status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/status")
        deadline = time.monotonic() + 10
        while status.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not status.exists()

    def test_a_conversation(self, remote):
        with remote.open(["sh", "-c", 'while read -r line; do echo "got $line"; done; echo bye']) as process:
            for word in (b"one", b"two"):
                process.write_line(word)
                assert process.read_line(10) == b"got " + word + b"\n"
            assert process.read_line(0.05) is None
            process.close_stdin()
            assert process.read_line(10) == b"bye\n"
            assert process.read_line(10) == b""
            assert process.wait(10) == 0

    def test_a_dropped_connection_is_told_from_an_ending(self, server, remote):
        with remote.open(["cat"]) as process:
            process.write_line(b"here")
            assert process.read_line(10) == b"here\n"
            assert server.drop_connections()
            with pytest.raises(ConnectionLost):
                process.read_line(10)
        with pytest.raises(ConnectionLost):
            remote.run(["true"])
        remote.reconnect()
        assert remote.run(["echo", "back"]).text == "back\n"

    def test_a_silent_host_is_given_up_and_an_idle_one_is_not(self, server, monkeypatch):
        monkeypatch.setattr(ssh_transport, "PROBE_AFTER_S", 0.2)
        monkeypatch.setattr(ssh_transport, "SILENCE_LIMIT_S", 3.0)
        with Remote("box", server.host) as remote:
            # Longer than the limit without a byte of output: the probes are answered.
            assert remote.run(["sh", "-c", "sleep 4; echo still here"]).text == "still here\n"
            stopped = server.session_pids()
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            try:
                started = time.monotonic()
                with pytest.raises(ConnectionLost, match="box"):
                    remote.run(["true"], timeout_s=60)
                assert time.monotonic() - started < 15
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGKILL)

    def test_a_host_is_not_silent_because_this_process_was_stopped(self, monkeypatch):
        monkeypatch.setattr(ssh_transport, "PROBE_AFTER_S", 0.2)
        monkeypatch.setattr(ssh_transport, "SILENCE_LIMIT_S", 0.5)
        ours, its = socket.socketpair()
        with ours, its:
            ours.settimeout(0.05)
            line, asked = ssh_transport.Line(ours), []
            line.ask_for_sign_of_life = lambda: asked.append(time.monotonic())
            time.sleep(0.6)  # nobody reads meanwhile
            with pytest.raises(TimeoutError):
                line.recv(1)
            with pytest.raises(EOFError, match="silent"):
                while True:
                    with contextlib.suppress(TimeoutError):
                        line.recv(1)
            assert time.monotonic() - asked[0] > 0.2

    def test_home(self, remote):
        assert remote.home == remote.run(["sh", "-c", "cd && pwd"]).text.strip()
        assert remote.expand("~/x/~") == f"{remote.home}/x/~"
        assert remote.expand("/a/~") == "/a/~"


class TestFiles:
    def test_a_folder_that_does_not_fit_leaves_nothing(self, remote, tmp_path):
        source, small = tmp_path / "source", tmp_path / "small"
        random_folder(source, 4 * MIB)
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
        try:
            with pytest.raises(TransferFailed, match="file: Wrote only"):
                remote.put_folder(source, str(small / "there"))
            assert list(small.iterdir()) == []
            for number in range(300):
                (source / f"{number:04}").write_bytes(b"x" * 8192)
            with pytest.raises(TransferFailed, match=r"No space left on device.* / …$") as caught:
                remote.put_folder(source, str(small / "there"))
            assert len(str(caught.value).splitlines()) == 1
        finally:
            subprocess.run(["umount", str(small)], check=True)

    def test_a_folder_gets_its_name_when_its_content_is_on_the_disk(self, tmp_path):
        """Else a power cut could leave the name, and files without content in it, for ever."""
        programs, order, source = tmp_path / "bin", tmp_path / "order", tmp_path / "source"
        programs.mkdir()
        source.mkdir()
        (source / "library").write_text("content")
        for name in ("sync", "mv"):
            recorder = f'#!/bin/sh\necho "{name} $*" >> "{order}"\nexec {shutil.which(name)} "$@"\n'
            (programs / name).write_text(recorder)
            (programs / name).chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        with SshdHost(tmp_path / "sshd", environment={"PATH": path}) as own, Remote("box", own.host) as remote:
            remote.put_folder(source, str(tmp_path / "there"))
        synced, moved = order.read_text().splitlines()
        (arriving,) = re.findall(re.escape(str(tmp_path / "there")) + r"\.part-\w+", synced)
        assert synced == f"sync -f -- {arriving}" and moved == f"mv -T -- {arriving} {tmp_path / 'there'}"
        assert (tmp_path / "there" / "library").read_text() == "content"

    def test_key_exchanges_neither_stall_nor_drop(self, tmp_path):
        """A key for 4 MiB: sixteen exchanges in each direction, while other commands start and end."""
        longest = {"a": 0.0, "b": 0.0}
        source = tmp_path / "source"
        source.mkdir()
        with open(source / "file", "wb") as file:
            file.truncate(64 * MIB)
        with (
            SshdHost(tmp_path / "sshd", options=["RekeyLimit 4M"]) as server,
            Remote("box", server.host) as remote,
        ):

            def run_commands(name: str, stop: threading.Event) -> None:
                while not stop.is_set():
                    started = time.monotonic()
                    remote.run(["echo", name])
                    longest[name] = max(longest[name], time.monotonic() - started)

            stop = threading.Event()
            threads = [threading.Thread(target=run_commands, args=(name, stop)) for name in longest]
            for thread in threads:
                thread.start()
            try:
                there_and_back(remote, source)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            assert server.log.read_text().count("Accepted publickey") == 1, "a transfer began again"
        # By itself, paramiko waits 30 s; a busy machine may delay a command a little.
        assert 0 < max(longest.values()) < 10

    def test_a_server_without_aes_gcm(self, tmp_path):
        with (
            SshdHost(tmp_path / "sshd", options=["Ciphers aes256-ctr", "RekeyLimit 1M"]) as server,
            Remote("box", server.host) as remote,
        ):
            there_and_back(remote, random_folder(tmp_path / "source", 3 * MIB))


FILE, FOLDER, SYMBOLIC, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
# ".." behind a link leads to the parent of what it links to, so each of these is further out than its name says.
OUT = [
    ("s", FOLDER, ""),
    ("s/a", SYMBOLIC, ".."),
    ("b", SYMBOLIC, "s/a/.."),
    ("c", SYMBOLIC, "b/.."),
    ("e", SYMBOLIC, "c/.."),
]
# By what a host tries: archives, one after the other, of (name, kind, target of a link or content of a file).
HOSTILE_TREES = {
    "replaces a file": [[("payload", FILE, "evil"), *OUT, *((f"{to}/profile", HARD, "payload") for to in "bce")]],
    "pulls a file": [[*OUT, *((f"stolen-{to}", HARD, f"{to}/key") for to in "bce")]],
    "links to a file": [[*OUT, *((f"read-{to}", SYMBOLIC, f"{to}/key") for to in "bce")]],
    "writes through what is left": [
        OUT,
        [(f"{to}/{name}", FILE, "evil") for to in "bce" for name in ("profile", "new")],
    ],
    "links through what is left": [OUT[:2], [("b", SYMBOLIC, "s/a/.."), ("b/key", FILE, "evil")]],
    "leads to itself": [[("a", SYMBOLIC, "b"), ("b", SYMBOLIC, "a"), ("c", HARD, "c"), ("a/x", FILE, "evil")]],
    "a file as a folder": [[("a", FILE, "x"), ("a/b", FILE, "y"), ("a/c", SYMBOLIC, "../a")]],
    "too long": [[("a", FILE, "x"), ("x" * 300, FILE, "y"), ("y" * 252, SYMBOLIC, "no-such-file")]],
}


def write_archive(path: Path, members: Sequence[tuple[str, bytes, str]]) -> None:
    with tarfile.open(path, mode="w") as archive:
        for name, kind, told in members:
            member, content = tarfile.TarInfo(name), told.encode() if kind == FILE else b""
            member.type, member.mode, member.size = kind, 0o755, len(content)
            member.linkname = "" if kind == FILE else told
            archive.addfile(member, io.BytesIO(content))


@contextlib.contextmanager
def lying_tar(folder: Path, script: str = 'exec cat "$(dirname "$0")/archive"') -> Iterator[tuple[Path, Remote]]:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "tar").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "tar").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    with SshdHost(folder / "sshd", environment=environment) as server, Remote("box", server.host) as remote:
        yield programs, remote


def header(kind: bytes, size: int = 0, **pax: str) -> bytes:
    member = tarfile.TarInfo("file")
    member.type, member.size, member.pax_headers = kind, size, pax
    return member.tobuf(tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT)


_HOLES = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "0"}
# What the archive begins with, and what the refusal says.
ENDLESS_TREES = {
    "a name of a terabyte": (header(tarfile.GNUTYPE_LONGNAME, 1 << 40), f"a header of {1 << 40} bytes"),
    "attributes of a terabyte": (header(tarfile.XHDTYPE, 1 << 40), f"a header of {1 << 40} bytes"),
    "holes": (header(tarfile.GNUTYPE_SPARSE), "a file with holes"),
    "holes of POSIX": (header(tarfile.REGTYPE, **_HOLES), "a file with holes"),
    "a chain of attributes": (header(tarfile.XHDTYPE) * 5000, "not an archive"),
}


class TestTrees:
    def test_there_and_back(self, remote, tmp_path):
        source = tmp_path / "source"
        (source / "deep" / "er").mkdir(parents=True)
        (source / "empty").mkdir()
        (source / "deep" / "er" / "data").write_bytes(os.urandom(2 * MIB))
        (source / "run; rm -rf me").write_text("#!/bin/sh\n")
        (source / "run; rm -rf me").chmod(0o755)
        (source / "deep" / "link").symlink_to("er/data")
        (source / "without content").touch()
        there = tmp_path / "a name; with $(things)\n'in' it"
        remote.put_tree(source, str(there))
        for _ in range(2):  # the second time, everything is already there
            remote.get_tree(str(there), tmp_path / "back")
            assert_same(source, tmp_path / "back")
            assert os.access(tmp_path / "back" / "run; rm -rf me", os.X_OK)
            assert not [path for path in (tmp_path / "back").rglob("*") if path.is_symlink()]
        remote.get_tree(str(there), tmp_path / "some", ["run; rm -rf me", "without content"])
        assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["run; rm -rf me", "without content"]

    @pytest.mark.parametrize("direction", ["put", "get"])
    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dropped", "silent"])
    @pytest.mark.fault(9)
    def test_a_drop_in_mid_transfer_ends_with_the_whole_tree(self, server, tmp_path, monkeypatch, direction, how):
        monkeypatch.setattr(ssh_transport, "PROBE_AFTER_S", 0.2)
        monkeypatch.setattr(ssh_transport, "SILENCE_LIMIT_S", 2.0)
        source, target = tmp_path / "source", tmp_path / "target"
        source.mkdir()
        for number in range(64):
            (source / str(number)).write_bytes(os.urandom(MIB))

        def drop_when_half_way() -> None:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and len(list(target.glob("*"))) < 16:
                time.sleep(0.001)
            arrived.append(len(list(target.glob("*"))))
            for pid in server.session_pids():  # killed, or stopped: it accepts and answers nothing any more
                os.kill(pid, how)

        arrived: list[int] = []
        thread = threading.Thread(target=drop_when_half_way)
        thread.start()
        with Remote("box", server.host) as remote:
            move(remote, direction, source, target)
        thread.join()
        server.drop_connections()  # stopped ones do not end by themselves
        assert 16 <= arrived[0] < 64
        assert_same(source, target)

    @pytest.mark.fault(39)
    def test_what_leads_out_of_the_folder_is_refused(self, remote, tmp_path):
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "link").symlink_to("/etc")
        with pytest.raises(TransferFailed, match="link"):
            remote.get_tree(str(tmp_path / "there"), tmp_path / "back")

    @pytest.mark.fault(39)
    @pytest.mark.parametrize("hostile", ENDLESS_TREES)
    def test_an_archive_that_would_fill_memory_or_disk_is_refused(self, tmp_path, hostile):
        with lying_tar(tmp_path) as (programs, remote):
            archive, refusal = ENDLESS_TREES[hostile]
            (programs / "archive").write_bytes(archive)
            with pytest.raises(TransferFailed, match=refusal):
                remote.get_tree(str(programs), tmp_path / "back")

    @pytest.mark.fault(39)
    @pytest.mark.parametrize("script", ["exec yes", 'cat "$0.empty"; exec yes'], ids=["at once", "after its end"])
    def test_an_archive_without_an_end_is_refused(self, tmp_path, monkeypatch, script):
        monkeypatch.setattr(transfer, "MOST_BYTES", 4 * MIB)
        monkeypatch.setattr(transfer, "_HEADERS", MIB)
        with lying_tar(tmp_path, script) as (programs, remote):
            write_archive(programs / "tar.empty", [])
            with pytest.raises(ContentRefused, match=f"more than {4 * MIB} bytes"):
                remote.get_tree(str(programs), tmp_path / "back")

    @pytest.mark.fault(39)
    def test_a_file_that_is_too_large_is_refused_before_it_is_copied(self, remote, tmp_path):
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "mostly-holes").touch()
        os.truncate(tmp_path / "there" / "mostly-holes", 1 << 40)
        with pytest.raises(ContentRefused, match="remove what a trial does not need"):
            remote.get_tree(str(tmp_path / "there"), tmp_path / "back")
        assert not list((tmp_path / "back").iterdir())

    @pytest.mark.fault(39)
    def test_an_archive_that_drips_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(transfer, "FIRST_S", 0.5)
        with (
            lying_tar(tmp_path, "while :; do printf x; sleep 0.1; done") as (programs, remote),
            pytest.raises(TransferFailed, match=r"only . bytes arrived in"),
        ):
            remote.get_tree(str(programs), tmp_path / "back")

    @pytest.mark.fault(39)
    @pytest.mark.parametrize("hostile", HOSTILE_TREES)
    def test_no_chain_of_links_writes_or_reads_outside_the_folder(self, tmp_path, hostile):
        """A host whose tar lies. The second archive meets what the first one left."""
        home = tmp_path / "home"
        (home / "project").mkdir(parents=True)
        (home / "profile").write_text("mine")
        (home / "key").write_text("private")
        with lying_tar(tmp_path) as (programs, remote):
            for members in HOSTILE_TREES[hostile]:
                write_archive(programs / "archive", members)
                with contextlib.suppress(ContentRefused):
                    remote.get_tree(str(programs), home / "project")
        assert (home / "profile").read_text() == "mine"
        assert sorted(path.name for path in home.iterdir()) == ["key", "profile", "project"]
        assert "private" not in [path.read_text() for path in (home / "project").rglob("*") if path.is_file()]

    def test_links_become_files_and_those_to_folders_say_where_they_led(self, remote, tmp_path):
        source = tmp_path / "source"
        (source / "runs" / "1").mkdir(parents=True)
        (source / "runs" / "1" / "result").write_text("fast")
        (source / "latest").symlink_to("runs/1")
        (source / "result").symlink_to("latest/result")
        (source / "first").symlink_to("./runs/1/result")
        (source / "nothing").symlink_to("no-such-file")
        (source / "nothing.link").write_text("of the tool")
        os.link(source / "runs" / "1" / "result", source / "same")
        remote.get_tree(str(source), tmp_path / "back")
        found = {p.name: p.read_text() for p in (tmp_path / "back").iterdir() if p.is_file()}
        assert found == {
            "first": "fast", "same": "fast", "latest.link": "runs/1", "result.link": "latest/result",
            "nothing.link": "of the tool", "nothing.link.2": "no-such-file",
        }  # fmt: skip

    def test_what_the_user_there_may_not_read_is_named_and_not_left_out(self, tmp_path):
        source = tmp_path / "source"
        source.mkdir()
        for name in ("alike", "of-root"):
            (source / name).write_text(name)
        (source / "of-root").chmod(0o000)
        # Root reads every file, unless it lacks the capabilities for that.
        lacks = "-dac_override,-dac_read_search"
        prefix = [] if os.getuid() else ["setpriv", f"--inh-caps={lacks}", f"--bounding-set={lacks}"]
        with SshdHost(tmp_path / "sshd", prefix=prefix) as server, Remote("box", server.host) as remote:
            with pytest.raises(
                ContentRefused, match=r"box: .*source: not all of it .* \./of-root: .*Permission denied"
            ):
                remote.get_tree(str(source), tmp_path / "back")
            assert (tmp_path / "back" / "alike").read_text() == "alike"

    def test_missing_folders_are_named(self, remote, tmp_path):
        with pytest.raises(TransferFailed, match="none"):
            remote.get_tree(str(tmp_path / "none"), tmp_path / "back")
        with pytest.raises(TransferFailed, match="none"):
            remote.put_tree(tmp_path / "none", str(tmp_path / "there"))


def test_a_second_key_in_the_agent_does_not_matter(server, tmp_path, monkeypatch):
    """If the study names a key, others in ~/.ssh are not offered."""
    (tmp_path / ".ssh").mkdir()
    make_key(tmp_path / ".ssh" / "id_ed25519")
    monkeypatch.setenv("HOME", str(tmp_path))
    before = server.log.read_text().count("Failed publickey")
    with Remote("box", server.host) as remote:
        assert remote.run(["true"]).exit_status == 0
    assert server.log.read_text().count("Failed publickey") == before
