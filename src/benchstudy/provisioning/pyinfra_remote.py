"""Lets pyinfra reach a host through the same SSH door as everything else.

pyinfra has an SSH connector of its own, but then there would be two treatments of host keys, ~/.ssh/config,
jump hosts and the loopback host. This connector hands pyinfra's commands to `Remote`.
"""

import shlex
from io import IOBase
from typing import Any, Unpack

from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.util import get_file_io
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput, OutputLine, make_unix_command_for_host

from benchstudy.hosts.remote import Remote

# A package manager on a slow mirror takes minutes; longer silence is a hang.
_COMMAND_TIMEOUT_S = 1800.0


class RemoteConnector(BaseConnector):
    """pyinfra's commands over the open `Remote` of its inventory."""

    handles_execution = True

    @staticmethod
    def make_names_data(name: str):
        yield name, {}, []

    @property
    def _remote(self) -> Remote:
        inventory = self.host.inventory
        assert isinstance(inventory, OneHost), "only hosts of OneHost have this connector"
        return inventory.remote

    def run_shell_command(
        self, command: StringCommand, print_output: bool = False, print_input: bool = False, **arguments: Any
    ) -> tuple[bool, CommandOutput]:
        timeout = arguments.pop("_timeout", None)
        arguments.pop("_get_pty", None)  # nothing we run asks questions
        stdin = _as_bytes(arguments.pop("_stdin", None))
        good = arguments.pop("_success_exit_codes", None) or [0]
        # pyinfra quotes its data and builds shell text, which is the one argument of a shell.
        text = make_unix_command_for_host(self.state, self.host, command, **arguments).get_raw_value()
        argv = shlex.split(text)
        completed = self._remote.run(argv, input=stdin, timeout_s=timeout or _COMMAND_TIMEOUT_S, check=False)
        lines = [
            OutputLine(name, line)
            for name, stream in (("stdout", completed.stdout), ("stderr", completed.stderr))
            for line in stream.decode("utf-8", "replace").splitlines()
        ]
        return completed.exit_status in good, CommandOutput(lines)

    def put_file(
        self,
        filename_or_io: str | IOBase,
        remote_filename: str,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> bool:
        with get_file_io(filename_or_io) as source:  # type: ignore[arg-type]  # pyinfra itself passes IO here
            content = source.read()
        # cat under the same sudo as every other command: no temporary copy that others could read.
        written, output = self.run_shell_command(
            StringCommand("cat", ">", QuoteString(remote_filename)), **{**arguments, "_stdin": content}
        )
        if not written:
            raise OSError(f"{self.host.name}: cannot write {remote_filename}: {output.stderr}")
        return True

    def get_file(
        self,
        remote_filename: str,
        filename_or_io: str | IOBase,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> bool:
        read, output = self.run_shell_command(StringCommand("cat", QuoteString(remote_filename)), **arguments)
        if not read:
            raise OSError(f"{self.host.name}: cannot read {remote_filename}: {output.stderr}")
        with get_file_io(filename_or_io, "wb") as destination:  # type: ignore[arg-type]  # as above
            destination.write((output.stdout + "\n").encode())
        return True


class OneHost(Inventory):
    """An inventory of the one host behind `remote`; `data` is what its deploys see as `host.data`."""

    def __init__(self, remote: Remote, data: dict[str, Any]):
        self.remote = remote
        super().__init__(([remote.name], data))

    def make_hosts_and_groups(self, names: list[str], groups: dict) -> None:
        self.hosts = {name: Host(name, inventory=self, groups=[], connector_cls=RemoteConnector) for name in names}


def _as_bytes(stdin: Any) -> bytes:
    if stdin is None:
        return b""
    if isinstance(stdin, bytes):
        return stdin
    if isinstance(stdin, str):
        return stdin.encode()
    return b"".join(_as_bytes(line) + b"\n" for line in stdin)
