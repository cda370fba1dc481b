"""A host that tests can unplug, restart and set the clock of: an sshd in namespaces of its own. It needs root."""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import two_hosts
from sshd_hosts import SshdHost
from waiting import until

# Loaded into every process of the host. Its clock is ahead by as many seconds as the file AHEAD has bytes.
CLOCK = """
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    struct stat ahead;
    int failed = syscall(SYS_clock_gettime, id, now);
    if (!failed && id == CLOCK_REALTIME && !stat(AHEAD, &ahead)) now->tv_sec += ahead.st_size;
    return failed;
}
"""
# The first process of the host: sets another boot id, then runs sshd.
_BOOT = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"'


class FaultyHost(SshdHost):
    """The host in `folder`, with a network cable to the namespace of the process `network`."""

    def __init__(self, folder: Path, address: str, network: int):
        self._ahead, self._boot_id = folder / "ahead", folder / "boot-id"
        self.inside = ["nsenter", f"--net=/proc/{network}/ns/net"]
        self._ahead.touch()
        shim = folder / "clock.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", f'-DAHEAD="{self._ahead}"', "-o", shim, "-xc", "-"],
            input=CLOCK.encode(),
            check=True,
        )
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _BOOT, "sh"]
        super().__init__(
            folder / "sshd",
            address=address,
            prefix=[*self.inside, *own, str(self._boot_id)],
            environment={"LD_PRELOAD": str(shim)},
        )

    def start(self) -> SshdHost:
        self._boot_id.write_text(f"{uuid.uuid4()}\n")
        return super().start()

    def stop(self) -> None:
        """Stop it like a power failure: when the namespace's first process is killed, the kernel kills all others."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def session_pids(self) -> list[int]:
        return super().session_pids()[1:]  # the first is the listener, whose parent is unshare

    def unplug(self) -> None:
        """From now on, the network silently drops what is sent to the host."""
        subprocess.run([*self.inside, "ip", "link", "set", "bare", "down"], check=True)

    def plug(self) -> None:
        subprocess.run([*self.inside, "ip", "link", "set", "bare", "up"], check=True)

    def set_clock(self, ahead_s: int) -> None:
        os.truncate(self._ahead, ahead_s)


@contextlib.contextmanager
def faulty_host(folder: Path) -> Iterator[FaultyHost]:
    """A running host. Afterwards it is removed with everything that was in it, whatever happened."""
    ours, theirs = two_hosts.free_addresses()
    holding = [*two_hosts.DIE_WITH_TESTS, "unshare", "--net", "sh", "-c", "echo separated; exec sleep infinity"]
    with subprocess.Popen(holding, stdout=subprocess.PIPE) as network:
        try:
            assert network.stdout.readline() == b"separated\n", "only root may make a network"
            two_hosts.lay_cable(network, ours)
            host = FaultyHost(folder, theirs, network.pid)
            for what in (["address", "add", f"{theirs}/30", "dev", "bare"], ["link", "set", "lo", "up"]):
                subprocess.run([*host.inside, "ip", *what], check=True)
            host.plug()
            with host:
                yield host
        finally:
            network.kill()
            network.wait()
            until(lambda: not Path(f"/sys/class/net/{two_hosts.CABLE}{network.pid}").exists())
