"""Makes Parquet tables from the trials that session.json names (see docs/design.md for the columns)."""

import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from benchstudy.jobs import made
from benchstudy.jobs.parts import SCHEMAS, TRIALS, Part, Parts, frames, table_of
from benchstudy.measuring.sealed import read_index
from benchstudy.model import hints, paths, registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Case, Family
from benchstudy.model.grouping import grouped

if TYPE_CHECKING:
    from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")

_DIGITS = 8  # of a uuid, in the table of a part


def tidy_family(root: Path, plans: Sequence["SessionPlan"], output: Path) -> None:
    """Write observations, cases, trials and the family's series as Parquet below `output`.

    `plans`: of one family, one per target; their `session.json` files are read. The cases are those of the study, in
    its order, even without a trial, followed by others that were measured or imported.
    Discarded and aborted trials are in `trials` but give no observation. Parses only what no part has yet. Raises
    CorruptTrial if a raw file of these was altered: no report is made from altered data.
    """
    family, study = plans[0].family, plans[0].study.study
    parts = Parts(root, paths.parts(root, study, plans[0].family_name), family)
    cases = {(plan.target, case.id): _case_row(family, plan.target, case) for plan in plans for case in plan.cases}
    indexes = [plan.raw(root) / paths.SESSION_INDEX for plan in plans]
    read = made.state(filter(Path.exists, indexes), below=root)
    tables = _Tables(family)
    for plan, index_path in zip(plans, indexes, strict=True):
        index = read_index(index_path)
        if index is None:
            raise BenchstudyError(f"{index_path}: missing or damaged; {hints.snakemake()} makes it again")
        discarded = {entry["uuid"]: entry["why"] for entry in index["discarded"]}
        levels: dict[str, dict[str, str]] = {}
        for entries in _by_session(index["trials"]):
            part = parts.part(plan, index_path.parent, entries, discarded)
            levels |= part.levels
            tables.add(part, discarded, index.get("disturbance", {}).get("repeated", {}))
        for name in sorted(levels):
            if (plan.target, name) not in cases:
                cases[plan.target, name] = _case_row(family, plan.target, Case(levels[name]))
    if not cases:
        raise BenchstudyError(
            f"families.{family.name}: nothing was imported yet: {hints.benchstudy('import', '…')} imports outputs; or "
            "take the family out of the study"
        )
    tables.others["cases"] = pl.DataFrame(list(cases.values()), infer_schema_length=None)
    if family.metrics != registry.get(family.name).metrics:
        declared = [asdict(metric) for metric in family.metrics.values()]
        tables.others["metrics"] = pl.DataFrame(declared, infer_schema_length=None)
    output.mkdir(parents=True, exist_ok=True)
    for name, table in tables.whole():
        path = output / f"{name}.parquet"
        # Compressed, it has room in memory; written by Python, whose errors say that a disk is full.
        whole = io.BytesIO()
        table.sink_parquet(whole)
        path.write_bytes(whole.getvalue())
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        log.info("%s: %d rows of %s", family.name, rows, name)
    made.remember(paths.read_for_tables(output), read)
    made.remember(paths.made_tables(output), made.state(output.glob("*.parquet"), below=output))
    parts.remove_others()


def short_names(uuids: Iterable[str]) -> dict[str, str]:
    """What each trial is called in tables and on pages: how its uuid begins, as far as that is of no other one.

    Eight digits mostly; of 100,000 trials one pair has them in common.
    """
    listed = sorted(uuids)
    alike = [0, *(len(commonprefix(pair)) for pair in pairwise(listed)), 0]  # noqa: RUF071  of texts, as it does
    return {
        uuid: uuid[: max(_DIGITS, before + 1, after + 1)]
        for uuid, before, after in zip(listed, alike, alike[1:], strict=False)
    }


def _by_session(entries: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Entries grouped by session; those of an index without sessions form one group."""
    return list(grouped((entry.get("session"), entry) for entry in entries).values())


class _Tables:
    """Tables from parts, one below the other: by target and session, then in the order of the index's trials.

    Nothing is sorted, so the files of parts are read when a table is written, and no earlier.
    """

    def __init__(self, family: Family):
        none = {name: pl.DataFrame(schema=schema) for name, schema in SCHEMAS.items()}
        none |= {name: table_of(schema, {}, ()) for name, schema in family.series_schemas.items()}
        self._tables: dict[str, list[Path | pl.DataFrame]] = {name: [table] for name, table in none.items()}
        self._rows: dict[str, list[tuple[str, int]]] = {name: [] for name in none}  # by table: uuids, numbers of rows
        self._uuids = list[str]()
        self.others: dict[str, pl.DataFrame] = {}

    def add(self, part: Part, discarded: Mapping[str, str], standing: Mapping[str, str]) -> None:
        """Add a part. A discarded trial gives a row in `trials` and nothing else."""
        self._uuids += part.uuids
        aside = discarded.keys() & set(part.uuids)
        for name, table in part.tables.items():
            rows = part.rows[name]
            if name == "trials":
                table = _with_index(frames([table]).collect(), part, discarded, standing)
            elif aside:
                stand = np.array([uuid not in aside for uuid in part.uuids])
                table = frames([table]).collect().filter(pl.Series(np.repeat(stand, rows)))
                rows = [0 if uuid in aside else count for uuid, count in zip(part.uuids, rows, strict=True)]
            self._tables[name].append(table)
            self._rows[name] += zip(part.uuids, rows, strict=True)

    @cached_property
    def _names(self) -> dict[str, str]:
        return short_names(self._uuids)

    @cached_property
    def _longer(self) -> bool:
        return any(len(name) > _DIGITS for name in self._names.values())

    def whole(self) -> Iterator[tuple[str, pl.LazyFrame]]:
        for name, tables in self._tables.items():
            table = frames(tables)
            if name == "trials":
                table = table.with_columns(pl.col("set_aside").replace(self._names))
            if self._longer:
                called = [self._names[uuid] for uuid, rows in self._rows[name] for _ in range(rows)]
                table = table.collect().with_columns(pl.Series("trial", called, pl.String)).lazy()
            yield name, table
        yield from ((name, table.lazy()) for name, table in self.others.items())


def _with_index(
    trials: pl.DataFrame, part: Part, discarded: Mapping[str, str], standing: Mapping[str, str]
) -> pl.DataFrame:
    """Add what the index says about trials. A trial that cannot be read counts as failed, unless it was discarded."""
    for place, (uuid, why) in enumerate(zip(part.uuids, part.unreadable, strict=True)):
        if why is not None and uuid not in discarded:
            # It could be read when it was measured, so this parser is wrong or newer, or the files are absurd.
            remedy = "if its files are at fault, `benchstudy discard %s --why …` replaces it"
            log.warning(f"%s: %s; {remedy}", trials["raw"][place], why, uuid[:8])
            # In the same words for each trial: pages count equal causes.
            cause = f"cannot be read: {why}; {remedy % 'TRIAL'}"
            for column, value in {"status": "failed", "cause": cause, "cause_kind": Cause.PARSE.value}.items():
                trials[place, column] = value
    told = {
        "discarded_why": [discarded.get(uuid) for uuid in part.uuids],
        "set_aside": [standing.get(uuid) for uuid in part.uuids],
    }
    return trials.with_columns(pl.Series(name, values, TRIALS[name]) for name, values in told.items())


def _case_row(family: Family, target: str, case: Case) -> dict[str, Any]:
    return {"target": target, "case": case.id, **case.levels, **family.numbers(case.levels)}
