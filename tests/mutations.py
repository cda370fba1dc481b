"""What is mutated, and how: every module in which a wrong sign would mean a wrong figure or a lost trial.

The mutations are cosmic-ray's. Its own runs start one pytest per mutant, and collecting takes longer than testing here,
so mutants.py uses forks instead. mutmut mutates only functions, and so misses the thresholds of a module.
"""

import ast
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

from benchstudy.model import registry, sources

# Replacements that change a calculation. Others, such as a shift of floats, end every test at once and prove nothing.
# Whether equal numbers and words are the same object is up to Python.
_CALCULATIONS = ({"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod"}, {"BitOr", "BitAnd", "BitXor"})
_IDENTITY = {"Is", "IsNot"}
_ARITHMETIC = set("+-*/%")


@dataclass(frozen=True)
class Mutant:
    """A module's text with one change: `was`, the changed lines of `function`, became `now`."""

    module: str
    function: str  # dotted, with its classes; "" outside of all functions
    line: int
    was: str
    now: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """A key that stays the same wherever in its module the function is."""
        return self.module, self.function, self.was, self.now

    def differs_from(self, text: str) -> bool:
        """Whether the text compiles to something else."""
        try:
            return compile(self.text, "", "exec") != compile(text, "", "exec")
        except SyntaxError:
            return False


def modules() -> dict[str, list[str]]:
    """What is mutated, by what it belongs to. Families are found, and so are the modules that their parsers use."""
    found = {
        "statistics": _package("benchstudy.statistics"),
        "comparisons": _package("benchstudy.report.comparisons"),
        "raw store and sessions": sorted(
            _within("benchstudy.measuring", "benchstudy.measuring.raw")
            | {f"benchstudy.measuring.{module}" for module in ("schedule", "session", "sessionindex")}
        ),
    }
    for family, package in registry.packages().items():
        # What a study says about a family is read by its models, before there is any output to parse.
        others = sources.closure([f"{package}.config", f"{package}.metrics"])
        found[f"parser of {family}"] = sorted(_within(package, f"{package}.parse") - others)
    return found


def _package(name: str) -> list[str]:
    folder = sources.path_of(name).parent
    return sorted(f"{name}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__")


def _within(package: str, root: str) -> set[str]:
    return {name for name in sources.closure([root]) if name.startswith(f"{package}.")}


class Sites:
    """The places of a module that can be mutated, each with its possible mutations."""

    def __init__(self, module: str):
        self.module, self.text = module, sources.path_of(module).read_text()
        self.lines = self.text.splitlines()
        self._tree = ast.parse(self.text)
        self._said_of_types = list(_annotations(self._tree))
        ways: dict[tuple[int, int], list[tuple[str, int]]] = {}
        nodes = list(ast_nodes(get_ast(self.text)))
        for name, operator in _operators().items():
            positions = (start for node in nodes for start in _positions(name, operator, node))
            for occurrence, start in enumerate(positions):
                if start is not None and not self._is_of_types(*start):
                    ways.setdefault(start, []).append((name, occurrence))
        self._ways = ways

    def __len__(self) -> int:
        return len(self._ways)

    def drawn(self, rng: random.Random) -> Iterator[Mutant]:
        """All sites in random order, each mutated in one of its ways."""
        for start in rng.sample(sorted(self._ways), len(self._ways)):
            yield self._mutant(start[0], *rng.choice(self._ways[start]))

    def of(self, was: str) -> Iterator[Mutant]:
        """All mutants whose changed lines may be these."""
        lines = set(was.splitlines())
        for (line, _), ways in self._ways.items():
            if self.lines[line - 1].strip() in lines:
                yield from (self._mutant(line, *way) for way in ways)

    def _mutant(self, line: int, name: str, occurrence: int) -> Mutant:
        try:
            text = mutate_code(self.text, _operators()[name], occurrence) or self.text
        except AttributeError:  # cosmic-ray cannot change these: exceptions with a dot in their name
            text = self.text
        was, now = _difference(self.lines, text.splitlines())
        function = ".".join(node.name for node in _around(self._tree, line))
        return Mutant(self.module, function, line, was, now, text)

    def body_at(self, line: int) -> range | None:
        """Lines of the outermost function around a line; None outside functions, as in a class."""
        for node in _around(self._tree, line):
            if isinstance(node, ast.FunctionDef):
                return range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        return None

    def statement_at(self, line: int) -> range:
        """Lines of the innermost statement there, without its body. A tracer may have seen any of them."""
        found = range(line, line + 1)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                body = getattr(node, "body", None) or getattr(node, "cases", None)
                end = min(_first_line(body[0]), node.end_lineno + 1) if body else node.end_lineno + 1
                if line < max(end, node.lineno + 1):
                    found = range(node.lineno, max(end, node.lineno + 1))
        return found

    def _is_of_types(self, line: int, column: int) -> bool:
        return any(begin <= (line, column) < end for begin, end in self._said_of_types)


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else getattr(node, "lineno", None) or node.pattern.lineno


def _around(tree: ast.AST, line: int) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if _first_line(node) <= line <= (node.end_lineno or 0):
                yield node
                yield from _around(node, line)
        else:
            yield from _around(node, line)


def _annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Type annotations, which only a type checker reads."""
    for node in ast.walk(tree):
        for said in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if said is not None:
                yield (said.lineno, said.col_offset), (said.end_lineno, said.end_col_offset)


def _difference(old: list[str], new: list[str]) -> tuple[str, str]:
    before = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - before
    after = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return tuple("\n".join(line.strip() for line in lines[before : len(lines) - after]) for lines in (old, new))


@cache
def _operators() -> Mapping[str, Operator]:
    classes = {name.rpartition("/")[2]: get_operator(name) for name in operator_names()}
    return {name: kind() for name, kind in classes.items() if not kind.arguments() and _is_of_use(name)}


def _is_of_use(name: str) -> bool:
    kind, *pair = name.split("_")
    if kind == "ReplaceBinaryOperator":
        return any(calculations.issuperset(pair) for calculations in _CALCULATIONS)
    if kind == "ReplaceComparisonOperator":
        return len(_IDENTITY.intersection(pair)) != 1
    return kind != "ReplaceUnaryOperator" or pair[0] == "Delete"


def _positions(name: str, operator: Operator, node) -> Iterator[tuple[int, int] | None]:
    """Where it begins; None for a place that is counted but not used, because it builds a sentence."""
    for start, _ in operator.mutation_positions(node):
        words = name.startswith("ReplaceBinaryOperator") and node.value in _ARITHMETIC and _is_beside_words(node)
        yield None if words else start


def _is_beside_words(node) -> bool:
    beside = (node.get_previous_leaf(), node.get_next_leaf())
    return any(leaf.type in ("string", "fstring_start", "fstring_end") for leaf in beside if leaf)
