"""Makes a study of what a file says, or refuses it with the fields that are wrong and what to write."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from benchstudy.model import hints, paths, registry
from benchstudy.model.catalogue.expansion import expanded
from benchstudy.model.clients import LoadedByClients, roles_of_services, too_many
from benchstudy.model.errors import StudyError
from benchstudy.model.family import FamilyConfig
from benchstudy.model.files import json_of
from benchstudy.model.names import most_like, nearest
from benchstudy.model.references import dangling
from benchstudy.model.study import SessionPlan, Study
from benchstudy.model.units import WRITTEN
from benchstudy.model.wording import explained
from benchstudy.model.yamltext import line_of, read_yaml, yaml_problem


def with_systems(data: Mapping[str, Any], beside: Path | None = None) -> dict[str, Any]:
    """A study as read from YAML, with systems replaced by ordinary services. `beside`: the folder of its file.

    Raises StudyError that names the field and the fix.
    """
    return expanded(_mapping(data), beside)


def _mapping(said: Any) -> Mapping[str, Any]:
    if not isinstance(said, Mapping):
        raise StudyError(
            "a study is a mapping of names to values: begin it with `study: NAME`, with a space after the colon; see "
            "`benchstudy docs config`"
        )
    return said


def parse_study(data: Mapping[str, Any], beside: Path | None = None, *, stored: bool = False) -> Study:
    """A typed study from a mapping as read from YAML. `beside`: the folder of its file, which may hold systems.

    `stored`: benchstudy wrote it, so its durations may be seconds. Raises StudyError that names each wrong field and
    the fix.
    """
    try:
        study = Study.model_validate(with_systems(data, beside), context=None if stored else WRITTEN)
    except ValidationError as error:
        raise StudyError("\n".join(explained(error, Study))) from error
    for name, config in study.families.items():
        roles = {target: study.targets[target].roles for target in config.targets or study.targets}
        family = registry.get(name)
        for target, of_target in roles.items():
            if problem := too_many(config, of_target):
                raise StudyError(f"families.{name}.clients: target {target}: {problem}")
        runs_on = None if isinstance(config, LoadedByClients) and config.clients else family.runs_on
        of_services = {target: roles_of_services(config, of_target) for target, of_target in roles.items()}
        nowhere = dangling(name, config.services, of_services, runs_on, family.trial_names, config.own_roles)
        if nowhere:
            raise StudyError("\n".join(nowhere))
    # Targets with as many clients have the same cases.
    plans = {(plan.family_name, plan.clients): plan for plan in study.sessions()}.values()
    for plan in plans:
        with registry.blamed(plan.family_name, "`cases`"):
            ids = [case.id for case in plan.cases]
            wrong = next((wrong for case in plan.cases for wrong in case.misdescribed()), None)
        with registry.blamed(plan.family_name, "a function of `numeric_levels`"):  # else only tables would call it
            for case in plan.cases:
                plan.family.numbers(case.levels)
        if not ids and not plan.config.import_only:
            raise StudyError(_no_case(f"families.{plan.family_name}", plan.config))
        if wrong is not None:
            raise StudyError(f"families.{plan.family_name}: {wrong}")
        if len(set(ids)) < len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise StudyError(
                f"families.{plan.family_name}: the case {twice} is described twice: keep one, or rename one"
            )
    if not stored:
        _require_ceilings_of_cases(study, plans)
    return study


def unbounding(study: Study) -> list[str]:
    """Say which ceilings match no case that the study measures, of families that imported outputs may give others."""
    return [problem for _, problem in _ceilings_of_no_case(study, study.sessions())]


def _require_ceilings_of_cases(study: Study, plans: Iterable[SessionPlan]) -> None:
    """Raises StudyError for a ceiling whose pattern matches no case. Imported outputs may give a family other cases."""
    for family, problem in _ceilings_of_no_case(study, plans):
        if not registry.get(family).imports:
            raise StudyError(problem)


def _ceilings_of_no_case(study: Study, plans: Iterable[SessionPlan]) -> Iterator[tuple[str, str]]:
    """Yield families, and patterns of ceilings that match none of the cases that the study measures of them."""
    patterns = [(f"ceilings.{i}.where", c.family, c.where) for i, c in enumerate(study.ceilings)]
    measured = [(i, c.measured) for i, c in enumerate(study.ceilings) if c.measured is not None]
    patterns += [(f"ceilings.{i}.measured.where", m.family, m.where) for i, m in measured]
    for field, family, pattern in patterns:
        cases = [case for plan in plans if plan.family_name == family for case in plan.cases]
        if cases and not any(fnmatchcase(text, pattern) for case in cases for text in (case.id, case.spelled)):
            yield (
                family,
                f"{field}: {pattern!r} matches no case of {family}: write a pattern of some, such as {cases[0].id}; * "
                "is any text",
            )


def _no_case(where: str, config: FamilyConfig) -> str:
    """Why a family's block describes no case: the lists that somebody emptied."""
    emptied = list(_emptied(config, where))
    if not emptied:
        return f"{where}: it describes no case: give each of its lists an entry"
    first, *others = emptied
    also = "".join(f", as is {other.removeprefix(f'{where}.')}" for other in others)
    return f"{first}: it is empty{also}, which leaves no case: give at least one"


