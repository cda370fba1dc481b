"""`benchstudy systems`: the systems of the catalogue, and what a study may set for each."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchstudy.model.catalogue.folders import Catalogue, own_folders
from benchstudy.model.catalogue.parameter import Parameter, as_text
from benchstudy.model.catalogue.system import Found
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.names import nearest
from benchstudy.model.output import add_json, print_json
from benchstudy.model.studyfile import read_study


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`benchstudy systems [NAME] [--json] [--study STUDY]`."""
    systems = commands.add_parser("systems", help="list the systems of the catalogue, or show one with its parameters")
    systems.add_argument("name", nargs="?", metavar="NAME", help="name of a system (default: list all)")
    add_json(systems)
    systems.add_argument("--study", type=Path, metavar="STUDY", help="include the study's own systems")
    systems.set_defaults(command=_systems)


def _systems(arguments: argparse.Namespace) -> int:
    catalogue = catalogue_of(arguments.study)
    if arguments.name is None:
        whole, problems = _read(catalogue)
        if arguments.json:
            print_json([described(found) for found in whole])
        else:
            width = max((len(found.name) for found in whole), default=0)
            for found in whole:
                print(f"{found.name:{width}}  {found.system.title}; {found.system.tried}")
        for problem in problems:
            print(f"benchstudy: {problem}", file=sys.stderr)
        return 1 if problems else 0
    if arguments.name not in catalogue:
        raise BenchstudyError(f"no system {arguments.name!r}: {nearest(arguments.name, catalogue)}")
    found = catalogue[arguments.name]
    if arguments.json:
        print_json(described(found))
    else:
        print(*_shown(found), sep="\n")
    return 0


def _read(catalogue: Catalogue) -> tuple[list[Found], list[StudyError]]:
    """The systems that can be read, and what is wrong with each of the others."""
    whole, problems = [], []
    for found in catalogue.values():
        try:
            found.system  # noqa: B018  reads the file
            whole.append(found)
        except StudyError as error:
            problems.append(error)
    return whole, problems


def catalogue_of(study: Path | None) -> Catalogue:
    """The catalogue, with the study's own systems. Raises BenchstudyError for a study that cannot be read."""
    if study is None:
        return Catalogue()
    return Catalogue(own_folders(read_study(study).get("systems"), study.parent))


def described(found: Found) -> dict[str, Any]:
    """A system as plain data: everything in its file, with its name and folder."""
    return {"name": found.name, "folder": str(found.folder), **found.system.model_dump(mode="json", exclude_unset=True)}


def _shown(found: Found) -> list[str]:
    system = found.system
    lines = [
        f"{found.name}: {system.title}",
        f"  {system.about}",
        f"  {system.homepage}, {system.license}; {system.tried}; in {found.folder}",
    ]
    if system.parameters:
        lines.append("  with:")
        lines += [f"    {name}: {kind(parameter)}: {parameter.description}" for name, parameter in
                  system.parameters.items()]  # fmt: skip
    for family, lists in system.offers.items():
        lines += [f"  {family}.{key}: {_offer(offer)}" for key, offer in lists.items()]
    if system.gives:
        lines.append(f"  gives other systems: {', '.join(system.gives)}")
    return lines


def kind(parameter: Parameter) -> str:
    """The values that a parameter accepts, and its default."""
    values = " or ".join(parameter.choices) if parameter.choices else parameter.type
    return f"{values}, required" if parameter.required else f"{values}, default {_default(parameter.default)}"


def _default(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['system']} with {', '.join(f'{k}: {as_text(v)}' for k, v in (value.get('with') or {}).items())}"
    return as_text(value) if value != "" else "empty"


def _offer(offer: Mapping[str, Any]) -> str:
    """The keys of an offer, with the names of the entries of a list."""
    return ", ".join(
        f"{key} {', '.join(str(entry['name']) for entry in value)}"
        if isinstance(value, list) and all(isinstance(entry, Mapping) and "name" in entry for entry in value)
        else key
        for key, value in offer.items()
    )
