"""Fuzzing by mutation: every parser and reader gets real captures, damaged in the ways in which files get damaged.

`make test-long` runs it for any number of inputs; the suite has a sample (test_fuzzing.py). Its findings are in
tests/data/fuzz as they were, and are tried each time. fuzz_doors.py says what is given to which code.

    python tests/fuzzing.py --inputs 100000 --seed 7 --only fio --jobs 2

Every kind of door gets the same number of inputs. An input depends only on the seed, its kind and its number. After
Ctrl-C or SIGTERM, the run reports what it has found so far; another seed continues with other inputs.
"""

import argparse
import contextlib
import functools
import gc
import importlib.metadata
import json
import math
import mmap
import multiprocessing
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fuzz_doors import Door, doors

from benchstudy.model import registry
from benchstudy.model.catalogue import expansion
from benchstudy.model.family import Parsed

CORPUS = Path(__file__).parent / "data" / "fuzz"
MOST_S = 3
MOST_BYTES = 500 << 20
_TURN_S = 3.0  # how long a worker stays with one kind of door
_LONGEST_TURN_S = 10.0
_STUCK_S = 60.0  # for a worker that waits forever, which uses no processor time
_UNREAD_SHARE = 0.05  # of a trial's inputs: files that its parser does not open in the normal case
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb'"[^"\n]{0,80}"')
_NUMBERS = (
    b"0", b"-1", b"-0.0", b"1e999", b"-1e999", b"NaN", b"nan", b"Infinity", b"inf", b"1" + b"0" * 24, b"9" * 5000,
    b"1e-320", b"1e308", b"9223372036854775808", b"18446744073709551615", b"2.5", b"null", b"true", b'"x"', b"[]",
    b"{}", b"", b"0x10", b"1_000", "٣".encode(), b"1e15", b"4503599627370497",
)  # fmt: skip
_PIECES = (
    b"\0", b"\xff\xfe", b"\r\n", b"\n\n\n", b"{", b"}", b"[" * 20000, b'{"a":' * 3000, b",", b'"', b"%", b"-", b":",
    b"\n" * 20000, b" " * 20000, b"\\ud800", b"\x1b[2J", "\u202e".encode(), b"../../x", b"'", b";",
)  # fmt: skip


class Hang(BaseException):
    """It took longer than it may."""


# --- damages -------------------------------------------------------------------------------------------------------


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


# --- what must hold ------------------------------------------------------------------------------------------------


def fault(door: Door, content: bytes) -> str | None:
    """What is wrong with the handling of a damaged file; None if it was read, or refused in the declared way."""
    try:
        with _within(MOST_S):
            found = door.attempt(content)
    except door.declared as error:
        return f"took more than {MOST_BYTES >> 20} MiB" if _for_memory(error) else None
    except Hang:
        return f"took longer than {MOST_S} s"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library is not an Exception
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    for parsed in found if isinstance(found, list) else [found]:
        if isinstance(parsed, Parsed) and (wrong := next(_impossible(parsed), None)):
            return wrong
    return None


