"""The first page of a study with a thousand targets, in as many rows as for a few."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.scrutiny.many_targets import by_targets, named

MOST_CAUSES = 5  # of the failures of a case
_MOST_SET_ASIDE = 200


def alike(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group hosts that have the same `lines`, the largest group first. A group shows the facts of its first host."""
    groups = grouped((tuple(host["lines"]), host) for host in hosts)
    return [_group(of) for of in sorted(groups.values(), key=len, reverse=True)]


def _group(hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = hosts[0]
    if len(hosts) == 1:
        return dict(first)
    names = [host["name"] for host in hosts]
    changes = by_targets((host["name"], change) for host in hosts for change in host["changes"])
    name = f"{len(hosts):,} hosts alike: {named(names)}"
    facts = f"Example: facts of {names[0]}\n{first['facts']}"
    return {"name": name, "changes": changes, "lines": first["lines"], "facts": facts}


def on_targets(targets: Sequence[str]) -> str:
    """On how many targets something happened, and the names of the first ones."""
    return f"on {human.plural(len(targets), 'target')}: {named(targets)}"


def set_aside(rows: Sequence[dict[str, Any]], page: str) -> list[dict[str, Any]]:
    """The first `rows`, and one row that says how many more there are. `page` is the address of the family's page."""
    more = len(rows) - _MOST_SET_ASIDE
    rest = {"trial": f"{more:,} more", "case": "", "what": "each is on the page of its target", "href": page}
    return [*rows[:_MOST_SET_ASIDE], *([rest] if more > 0 else [])]


def held(pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One row per family, made from pairs (index, session). The page of each target lists its own sessions."""
    families = grouped((index["family"], (index["target"], session)) for index, session in pairs)
    return [_held(family, of_family) for family, of_family in families.items()]


def _held(family: str, of_family: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    began = min(session["started"] for _, session in of_family)
    ended = max(session["finished"] or session["started"] for _, session in of_family)
    events = ((target, event.partition(" ")[2]) for target, session in of_family for event in session["events"])
    return {
        "family": family,
        "target": human.plural(len({target for target, _ in of_family}), "target"),
        "uuid": human.plural(len(of_family), "session"),
        "seed": "one per session",
        "when": sessions.span(began, ended),
        "controller": ", ".join(dict.fromkeys(session["controller"] for _, session in of_family)),
        "events": by_targets(events),
    }
