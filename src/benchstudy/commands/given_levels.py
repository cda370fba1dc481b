"""Levels of imported results: given for all files, or read from their paths."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import UNKNOWN, Family, Imported
from benchstudy.model.names import COLUMNS, FACTOR, check_name

_PLACE = re.compile(r"\{(\w*)\}|(\*)")


def levels_said(texts: Collection[str]) -> dict[str, str]:
    """Levels by name, from texts `name=level`. Raises BenchstudyError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals:
            raise BenchstudyError(f"--level {text}: write it as name=level, such as --level backend=posix")
        if found.setdefault(name, level) != level:
            raise BenchstudyError(f"--level {text}: {name} is already given as {found[name]!r}; give it once")
    return found


def check_level(where: str, name: str, level: str) -> None:
    """Raises BenchstudyError for an invalid name or level; `where` is the option that gave it."""
    if not FACTOR.fullmatch(name) or name in COLUMNS:
        raise BenchstudyError(
            f"{where}: {name!r} cannot be a factor: use small letters, digits and _, and none of " + ", ".join(COLUMNS)
        )
    try:
        check_name(level)
    except ValueError as error:
        raise BenchstudyError(f"{where} {name}: {error}") from error


def path_pattern(pattern: str) -> re.Pattern[str]:
    """Matches the end of a path: `{name}` is a level, `*` anything, both within one part."""
    names = [match[1] for match in _PLACE.finditer(pattern) if not match[2]]
    wrong = next((name for name in names if not FACTOR.fullmatch(name) or names.count(name) > 1), None)
    if not names or wrong is not None:
        raise BenchstudyError(
            f"--case {pattern!r}: write {{name}} where the path has a level, each name once, such as "
            "--case '{host}/{kernel}/*.json'; give levels that no path contains with --level name=level"
        )
    parts, end = [], 0
    for match in _PLACE.finditer(pattern):
        parts += [re.escape(pattern[end : match.start()]), "[^/]*" if match[2] else f"(?P<{match[1]}>[^/]+?)"]
        end = match.end()
    return re.compile(f"(?:.*/)?{''.join(parts)}{re.escape(pattern[end:])}")


def levels_in(pattern: re.Pattern[str], path: Path) -> dict[str, str]:
    """The levels that a path has by the option `--case`. Raises BenchstudyError if the pattern does not match."""
    match = pattern.fullmatch(path.absolute().as_posix())
    if match is None:
        raise BenchstudyError("--case: the pattern does not match the end of this path")
    for name, level in match.groupdict().items():
        check_level("--case", name, level)
    return match.groupdict()


def together(said: Mapping[str, str], of_path: Mapping[str, str]) -> dict[str, str]:
    """What `--level` and the path give together. Raises BenchstudyError if they contradict."""
    for name in said.keys() & of_path.keys():
        if said[name] != of_path[name]:
            raise BenchstudyError(f"--level {name}={said[name]} contradicts --case: the path has {of_path[name]!r}")
    return {**said, **of_path}


def levels_of(family: Family, run: Imported, said: Mapping[str, str]) -> dict[str, str]:
    """The levels of a run together with those that were given for it. Raises BenchstudyError if they contradict."""
    levels = dict(run.levels)
    for name, level in said.items():
        told = levels.get(name, UNKNOWN)
        if told not in (UNKNOWN, level):
            raise BenchstudyError(f"{name}={level} was given, but the output itself has {name}={told}")
        if name in family.numeric_levels and level != UNKNOWN:
            try:
                family.numeric_levels[name][1](level)
            except ValueError as error:
                raise BenchstudyError(f"{name}={level}: {error}") from error
        levels[name] = level
    return levels
