"""Import of existing outputs of load generators: ab's reports with their known options, and summaries of others."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from benchstudy.families.http_concurrency.ab import parse_ab, recognise_ab, split_ab
from benchstudy.families.http_concurrency.ab_result import AbResult, options
from benchstudy.families.http_concurrency.imported_levels import level_of
from benchstudy.families.http_concurrency.k6_points import is_k6_points, parse_k6_points
from benchstudy.families.http_concurrency.parse import (
    IMPORTED_AB,
    IMPORTED_HEY,
    IMPORTED_K6,
    IMPORTED_K6_POINTS,
    IMPORTED_LOCUST,
    IMPORTED_WRK,
    PART,
)
from benchstudy.families.http_concurrency.summaries import (
    is_hey,
    is_k6,
    is_locust,
    locust_rows,
    parse_hey,
    parse_k6,
    parse_locust,
)
from benchstudy.families.http_concurrency.wrk_printed import NOTES, is_wrk, own_of_wrk, parse_wrk_printed, split_wrk
from benchstudy.families.shared.clients import value_of
from benchstudy.families.shared.files import text_of
from benchstudy.model.family import UNKNOWN, Imported, ParseError

OUTPUTS = "ab's report, what wrk prints, k6's --summary-export or --out json, hey's summary, Locust's …_stats.csv"
_WHOLE_S = 0.0025  # ab prints milliseconds, and looks at the time after each answer
# ab's options that change a request, and those that change how it is sent. The others are in the report, or only affect
# printing.
_OF_REQUEST, _OF_SENDING = "HCAPTXpu", "bBsEfZIlr"


def recognise(path: Path) -> list[Imported]:
    """Recognise ab's reports, and summaries of wrk, k6, hey and Locust. Raises ParseError for a damaged one."""
    text = text_of(path.read_bytes())
    tools = [name for name, knows in {"ab": recognise_ab, "hey": is_hey, "wrk": is_wrk}.items() if knows(text)]
    if len(tools) > 1:
        raise ParseError(f"the file has outputs of {' and '.join(tools)}: give each tool a file of its own")
    if not recognise_ab(text):
        return list(_of_summary(text))
    pieces = split_ab(text)
    return [_of_ab(piece, number, len(pieces)) for number, piece in enumerate(pieces, start=1)]


def _of_ab(text: str, number: int, of: int) -> Imported:
    result = parse_ab(text)
    for problem in result.contradictions():
        raise ParseError(f"{problem}: ab writes no such report, so it was altered or damaged")
    notes = ["closed loop: coordinated omission possible", "limits, warm-up and checks are not known"]
    notes += [f"report {number} of {of} in the file"] if of > 1 else []
    return Imported(
        levels_of(result),
        IMPORTED_AB,
        "ab",
        result.version,
        (*notes, *result.problems()),
        files={IMPORTED_AB: text.encode()} if of > 1 else {},
        command=result.command,
        own=repr(replace(result, command=None)),
    )


