"""`benchstudy cases`: the cases of a study, the results of each, and their precision."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchstudy.model import paths
from benchstudy.model.grouping import grouped
from benchstudy.model.output import print_json
from benchstudy.model.rounding import plural
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import load_study


def print_cases(arguments: argparse.Namespace) -> int:
    """`benchstudy cases`. Returns the exit status."""
    study = load_study(arguments.study)
    sessions = [_session(plan) for plan in study.sessions()]
    if arguments.json:
        print_json({"study": study.study, "sessions": sessions})
    else:
        print(*(line for session in sessions for line in _lines(session)), sep="\n")
    return 0


def from_to(fewest: int, most: int, noun: str) -> str:
    """Two numbers as a range: `6 to 30 blocks`, or `1 block` if both are the same."""
    return plural(most, noun) if fewest == most else f"{fewest:,} to {plural(most, noun)}"


def _session(plan: SessionPlan) -> dict[str, Any]:
    from benchstudy.measuring import confirmed, reread
    from benchstudy.measuring.raw import TrialStore
    from benchstudy.measuring.sealed import read_index

    root = paths.project_root()
    store = TrialStore(plan.raw(root))
    confirmed.confirm(root, [store.folder])  # without it, a lost trial would only be missing in the list
    discarded = store.discards()
    trials = [trial for trial in store.trials() if trial.facts.uuid not in discarded]
    stopping = (read_index(store.index) or {}).get("stopping") or {}
    measured = grouped((trial.facts.case, trial) for trial in trials)
    planned = {case.id: dict(case.levels) for case in plan.cases}
    others = {case: of_case[0].record.levels for case, of_case in measured.items() if case not in planned}
    cases = [
        {
            "case": case,
            "levels": levels,
            "planned": case in planned,
            "results": Counter(reread.status(plan.family, trial) for trial in measured.get(case, ())),
            "imported": sum(trial.facts.imported_from is not None for trial in measured.get(case, ())),
            "known": [known for known in stopping.get("known", ()) if known["case"] == case],
        }
        for case, levels in (planned | others).items()
    ]
    return {
        "family": plan.family_name,
        "target": plan.target,
        "blocks": {"min": plan.fewest_blocks, "max": plan.blocks},
        "until": plan.stopping.until if plan.stopping else None,
        "blocks_apart_s": plan.blocks_apart_s,
        "verdict": stopping.get("verdict") or None,
        "cases": cases,
    }


def _lines(session: Mapping[str, Any]) -> Iterator[str]:
    from benchstudy.measuring.looks import Known

    until = f" until every case is known to ±{100 * session['until']:g} %" if session["until"] else ""
    blocks = f"{from_to(session['blocks']['min'], session['blocks']['max'], 'block')}{until}"
    apart = f", started at least {session['blocks_apart_s']:g} s apart" if session["blocks_apart_s"] else ""
    what = f", {blocks}{apart}" if any(case["planned"] for case in session["cases"]) else ""
    yield f"{session['family']} on {session['target']}: {plural(len(session['cases']), 'case')}{what}"
    for case in session["cases"]:
        counts = [f"{count} {status}" for status, count in case["results"].items()]
        known = [Known(**known).reached for known in case["known"]]
        imported = [f"{case['imported']} imported"] if case["imported"] else []
        gone = [] if case["planned"] or imported else ["not in the study any more"]
        yield f"  {case['case']}  " + (", ".join([*counts, *known, *imported, *gone]) or "-")
    if session["verdict"]:
        yield f"  {session['verdict']}"
