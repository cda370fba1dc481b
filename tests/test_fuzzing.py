"""A sample of the fuzzing (`make test-long` is its long form), and every input that once showed a fault."""

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import fuzz_doors
import fuzzing
import pytest
from fuzz_doors import Door
from fuzzing import CORPUS

from benchstudy.hosts.ssh_errors import TransferFailed
from benchstudy.model import registry
from benchstudy.model.family import ParseError


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> list[Door]:
    return fuzz_doors.doors(tmp_path_factory.mktemp("fuzz"), ["endings"])


@pytest.mark.long
@pytest.mark.fault(37)
def test_a_damaged_file_is_refused_in_the_declared_way_and_gives_no_impossible_figure(doors: list[Door]):
    """Some inputs for every kind of door."""
    kinds = {door.kind for door in doors}
    for kind in sorted(kinds):
        chosen = [door for door in doors if door.kind == kind]
        seen = fuzzing.run(chosen, range(25), f"16/{kind}")
        assert (seen.given, seen.found) == (25, {})


def test_every_family_and_every_importer_is_fuzzed(doors: list[Door]):
    kinds = {door.kind for door in doors}
    assert {f"import of {name}" for name in registry.names() if registry.part(name, "imported")} <= kinds
    measured = {f"trial of {name}" for name in registry.names()} - kinds
    assert measured <= {"trial of file_size", "trial of log_write"}, "the other store has these"


# Files are fetched after this answer, and this host has none.
_GOES_ON = {"a host says: stop-service": TransferFailed}


def test_what_is_damaged_was_understood_before(doors: list[Door]):
    """Otherwise, damage would meet nothing but the first check."""
    whole = ("a host to the controller", "tree of a study", "tree of a system")  # others have refusals among them
    for door in doors:
        if door.kind in whole or door.name.startswith("answer of Prometheus: "):
            with pytest.raises(_GOES_ON[door.name]) if door.name in _GOES_ON else nullcontext():
                door.attempt(door.original)


@pytest.mark.long
def test_the_driver_finds_what_hangs_what_eats_memory_and_what_is_undeclared():
    def doors_that(attempt) -> list[Door]:
        return [Door("kind", "name", b"1 2 3", attempt, (ParseError,))]

    def hang(content: bytes) -> None:
        while True:
            pass

    def declared(content: bytes) -> None:
        raise ParseError("so it is") from MemoryError()

    found = {
        name: next(iter(fuzzing.run(doors_that(attempt), range(1), "1").found))
        for name, attempt in {"hang": hang, "memory": declared, "undeclared": lambda content: 1 / 0}.items()
    }
    assert found["hang"].startswith("took longer") and found["memory"].startswith("took more than")
    assert found["undeclared"].startswith("ZeroDivisionError")


def test_an_interrupted_run_says_what_it_has_seen():
    driver = [sys.executable, "tests/fuzzing.py", "--only", "answer of Prometheus", "--inputs", "100000000"]
    with subprocess.Popen(driver, stdout=subprocess.PIPE, text=True, cwd=fuzz_doors.DATA.parents[1]) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("seed")
        running.send_signal(signal.SIGTERM)
        said = running.stdout.read()
    assert running.returncode == 0 and "answer of Prometheus" in said


@pytest.mark.parametrize("time", ["NaN", "1e300", "-Infinity", "null"])
def test_a_sample_without_a_time_is_refused(doors: list[Door], time: str):
    (door,) = (door for door in doors if door.name == "answer of Prometheus")
    with pytest.raises(ParseError):
        door.attempt(door.original.replace(b"1700000000.1", time.encode()))


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
@pytest.mark.fault(37)
def test_what_was_found_stays_mended(doors: list[Door], file: Path):
    """Each file: the door, and what was replaced by what in its original input, how many times."""
    told = json.loads(file.read_text())
    (door,) = (door for door in doors if door.name == told["door"])
    content = door.original
    for old, new, *times in told["replaced"]:
        assert old.encode() in content
        content = content.replace(old.encode(), new.encode() * (times or [1])[0], 1)
    assert fuzzing.fault(door, content) is None
