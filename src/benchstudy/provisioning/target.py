"""Makes hosts ready over SSH: installs and builds what its deploys ask for, and writes down what is there."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import as_json, now, write_atomically
from benchstudy.model.paths import project_root
from benchstudy.model.study import Study

log = logging.getLogger("benchstudy")

# Runs on every host, before the families' own deploys.
COMMON_DEPLOY = "common"


class ProvisionFailed(BenchstudyError):
    """Provisioning itself is broken, such as by a wrong deploy file; the message says which host and why."""


@dataclass(frozen=True)
class ProvisionResult:
    """What is so on a target's hosts.

    `hosts`: facts by host: os, machine, packages (name to version or None), programs (of these packages: name to
    path and sha256, or None), tools (built on the host: name to version, sha256, path and what it was built with, or
    None), changed (number of operations that changed something), problems (texts). Problems are no failure: the
    trials will say what is missing.
    A host that could not be reached has `unreachable` (text) and nothing else but `changed` and `problems`.
    """

    hosts: Mapping[str, Mapping[str, Any]]

    @property
    def changed(self) -> int:
        return sum(facts["changed"] for facts in self.hosts.values())

    @property
    def problems(self) -> list[str]:
        return [f"{host}: {problem}" for host, facts in self.hosts.items() for problem in facts["problems"]]


def provision_target(study: Study, target: str, facts_path: Path) -> ProvisionResult:
    """Provision all hosts of `target` side by side, and write their facts to `facts_path` (JSON, atomically).

    Running it again changes nothing. That a host is out of reach or a package not to be had becomes a problem
    in the facts, so that everything else goes on; the workflow tries such a target again in the next run.
    Raises ProvisionFailed when a deploy file is wrong.
    """
    root = project_root()
    families = [plan.family_name for plan in study.sessions() if plan.target == target]
    roles = study.targets[target].roles
    requests = {
        name: {
            "name": name,
            "host": study.hosts[name].model_dump(mode="json"),
            "roles": [role for role, host in roles.items() if host == name],
            "target_roles": list(roles),
            "deploys": _deploys(root, study, families),
        }
        for name in dict.fromkeys(roles.values())
    }
    with ThreadPoolExecutor(max_workers=len(requests)) as pool:
        answers = {name: pool.submit(_provision_host, request, root) for name, request in requests.items()}
    result = ProvisionResult({name: answer.result() for name, answer in answers.items()})
    for problem in result.problems:
        log.warning("%s", problem)
    log.info("%s: %d changed, %d problems", target, result.changed, len(result.problems))
    facts = {"study": study.study, "target": target, "families": families, "provisioned": now()}
    facts_path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(facts_path, as_json({**facts, "hosts": result.hosts}))
    return result


def facts_problems(facts_path: Path) -> list[str]:
    """The problems that the facts of a target tell; [] when there are no facts."""
    try:
        hosts = json.loads(facts_path.read_bytes())["hosts"] if facts_path.is_file() else {}
    except (ValueError, LookupError, TypeError):
        return [f"{facts_path} was damaged, and is made again"]
    return [problem for facts in hosts.values() for problem in facts["problems"]]


def deploy_files(root: Path, families: Iterable[str]) -> list[Path]:
    """The deploys that a target of these families needs, in the order in which they run on each host.

    `envs/common.py` of the project at `root`, then for each family `envs/<family>.py` there, or else `deploy.py` in the
    family's own package. What there is not is left out. Raises KeyError for an unknown family.
    """
    return list(_deploy_by_name(root, families).values())


def _deploy_by_name(root: Path, families: Iterable[str]) -> dict[str, Path]:
    own = {name: root / "envs" / f"{name}.py" for name in (COMMON_DEPLOY, *families)}
    found = {
        name: path if path.is_file() or name == COMMON_DEPLOY else registry.deploy(name) for name, path in own.items()
    }
    return {name: path for name, path in found.items() if path and path.is_file()}


def _deploys(root: Path, study: Study, families: list[str]) -> list[dict[str, Any]]:
    """What to run, in order: file, and the family's block of the study as data."""
    blocks = {family: study.families[family].model_dump(mode="json", serialize_as_any=True) for family in families}
    return [
        {"path": str(path), "family": blocks.get(name, {})} for name, path in _deploy_by_name(root, families).items()
    ]


def _provision_host(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The host's facts, by one worker process."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchstudy.provisioning.host"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None, "all are pipes"
    last_lines: list[str] = []
    with worker, ThreadPoolExecutor(max_workers=1) as reading:
        answer = reading.submit(worker.stdout.read)
        # Data, over a data channel: nothing of a study becomes an argument or code.
        with suppress(BrokenPipeError):  # why it ended before it read all of it is said below
            worker.stdin.write(json.dumps(request))
            worker.stdin.close()
        for line in worker.stderr:
            log.info("%s: %s", request["name"], line.rstrip())
            last_lines = [*last_lines[-4:], line.rstrip()]
        text = answer.result()
    if worker.returncode != 0:  # a defect, or killed: of this host's provisioning, and no other's
        ending = f"status {worker.returncode}: {'; '.join(last_lines)}"
        cause = f"the provisioning process ended with {ending}"
        return {"unreachable": cause, "changed": 0, "problems": [cause]}
    reply = json.loads(text)
    if "error" in reply:
        raise ProvisionFailed(f"{request['name']}: {reply['error']}")
    return reply["facts"]
