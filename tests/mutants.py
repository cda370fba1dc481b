"""The test of the tests: mutants of the code behind figures and raw results, and whether the fast tests notice.

`make mutants` draws some in each module, and runs the tests that execute the mutated line until one fails. mutants.toml
names the mutants that no test can notice, with the reason.

    python tests/mutants.py --mutants 600 --seed 7 --modules 'statistics|growth' --tests tests/test_stats.py
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import mutant_forks

from benchstudy.model import sources

# In no lock, because cosmic-ray's dependencies would change the packages that users get.
_NEEDED = "cosmic-ray==8.7.0 coverage==7.17.3"
try:
    import mutant_lines
    from mutations import Mutant, Sites, modules
except ModuleNotFoundError as error:
    sys.exit(
        f"{error.name} is missing: `.venv/bin/uv pip install --python .venv/bin/python {_NEEDED}`, and run it again"
    )

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent
NAMED = TESTS / "mutants.toml"
FAST = ("-m", "not (server or build or slow)")  # `make test-fast`, and the long ones: they notice more
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FAST)
# A fork must compute on one thread, because a process with threads must not fork.
_SINGLE = dict.fromkeys(("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


class Named(NamedTuple):
    """What mutants.toml says: mutants that no test can notice, and changes that are not made at all."""

    mutants: Mapping[tuple[str, str, str, str], str]
    never: Sequence[tuple[re.Pattern[str], re.Pattern[str]]]

    def leaves_out(self, mutant: Mutant) -> bool:
        return any(was.search(mutant.was) and now.search(mutant.now) for was, now in self.never)


def named(file: Path = NAMED) -> Named:
    """Raises ValueError for an entry without a reason, and for one that is no longer a mutant of the code."""
    told = tomllib.loads(file.read_text())
    mutants = {(e["module"], e["function"], e["was"], e["now"]): e["why"] for e in told.get("mutant", ())}
    for key, why in mutants.items():
        if not why or not any(mutant.key == key for mutant in _sites(key[0]).of(key[2])):
            raise ValueError(f"{file.name}: {key[0]}, {key[1]}: {key[2]!r} -> {key[3]!r} is no mutant of it any more")
    return Named(mutants, [(re.compile(e["was"]), re.compile(e["now"])) for e in told.get("never", ())])


_sites = cache(Sites)


def draw(names: Iterable[str], count: int, seed: int, left_out: Named) -> list[Mutant]:
    """About `count` mutants of these modules, in proportion to their sites, and at least one per module."""
    found, share = [], count / sum(len(_sites(name)) for name in names)
    for name in names:
        sites = _sites(name)
        mutants = sites.drawn(random.Random(f"{seed}/{name}"))
        fit = (m for m in mutants if m.differs_from(sites.text) and not left_out.leaves_out(m))
        found += islice(fit, max(1, round(share * len(sites))))
    return found


class Reached:
    """Which tests reach a mutant, in a copy of the checkout. `executed`, `took_s`: what `mutant_lines.read` returns."""

    def __init__(self, copy: Path, names: Iterable[str], executed: Mapping, took_s: Mapping[str, float]):
        self._copy, self._names, self._executed, self._took_s = copy, list(names), executed, took_s

    def order(self, mutant: Mutant) -> dict[str, Any]:
        """An order for mutant_forks.py. Tests of a file stay together, as they share set-ups; fast ones come first."""
        sites, lines = _sites(mutant.module), self._lines(mutant.module)
        body = sites.body_at(mutant.line)
        if body is None:
            tests = self._of_module(mutant.module)
        else:  # the head of a function is executed when it is imported
            tests = self._tests(lines, sites.statement_at(mutant.line) if mutant.line in body else body)
        per_file = Counter()
        for test in tests:
            per_file[_file(test)] += self._took_s[test]
        imported = bool(body) and any("" in lines.get(line, ()) for line in body)
        ordered = sorted(tests, key=lambda test: (per_file[_file(test)], _file(test), self._took_s[test]))
        return {
            "path": str(self._copy / _path(mutant.module)),
            "text": mutant.text,
            "imported": imported,
            "took_s": {test: self._took_s[test] for test in ordered},
        }

    def _of_module(self, module: str) -> set[str]:
        """Tests that execute something of it, or of a module that imports it."""
        package, _, name = module.rpartition(".")
        imports = re.compile(rf"from ({module}|\.{name}) import|from ({package}|\.) import [^\n]*\b{name}\b")
        importing = [each for each in self._names if each == module or imports.search(_sites(each).text)]
        return {test for each in importing for test in self._tests(self._lines(each), self._lines(each))}

    def _tests(self, lines: Mapping[int, set[str]], which: Iterable[int]) -> set[str]:
        return {test for line in which for test in lines.get(line, ()) if test}

    def _lines(self, module: str) -> Mapping[int, set[str]]:
        return self._executed.get(_path(module), {})


def _path(module: str) -> Path:
    return sources.path_of(module).relative_to(CHECKOUT)


def _file(test: str) -> str:
    return test.partition("::")[0]


def copied(copy: Path) -> None:
    """A copy of what git knows of the checkout. Mutants are only written there."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", copy], cwd=CHECKOUT, input=files, check=True)


