"""Parser of one trial of a command. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchstudy.families.command import extract, hyperfine
from benchstudy.families.command.config import COMMAND, CommandConfig, CommandSpec
from benchstudy.families.command.sources import OwnMetric, OwnSeries, kept_as
from benchstudy.families.shared.files import as_number, damaged, read_facts, read_text
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.family import Observation, Parsed, ParseError
from benchstudy.model.units import base_of

_OUTPUT = "output"  # the file of an imported trial
# Linux counts the memory of the spawning process, too. A run's own peak must exceed that by this many bytes.
_ABOVE_SPAWNER = 256 << 10
# By metric: the key in a run's answer, its factor, and the unit.
_OF_RUN: Mapping[str, tuple[str, float, str]] = {
    "wall_time": ("wall_ns", 1e-9, "s"),
    "user_time": ("user_s", 1.0, "s"),
    "system_time": ("system_s", 1.0, "s"),
    "peak_memory": ("peak_bytes", 1.0, "B"),
    "minor_faults": ("minor_faults", 1.0, "1"),
    "major_faults": ("major_faults", 1.0, "1"),
    "voluntary_switches": ("voluntary_switches", 1.0, "1"),
    "involuntary_switches": ("involuntary_switches", 1.0, "1"),
    "bytes_read": ("read_bytes", 1.0, "B"),
    "bytes_written": ("written_bytes", 1.0, "B"),
    "storage_read": ("storage_read_bytes", 1.0, "B"),
    "storage_written": ("storage_written_bytes", 1.0, "B"),
}


def parse_trial(levels: Mapping[str, str], files: Path, config: CommandConfig | None = None) -> Parsed:
    """Parse the metrics of every command, and the metrics that the study declares. Raises ParseError."""
    if (files / hyperfine.FILE).is_file():
        return hyperfine.parse(files)
    command = config.command(levels.get(COMMAND, "")) if config is not None else None
    if (files / _OUTPUT).is_file():
        return _imported(levels, files / _OUTPUT, command)
    answer = read_answer(files)
    with damaged("the answer of command_runs"):
        if answer.get("stopped") or not answer["runs"]:
            raise ParseError(f"no run was completed: {answer.get('stopped')}")
        found = [*_built_in(answer)]
        rows = [_row(number, run) for number, run in enumerate(answer["runs"], start=1)]
    metrics, declared_series = (command.metrics, command.series) if command else ({}, {})
    values: dict[str, list[float]] = {name: [] for name in metrics}
    samples: list[dict[str, Any]] = []
    for number, run in enumerate(answer["runs"], start=1):
        folder = files / "files" / f"run-{number}"
        for name, metric in metrics.items():
            values[name].append(_figure(name, metric, folder, run))
        for name, series in declared_series.items():
            samples += _samples(name, series, number, *_searched(name, series, folder, run))
    found += [Observation(name, median(values[name]), metric.base[1]) for name, metric in metrics.items()]
    return Parsed(found, {"runs": rows, "samples": samples})


def read_answer(files: Path) -> dict[str, Any]:
    """Read the answer of command_runs. Raises ParseError."""
    return read_facts(files / "stdout", ("empty", "runs"))


def finds(command: CommandSpec, text: str) -> bool:
    """Whether one text has all metrics of the command, except sizes of files."""
    try:
        for name, metric in command.metrics.items():
            if metric.size_of is None:
                extract.figure(name, metric, text, _OUTPUT)
    except ParseError:
        return False
    return any(metric.size_of is None for metric in command.metrics.values())


def _built_in(answer: Mapping[str, Any]) -> Iterator[Observation]:
    runs = answer["runs"]
    floor = max(as_number(run["peak_bytes"], "peak_bytes") for run in answer["empty"])
    for name, (asked, factor, unit) in _OF_RUN.items():
        given = [as_number(run[asked], asked) * factor for run in runs if asked in run]
        if given and (name != "peak_memory" or median(given) > floor + _ABOVE_SPAWNER):
            yield Observation(name, float(median(given)), unit)
    yield Observation("start_up", median(as_number(run["wall_ns"], "wall_ns") for run in answer["empty"]) * 1e-9, "s")
    if len(runs) > 1:
        yield Observation("first_run", runs[0]["wall_ns"] * 1e-9, "s")
    yield Observation("runs", float(len(runs)), "1")


def _row(number: int, run: Mapping[str, Any]) -> dict[str, Any]:
    return {"run": number, "wall_s": run["wall_ns"] * 1e-9, "user_s": run["user_s"], "system_s": run["system_s"]}


def _samples(name: str, series: OwnSeries, run: int, text: str, where: str) -> list[dict[str, Any]]:
    points, unit = extract.points(name, series, text, where), base_of(series.unit)[1]
    return [{"series": name, "run": run, "x_s": x, "value": value, "unit": unit} for x, value in points]


def _figure(name: str, metric: OwnMetric, folder: Path, run: Mapping[str, Any]) -> float:
    if metric.size_of is not None:
        size = run["sizes"].get(name)
        if size is None:
            text = f"the metric {name} is not found: the command did not write {metric.size_of}"
            raise ParseError(text, Failure(cause=Cause.NOT_FOUND, name=name))
        return float(as_number(size, f"the size of {metric.size_of}"))
    return extract.figure(name, metric, *_searched(name, metric, folder, run))


def _searched(name: str, source: OwnMetric | OwnSeries, folder: Path, run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text to search, and its name. Raises ParseError if the command did not write the file, or if the part
    that was cut off decides.
    """
    kept, where = folder / (source.stream if source.file is None else kept_as(name, source)), source.file
    if where is not None and not kept.is_file():
        text = f"the metric {name} is not found: the command did not write the file {where}"
        raise ParseError(text, Failure(cause=Cause.NOT_FOUND, name=name))
    text, where = read_text(kept), where or source.stream
    if kept.name not in {Path(path).name for path in run.get("truncated", ())}:
        return text, where
    if isinstance(source, OwnSeries) or source.take not in ("only", "first"):
        said = f"the metric {name} is not found: only the beginning of {where} was kept: raise `max_output`"
        raise ParseError(said, Failure(cause=Cause.NOT_FOUND, name=name))
    return text[: text.rfind("\n") + 1], where  # the last line may be a part of one


def _imported(levels: Mapping[str, str], output: Path, command: CommandSpec | None) -> Parsed:
    """Parse an imported file by the definitions of the study."""
    if command is None:
        raise ParseError(f"the study has no command {levels.get(COMMAND)!r}: give its name with --level {COMMAND}=NAME")
    text = read_text(output)
    read = {name: metric for name, metric in command.metrics.items() if metric.size_of is None}
    found = [
        Observation(name, extract.figure(name, metric, text, output.name), metric.base[1])
        for name, metric in read.items()
    ]
    samples: list[dict[str, Any]] = []
    for name, series in command.series.items():
        samples += _samples(name, series, 1, text, output.name)
    return Parsed(found, {"runs": [], "samples": samples})
