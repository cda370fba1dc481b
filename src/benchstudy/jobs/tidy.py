"""Raw to tidy: the trials that session.json names, parsed into Parquet tables (see docs/design.md for the columns)."""

import json
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from benchstudy.jobs import madetables
from benchstudy.measuring import disturbances
from benchstudy.measuring.raw import CorruptTrial, StoredTrial, load_trial
from benchstudy.measuring.sealed import read_index
from benchstudy.model import hints, interference, paths, registry
from benchstudy.model.causes import Cause
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Case, Family, ParseError
from benchstudy.model.parsing import damaged

if TYPE_CHECKING:
    from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")

_OBSERVATIONS = {
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
_SERIES_KEYS = ("target", "case", "block", "trial")
_TRIALS = {
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
# What each host of a trial did beside it: `interference.METRICS`, for every family.
_HOSTS = {
    **{name: pl.String for name in ("target", "case", "trial", "host", "metric", "unit")},
    "block": pl.Int64,
    "value": pl.Float64,
}


def tidy_family(root: Path, plans: Sequence["SessionPlan"], output: Path) -> None:
    """Write observations, cases, trials and the family's series as Parquet below `output`.

    `plans`: of one family, one a target; their `session.json` files are read. The cases are those of the study, in its
    order, whether there is a trial of them or not, and after them what else was measured or imported.
    Discarded and aborted trials are in `trials` but give no observation. Raises CorruptTrial when a raw file is not
    the one that was stored: no report is made of altered data.
    """
    family = plans[0].family
    observations: list[dict[str, Any]] = []
    trials: list[dict[str, Any]] = []
    cases = {(plan.target, case.id): _case_row(family, plan.target, case) for plan in plans for case in plan.cases}
    series: dict[str, list[pl.DataFrame]] = {name: [] for name in family.series_schemas}
    hosts: list[dict[str, Any]] = []
    for plan in plans:
        index_path = paths.session_index(root, plan.study.study, plan.target, plan.family_name)
        index = read_index(index_path)
        if index is None:
            raise BenchstudyError(f"{index_path}: is missing or damaged; {hints.snakemake()} makes it again")
        discarded = {entry["uuid"]: entry["why"] for entry in index["discarded"]}
        repeated = index.get("disturbance", {}).get("repeated", {})
        for entry in index["trials"]:
            folder = index_path.parent / entry["path"]
            try:
                trial = _load(folder, entry)
            except CorruptTrial as error:
                if entry["uuid"] not in discarded:
                    raise
                log.warning("discarded, and left out: %s", error)
                continue
            record = trial.record
            row = _trial_row(root, trial, discarded.get(record.uuid))
            trials.append(row | _disturbance(trial, plan.disturbance, repeated.get(record.uuid)))
            case = Case(record.levels)
            cases.setdefault((record.target, record.case), _case_row(family, record.target, case))
            if record.uuid in discarded or record.status == "aborted":
                continue
            common = {"target": record.target, "case": record.case, "block": record.block, "trial": trial.short}
            head = {"study": record.study, "family": record.family, **common}
            try:
                hosts += _host_rows(trial, common)
                rows, long = _parse(family, trial, common)
            except ParseError as error:
                # It was read when it was measured, so this parser is at fault or newer, or its files are absurd.
                log.warning("%s: %s", trial.folder, error)
                cause = f"cannot be read: {error}; `benchstudy discard {trial.short} --why …` has it replaced"
                trials[-1] |= {"status": "failed", "cause": cause, "cause_kind": Cause.PARSE}
                rows, long = _failure("failed"), {}
            observations += [head | row for row in rows]
            for name, table in long.items():
                series[name].append(table)
    output.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(observations, schema=_OBSERVATIONS).write_parquet(output / "observations.parquet")
    pl.DataFrame(trials, schema=_TRIALS).write_parquet(output / "trials.parquet")
    pl.DataFrame(hosts, schema=_HOSTS).write_parquet(output / "hosts.parquet")
    pl.DataFrame(list(cases.values()), infer_schema_length=None).write_parquet(output / "cases.parquet")
    if family.metrics != registry.get(family.name).metrics:
        declared = [asdict(metric) for metric in family.metrics.values()]
        pl.DataFrame(declared, infer_schema_length=None).write_parquet(output / "metrics.parquet")
    for name, schema in family.series_schemas.items():
        pl.concat([_series(schema, {}, ()), *series[name]], rechunk=True).write_parquet(output / f"{name}.parquet")
    madetables.remember(output)
    log.info("%s: %d trials, %d observations", family.name, len(trials), len(observations))


def _series(schema: Mapping[str, str], common: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of a family's long table, with what all of them have in `common` in front."""
    keys = [pl.lit(common.get(name), dtype=_OBSERVATIONS[name]).alias(name) for name in _SERIES_KEYS]
    return pl.DataFrame([dict(row) for row in rows], schema=_types(schema)).select(*keys, pl.all())


def _types(schema: Mapping[str, str]) -> dict[str, Any]:
    return {column: getattr(pl, type_name) for column, type_name in schema.items()}


def _load(folder: Path, entry: Mapping[str, Any]) -> StoredTrial:
    if not folder.is_dir():
        raise BenchstudyError(
            f"{folder}: session.json names this trial, but its folder is gone; restore it, or remove session.json and "
            f"run {hints.snakemake()}, which lists what there is"
        )
    trial = load_trial(folder)
    stored = {file["name"]: file["sha256"] for file in entry["files"]}
    for file in trial.files:
        if stored.get(file.name) != file.sha256:
            raise BenchstudyError(f"{folder / file.name}: its SHA-256 differs from the one in session.json")
    return trial


def _parse(
    family: Family, trial: StoredTrial, common: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, pl.DataFrame]]:
    """What a trial says: observations, and its long tables. Raises ParseError."""
    if trial.record.status != "ok":
        return _failure(trial.record.status), {}
    parsed = family.parse(trial.record.levels, trial.folder)
    rows = [{"metric": o.metric, "value": o.value, "unit": o.unit, "status": "ok"} for o in parsed.observations]
    # As rows in Python, those of a thousand trials would take gigabytes.
    with damaged("its rows make no table"):
        return rows, {
            name: _series(family.series_schemas[name], common, long_rows) for name, long_rows in parsed.series.items()
        }


def _failure(status: str) -> list[dict[str, Any]]:
    """A failure is a row with a null value: never a zero, never absent."""
    return [{"metric": "trial", "value": None, "unit": "1", "status": status}]


def _case_row(family: Family, target: str, case: Case) -> dict[str, Any]:
    return {"target": target, "case": case.id, **case.levels, **family.numbers(case.levels)}


def _trial_row(root: Path, trial: StoredTrial, discarded_why: str | None) -> dict[str, Any]:
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
        # Of an output that does not tell it, the record has when it was imported.
        "started": None if record.started == record.verified.get("imported") else record.started,
        "duration_s": record.duration_s,
        "argv": "\n".join(shlex.join(command.argv) for command in record.commands)
        or record.verified.get("command", ""),
        "raw": str(trial.folder.resolve().relative_to(root.resolve())),
        "raw_files": json.dumps([file._asdict() for file in trial.files]),
        # What was imported tells both in its record.
        "tool": first.tool.name if first else record.verified.get("tool"),
        "tool_version": first.tool.version if first else record.verified.get("tool_version"),
        "tool_sha256": first.tool.sha256 if first else None,
        "study_sha256": record.study_sha256,
        "session": record.session,
        "instrument": record.instrument,
        "imported": record.imported_from is not None,
        "discarded_why": discarded_why,
        "load_before": first.load_before if first else None,
        "load_after": last.load_after if last else None,
        "verified": json.dumps(record.verified, default=str),
    }


def _disturbance(trial: StoredTrial, policy: DisturbancePolicy, standing: str | None) -> dict[str, Any]:
    """`disturbed` is null where nobody looked. `set_aside`: the trial that stands in its place, if one was repeated."""
    seen = disturbances.seen(trial)
    worst = interference.worst(seen)
    return {
        "disturbed": None if worst is None else policy.disturbed(seen) is not None,
        "disturbance": None if worst is None else json.dumps(asdict(worst)),
        "set_aside": standing and standing[:8],
    }


def _host_rows(trial: StoredTrial, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Raises ParseError for counters that cannot be a host's."""
    with damaged(interference.FILE):
        return [
            {**common, "host": host, "metric": name, "unit": interference.METRICS[name].unit, "value": float(value)}
            for host, values in disturbances.values(trial).items()
            for name, value in values.items()
        ]
