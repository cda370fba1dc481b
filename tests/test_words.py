"""The rules for the words of documents that a machine can check: docs/development.md, Style."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import CHECKOUT
from documents import TEXTS

# What is counted, then "a", then the unit of the rate.
RATE = re.compile(
    r"\b(requests|operations|entries|leaves|samples|files|calls|bytes|events|users|lines|writes|reads|times|[KMG]?i?B|"
    r"line|row|object|page|file|folder|one|job|process) an? "
    r"(second|minute|hour|day|job|trial|page|figure|case|family|host|row|line|leaf|stage|level|letter|request|session)\b(?!')"
)


@pytest.mark.parametrize(
    "first", ["README.md", *(f"docs/{n}.md" for n in ("index", "tutorial", "design", "statistics", "reports"))]
)
def test_readers_are_led_to_the_glossary_where_they_meet_its_words(first: str):
    assert "glossary.md" in (CHECKOUT / first).read_text()


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.relative_to(CHECKOUT).as_posix())
def test_rates_are_written_with_per(text: Path):
    prose = re.sub(r"```.*?```|`[^`]*`", "", text.read_text(), flags=re.DOTALL)
    assert not [found[0] for found in RATE.finditer(" ".join(prose.split()))]


# What commands print that may be one, beside a noun in the plural.
COUNTED = re.compile(
    r" (?:new |more |raw )?(?:trials|cases|files|folders|objects|manifests|samples|problems|processors|rows|hosts)\b"
)
NEVER_ONE = {"len(hosts)", "self.trials"}  # more than a limit; `give_up_after` is at least 2


@pytest.mark.parametrize("layer", ["archive", "commands", "jobs", "measuring", "provenance", "provisioning"])
def test_what_may_be_one_is_printed_by_the_helper_for_plurals(layer: str):
    def parts() -> Iterator[tuple[ast.expr, ast.expr]]:
        for file in (CHECKOUT / "src" / "benchstudy" / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.JoinedStr):
                    yield from pairwise(node.values)

    assert not [
        ast.unparse(number.value) + noun.value
        for number, noun in parts()
        if isinstance(number, ast.FormattedValue) and isinstance(noun, ast.Constant) and COUNTED.match(noun.value)
        if "plural(" not in (said := ast.unparse(number.value)) and said not in NEVER_ONE and not said.isidentifier()
    ]
