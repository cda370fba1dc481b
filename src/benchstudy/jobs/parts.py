"""Keeps the parsed trials of a session as a part. Tables are made from parts, so a new session costs only itself.

A part is a folder of Parquet tables. Its name is a digest of everything it is made from: the sums of its trials' files,
the code that parses them, and the study's settings for parsing. So a part is correct or missing, and you may delete all
of them at any time. A part does not hold what only the session's index says about trials, such as discards.
"""

import hashlib
import io
import json
import logging
import platform
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from benchstudy.measuring import disturbances
from benchstudy.measuring.reread import failed_to_be_read
from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial, load_trial
from benchstudy.model import hints, interference, registry, sources
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Family, ParseError
from benchstudy.model.files import sha256_of
from benchstudy.model.metrics import FAILED
from benchstudy.model.names import TRIAL_COLUMNS
from benchstudy.model.parsing import damaged

if TYPE_CHECKING:
    from benchstudy.model.disturbance import DisturbancePolicy
    from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")

OBSERVATIONS = {
    "study": pl.String,
    "target": pl.String,
    "family": pl.String,
    "case": pl.String,
    "block": pl.Int64,
    "trial": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "status": pl.String,
}
TRIALS = {
    "trial": pl.String,
    "target": pl.String,
    "case": pl.String,
    "block": pl.Int64,
    "position": pl.Int64,
    "status": pl.String,
    "cause": pl.String,
    "cause_kind": pl.String,
    "started": pl.String,
    "duration_s": pl.Float64,
    "argv": pl.String,
    "raw": pl.String,
    "raw_files": pl.String,
    "tool": pl.String,
    "tool_version": pl.String,
    "tool_sha256": pl.String,
    "programs": pl.String,
    "study_sha256": pl.String,
    "session": pl.String,
    "instrument": pl.String,
    "imported": pl.Boolean,
    "discarded_why": pl.String,
    "load_before": pl.Float64,
    "load_after": pl.Float64,
    "verified": pl.String,
    "disturbed": pl.Boolean,
    "disturbance": pl.String,
    "set_aside": pl.String,
}
# The activity of others on each host of a trial: `interference.METRICS`, for every family.
HOSTS = {
    **{name: pl.String for name in ("target", "case", "trial", "host", "metric", "unit")},
    "block": pl.Int64,
    "value": pl.Float64,
}
# Tables of every family. All others are the family's own series.
SCHEMAS = {"trials": TRIALS, "observations": OBSERVATIONS, "hosts": HOSTS}
_CONTENT = "part.json"
# By table.
_Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Part:
    """`tables` by name, without empty ones: files, or frames where nothing is stored. Per trial, in the order of the
    tables: `uuids`; `unreadable`, the parser's error or None; and `rows`, the number of rows by table. `levels` by
    case.
    """

    tables: Mapping[str, "Path | pl.DataFrame"]
    uuids: list[str] = field(default_factory=list)
    unreadable: list[str | None] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[str, dict[str, str]] = field(default_factory=dict)


class Parts:
    """The parts of a family of a study, below `folder`. `used` holds the names of those that were requested."""

    def __init__(self, root: Path, folder: Path, family: Family):
        self._root, self._folder, self._family = root, folder, family
        self._code, self.used = _digest_of_code(family.name), set[str]()

    def part(
        self, plan: "SessionPlan", store: Path, entries: Sequence[Mapping[str, Any]], discarded: Mapping[str, str]
    ) -> Part:
        """The part for the trials that `entries` of the index name. Raises CorruptTrial, except for a discarded trial,
        which is left out with a warning.
        """
        about = [
            self._code,
            self._family.reading,
            plan.disturbance.model_dump(mode="json"),
            store.relative_to(self._root).as_posix(),
            [(entry["path"], entry["files"]) for entry in entries],
        ]
        name = hashlib.sha256(orjson.dumps(about)).hexdigest()
        self.used.add(name)
        part = _kept(self._folder / name)
        if part is None:
            part = _made(self._root, plan, store, entries, discarded)
            # Not kept, so that a discarded trial is read again if somebody repairs its files.
            if len(part.uuids) == len(entries):
                part = _keep(self._folder / name, part)
        return part

    def remove_others(self) -> None:
        """Remove parts that no session needs any more."""
        for folder in self._folder.glob("*"):
            if folder.name not in self.used:
                shutil.rmtree(folder)


def _digest_of_code(family: str) -> str:
    """Digest of the code that makes parts, and of the versions that execute it."""
    package = registry.packages()[family]
    files = sources.files(sources.closure([__name__, f"{package}.family", f"{package}.parse"]))
    named = [(sources.name_of(file), sha256_of(file)) for file in files]
    return hashlib.sha256(orjson.dumps([platform.python_version(), pl.__version__, named])).hexdigest()


