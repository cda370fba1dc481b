"""Makes hosts ready over SSH: installs and builds what its deploys ask for, and writes down what is there."""

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchstudy.hosts.controller import controlled_by_this_process, ends_with_controller
from benchstudy.model import needs, paths, registry
from benchstudy.model.catalogue.folders import Catalogue, decides_what_hosts_have, installing_files
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
    families = list(families) or [plan.family_name for plan in study.sessions() if plan.target == target]
    return provision_targets(study, {target: facts_path}, families, keep_downloads=keep_downloads)[target]


def provision_targets(
    study: Study,
    facts_paths: Mapping[str, Path],
    families: Sequence[str],
    *,
    keep_downloads: bool = False,
    say: Callable[[str, str], None] = lambda target, line: log.info("%s", line),
) -> dict[str, ProvisionResult]:
    """As `provision_target`, several side by side: by target, as the path of its facts is given.

    `say` is told what happens on a target's hosts.
    """
    root = project_root()
    requests = {
        f"{target}/{request['name']}": request | {"keep_downloads": keep_downloads}
        for target in facts_paths
        for request in _requests(root, study, target, families)
    }
    asked, wrong = asked_of_targets(root, study, families, facts_paths), []
    left = {target: set(study.targets[target].roles.values()) for target in facts_paths}
    found: dict[str, dict[str, Any]] = {target: {} for target in facts_paths}
    results = {}
    for key, answer in _answers(root, requests, say):
        target, host = key.split("/")
        if "error" in answer:
            wrong.append(f"{host}: {answer['error']}")
            continue
        found[target][host] = answer["facts"]
        left[target].remove(host)
        if left[target]:
            continue
        result = ProvisionResult({name: found[target][name] for name in study.targets[target].roles.values()})
        for problem in result.problems:
            log.warning("%s", problem)
        say(target, f"{target}: {', '.join(families)}: {result.changed} changed, {len(result.problems)} problems")
        facts = {"study": study.study, "target": target, "families": families, "provisioned": now()}
        facts_paths[target].parent.mkdir(parents=True, exist_ok=True)
        write_atomically(facts_paths[target], as_json({**facts, "asked": asked[target], "hosts": result.hosts}))
        results[target] = result
    if wrong:
        raise ProvisionFailed(wrong[0])
    return results


def files_that_install(root: Path, study: Study, families: Iterable[str]) -> list[Path]:
    """What decides what hosts have for these families: deploys, pins that these read, and what systems say."""
    pins = [
        path
        for place in paths.places(root, "envs")
        for path in sorted(place.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and decides_what_hosts_have(path)
    ]
    systems = installing_files(Catalogue([Path(folder) for folder in study.systems]))
    return list(dict.fromkeys([*deploy_files(root, families), *pins, *systems]))


def asked_of_targets(root: Path, study: Study, families: Sequence[str], targets: Iterable[str]) -> dict[str, str]:
    """By target a digest of what its hosts are to have for these families, and of who plays which role there."""
    digest = hashlib.sha256()
    for path in files_that_install(root, study, families):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    files = digest.hexdigest()
    blocks = [study.families[family].model_dump(mode="json", serialize_as_any=True) for family in families]

    @cache
    def programs(numbered: tuple[tuple[str, int], ...]) -> dict[str, list[str]]:
        return needs.programs_of_blocks(blocks, {role: str(number) for role, number in numbered})

    found = {}
    for target in targets:
        roles = study.targets[target].roles
        hosts = list(dict.fromkeys(roles.values()))
        # Targets that are made alike are asked for the same.
        alike = programs(tuple((role, hosts.index(host)) for role, host in roles.items()))
        found[target] = hashlib.sha256(json.dumps([files, dict(roles), alike], sort_keys=True).encode()).hexdigest()
    return found


def has_what_is_asked(facts_path: Path, asked: str) -> bool:
    """Whether the facts of a target tell no problem, and are of just this digest of `asked_of_targets`."""
    try:
        facts = json.loads(facts_path.read_bytes())
        return facts["asked"] == asked and not any(host["problems"] for host in facts["hosts"].values())
    except (OSError, ValueError, LookupError, TypeError):
        return False


def what_is_ahead(study: Study, provisionings: Iterable[tuple[str, str]]) -> dict[str, Ahead]:
    """By host what these provisionings (target and family) would install and build there now. Nothing is changed.

    Raises ProvisionFailed when a deploy file is wrong.
    """
    families: dict[str, list[str]] = {}
    for target, family in provisionings:
        families.setdefault(target, []).append(family)
    root, found = project_root(), dict[str, Ahead]()
    requests = {
        f"{target}/{request['name']}": request | {"look": True}
        for target, names in families.items()
        for request in _requests(root, study, target, names)
    }
    for key, reply in _answers(root, requests, lambda target, line: log.info("%s", line)):
        host = key.partition("/")[2]
        if "error" in reply:
            raise ProvisionFailed(f"{host}: {reply['error']}")
        answer, known = reply["facts"], found.get(host, Ahead({}, [], {}))
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


def _answers(
    root: Path, requests: Mapping[str, Mapping[str, Any]], say: Callable[[str, str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a worker process says of each request, as it comes: {"facts": …}, or {"error": text}.

    Requests have keys `TARGET/HOST`. Those for one host are answered one after another, all others side by side.
    """
    if not requests:
        return
    turns: dict[str, list[str]] = {}
    for key, request in requests.items():
        turns.setdefault(request["name"], []).append(key)
    with ends_with_controller(), _worker(root) as worker:
        assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None, "all are pipes"
        last_lines: deque[str] = deque(maxlen=4)
        with ThreadPoolExecutor(max_workers=1) as reading:
            reading.submit(_pass_on, worker.stderr, last_lines)
            # Data, over a data channel: nothing of a study becomes an argument or code.
            with suppress(BrokenPipeError):  # why it ended before it read all of it is said below
                worker.stdin.write(json.dumps({"requests": requests, "turns": list(turns.values())}))
                worker.stdin.close()
            left, ended = dict.fromkeys(requests), dict[str, int]()
            for line in worker.stdout:
                key, told = json.loads(line)
                target, host = key.split("/")
                if "said" in told:
                    say(target, f"{host}: {told['said']}")
                elif "ended" in told:
                    ended[key] = told["ended"]
                else:
                    del left[key]
                    yield key, told
        status = worker.wait()
    for key in left:  # a defect, or killed: of this host's provisioning, and no other's
        cause = f"the provisioning process ended with status {ended.get(key, status)}: {'; '.join(last_lines)}"
        yield key, {"facts": {"unreachable": cause, "changed": 0, "problems": [cause]}}


@contextmanager
def _worker(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """It goes when this process does, however that ends."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchstudy.provisioning.host"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, **controlled_by_this_process()},
    )
    with worker:
        try:
            yield worker
        except BaseException:
            worker.terminate()
            raise


def _pass_on(lines: Iterable[str], last_lines: "deque[str]") -> None:
    for line in lines:
        log.info("%s", line.rstrip())
        last_lines.append(line.rstrip())
