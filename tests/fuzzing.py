"""Fuzzing by mutation: real captures, damaged in the ways in which files are, given to every parser and reader.

`make test-long` runs it for as many inputs as one likes; a sample is in the suite (test_fuzzing.py). What it found
lies in tests/data/fuzz as it was, and is tried each time.

    python tests/fuzzing.py --inputs 100000 --seed 7 --only fio
"""

import argparse
import json
import math
import random
import re
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchstudy.families.load_test.prometheus_samples import read_matrix
from benchstudy.measuring import sealed
from benchstudy.measuring.raw import TrialRecord
from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.family import Parsed, ParseError
from benchstudy.model.study import load_study
from benchstudy.provenance.checks import check_crate

DATA = Path(__file__).parent / "data"
STORES = DATA / "store-b9a61cf"
CORPUS = DATA / "fuzz"
MOST_S = 3
MOST_BYTES = 500 << 20
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb'"[^"\n]{0,80}"')
_NUMBERS = (
    b"0", b"-1", b"-0.0", b"1e999", b"-1e999", b"NaN", b"nan", b"Infinity", b"inf", b"1" + b"0" * 24, b"9" * 5000,
    b"1e-320", b"1e308", b"9223372036854775808", b"18446744073709551615", b"2.5", b"null", b"true", b'"x"', b"[]",
    b"{}", b"", b"0x10", b"1_000", "٣".encode(), b"1e15", b"4503599627370497",
)  # fmt: skip
_PIECES = (
    b"\0", b"\xff\xfe", b"\r\n", b"\n\n\n", b"{", b"}", b"[" * 20000, b'{"a":' * 3000, b",", b'"', b"%", b"-", b":",
    b"\\ud800", b"\x1b[2J", "\u202e".encode(), b"../../x", b"'", b";",
)  # fmt: skip


class Hang(BaseException):
    """It took longer than it may."""


@dataclass(frozen=True)
class Door:
    """One parser or reader with real inputs: `attempt` is given a damaged file, and may raise one of `declared`."""

    name: str
    original: bytes
    attempt: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content with one to three damages."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(_DAMAGES)(rng, content)
    return content


def _replaced(rng: random.Random, content: bytes, pattern: re.Pattern[bytes], other: Callable[[bytes], bytes]) -> bytes:
    start = rng.randrange(len(content) + 1)
    match = pattern.search(content, start) or pattern.search(content)
    return content[: match.start()] + other(match[0]) + content[match.end() :] if match else content


def _flip(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content)) if content else 0
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :] if content else b"\1"


def _span(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 3, 20, 200, 2000)))


def _cut(rng: random.Random, content: bytes) -> bytes:
    start, end = _span(rng, content)
    return content[:start] + content[end:]


def _double(rng: random.Random, content: bytes) -> bytes:
    start, end = _span(rng, content)
    return content[:end] + content[start:]


def _lines(rng: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _insert(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(_PIECES) + content[at:]


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *[lambda rng, content: _replaced(rng, content, _NUMBER, lambda _: rng.choice(_NUMBERS))] * 5,
    *[lambda rng, content: _replaced(rng, content, _NUMBER, lambda was: b"-" + was)] * 2,
    *[lambda rng, content: _replaced(rng, content, _WORD, lambda _: rng.choice((b'""', b"3", b'"x"', b"null")))] * 2,
    lambda rng, content: content[: rng.randrange(len(content) + 1)],
    _flip, _cut, _cut, _double, _lines, _insert,
)  # fmt: skip


# --- what is given to whom -----------------------------------------------------------------------------------------


def doors(work: Path, stores: Iterable[str] = ("embedded", "endings")) -> list[Door]:
    """All of them, with the trials of these stores; `work` takes the files that they read."""
    return [*_trials(work, stores), *_imports(work), *_readers(work)]


def _trials(work: Path, stores: Iterable[str]) -> Iterator[Door]:
    """Each file of one good trial of each case of the stores that an older version measured."""
    for name in stores:
        with tarfile.open(STORES / f"{name}.tar.xz") as archive:
            archive.extractall(work / name)
    seen = set()
    for record in sorted(work.glob("*/data/raw/*/*/*/*/*/trial.json")):
        told = TrialRecord.model_validate_json(record.read_bytes())
        if told.status != "ok" or (told.family, told.case) in seen:
            continue
        seen.add((told.family, told.case))
        folder = work / "trials" / f"{len(seen)}"
        shutil.copytree(record.parent, folder, copy_function=shutil.copyfile)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in (sealed.SUMS, "trial.json")):
            yield _of_trial(told, folder, path)
        yield Door(f"record of {told.family}", record.read_bytes(), _record(work / "record.json"), (ValueError,))


def _of_trial(told: TrialRecord, folder: Path, path: Path) -> Door:
    family, original = registry.get(told.family), path.read_bytes()

    def attempt(content: bytes) -> object:
        path.write_bytes(content)
        try:
            parsed = family.parse(told.levels, folder)
            family.notes(folder)
            return parsed
        finally:
            path.write_bytes(original)

    return Door(f"{told.case}: {path.relative_to(folder)}", original, attempt, (ParseError,))


def _record(path: Path) -> Callable[[bytes], object]:
    return lambda content: TrialRecord.model_validate_json(content)


