"""Extraction of figures from the output of a command. Pure: text and a definition in, numbers in base units out."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from jmespath.visitor import TreeInterpreter

from benchstudy.families.command.sources import OwnMetric, OwnSeries, json_path
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.family import ParseError
from benchstudy.model.units import base_of

_SHOWN = 400  # characters of the searched text in the message
_KEPT = 2000  # characters that the failure keeps
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_TAKE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "only": lambda found: found[0],
    "first": lambda found: found[0],
    "last": lambda found: found[-1],
    "sum": sum,
    "mean": fmean,
    "min": min,
    "max": max,
}
# Parts of a JMESPath whose first child finds the list: `[*]`, `[?…]`, `[]` and what follows after a pipe.
_THROUGH_ELEMENTS = frozenset({"projection", "filter_projection", "flatten", "pipe"})
# The rest of a number, and what may stand before its last part, so that a regex reads "1,250" neither as 1 nor as 250.
_REST = re.compile(r"\d|\.\d|,\d{3}(?!\d)|[eE][+-]?\d")
_BEFORE = re.compile(r"\d(?:\.|,(?=\d{3}(?!\d))|[eE][+-]?)?(?=\d)")
# What tools print in many locales: 12,5 for 12.5. Three numbers with commas between them are a list.
_DECIMAL_COMMA = re.compile(r"\d+(?:\.\d{3})*,\d+")
_BEFORE_COMMA, _AFTER_COMMA = re.compile(r"[\d.,]*\Z"), re.compile(r"[\d.,]*")
_LONGEST = 40  # characters of a number
# In a regex whose figures may have decimals. Others find whole numbers, which a comma ends.
_POINT = re.compile(r"\\\.|\[[^\]]*\.[^\]]*\]")


def figure(name: str, wanted: OwnMetric, text: str, where: str) -> float:
    """Return the figure of a metric in its base unit. `where`: the name of the text.

    Raises ParseError with the end of the text if the figure is missing, not a number, or ambiguous.
    """
    try:
        found = list(_figures(wanted, text))
    except (ValueError, LookupError, TypeError, csv.Error) as error:
        raise _not_found(name, wanted, f"{error}", text, where) from error
    if not found:
        raise _not_found(name, wanted, "nothing is found", text, where)
    if wanted.take == "only" and len(set(found)) > 1:
        several = f"{len(found)} figures are found; choose one with `take`"
        raise _not_found(name, wanted, several, text, where)
    value = _TAKE[wanted.take](found)
    if value < 0 and not wanted.signed:
        raise ParseError(f"the metric {name} is {value:g}: if it can be negative, add `signed: true` to it")
    return value


def points(name: str, wanted: OwnSeries, text: str, where: str) -> list[tuple[float, float]]:
    """Return pairs of time in s and figure in its base unit, in the order of the text. Raises ParseError.

    A table or list that is there may have no rows: a run can be too short for any. Lines that a regex finds cannot.
    """
    (x_factor, _), (factor, _) = base_of(wanted.x_unit), base_of(wanted.unit)
    try:
        if wanted.regex is not None:
            found: Any = [match.groups() for match in _matches(wanted.regex, text, numbers=2)]
            is_there = bool(found)
        elif wanted.csv is not None:
            found = [(row[wanted.csv[0]], row[wanted.csv[1]]) for row in _rows(text, wanted.csv)]
            is_there = True
        else:
            document, paths = _document(text), [json_path(path) for path in wanted.json_paths or ()]
            columns = [path.search(document) or [] for path in paths]
            found = list(zip(*columns, strict=True))
            is_there = bool(found) or all(_listed(path.parsed, document) == [] for path in paths)
        made = [(_number(x) * x_factor, _number(y) * factor) for x, y in found]
    except (ValueError, LookupError, TypeError, csv.Error) as error:
        raise _not_found(name, wanted, f"{error}", text, where) from error
    if not is_there:
        raise _not_found(name, wanted, "nothing is found", text, where)
    return made


def _listed(path: Mapping[str, Any], document: Any) -> Any:
    """Return the list whose elements a parsed path goes through: with a wrong name of theirs, it finds none, too."""
    if path["type"] in _THROUGH_ELEMENTS:
        return _listed(path["children"][0], document)
    if path["type"] == "subexpression":
        *before, last = path["children"]
        for part in before:
            document = TreeInterpreter().visit(part, document)
        return _listed(last, document)
    return TreeInterpreter().visit(path, document)


def _figures(wanted: OwnMetric, text: str) -> Iterator[float]:
    factor, base = wanted.base
    if wanted.regex is not None:
        for match in _matches(wanted.regex, text, numbers=1):
            printed, *unit = match.groups()
            yield _number(printed) * (_of_unit(unit[0], base) if unit and unit[0] else factor)
        return
    if wanted.csv is not None:
        rows = _rows(text, [wanted.csv, *wanted.where])
        found = [row[wanted.csv] for row in rows if all(row[c] == level for c, level in wanted.where.items())]
    else:
        assert wanted.json_path is not None, "a metric has one source"
        value = json_path(wanted.json_path).search(_document(text))
        found = value if isinstance(value, list) else [] if value is None else [value]
    yield from (_number(value) * factor for value in found)


def _document(text: str) -> Any:
    """Raises ValueError if the text is not one JSON document."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            why = f"{error}: it must be one JSON document; use `regex` for JSON lines, or for JSON amid other text"
            raise ValueError(why) from error
        raise


