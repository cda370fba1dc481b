"""The rules for the words of documents that a machine can check: docs/development.md, Style."""

import re
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
