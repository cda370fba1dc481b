"""Makes hosts ready over SSH: installs and builds what its deploys ask for, and writes down what is there."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchstudy.model import needs, paths, registry
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


@dataclass(frozen=True)
class Ahead:
    """What provisioning has still to do on a host.

    `builds`: program to about how many seconds. `installs`: packages. `downloads`: what is fetched for each build, in
    words. `unknown`: why nobody can say all that, such as a host out of reach.
    """

    builds: Mapping[str, float]
    installs: Sequence[str]
    downloads: Mapping[str, str]
    unknown: str = ""

    @property
    def builds_s(self) -> float:
        return sum(self.builds.values())


def provision_target(
    study: Study,
    target: str,
    facts_path: Path,
    families: Sequence[str] = (),
    *,
    keep_downloads: bool = False,
) -> ProvisionResult:
    """Provision all hosts of `target` side by side, and write their facts to `facts_path` (JSON, atomically).

    `families`: those to provision for; all that are measured there when left out. `keep_downloads`: what builds fetched
    and compiled on the way stays, because others will build there soon.

    Running it again changes nothing. That a host is out of reach or a package not to be had becomes a problem
    in the facts, so that everything else goes on; the workflow tries such a target again in the next run.
    Raises ProvisionFailed when a deploy file is wrong.
    """
    root = project_root()
    families = list(families) or [plan.family_name for plan in study.sessions() if plan.target == target]
    requests = _requests(root, study, target, families)
    result = ProvisionResult(_answers(root, [request | {"keep_downloads": keep_downloads} for request in requests]))
    for problem in result.problems:
        log.warning("%s", problem)
    log.info("%s: %s: %d changed, %d problems", target, ", ".join(families), result.changed, len(result.problems))
    facts = {"study": study.study, "target": target, "families": families, "provisioned": now()}
    facts_path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(facts_path, as_json({**facts, "hosts": result.hosts}))
    return result


def what_is_ahead(study: Study, provisionings: Iterable[tuple[str, str]]) -> dict[str, Ahead]:
    """By host what these provisionings (target and family) would install and build there now. Nothing is changed.

    Raises ProvisionFailed when a deploy file is wrong.
    """
    families: dict[str, list[str]] = {}
    for target, family in provisionings:
        families.setdefault(target, []).append(family)
    found: dict[str, Ahead] = {}
    for target, names in families.items():
        root = project_root()
        requests = [request | {"look": True} for request in _requests(root, study, target, names)]
        for host, answer in _answers(root, requests).items():
            known = found.get(host, Ahead({}, [], {}))
            found[host] = Ahead(
                {**known.builds, **answer.get("builds", {})},
                sorted({*known.installs, *answer.get("installs", ())}),
                {**known.downloads, **answer.get("downloads", {})},
                answer.get("unreachable", known.unknown),
            )
    return found


def may_build(study: Study, family: str) -> bool:
    """Whether the family's services and generators name programs that no package manager may have."""
    block = study.families[family].model_dump(mode="json", serialize_as_any=True)
    roles = {role for target in study.targets.values() for role in target.roles}
    return bool(needs.named_tools(block, roles) or needs.generator_tools(block, roles, roles))


def facts_problems(facts_path: Path) -> list[str]:
    """The problems that the facts of a target tell; [] when there are no facts."""
    try:
        hosts = json.loads(facts_path.read_bytes())["hosts"] if facts_path.is_file() else {}
    except (ValueError, LookupError, TypeError):
        return [f"{facts_path} was damaged, and is made again"]
    return [problem for facts in hosts.values() for problem in facts["problems"]]


def deploy_files(root: Path, families: Iterable[str]) -> list[Path]:
    """The deploys that a target of these families needs, in the order in which they run on each host.

    `envs/common.py` of the project at `root` or of what ships, then for each family `envs/<family>.py` likewise, or
    else `deploy.py` in the family's own package. What there is not is left out. Raises KeyError for an unknown family.
    """
    return list(_deploy_by_name(root, families).values())


def _deploy_by_name(root: Path, families: Iterable[str]) -> dict[str, Path]:
    own = {name: paths.nearest(root, f"envs/{name}.py") for name in (COMMON_DEPLOY, *families)}
    found = {
        name: path if path.is_file() or name == COMMON_DEPLOY else registry.deploy(name) for name, path in own.items()
    }
    return {name: path for name, path in found.items() if path and path.is_file()}


def _deploys(root: Path, study: Study, families: Sequence[str]) -> list[dict[str, Any]]:
    """What to run, in order: file or folders of systems, and the family's block of the study as data."""
    blocks = {family: study.families[family].model_dump(mode="json", serialize_as_any=True) for family in families}
    files = [
        {"path": str(path), "family": blocks.get(name, {})} for name, path in _deploy_by_name(root, families).items()
    ]
    return [*files, *({"systems": study.systems, "family": block} for block in blocks.values())]


def _requests(root: Path, study: Study, target: str, families: Sequence[str]) -> list[dict[str, Any]]:
    """One a host of the target, for a worker each."""
    roles = study.targets[target].roles
    return [
        {
            "name": name,
            "host": study.hosts[name].model_dump(mode="json"),
            "roles": [role for role, host in roles.items() if host == name],
            "target_roles": list(roles),
            "deploys": _deploys(root, study, families),
        }
        for name in dict.fromkeys(roles.values())
    ]


def _answers(root: Path, requests: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By host, all asked side by side."""
    with ThreadPoolExecutor(max_workers=len(requests)) as pool:
        answers = {request["name"]: pool.submit(_ask_host, request, root) for request in requests}
    return {name: answer.result() for name, answer in answers.items()}


def _ask_host(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
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
