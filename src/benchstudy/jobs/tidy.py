"""Raw to tidy: the trials that session.json names, as Parquet tables (see docs/design.md for the columns)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from benchstudy.jobs import madetables
from benchstudy.jobs.parts import SCHEMAS, TRIALS, Part, Parts, parquet_of, table_of
from benchstudy.measuring.sealed import read_index
from benchstudy.model import hints, paths, registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Case, Family

if TYPE_CHECKING:
    from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")


def tidy_family(root: Path, plans: Sequence["SessionPlan"], output: Path) -> None:
    """Write observations, cases, trials and the family's series as Parquet below `output`.

    `plans`: of one family, one a target; their `session.json` files are read. The cases are those of the study, in its
    order, whether there is a trial of them or not, and after them what else was measured or imported.
    Discarded and aborted trials are in `trials` but give no observation. Only what no part has yet is parsed. Raises
    CorruptTrial when a raw file of that is not the one that was stored: no report is made of altered data.
    """
    family, study = plans[0].family, plans[0].study.study
    parts = Parts(root, paths.parts(root, study, plans[0].family_name), family)
    tables = _Tables(family)
    cases = {(plan.target, case.id): _case_row(family, plan.target, case) for plan in plans for case in plan.cases}
    for plan in plans:
        index_path = paths.session_index(root, study, plan.target, plan.family_name)
        index = read_index(index_path)
        if index is None:
            raise BenchstudyError(f"{index_path}: is missing or damaged; {hints.snakemake()} makes it again")
        discarded = {entry["uuid"]: entry["why"] for entry in index["discarded"]}
        of_target = [
            parts.part(plan, index_path.parent, entries, discarded) for entries in _by_session(index["trials"])
        ]
        levels = {case: found for part in of_target for case, found in part.levels.items()}
        for entry in index["trials"]:
            if (plan.target, entry["case"]) not in cases and entry["case"] in levels:
                case = Case(levels[entry["case"]])
                cases[plan.target, entry["case"]] = _case_row(family, plan.target, case)
        tables.add(of_target, index)
    tables.others["cases"] = pl.DataFrame(list(cases.values()), infer_schema_length=None)
    if family.metrics != registry.get(family.name).metrics:
        declared = [asdict(metric) for metric in family.metrics.values()]
        tables.others["metrics"] = pl.DataFrame(declared, infer_schema_length=None)
    output.mkdir(parents=True, exist_ok=True)
    for name, table in tables.whole():
        (output / f"{name}.parquet").write_bytes(parquet_of(table))
        log.info("%s: %d rows of %s", family.name, table.height, name)
    madetables.remember(output)
    parts.remove_others()


def _by_session(entries: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Those that one session measured, together; and those of an index that does not say it."""
    found: dict[str | None, list[Mapping[str, Any]]] = {}
    for entry in entries:
        found.setdefault(entry.get("session"), []).append(entry)
    return list(found.values())


class _Tables:
    """Of parts, with their rows in the order of the indexes' trials, whatever part a trial is in."""

    def __init__(self, family: Family):
        none = {name: pl.DataFrame(schema=schema) for name, schema in SCHEMAS.items()}
        none |= {name: table_of(schema, {}, ()) for name, schema in family.series_schemas.items()}
        self._frames = {name: [table] for name, table in none.items()}
        self._ranks = {name: [np.empty(0, np.int64)] for name in none}
        self._trials = 0
        self.others: dict[str, pl.DataFrame] = {}

    def add(self, parts: Sequence[Part], index: Mapping[str, Any]) -> None:
        """Of a target. A discarded trial is a trial, and gives nothing else."""
        discarded = {entry["uuid"]: entry["why"] for entry in index["discarded"]}
        standing = index.get("disturbance", {}).get("repeated", {})
        places = {entry["uuid"]: self._trials + place for place, entry in enumerate(index["trials"])}
        self._trials += len(places)
        for part in parts:
            ranks = np.array([places[uuid] for uuid in part.uuids], np.int64)
            counted = np.where([uuid in discarded for uuid in part.uuids], -1, ranks)
            for name, table in part.tables.items():
                told = _with_index(table, part, discarded, standing) if name == "trials" else table
                self._frames[name].append(told)
                self._ranks[name].append(np.repeat(ranks if name == "trials" else counted, part.rows[name]))

    def whole(self) -> Iterator[tuple[str, pl.DataFrame]]:
        for name, frames in self._frames.items():
            table, ranks = pl.concat(frames, rechunk=True), np.concatenate(self._ranks[name])
            if (ranks < 0).any() or (np.diff(ranks) < 0).any():
                order = np.argsort(ranks, kind="stable")
                table = table[order[np.searchsorted(ranks[order], 0) :]]
            yield name, table
        yield from self.others.items()


def _with_index(
    trials: pl.DataFrame, part: Part, discarded: Mapping[str, str], standing: Mapping[str, str]
) -> pl.DataFrame:
    """What an index says of trials that parts have. One that cannot be read failed, unless it was discarded."""
    for place, (uuid, why) in enumerate(zip(part.uuids, part.unreadable, strict=True)):
        if why is not None and uuid not in discarded:
            # It was read when it was measured, so this parser is at fault or newer, or its files are absurd.
            log.warning("%s: %s", trials["raw"][place], why)
            cause = f"cannot be read: {why}; `benchstudy discard {uuid[:8]} --why …` has it replaced"
            for column, value in {"status": "failed", "cause": cause, "cause_kind": Cause.PARSE.value}.items():
                trials[place, column] = value
    told = {
        "discarded_why": [discarded.get(uuid) for uuid in part.uuids],
        "set_aside": [(standing.get(uuid) or "")[:8] or None for uuid in part.uuids],
    }
    return trials.with_columns(pl.Series(name, values, TRIALS[name]) for name, values in told.items())


def _case_row(family: Family, target: str, case: Case) -> dict[str, Any]:
    return {"target": target, "case": case.id, **case.levels, **family.numbers(case.levels)}
