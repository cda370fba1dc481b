"""Where a figure stands in what a command left: what a study may say of it."""

import re
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
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from error
    return value


def json_path(text: str) -> Any:
    """The compiled path, whose `search` finds. A `$` in front is allowed. Raises ValueError."""
    try:
        return jmespath.compile(text.removeprefix("$").removeprefix(".") or "@")
    except JMESPathError as error:
        raise ValueError(f"{text!r} is no JSON path (JMESPath, such as $.latency.p95 or jobs[0].read.iops)") from error


def _check_path(value: str) -> str:
    json_path(value)
    return value


def _check_unit(value: str) -> str:
    base_of(value)
    return value


def check_inside(value: str) -> str:
    """`value`, if it is a path below the folder that the command works in."""
    if not value or value.startswith(("/", "~")) or ".." in value.split("/"):
        raise ValueError(f"{value!r} must be a path below the folder that the command works in, without '..'")
    return value


Regex = Annotated[str, AfterValidator(_check_regex)]
JsonPath = Annotated[str, AfterValidator(_check_path)]
Unit = Annotated[str, AfterValidator(_check_unit), Listed(known_units)]
Inside = Annotated[str, AfterValidator(check_inside)]


def kept_as(name: str, source: "Source") -> str:
    """What the file that a metric or a series is searched in is called beside a run's outputs."""
    return f"{'series' if isinstance(source, OwnSeries) else 'file'}-{name}"


class Source(Strict):
    """Which text is searched."""

    model_config = ConfigDict(populate_by_name=True)

    stream: Literal["stdout", "stderr"] = Field("stdout", alias="in", description="which output is searched")
    file: Inside | None = Field(
        None, description="a file that the command writes, searched instead; may hold {{factors}}"
    )


class OwnMetric(Source):
    """A figure of each run. Exactly one of `regex`, `json`, `csv` and `size_of`."""

    regex: Regex | None = Field(
        None,
        description="its first group is the figure; a second one, if any, is the unit behind it (`us`, `ms`)",
    )
    json_path: JsonPath | None = Field(
        None, alias="json", description="JMESPath, such as `$.latency.p95` or `jobs[?name=='x'].read.iops`"
    )
    csv: str | None = Field(None, description="a column, by its heading")
    where: dict[str, str] = Field({}, description="with `csv`: only rows that have these texts in these columns")
    size_of: Inside | None = Field(
        None, description="bytes of a file, or of a folder, that the command leaves; may hold {{factors}}"
    )
    take: Take = Field("only", description="where several figures are found; `only` refuses different ones")
    unit: Unit = Field("1", description="of the figure as it is printed: ms, KiB/s, Mbit/s, 1/min, % …")
    better: Better | None = Field(None, description="which direction is better; without it nothing is compared")
    title: str = Field("", description="what tables call it; its name when left out")

    exactly_one: ClassVar[tuple[str, ...]] = ("regex", "json_path", "csv", "size_of")

    @model_validator(mode="after")
    def _readable(self) -> "OwnMetric":
        if self.regex is not None and not 1 <= re.compile(self.regex).groups <= 2:
            raise ValueError("regex: put the figure into a group: 'tps = ([0-9.]+)'; a second group is its unit")
        if self.where and self.csv is None:
            raise ValueError("where: is for csv only")
        if self.size_of is not None and (self.file is not None or self.base[1] != "B"):
            raise ValueError("size_of: names the file itself, and its unit is one of bytes: write unit: B")
        return self

    @property
    def base(self) -> tuple[float, str]:
        """What the printed figure is multiplied by, and the base unit it then has."""
        return base_of(self.unit)


class OwnSeries(Source):
    """Figures over the course of a run, such as a line a second. Exactly one of `regex`, `json` and `csv`."""

    regex: Regex | None = Field(None, description="found again and again; its two groups are x and the figure")
    json_paths: list[JsonPath] | None = Field(
        None, alias="json", min_length=2, max_length=2, description="paths of all x, and of all figures"
    )
    csv: list[str] | None = Field(None, min_length=2, max_length=2, description="columns of x and of the figure")
    x_unit: Unit = Field("s", description="of x as it is printed")
    unit: Unit = Field("1", description="of the figure as it is printed")

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
            raise ValueError("regex: two groups, the time and the figure: '([0-9.]+) s, ([0-9.]+) tps'")
        return self
