"""Reads the records of sessions, which say how a family was measured: order, hosts, environment, events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchstudy.measuring.sealed import read_index
from benchstudy.model import paths
from benchstudy.model.differences import environment_diff
from benchstudy.report import human


def read_indexes(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the `session.json` files that exist, each with its path as `file`.

    Without their lists of `trials`: those are in the tables, and of a thousand targets they take a gigabyte. Sessions
    that declare the same families share one copy of them. Of changes of a host that were cut to the same text, its
    facts tell again what differs. A host that was lost has not changed: its state afterwards is unknown.
    """
    found, declared = [], dict[str, Any]()
    for path in files:
        if (index := read_index(path)) is None:
            continue
        for session in index["sessions"]:
            study, own = session.get("study_sha256", ""), session.get("declared", {})
            if "families" in own and own["families"] == declared.setdefault(study, own["families"]):
                own["families"] = declared[study]
            for host in session["hosts"].values():
                if not host.get("after"):
                    host["diff"] = ["unknown after the session"]
                elif any("…" in change for change in host.get("diff") or ()):
                    host["diff"] = environment_diff(host["before"], host["after"])
        found.append({"file": path} | {name: value for name, value in index.items() if name != "trials"})
    return found


def family_indexes(root: Path, study: str, family: str, targets: Iterable[str]) -> list[dict[str, Any]]:
    """The indexes of one family on these targets. Raw files of others, which the study had once, say nothing of it."""
    return read_indexes(paths.session_index(root, study, target, family) for target in sorted(targets))


def declared(indexes: Sequence[Mapping[str, Any]], family: str) -> Mapping[str, Any]:
    """A family's block of the study in the latest session that has one; empty if there is none."""
    found = sorted((s for index in indexes for s in index["sessions"]), key=lambda s: s["started"], reverse=True)
    blocks = (session["declared"].get("families", {}).get(family) for session in found)
    return next((block for block in blocks if block), {})


def environments(index: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (host, {before, after, diff}) of every session of an index, the earliest session first."""
    for session in index["sessions"]:
        yield from session["hosts"].items()


def cores(facts: Mapping[str, Any] | None) -> int | None:
    """The number of processors that a host's programs may use; None if its facts do not tell."""
    count = (facts or {}).get("cpus_allowed")
    return int(count) if count else None


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The `host_lines` by name in which two hosts differ: name and both texts."""
    both = [(name, *(of.get(name, "unknown") for of in (before, after))) for name in dict.fromkeys([*before, *after])]
    return [(name, a, b) for name, a, b in both if a != b]


def host_texts(seen: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, dict[str, list[str]]]:
    """Each host's `host_lines` over several sessions: host, name, and each text once. `seen`: as in `environments`."""
    found: dict[str, dict[str, list[str]]] = {}
    for host, environment in seen:
        own = found.setdefault(host, {})
        for name, text in host_lines(environment.get("before")):
            own[name] = list(dict.fromkeys([*own.get(name, ()), text]))
    return found


def host_lines(facts: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The facts by which a reader compares hosts, as pairs (name, text). Unknown ones are left out."""
    facts = facts or {}
    lscpu, system = facts.get("lscpu") or {}, facts.get("os_release") or {}
    memory = facts.get("memory_total_bytes")
    lines = [
        ("System", system.get("PRETTY_NAME")),
        ("Kernel", (facts.get("kernel") or {}).get("release")),
        ("Machine", facts.get("machine")),
        ("Processor", lscpu.get("Model name")),
        ("Processors allowed", cores(facts)),
        ("Memory", human.quantity(memory, "B") if memory else None),
        ("Virtualisation", facts.get("virtualisation")),
        ("Frequency governor", ", ".join(facts.get("governor") or ())),
        ("Control groups", f"version {facts['cgroup_version']}" if facts.get("cgroup_version") else None),
    ]
    return [(name, str(text)) for name, text in lines if text]


def moment(iso: str) -> str:
    """An ISO 8601 time in UTC for the reader: "2026-11-20 10:00:00 UTC"."""
    return f"{iso[:10]} {iso[11:19]} UTC" if len(iso) >= 19 else iso


def span(began: str, ended: str) -> str:
    """A period: "2026-11-20 10:00:00 to 10:09:00 UTC". If it ends on another day, both ends have their date."""
    first, last = moment(began), moment(ended)
    if first[:10] == last[:10] and first.endswith(" UTC"):
        last = last[11:]
    return f"{first.removesuffix(' UTC')} to {last}"
