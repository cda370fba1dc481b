"""Import of existing outputs of fio: each run in a file, and each of its groups, with the known options."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchstudy.families.fio.fio_json import parse_fio_json, split_fio_json
from benchstudy.families.fio.fio_printed import amount
from benchstudy.families.fio.fio_result import FioJob, FioRun, observe
from benchstudy.families.fio.fio_text import parse_fio_text, split_fio_text
from benchstudy.families.fio.parse import PART
from benchstudy.families.shared.exact_levels import exact_level
from benchstudy.families.shared.files import text_of
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.family import UNKNOWN, Imported, ParseError

# By factor: fio's option and its default. The default engine depends on the build.
_OPTIONS = {
    "rw": ("rw", "read"),
    "bs": ("bs", "4KiB"),
    "iodepth": ("iodepth", "1"),
    "numjobs": ("numjobs", "1"),
    "engine": ("ioengine", "default"),
    "direct": ("direct", "0"),
    "size": ("size", "not-given"),
    "file": ("filename", "not-given"),
}
_AMOUNTS = ("bs", "size")
# These options only affect names and printing. Every other option affects what is measured.
_ONLY_SAYS = frozenset(
    {
        "name", "description", "group_reporting", "stonewall", "wait_for_previous", "new_group", "per_job_logs",
        "write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "log_avg_msec", "log_unix_epoch",
        "percentile_list", "clat_percentiles", "bwavgtime", "iopsavgtime", "output", "output-format", "status-interval",
        "eta", "minimal",
    }
)  # fmt: skip
_TERSE = re.compile(r"^[2-5];fio-\d", re.MULTILINE)
# Names that are new in every run: benchstudy's scratch folder and file, and what mktemp and Python's tempfile make in
# a temporary folder. Any other path, such as a disk's by its id, may be the very thing that differs.
_NEW_NAMES = re.compile(
    r"(?<=/benchstudy-)[0-9a-f]{32}(?:/testfile-[0-9a-f]{8})?(?![^/:])|(?<=/tmp/)tmp(?:\.\w{10}|[a-z0-9_]{8})(?![^/:])"
)
_LONGEST = 36  # characters of a level: a case's levels together name its folder
_PLAIN = re.compile(r"[a-z0-9_]+=[A-Za-z0-9_.]+")
_KIB = 1024
OUTPUTS = "fio's JSON, JSON+ and plain text"


def recognise(path: Path) -> list[Imported]:
    """Recognise fio's JSON and plain text: one trial per run, and per group of jobs that ran side by side.

    Returns [] for other files. Raises ParseError for a damaged output of fio.
    """
    text = text_of(path.read_bytes())
    if re.search(r'"fio version"\s*:', text):
        return _trials(split_fio_json(text), parse_fio_json, "fio.json", ())
    if re.search(r"^[^\S\n]*fio-\d+\.\d+\S*[^\S\n]*$", text, re.MULTILINE) and "rw=" in text:
        rounded = "plain text: bandwidth and latencies were rounded by fio to three or four digits"
        return _trials(split_fio_text(text), parse_fio_text, "fio.txt", (rounded,))
    if _TERSE.search(text):
        raise ParseError(
            "this is fio's terse output, which has neither options nor units: run fio with --output-format=json+"
        )
    return []


def _trials(
    pieces: list[str], parser: Callable[[str], FioRun], file_name: str, notes: tuple[str, ...]
) -> list[Imported]:
    found = []
    for number, piece in enumerate(pieces, start=1):
        run = parser(piece)
        for group in run.groups:
            part = run.only(group)
            if not part.failure:
                observe(part)
            where = [f"run {number} of {len(pieces)} in the file"] if len(pieces) > 1 else []
            where += [f"group {group} of {len(run.groups)} that ran one after another"] if len(run.groups) > 1 else []
            files = {file_name: piece.encode()} if len(pieces) > 1 else {}
            if len(run.groups) > 1:
                files[PART] = json.dumps({"group": group}).encode()
            found.append(_imported(part, file_name, files, (*notes, *where)))
    return found


def _imported(run: FioRun, file_name: str, files: Mapping[str, bytes], notes: tuple[str, ...]) -> Imported:
    errors = sum(job.io_errors for job in run.jobs)
    notes = (*notes, *([f"errors: fio went on after {errors} of them"] if errors else []))
    ended = datetime.fromtimestamp(run.ended, UTC) if run.ended else None
    said = run.failure
    return Imported(
        levels_of(run),
        file_name,
        "fio",
        run.version.removeprefix("fio-"),
        notes,
        files=files,
        command=run.command,
        started=(ended - timedelta(seconds=run.runtime)).isoformat(timespec="milliseconds") if ended else None,
        finished=ended.isoformat(timespec="milliseconds") if ended else None,
        clock=run.ended_as_printed,
        options={job.name: dict(job.options) for job in run.jobs},
        cause=said,
        failure=Failure(cause=Cause.SIGNAL if run.interrupted else Cause.EXITED, name="fio", said=said)
        if said
        else None,
        own=_own(run, file_name),
    )


def _own(run: FioRun, file_name: str) -> str:
    """The run without its command and, in plain text, without options, of which the command may tell more."""
    jobs = [replace(job, options={}) for job in run.jobs] if file_name == "fio.txt" else run.jobs
    return repr(replace(run, command=None, all_options=False, jobs=jobs))


def levels_of(run: FioRun) -> dict[str, str]:
    """Return the known levels of a run by factor. A level that the document does not tell is `unknown`.

    Two runs with the same levels had the same options, as far as the document has them.
    """
    levels = {"directory": UNKNOWN, "test": "fio", "job": exact_level(run.name, _LONGEST)}
    per_job = [_of_job(job, run) for job in run.jobs]
    for factor in _OPTIONS:
        levels[factor] = exact_level("+".join(dict.fromkeys(one[factor] for one in per_job)), _LONGEST)
    levels["device"] = exact_level("+".join(run.devices) or UNKNOWN, _LONGEST)
    # Plain text tells by these whether latencies were switched off (gtod_reduce), and writes synced.
    timed = any(direction.latencies for job in run.jobs for direction in job.directions.values())
    synced = any(job.sync for job in run.jobs)
    levels["recorded"] = "+".join(["latencies"] * timed + ["syncs"] * synced) or "rates"
    further = [_further(job) for job in run.jobs]
    if not run.all_options:
        levels["further"] = UNKNOWN
    elif len({*map(str, per_job)}) > 1 or len({*map(str, further)}) > 1:
        # Which job had which option cannot be told from levels.
        levels["further"] = _digest(json.dumps([per_job, further], sort_keys=True))
    else:
        plain = all(_PLAIN.fullmatch(option) for option in further[0])
        text = "+".join(option.replace("=", ".") for option in further[0]) or "none"
        levels["further"] = text if plain and len(text) <= _LONGEST else _digest("\n".join(further[0]))
    return levels


def _of_job(job: FioJob, run: FioRun) -> dict[str, str]:
    found = {}
    for factor, (option, otherwise) in _OPTIONS.items():
        given = job.options.get(option)
        if given is None and option == "filename":
            given = job.options.get("directory")
        if given is not None and factor == "file":
            given = _NEW_NAMES.sub("new", given)
        if given is not None and factor in _AMOUNTS and "kb_base" not in job.options:
            given = _spelt(given)
        found[factor] = given if given is not None else otherwise if run.all_options else UNKNOWN
    if not run.all_options:
        of_name = sum(other.processes for other in run.jobs if other.name == job.name)
        found["numjobs"] = str(of_name)
    return found


def _further(job: FioJob) -> list[str]:
    known = {option for option, _ in _OPTIONS.values()} | _ONLY_SAYS
    known |= set() if "filename" in job.options else {"directory"}
    return sorted(f"{name}={value}" for name, value in job.options.items() if name not in known)


def _digest(text: str) -> str:
    return f"options-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _spelt(text: str) -> str:
    """A size in one spelling, whether it was given as 4k, 4K or 4096."""
    size = amount(text)
    if size is None or size != int(size):
        return text
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size and size % _KIB**power == 0:
            return f"{int(size) // _KIB**power}{unit}"
    return f"{int(size)}B"
