"""Reader of hyperfine's JSON export. Pure."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchstudy.families.shared.files import as_number, damaged, read_json, read_text
from benchstudy.model.family import Observation, Parsed, ParseError

_BEGINNING = re.compile(r'\s*\{\s*"results"\s*:\s*\[\s*\{\s*"command"\s*:')
_AGREEING, _AGREEING_S = 1e-6, 1e-9  # floats are written whole
FILE, PART = "hyperfine.json", "part.json"  # the whole export, and the number of a trial's result in it


def results(text: str) -> list[dict[str, Any]] | None:
    """Return the results in an export; None if the text is not from hyperfine. Raises ParseError if it is cut off."""
    try:
        document = json.loads(text)
    except ValueError as error:
        if len(_BEGINNING.findall(text)) > 1:
            raise ParseError("several exports of hyperfine are in one text: give each a file of its own") from error
        if _BEGINNING.match(text):
            raise ParseError(f"hyperfine's export is truncated or damaged: {error}; export it again") from error
        return None
    found = document.get("results") if isinstance(document, Mapping) else None
    known = isinstance(found, list) and all(isinstance(r, Mapping) and {"command", "times"} <= r.keys() for r in found)
    return found if known else None


@damaged("hyperfine's export is damaged")
def check(result: Mapping[str, Any]) -> None:
    """Raise ParseError if the summary of a command contradicts its times."""
    times = [float(as_number(time, "a time")) for time in result["times"]]
    for name, of_times in (("mean", fmean), ("median", median), ("min", min), ("max", max)) if times else ():
        told, found = result.get(name), of_times(times)
        if told is not None and abs(float(told) - found) > _AGREEING_S + _AGREEING * abs(found):
            raise ParseError(
                f"hyperfine's export: inconsistent: the {name} of {result['command']!r} is {told:g} s, and that of its "
                f"times is {found:g} s; export it again"
            )


def parse(files: Path) -> Parsed:
    """Parse one trial, which is one command that hyperfine ran several times. Raises ParseError."""
    found = results(read_text(files / FILE))
    if found is None:
        raise ParseError(f"{FILE} is not an export of hyperfine")
    with damaged(f"{FILE}"):
        return _parsed(found[read_json(files / PART)["result"]])


def _parsed(result: Mapping[str, Any]) -> Parsed:
    times = [float(as_number(time, "a time")) for time in result["times"]]
    memory = [as_number(size, "a peak of memory") for size in result.get("memory_usage_byte") or []]
    if not times:
        raise ParseError(f"{FILE}: {result['command']} has no times: export them with --export-json")
    found = [Observation("wall_time", median(times), "s")]
    # For these, hyperfine exports only means.
    found += [
        Observation(name, float(as_number(result[key], key)), "s")
        for name, key in (("user_time", "user"), ("system_time", "system"))
        if result.get(key) is not None
    ]
    if memory:
        found.append(Observation("peak_memory", float(median(memory)), "B"))
    if len(times) > 1:
        found.append(Observation("first_run", times[0], "s"))
    found.append(Observation("runs", float(len(times)), "1"))
    rows = [{"run": n, "wall_s": time, "user_s": None, "system_s": None} for n, time in enumerate(times, start=1)]
    return Parsed(found, {"runs": rows, "samples": []})
