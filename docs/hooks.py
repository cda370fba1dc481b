"""Hooks of MkDocs: which files the site is made of, and the pages of the reference that are made from the code.

The site has the Markdown files of the repository at their own places, so a link means the same on the site, in an
editor and on a Git server.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "*.md",
    "docs/**/*.md",
    "config/README.md",
    "benchmarks/README.md",
    "envs/*/README.md",
    "data/published/README.md",
)
# Reports are copied as they are. Pages may link to those that count as assets, too.
REPORTS = "docs/gallery/*/report"
ASSETS = ("docs/site.css", "docs/images/*", "docs/gallery/*/study.yaml", f"{REPORTS}/*/index.html")
# What notebooks and packages with a family, a lint or a statistic of their own call.
PYTHON = {
    "Pages of a report": [
        "report.page",
        "report.exhibits.pagetables",
        "report.exhibits.pagefigures",
        "report.results.results",
    ],
    "Statistics": [
        "statistics.stats",
        "statistics.comparisons",
        "statistics.modes",
        "statistics.within_trial",
        "statistics.change_points",
        "statistics.mix_shift",
        "statistics.scalability",
        "statistics.steady",
        "statistics.histograms",
    ],
    "Families": ["model.family", "model.metrics", "model.parsing", "model.units", "model.causes", "model.errors"],
    "Lints": ["lints", "lints.model", "model.rules"],
    "Studies": ["model.study", "model.paths"],
}
_FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_LIST_BEHIND_TEXT = re.compile(r"^((?![-*] |\d+\. |\s|\|).+|\A)\n(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]*)\]\((?!\w+:|#)([^()#\s]+)(#[^()\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for the pages in it."""
    config.nav = _expanded(config.nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the repository, and those that are made, in the place of those of `docs_dir`."""
    theme = [file for file in files if file.abs_src_path is None or not _is_below(file.abs_src_path, config.docs_dir)]
    found = [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for pattern in (*PAGES, *ASSETS)
        for path in sorted({*ROOT.glob(pattern)} - ({*ROOT.glob(f"{REPORTS}/**/*.md")}))
    ]
    made = [File.generated(config, f"docs/reference/{name}", content=text) for name, text in _reference().items()]
    return Files([*theme, *found, *made])


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text as Python-Markdown takes it, without links to files of the repository that the site does not have.

    All other links are checked. A list right behind a line of text needs an empty line there, and none on a Git server.
    """
    folder = posixpath.dirname(page.file.src_uri)

    def text_of_what_is_elsewhere(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        elsewhere = files.get_file_from_path(target) is None and (ROOT / target).exists()
        return link[1] if elsewhere else link[0]

    parts = _FENCE.split(_LINK.sub(text_of_what_is_elsewhere, markdown))
    parts[::2] = [_LIST_BEHIND_TEXT.sub(r"\1\n\n", part) for part in parts[::2]]
    return "".join(parts)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Copy the reports of the gallery."""
    for report in ROOT.glob(REPORTS):
        shutil.copytree(report, Path(config.site_dir, report.relative_to(ROOT)), dirs_exist_ok=True)


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _expanded(nav: Iterable[Any]) -> list[Any]:
    """The same with the pages of a folder, in the order of their names, in the place of the folder."""
    expanded: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            [(title, value)] = entry.items()
            if isinstance(value, list):
                entry = {title: _expanded(value)}
            elif value == "docs/reference/python":
                entry = {title: [{name: f"{value}-{_slug(name)}.md"} for name in PYTHON]}
            elif (ROOT / value).is_dir():
                entry = {title: [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / value).glob("*.md"))]}
        expanded.append(entry)
    return expanded


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


def _reference() -> dict[str, str]:
    """Pages that are made from the code, by their names."""
    pages = {"commands.md": _commands()}
    for title, modules in PYTHON.items():
        parts = (
            f"## {module}\n\n::: benchstudy.{module}\n    options:\n      heading_level: 3\n" for module in modules
        )
        pages[f"python-{_slug(title)}.md"] = f"# {title}\n\n" + "\n".join(parts)
    return pages


def _commands() -> str:
    """The help of every command, as its parser prints it at 100 columns."""
    from benchstudy.commands import cli, completion

    os.environ["COLUMNS"] = "100"
    whole = cli.command_parser()
    parts = ["# Commands", _as_text(whole.format_help())]
    for name, parser in completion.parsers(whole).items():
        parts += [f"## `benchstudy {name}`", _as_text(parser.format_help())]
    return "\n\n".join(parts) + "\n"


def _as_text(help_text: str) -> str:
    return f"```text\n{help_text.rstrip()}\n```"
