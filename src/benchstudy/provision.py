"""Makes hosts ready over SSH: installs what the deploys in envs/ ask for, and writes down what is there."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchstudy.errors import BenchstudyError
from benchstudy.paths import project_root
from benchstudy.study import Study

# Deploys are run for a host in this order; the first is for every host.
COMMON_DEPLOY = "common"


class ProvisionFailed(BenchstudyError):
    """A host could not be reached, or a deploy file is wrong; the message says which host and why."""


@dataclass(frozen=True)
class ProvisionResult:
    """What happened on a target's hosts.

    `hosts`: facts by host: os, machine, packages (name to version or None), changed (number of operations
    that changed something), problems (texts). A host with problems is no failure: its trials say what is missing.
    """

    hosts: Mapping[str, Mapping[str, Any]]

    @property
    def changed(self) -> int:
        return sum(facts["changed"] for facts in self.hosts.values())

    @property
    def problems(self) -> list[str]:
        return [f"{host}: {problem}" for host, facts in self.hosts.items() for problem in facts["problems"]]


def provision_target(
    study: Study, target: str, facts_path: Path, log: Callable[[str], None]
) -> ProvisionResult:
    """Provision all hosts of `target` side by side, and write their facts to `facts_path` (JSON, atomically).

    Running it again changes nothing. A package that cannot be installed becomes a problem in the facts; a host
    that cannot be reached raises ProvisionFailed, after the other hosts are done.
    """
    root = project_root()
    families = [plan.family_name for plan in study.sessions() if plan.target == target]
    deploys = [{"path": str(root / "envs" / f"{COMMON_DEPLOY}.py"), "family": {}}]
    for family in families:
        config = study.families[family].model_dump(mode="json")
        deploys.append({"path": str(root / "envs" / f"{family}.py"), "family": config})
    roles = study.targets[target].roles
    requests = {
        name: {
            "name": name,
            "host": study.hosts[name].model_dump(mode="json"),
            "roles": [role for role, host in roles.items() if host == name],
            "deploys": [deploy for deploy in deploys if Path(deploy["path"]).is_file()],
        }
        for name in dict.fromkeys(roles.values())
    }
    with ThreadPoolExecutor(max_workers=len(requests)) as pool:
        answers = dict(
            zip(requests, pool.map(lambda r: _provision_host(r, root, log), requests.values()), strict=True)
        )
    errors = [f"{name}: {answer['error']}" for name, answer in answers.items() if "error" in answer]
    if errors:
        raise ProvisionFailed("\n".join(errors))
    result = ProvisionResult({name: answer["facts"] for name, answer in answers.items()})
    for problem in result.problems:
        log(f"problem: {problem}")
    log(f"{target}: {result.changed} changed, {len(result.problems)} problems")
    _write(
        facts_path,
        {
            "study": study.study,
            "target": target,
            "families": families,
            "provisioned": datetime.now(UTC).isoformat(timespec="seconds"),
            "hosts": result.hosts,
        },
    )
    return result


def _provision_host(request: Mapping[str, Any], root: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """One worker process for one host; the answer is {"facts": …} or {"error": text}."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchstudy.provision_host"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    last_lines: list[str] = []
    with worker, ThreadPoolExecutor(max_workers=1) as reading:
        answer = reading.submit(worker.stdout.read)
        # A data channel: the request never becomes an argument or code.
        worker.stdin.write(json.dumps(request))
        worker.stdin.close()
        for line in worker.stderr:
            log(f"[{request['name']}] {line.rstrip()}")
            last_lines = [*last_lines[-4:], line.rstrip()]
        text = answer.result()
    if worker.returncode != 0 or not text:
        return {"error": f"provisioning ended with status {worker.returncode}: {'; '.join(last_lines)}"}
    return json.loads(text)


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    os.replace(temporary, path)