def _matches(regex: str, text: str, numbers: int) -> Iterator[re.Match[str]]:
    """Yield the matches, whose first `numbers` groups are numbers. Raises ValueError if one is a part of a number."""
    decimals = bool(_POINT.search(regex))
    for match in re.finditer(regex, text, re.MULTILINE):
        begin, end = match.span()
        starts = (_BEFORE.match(text, place) for place in range(max(0, begin - 3), begin))
        # The group can begin with the sign or the point that belongs to the number before it.
        number = next((found.start() for found in starts if found and found.end() >= begin), begin)
        if number < begin == match.start(1):
            raise ValueError(f"the group begins within a number: {text[number : match.end(1)]!r}")
        if end == match.end(numbers) and (rest := _REST.match(text, end)):
            raise ValueError(f"the group ends within a number: {match[numbers] + rest[0]!r}")
        if decimals:
            _require_no_decimal_comma(text, match, numbers)
        yield match


def _require_no_decimal_comma(text: str, match: re.Match[str], numbers: int) -> None:
    """Raise ValueError if a group is the part of a number before or after its decimal comma."""
    begin, end = match.span()
    before, after = (
        _BEFORE_COMMA.search(text[max(0, begin - _LONGEST) : begin]),
        _AFTER_COMMA.match(text, end, end + _LONGEST),
    )
    left = before[0] if before and begin == match.start(1) else ""
    right = after[0] if after and end == match.end(numbers) else ""
    for number, begins, ends in [(1, left, right)] if numbers == 1 else [(1, left, ""), (numbers, "", right)]:
        whole = f"{begins}{match[number]}{ends}".rstrip(".,")
        if (begins or ends) and _DECIMAL_COMMA.fullmatch(whole) and whole != match[number]:
            raise ValueError(
                f"the group is a part of {whole!r}: if that is a number, let the command print a point, such as by "
                "`env: {LC_ALL: C}`; if it is a list, let the regex go on over the comma"
            )


def _of_unit(unit: str, base: str) -> float:
    """Return the factor of the unit after a figure. Raises ValueError for another kind of unit."""
    factor, its = base_of(unit)
    if its != base:
        raise ValueError(f"the unit after the figure is {unit!r}, but the metric is in {base!r}")
    return factor


def _number(value: Any) -> float:
    """Convert to a number, with or without commas between thousands. Raises ValueError."""
    text = str(value).strip()
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    try:
        return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a number") from None


def _rows(text: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV table with commas, semicolons or tabs, after any lines before its heading."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        for delimiter in ",;\t":
            heading = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
            if set(columns) <= set(heading):
                yield from csv.DictReader(lines[index:], delimiter=delimiter, skipinitialspace=True)
                return
    raise LookupError(f"no line has the headings {', '.join(columns)}")


def _not_found(name: str, wanted: OwnMetric | OwnSeries, why: str, text: str, where: str) -> ParseError:
    said = text.strip()
    shown = " / ".join(said[-_SHOWN:].split("\n")) if said else "it is empty"
    searched = f"{_way(wanted)} in {where}: {why}; its end: {shown}" if said else f"{_way(wanted)} in {where}: {shown}"
    failure = Failure(cause=Cause.NOT_FOUND, name=name, said=said[-_KEPT:] or None)
    return ParseError(f"the metric {name} is not found: {searched}", failure)


def _way(wanted: OwnMetric | OwnSeries) -> str:
    given = wanted.model_dump(exclude_none=True, by_alias=True)
    kind = next(kind for kind in ("regex", "json", "csv") if kind in given)
    return f"{kind} {given[kind]!r}"
