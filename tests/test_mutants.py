"""What is mutated, and that the mutant is tested in a fork; `make mutants` uses it."""

import importlib.util
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

import mutant_forks
import pytest

GROWTH = "benchstudy.families.log_write.growth"
TEXT = """
LIMIT = 2

def doubled(x):
    return 2 * x

class Box:
    most: int = 3

    @property
    def value(self):
        return (lambda y: y + LIMIT)(1)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    path = tmp_path / "mutated_module.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("mutated_module", path)
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutated_module", made)
    spec.loader.exec_module(made)
    return made


def test_functions_become_the_mutants_wherever_they_are_held_and_more_than_that_is_imported_afresh(module):
    doubled, box, functions = module.doubled, module.Box(), mutant_forks._functions()
    for was, now in (("LIMIT = 2", "LIMIT = 3"), ("most: int = 3", "most: int = 4"), ("(x)", "(x=1)")):
        assert mutant_forks._swaps(module.__file__, TEXT, TEXT.replace(was, now), functions) is None
    for was, now, found in (("2 * x", "2 + x", (3, 3)), ("y + LIMIT", "y - LIMIT", (3, -1))):
        for function, code in mutant_forks._swaps(module.__file__, TEXT, TEXT.replace(was, now), functions):
            function.__code__ = code
        assert (doubled(1), box.value) == found
    assert mutant_forks._swaps("/elsewhere.py", TEXT, "LIMIT = 3", functions) == [], "a test imports it"


def _compute() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)  # on a busy machine, it could come first
    until = time.process_time() + 10
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(
    ("does", "most_s", "how"), [(_compute, 0.9, signal.SIGXCPU), (lambda: time.sleep(20), 0.1, signal.SIGALRM)]
)
def test_a_mutant_without_end_is_ended_by_the_limit_of_the_test_that_it_is_in(does, most_s, how):
    if not (child := os.fork()):
        mutant_forks._begin_alone()
        mutant_forks._end_after(most_s)
        does()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == how in mutant_forks._LIMITS


def test_thresholds_of_modules_slopes_and_conditions_are_mutated():
    pytest.importorskip("cosmic_ray", reason="in no lock")
    from mutations import Sites

    sites = Sites(GROWTH)
    slope = "return float((t * (size - size.mean())).sum() / (t * t).sum())"
    assert {("", "_STALLED = 3.5"), ("", "_STALLED = 1.5")} == {
        (m.function, m.now.partition("  #")[0])
        for m in sites.of("_STALLED = 2.5  # publish steps without a checkpoint")
    }
    assert slope.replace("t * t", "t / t") in {m.now for m in sites.of(slope) if m.function == "_slope"}
    assert all(m.differs_from(sites.text) and m.text.count("\n") == sites.text.count("\n") for m in sites.of(slope))
    assert not any(m.was.startswith("from") for m in sites.of("from dataclasses import dataclass"))


def test_an_entry_is_refused_that_the_code_does_not_have_any_more(tmp_path):
    pytest.importorskip("cosmic_ray", reason="in no lock")
    import mutants

    entry = '[[mutant]]\nmodule = "{}"\nfunction = "{}"\nwas = "t -= t.mean()"\nnow = "t {} t.mean()"\nwhy = "a test"\n'
    file = tmp_path / "mutants.toml"
    for function, now in (("growth", "+="), ("_slope", "+")):
        file.write_text(entry.format(GROWTH, function, now))
        with pytest.raises(ValueError, match=r"mutants\.toml: .*growth, .* is no mutant of it any more"):
            mutants.named(file)


def test_every_named_mutant_has_a_reason_and_is_of_a_line_that_the_code_has():
    """Without cosmic-ray, so that the file cannot break unnoticed between two runs of `make mutants`."""
    entries = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    assert all(entry.keys() == {"module", "function", "was", "now", "why"} and entry["why"] for entry in entries)
    names = {entry["module"] for entry in entries}
    code = {name: _in_one_line(Path(importlib.util.find_spec(name).origin).read_text()) for name in names}
    gone = [entry["was"] for entry in entries if _in_one_line(entry["was"]) not in code[entry["module"]]]
    assert not gone
    assert len({(e["module"], e["function"], e["was"], e["now"]) for e in entries}) == len(entries)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
