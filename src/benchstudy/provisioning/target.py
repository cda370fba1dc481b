"""Provisions hosts over SSH: installs and builds what their deploys ask for, and records what is there."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchstudy.model import needs, paths, registry
from benchstudy.model.catalogue.folders import Catalogue, decides_what_hosts_have, installing_files
from benchstudy.model.catalogue.system import Found
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import as_json, now, write_atomically
from benchstudy.model.grouping import grouped
from benchstudy.model.paths import project_root
from benchstudy.model.rounding import plural
from benchstudy.model.study import Study

log = logging.getLogger("benchstudy")

# Runs on every host, before the families' own deploys.
COMMON_DEPLOY = "common"


class ProvisionFailed(BenchstudyError):
    """Provisioning itself is broken, for example by a wrong deploy file; the message says which host and why."""


@dataclass(frozen=True)
class ProvisionResult:
    """What a target's hosts have.

    `hosts`: facts by host: os, machine, packages (name to version or None), programs (of these packages: name to
    path and sha256, or None), tools (built on the host: name to version, sha256, path and what it was built with, or
    None), changed (number of operations that changed something), problems (texts). Problems are not failures: the
    trials will say what is missing.
    A host that could not be reached has only `unreachable` (text), `changed` and `problems`.
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
    """What provisioning still has to do on a host.

    `builds`: program to rough duration in seconds. `installs`: packages. `downloads`: what each build fetches, in
    words. `unknown`: why some of this is unknown, such as a host that cannot be reached.
    """

    builds: Mapping[str, float]
    installs: Sequence[str]
    downloads: Mapping[str, str]
    unknown: str = ""

    @property
    def builds_s(self) -> float:
        return sum(self.builds.values())


def provision_target(
    study: Study, target: str, facts_path: Path, families: Sequence[str] = (), *, keep_downloads: bool = False
) -> ProvisionResult:
    """Provision all hosts of `target` side by side, and write their facts to `facts_path` (JSON, atomically).

    `families`: those to provision for; all that are measured there when left out. `keep_downloads`: keep what builds
    download and compile along the way, because others will build there soon.

    Running it again changes nothing. An unreachable host or an unavailable package becomes a problem in the facts, so
    that everything else continues; the workflow tries such a target again in the next run.
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
    """Like `provision_target`, for several targets side by side: the path of the facts is given by target.

    `say` gets progress messages from a target's hosts.
    """
    root = project_root()
    systems = usable_systems(study) if facts_paths else []
    requests = {
        f"{target}/{request['name']}": request | {"keep_downloads": keep_downloads}
        for target in facts_paths
        for request in _requests(root, study, target, families, systems)
    }
    asked, wrong = asked_of_targets(root, study, families, facts_paths), []
    left = {target: set(study.targets[target].roles.values()) for target in facts_paths}
    found: dict[str, dict[str, Any]] = {target: {} for target in facts_paths}
    results = {}

    def answered(key: str, answer: dict[str, Any]) -> None:
        target, host = key.split("/")
        if "error" in answer:
            wrong.append(f"{host}: {answer['error']}")
            return
        found[target][host] = answer["facts"]
        left[target].remove(host)
        if left[target]:
            return
        result = ProvisionResult({name: found[target][name] for name in study.targets[target].roles.values()})
        for problem in result.problems:
            log.warning("%s", problem)
        problems = plural(len(result.problems), "problem")
        say(target, f"{target}: {', '.join(families)}: {result.changed} changed, {problems}")
        facts = {"study": study.study, "target": target, "families": families, "provisioned": now()}
        told = {"asked": asked[target], "places": _places(study, target)}
        facts_paths[target].parent.mkdir(parents=True, exist_ok=True)
        write_atomically(facts_paths[target], as_json({**facts, **told, "hosts": result.hosts}))
        results[target] = result

    _ask(root, requests, answered, say)
    if wrong:
        raise ProvisionFailed(wrong[0])
    return results


def pins_and_systems(root: Path, study: Study) -> list[Path]:
    """The files that decide for every family what hosts have: pins that deploys read, and systems."""
    pins = [
        path
        for place in paths.places(root, "envs")
        for path in sorted(place.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and decides_what_hosts_have(path)
    ]
    systems = installing_files(Catalogue([Path(folder) for folder in study.systems]))
    return [*pins, *systems]


def files_that_install(root: Path, families: Iterable[str], of_every_family: Iterable[Path]) -> list[Path]:
    """The files that decide what hosts have for these families: their deploys, then those of `pins_and_systems`."""
    return list(dict.fromkeys([*deploy_files(root, families), *of_every_family]))


def asked_of_targets(root: Path, study: Study, families: Sequence[str], targets: Iterable[str]) -> dict[str, str]:
    """By target: a digest of what its hosts should have for these families, and of which host plays which role."""
    digest = hashlib.sha256()
    for path in files_that_install(root, families, pins_and_systems(root, study)):
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
        # Identical targets get the same request.
        alike = programs(tuple((role, hosts.index(host)) for role, host in roles.items()))
        found[target] = hashlib.sha256(json.dumps([files, dict(roles), alike], sort_keys=True).encode()).hexdigest()
    return found


def has_what_is_asked(facts_path: Path, study: Study, target: str, asked: str) -> bool:
    """Whether the facts report no problem, have this digest of `asked_of_targets`, and are of the target's places."""
    facts, places = _facts(facts_path), _places(study, target)
    return facts.get("asked") == asked and not facts["problems"] and facts.get("places", places) == places


