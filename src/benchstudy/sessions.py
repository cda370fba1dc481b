"""What the sessions' own records say about how a family was measured: order, hosts, environment, events."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read_indexes(paths: list[Path]) -> list[dict[str, Any]]:
    """The `session.json` files that exist; one that is not there yet has nothing to say."""
    return [json.loads(path.read_text()) for path in paths if path.is_file()]


def family_indexes(root: Path, study: str, family: str) -> list[dict[str, Any]]:
    """The indexes of one family on every target of a study."""
    return read_indexes(sorted((root / "data" / "raw" / study).glob(f"*/{family}/session.json")))


def hosts(index: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(host, {before, after, diff}) of every session of an index, the earliest session first."""
    for session in index["sessions"]:
        yield from session["hosts"].items()


def cores(facts: Mapping[str, Any] | None) -> int | None:
    """How many processors the host had, when its facts tell."""
    count = (facts or {}).get("cpu", {}).get("online")
    return int(count) if count else None


def environment_lines(facts: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The facts a reader compares hosts by: (name, text). What the host did not tell is left out."""
    return list(_walk(facts or {}))


def _walk(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _walk(value, f"{name} {key}".strip().replace("_", " "))
    elif isinstance(node, list):
        texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in node]
        if texts:
            yield name, "\n".join(texts)
    elif node not in (None, ""):
        yield name, str(node)
