"""A sample of the fuzzing (`make test-long` is its long form), and every input that it once found a fault with."""

import json

import fuzzing
import pytest
from fuzzing import CORPUS

from benchstudy.model.family import ParseError


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    return fuzzing.doors(tmp_path_factory.mktemp("fuzz"), ["endings"])


@pytest.mark.parametrize(("only", "inputs"), [("import of", 150), ("directory=", 40), ("generator=", 40), ("", 40)])
def test_a_damaged_file_is_refused_in_the_declared_way_and_gives_no_impossible_figure(doors, only, inputs):
    chosen = [door for door in doors if only in door.name]
    assert len(chosen) > 10 and fuzzing.run(chosen, inputs, seed=16) == (inputs, {})


@pytest.mark.parametrize("time", ["NaN", "1e300", "-Infinity", "null"])
def test_a_sample_without_a_time_is_refused(doors, time):
    (door,) = (door for door in doors if door.name == "answer of Prometheus")
    with pytest.raises(ParseError):
        door.attempt(door.original.replace(b"1700000000.1", time.encode()))


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
def test_what_was_found_stays_mended(doors, file):
    """Each file: the door, and what of its original input was replaced by what."""
    told = json.loads(file.read_text())
    (door,) = (door for door in doors if door.name == told["door"])
    content = door.original
    for old, new in told["replaced"]:
        assert old.encode() in content
        content = content.replace(old.encode(), new.encode(), 1)
    assert fuzzing.fault(door, content) is None