def _environment(copy: Path, **more: str) -> dict[str, str]:
    places = f"{copy / 'src'}:{copy / 'tests'}"
    return {**os.environ, **_SINGLE, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1", **more}


def see_lines(copy: Path, folder: Path, names: Iterable[str], tests: Sequence[str]) -> None:
    """Run the tests once, and record in `folder` which lines of these modules each of them executes."""
    folder.mkdir(parents=True)
    files = [copy / _path(name) for name in names]
    environment = _environment(copy, **mutant_lines.settings(folder, files))
    subprocess.run([*_PYTEST, "-p", "mutant_lines", *tests], cwd=copy, env=environment, check=False)


def meet(copy: Path, folder: Path, orders: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The outcome of each mutant, as soon as it is known. Mutants that no test reaches have survived."""
    reached = [order for order in orders if order["took_s"]]
    (folder / "orders").write_text("".join(json.dumps(order) + "\n" for order in reached))
    files = sorted({_file(test) for order in reached for test in order["took_s"]})
    read, write = os.pipe()
    told = {mutant_forks.ORDERS: str(folder / "orders"), mutant_forks.RESULTS: str(write)}
    with (folder / "log").open("w") as log, os.fdopen(read) as results:
        pytest = subprocess.Popen(
            [*_PYTEST, "-p", "mutant_forks", f"--basetemp={folder / 'base'}", *files],
            **{"cwd": copy, "env": _environment(copy, **told), "stdout": log, "stderr": log, "pass_fds": (write,)},
        )
        os.close(write)
        try:
            for order in orders:
                if not order["took_s"]:
                    yield {"outcome": mutant_forks.SURVIVED}
                elif line := results.readline():
                    yield json.loads(line)
                else:
                    sys.exit(f"pytest ended before all mutants were tested:\n{(folder / 'log').read_text()[-2000:]}")
        finally:  # all of them are told, or `make mutants` is ended
            pytest.kill()
            pytest.wait()


def print_table(met: Sequence[tuple[Mutant, str]], parts: Mapping[str, Sequence[str]]) -> None:
    counts = {name: Counter(outcome for mutant, outcome in met if mutant.module == name) for name in _named_in(parts)}
    outcomes = (mutant_forks.KILLED, mutant_forks.SURVIVED, mutant_forks.TIMEOUT)
    print(f"{'':60} {'mutants':>8}" + "".join(f"{each:>10}" for each in outcomes) + f"{'noticed':>9}")

    def row(name: str, found: Counter) -> None:
        if all_ := found.total():
            noticed = f"{1 - found[mutant_forks.SURVIVED] / all_:9.0%}"
            print(f"{name:60} {all_:8}" + "".join(f"{found[each]:10}" for each in outcomes) + noticed)

    for part, names in parts.items():
        row(part, sum((counts[name] for name in names), Counter()))
        for name in names:
            row(f"    {name.removeprefix('benchstudy.')}", counts[name])
    row("all", sum(counts.values(), Counter()))


def _named_in(parts: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in parts.values() for name in names]


def _diff(mutant: Mutant, said: str) -> str:
    lines = [f"    - {line}" for line in mutant.was.splitlines()] + [
        f"    + {line}" for line in mutant.now.splitlines()
    ]
    return "\n".join([f"{mutant.module}:{mutant.line} {mutant.function}: {said}", *lines])


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=600, help="approximate number of mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", default="", help="only modules whose name matches this regular expression")
    parser.add_argument("--tests", nargs="+", default=[], help="use only the fast tests in these files")
    parser.add_argument("--lines", type=Path, help="folder that keeps which lines tests execute, for the next run")
    told = parser.parse_args(list(arguments))
    known = named()
    parts = {part: [n for n in names if re.search(told.modules, n)] for part, names in modules().items()}
    mutants = draw(_named_in(parts), told.mutants, told.seed, known)
    with tempfile.TemporaryDirectory(prefix="benchstudy-mutants-") as temporary:
        folder = Path(temporary)
        copy, lines = folder / "copy", told.lines or folder / "lines"
        copy.mkdir()
        copied(copy)
        if not lines.exists():
            see_lines(copy, lines, _named_in(parts), told.tests)
        reached = Reached(copy, _named_in(parts), *mutant_lines.read(lines))
        orders = [reached.order(mutant) for mutant in mutants]
        met = []
        with closing(meet(copy, folder, orders)) as results:
            for mutant, order, result in zip(mutants, orders, results, strict=True):
                met.append((mutant, result["outcome"]))
                print(_diff(mutant, f"{len(order['took_s'])} tests, {result}"), flush=True)
    return told_of(met, parts, known)


def told_of(met: Sequence[tuple[Mutant, str]], parts: Mapping[str, Sequence[str]], known: Named) -> int:
    """Print everything; 1 if a survivor has no entry, or a mutant with an entry was noticed."""
    survivors = [mutant for mutant, outcome in met if outcome == mutant_forks.SURVIVED]
    unnamed = [mutant for mutant in survivors if mutant.key not in known.mutants]
    noticed = [mutant for mutant, outcome in met if mutant.key in known.mutants and outcome != mutant_forks.SURVIVED]
    print("\nSurvivors")
    for mutant in survivors:
        print(_diff(mutant, known.mutants.get(mutant.key, "not named in mutants.toml")))
    for mutant in noticed:
        print(_diff(mutant, "is noticed now: take it out of mutants.toml"))
    print()
    print_table(met, parts)
    return 1 if unnamed or noticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
