"""Parser of one trial of fio or of the small-files test. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import FioRun, observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.families.fio.place import LOAD
from benchstudy.families.fio.small_files import parse_no_fork, parse_shell_loop
from benchstudy.families.shared.clients import SERIES, Clients, Spans, combined, read_clients, whole_s
from benchstudy.families.shared.files import damaged, read_json, read_text
from benchstudy.model.clients import CLIENTS, CLIENTS_FILE
from benchstudy.model.family import Observation, Parsed, ParseError

PART = "part.json"  # the group of an imported run that the trial comes from


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """Parse the output of fio or of the small-files test in one trial. Raises ParseError."""
    if levels["test"] == "small-files":
        stdout = read_text(files / "stdout")
        if levels["job"] == "no-fork":
            return parse_no_fork(stdout)
        return parse_shell_loop(stdout, read_text(files / "stderr"))
    if CLIENTS in levels:
        return _together(files / LOAD)
    for name, parser in (("files/fio.json", parse_fio_json), ("fio.json", parse_fio_json), ("fio.txt", parse_fio_text)):
        if (files / name).is_file():
            run = parser(read_text(files / name))
            own = run.only(read_json(files / PART)["group"]) if (files / PART).is_file() else run
            return observe(own, _processors(files))
    raise ParseError("fio left no output: neither fio.json nor fio.txt is there")


@damaged("the host's readings in supervisor.json are damaged")
def _processors(files: Path) -> int | None:
    """Processors of the host, as its agent saw them; None of an imported run. Raises ParseError."""
    if not (files / "supervisor.json").is_file():
        return None
    readings = read_json(files / "supervisor.json").get("readings") or [{}]
    return None if (processors := readings[0].get("cpus")) is None else int(processors)


def note_trial(files: Path) -> Mapping[str, Any]:
    """Return notes about a trial: for several clients, problems with their start. Raises ParseError."""
    if not (files / LOAD / CLIENTS_FILE).is_file():
        return {}
    clients, runs = _of_clients(files / LOAD)
    return {"problems": clients.problems(_spans(clients, runs))}


def _together(folder: Path) -> Parsed:
    """Combine the jobs of all clients into one run: rates add up, histograms are merged. Raises ParseError.

    Rates are of the time of all clients, because each ends when its work is done, unless fio ended them by time.
    """
    clients, runs = _of_clients(folder)
    each = [{o.metric: (o.value, o.unit) for o in observe(run).observations} for run in runs]
    spans = _spans(clients, runs)
    jobs = [replace(job, group=0) for run in runs for job in run.jobs]
    whole = observe(replace(runs[0], jobs=jobs), lasts_s=whole_s(spans))
    is_timed = any("time_based" in job.options for job in jobs)
    rates = [o.metric for o in whole.observations if o.metric.endswith(("_iops", "_bandwidth"))] if is_timed else ()
    further = {**combined(each, summed=rates, most=("cpu_user", "cpu_system")), **clients.values(spans=spans)}
    kept = [o for o in whole.observations if o.metric not in further]
    added = [Observation(metric, value, unit) for metric, (value, unit) in further.items()]
    return Parsed([*kept, *added], {**whole.series, SERIES: clients.rows(each)})


def _of_clients(folder: Path) -> tuple[Clients, Sequence[FioRun]]:
    clients = read_clients(folder)
    return clients, [parse_fio_json(read_text(one / "files/fio.json")) for one in clients.folders]


def _spans(clients: Clients, runs: Sequence[FioRun]) -> Spans:
    """When each client did I/O: at the end of its command, after fio laid out the file."""
    return [(ended_s - run.runtime, ended_s) for (_, ended_s), run in zip(clients.spans, runs, strict=True)]
