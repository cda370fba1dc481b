"""Differences in how two studies measured a family: sessions, hosts, tools, declarations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from benchstudy.model.differences import Difference, differences, of_environments
from benchstudy.report.comparisons.study_pair import FamilyPair, Side
from benchstudy.report.results import sessions
from benchstudy.report.scrutiny import disturbed


def conditions(pair: FamilyPair) -> Iterator[tuple[str, str, str]]:
    """Yield (what, base, other) for each difference in how the two were measured."""
    several = len(pair.targets) > 1
    for mine, its in pair.targets.items():
        where = f" on {mine}" if several else ""
        held = [pair.base.sessions(mine), pair.other.sessions(its)]
        mine_was, its_was = ("\n".join(map(_named, of)) or "unknown" for of in held)
        yield f"Session{where}", mine_was, its_was
        for role, facts in _hosts_by_role(held, (mine, its)).items():
            for name, was, now in sessions.differing(*map(_texts, facts)):
                yield f"{name} of {role}{where}", was, now
    for name, columns in (("Measuring code", ["instrument"]), ("Tools", ["tool", "tool_version", "tool_sha256"])):
        both = [_listed(side.results.counted, columns) for side in (pair.base, pair.other)]
        if both[0] != both[1]:
            yield name, both[0], both[1]


def facts(pair: FamilyPair) -> list[Difference]:
    """All host facts of the latest sessions that differ, except those that change by themselves."""
    found = []
    for mine, its in pair.targets.items():
        held = [pair.base.sessions(mine)[-1:], pair.other.sessions(its)[-1:]]
        for role, ((before,), (after,)) in _hosts_by_role(held, (mine, its)).items():
            found += [replace(d, name=f"{role}: {d.name}") for d in of_environments(before, after)]
    return found


def declarations(pair: FamilyPair) -> list[Difference]:
    """The differences between the declarations of this family, the blocks, the seed and the margins."""
    mine, its = (_declared(side, pair.family) for side in (pair.base, pair.other))
    return list(differences(mine, its))


def _named(session: Mapping[str, Any]) -> str:
    return f"{sessions.moment(session['started'])}, {session['uuid'][:8]}"


def _texts(facts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The `host_lines` of a role's host by name; each text once if sessions differ."""
    found: dict[str, dict[str, None]] = {}
    for of_session in facts:
        for name, text in sessions.host_lines(of_session):
            found.setdefault(name, {})[text] = None
    return {name: "\n".join(texts) for name, texts in found.items()}


def _hosts_by_role(
    held: Sequence[Sequence[Mapping[str, Any]]], targets: Sequence[str]
) -> dict[str, list[list[Mapping[str, Any]]]]:
    """Map each role that both studies have to the facts of its host, session by session, in each of the two."""
    facts: list[dict[str, list[Mapping[str, Any]]]] = [{}, {}]
    for by_role, of_study, target in zip(facts, held, targets, strict=True):
        for session in of_study:
            hosts = {name: environment.get("before") or {} for name, environment in session.get("hosts", {}).items()}
            roles = session.get("declared", {}).get("targets", {}).get(target, {}).get("roles", {})
            # If the record has no roles, a single host needs none.
            own = {role: hosts.get(host, {}) for role, host in roles.items()}
            for role, found in (own or dict(zip(["host"], hosts.values(), strict=False))).items():
                by_role.setdefault(role, []).append(found)
    return {role: [facts[0][role], facts[1][role]] for role in facts[0] if role in facts[1]}


def _declared(side: Side, family: str) -> dict[str, Any]:
    """The family's block in the latest session, and the other keys that decide how it was measured."""
    held = sorted((s for index in side.indexes for s in index["sessions"]), key=lambda session: session["started"])
    declared = held[-1]["declared"] if held else {}
    names = ("seed", "blocks", "until", "blocks_apart", "give_up_after", "thresholds")
    general: dict[str, Any] = {name: declared.get(name) for name in names}
    if held:
        applied = side.results.disturbed_beyond
        general["disturbance"] = disturbed.policy(held[-1], family) | ({} if applied is None else {"limit": applied})
    return {**general, family: declared.get("families", {}).get(family, {})}


def _listed(counted: pl.DataFrame, columns: Sequence[str]) -> str:
    rows = counted.select(columns).unique().sort(columns).iter_rows()
    return "\n".join(
        " ".join(str(part)[: 12 if len(str(part)) == 64 else None] for part in row if part) for row in rows
    )