def _emptied(part: BaseModel, where: str) -> Iterator[str]:
    """The names of lists that are empty, though they are not by default."""
    for name, field in type(part).model_fields.items():
        value, key = getattr(part, name), f"{where}.{field.alias or name}"
        if value == [] and field.get_default(call_default_factory=True) != []:
            yield key
        for number, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, BaseModel):
                yield from _emptied(item, f"{key}.{number}")


def is_stored(path: Path) -> bool:
    """Whether benchstudy wrote this file of a study: people write YAML, and crates hold JSON."""
    return path.suffix == ".json"


def read_study(path: Path) -> Mapping[str, Any]:
    """What a study's file says, in YAML or JSON. Raises StudyError with the file named, and what to do."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            return _mapping(read_yaml(text))
        except yaml.YAMLError:
            if not is_stored(path):  # YAML does not know JSON's surrogate pairs
                raise
            return _mapping(json_of(text))
    except FileNotFoundError as error:
        raise StudyError(f"{path}: there is no such study file; {_elsewhere(path)}") from error
    except OSError as error:
        name_a_file = ": name the study's file in it" if isinstance(error, IsADirectoryError) else ""
        raise StudyError(f"{path}: cannot be read as a study: {error.strerror}{name_a_file}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}: save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise StudyError(f"{path}: not valid YAML: {yaml_problem(error)}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number or date that YAML's own reader cannot convert
        raise StudyError(f"{path}: not valid YAML: {error}") from error
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from error


_MOST_LISTED = 3


def _elsewhere(path: Path) -> str:
    """Where a study that is not at `path` may be instead."""
    try:
        root = paths.project_root()
    except FileNotFoundError as error:
        return str(error)
    if (root / path).is_file():
        return f"run this in the project's folder: {hints.cd(root)}"
    below = [str(file.relative_to(root)) for file in (root / "config").rglob("*.y*ml")]
    if len(below) <= _MOST_LISTED or most_like(str(path), below):
        return nearest(str(path), below)
    return "give its path from this folder"


def load_study(path: Path) -> Study:
    """The study in a YAML file. Raises StudyError with the file named."""
    data = read_study(path)
    with in_file(path):
        return parse_study(data, path.parent, stored=is_stored(path))


@contextmanager
def in_file(path: Path, given: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Raise a StudyError with the file of the study named, and the lines of its fields.

    `given`: what the command line puts in place of what the file says, with --config.
    """
    try:
        yield
    except StudyError as error:
        lines = str(error).splitlines()
        of_command = [line for line in lines if _is_given(line.partition(": ")[0].split("."), given or {})]
        of_file = [line for line in lines if line not in of_command]
        told = [f"--config: {line}" for line in of_command]
        if of_file:
            told.append(f"{path}: " + "\n".join(of_file if is_stored(path) else _with_lines(path, of_file)))
            if given and not of_command:
                told.append(f"--config of this command replaces {', '.join(given)} of the file.")
        raise StudyError("\n".join(told)) from error


def _is_given(field: Sequence[str], given: Any) -> bool:
    """Whether the command line gives the value of a field, or a part of it."""
    if not isinstance(given, Mapping) or not field:
        return True
    return field[0] in given and _is_given(field[1:], given[field[0]])


def _with_lines(path: Path, message: Sequence[str]) -> list[str]:
    """The lines of a message with the line of the file in front of each field that they name."""
    text, lines = path.read_text(encoding="utf-8"), []
    for line in message:
        number = line_of(text, line.partition(": ")[0])
        lines.append(f"line {number}: {line}" if number else line)
    return lines
