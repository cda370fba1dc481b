"""Free ports of this machine."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """As many different ones, on loopback."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
