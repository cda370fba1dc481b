"""Studies and systems in which values are replaced by values of another kind. What is damaged is still valid YAML."""

import copy
import datetime
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from fuzz_doors import STUDIES, Door, finite_study

from benchstudy.commands import systems
from benchstudy.model import registry
from benchstudy.model.catalogue.entries import Entries
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.catalogue.instances import Instances
from benchstudy.model.catalogue.system import FILE, Found
from benchstudy.model.errors import StudyError
from benchstudy.model.family import FamilyConfig
from benchstudy.model.needs import programs_by_host
from benchstudy.model.studyfile import load_study
from benchstudy.model.yamltext import read_yaml

_TEMPLATES = Path(systems.__file__).parent / "project" / "studies"
_OTHERS = (
    None, True, 5, -1, 0, 1.5, -2.0, math.nan, 10**30, "", "x", "\0", "a" * 5000, "5s", "0s", "10MB", "{{a}}",
    "{{with.x}}", b"\xff", datetime.date(2024, 1, 1), [], [5], [None], [[]], ["a"], ["sh"], [{"name": "a"}], {}, {5: 6},
    {"a": 1}, {"kind": "x"}, {"min": 6, "max": 30}, {"system": "nginx"}, {"system": "nginx", "with": {"x": 1}},
    {"system": "nginx", "with": True}, {"like": "x"},
)  # fmt: skip
_KEYS = (
    "argv", "argv_added", "blocks", "clients", "env", "env_like", "files", "files_from", "like", "limits", "matrix",
    "name", "needs", "role", "same_as", "secrets", "services", "system", "targets", "tool", "until", "with",
)  # fmt: skip


def trees(work: Path) -> Iterator[Door]:
    """One door per study and system that ships."""
    for path in sorted([*STUDIES.rglob("*.yaml"), *_TEMPLATES.glob("*.yaml")]):
        copied = work / f"tree-{path.name}"
        yield Door("tree of a study", copied.name, path.read_bytes(), _study(copied), (StudyError,), damage=damaged)
    catalogue = Catalogue()
    for found in catalogue.values():
        # Not in `systems`: the studies beside it would find the damaged ones.
        folder = shutil.copytree(found.folder, work / "damaged" / found.name)
        attempt, original = _system(catalogue, folder), (folder / FILE).read_bytes()
        yield Door("tree of a system", f"system {found.name}", original, attempt, (StudyError,), damage=damaged)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """One or two values are replaced, left out, doubled, or get a further key."""
    tree = read_yaml(content.decode())
    for _ in range(rng.choice((1, 1, 2))):
        inner, last = rng.choice([*_places(tree)])
        value = inner[last]
        match rng.choice(("replace", "replace", "replace", "leave out", "add")):
            case "leave out":
                del inner[last]
            case "add" if isinstance(value, dict):
                value[rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_OTHERS))
            case "add" if isinstance(value, list) and value:
                value.append(copy.deepcopy(rng.choice(value)))
            case _:
                inner[last] = copy.deepcopy(rng.choice(_OTHERS))
    return yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each mapping or list with each of its keys or numbers."""
    for key in [*value] if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _study(path: Path) -> Callable[[bytes], object]:
    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        study = load_study(path)
        finite_study(study)
        study.unfit()
        for plan in study.sessions():
            assert plan.digest
            for case in plan.cases:
                plan.family.declared_s(case)
            programs_by_host(study, plan.target, plan.family_name)

    return attempt


def _system(catalogue: Catalogue, folder: Path) -> Callable[[bytes], object]:
    name = folder.name
    declared = catalogue[name].system.parameters.items()
    needed = {one: next(iter(what.choices), "x") for one, what in declared if what.required}

    def attempt(content: bytes) -> None:
        (folder / FILE).write_bytes(content)
        found = Found(name, folder)
        systems._shown(found)
        systems.described(found)
        for family, lists in found.system.offers.items():
            config = registry.get(family).Config if family in registry.names() else FamilyConfig
            takes = config.takes_systems
            house = Instances("services", {}, {**catalogue, name: found})
            for key in lists.keys() & takes.keys():
                Entries(family, key, [{"name": "x", "system": name, "with": needed}], takes[key], house).expanded()
            house.services()
            house.offered_to(family, takes, list(config.model_fields))
        Instances("services", {"x": {"system": name, "with": needed}}, {**catalogue, name: found}).services()

    return attempt
