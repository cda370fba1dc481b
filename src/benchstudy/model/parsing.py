"""What parsers may do with files that anybody may have written: report that they cannot be read, and nothing else.

A damaged file must cost only its own trial. So every error in a parser becomes a ParseError. An impossible figure
(infinite, NaN, negative, beyond all bounds) is one too, before it reaches a table.
"""

import errno
import gzip
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import as_line
from benchstudy.model.metrics import Metric

# Sums, squares and ratios of such figures stay finite, and sums of such counts fit into 64 bits.
_LARGEST, _SMALLEST, _LARGEST_COUNT = 1e16, 1e-30, 2**53
_LONGEST_MESSAGE = 1000
# Errors from a path or a time that a damaged file gave. Other file errors are this machine's, not the trial's.
_OF_THE_FILE = (None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EOVERFLOW)


# Of the columns of a family's own tables, as names of polars types.
COLUMN_TYPES = ("String", "Boolean", "Int64", "Float64")


class ParseError(ValueError):
    """Raw output that the tool cannot have written normally: truncated, empty, inconsistent.

    `failure`: the same as a value; by default, that the output cannot be read.
    """

    def __init__(self, text: str, failure: Failure | None = None):
        super().__init__(text)
        self.failure = failure or Failure(cause=Cause.PARSE)


@contextmanager
def damaged(said: str, folder: Path | None = None) -> Iterator[None]:
    """Raises ParseError, beginning with `said`, for anything that a document lacks or has in the wrong form.

    `folder`: that of the code, whose line is named. Also a decorator. Errors of this machine, such as an unreadable
    disk, are raised unchanged.
    """
    try:
        yield
    except ParseError as error:
        raise _short(error) from error.__cause__
    except ImportError:
        raise
    except OSError as error:
        if error.errno not in _OF_THE_FILE and not isinstance(error, gzip.BadGzipFile):
            raise
        raise _short(ParseError(f"{said}: {error}")) from error
    except Exception as error:
        what = as_line(error, folder) if folder else f"{type(error).__name__}: {error}"
        raise _short(ParseError(f"{said}: {what}")) from error


def _short(error: ParseError) -> ParseError:
    """Quotes only as much of a file as a person reads, without control characters for terminals."""
    text = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in str(error)[: _LONGEST_MESSAGE + 1])
    if text == str(error):
        return error
    return ParseError(text[:_LONGEST_MESSAGE] + "…" * (len(text) > _LONGEST_MESSAGE), error.failure)


def as_number(value: Any, what: str) -> Any:
    """Return the number that a document gives as `what`. Raises ParseError for anything else.

    Python calculates with `true`, which would become a figure of 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParseError(f"{what} is {value!r}, where a number belongs")
    return value


def check_figure(metric: Metric, value: Any) -> None:
    """Raises ParseError for an impossible value of this metric; None (unknown) is valid."""
    if value is not None:
        _check_numbers(metric.name, [value], signed=metric.signed)


def check_table(
    name: str, schema: Mapping[str, str], rows: Sequence[Mapping[str, Any]], signed: Collection[str]
) -> None:
    """Raises ParseError for rows that do not fit `schema`, as in `Family.series_schemas`, or that hold an impossible
    figure. `signed`: columns that may be negative; an upper edge ("le_s") may be infinite.
    """
    for column, kind in schema.items():
        values = [value for row in rows if (value := row.get(column)) is not None]
        where = f"{name}: {column}"
        if kind == "String":
            _check_texts(where, values)
        elif kind == "Boolean":
            _check_types(where, values, bool)
        else:
            edges = [value for value in values if value != math.inf] if column == "le_s" else values
            _check_numbers(where, edges, signed=column in signed, whole=kind == "Int64")
    unknown = {column for row in rows[:1] for column in row} - schema.keys()
    if unknown:
        raise ParseError(f"{name}: unknown columns: {', '.join(sorted(unknown))}")


def _check_types(where: str, values: Iterable[Any], wanted: type) -> None:
    kinds = {*map(type, values)}
    # To Python, a truth value is a number, too.
    wrong = [kind.__name__ for kind in kinds if not issubclass(kind, wanted) or (kind is bool) != (wanted is bool)]
    if wrong:
        raise ParseError(f"{where} is a {wrong[0]}")


def _check_texts(where: str, values: Sequence[Any]) -> None:
    _check_types(where, values, str)
    try:
        "".join(values).encode()
    except UnicodeEncodeError as error:
        raise ParseError(f"{where} is not valid text: {error.reason}") from error


def _check_numbers(where: str, values: Sequence[Any], *, signed: bool, whole: bool = False) -> None:
    _check_types(where, values, Integral if whole else Real)
    if not values:
        return
    if not all(map(math.isfinite, values)):
        raise ParseError(f"{where} is infinite or not a number")
    least, most = min(values), max(values)
    if least < 0 and not signed:
        raise ParseError(f"{where} is {least:g}: it cannot be negative")
    limit = _LARGEST_COUNT if whole else _LARGEST
    if max(-least, most) > limit:
        raise ParseError(f"{where} is {max(most, least, key=abs):g}: no benchmark gives that much")
    if not whole and any(0 < abs(value) < _SMALLEST for value in values):
        raise ParseError(f"{where} is closer to zero than any clock or counter resolves")
