"""What a supervised command costs over the same command by plain ssh, and what its supervisor costs meanwhile.

    python benchmarks/supervisor_overhead.py [PAIRS]

Both go to one sshd on this machine, over one connection each (ssh shares its own through ControlMaster), in
interleaved pairs. Prints JSON. The project promises less than 0.15 s per command.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.loopback import parameters, running
from benchstudy.hosts.remote import Remote
from benchstudy.model.host import Host

ASLEEP_S = 10.0


def ssh_argv(state: Path) -> list[str]:
    address = parameters(state)
    options = {
        "HostKeyAlias": address.host_key_alias,
        "UserKnownHostsFile": address.known_hosts,
        "IdentitiesOnly": "yes",
        "ControlMaster": "auto",
        "ControlPath": state / "control",
        "ControlPersist": "60",
    }
    flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
    identity = ["-i", str(address.identity_file), "-p", str(address.port)]
    return ["ssh", *flags, *identity, f"{address.user}@{address.address}"]


def seconds_of(action) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def supervised(agent: HostAgent, into: Path) -> None:
    execution = agent.execute(Command(["true"]))
    agent.fetch(execution, into)
    agent.discard(execution)


def cost_while_asleep(agent: HostAgent) -> dict[str, float]:
    """The cost of the supervisor of a command that runs for ASLEEP_S, as measured by itself at the command's end."""
    look = "cat /proc/$PPID/status /proc/$PPID/schedstat"
    execution = agent.execute(Command(["sh", "-c", f"{look}; sleep {ASLEEP_S}; {look}"]))
    with tempfile.TemporaryDirectory() as folder:
        agent.fetch(execution, Path(folder))
        lines = Path(folder, "stdout").read_text().splitlines()
    agent.discard(execution)
    switches = [int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches")]
    cpu_ns = [int(line.split()[0]) for line in lines if line.replace(" ", "").isdigit()]
    resident = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return {
        "wakeups_per_s": (switches[1] - switches[0]) / ASLEEP_S,
        "cpu_fraction": (cpu_ns[1] - cpu_ns[0]) / 1e9 / ASLEEP_S,
        "resident_mib": resident[1] / 1024,
    }


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bs-") as folder:
        state = Path(folder)
        host = Host(loopback=True, work_dir=str(state / "work"))
        with running(state), Remote("loopback", host, loopback_state=state) as remote:
            agent = HostAgent.deploy(
                remote, lease_s=30.0, reconnect_s=10.0, on_event=print, lock_path=str(state / "host.lock")
            )
            plain_argv = [*ssh_argv(state), "true"]
            plain, ours = [], []
            with agent.lock("overhead", {"controller": "benchmark"}):
                for pair in range(pairs + 1):
                    plain.append(seconds_of(lambda: subprocess.run(plain_argv, check=True)))
                    ours.append(seconds_of(lambda into=state / f"run-{pair}": supervised(agent, into)))
                asleep = cost_while_asleep(agent)
            subprocess.run([*ssh_argv(state)[:-1], "-O", "exit", ssh_argv(state)[-1]], capture_output=True)
    # The first pair pays for connecting and for compiling the agent.
    plain, ours = plain[1:], ours[1:]
    overheads = [b - a for a, b in zip(plain, ours, strict=True)]
    print(
        json.dumps(
            {
                "pairs": pairs,
                "plain_ssh_s": statistics.median(plain),
                "supervised_s": statistics.median(ours),
                "overhead_s": statistics.median(overheads),
                "overhead_quartiles_s": statistics.quantiles(overheads, n=4)[::2],
                "supervisor_while_the_command_runs": asleep,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