def _for_memory(error: BaseException | None) -> bool:
    """Whether an error is due to a lack of memory, even if it was replaced by another error since."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


_FAMILIES = tuple(map(registry.get, registry.names()))
_SIGNED = {metric.name for family in _FAMILIES for metric in family.metrics.values() if metric.signed}
_SIGNED |= {column for family in _FAMILIES for column in family.signed_columns}


def _impossible(parsed: Parsed) -> Iterator[str]:
    for observation in parsed.observations:
        if _wrong(observation.metric, observation.value):
            yield f"{observation.metric} is {observation.value}"
    for name, rows in parsed.series.items():
        for row in rows:
            yield from (f"{name}.{column} is {value}" for column, value in row.items() if _wrong(column, value))


def _wrong(name: str, value: object) -> bool:
    if not isinstance(value, int | float) or 0 <= value < math.inf:
        return False
    if name == "le_s" and value == math.inf:  # the last bucket has no upper edge
        return False
    return not math.isfinite(value) or name not in _SIGNED


class _within:
    """Raise Hang inside anything that takes too long, by processor time, so a busy machine finds no faults."""

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


# --- one process ---------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """The results of some inputs, and the processor time they took.

    `found`: for each kind of fault its count, and the door and input that showed it.
    """

    given: int = 0
    seconds: float = 0.0
    found: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)

    def add(self, door: str, wrong: str, content: bytes) -> None:
        kind = re.sub(r": .*(?= \()|[\d.]+(?![^(]*\))", "#", wrong, flags=re.DOTALL)  # whatever the message says
        count, *first = self.found.get(kind, (0, door, content))
        self.found[kind] = count + 1, *first

    def __iadd__(self, other: "Seen") -> "Seen":
        self.given += other.given
        self.seconds += other.seconds
        for kind, (count, *first) in other.found.items():
            before, *known = self.found.get(kind, (0, *first))
            self.found[kind] = before + count, *known
        return self


def run(
    chosen: Sequence[Door], numbers: Iterable[int], seed: str,
    before: Callable[[int], object] = lambda number: None, longest_s: float = math.inf,
) -> Seen:  # fmt: skip
    """Give the inputs with these `numbers` to these doors; `before` is called with each number first."""
    seen, begun, used = Seen(), time.monotonic(), time.process_time()
    read, unread = [d for d in chosen if d.read], [d for d in chosen if not d.read]
    for number in numbers:
        if time.monotonic() - begun > longest_s:  # the rate was misjudged; the rest comes in another turn
            break
        before(number)
        door, content = made(read, unread, seed, number)
        if wrong := fault(door, content):
            seen.add(door.name, wrong, content)
        seen.given += 1
    seen.seconds = time.process_time() - used
    return seen


def made(read: Sequence[Door], unread: Sequence[Door], seed: str, number: int) -> tuple[Door, bytes]:
    """The door and the input of this number. They depend on nothing else, so any input can be made again."""
    rng = random.Random(f"{seed}/{number}")
    door = rng.choice(unread if unread and (not read or rng.random() < _UNREAD_SHARE) else read)
    return door, (door.damage or damaged)(rng, door.original)


# --- several processes ---------------------------------------------------------------------------------------------


class Worker:
    """A process with its own doors and files, which takes turns: a kind of door and numbers of inputs."""

    def __init__(self, only: str, seed: int):
        self._only, self._seed = only, seed
        self._number = mmap.mmap(-1, 8)  # of the input that is being read, in case it ends its reader
        self.turn: tuple[str, range] | None = None
        self._start()

    def _start(self) -> None:
        self.said, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=self._work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.kinds: dict[str, int] = self.said.recv()

    def _work(self, said: Connection) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):  # the turn ends first
            signal.signal(number, signal.SIG_IGN)
        _remember_what_stays()
        with tempfile.TemporaryDirectory(prefix="benchstudy-fuzz-", dir=_memory_disk()) as folder:
            by_kind: dict[str, list[Door]] = {}
            for door in doors(Path(folder)):
                if self._only in door.kind or self._only in door.name:
                    by_kind.setdefault(door.kind, []).append(door)
            for of_kind in by_kind.values():
                run(of_kind, range(3), "what is imported late")
            gc.collect()
            gc.freeze()
            most = _address_space() + MOST_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            said.send({kind: len(of_kind) for kind, of_kind in by_kind.items()})
            while turn := _received(said):
                kind, numbers = turn
                said.send(run(by_kind[kind], numbers, f"{self._seed}/{kind}", self._begins, _LONGEST_TURN_S))

    def _begins(self, number: int) -> None:
        struct.pack_into("q", self._number, 0, number)

    def take(self, kind: str, numbers: range) -> None:
        self.turn, self._begun, self._last = (kind, numbers), time.monotonic(), (-1, time.monotonic())
        self.said.send(self.turn)

    def seen(self) -> Seen:
        """The results of the turn. A turn that ended its process, or got stuck, is itself a finding."""
        assert self.turn is not None
        kind, numbers = self.turn
        self.turn = None
        try:
            return self.said.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            return self._ended(kind, numbers, f"ended its process with status {self._process.exitcode}")

    def stuck(self) -> Seen | None:
        """None while the turn is running."""
        number, now = struct.unpack_from("q", self._number)[0], time.monotonic()
        if number != self._last[0]:
            self._last = number, now
        if now - self._last[1] < _STUCK_S or self.turn is None:
            return None
        (kind, numbers), self.turn = self.turn, None
        self._process.kill()
        self._process.join()
        return self._ended(kind, numbers, f"waited for more than {_STUCK_S:.0f} s")

    def _ended(self, kind: str, numbers: range, how: str) -> Seen:
        number = struct.unpack_from("q", self._number)[0]
        self._start()
        seen = Seen(number - numbers[0] + 1, time.monotonic() - self._begun)
        seen.add(kind, f"{how}: input {self._seed}/{kind}/{number}", b"")
        return seen

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it may have ended
            self.said.send(None)
        self._process.join(2 * _LONGEST_TURN_S)


def _remember_what_stays() -> None:
    """Keep packages and systems as they are: searching for them took two thirds of the time of a study."""
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)
    catalogue = functools.cache(expansion.Catalogue)
    expansion.Catalogue = lambda folders: catalogue(tuple(folders))


def _received(said: Connection) -> tuple[str, range] | None:
    try:
        return said.recv()
    except EOFError:  # the driver has ended
        return None


def _memory_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


class Run:
    """All kinds of doors, shared out over workers: the kind that had the least time is next, until all are done."""

    def __init__(self, only: str, inputs: int, seed: int, jobs: int, minutes: float):
        self._deadline = time.monotonic() + 60 * minutes
        self._workers = [Worker(only, seed) for _ in range(jobs)]
        self.seen = {kind: Seen() for kind in self._workers[0].kinds}
        self._each = math.ceil(inputs / max(1, len(self.seen)))
        self._next = dict.fromkeys(self.seen, 0)
        self._stopped = False

    def stop(self, *_: object) -> None:
        self._stopped = True

    def go(self) -> None:
        self._share_out()
        while busy := [worker for worker in self._workers if worker.turn]:
            ready = wait([worker.said for worker in busy], timeout=1.0)
            for worker in busy:
                kind = worker.turn[0] if worker.turn else ""
                came = worker.seen() if worker.said in ready else worker.stuck()
                if came is not None:
                    self.seen[kind] += came
            self._share_out()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _share_out(self) -> None:
        for worker in self._workers:
            turns = [other.turn for other in self._workers if other.turn]
            left = {kind: self._each - seen.given for kind, seen in self.seen.items()}
            for kind, numbers in turns:
                left[kind] -= len(numbers)
            left = {kind: count for kind, count in left.items() if count > 0}
            if worker.turn or self._stopped or not left or time.monotonic() > self._deadline:
                continue
            under_way = [kind for kind, _ in turns]
            kind = min(left, key=lambda kind: self.seen[kind].seconds + _TURN_S * under_way.count(kind))
            seen, first = self.seen[kind], self._next[kind]
            count = round(_TURN_S * seen.given / max(seen.seconds, 0.01)) if seen.given else 10
            self._next[kind] += min(left[kind], max(1, count))
            worker.take(kind, range(first, self._next[kind]))


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only doors whose kind or name contains this text")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--keep", type=Path, help="folder that keeps one input per kind of fault")
    told = parser.parse_args(list(arguments))
    begun = time.monotonic()
    whole = Run(told.only, told.inputs, told.seed, told.jobs, told.minutes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, whole.stop)
    print(f"seed {told.seed}, {len(whole.seen)} kinds of doors", flush=True)
    try:
        whole.go()
    finally:
        whole.close()
    took_s, given = time.monotonic() - begun, sum(seen.given for seen in whole.seen.values())
    faults = [(kind, what, *of) for kind, seen in whole.seen.items() for what, of in seen.found.items()]
    for kind, seen in whole.seen.items():
        print(f"{seen.given:9d} inputs {seen.given / max(seen.seconds, 1e-9):8.0f}/s of processor time  {kind}")
    for number, (kind, what, count, door, content) in enumerate(faults):
        print(f"{count:6d} × {kind}: {what} [{door}]")
        if told.keep:
            told.keep.mkdir(parents=True, exist_ok=True)
            (told.keep / f"{told.seed}-{number:02d}").write_bytes(content)
            (told.keep / f"{told.seed}-{number:02d}.json").write_text(json.dumps({"door": door, "what": what}))
    print(f"{given} inputs, {len(faults)} kinds of faults, {took_s:.0f} s, {given / took_s:.0f}/s, seed {told.seed}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
