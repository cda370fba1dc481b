"""What a session costs over plain ssh: the whole command against `ssh host fio …` for the same fio run.

    python benchmarks/session_overhead.py [--trials 1 20] [--pairs 3] [--runtime 10]

It uses one loopback host, provisioned before. In turn it runs `snakemake --cores 8 measure` of a study with N fio
trials, and a shell that runs exactly the same fio command N times by `ssh host fio …`. For each N it prints the ratio
of wall times, pair by pair, and the time of the session's job alone. The project promises at most 1.4 for one trial of
10 s, and at most 1.05 for 20.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from benchstudy.hosts.loopback import parameters, running
from benchstudy.model import registry
from benchstudy.model.studyfile import parse_study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import copy_project


def study(name: str, trials: int, runtime_s: int) -> dict:
    return {
        "study": name,
        "blocks": trials,
        "hosts": {"local": {"loopback": True}},
        "targets": {"here": {"roles": {"sut": "local"}}},
        "families": {
            "fio": {
                "directories": [{"name": "disk", "path": "/var/tmp"}],
                "size": "64MiB",
                "runtime": f"{runtime_s}s",
                "page_jobs": ["gitlab"],
                "small_files": [],
            }
        },
    }


def fio_argv(declared: dict) -> list[str]:
    """The command of the study's only case, with the baseline's own file and output."""
    plan = parse_study(declared).sessions()[0]
    (case,) = registry.get("fio").cases(plan.config)
    placed = [argument.replace("{file}", "/var/tmp/benchstudy-baseline") for argument in case.definition["argv"]]
    return [a.replace("--output=", "--output=/var/tmp/benchstudy-baseline-") for a in placed]


def by_ssh(ssh: list[str], argv: list[str], trials: int) -> float:
    """Wall seconds of running fio and removing its file `trials` times, as a careful person's loop does."""
    remove = "rm -f /var/tmp/benchstudy-baseline*"
    begun = time.perf_counter()
    for _ in range(trials):
        subprocess.run([*ssh, f"{shlex.join(argv)}; {remove}"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def by_snakemake(project, declared: dict) -> tuple[float, float]:
    """Wall seconds of the whole command, and of the session in it (both on a provisioned host)."""
    config = project.write_study(declared, f"{declared['study']}.yaml")
    project.snakemake("provision", "--configfile", config)
    begun = time.perf_counter()
    project.snakemake("measure", "--configfile", config)
    whole_s = time.perf_counter() - begun
    index = project.root / f"data/raw/{declared['study']}/here/fio/session.json"
    (session,) = json.loads(index.read_text())["sessions"]
    held = datetime.fromisoformat(session["finished"]) - datetime.fromisoformat(session["started"])
    return whole_s, held.total_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--runtime", type=int, default=10, help="seconds of one fio run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchstudy-overhead-") as folder:
        project = copy_project(Path(folder) / "project")
        state = project.root / ".benchstudy/loopback"
        os.environ["BENCHSTUDY_HOST_LOCK"] = f"{folder}/host.lock"
        with running(state):
            address = parameters(state)
            ssh = ["ssh", "-p", str(address.port), "-i", str(address.identity_file)]
            ssh += ["-o", f"UserKnownHostsFile={address.known_hosts}", "-o", f"HostKeyAlias={address.host_key_alias}"]
            ssh += [f"{address.user}@{address.address}"]
            for trials in options.trials:
                whole, session = [], []
                for pair in range(options.pairs):
                    declared = study(f"overhead-{trials}-{pair}", trials, options.runtime)
                    plain_s = by_ssh(ssh, fio_argv(declared), trials)
                    whole_s, held_s = by_snakemake(project, declared)
                    whole.append(whole_s / plain_s)
                    session.append(held_s / plain_s)
                    print(
                        f"{trials} trials: ssh {plain_s:.2f} s, command {whole_s:.2f} s, session {held_s:.2f} s",
                        file=sys.stderr,
                    )
                summary = {"trials": trials, "command": statistics.median(whole), "session": statistics.median(session)}
                print(
                    json.dumps(
                        {k: round(v, 3) for k, v in summary.items()} | {"commands": [round(r, 3) for r in whole]}
                    )
                )


if __name__ == "__main__":
    main()