def _of_summary(text: str) -> Iterator[Imported]:
    """Recognise summaries of other generators, which say little about the load."""
    notes = ["what was asked for, how the load was made, limits, warm-up and checks are not known"]
    of_points = is_k6_points(text)
    if of_points or (is_k6(text) and '"benchstudy"' not in text):
        notes += ["latencies are from sending to the last byte, without connecting"]
        notes += ["the duration is from the start of the first iteration to the last end"] if of_points else []
        summary = parse_k6_points(text) if of_points else parse_k6(text)
        ended, took = summary.ended, timedelta(seconds=value_of(summary.values, "duration") or 0)
        yield Imported(
            {**_untold("k6"), **summary.told},
            IMPORTED_K6_POINTS if of_points else IMPORTED_K6,
            "k6",
            summary.version,
            [*notes, *summary.problems],
            started=(ended - took).isoformat(timespec="milliseconds") if ended else None,
            finished=ended.isoformat(timespec="milliseconds") if ended else None,
            own=summary.run or (repr(summary) if of_points else json.dumps(json.loads(text), sort_keys=True)),
            outputs=(IMPORTED_K6, IMPORTED_K6_POINTS),
        )
    elif is_hey(text):
        hey = parse_hey(text)
        levels = {**_untold("hey"), **hey.told}
        yield Imported(levels, IMPORTED_HEY, "hey", None, [*notes, *hey.problems], own=repr(replace(hey, problems=())))
    elif is_wrk(text):
        pieces = split_wrk(text)
        for number, piece in enumerate(pieces, start=1):
            where = [f"run {number} of {len(pieces)} in the file"] if len(pieces) > 1 else []
            files = {IMPORTED_WRK: piece.encode()} if len(pieces) > 1 else {}
            told = {**_untold("wrk"), **parse_wrk_printed(piece).told}
            own = own_of_wrk(piece)
            yield Imported(told, IMPORTED_WRK, "wrk", None, (*NOTES, *where), files=files, own=own)
    elif is_locust(text):
        for number, row in enumerate(locust_rows(text)):
            problems = parse_locust(row).problems
            told = {"endpoint": level_of(row["Name"]), "method": level_of(row["Type"])}
            files = {PART: json.dumps({"row": number}).encode()}
            levels, own = _untold("locust") | told, json.dumps(row)
            yield Imported(levels, IMPORTED_LOCUST, "locust", None, [*notes, *problems], files=files, own=own)


def _untold(generator: str) -> dict[str, str]:
    unknown = dict.fromkeys(("server", "limits", "endpoint"), UNKNOWN)
    return {**unknown, "generator": generator, "concurrency": UNKNOWN, "method": UNKNOWN}


def levels_of(result: AbResult) -> dict[str, str]:
    """Return the known levels of a run by factor. Without its command, a report does not have all of them."""
    asked = options(result.command) if result.command else None
    place = f"{result.hostname}-{result.port}"
    software = result.server_software.replace("/", "-")
    return {
        "server": level_of(f"{software}_{place}" if software else place),
        "limits": UNKNOWN,
        "endpoint": "root" if result.path == "/" else level_of(result.path),
        "generator": "ab",
        "concurrency": str(result.concurrency),
        "method": _method(asked),
        "keep_alive": "no" if result.keepalive_requests is None else "yes",
        "tls": level_of(result.tls) if result.tls else "none",
        "requests": _requests(asked, result),
        "headers": _chosen(asked, _OF_REQUEST),
        "sending": _chosen(asked, _OF_SENDING),
    }


def _method(asked: dict[str, list[str]] | None) -> str:
    if asked is None:
        return UNKNOWN
    if "m" in asked:
        return level_of(asked["m"][-1])
    return next((method for letter, method in (("i", "HEAD"), ("p", "POST"), ("u", "PUT")) if letter in asked), "GET")


def _requests(asked: dict[str, list[str]] | None, result: AbResult) -> str:
    """Return the requested number or duration, or without a command the number of completed requests.

    A run of a whole number of seconds with an uneven number of requests was limited by time (-t). Its number of
    requests is a result, and the report does not say what was asked for.
    """
    if asked is None:
        seconds = round(result.duration)
        timed = seconds and abs(result.duration - seconds) < _WHOLE_S and result.complete % 100
        return UNKNOWN if timed else str(result.complete)
    if "t" in asked:
        return level_of(f"{asked['t'][-1]}s")
    return level_of(asked["n"][-1] if "n" in asked else "1")


def _chosen(asked: dict[str, list[str]] | None, letters: str) -> str:
    """Return a digest of these options, because headers and passwords must not be part of a name."""
    if asked is None:
        return UNKNOWN
    chosen = {letter: asked[letter] for letter in letters if letter in asked}
    if not chosen:
        return "none"
    digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:10]
    return f"{''.join(sorted(chosen))}-{digest}"
