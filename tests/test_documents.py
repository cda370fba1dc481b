"""The documentation site is complete, needs no network, and its reference follows the code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import CHECKOUT
from documents import TEXTS

from benchstudy.commands.cli import command_parser
from benchstudy.commands.completion import parsers

GLOSSARY = """
study host target role family case block trial session controller lease adopted disturbed
observation edition crate lint verdict margin
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. `--strict` fails for a link or an anchor that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path):
    pages = [page for page in site.rglob("*.html") if "report" not in page.parts]  # other tests look at reports
    assert len(pages) >= 60
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link\b[^>]*\brel=\"(?:stylesheet|preload|icon|preconnect)\"[^>]*", text)
        assert loaded and not [what for what in loaded if "//" in what], page
        # Diagrams would need a script that the theme loads from elsewhere.
        assert 'class="mermaid"' not in text and "language-mermaid" not in text, page


def test_the_site_has_every_document_a_search_and_both_colour_schemes(site: Path):
    for text in TEXTS:
        name = text.relative_to(CHECKOUT).as_posix()
        place = re.sub(r"README\.html$", "index.html", name.removesuffix(".md") + ".html")
        assert (site / place).is_file(), name
    home = (site / "index.html").read_text()
    assert 'data-md-color-scheme="slate"' in home and 'data-md-color-scheme="default"' in home
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert {"docs/glossary.html", "docs/reference/commands.html"} <= {
        entry["location"].split("#")[0] for entry in found
    }


def test_the_reference_has_every_command_and_every_function_of_the_statistics(site: Path):
    commands = (site / "docs" / "reference" / "commands.html").read_text()
    for name in parsers(command_parser()):
        assert f"<code>benchstudy {name}</code>" in commands
    python = (site / "docs" / "reference" / "python-statistics.html").read_text()
    assert 'id="benchstudy.statistics.comparisons.compare"' in python


def test_every_document_is_in_the_navigation():
    entries = yaml.dump(yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())["nav"])
    for document in sorted((CHECKOUT / "docs").glob("*.md")):
        assert f"docs/{document.name}" in entries
    for family in sorted((CHECKOUT / "docs" / "families").glob("*.md")):
        assert f"docs/families/{family.name}" in entries


def test_the_glossary_has_its_words():
    words = re.findall(r"^## (\w+)\n\S", (CHECKOUT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert [word.lower() for word in words] == GLOSSARY.split()
