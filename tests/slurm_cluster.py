"""Slurm on this machine: a controller and two nodes, with their own ports, keys and folders. It needs root."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ports import free_ports
from waiting import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
NODES = ("node-a", "node-b")
# Jobs have no SLURM_CONF, because the executor removes such variables.
IN_PLACE = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/slurm && exec "$@"')
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=DEFAULT CPUs=4 RealMemory=8000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster that runs during the context; yields the variables by which Slurm's commands find it."""
    folder.mkdir(mode=0o755)
    (folder / "state").mkdir()
    host, ports = socket.gethostname(), iter(free_ports(1 + len(NODES)))
    configuration = CONFIGURATION.format(folder=folder, host=host, port=next(ports))
    nodes = [f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={next(ports)}\n" for node in NODES]
    (folder / "slurm.conf").write_text(configuration + "".join(nodes))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
    munged += [f"--{kind}-file={folder}/munge.{kind}" for kind in ("pid", "log", "seed")]
    with ExitStack() as stack:
        stack.enter_context(_running(folder, munged, environment))
        until((folder / "munge.socket").exists)
        stack.enter_context(_running(folder, ["slurmctld", "-D"], environment))
        for node in NODES:
            stack.enter_context(_running(folder, [*IN_PLACE, str(folder), "slurmd", "-D", "-N", node], environment))
        until(lambda: asked(["sinfo", "--noheader", "--format=%T"], environment) == "idle", 60)
        yield environment


@contextmanager
def _running(folder: Path, argv: Sequence[str], environment: dict[str, str]) -> Iterator[None]:
    with (folder / f"{argv[0]}{argv[-1]}.said".replace("/", "_")).open("wb") as said:
        process = subprocess.Popen(
            argv, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def asked(argv: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True)
    return done.stdout.strip()