def is_of_other_places(facts_path: Path, study: Study, target: str) -> bool:
    """Whether the facts are of other machines, or of another work folder, than the study names for the target now."""
    places = _places(study, target)
    return _facts(facts_path).get("places", places) != places


def _places(study: Study, target: str) -> dict[str, str]:
    """By host: the machine, and the folder in which programs are installed there."""
    hosts = {name: study.hosts[name] for name in study.targets[target].roles.values()}
    return {name: f"{host.machine(name)} {host.work_dir}" for name, host in hosts.items()}


def what_is_ahead(study: Study, provisionings: Iterable[tuple[str, str]]) -> dict[str, Ahead]:
    """By host: what these provisionings (target and family) would install and build there now. Changes nothing.

    Raises ProvisionFailed when a deploy file is wrong.
    """
    families = grouped(provisionings)
    root, found = project_root(), dict[str, Ahead]()
    systems = usable_systems(study) if families else []
    requests = {
        f"{target}/{request['name']}": request | {"look": True}
        for target, names in families.items()
        for request in _requests(root, study, target, names, systems)
    }
    replies: dict[str, dict[str, Any]] = {}
    _ask(root, requests, replies.__setitem__, lambda target, line: log.info("%s", line))
    for key, reply in replies.items():
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
    """Whether the family's services and generators name programs that package managers may lack."""
    block = study.families[family].model_dump(mode="json", serialize_as_any=True)
    roles = {role for target in study.targets.values() for role in target.roles}
    return bool(needs.named_tools(block, roles) or needs.generator_tools(block, roles, roles))


def facts_problems(facts_path: Path) -> list[str]:
    """The problems in the facts of a target; [] when there are no facts."""
    return _facts(facts_path)["problems"]


def _facts(path: Path) -> dict[str, Any]:
    """The facts of a target, with the `problems` of all its hosts; if they are missing or damaged, only these."""
    try:
        facts = json.loads(path.read_bytes())
        return facts | {"problems": [problem for host in facts["hosts"].values() for problem in host["problems"]]}
    except FileNotFoundError:
        return {"problems": []}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {"problems": [f"{path} was damaged, and is made again"]}


def deploy_files(root: Path, families: Iterable[str]) -> list[Path]:
    """The deploys that a target of these families needs, in the order in which they run on each host.

    `envs/common.py` of the project at `root` or of what ships, then for each family `envs/<family>.py` likewise, or
    else `deploy.py` in the family's own package. Missing files are left out. Raises KeyError for an unknown family.
    """
    return list(_deploy_by_name(root, families).values())


def _deploy_by_name(root: Path, families: Iterable[str]) -> dict[str, Path]:
    own = {name: paths.nearest(root, f"envs/{name}.py") for name in (COMMON_DEPLOY, *families)}
    found = {
        name: path if path.is_file() or name == COMMON_DEPLOY else registry.deploy(name) for name, path in own.items()
    }
    return {name: path for name, path in found.items() if path and path.is_file()}


def usable_systems(study: Study) -> list[Found]:
    """The systems that can be used, read once for all hosts."""
    return list(Catalogue([Path(folder) for folder in study.systems]).sound())


def _deploys(root: Path, study: Study, families: Sequence[str], systems: Sequence[Found]) -> list[dict[str, Any]]:
    """What to run, in order: a file or the systems, and the family's block of the study as data."""
    blocks = {family: study.families[family].model_dump(mode="json", serialize_as_any=True) for family in families}
    files = [
        {"path": str(path), "family": blocks.get(name, {})} for name, path in _deploy_by_name(root, families).items()
    ]
    return [*files, *({"systems": systems, "family": block} for block in blocks.values())]


def _requests(
    root: Path, study: Study, target: str, families: Sequence[str], systems: Sequence[Found]
) -> list[dict[str, Any]]:
    """One request per host of the target, each for its own worker."""
    roles = study.targets[target].roles
    return [
        {
            "name": name,
            "host": study.hosts[name].model_dump(mode="json"),
            "roles": [role for role, host in roles.items() if host == name],
            "target_roles": list(roles),
            "deploys": _deploys(root, study, families, systems),
        }
        for name in dict.fromkeys(roles.values())
    ]


def _ask(
    root: Path,
    requests: Mapping[str, Mapping[str, Any]],
    answered: Callable[[str, dict[str, Any]], None],
    say: Callable[[str, str], None],
) -> None:
    """See `provision_hosts`; requests have keys `TARGET/HOST`."""
    if not requests:
        return
    from benchstudy.provisioning.host import provision_hosts  # imports pyinfra

    def said(key: str, line: str) -> None:
        target, host = key.split("/")
        say(target, f"{host}: {line}")

    provision_hosts(root, requests, answered, said)
