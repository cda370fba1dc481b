"""What a study of many hosts costs the controller: planning, provisioning, sessions side by side.

    python benchmarks/fleet.py [--hosts 94] [--slow 5] [--rebooting 1] [--dead 5] [--trial 20] [--plan 1000]

Starts a real sshd on loopback for each host. Each packet to and from a `--slow` host arrives 0.1 s late. A
`--rebooting` host loses all its processes during its trial and is away for ten seconds. A `--dead` host answers nobody.
Runs `snakemake --cores 8 provision`, `report`, and `report` again, of a command that sleeps for `--trial` seconds. It
reads from /proc how much memory the controller's processes hold at one moment (Pss: shared pages count once), how much
processor time they use, and how much the whole machine uses, hosts included. Keep the machine otherwise idle: the wall
time is given as a ratio to what that processor time takes on all processors. At the end it plans a study of five
families that is not measured.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import CHECKOUT, Project, copy_project
from cost import memory_of
from nothing_lost import running
from sshd_hosts import SshdHost

MEBI = 1 << 20
_DELAY_S = 0.1
_AWAY_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=94)
    parser.add_argument("--slow", type=int, default=5)
    parser.add_argument("--rebooting", type=int, default=1)
    parser.add_argument("--dead", type=int, default=5)
    parser.add_argument("--trial", type=float, default=20.0, help="seconds that each trial takes")
    parser.add_argument("--plan", type=int, default=1000, help="targets of the study that it only plans")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, contextlib.ExitStack() as stack:
        project = copy_project(Path(folder, "project"))
        if asked.hosts:
            started = {
                f"{kind}{number}": stack.enter_context(SshdHost(Path(folder, f"{kind}{number}", "sshd")))
                for kind, count in (("h", asked.hosts), ("slow", asked.slow), ("rebooting", asked.rebooting))
                for number in range(count)
            }
            hosts = {name: sshd.described(sshd.folder.with_name("work")) for name, sshd in started.items()}
            for name, host in hosts.items():
                if name.startswith("slow"):
                    host["port"] = stack.enter_context(_slow_link(host["port"]))
                    _pin(started[name], host["port"])
            hosts |= {
                f"dead{n}": {"address": "127.0.0.1", "port": 1, "known_hosts": os.devnull} for n in range(asked.dead)
            }
            study = _study("fleet", hosts)
            study["families"] = {"command": {"commands": [{"name": "nap", "argv": ["sleep", f"{asked.trial:g}"]}]}}
            for name, sshd in started.items():
                if name.startswith("rebooting"):
                    threading.Thread(target=_reboot, args=(sshd, asked.trial), daemon=True).start()
            for what in ("provision", "report", "report"):
                _run(project, study, what)
        if asked.plan:
            _plan(project, asked.plan)


def _pin(sshd: SshdHost, port: int) -> None:
    """Make the host known under another port."""
    sshd.known_hosts.write_text(sshd.known_hosts.read_text().replace(f":{sshd.port} ", f":{port} "))


@contextlib.contextmanager
def _slow_link(port: int) -> Iterator[int]:
    """A port on loopback that forwards everything to `port` with a delay, and the answers, too."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                loop.call_later(_DELAY_S, writer.write, data)
        loop.call_later(_DELAY_S, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_host, from_host = reversed(await asyncio.open_connection("127.0.0.1", port))
        await asyncio.gather(pass_on(reader, to_host), pass_on(from_host, writer))

    loop, listening = asyncio.new_event_loop(), socket.create_server(("127.0.0.1", 0))
    loop.run_until_complete(asyncio.start_server(connected, sock=listening))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _reboot(sshd: SshdHost, trial_s: float) -> None:
    """Once its trial runs, kill everything that runs on the host, and keep it away for a while."""
    place = sshd.folder.parent
    while not any(process.command.startswith(f"sleep {trial_s:g}") for process in running(str(place))):
        time.sleep(0.5)  # looking at all processes takes processor time
    sshd.stop()
    for process in running(str(place)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    time.sleep(_AWAY_S)
    sshd.start()


def _study(name: str, hosts: dict[str, Any]) -> dict[str, Any]:
    targets = {f"on-{host}": {"roles": {"sut": host}} for host in hosts}
    return {"study": name, "blocks": 1, "hosts": hosts, "targets": targets}


def _run(project: Project, study: dict[str, Any], what: str) -> None:
    file = project.write_study(study)
    began, before, busy = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN), _busy_s()
    with Path(project.root, "said").open("w") as said:
        snakemake = subprocess.Popen(
            ["snakemake", "--cores", "8", what, "--configfile", file],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        most, of_forks = 0, list[int]()
        while snakemake.poll() is None:
            found = [(process, *memory_of(process.pid)) for process in _descendants(snakemake.pid)]
            if (total := sum(pss for _, pss, _ in found)) > most:
                most, of_forks = total, [own for process, _, own in found if _is_fork(process)]
            time.sleep(2.0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_s, least_s = time.monotonic() - began, (_busy_s() - busy) / psutil.cpu_count()
    print(
        f"{what}: exit status {snakemake.returncode}, {wall_s:.0f} s, {wall_s / least_s:.2f} times the time that all "
        f"processors need for it, {cpu_s:.1f} s of processor time on the controller, "
        f"at most {most / MEBI:.0f} MiB, with {len(of_forks)} forks of {median(of_forks or [0]) / MEBI:.1f} MiB "
        f"of their own; {_results(project)}",
        flush=True,
    )
    if snakemake.returncode:
        print("   ", "\n    ".join(Path(project.root, "said").read_text().splitlines()[-12:]), flush=True)


def _busy_s() -> float:
    """Processor time of everything on this machine."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def _is_fork(process: psutil.Process) -> bool:
    """Whether this is a group's process for one host; it has the same command line."""
    with contextlib.suppress(psutil.NoSuchProcess, AttributeError):
        return process.cmdline() == process.parent().cmdline()
    return False


def _results(project: Project) -> str:
    raw = Path(project.root, "data", "raw", "fleet").glob("*/*/session.json")
    indexes = [json.loads(path.read_text()) for path in raw]
    trials = sum(trial["status"] == "ok" for index in indexes for trial in index["trials"])
    return f"{len(indexes)} sessions, {sum(bool(i['problem']) for i in indexes)} with a problem, {trials} trials"


def _plan(project: Project, count: int) -> None:
    study = _study("planned", {f"h{n}": {"address": f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"} for n in range(count)})
    study["families"] = yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text())["families"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = project.run("snakemake", "--cores", "8", "-n", "measure", "--configfile", project.write_study(study))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = done.stdout + done.stderr
    print(
        f"-n measure, {count} targets of {len(study['families'])} families: {time.monotonic() - began:.1f} s, "
        f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} s of processor time, "
        f"{len(text.splitlines())} lines"
    )


if __name__ == "__main__":
    main()