# -- on disk ----------------------------------------------------------------------


def _kept(folder: Path) -> Part | None:
    """The stored part; None if it is missing or damaged."""
    try:
        content = orjson.loads((folder / _CONTENT).read_bytes())
        tables = {}
        for name, digest in content.pop("sha256").items():
            tables[name] = folder / f"{name}.parquet"
            if sha256_of(tables[name]) != digest:
                return None
        return Part(tables, **content)
    except (OSError, LookupError, TypeError, ValueError):
        return None


def _keep(folder: Path, part: Part) -> Part:
    """Store a part completely or not at all, and return it as stored. One that a killed job began has another name."""
    begun = folder.with_name(f".{folder.name}")
    for left in (begun, folder):
        shutil.rmtree(left, ignore_errors=True)
    begun.mkdir(parents=True)
    content = {name: getattr(part, name) for name in ("uuids", "unreadable", "rows", "levels")} | {"sha256": {}}
    for name, table in part.tables.items():
        assert isinstance(table, pl.DataFrame), "a new part has frames"
        whole = parquet_of(table)
        (begun / f"{name}.parquet").write_bytes(whole)
        content["sha256"][name] = hashlib.sha256(whole).hexdigest()
    (begun / _CONTENT).write_bytes(orjson.dumps(content))
    begun.rename(folder)
    return replace(part, tables={name: folder / f"{name}.parquet" for name in part.tables})


def frames(tables: Sequence[Path | pl.DataFrame]) -> pl.LazyFrame:
    """Of some parts, one below the other; those that are files are read when it is collected."""
    found = []
    for _, of_kind in groupby(tables, key=lambda table: isinstance(table, Path)):
        alike = list(of_kind)
        files = [table for table in alike if isinstance(table, Path)]
        kept = [table for table in alike if isinstance(table, pl.DataFrame)]
        found.append(pl.scan_parquet(files, glob=False) if files else pl.concat(kept).lazy())
    return pl.concat(found)


def parquet_of(table: pl.DataFrame) -> bytes:
    """The table as Parquet bytes. Python writes them: its errors name a full disk, and those of polars may not."""
    whole = io.BytesIO()
    table.write_parquet(whole)
    return whole.getvalue()


# -- made from raw files ----------------------------------------------------------------------


def _made(
    root: Path, plan: "SessionPlan", store: Path, entries: Iterable[Mapping[str, Any]], discarded: Mapping[str, str]
) -> Part:
    rows: _Rows = {name: [] for name in SCHEMAS}
    series: dict[str, list[pl.DataFrame]] = {name: [] for name in plan.family.series_schemas}
    part = Part({}, rows={name: [] for name in (*rows, *series)})
    for entry in entries:
        try:
            trial = _load(store / entry["path"], entry)
        except CorruptTrial as error:
            if entry["uuid"] not in discarded:
                raise
            log.warning("left out a discarded trial: %s", error.difference)
            continue
        of_trial, long, unreadable = _of_trial(root, plan, trial)
        part.uuids.append(trial.record.uuid)
        part.unreadable.append(unreadable)
        part.levels[trial.record.case] = trial.record.levels
        for name in rows:
            rows[name] += of_trial[name]
            part.rows[name].append(len(of_trial[name]))
        for name, frames in series.items():
            frames += [long[name]] if name in long else []
            part.rows[name].append(long[name].height if name in long else 0)
    tables = {name: pl.DataFrame(of_table, schema=SCHEMAS[name]) for name, of_table in rows.items()}
    tables |= {name: pl.concat(frames, rechunk=True) for name, frames in series.items() if frames}
    part.tables = {name: table for name, table in tables.items() if table.height}
    return part


def _of_trial(root: Path, plan: "SessionPlan", trial: StoredTrial) -> tuple[_Rows, dict[str, pl.DataFrame], str | None]:
    """Rows, long tables, and the parser's error or None."""
    record = trial.record
    row = _trial_row(root, trial) | _disturbance(trial, plan.disturbance)
    rows: _Rows = {"trials": [row], "observations": [], "hosts": []}
    if record.status == "aborted":
        return rows, {}, None
    common = {"target": record.target, "case": record.case, "block": record.block, "trial": trial.short}
    unreadable, again = None, failed_to_be_read(plan.family, trial)
    try:
        rows["hosts"] = _host_rows(trial, common)
        if record.status == "ok" or again:
            seen, long = _parse(plan.family, trial, common)
            row |= {"status": "ok", "cause": None, "cause_kind": None}
        else:
            seen, long = _failure(record.status), {}
    except ParseError as error:
        seen, long = _failure("failed"), {}
        if again:
            row |= {"cause": str(error), "cause_kind": error.failure.cause}
        else:
            unreadable = str(error)
            # Whoever writes a parser needs its line.
            log.debug("%s: %s", row["raw"], unreadable, exc_info=error.__cause__)
    head = {"study": record.study, "family": record.family, **common}
    rows["observations"] = [head | row for row in seen]
    return rows, long, unreadable


