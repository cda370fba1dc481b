"""What is mutated, and that a fork meets the mutant; `make mutants` is what uses it."""

import importlib.util
import sys

import mutant_forks
import mutants
import pytest
from mutations import Sites, modules

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


@pytest.mark.parametrize(("was", "now", "found"), [("2 * x", "2 + x", (3, 3)), ("y + LIMIT", "y - LIMIT", (2, -1))])
def test_a_function_becomes_the_mutants_wherever_it_is_held(module, was, now, found):
    doubled, box = module.doubled, module.Box()
    for function, code in mutant_forks._swaps(module.__file__, TEXT, TEXT.replace(was, now), mutant_forks._functions()):
        function.__code__ = code
    assert (doubled(1), box.value) == found


@pytest.mark.parametrize(
    ("was", "now"), [("LIMIT = 2", "LIMIT = 3"), ("most: int = 3", "most: int = 4"), ("(x)", "(x=1)")]
)
def test_what_is_more_than_functions_is_imported_afresh(module, was, now):
    functions = mutant_forks._functions()
    assert mutant_forks._swaps(module.__file__, TEXT, TEXT.replace(was, now), functions) is None
    assert mutant_forks._swaps("/elsewhere.py", TEXT, TEXT.replace(was, now), functions) == [], "a test imports it"


def test_thresholds_of_modules_slopes_and_conditions_are_mutated():
    assert GROWTH in modules()["parser of log_write"]
    sites = Sites(GROWTH)
    slope = "return float((t * (size - size.mean())).sum() / (t * t).sum())"
    assert {("", "_STALLED = 3.5"), ("", "_STALLED = 1.5")} < {
        (m.function, m.now.partition("  #")[0])
        for m in sites.of("_STALLED = 2.5  # publish steps without a checkpoint")
    }
    assert slope.replace("t * t", "t / t") in {m.now for m in sites.of(slope) if m.function == "_slope"}
    assert all(m.differs_from(sites.text) and m.text.count("\n") == sites.text.count("\n") for m in sites.of(slope))
    assert not any(m.was.startswith("from") for m in sites.of("from dataclasses import dataclass"))


def test_an_entry_is_refused_that_the_code_does_not_have_any_more(tmp_path):
    entry = '[[mutant]]\nmodule = "{}"\nfunction = "{}"\nwas = "t -= t.mean()"\nnow = "t {} t.mean()"\nwhy = "a test"\n'
    file = tmp_path / "mutants.toml"
    for function, now in (("growth", "+="), ("_slope", "+")):
        file.write_text(entry.format(GROWTH, function, now))
        with pytest.raises(ValueError, match=r"mutants\.toml: .*growth, .* is no mutant of it any more"):
            mutants.named(file)