def _imports(work: Path) -> Iterator[Door]:
    for family in ("fio", "http_concurrency", "log_write"):
        folder = {"fio": "fio", "http_concurrency": "http", "log_write": "tessera"}[family]
        for path in sorted((DATA / folder).iterdir()):
            copy = work / f"import-{path.name}"

            def attempt(content: bytes, copy: Path = copy, family: str = family) -> object:
                copy.write_bytes(content)
                found = registry.get(family).parse_import(copy)
                parsed = []
                for run in found:
                    files = copy.with_suffix(".files")
                    shutil.rmtree(files, ignore_errors=True)
                    files.mkdir()
                    for name, text in {run.file_name: content, **run.files}.items():
                        (files / name).write_bytes(text)
                    if run.failure is None:
                        parsed.append(registry.get(family).parse(run.levels, files))
                return parsed

            if path.suffix != ".md" and path.stat().st_size < 1 << 16:
                yield Door(f"import of {family}: {path.name}", path.read_bytes(), attempt, (ParseError,))


def _readers(work: Path) -> Iterator[Door]:
    study = work / "study.yaml"

    def read_study(content: bytes) -> None:
        study.write_bytes(content)
        load_study(study)

    for path in sorted((DATA.parents[1] / "config").rglob("*.yaml")):
        yield Door(f"study {path.name}", path.read_bytes(), read_study, (StudyError,))
    index = work / "session.json"

    def read_index(content: bytes) -> None:
        index.write_bytes(content)
        sealed.read_index(index)

    yield Door("session.json", next(work.glob("*/data/raw/*/*/fio/session.json")).read_bytes(), read_index, ())
    answer = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a","le":"0.5"},"values":[[1700000000.1,"12"],[1700000005,"NaN"]]}]}}'  # noqa: E501
    yield Door("answer of Prometheus", answer, read_matrix, (ParseError,))
    crate = work / "crate"
    crate.mkdir()
    (crate / "a.txt").write_text("x")
    (crate / "SHA256SUMS").write_text(f"{'0' * 64}  a.txt\n")

    def read_crate(content: bytes) -> None:
        (crate / "ro-crate-metadata.json").write_bytes(content)
        check_crate(crate)

    graph = json.dumps({"@graph": [{"@id": "./", "hasPart": [{"@id": "a.txt"}]}, {"@id": "a.txt", "@type": "File"}]})
    yield Door("metadata of a crate", graph.encode(), read_crate, (BenchstudyError,))


# --- what must hold ------------------------------------------------------------------------------------------------


def fault(door: Door, content: bytes) -> str | None:
    """What is wrong with how a damaged file was taken; None when it was read, or refused in the declared way."""
    try:
        with _within(MOST_S):
            found = door.attempt(content)
    except door.declared:
        return None
    except Hang:
        return f"took longer than {MOST_S} s"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library's is no Exception
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    for parsed in found if isinstance(found, list) else [found]:
        if isinstance(parsed, Parsed) and (wrong := next(_impossible(parsed), None)):
            return wrong
    return None


def _impossible(parsed: Parsed) -> Iterator[str]:
    for observation in parsed.observations:
        value = observation.value
        if value is not None and (not math.isfinite(value) or (value < 0 and observation.metric != "slope")):
            yield f"{observation.metric} is {value}"
    for name, rows in parsed.series.items():
        for row in rows:
            for column, value in row.items():
                if isinstance(value, float) and not math.isfinite(value) and column != "le_s":
                    yield f"{name}.{column} is {value}"


class _within:
    """Raises Hang in the middle of whatever takes longer, in processor time: a busy machine finds no faults."""

    def __init__(self, seconds: float):
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, self._over)
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    @staticmethod
    def _over(*_: object) -> None:
        raise Hang


def run(
    chosen: Sequence[Door], inputs: int, seed: int, deadline: float = math.inf
) -> tuple[int, dict[str, tuple[str, bytes]]]:
    """How many inputs were given until the `deadline`, and what was found: fault to door and input, one a kind."""
    found: dict[str, tuple[str, bytes]] = {}
    kinds: Counter[str] = Counter()
    given = 0
    for number in range(inputs):
        if time.monotonic() > deadline:
            break
        given += 1
        rng = random.Random(f"{seed}/{number}")  # of its number alone, so that any input can be made again
        door = rng.choice(chosen)
        content = damaged(rng, door.original)
        if wrong := fault(door, content):
            kind = re.sub(r"[\d.]+(?![^(]*\))", "#", f"{door.name.split(':')[0]}: {wrong}")
            kinds[kind] += 1
            found.setdefault(kind, (door.name, content))
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    return given, found


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="doors whose name holds this")
    parser.add_argument("--minutes", type=float, default=math.inf, help="and no longer than this")
    parser.add_argument("--keep", type=Path, help="a folder for one input of each kind of fault")
    told = parser.parse_args(list(arguments))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES + (3 << 30), MOST_BYTES + (3 << 30)))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="benchstudy-fuzz-") as folder:
        chosen = [door for door in doors(Path(folder)) if told.only in door.name]
        given, found = run(chosen, told.inputs, told.seed, begun + 60 * told.minutes)
    for number, (door, content) in enumerate(found.values()) if told.keep else ():
        told.keep.mkdir(parents=True, exist_ok=True)
        (told.keep / f"{number:02d}").write_bytes(content)
        (told.keep / f"{number:02d}.door").write_text(door)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(f"{given} inputs, {len(found)} kinds of faults, {time.monotonic() - begun:.0f} s, {peak >> 20} MiB at most")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
