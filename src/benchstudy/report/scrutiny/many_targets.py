"""Summaries of the records of many targets, in a few lines. The page of each target has its complete records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchstudy.report import human
from benchstudy.report.results import sessions

Indexes = Sequence[Mapping[str, Any]]

_MOST_LINES = 40
_MOST_NAMED = 5


def cut(lines: Sequence[str]) -> list[str]:
    """The first lines, and the number of others."""
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"{more:,} more like these."] if more > 0 else list(lines)


def named(targets: Sequence[str]) -> str:
    """The first of them, and how many there are more."""
    return human.listed(targets, _MOST_NAMED)


def session_facts(indexes: Indexes) -> list[tuple[str, str]]:
    """All sessions together, as pairs (name, text): when, how many, and what was noticed on how many targets."""
    held = [(index["target"], session) for index in indexes for session in index["sessions"]]
    if not held:
        return []
    when = sessions.span(min(s["started"] for _, s in held), max(s["finished"] or s["started"] for _, s in held))
    targets = len({target for target, _ in held})
    facts = [
        (
            "Sessions",
            f"{human.plural(len(held), 'session')} on {human.plural(targets, 'target')}, {when}; each in its own "
            "random order. The page of a target has its sessions.",
        )
    ]
    changed = (
        (target, change)
        for target, session in held
        for environment in session["hosts"].values()
        for change in environment.get("diff") or ()
    )
    told = ((target, event.partition(" ")[2] or event) for target, session in held for event in session["events"])
    facts.append(("Environment, before against after", "\n".join(by_targets(changed)) or "no change noticed"))
    return [*facts, ("Events", "\n".join(by_targets(told)))]


def by_targets(told: Iterable[tuple[str, str]]) -> list[str]:
    """Group pairs (target, text) by text, the most frequent first: "kernel.x 1 -> 2 (t1, t2 and 7 more)"."""
    found: dict[str, dict[str, None]] = {}
    for target, text in told:
        found.setdefault(text, {})[target] = None
    often = sorted(found, key=lambda text: -len(found[text]))
    return cut([f"{text} ({named(list(found[text]))})" for text in often])


def unusual(facts: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """For each target, the facts {name: text} in which it differs from most targets, in words."""
    usual = {
        name: Counter(of.get(name, "unknown") for of in facts.values()).most_common(1)[0][0]
        for name in dict.fromkeys(name for of in facts.values() for name in of)
    }
    return {
        target: [
            f"{name} {of.get(name, 'unknown')} (most: {text})"
            for name, text in usual.items()
            if of.get(name, "unknown") != text
        ]
        for target, of in facts.items()
    }


def facts_of_hosts(indexes: Indexes) -> dict[str, dict[str, str]]:
    """For each target, the facts by which a reader compares hosts, of all its hosts together."""
    found: dict[str, dict[str, str]] = {}
    for index in indexes:
        for _, environment in sessions.environments(index):
            for name, text in sessions.host_lines(environment.get("before")):
                found.setdefault(index["target"], {}).setdefault(name, text)
    return found
