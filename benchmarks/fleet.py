"""What a study of many hosts costs the controller: planning, provisioning, sessions side by side.

    python benchmarks/fleet.py [--hosts 100] [--dead 5] [--trial 20] [--plan 1000]

Starts a real sshd on loopback for each host; `--dead` more answer nobody. Measures a command that sleeps for so many
seconds on all of them with `snakemake --cores 8 measure`, and reads from /proc what the controller's processes hold
in memory at one moment (Pss: shared pages count once) and use of processors in all. The hosts' own processes, which a
real fleet has elsewhere, are told apart. Then it looks at the plan of a study of five families that nobody measures.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import CHECKOUT, Project, copy_project
from sshd_hosts import SshdHost

MEBI = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--dead", type=int, default=5)
    parser.add_argument("--trial", type=float, default=20.0, help="seconds that each trial takes")
    parser.add_argument("--plan", type=int, default=1000, help="targets of the study that is only planned")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, contextlib.ExitStack() as stack:
        project = copy_project(Path(folder, "project"))
        if asked.hosts:
            hosts = dict(_hosts(Path(folder), asked.hosts, stack))
            hosts |= {
                f"dead{n}": {"address": "127.0.0.1", "port": 1, "known_hosts": os.devnull} for n in range(asked.dead)
            }
            study = _study("fleet", hosts)
            study["families"] = {"command": {"commands": [{"name": "nap", "argv": ["sleep", f"{asked.trial:g}"]}]}}
            for what in ("provision", "measure", "measure"):
                _run(project, study, what)
        if asked.plan:
            _plan(project, asked.plan)


def _hosts(folder: Path, count: int, stack: contextlib.ExitStack) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(count):
        place = folder / f"host{number}"
        sshd = SshdHost(place / "sshd", environment={"BENCHSTUDY_HOST_LOCK": f"{place}/host.lock"})
        stack.enter_context(sshd)
        described = sshd.host.model_dump(exclude_none=True, exclude_defaults=True)
        yield f"h{number}", described | {"work_dir": f"{place}/work"}


def _study(name: str, hosts: dict[str, Any]) -> dict[str, Any]:
    targets = {f"on-{host}": {"roles": {"sut": host}} for host in hosts}
    return {"study": name, "blocks": 1, "hosts": hosts, "targets": targets}


def _run(project: Project, study: dict[str, Any], what: str) -> None:
    file = project.write_study(study)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with Path(project.root, "said").open("w") as said:
        running = subprocess.Popen(
            ["snakemake", "--cores", "8", what, "--configfile", file],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        most, of_forks = 0, list[int]()
        while running.poll() is None:
            found = [(process, *_memory(process)) for process in _descendants(running.pid)]
            if (total := sum(pss for _, pss, _ in found)) > most:
                most, of_forks = total, [own for process, _, own in found if _is_fork(process)]
            time.sleep(2.0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{what}: exit status {running.returncode}, {time.monotonic() - began:.0f} s, {cpu_s:.1f} s of processor, "
        f"at most {most / MEBI:.0f} MiB, with {len(of_forks)} forks of {median(of_forks or [0]) / MEBI:.1f} MiB "
        f"of their own; {_results(project)}",
        flush=True,
    )
    if running.returncode:
        print("   ", "\n    ".join(Path(project.root, "said").read_text().splitlines()[-12:]))


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def _is_fork(process: psutil.Process) -> bool:
    """Of a group's process, for a host: it has the same command line."""
    with contextlib.suppress(psutil.NoSuchProcess, AttributeError):
        return process.cmdline() == process.parent().cmdline()
    return False


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Pss, and what is the process's own, in bytes."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0, 0
    kibi = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return kibi["Pss"] << 10, (kibi["Private_Clean"] + kibi["Private_Dirty"]) << 10


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
        f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} s of processor, "
        f"{len(text.splitlines())} lines"
    )


if __name__ == "__main__":
    main()