def _load(folder: Path, entry: Mapping[str, Any]) -> StoredTrial:
    if not folder.is_dir():
        raise BenchstudyError(
            f"{folder}: session.json names this trial, but its folder is gone; restore it, or remove session.json and "
            f"run {hints.snakemake()}, which lists what exists"
        )
    trial = load_trial(folder)
    stored = {file["name"]: file["sha256"] for file in entry["files"]}
    for file in trial.files:
        if stored.get(file.name) != file.sha256:
            raise BenchstudyError(f"{folder / file.name}: its SHA-256 differs from the one in session.json")
    return trial


def table_of(schema: Mapping[str, str], common: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of a family's long table, with the `common` columns first."""
    own = pl.DataFrame([dict(row) for row in rows], schema={name: getattr(pl, kind) for name, kind in schema.items()})
    # An expression would start polars' engine for each of a hundred thousand small tables.
    keys = [
        pl.Series(name, [common.get(name)], dtype=OBSERVATIONS[name]).new_from_index(0, own.height)
        for name in TRIAL_COLUMNS
    ]
    return pl.DataFrame([*keys, *own])


def _parse(
    family: Family, trial: StoredTrial, common: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, pl.DataFrame]]:
    """The observations of a trial, and its long tables. Raises ParseError."""
    parsed = family.parse(trial.record.levels, trial.folder)
    rows = [{"metric": o.metric, "value": o.value, "unit": o.unit, "status": "ok"} for o in parsed.observations]
    # As Python objects, the rows of a thousand trials would take gigabytes.
    with damaged("its rows make no table"):
        return rows, {
            name: table_of(family.series_schemas[name], common, long_rows)
            for name, long_rows in parsed.series.items()
            if long_rows
        }


def _failure(status: str) -> list[dict[str, Any]]:
    """A failure as a row with a null value: never a zero, never absent."""
    return [{"metric": FAILED, "value": None, "unit": "1", "status": status}]


def _trial_row(root: Path, trial: StoredTrial) -> dict[str, Any]:
    """The row of a trial, without what the index says about it."""
    record = trial.record
    first, last = (record.commands[0], record.commands[-1]) if record.commands else (None, None)
    return {
        "trial": trial.short,
        "target": record.target,
        "case": record.case,
        "block": record.block,
        "position": record.position,
        "status": record.status,
        "cause": record.cause,
        "cause_kind": record.failure and record.failure.cause,
        # If an output has no times, the record has the time of its import.
        "started": None if record.started == record.verified.get("imported") else record.started,
        "duration_s": record.duration_s,
        "argv": "\n".join(shlex.join(command.argv) for command in record.commands)
        or record.verified.get("command", ""),
        # Not resolved: data/raw may be a link to another disk.
        "raw": trial.folder.relative_to(root).as_posix(),
        "raw_files": json.dumps([file._asdict() for file in trial.files]),
        # An imported trial has both in its record.
        "tool": first.tool.name if first else record.verified.get("tool"),
        "tool_version": first.tool.version if first else record.verified.get("tool_version"),
        "tool_sha256": first.tool.sha256 if first else None,
        "programs": json.dumps(record.programs),
        "study_sha256": record.study_sha256,
        "session": record.session,
        "instrument": record.instrument,
        "imported": record.imported_from is not None,
        "load_before": first.load_before if first else None,
        "load_after": last.load_after if last else None,
        "verified": json.dumps(record.verified, default=str),
    }


def _disturbance(trial: StoredTrial, policy: "DisturbancePolicy") -> dict[str, Any]:
    """`disturbed` is null if nobody measured it."""
    seen = disturbances.seen(trial)
    worst = interference.worst(seen)
    return {
        "disturbed": None if worst is None else policy.disturbed(seen) is not None,
        "disturbance": None if worst is None else json.dumps(asdict(worst) | {"limit": policy.limit}),
    }


def _host_rows(trial: StoredTrial, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What others did on each host. Raises ParseError for impossible counters."""
    with damaged(interference.FILE):
        return [
            {**common, "host": host, "metric": name, "unit": interference.METRICS[name].unit, "value": float(value)}
            for host, values in disturbances.values(trial).items()
            for name, value in values.items()
        ]
