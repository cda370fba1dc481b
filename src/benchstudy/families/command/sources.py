"""Configuration of the sources of figures in the output of a command."""

import re
import warnings
from typing import Annotated, Any, ClassVar, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from benchstudy.model.metrics import Better
from benchstudy.model.names import Listed
from benchstudy.model.strict import Strict
from benchstudy.model.units import base_of, known_units

Take = Literal["only", "first", "last", "sum", "mean", "min", "max"]


def _check_regex(value: str) -> str:
    try:
        with warnings.catch_warnings():
            # Python reads [[:alpha:]] as a set of other characters, and only warns.
            warnings.simplefilter("error", FutureWarning)
            re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from error
    except FutureWarning as warning:
        raise ValueError(
            f"{value!r}: {str(warning).lower()}: in a set, put a backslash before [, --, &&, || and ~~ that stand for "
            "themselves. Instead of a class such as [:alpha:], write its characters, such as a-z"
        ) from warning
    return value


_PLACES = (r"\A", r"\b", r"\B", r"\Z")  # escapes that match no character


def _require_full_groups(regex: str) -> None:
    """Raises ValueError for a group that can only match the empty text, which is no figure: `()`, or as `(^)`."""

    def simple(found: re.Match[str]) -> str:
        return "^" if found[0] in _PLACES else "x"

    plain = re.sub(r"\\.|\[\^?\]?(?:\\.|[^]])*\]", simple, regex, flags=re.DOTALL)  # without escapes and sets
    if re.search(r"\((?:\?P<\w+>)?[\^$|]*\)", plain):
        raise ValueError(
            "regex: it has a group that matches only the empty text, as () and (^) do: write what it should match, as "
            "([0-9.]+)"
        )


def json_path(text: str) -> Any:
    """Compile a path, whose `search` finds values. A leading `$` is allowed. Raises ValueError."""
    try:
        return jmespath.compile(text.removeprefix("$").removeprefix(".") or "@")
    except JMESPathError as error:
        raise ValueError(
            f"{text!r} is not a JSON path (JMESPath, such as $.latency.p95 or jobs[0].read.iops)"
        ) from error


def _check_path(value: str) -> str:
    json_path(value)
    return value


def _check_unit(value: str) -> str:
    base_of(value)
    return value


def check_inside(value: str) -> str:
    """Return `value` if it is a path below the working folder of the command. Raises ValueError otherwise."""
    if not value or value.startswith(("/", "~")) or ".." in value.split("/"):
        raise ValueError(f"{value!r} must be a path below the working folder of the command, without '..'")
    return value


Regex = Annotated[str, AfterValidator(_check_regex)]
JsonPath = Annotated[str, AfterValidator(_check_path)]
Unit = Annotated[str, AfterValidator(_check_unit), Listed(known_units)]
Inside = Annotated[str, AfterValidator(check_inside)]


def kept_as(name: str, source: "Source") -> str:
    """Return the name, beside the outputs of a run, of the copied file that a metric or series reads."""
    return f"{'series' if isinstance(source, OwnSeries) else 'file'}-{name}"


class Source(Strict):
    """The text to search."""

    model_config = ConfigDict(populate_by_name=True)

    stream: Literal["stdout", "stderr"] = Field("stdout", alias="in", description="the output to search")
    file: Inside | None = Field(
        None, description="file of the command to search instead of an output; may contain {{factors}}"
    )

    @model_validator(mode="after")
    def _one_place(self) -> "Source":
        other = next((key for key in ("file", "size_of") if getattr(self, key, None) is not None), None)
        if other is not None and self.stream == "stderr":
            raise ValueError(f"in: leave it out: `{other}` is read instead of an output")
        return self


class OwnMetric(Source):
    """A figure of each run. Give exactly one of `regex`, `json`, `csv` and `size_of`."""

    regex: Regex | None = Field(
        None, description="its first group is the figure; an optional second group is the unit after it (`us`, `ms`)"
    )
    json_path: JsonPath | None = Field(
        None, alias="json", description="JMESPath, such as `$.latency.p95` or `jobs[?name=='x'].read.iops`"
    )
    csv: str | None = Field(None, description="heading of the column with the figure")
    where: dict[str, str] = Field({}, description="with `csv`: only rows that have these texts in these columns")
    size_of: Inside | None = Field(
        None, description="size in bytes of a file or folder that the command writes; may contain {{factors}}"
    )
    take: Take = Field(
        "only", description="which figure to use if several are found; `only` requires that all are equal"
    )
    unit: Unit = Field("1", description="unit of the printed figure: ms, KiB/s, Mbit/s, 1/min, % …")
    better: Better | None = Field(None, description="the better direction; without it, nothing is compared")
    signed: bool = Field(False, description="true: it may be negative, such as a score or a difference")
    title: str = Field("", description="title in tables; the default is the name of the metric")

    exactly_one: ClassVar[tuple[str, ...]] = ("regex", "json_path", "csv", "size_of")

    @model_validator(mode="after")
    def _readable(self) -> "OwnMetric":
        if self.regex is not None and not 1 <= re.compile(self.regex).groups <= 2:
            raise ValueError("regex: put the figure into a group: 'tps = ([0-9.]+)'; a second group is its unit")
        _require_full_groups(self.regex or "")
        if self.where and self.csv is None:
            raise ValueError("where: use it only with csv")
        if self.size_of is not None and (self.file is not None or self.base[1] != "B"):
            raise ValueError("size_of: leave out `file`, and give a unit of bytes: write unit: B")
        return self

    @property
    def base(self) -> tuple[float, str]:
        """The factor for the printed figure, and the resulting base unit."""
        return base_of(self.unit)


class OwnSeries(Source):
    """Figures during a run, such as one line per second. Give exactly one of `regex`, `json` and `csv`."""

    regex: Regex | None = Field(None, description="matches repeatedly; its two groups are x and the figure")
    json_paths: list[JsonPath] | None = Field(
        None, alias="json", min_length=2, max_length=2, description="paths of all x, and of all figures"
    )
    csv: list[str] | None = Field(None, min_length=2, max_length=2, description="headings of x and of the figure")
    x_unit: Unit = Field("s", description="unit of the printed x")
    unit: Unit = Field("1", description="unit of the printed figure")

    @field_validator("x_unit")
    @classmethod
    def _a_time(cls, value: str) -> str:
        if base_of(value)[1] != "s":
            raise ValueError(f"{value!r}: x is the time within the run, in ns, us, ms, s, min or h")
        return value

    exactly_one: ClassVar[tuple[str, ...]] = ("regex", "json_paths", "csv")

    @model_validator(mode="after")
    def _readable(self) -> "OwnSeries":
        if self.regex is not None and re.compile(self.regex).groups != 2:
            raise ValueError("regex: give two groups, the time and the figure: '([0-9.]+) s, ([0-9.]+) tps'")
        _require_full_groups(self.regex or "")
        return self
