"""The index `session.json` of a target and family: every trial with its files' SHA-256, every session and discard."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from benchstudy.measuring import looks
from benchstudy.measuring.giving_up import given_up
from benchstudy.measuring.raw import NOT_HELD, TrialStore, record_of
from benchstudy.measuring.schedule import adopt, missing_trials, results, set_aside, standing
from benchstudy.measuring.sealed import read_index
from benchstudy.measuring.storedtrials import StoredTrial, in_order
from benchstudy.model.errors import SessionFailed
from benchstudy.model.files import as_json, write_atomically
from benchstudy.model.study import SessionPlan


def write_index_only(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial]) -> None:
    """Write the index without holding a session: if it was damaged, or trials were imported. Raises CorruptTrial."""
    write_index(plan, store, trials, unheld(plan, store, trials))


def unheld(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial]) -> str | None:
    """Why a session has to be held for these trials; None if it has everything in the plan. Raises CorruptTrial.

    NOT_HELD if trials are missing, or the look that would end an adaptive session.
    """
    try:
        held = not missing_trials(plan, store, trials)
        if held and plan.stopping:
            adopted, taken = adopt(plan, trials, store.discards()), store.looks()
            valid = (looks.find_look(taken, plan, look["blocks"], adopted) for look in taken)
            held = any(look and looks.enough(look, plan, plan.stopping) for look in valid)
    except SessionFailed as error:  # a case was described anew
        return str(error)
    return None if held else NOT_HELD


def is_held(root: Path, plan: SessionPlan) -> bool:
    """Whether a session's index says that it has everything in the plan. Reads no trial."""
    store = TrialStore(plan.raw(root))
    index = read_index(store.index)
    if index is None or index["problem"] or index.get("plan") != plan.digest or plan.config.import_only:
        return False
    if index.get("roles", plan.roles) != plan.roles:  # the trials may be of other hosts
        return False
    return {entry["uuid"] for entry in index["discarded"]} == store.discards().keys()


def write_index(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial], problem: str | None) -> Path:
    """Write `session.json`: every trial with the SHA-256 of each of its files, every session, every discard."""
    listed = []
    for trial in in_order(trials):
        facts = trial.facts
        listed.append(
            {
                "uuid": facts.uuid,
                "case": facts.case,
                "block": facts.block,
                "position": facts.position,
                "session": facts.session,
                "status": facts.status,
                "cause": facts.cause,
                "path": f"{trial.folder.parent.name}/{trial.folder.name}",  # ten times as fast as pathlib finds it
                # A third of the time that `_asdict` takes.
                "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in trial.files],
            }
        )
    discards = store.discards()
    try:
        found, taken = results(plan, trials, discards), store.looks() if plan.stopping else []
    except SessionFailed:  # a case was described anew, and the index says so already
        found, taken = {}, []
    sessions = [_session(path) for path in store.folder.glob("sessions/[!.]*/session.json")]
    index = {
        "schema_version": 1,
        "study": plan.study.study,
        "target": plan.target,
        "family": plan.family_name,
        "study_sha256": plan.study.sha256,
        "plan": plan.digest,
        "roles": dict(plan.roles),
        "problem": problem,
        "stopping": looks.course(plan, taken, standing(plan, found)),
        "sessions": sorted(sessions, key=lambda s: s["started"]),
        "trials": listed,
        "disturbance": {**plan.disturbance.model_dump(mode="json"), "repeated": set_aside(plan, found)},
        "discarded": [vars(d) for d in discards.values()],
        "given_up": [vars(case) for case in given_up(plan, found).values()],
    }
    write_atomically(store.index, _as_json(index))
    return store.index


def _as_json(index: Mapping[str, Any]) -> str:
    """The same text as `as_json`, which would take seconds for the files of ten thousand trials."""
    try:
        return orjson.dumps(index, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    except TypeError:  # output of a tool that is not Unicode
        return as_json(index)


def _session(path: Path) -> dict[str, Any]:
    return record_of(path, "the record of a session", "uuid", "started")
